//! `run.json` from anywhere: read, shown, diagnosed again. Once as any bytes, once as changes to a run that
//! is whole.

use super::Bytes;
use linerate::diagnose::{Diagnosis, diagnose};
use linerate::report;
use linerate::run::{Run, SCHEMA};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::OnceLock;

/// A sample with changes is not changed any more from this size on, bytes.
const LARGEST: usize = 200_000;

/// Any bytes as a `run.json`.
pub fn run_json(input: &[u8]) {
    match report::parse(input, Path::new("run.json")) {
        Ok(run) => show(run),
        Err(failure) => assert!(!failure.to_string().is_empty()),
    }
}

/// A sample run with some of its values changed for others of their kind: what a fuzzer does not write by
/// itself.
pub fn run_edits(input: &[u8]) {
    static SAMPLES: OnceLock<[Value; 2]> = OnceLock::new();
    let samples = SAMPLES.get_or_init(|| {
        [
            include_str!("../../fixtures/run-lab-disks.json"),
            include_str!("../../fixtures/run-unequal-nics.json"),
        ]
        .map(|text| serde_json::from_str(text).expect("a fixture is JSON"))
    });
    let mut bytes = Bytes(input);
    let mut run = samples[usize::from(bytes.byte()) % samples.len()].clone();
    // Copies of copies would grow without end, and nothing of linerate's would be to blame.
    while !bytes.is_empty() && weight(&run) < LARGEST {
        edit(&mut run, &mut bytes);
    }
    if let Ok(run) = serde_json::from_value::<Run>(run) {
        // Another schema is not read at all.
        show(Run { schema: SCHEMA, ..run });
    }
}

/// Every screen fits, no page has markup or control characters of the file's, and no number is lost on the
/// way.
pub(crate) fn show(mut run: Run) {
    screens(&run);
    let Some(plan) = &run.plan else { return };
    let diagnosis = diagnose(&run.machine, &run.goal, plan, &run.measurements);
    let again = serde_json::to_value(&diagnosis).expect("a diagnosis is JSON");
    assert!(serde_json::from_value::<Diagnosis>(again).is_ok(), "a number that is none: {diagnosis:?}");
    run.diagnosis = Some(diagnosis);
    screens(&run);
}

fn screens(run: &Run) {
    // One stage has a line for each of its figures, and a wider screen.
    let (lines, columns) = if run.stage.is_none() { (40, 110) } else { (usize::MAX, 140) };
    // Output that is no terminal has no width.
    for (width, limit) in [(0, 60), (83, 83), (200, columns), (report::NO_SCREEN, usize::MAX)] {
        let screen = report::terminal(run, width, false);
        let lines = if width == report::NO_SCREEN { usize::MAX } else { lines };
        assert!(screen.lines().count() <= lines, "{} lines:\n{screen}", screen.lines().count());
        for line in screen.lines() {
            assert!(line.chars().count() <= limit, "wider than {limit}: {line:?}");
            assert!(!line.contains(char::is_control), "{line:?}");
        }
    }
    let page = report::html(run);
    assert!(!page.contains(|c: char| c.is_control() && c != '\n'), "control characters in the page");
    assert!(!page.contains("<script"), "a script in the page");
    let json = report::json(run);
    assert!(
        report::parse(json.as_bytes(), Path::new("run.json")).is_ok(),
        "what was saved is not read again"
    );
}

/// About the bytes of a value as JSON.
fn weight(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(weight).sum::<usize>() + 2,
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| key.len() + 4 + weight(value)).sum::<usize>() + 2
        }
        _ => 5,
    }
}

/// Walks down from the top, a byte a step, and changes the value that it ends at.
fn edit(run: &mut Value, bytes: &mut Bytes) {
    let donor = walk(run, bytes).clone();
    let value = walk(run, bytes);
    let how = bytes.byte();
    *value = match value.take() {
        Value::Bool(flag) => json!(!flag),
        Value::Number(before) => match (how % 4, &donor) {
            (0, Value::Number(other)) => json!(other),
            (1, _) if before.is_f64() => json!(f64::from_bits(bytes.number())),
            (1, _) => json!(bytes.number() >> (bytes.byte() % 64)),
            _ => {
                let table = [
                    json!(0),
                    json!(-1),
                    json!(1e308),
                    json!(5e-324),
                    json!(-1e308),
                    json!(u64::MAX),
                    json!(u32::MAX),
                ];
                table[usize::from(how / 4) % table.len()].clone()
            }
        },
        Value::String(before) => match (how % 4, donor) {
            (0, Value::String(other)) => json!(other),
            (1, Value::String(other)) => json!(before + &other),
            (2, _) => json!(before.chars().take(1000).collect::<String>().repeat(bytes.byte().into())),
            _ => {
                let length = bytes.byte().into();
                json!(String::from_utf8_lossy(bytes.slice(length)))
            }
        },
        Value::Array(mut items) => {
            let at = usize::from(bytes.byte()).min(items.len());
            match how % 4 {
                0 => items.truncate(at),
                1 if at < items.len() => drop(items.remove(at)),
                2 => items.insert(at, donor),
                _ => items.extend_from_within(..at),
            }
            Value::Array(items)
        }
        Value::Object(mut fields) => {
            let key =
                fields.keys().nth(usize::from(how / 2) % fields.len().max(1)).cloned().unwrap_or_default();
            match how % 2 {
                0 => fields.insert(key, donor),
                _ => fields.remove(&key),
            };
            Value::Object(fields)
        }
        Value::Null => donor,
    };
}

/// The value that some bytes lead to: at each level the byte chooses a child, 255 stays.
fn walk<'a>(from: &'a mut Value, bytes: &mut Bytes) -> &'a mut Value {
    let mut here = from;
    loop {
        let children = match &*here {
            Value::Array(items) => items.len(),
            Value::Object(fields) => fields.len(),
            _ => 0,
        };
        let choice = bytes.byte();
        if children == 0 || choice == 255 {
            return here;
        }
        let child = usize::from(choice) % children;
        here = match here {
            Value::Array(items) => &mut items[child],
            Value::Object(fields) => match fields.values_mut().nth(child) {
                Some(value) => value,
                None => unreachable!("a child that was counted"),
            },
            leaf => return leaf,
        };
    }
}
