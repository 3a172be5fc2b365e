//! Kept results as a user meets them: measured, listed, named by their number.

use crate::support::process::{Ends, ProcessEnd};
use crate::support::{keep_apart, linerate};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Measures in no time.
const QUICK: [&str; 9] =
    ["memory", "--kernels", "read", "--working-set", "64k", "--cores", "1", "--seconds", "0.01"];

/// A state folder of a test's own.
pub struct State(pub tempfile::TempDir);

impl State {
    pub fn new() -> State {
        State(tempfile::tempdir().expect("a directory"))
    }

    pub fn ran(&self, words: &[&str]) -> ProcessEnd {
        let mut command = linerate();
        keep_apart(&mut command, self.0.path());
        command.args(words).current_dir(self.0.path()).env("COLUMNS", "140").ended()
    }

    /// It ended well and had nothing to complain about; what it printed.
    fn printed(&self, words: &[&str]) -> String {
        let output = self.ran(words);
        let said = &output.stderr;
        assert!(output.status.success() && said.is_empty(), "{words:?}: {said}");
        output.stdout
    }

    fn refused(&self, words: &[&str], status: i32, says: &str) {
        let output = self.ran(words);
        output.gives(status).says(&[says]);
    }

    fn list(&self) -> Vec<Value> {
        let list: Value = serde_json::from_str(&self.printed(&["list", "--json"])).expect("JSON");
        list["results"].as_array().expect("results").clone()
    }

    pub fn folder(&self) -> PathBuf {
        self.0.path().join("linerate/results")
    }
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("there").permissions().mode() & 0o777
}

#[test]
fn what_is_measured_is_kept_listed_and_named_by_its_number() {
    let state = State::new();
    assert!(state.printed(&["list"]).contains("No result is kept in "));
    let _ = state.printed(&QUICK);
    let _ = state.printed(&[&QUICK[..], &["--json", "--output", "saved"]].concat());
    let _ = state.printed(&[&QUICK[..], &["--no-save"]].concat());
    let list = state.list();
    let of = |key: &str| list.iter().map(|result| result[key].clone()).collect::<Vec<_>>();
    assert_eq!(
        (of("reference"), of("command")),
        (vec!["@memory-2".into(), "@memory-1".into()], vec!["memory".into(); 2])
    );
    assert!(list.iter().all(|result| result["sentence"].as_str().is_some_and(|text| text.contains("B/s"))));
    let table = state.printed(&["list"]);
    assert!(table.lines().count() == 3 && table.contains("@memory-1    2  20"), "{table}");

    let report = |word| state.printed(&["report", word, "--json"]);
    assert_eq!(report("@-1"), report("saved"));
    assert_eq!(report("@-2"), report("@1"));
    assert_eq!(report("@memory-2"), report("@1"));
    assert_ne!(report("@-2"), report("@-1"));
    assert!(state.printed(&["report", "@-1", "--json"]).contains("findings"));
    let compared = state.printed(&["compare", "@-2", "@-1"]);
    assert!(compared.contains("@-2") && compared.contains("@-1"), "{compared}");
    assert!(state.printed(&["compare"]).contains("@1"), "the newest two of one command and goal");
    state.refused(&["compare", "@1"], 2, "@1 alone: name what to compare it with");

    for folder in [state.folder(), state.0.path().join("linerate")] {
        assert_eq!(mode(&folder), 0o700, "{}", folder.display());
    }
    assert_eq!(mode(&state.folder().join("000001.json")), 0o600);
}

#[test]
fn a_number_that_is_not_kept_says_how_many_are() {
    let state = State::new();
    state.refused(&["report", "@-1"], 3, "no result is kept; those of linerate's `run`, `disk`, `load`, ");
    let _ = state.printed(&QUICK);
    let _ = state.printed(&QUICK);
    for command in [&["report"][..], &["compare", "@-1"], &["plan", "--machine"]] {
        let with = |word| [command, &[word]].concat();
        state.refused(&with("@-9"), 3, "2 results are kept, @-2 to @-1");
        state.refused(&with("@7"), 3, "2 results are kept");
        state.refused(&with("@0"), 2, "@0 is not a kept result: @-1 is the newest");
        state.refused(&with("@x"), 2, "@x is not a kept result");
    }
    // A file of that name.
    std::fs::copy(state.folder().join("000001.json"), state.0.path().join("@-9")).expect("copied");
    assert!(state.printed(&["report", "./@-9"]).contains("memory"));
}

