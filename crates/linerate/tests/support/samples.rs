//! Sample runs for the tests of the report: the saved ones of `fixtures`, of no real machine.

use linerate::report;
use linerate::run::Run;
use serde_json::Value;
use std::path::{Path, PathBuf};

const NAMES: [&str; 5] = ["loopback", "lab-disks", "unequal-nics", "big-server", "partial"];

/// Every sample run by the name of its fixture (`fixtures/run-NAME.json`).
pub fn all() -> Vec<(&'static str, Run)> {
    NAMES.map(|name| (name, read(name))).into()
}

pub fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(format!("run-{name}.json"))
}

fn read(name: &str) -> Run {
    report::read(&file(name)).expect("a fixture that can be read")
}

/// A plain virtual machine: one disk of unknown rating, loopback, no rated ceiling.
pub fn loopback() -> Run {
    read("loopback")
}

/// The lab: four disks of 50 MB/s, one NIC of 10 Gb/s.
pub fn lab_disks() -> Run {
    read("lab-disks")
}

/// Two NICs of unlike speed limit the flow.
pub fn unequal_nics() -> Run {
    read("unequal-nics")
}

/// Two packages, four NUMA nodes, 64 NVMe disks of which one lags, 16 NICs of 100 Gb/s.
pub fn big_server() -> Run {
    read("big-server")
}

/// A run that lost its peer in the middle: some measurements, no diagnosis, errors.
pub fn partial() -> Run {
    read("partial")
}

/// With the diagnosis of today, where it has one.
pub fn diagnosed_again(run: &Run) -> Run {
    let mut diagnosis =
        serde_json::to_value(run.diagnosis.as_ref().and_then(|_| run.diagnose())).expect("JSON");
    shorten(&mut diagnosis);
    Run { diagnosis: serde_json::from_value(diagnosis).expect("a diagnosis"), ..run.clone() }
}

/// Six digits: more would only make the files longer.
fn shorten(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            let short: f64 = format!("{:.5e}", number.as_f64().unwrap_or(0.0)).parse().expect("a number");
            *value = serde_json::json!(short);
        }
        Value::Array(items) => items.iter_mut().for_each(shorten),
        Value::Object(fields) => fields.values_mut().for_each(shorten),
        _ => {}
    }
}

/// Nothing of a page comes from elsewhere, or runs.
pub fn loads_nothing(page: &str, name: &str) {
    for reference in ["http:", "https:", "src=", "href=", "url(", "@import", "<script", "<link", "<iframe"] {
        assert!(!page.contains(reference), "{name}: {reference}");
    }
    assert!(page.contains("default-src 'none'"), "{name}");
}
