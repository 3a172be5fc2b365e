//! `linerate disk` as a user meets it: what it prints and saves, what it leaves (nothing), and one sentence
//! for each bad input.

mod bad;

use crate::support::disk::{QUICK, disk, json, measurements, place, ran};
use crate::support::process::Ends;
use crate::support::{names, text};
use serde_json::Value;

#[test]
fn a_grid_has_every_combination_and_leaves_nothing() {
    let Some(place) = place() else { return };
    let line = format!(
        "--source {} --workers 1,3 --transfer 64k,1M --layout file-per-worker,segmented,strided --access \
          read,write --queue-depth 4",
        text(place.path())
    );
    let words: Vec<&str> = line.split(' ').collect();
    let run = json(&[&words[..], &QUICK].concat(), 0);
    assert_eq!((&run["schema"], &run["stage"]), (&2.into(), &"disk".into()));
    assert!(run["machine"]["cpu"].is_object() && run["diagnosis"]["findings"].is_array());
    let measurements = measurements(&run);
    assert_eq!(measurements.len(), 2 * 2 * 3 * 2);
    for one in measurements {
        assert_eq!(one["samples"].as_array().map(Vec::len), Some(2), "{}", one["name"]);
        assert!(one["bytes_per_second"].as_f64().is_some_and(|rate| rate > 0.0), "{}", one["name"]);
        let access = &one["access"];
        let side = if access["job"]["access"]["kind"] == "read" { "reads" } else { "writes" };
        let latency = &access[side]["latency"];
        let at = |name: &str| latency[name].as_f64().expect("a latency");
        assert!(at("minimum") <= at("p50") && at("p50") <= at("p99") && at("p99") <= at("p99_99"));
        assert!(access["checks"]["little_depth"].as_f64().is_some_and(|depth| depth > 0.0));
        let transfer = access["job"]["transfer_bytes"].as_f64().expect("a size");
        let told = access[side]["operations_per_second"].as_f64().expect("IOPS") * transfer;
        let rate = access[side]["bytes_per_second"].as_f64().expect("a rate");
        assert!((told / rate - 1.0).abs() < 1e-6, "IOPS × size is the rate");
    }
    assert!(names(place.path()).is_empty(), "{:?}", names(place.path()));
}

#[test]
fn amounts_are_read_and_written_to_the_byte() {
    let Some(place) = place() else { return };
    for engine in ["io-uring", "psync", "mmap"] {
        for access in ["read", "write"] {
            let line = format!(
                "--source {} --workers 3 --amount 3M --block 1M --transfer 256k --layout strided --reorder --fsync \
                  --repeats 1 --engine {engine} --access {access}",
                text(place.path())
            );
            let words: Vec<&str> = line.split(' ').collect();
            let run = json(&words, 0);
            let access = &measurements(&run)[0]["access"];
            let side = if access["reads"].is_null() { &access["writes"] } else { &access["reads"] };
            assert_eq!(side["bytes"], 9 << 20, "{engine}");
            assert_eq!(side["operations"], 36, "{engine}");
            let rate = |name: &str| access[name].as_f64().expect("a rate");
            assert!(rate("last_done_bytes_per_second") > 0.0);
            assert!(rate("first_done_bytes_per_second") > 0.0);
        }
    }
    assert!(names(place.path()).is_empty());
}

#[test]
fn durable_writes_of_any_length_are_synced_one_by_one() {
    let Some(place) = place() else { return };
    let common =
        ["--source", text(place.path()), "--transfer", "2300", "--amount", "230000", "--repeats", "1"];
    for (sync, every, syncs) in [("data", "1", Some(100)), ("full", "8", Some(12)), ("direct", "1", None)] {
        let run = json(&[&common[..], &["--sync", sync, "--every", every]].concat(), 0);
        let access = &measurements(&run)[0]["access"];
        assert_eq!(access["job"]["sync"]["method"], sync);
        // No whole sectors: not past the page cache.
        assert_eq!((&access["job"]["direct"], &access["writes"]["bytes"]), (&false.into(), &230_000.into()));
        assert_eq!(access["syncs"]["operations"].as_u64(), syncs, "{sync}");
        let p99 = |of: &Value| of["p99"].as_f64().expect("a percentile");
        if syncs.is_some() {
            assert!(p99(&access["syncs"]["latency"]) <= p99(&access["syncs"]["with_write"]), "{access}");
        }
    }
    let words = ["--sync", "data", "--queue-depth", "1,4", "--pattern", "sequential,random", "--every", "2"];
    let screen =
        ran(&[&["--source", text(place.path())], &words[..], &QUICK].concat()).gives(0).stdout.clone();
    for says in
        ["sequential write, 4 KiB × 1, 1 worker, fdatasync every 2 writes", "a write with its sync", "random"]
    {
        assert!(screen.contains(says), "no “{says}” in:\n{screen}");
    }
    assert!(names(place.path()).is_empty());
}

#[test]
fn the_screen_reports_figures_the_page_checks_too_and_the_folder_is_read_again() {
    let Some(place) = place() else { return };
    let folder = place.path().join("result");
    let source = place.path().join("disk");
    std::fs::create_dir(&source).expect("a directory");
    let words = ["--source", text(&source), "--access", "mixed", "--output", text(&folder), "--name", "mine"];
    let output = ran(&[&words[..], &QUICK].concat());
    output.gives(0);
    let screen = &output.stdout;
    for word in ["disk: mine", "sequential mixed 70 % read", "random mixed", "writes", "p99"] {
        assert!(screen.contains(word), "no “{word}” in:\n{screen}");
    }
    // A terminal has the checks where they object, the page has all of them.
    let page = std::fs::read_to_string(folder.join("report.html")).expect("the page");
    assert!(page.contains("rate × latency") && !screen.contains("rate × latency"), "{screen}");
    assert!(screen.lines().all(|line| line.chars().count() <= 140), "{screen}");
    let saved = std::fs::read(folder.join("run.json")).expect("saved");
    let saved: Value = serde_json::from_slice(&saved).expect("JSON");
    assert_eq!((&saved["name"], measurements(&saved).len()), (&"mine".into(), 2));
    assert!(names(&source).is_empty());
}

