//! One sentence, the right exit status, nothing lost, no file left.

use crate::support::disk::{QUICK, disk, json, place, ran};
use crate::support::process::{PATIENCE, Started};
use crate::support::{names, text};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

#[test]
fn words_that_contradict_each_other() {
    let Some(place) = place() else { return };
    let source = text(place.path());
    let cases: [(&[&str], i32, &str); 12] = [
        (&["--transfer", "1000", "--block", "1000"], 2, "sector"),
        (&["--transfer", "1M", "--block", "1500k"], 2, "multiple of the transfer size"),
        (&["--engine", "psync", "--queue-depth", "8"], 2, "one request in flight"),
        (&["--amount", "100000G"], 3, "no room"),
        (&["--workers", "100000", "--amount", "1G"], 3, ""),
        (&["--source", "/nonexistent/place"], 3, "not there"),
        (&["--source", "/dev/null"], 3, "neither a directory, a file nor a block device"),
        (&["--verify", "--transfer", "1000", "--block", "1000", "--buffered"], 2, ""),
        (&["--prepare", "discard", "--destroy-data", "x"], 2, "block devices"),
        (&["--sync", "data", "--access", "read,write"], 2, "only writes are synced"),
        (&["--sync", "direct", "--every", "4"], 2, "each write is durable by itself"),
        (&["--sync", "direct", "--engine", "mmap"], 2, "--sync data"),
    ];
    for (words, status, says) in cases {
        ran(&[&["--source", source], words].concat()).refused(status, &[says]);
    }
    let none = ran(&["--source", source, "--sync", "data", "--every", "0"]);
    assert!(none.gives(2).stderr.contains("--every <WRITES>"), "{}", none.stderr);
    assert!(names(place.path()).is_empty());
}

#[test]
fn a_source_without_a_worker_has_no_baseline() {
    let Some(place) = place() else { return };
    let source = text(place.path());
    let words = ["--scaling", "--source", source, "--source", source, "--workers", "4,1"];
    ran(&words).refused(2, &["1 worker for 2 sources leaves one of them without"]);
    let memory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/stage-memory.json");
    let words = [&format!("--scaling={memory}"), "--source", source, "--source", source];
    ran(&words).refused(2, &["no source was measured alone there"]);
}

/// `1,2,3 …`
fn list(from: u32, count: u32) -> String {
    (from..from + count).map(|value| value.to_string()).collect::<Vec<_>>().join(",")
}

#[test]
fn a_grid_of_ten_thousand_cells_reports_how_long_it_takes_and_a_million_are_refused() {
    let Some(place) = place() else { return };
    let depths = list(1, 100);
    let common = ["--source", text(place.path()), "--pattern", "random", "--access", "read", "--block", "4M"];
    let common = [&common[..], &["--seconds", "2"]].concat();
    let words = ["--queue-depth", &depths, "--workers", &depths];
    let mut child = disk(&[&common[..], &words].concat()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut said = String::new();
    BufReader::new(child.stderr.take().expect("a pipe")).read_line(&mut said).expect("a line");
    child.kill().and_then(|()| child.wait().map(drop)).expect("it ends");
    assert!(said.contains("10000 combinations, 30000 measurements: about 20 hours"), "{said}");
    let words = ["--queue-depth", &list(1, 1000), "--workers", &list(1, 1000)];
    ran(&[&common[..], &words].concat())
        .refused(2, &["of 1000000 combinations take 82 days; at most 100000"]);
}

#[test]
fn more_workers_than_memory_for_their_buffers() {
    let Some(place) = place() else { return };
    let file = place.path().join("theirs");
    File::create(&file).expect("made").set_len(1 << 40).expect("sparse");
    let words = ["--source", text(&file), "--workers", "1000", "--transfer", "1G", "--queue-depth", "4"];
    ran(&words).refused(3, &["with their buffers"]);
}

#[test]
fn a_file_of_the_user_is_never_written_unless_its_loss_is_named() {
    let Some(place) = place() else { return };
    let file = place.path().join("theirs");
    std::fs::write(&file, vec![7; 8 << 20]).expect("written");
    let words = [&["--source", text(&file), "--access", "write"], &QUICK[..]].concat();
    ran(&words).refused(2, &["--destroy-data"]);
    assert!(std::fs::read(&file).expect("read").iter().all(|byte| *byte == 7));
    json(&[&words[..], &["--destroy-data", text(&file)]].concat(), 0);
    assert_eq!(std::fs::metadata(&file).expect("there").len(), 8 << 20, "it keeps its length");
}

#[test]
fn ctrl_c_gives_the_results_so_far_and_leaves_nothing() {
    let Some(place) = place() else { return };
    let words = ["--source", text(place.path()), "--access", "read", "--seconds", "0.05", "--block", "4M"];
    let started = Started::of(&mut disk(&[&words[..], &["--repeats", "1000", "--json"]].concat()));
    std::thread::sleep(Duration::from_millis(2500));
    let asked = Instant::now();
    let ended = started.interrupted(PATIENCE);
    // A second on an idle machine.
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
    let run = ended.gives(1).json();
    assert!(run["errors"].to_string().contains("interrupted"));
    assert!(run["measurements"].as_array().is_some_and(|all| !all.is_empty()));
    assert!(names(place.path()).is_empty());
}

#[test]
fn a_cell_too_large_for_the_machine_takes_nothing_from_the_others() {
    let Some(place) = place() else { return };
    let words =
        ["--source", text(place.path()), "--access", "write", "--pattern", "sequential", "--transfer", "1M"];
    let more: Vec<&str> =
        "--workers 1,100000 --seconds 0.1 --repeats 2 --block 4M --queue-depth 16".split(' ').collect();
    let run = json(&[&words[..], &more].concat(), 1);
    let measured = run["measurements"].as_array().expect("measurements");
    assert_eq!(measured.len(), 1, "{measured:?}");
    assert!(measured[0]["bytes_per_second"].as_f64().expect("a rate") > 0.0);
    let error = run["errors"][0].as_str().expect("a sentence");
    assert!(error.contains("100000 workers") && error.contains("with their buffers"), "{error}");
}
