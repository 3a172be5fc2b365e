//! `linerate explain --experiment` beside programs in a lab whose limit is known: what is full loses what is taken from it,
//! a limit of the program's own is never a disk's, and nothing takes once linerate was killed.

use crate::support::lab::{Lab, folder};
use crate::support::linerate;
use crate::support::process::{Ends, Running, Started, until};
use serde_json::Value;
use std::process::Stdio;
use std::time::Duration;

/// One of bench/explain_programs.py, on a side of the lab.
fn program(lab: &Lab, side: &str, words: &[&str]) -> Running {
    let script = folder().join("../bench/explain_programs.py");
    let words = [&["--", "python3", script.to_str().expect("a path")], words].concat();
    let mut command = lab.command(side, &words);
    // A file on another disk that moves nothing.
    command.stdin(std::fs::File::open(&script).expect("a file"));
    Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts"))
}

fn words(pid: u32) -> Vec<String> {
    let words = ["explain", &pid.to_string(), "--seconds", "2", "--experiment", "--yes", "--no-save"];
    words.map(String::from).to_vec()
}

fn experimented(pid: u32) -> Value {
    std::thread::sleep(Duration::from_millis(1500));
    linerate().args(words(pid)).arg("--json").ended().gives(0).json()
}

/// The ends of the share of this part.
#[track_caller]
fn interval(found: &Value, id: &str) -> [f64; 2] {
    let shares = found["shares"].as_array().map(Vec::as_slice).unwrap_or_default();
    let of_it =
        shares.iter().find(|share| share["resource"].as_str().is_some_and(|name| name.starts_with(id)));
    let ends = of_it.map(|share| [0, 1].map(|end| share["interval"][end].as_f64()));
    let Some([Some(low), Some(high)]) = ends else { panic!("no share of {id}: {found:#}") };
    [low, high]
}

#[track_caller]
fn assert_measured(found: &Value, kind: &str) {
    let bottleneck = &found["bottleneck"];
    assert!(found["verdict"] == "measured" && bottleneck["kind"] == kind, "{found:#}");
    let said = bottleneck["sentence"].as_str().unwrap_or_default();
    assert!(
        ["The bottleneck is ", " of it taken cost the flow "].iter().all(|words| said.contains(words)),
        "{said}"
    );
}

/// The throttle is that of the program's control group, in which linerate is not at first.
#[test]
fn a_throttled_disk_loses_all_that_is_taken_of_it() {
    let Some(lab) = Lab::up("explain-taken", &["--disks", "1x40", "--nics", "0", "--file-size", "256M"])
    else {
        return;
    };
    let sources = lab.succeed("sources", &[]);
    let reads = program(&lab, "run", &["read", sources.trim(), "131072"]);
    let found = experimented(reads.id());
    let [low, high] = interval(&found, "disk:loop");
    assert!((low + high - 2.0).abs() < 0.5, "{low} to {high}: {found:#}");
    assert_measured(&found, "disk");
}

/// On two CPUs, which the program, its receiver and linerate share, taking may cost it more than is borne: then nothing is
/// measured, and what was seen stands.
#[test]
fn the_cpus_of_a_full_thread_are_what_it_waits_for() {
    let Some(lab) = Lab::up("explain-cpus", &["--disks", "1x0", "--nics", "0"]) else { return };
    let addresses = lab.succeed("address", &[]);
    let address = addresses.trim();
    let _takes = program(&lab, "peer", &["sink", address, "7473", "0"]);
    std::thread::sleep(Duration::from_millis(500));
    let found = experimented(program(&lab, "run", &["sum", address, "7473"]).id());
    if found["verdict"] == "measured" {
        assert_measured(&found, "cpu");
        // Its receiver, on the same CPUs, is stopped at the same moments: the share may lie above 1.
        let [low, high] = interval(&found, "cpu");
        return assert!(low > 0.5 && high > 0.8, "{low} to {high}: {found:#}");
    }
    let bottleneck = &found["bottleneck"];
    let sentence = bottleneck["sentence"].as_str().unwrap_or_default();
    // Whoever else computes meanwhile is named.
    let is_cpu = bottleneck["kind"] == "cpu" || bottleneck["kind"] == "others";
    assert!(is_cpu && sentence.contains(" Not measured: "), "{found:#}");
}

/// A server of a cached file over a NIC of 200 Mb/s: an agent behind that takes what is sent to it, and a NIC elsewhere is
/// said to be.
#[test]
fn a_shaped_nic_loses_what_is_sent_to_the_agent_behind_it() {
    let up = ["--disks", "1x0", "--nics", "200", "--file-size", "256M"];
    let Some(lab) = Lab::up("explain-nic", &up) else { return };
    let (sources, addresses) = (lab.succeed("sources", &[]), lab.succeed("address", &[]));
    let (file, address) = (sources.trim(), addresses.trim());
    std::fs::read(file).expect("cached");
    let agent = lab.agent("peer", &format!("{address}:0"), &[]);
    let (network, _) = address.rsplit_once('.').expect("an address");
    let server = format!("{network}.1");
    let serves = program(&lab, "run", &["serve", &server, "7474", file]);
    let _gets = program(&lab, "peer", &["copy", &server, "7474"]);
    std::thread::sleep(Duration::from_millis(3500));
    let found = linerate().args(words(serves.id())).args(agent.words()).arg("--json").ended();
    found.mentions(&["10 % of what it sends over NIC nic0, by sending to the agent at"]);
    let found = found.gives(0).json();
    assert_measured(&found, "nic");
    let [low, high] = interval(&found, "nic:nic0");
    assert!(low < 1.0 + 0.2 && high > 1.0 - 0.2 && high - low < 0.8, "{low} to {high}: {found:#}");
}

#[test]
fn a_rate_of_the_program_s_own_is_not_measured_and_a_killed_linerate_takes_nothing() {
    let Some(lab) = Lab::up("explain-pace", &["--disks", "1x200", "--nics", "0", "--file-size", "256M"])
    else {
        return;
    };
    let sources = lab.succeed("sources", &[]);
    let paced = program(&lab, "run", &["pace", sources.trim(), "65536", "40000000"]);
    let found = experimented(paced.id());
    assert_ne!(found["verdict"], "measured", "{found:#}");
    assert!(interval(&found, "disk:loop")[1] < 0.5, "{found:#}");

    let disk = found["disks"][0]["name"].as_str().expect("a disk");
    let (read, own) = (|| sectors_read(disk) * 512, || bytes_read(paced.id()));
    let beside = |time: Duration| {
        let before = (read(), own());
        std::thread::sleep(time);
        (read() - before.0) as f64 / (own() - before.1) as f64
    };
    let takes = Started::of(linerate().args(words(paced.id())));
    // It takes in half of the slots, of half a second each.
    until("something is taken", || beside(Duration::from_millis(300)) > 1.06);
    takes.signal("KILL");
    std::thread::sleep(Duration::from_secs(1));
    let ratio = beside(Duration::from_secs(2));
    assert!(ratio < 1.02, "{ratio} of what the program reads");
}

pub(crate) fn sectors_read(disk: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/sys/block/{disk}/stat")).expect("counters");
    text.split_ascii_whitespace().nth(2).and_then(|sectors| sectors.parse().ok()).expect("sectors")
}

fn bytes_read(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/io")).expect("its counters");
    let read = text.lines().find_map(|line| line.strip_prefix("read_bytes: "));
    read.and_then(|bytes| bytes.parse().ok()).expect("bytes")
}
