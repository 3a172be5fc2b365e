//! `linerate check` as a user meets it: measured once, then judged against a history.

use super::kept::State;
use crate::support::process::{Ends, ProcessEnd};
use crate::support::{disk, keep_apart, linerate};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

impl State {
    /// Keeps a run of this host, of another day, whose path was this fast.
    fn keep(&self, run: &Value, number: u32, rate: f64) {
        let mut run = run.clone();
        run["started"] = format!("2026-03-{number:02}T09:30:00Z").into();
        for figure in run["measurements"].as_array_mut().expect("figures") {
            let carried = figure["bytes_per_second"].as_f64().expect("a rate");
            figure["bytes_per_second"] = (carried * rate).into();
        }
        std::fs::create_dir_all(self.folder()).expect("folders");
        let kept = self.folder().join(format!("{number:06}.json"));
        std::fs::write(kept, run.to_string()).expect("written");
    }
}

fn said(output: &ProcessEnd) -> (Option<i32>, String) {
    (output.code(), output.text())
}

fn lab_run() -> Value {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/run-lab-disks.json");
    serde_json::from_str(&std::fs::read_to_string(file).expect("a run")).expect("JSON")
}

#[test]
fn a_kept_result_is_judged_by_those_before_it() {
    let state = State::new();
    let run = lab_run();
    (1..=9).for_each(|day| state.keep(&run, day, 1.0 + 0.002 * f64::from(day % 3)));
    let (status, line) = said(&state.ran(&["check", "@-1"]));
    assert_eq!(status, Some(0), "{line}");
    assert!(line.starts_with("lab-server: as usual: disk to network over tcp 197 MB/s"), "{line}");
    assert_eq!(line.lines().count(), 1, "{line}");
    state.keep(&run, 10, 0.6);
    let prometheus = state.0.path().join("linerate.prom");
    let file = prometheus.to_str().expect("a plain path");
    let (status, line) = said(&state.ran(&["check", "@-1", "--prometheus", file]));
    assert_eq!(status, Some(4), "{line}");
    assert!(line.starts_with("lab-server: slower than usual: ") && line.lines().count() == 1, "{line}");
    let text = std::fs::read_to_string(&prometheus).expect("the file");
    assert!(text.contains("linerate_check_slower{stage=\"path\",name=\"tcp\"} 1\n"), "{text}");
    let files = std::fs::read_dir(state.0.path()).expect("a folder").count();
    assert_eq!(files, 2, "nothing but the results and the file is left");
    let json = state.ran(&["check", "@-1", "--json"]).json();
    assert_eq!((&json["verdict"], &json["history"]["results"]), (&"slower".into(), &9.into()));
    // Too early, of another machine, and what is not a result.
    let (status, line) = said(&state.ran(&["check", "@3"]));
    assert!(status == Some(0) && line.contains("2 of the 8 earlier results"), "{line}");
    let elsewhere = line_of_other_host(&state);
    assert!(elsewhere.contains("10 results are of another machine"), "{elsewhere}");
    assert_eq!(said(&state.ran(&["check", "@99"])).0, Some(3));
}

fn line_of_other_host(state: &State) -> String {
    let file = state.0.path().join("other.json");
    std::fs::write(&file, lab_run().to_string().replace("lab-server", "other").replace("2026-03", "2026-04"))
        .expect("written");
    let (status, line) = said(&state.ran(&["check", file.to_str().expect("a plain path")]));
    assert_eq!(status, Some(0), "{line}");
    line
}

#[test]
fn what_cannot_be_written_or_kept_is_said_before_it_measures() {
    let state = State::new();
    let (status, line) = said(&state.ran(&["check", "--prometheus", "no/such/folder/a.prom"]));
    assert!(status == Some(3) && line.contains("--prometheus no/such/folder/a.prom: "), "{line}");
    for (option, value) in
        [("--source", "a"), ("--protocol", "udp"), ("--budget", "9"), ("--rate-limit", "1G")]
    {
        let (status, line) = said(&state.ran(&["check", "@-1", option, value]));
        assert!(status == Some(2) && line.contains("cannot be used with"), "{option}: {line}");
    }
    let mut command = linerate();
    command.arg("check").env_remove("HOME").env_remove("XDG_STATE_HOME").current_dir(state.0.path());
    let (status, line) = said(&command.ended());
    assert!(status == Some(3) && line.contains("set XDG_STATE_HOME or HOME"), "{line}");
}

#[test]
fn a_check_measures_keeps_its_result_and_judges_the_next() {
    let Some(place) = disk::place() else { return };
    let state = State::new();
    let place = place.path().to_str().expect("a plain path");
    let short = ["--amount", "64M", "--budget", "2", "--rate-limit", "400M", "--json"];
    let words = [&["check", "--source", place][..], &short].concat();
    let first = state.ran(&words);
    let (status, line) = said(&first);
    let json = first.json();
    assert!(status == Some(0) && json["verdict"] == "too-few", "{line}");
    let kept = std::fs::read_to_string(state.folder().join("000001.json")).expect("it is kept");
    let kept: Value = serde_json::from_str(&kept).expect("JSON");
    (1..=12).for_each(|day| state.keep(&kept, day, 1.0));
    let second = state.ran(&words);
    let (status, line) = said(&second);
    let json = second.json();
    assert_eq!(json["history"]["results"], 12, "{line}");
    let slower = json["verdict"] == "slower";
    assert_eq!(status, Some(if slower { 4 } else { 0 }), "{line}");
    // On a busy machine a figure of memory may be missing; the path's is what decides.
    let decides = |figure: &&Value| figure["decides"] == true;
    let path = json["figures"].as_array().expect("figures").iter().find(decides).expect("the path");
    assert!(path["usual"]["bytes_per_second"].is_number(), "{line}");
    assert!(state.folder().join("000013.json").is_file());
}

/// The folder of a collector may be a group's. Links lie at all names that the new file may have meanwhile.
#[test]
fn no_link_beside_the_prometheus_file_is_written_through() {
    let state = State::new();
    state.keep(&lab_run(), 1, 1.0);
    let at = |name: String| state.0.path().join(name);
    std::fs::write(at("victim".into()), "kept").expect("written");
    for pid in std::process::id()..std::process::id() + 5000 {
        std::os::unix::fs::symlink("victim", at(format!("figures.prom.{pid}.new"))).expect("a link");
    }
    let (status, line) = said(&state.ran(&["check", "@-1", "--prometheus", "figures.prom"]));
    assert_eq!(status, Some(0), "{line}");
    assert_eq!(std::fs::read_to_string(at("victim".into())).expect("read"), "kept");
    assert!(!at("figures.prom".into()).is_symlink());
}

/// After a power failure the collector finds the old file or the new one, never an empty one.
#[test]
fn the_prometheus_file_is_on_the_disk_before_it_has_its_name() {
    let state = State::new();
    state.keep(&lab_run(), 1, 1.0);
    let mut command = Command::new("strace");
    command.args(["-f", "-e", "trace=fsync,rename,renameat,renameat2", "--"]).arg(linerate().get_program());
    command.args(["check", "@-1", "--prometheus", "figures.prom"]).current_dir(state.0.path());
    let Ok(output) = keep_apart(&mut command, state.0.path()).output() else {
        println!("skipped: no strace");
        return;
    };
    let calls = String::from_utf8_lossy(&output.stderr);
    if calls.contains("PTRACE") {
        println!("skipped: strace may not trace here");
        return;
    }
    let (synced, named) = (calls.find("fsync("), calls.find("\"figures.prom\""));
    assert!(synced.is_some() && synced < named, "{calls}");
}
