//! Numbers that no machine gives, in every place of a saved run that holds a number: the page and the screen
//! end soon, stay small, and show no number that is none.

use super::fixtures;
use crate::{html, parse, terminal};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

/// As a file has them: the smallest there is, nothing, less than nothing, the largest fraction and whole
/// number.
const EXTREME: [&str; 5] = ["5e-324", "0", "-1", "1.7976931348623157e308", "18446744073709551615"];

/// So many of them are small.
const SMALL: usize = 3;

/// A page is made in some milliseconds.
const PATIENCE: Duration = Duration::from_secs(20);

/// Parts of a run that look alike whatever was measured: they are shown by the same code.
const SHARED: [&str; 3] = ["machine", "goal", "plan"];

/// Of a list its first items stay, and its last: what a page holds for ever more items is of no interest here.
const FIRST: usize = 3;

/// Where the numbers are, by what they are: the same field of all items of a list is one kind.
fn numbers(value: &Value, path: String, kind: String, found: &mut BTreeMap<String, Vec<String>>) {
    match value {
        Value::Number(_) => found.entry(kind).or_default().push(path),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                numbers(item, format!("{path}/{index}"), format!("{kind}/*"), found);
            }
        }
        Value::Object(fields) => {
            for (key, item) in fields {
                let key = key.replace('~', "~0").replace('/', "~1");
                numbers(item, format!("{path}/{key}"), format!("{kind}/{key}"), found);
            }
        }
        _ => {}
    }
}

fn kinds(value: &Value) -> BTreeMap<String, Vec<String>> {
    let mut found = BTreeMap::new();
    numbers(value, String::new(), String::new(), &mut found);
    found
}

/// A kind, and of which stage, where that makes a difference.
fn key(run: &Value, kind: &str) -> (String, String) {
    let shared = SHARED.iter().any(|part| kind.starts_with(&format!("/{part}/")));
    (if shared { String::new() } else { run["stage"].to_string() }, kind.to_string())
}

/// With short lists.
fn reduced(value: Value) -> Value {
    match value {
        Value::Array(mut items) => {
            if items.len() > FIRST {
                items.drain(FIRST..items.len() - 1);
            }
            items.into_iter().map(reduced).collect()
        }
        Value::Object(fields) => fields.into_iter().map(|(key, item)| (key, reduced(item))).collect(),
        other => other,
    }
}

/// A number that is none, as a word.
fn broken_number(text: &str) -> Option<&str> {
    let mut words = text.split(|c: char| !c.is_alphanumeric());
    words.find(|word| ["NaN", "nan", "inf", "Infinity"].contains(word))
}

/// What a saved run comes to; nothing where a number of its kind cannot be so.
fn shown(saved: &Value) -> Option<Vec<String>> {
    let text = serde_json::to_vec(saved).expect("JSON");
    let run = parse(&text, Path::new("run.json")).ok()?;
    Some(vec![html(&run), terminal(&run, 80, false)])
}

/// What is wrong with how it is shown; true where it was shown at all.
fn judged(saved: Value, largest: usize) -> (bool, Option<String>) {
    let (done, end) = channel();
    std::thread::spawn(move || done.send(shown(&saved)));
    let Ok(shown) = end.recv_timeout(PATIENCE) else { return (true, Some("it does not end".into())) };
    let texts = || shown.iter().flatten();
    let large = texts().map(String::len).find(|bytes| *bytes > largest);
    let broken = texts().find_map(|text| broken_number(text));
    let wrong = large.map(|bytes| format!("{bytes} bytes")).or(broken.map(|word| format!("shows {word}")));
    (shown.is_some(), wrong)
}

/// Each kind of number has its extremes once, in the smallest saved run that has such a number: what is drawn in charts all,
/// the others the largest and one of the small ones.
#[test]
fn no_number_in_a_saved_run_hangs_or_swells_its_report() {
    let read = |path| serde_json::from_slice(&std::fs::read(path).expect("a fixture")).expect("JSON");
    let whole: Vec<Value> = fixtures().into_iter().map(read).collect();
    let all = whole.iter().flat_map(|run| kinds(run).into_keys().map(|kind| key(run, &kind)));
    let all: BTreeSet<(String, String)> = all.collect();
    let mut runs: Vec<Value> = whole.into_iter().map(reduced).collect();
    runs.sort_by_key(|run| run.to_string().len());
    let (mut places, mut shown_ones, mut met) = (0, 0, BTreeSet::new());
    for run in runs {
        let sizes = shown(&run).expect("a saved run").into_iter().map(|text| text.len());
        let largest = 2 * sizes.max().unwrap_or(0) + 100_000;
        let new = kinds(&run).into_iter().filter(|(kind, _)| met.insert(key(&run, kind))).enumerate();
        for (index, (kind, paths)) in new {
            let drawn = !key(&run, &kind).0.is_empty() && run.get("stage").is_some();
            let of_kind = |extreme: &usize| drawn || *extreme >= SMALL || *extreme == index % SMALL;
            for extreme in (0..EXTREME.len()).filter(of_kind) {
                let text = EXTREME[extreme];
                let mut changed = run.clone();
                // Of those of a kind another one each time.
                let place = changed.pointer_mut(&paths[extreme * 7 % paths.len()]).expect("a number");
                *place = serde_json::from_str(text).expect("a number");
                let (shown, fault) = judged(changed, largest);
                (places, shown_ones) = (places + 1, shown_ones + usize::from(shown));
                assert_eq!(fault, None, "{kind} {text} of {}", run["stage"]);
            }
        }
    }
    let lost: Vec<_> = all.difference(&met).collect();
    assert!(lost.is_empty(), "short lists lack {lost:?}");
    assert!(shown_ones > places / 2, "only {shown_ones} of {places} were shown");
}
