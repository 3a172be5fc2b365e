//! Numbers that no machine gives, in every place of a saved run that holds a number: the page and the screen
//! end soon, stay small, and show no number that is none.

use crate::{html, parse, terminal};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::Duration;

/// As a file has them: the smallest there is, nothing, less than nothing, the largest fraction and whole
/// number.
const EXTREME: [&str; 5] = ["5e-324", "0", "-1", "1.7976931348623157e308", "18446744073709551615"];

/// A page is made in some milliseconds.
const PATIENCE: Duration = Duration::from_secs(20);

fn fixtures() -> Vec<(PathBuf, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let entries =
        std::fs::read_dir(folder).expect("the fixtures").map(|entry| entry.expect("a fixture").path());
    let is_saved = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.ends_with(".json") && (name.starts_with("run-") || name.starts_with("stage-"))
    };
    let mut saved: Vec<PathBuf> = entries.filter(is_saved).collect();
    saved.sort();
    saved.into_iter().map(|path| (path.clone(), read(&path))).collect()
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).expect("a fixture")).expect("JSON")
}

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

/// The same with lists as short as they can be: of each an item stays that has a kind of number, or a kind of item,
/// which those before it lack, and one more. What a page holds for ever more items is of no interest here.
fn reduced(value: &Value) -> Value {
    match value {
        Value::Array(items) => {
            let (mut seen, mut spare, mut kept) = (BTreeSet::new(), 1, Vec::new());
            for item in items {
                let mut kinds = BTreeSet::new();
                shapes(item, String::new(), &mut kinds);
                if !kinds.is_subset(&seen) {
                    seen.extend(kinds);
                } else if spare > 0 {
                    spare -= 1;
                } else {
                    continue;
                }
                kept.push(reduced(item));
            }
            Value::Array(kept)
        }
        Value::Object(fields) => {
            Value::Object(fields.iter().map(|(key, item)| (key.clone(), reduced(item))).collect())
        }
        other => other.clone(),
    }
}

/// What there is in a value: its fields with what they hold, and words that are the kind of something.
fn shapes(value: &Value, path: String, found: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| shapes(item, format!("{path}/*"), found)),
        Value::Object(fields) => {
            fields.iter().for_each(|(key, item)| shapes(item, format!("{path}/{key}"), found));
        }
        Value::String(word) if ["kind", "stage", "id", "level"].iter().any(|key| path.ends_with(key)) => {
            let letters: String = word.chars().filter(|letter| letter.is_alphabetic()).collect();
            found.insert(format!("{path}={letters}"));
        }
        Value::Number(_) => drop(found.insert(format!("{path}=number"))),
        Value::String(_) => drop(found.insert(format!("{path}=text"))),
        Value::Bool(is) => drop(found.insert(format!("{path}={is}"))),
        Value::Null => drop(found.insert(format!("{path}=null"))),
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

#[test]
fn no_number_in_a_saved_run_hangs_or_swells_its_report() {
    let (mut places, mut told, mut wrong) = (0, 0, Vec::new());
    let mut judged_of_stages = BTreeSet::new();
    for (path, saved) in fixtures() {
        let (mut of_all, mut found) = (BTreeMap::new(), BTreeMap::new());
        numbers(&saved, String::new(), String::new(), &mut of_all);
        let saved = reduced(&saved);
        numbers(&saved, String::new(), String::new(), &mut found);
        assert!(of_all.keys().eq(found.keys()), "{}: each kind of number stays", path.display());
        let whole = shown(&saved).unwrap_or_else(|| panic!("{} is no saved run", path.display()));
        let largest = 2 * whole.iter().map(String::len).max().unwrap_or(0) + 100_000;
        // A whole run has no charts and many kinds of numbers: each gets one extreme, the next kind the next.
        let whole_run = saved.get("stage").is_none();
        let parts: Vec<&String> = saved.as_object().expect("an object").keys().collect();
        let shape = format!("{} {parts:?}", saved["stage"]);
        for (extreme, text) in EXTREME.iter().enumerate() {
            let number: Value = serde_json::from_str(text).expect("a number");
            for (index, (kind, all)) in found.iter().enumerate() {
                if whole_run && index % EXTREME.len() != extreme {
                    continue;
                }
                // Two runs of one command with the same parts are shown by the same code.
                if !whole_run && !judged_of_stages.insert((shape.clone(), kind.clone(), extreme)) {
                    continue;
                }
                let mut changed = saved.clone();
                // Of those of a kind another one each time.
                *changed.pointer_mut(&all[extreme * 7 % all.len()]).expect("a number") = number.clone();
                let (shown, fault) = judged(changed, largest);
                (places, told) = (places + 1, told + usize::from(shown));
                wrong.extend(fault.map(|fault| format!("{}: {kind} {text}: {fault}", path.display())));
                // What does not end goes on beside the others, and eats memory.
                assert!(wrong.last().is_none_or(|last| !last.ends_with("end")), "{wrong:#?}");
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(told > places / 2, "only {told} of {places} were shown");
}