#[test]
fn files_of_others_and_damaged_results_are_left_alone() {
    let state = State::new();
    let _ = state.printed(&QUICK);
    let damaged: [(&str, &[u8]); 3] =
        [("000002.json", b"{ \"schema\": 2, \"host\""), ("000003.json", b"\xff\xfe"), ("000004.json", b"")];
    for (name, bytes) in damaged.iter().chain(&[("notes.txt", &b"mine"[..]), ("5.json", b"{}")]) {
        std::fs::write(state.folder().join(name), bytes).expect("a file");
    }
    let _ = state.printed(&QUICK);
    let list = state.list();
    let numbers: Vec<_> = list.iter().map(|result| result["number"].as_u64()).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5].map(Some));
    assert!(list[1..4].iter().all(|result| result["damaged"].is_string()), "{list:?}");
    state.refused(&["report", "@-2"], 2, "000004.json is not JSON");
    assert_eq!(std::fs::read(state.folder().join("notes.txt")).expect("it is there"), b"mine");
    assert!(state.printed(&["list"]).contains("000003.json is not JSON"));
}

#[test]
fn nothing_is_kept_of_what_measured_nothing() {
    let state = State::new();
    state.refused(&["disk", "--source", "no/such/place"], 3, "no/such/place");
    assert!(!state.0.path().join("linerate").exists());
}

#[test]
fn without_a_home_it_is_a_warning() {
    let state = State::new();
    let mut command = linerate();
    command.args(QUICK).env_remove("HOME").env("XDG_STATE_HOME", "not/absolute");
    let output = command.current_dir(state.0.path()).ended();
    let said = &output.stderr;
    assert!(output.status.success() && !output.stdout.is_empty(), "{said}");
    assert!(said.lines().count() == 1 && said.contains("set XDG_STATE_HOME or HOME"), "{said}");
    let mut command = linerate();
    command.args(QUICK).env_remove("XDG_STATE_HOME").env("HOME", state.0.path());
    assert!(command.ended().stderr.is_empty());
    assert!(state.0.path().join(".local/state/linerate/results/000001.json").is_file());
}

fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name);
    path.canonicalize().expect("a fixture").display().to_string()
}

#[test]
fn a_folder_lists_results_of_other_tools() {
    let state = State::new();
    let folder = state.0.path().join("results");
    std::fs::create_dir(&folder).expect("a folder");
    let fio = std::fs::read(fixture("foreign/fio-3.33-durable.json")).expect("a fixture");
    std::fs::write(folder.join("a-whole.json"), &fio).expect("a file");
    std::fs::write(folder.join("b-cut.json"), &fio[..fio.len() / 2]).expect("a file");
    std::fs::write(folder.join("c-other.json"), "{ \"name\": \"a package\" }").expect("a file");
    std::fs::copy(fixture("foreign/iperf3-failed.json"), folder.join("d-failed.txt")).expect("a file");
    let list: Value = serde_json::from_str(&state.printed(&["list", "results", "--json"])).expect("JSON");
    let listed = list["results"].as_array().expect("results");
    let names: Vec<_> = listed.iter().map(|one| one["reference"].as_str().expect("a name")).collect();
    assert_eq!(names, ["a-whole.json", "b-cut.json", "d-failed.txt"]);
    assert_eq!((&listed[0]["command"], &listed[2]["errors"]), (&"disk".into(), &1.into()));
    assert!(listed[1]["damaged"].as_str().is_some_and(|why| why.contains("ends before its end")), "{list:#}");
    let screen = state.printed(&["list", "results"]);
    assert!(screen.contains("a-whole.json") && !screen.contains("c-other.json"), "{screen}");
}

#[test]
fn a_plan_counts_what_another_tool_read_of_a_disk() {
    let state = State::new();
    let (machine, fio) = (fixture("run-big-server.json"), fixture("foreign/fio-3-warning-before-json.txt"));
    let plan: Value =
        serde_json::from_str(&state.printed(&["plan", "--machine", &machine, "--measured", &fio, "--json"]))
            .expect("JSON");
    let of = |id: &str| plan["resources"].as_array()?.iter().find(|one| one["id"] == id).cloned();
    let (read, other) = (of("disk:nvme0n1").expect("a disk"), of("disk:nvme1n1").expect("a disk"));
    assert_eq!((&read["origin"], read["capacity"].as_f64()), (&"measured".into(), Some(368_640_000.0)));
    assert_ne!(other["origin"], "measured");
    let refused = |name: &str, status, says: &str| {
        state.refused(&["plan", "--machine", &machine, "--measured", &fixture(name)], status, says);
    };
    refused("foreign/iperf3-3.12-receive.json", 2, "that was measured on sender");
    refused("foreign/nuttcp-6.1.2-tcp.txt", 3, "no address of this machine from which tcp was sent");
}

