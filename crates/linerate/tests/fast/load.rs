//! `linerate load` as a user runs it: the curve, the schedule, the honest latency, and one sentence for each
//! bad input.

use crate::support::process::{Ends, signal, until};
use crate::support::text;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// A small file and short windows.
const QUICK: [&str; 6] = ["--amount", "8M", "--seconds", "0.1", "--repeats", "2"];

fn load(words: &[&str]) -> Command {
    let mut command = crate::support::linerate();
    command.arg("load").args(words).env("NO_COLOR", "1");
    command
}

fn points(run: &Value) -> &Vec<Value> {
    run["load"]["points"].as_array().expect("points")
}

fn entries(directory: &Path) -> usize {
    std::fs::read_dir(directory).expect("a list").count()
}

#[test]
fn ever_more_users_make_a_curve_and_leave_nothing() {
    let place = tempfile::tempdir().expect("a directory");
    let words = ["--source", text(place.path()), "--workers", "8", "--json"];
    let run = load(&[&QUICK[..], &words].concat()).ended().gives(0).json();
    assert_eq!(run["stage"], "load");
    let users: Vec<u64> =
        points(&run).iter().map(|point| point["workers"].as_u64().expect("users")).collect();
    assert_eq!(users.first(), Some(&1));
    assert!(users.windows(2).all(|pair| pair[0] < pair[1]) && users.last() <= Some(&8), "{users:?}");
    for point in points(&run) {
        assert!(point["operations_per_second"].as_f64().is_some_and(|rate| rate > 0.0), "{point}");
        assert!(point["offered"].is_null());
        let of = |key: &str| point[key].as_f64().expect("a number");
        let latency = |key: &str| point["latency"][key].as_f64().expect("a latency");
        let under_way = of("operations_per_second") * latency("mean");
        // Each worker's first request counts whole, though it began before the window of 0.1 s.
        let first = latency("maximum") / 0.1;
        assert!(
            (under_way / of("workers") - 1.0).abs() < 0.05 + first,
            "Little's law: {under_way} of {point}"
        );
    }
    assert_eq!(run["load"]["limit"], "mean ≤ 100 ms");
    let measurements = run["measurements"].as_array().expect("measurements");
    assert!(measurements.len() >= users.len() && measurements.iter().all(|one| one["stage"] == "load"));
    assert_eq!(measurements[0]["access"]["job"]["transfer_bytes"], 8192);
    assert_eq!(entries(place.path()), 0);
}