/// Measures so many folders of this one.
fn scaled(place: &tempfile::TempDir, count: u32, words: &[&str]) -> Value {
    let sources: Vec<_> = (0..count).map(|index| place.path().join(format!("disk{index}"))).collect();
    sources.iter().for_each(|source| std::fs::create_dir(source).expect("a directory"));
    let sources: Vec<&str> = sources.iter().flat_map(|source| ["--source", text(source)]).collect();
    json(&[words, &sources, &QUICK].concat(), 0)
}

#[test]
fn scaling_compares_each_number_of_sources_with_the_same_alone() {
    let Some(place) = place() else { return };
    let words = ["--scaling", "--access", "read", "--pattern", "sequential"];
    let run = scaled(&place, 3, &words);
    let steps = run["scaling"]["steps"].as_array().expect("steps");
    let devices: Vec<u64> = steps.iter().filter_map(|step| step["devices"].as_u64()).collect();
    assert_eq!(devices, [1, 2, 3]);
    assert!((steps[0]["share"].as_f64().expect("a share") - 1.0).abs() < 1e-9, "one is all of itself");
    assert_eq!(measurements(&run).len(), 3 + 2, "each alone, then two and three");
}

#[test]
fn scaling_measures_every_cell_of_the_grid_against_its_own_baseline() {
    let Some(place) = place() else { return };
    let words = ["--scaling", "--access", "read", "--workers", "2,5", "--transfer", "64k,1M"];
    let run = scaled(&place, 2, &words);
    let scaling = &run["scaling"];
    let further = scaling["further"].as_array().expect("the other cells");
    let cells: Vec<&str> =
        std::iter::once(scaling).chain(further).map(|cell| cell["cell"].as_str().expect("a cell")).collect();
    let cell = |size: &str, workers| format!("sequential read, {size} × 16, {workers} workers");
    assert_eq!(cells, [cell("64 KiB", 2), cell("64 KiB", 5), cell("1 MiB", 2), cell("1 MiB", 5)]);
    assert_eq!(measurements(&run).len(), 4 * 3, "each of two alone, then both, in four cells");
    for one in measurements(&run) {
        let job = &one["access"]["job"];
        let both = job["sources"].as_array().map(Vec::len) == Some(2);
        assert_eq!(one["access"]["baseline_bytes_per_second"].is_number(), both, "{}", one["name"]);
    }
    let workers = |at: usize| measurements(&run)[at]["access"]["job"]["workers"].as_u64();
    assert_eq!([3, 4, 5].map(workers), [Some(3), Some(2), Some(5)], "five are dealt round two sources");
}

#[test]
fn a_block_that_is_not_what_was_written_is_found_and_located() {
    let Some(place) = place() else { return };
    let source = text(place.path());
    let common = ["--transfer", "64k", "--amount", "1M", "--verify", "--repeats", "1"];
    let run = json(&[&["--source", source, "--access", "write", "--keep"], &common[..]].concat(), 0);
    assert!(
        run["changes"][0].as_str().is_some_and(|change| change.contains("linerate-disk-")),
        "{}",
        run["changes"]
    );
    let [kept] = &names(place.path())[..] else { panic!("one file was to be kept") };
    let kept = place.path().join(kept);
    let again = [&["--source", text(&kept), "--access", "read"], &common[..]].concat();
    let run = json(&again, 0);
    assert_eq!(measurements(&run)[0]["access"]["corrupt"], serde_json::json!([]));
    let mut bytes = std::fs::read(&kept).expect("read");
    assert_eq!(bytes.len(), 1 << 20);
    bytes[200_000] ^= 1;
    std::fs::write(&kept, bytes).expect("written");
    let run = json(&again, 1);
    let errors = run["errors"].to_string();
    assert!(errors.contains("corrupt") && errors.contains(&(200_000 / 4096 * 4096).to_string()), "{errors}");
}

#[test]
fn power_is_shown_for_what_moved() {
    let Some(place) = place() else { return };
    let job = "--access read --transfer 1M --rounds 1 --seconds 1 --repeats 1 --amount 64M";
    let words: Vec<&str> = job.split(' ').chain(["--source", text(place.path()), "--json"]).collect();
    let mut command = disk(&words);
    let run = command.env("LINERATE_POWER_COMMAND", "echo 150 W\necho power 50").ended().gives(0).json();
    let power = &run["power"];
    assert_eq!(power["by"], "all of LINERATE_POWER_COMMAND together", "{power}");
    let near = |value: &Value| value.as_f64().is_some_and(|watts| (watts - 200.0).abs() < 1e-6);
    let uses = power["uses"].as_array().expect("uses");
    assert!(near(&power["idle_watts"]) && uses.iter().all(|one| near(&one["watts"])), "{power}");
    assert_eq!(uses.len(), measurements(&run).len(), "{power}");
    assert!(
        uses.iter().all(|one| one["bytes_per_second"].as_f64().is_some_and(|rate| rate > 0.0)),
        "{power}"
    );
}