/// A job of another tool keeps its name beside the words of what it did; what has nothing in common, measured nothing, or
/// is the first of its kind is one sentence.
#[test]
fn results_of_other_tools_are_reported_compared_and_checked() {
    let state = State::new();
    let names = ["fio-3-warning-before-json.txt", "iperf3-3.17-four-streams.json", "iperf3-failed.json"];
    let [fio, iperf3, failed] = names.map(|name| fixture(&format!("foreign/{name}")));
    for (words, parts) in [
        (&["compare", &fio, &fio][..], &["r1: random", "205 MB/s", "r2: random", "2 jobs together: "][..]),
        (&["report", &fio], &["369 MB/s", "50.0k", "40.0k", "the disk: nvme0n1"]),
        (&["report", &iperf3], &["8.36 Gb/s", "15", "53.10 ms", "sender's CPU 97 %"]),
        (&["report", &failed], &["Connection refused; it has no rate", "nothing was measured"]),
        (&["check", &fio], &["no judgement yet"]),
    ] {
        let screen = state.printed(words);
        assert!(parts.iter().all(|part| screen.contains(part)), "{words:?}: {screen}");
    }
    state.refused(&["compare", &fio, &iperf3], 2, "no measurement in common");
    state.refused(&["compare", &iperf3, &failed], 3, "the run measured nothing");
}

/// Keeps a fixture as if it had been measured here.
fn keep(state: &State, number: u32, name: &str) {
    std::fs::create_dir_all(state.folder()).expect("folders");
    let kept = state.folder().join(format!("{number:06}.json"));
    std::fs::copy(fixture(name), kept).expect("copied");
}

#[test]
fn a_plan_counts_what_was_measured_on_this_machine() {
    let state = State::new();
    keep(&state, 1, "run-big-server.json");
    // Newer, of another host, and of another command.
    keep(&state, 2, "run-lab-disks.json");
    keep(&state, 3, "stage-disk-xfs.json");
    let machine = fixture("run-big-server.json");
    let plan = |more: &[&str]| -> Value {
        let words = [&["plan", "--machine", &machine, "--json"], more].concat();
        serde_json::from_str(&state.printed(&words)).expect("JSON")
    };
    let of = |plan: &Value, id: &str| {
        let resources = plan["resources"].as_array().expect("resources");
        resources.iter().find(|one| one["id"] == id).unwrap_or_else(|| panic!("no {id}: {plan:#}")).clone()
    };
    let rate = |plan: &Value| plan["ceiling"]["bytes_per_second"].as_f64().expect("a ceiling");
    let before = plan(&[]);
    assert_eq!(
        (&before["measured"], &of(&before, "disk:nvme17n1")["measured"]),
        (&Value::Null, &Value::Null)
    );
    let measured = plan(&["--measured"]);
    assert_eq!(measured["measured"]["host"], "dtn-07.example.org");
    for (id, rate) in [("disk:nvme17n1", 1.62e9), ("nic:ens0f0np0", 12.3e9), ("memory:0", 55.3e9)] {
        let resource = of(&measured, id);
        assert_eq!(resource["origin"], "measured", "{id}");
        let capacity = resource["capacity"].as_f64().expect("a rate");
        assert!((capacity / rate - 1.0).abs() < 0.02, "{id}: {capacity}");
    }
    assert_eq!(of(&measured, "cpu:0")["origin"], "measured");
    // What its 16 NICs did, and not what they are rated.
    let (now, then) = (rate(&measured), rate(&before));
    assert!((now / 196.6e9 - 1.0).abs() < 0.005 && now < then * 0.995, "{now} {then}");
    assert_eq!(plan(&["--measured", "@1"])["ceiling"], measured["ceiling"]);
    assert_eq!(plan(&["--measured", &machine])["ceiling"], measured["ceiling"]);
    let changed = plan(&["--measured", "--set", "nvme17n1.read=7GB/s"]);
    assert_ne!(of(&changed, "disk:nvme17n1")["origin"], "measured");
    assert_eq!(of(&changed, "disk:nvme18n1")["origin"], "measured");

    let screen = state.printed(&["plan", "--machine", &machine, "--measured"]);
    assert!(screen.contains("measured    ") && screen.contains("by what was measured"), "{screen}");
    let words = ["plan", "--machine", &machine, "--measured", "@-2"];
    state.refused(&words, 2, "measured on lab-server, and this plan is for dtn-07.example.org");
    let elsewhere = fixture("run-loopback.json");
    state.refused(&["plan", "--machine", &elsewhere, "--measured"], 3, "no whole run of vm-1 is kept");
}