#[test]
fn reads_and_writes_go_to_several_files_some_places_more_often() {
    let places = [tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory")];
    let sources = ["--source", text(places[0].path()), "--source", text(places[1].path())];
    let words =
        ["--workers", "4", "--access", "mixed:70", "--pattern", "zipf:0.99", "--transfer", "4k", "--json"];
    let run = load(&[&QUICK[..], &sources, &words].concat()).ended().gives(0).json();
    let last = run["measurements"].as_array().and_then(|all| all.last()).expect("a measurement");
    let operations = |side: &str| last["access"][side]["operations"].as_f64().expect("operations");
    let share = operations("reads") / (operations("reads") + operations("writes"));
    assert!((0.5..0.9).contains(&share), "{share} of the requests read");
    assert_eq!(last["access"]["job"]["order"]["kind"], "zipf");
    assert_eq!(last["access"]["job"]["sources"].as_array().map(Vec::len), Some(2));
}

#[test]
fn a_rate_is_offered_on_schedule() {
    let place = tempfile::tempdir().expect("a directory");
    let words =
        ["--source", text(place.path()), "--rate", "100", "--amount", "8M", "--seconds", "1", "--json"];
    let run = load(&words).ended().gives(0).json();
    let [point] = &points(&run)[..] else { panic!("one rate, one point: {}", run["load"]) };
    assert_eq!(point["offered"], 100.0);
    let done = point["operations_per_second"].as_f64().expect("a rate");
    assert!((70.0..140.0).contains(&done), "{done} of 100 a second");
    assert!(run["load"]["knee"].is_null() && run["load"]["highest"].is_null());
}

#[test]
fn the_highest_rate_is_one_of_those_that_were_offered() {
    let place = tempfile::tempdir().expect("a directory");
    let words =
        ["--source", text(place.path()), "--find-rate", "--keep", "p50=20ms", "--workers", "4", "--json"];
    let short = ["--amount", "8M", "--seconds", "0.05", "--repeats", "1"];
    let run = load(&[&short[..], &words].concat()).ended().gives(0).json();
    let highest = run["load"]["highest"].as_f64().expect("half of the answers in 20 ms are had at some rate");
    let point = &points(&run)[run["load"]["knee"].as_u64().expect("its point") as usize];
    assert_eq!(point["offered"].as_f64(), Some(highest));
    assert_eq!(point["within_limit"], true);
}

/// The requests that a stall held up count with all of their wait (fio 3.33 says 5 ms for the same).
#[test]
fn a_frozen_second_is_in_the_latency() {
    let place = tempfile::tempdir().expect("a directory");
    let line = format!(
        "--source {} --rate 1000 --seconds 4 --repeats 1 --amount 8M --buffered --json",
        text(place.path())
    );
    let words: Vec<&str> = line.split(' ').collect();
    let child = load(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    std::thread::sleep(Duration::from_millis(2500));
    signal(&child, "STOP");
    std::thread::sleep(Duration::from_secs(1));
    signal(&child, "CONT");
    let run = child.ended().gives(0).json();
    let p99 = points(&run)[0]["latency"]["p99"].as_f64().expect("a latency");
    assert!(p99 > 0.75, "p99 {p99} s");
}

#[test]
fn the_screen_has_the_curve_and_a_sentence() {
    let place = tempfile::tempdir().expect("a directory");
    let folder = place.path().join("result");
    let source = place.path().join("file");
    std::fs::write(&source, vec![1; 4 << 20]).expect("written");
    let words = ["--source", text(&source), "--workers", "2", "--output", text(&folder)];
    let output = load(&[&QUICK[..], &words].concat()).ended();
    let screen = &output.stdout;
    output.gives(0);
    assert!(screen.contains("1 worker") && screen.contains("IOPS") && screen.contains("saved: "), "{screen}");
    assert!(folder.join("run.json").is_file() && folder.join("report.html").is_file());
    assert_eq!(std::fs::read(&source).expect("there"), vec![1; 4 << 20], "it was only read");
}

#[test]
fn ctrl_c_keeps_the_curve_so_far() {
    let place = tempfile::tempdir().expect("a directory");
    let folder = place.path().join("result");
    let words =
        ["--source", text(place.path()), "--amount", "8M", "--seconds", "0.2", "--output", text(&folder)];
    let child =
        load(&words).arg("--json").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let measured = || {
        let text = std::fs::read(folder.join("run.json")).ok()?;
        let run: Value = serde_json::from_slice(&text).ok()?;
        run["measurements"].as_array().map(Vec::len)
    };
    until("a point is there", || measured().is_some_and(|count| count > 0));
    signal(&child, "INT");
    let run = child.ended().gives(1).json();
    assert!(run["errors"][0].as_str().is_some_and(|error| error.contains("interrupted")), "{run}");
    assert!(!points(&run).is_empty());
    assert_eq!(entries(place.path()), 1, "the result's folder and nothing else");
}

#[test]
fn bad_input_is_one_sentence() {
    let place = tempfile::tempdir().expect("a directory");
    let small = place.path().join("small");
    std::fs::write(&small, vec![1; 4096]).expect("written");
    let absent = place.path().join("absent");
    let file = place.path().join("file");
    std::fs::write(&file, vec![7; 1 << 20]).expect("written");
    let cases: [(&[&str], i32, &str); 10] = [
        (&["--source", text(&absent)], 3, "absent"),
        (&["--source", text(&small)], 3, "too little"),
        (&["--source", text(&file), "--access", "mixed:50"], 2, "--destroy-data"),
        (&["--keep", "p99"], 2, "not a limit of latency"),
        (&["--keep", "p42=1ms"], 2, "not a limit of latency"),
        (&["--keep", "p99=20"], 2, "“p99=20” has no unit: write p99=20ms"),
        (&["--rate", "0"], 2, "more than 0"),
        (&["--rate", "5", "--find-rate"], 2, "cannot be used with"),
        (&["--workers", "0"], 2, "not in 1..=65536"),
        (&["--amount", "4k"], 2, "smaller than one request"),
    ];
    for (words, status, says) in cases {
        let ended = load(words).current_dir(place.path()).ended();
        ended.gives(status).mentions(&[says]);
        assert!(ended.stdout.is_empty(), "{ended}");
    }
    assert_eq!(std::fs::read(&file).expect("there"), vec![7; 1 << 20], "nothing was written");
    assert_eq!(entries(place.path()), 2);
}
