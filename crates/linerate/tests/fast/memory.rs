//! `linerate memory` as a user runs it: what it prints, what it saves, what it refuses.

use crate::support::process::{Ends, ProcessEnd, Started, until};
use serde_json::Value;
use std::time::Duration;

fn linerate(words: &[&str]) -> ProcessEnd {
    crate::support::linerate().args(words).ended()
}

fn memory(words: &[&str]) -> ProcessEnd {
    linerate(&[&["memory", "--seconds", "0.1", "--repeats", "2"], words].concat())
}

fn of<'a>(run: &'a Value, kernel: &str) -> Vec<&'a Value> {
    let all = run["measurements"].as_array().expect("measurements");
    all.iter().filter(|one| one["memory"]["kernel"] == kernel).collect()
}

#[test]
fn every_kernel_and_store_gives_a_figure() {
    let run = memory(&["--working-set", "3M", "--cores", "1", "--json"]).gives(0).json();
    assert_eq!((&run["schema"], &run["stage"]), (&2.into(), &"memory".into()));
    let stores = if cfg!(target_arch = "x86_64") { 2 } else { 1 };
    for (kernel, figures) in
        [("read", 1), ("write", stores), ("copy", stores), ("triad", stores), ("latency", 1)]
    {
        let found = of(&run, kernel);
        assert_eq!(found.len(), figures, "{kernel}");
        for figure in found {
            assert_eq!(figure["samples"].as_array().map(Vec::len), Some(2), "{figure}");
            assert!(figure["bytes_per_second"].as_f64().is_some_and(|rate| rate > 1e5), "{figure}");
            assert_eq!(figure["memory"]["cores"], 1);
            assert_eq!(figure["memory"]["store"].is_string(), !["read", "latency"].contains(&kernel));
        }
    }
    let latency = of(&run, "latency")[0]["memory"]["latency_seconds"].as_f64().expect("a latency");
    assert!((1e-11..1e-3).contains(&latency), "{latency} s");
}

/// A load from the first cache is faster than one from memory on whatever machine: the chase is not a loop over
/// one line.
#[test]
fn latency_grows_with_the_working_set() {
    let run = memory(&["--kernels", "latency", "--working-set", "16k,64M", "--cores", "1", "--json"])
        .gives(0)
        .json();
    let found = of(&run, "latency");
    let seconds = |at: usize| found[at]["memory"]["latency_seconds"].as_f64().expect("a latency");
    // Far less than the factor of any machine, for this one is busy with other tests.
    assert!(seconds(1) > 2.0 * seconds(0), "16 KiB {} s, 64 MiB {} s", seconds(0), seconds(1));
}

/// openBench's test: of each line that comes from memory ever fewer bytes are used.
#[test]
fn bandwidth_falls_with_the_stride() {
    let words =
        ["--kernels", "read", "--stride", "4,64,4k", "--working-set", "64M", "--cores", "1", "--json"];
    let run = memory(&words).gives(0).json();
    // The best sample: what runs beside it only takes from the others.
    let rate = |stride: u64| {
        let figures = of(&run, "read");
        let one = figures.iter().find(|one| one["memory"]["stride_bytes"] == stride).expect("the stride");
        let samples =
            one["samples"].as_array().expect("samples").iter().filter_map(serde_json::Value::as_f64);
        samples.fold(0.0, f64::max)
    };
    assert!(rate(4) > 2.0 * rate(4096), "{} and {}", rate(4), rate(4096));
    assert!(rate(4) > rate(64), "{} and {}", rate(4), rate(64));
    assert!(rate(64) > rate(4096) * 0.5, "a page's words come no faster than a line's");
}

#[test]
fn the_screen_has_a_column_for_each_kind() {
    let output = memory(&["--working-set", "L1,1M", "--cores", "1,all"]);
    output.gives(0);
    let screen = output.stdout;
    for word in ["read", "write", "copy", "triad", "latency", "plain", "1 core", "L1"] {
        assert!(screen.contains(word), "no {word} in\n{screen}");
    }
    assert!(screen.lines().all(|line| line.chars().count() <= 110), "{screen}");
    assert!(output.stderr.is_empty(), "no progress where no terminal is: {}", output.stderr);
}

#[test]
fn a_result_is_saved_whole() {
    let folder = linerate_testing::folder_in_memory();
    let place = folder.path().join("result");
    let words = ["--kernels", "read", "--working-set", "1M", "--output", place.to_str().expect("a name")];
    assert!(memory(&words).status.success());
    let saved = std::fs::read(place.join("run.json")).expect("run.json");
    let run: linerate::run::Run = serde_json::from_slice(&saved).expect("a stage's run");
    assert_eq!(run.measurements.len(), 1);
    assert!(run.errors.is_empty(), "{:?}", run.errors);
    let again = memory(&words);
    assert_eq!(again.status.code(), Some(2), "a used folder is not written over");
    assert!(again.stderr.contains("holds a run already"));
}

#[test]
fn wrong_words_are_one_sentence() {
    for (words, says) in [
        (&["--working-set", "100"][..], "name at least"),
        (&["--working-set", "90000G"], "third of the available memory"),
        (&["--working-set", "big"], "is not a working set"),
        (&["--working-set", "L9"], "no such cache"),
        (&["--stride", "3"], "multiple of 4"),
        (&["--stride", "2M"], "between 4 and 1M"),
        (&["--cores", "0"], "not a number of cores"),
        (&["--cores", "100000"], "this process may use"),
        (&["--kernels", "latency", "--stride", "64"], "nothing is left"),
        (&["--kernels", "sort"], "invalid value"),
    ] {
        let output = memory(words);
        let said = &output.stderr;
        assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
        assert!(said.contains(says) && !said.contains("panicked"), "{words:?}: {said}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn ctrl_c_keeps_what_was_measured() {
    let folder = linerate_testing::folder_in_memory();
    let place = folder.path().join("result");
    let words =
        ["memory", "--working-set", "1M", "--cores", "1", "--seconds", "0.1", "--repeats", "10", "--json"];
    let child = Started::of(crate::support::linerate().args(words).arg("--output").arg(&place));
    let measured = || {
        let text = std::fs::read(place.join("run.json")).ok()?;
        let run: Value = serde_json::from_slice(&text).ok()?;
        run["measurements"].as_array().map(Vec::len)
    };
    until("a figure is there", || measured().unwrap_or(0) > 0);
    // A second on a quiet machine.
    let output = child.interrupted(Duration::from_secs(10));
    assert_eq!(output.status.code(), Some(1));
    let run = output.json();
    assert!(run["errors"][0].as_str().is_some_and(|error| error.contains("interrupted")), "{run}");
    assert!(measured().is_some_and(|count| count > 0));
}