/// Keeps a run of this host and this disk.
fn keep_as_of(state: &State, host: &str, disk: &str) {
    let text = std::fs::read_to_string(fixture("run-lab-disks.json")).expect("a run");
    let text = text.replace("disk:loop0", &format!("disk:{disk}")).replace("lab-server", host);
    std::fs::create_dir_all(state.folder()).expect("folders");
    std::fs::write(state.folder().join("000001.json"), text).expect("written");
}

#[test]
fn a_plan_of_a_wall_counts_the_newest_run_of_this_host() {
    let Ok(host) = std::fs::read_to_string("/proc/sys/kernel/hostname") else { return };
    let state = State::new();
    let words = ["wall", "plan", "--grid", "1x1", "--tile", "640x480", "--json", "--measured"];
    state.refused(&words, 3, "is kept: measure there with `linerate run`");
    keep_as_of(&state, host.trim(), "none");
    let plan = state.printed(&words);
    // The fixture's cost of a byte over UDP.
    assert!(plan.contains("\"cpu_origin\": \"measured\"") && plan.contains("0.268"), "{plan}");
}

#[test]
fn a_watch_scales_its_bars_by_what_was_measured_on_this_host() {
    let Ok(host) = std::fs::read_to_string("/proc/sys/kernel/hostname") else { return };
    let state = State::new();
    let moment = || -> Value {
        let line = state.printed(&["watch", "--json", "--count", "1", "--interval", "100ms"]);
        serde_json::from_str(&line).expect("a moment")
    };
    // Loop devices of other tests come and go before it.
    let is_own = |disk: &&Value| disk["name"].as_str().is_some_and(|name| !name.starts_with("loop"));
    let first = || moment()["disks"].as_array().and_then(|disks| disks.iter().find(is_own).cloned());
    let Some(disk) = first() else { return println!("skipped: there is no disk here") };
    keep_as_of(&state, host.trim(), disk["name"].as_str().expect("a name"));
    let measured = &first().expect("the disk")["measured_bytes_per_second"];
    assert!(measured.as_f64().is_some_and(|rate| (rate / 49.7e6 - 1.0).abs() < 0.01), "{measured}");
    std::fs::write(state.folder().join("000001.json"), "damaged").expect("written");
    assert!(first().expect("the disk").get("measured_bytes_per_second").is_none());
}

#[test]
fn every_command_that_measures_keeps_its_result() {
    let Some(place) = crate::support::disk::place() else { return };
    let place = place.path().to_str().expect("a plain path");
    let state = State::new();
    let all: [&[&str]; 5] = [
        &["memory", "--kernels", "read", "--working-set", "64k", "--cores", "1", "--seconds", "0.01"],
        &["disk", "--source", place, "--block", "1M", "--seconds", "0.05", "--repeats", "1"],
        &["disk", "--source", place, "--block", "1M", "--seconds", "0.05", "--scaling", "--access", "read"],
        &["load", "--source", place, "--amount", "4M", "--seconds", "0.05", "--workers", "2"],
        &["network", "--protocol", "udp", "--direction", "send", "--no-latency", "--seconds", "0.15"],
    ];
    for words in all {
        let output = state.ran(&[words, &["--json"]].concat());
        output.gives(0);
    }
    let words = ["run", "--source", place, "--stages", "memory", "--seconds", "0.1", "--repeats", "1"];
    let output = state.ran(&[&words[..], &["--budget", "5"]].concat());
    output.gives(0);
    let list = state.list();
    let kept: Vec<_> = list.iter().map(|result| result["command"].as_str().expect("a command")).collect();
    assert_eq!(kept, ["memory", "disk", "disk", "load", "network", "run"]);
    assert!(list.iter().all(|result| result["sentence"].as_str().is_some_and(|text| !text.is_empty())));
}
