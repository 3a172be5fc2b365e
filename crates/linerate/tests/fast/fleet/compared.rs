//! `linerate compare` of two fleets: what changed, and what cannot be compared.

use super::ended;
use crate::support::linerate;
use ::linerate::run::Run;
use serde_json::{Value, json};
use std::path::Path;

/// Five members of which h4 receives at this share of the others.
fn fleet(pattern: &str, share: f64, version: &str) -> Value {
    let names: Vec<String> = (1..=5).map(|number| format!("h{number}")).collect();
    let member = |name: &String| {
        json!({ "name": name, "address": "10.0.0.1:7", "version": version, "clock_offset_seconds": 0.0,
                "clock_error_seconds": 0.0, "time_of_day_offset_seconds": 0.0 })
    };
    let cell = |from: &String, to: &String| {
        let rate = 1e8 * if to == "h4" { share } else { 1.0 };
        let samples: Vec<f64> = [0.99, 1.0, 1.01, 0.995].iter().map(|share| share * rate).collect();
        json!({ "from": from, "to": to, "window": 0, "bytes_per_second": rate, "samples": samples, "retransmits": 0 })
    };
    let pairs = names.iter().flat_map(|from| names.iter().map(move |to| (from, to)));
    let cells: Vec<Value> = pairs.filter(|(from, to)| from != to).map(|(from, to)| cell(from, to)).collect();
    let fleet = json!({ "pattern": pattern,
            "seconds": 2.0, "streams": 4, "members": names.iter().map(member).collect::<Vec<_>>(),
            "absent": [], "differences": [],
            "windows": [{ "flows": 20, "bytes_per_second": 2e9, "start_skew_seconds": 0.0 }],
            "cells": cells, "verdict": { "sentence": "no host stands out", "members": [], "links": [] } });
    let run = ::linerate::fleet::run_of(&serde_json::from_value(fleet).expect("a fleet"));
    serde_json::to_value(Run { version: version.into(), ..run }).expect("JSON")
}

fn compare(words: &[&str]) -> (i32, String, String) {
    ended(linerate().arg("compare").args(words))
}

fn saved(folder: &Path, name: &str, fleet: &Value) -> String {
    let place = folder.join(name);
    std::fs::create_dir_all(&place).expect("a folder");
    std::fs::write(place.join("run.json"), fleet.to_string()).expect("a fleet");
    place.to_string_lossy().into_owned()
}

#[test]
fn flows_that_changed_are_named_on_screen_in_json_and_on_the_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let before = saved(folder.path(), "before", &fleet("pairs", 1.0, "0.1.0"));
    let after = saved(folder.path(), "after", &fleet("pairs", 0.4, "0.2.0"));
    let (status, stdout, stderr) = compare(&[&before, &after]);
    assert_eq!(status, 0, "{stderr}");
    assert!(stdout.contains("h1 to h4") && stdout.contains("−60 %"), "{stdout}");
    assert!(
        stdout.contains("after against before: faster in 0, slower in 4, no difference shown in 16."),
        "{stdout}"
    );
    assert!(stdout.contains("linerate: 0.1.0 | 0.2.0"), "{stdout}");
    let output = folder.path().join("out");
    let words = [&before, &format!("{after}/run.json"), "--json", "--output", &output.to_string_lossy()];
    let (status, stdout, stderr) = compare(&words);
    assert_eq!(status, 0, "{stderr}");
    let result: Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!(result["rows"].as_array().map(Vec::len), Some(20));
    assert_eq!(
        (&result["runs"][1]["label"], &result["runs"][1]["host"]),
        (&"after".into(), &"5 hosts".into())
    );
    let page = std::fs::read_to_string(output.join("report.html")).expect("the page");
    assert!(page.contains("h1 to h4") && page.contains("slower in 4"), "{page}");
    assert!(output.join("compare.json").exists());
    // As runs: several, and as CSV.
    let (status, stdout, stderr) = compare(&[&before, &after, &after, "--csv"]);
    assert!(status == 0 && stdout.contains("h1 to h4"), "{stdout}{stderr}");
}

#[test]
fn what_cannot_be_compared_is_refused_in_one_sentence() {
    let folder = tempfile::tempdir().expect("a folder");
    let pairs = saved(folder.path(), "pairs", &fleet("pairs", 1.0, "0.1.0"));
    let incast = saved(folder.path(), "incast", &fleet("incast", 1.0, "0.1.0"));
    let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/run-lab-disks.json");
    let run = run.to_string_lossy().into_owned();
    let mut damaged = fleet("pairs", 1.0, "0.1.0");
    damaged["cells"][3]["samples"] = "none".into();
    let damaged = saved(folder.path(), "damaged", &damaged);
    for (words, says) in [
        (&[&pairs[..], &damaged][..], "not a whole run: line 1, column"),
        (&[&pairs[..], &incast][..], "pairs and the other incast"),
        (&[&pairs[..], &run], "nothing in common"),
    ] {
        let (status, stdout, stderr) = compare(words);
        assert_eq!((status, stdout.as_str()), (2, ""), "{words:?}: {stderr}");
        assert!(stderr.contains(says), "{words:?}: {stderr}");
    }
}
