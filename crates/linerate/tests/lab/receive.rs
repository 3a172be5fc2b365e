//! Flows that come in: what limits `linerate run --flow network-to-disk` and `network-to-memory` on a server of known
//! speeds, and that nothing of what was stored is left behind.

use super::sink::assert_limit;
use crate::support::agent::StartedAgent;
use crate::support::disk_places::{Tmpfs, can_mount};
use crate::support::lab::Lab;
use crate::support::linerate;
use crate::support::process::{Ends, ProcessEnd};
use serde_json::Value;
use std::process::{Command, Stdio};

/// A path of one worker, for a moment.
const BRIEFLY: [&str; 6] = ["--stages", "path", "--seconds", "0.3", "--repeats", "1"];

/// Runs on the server of the lab, which receives from an agent on its peer.
fn measured(lab: &Lab, flow: &str, words: &[&str]) -> Value {
    let peer = lab.succeed("address", &["0"]);
    let agent = lab.agent("peer", &format!("{}:7471", peer.trim()), &[]);
    let words = [&["--stages", "disk,network,path", "--budget", "14"], words].concat();
    agent.run_flow(lab.linerate("run", &[]), flow, &words).ended().gives(0).json()
}

/// Stored on the disk of the lab.
fn stored(lab: &Lab) -> Value {
    let mounts = lab.succeed("mounts", &[]);
    let files = || std::fs::read_dir(mounts.trim()).expect("a list").count();
    let before = files();
    let run = measured(lab, "network-to-disk", &["--sink", mounts.trim()]);
    assert_eq!(files(), before, "something is left");
    run
}

fn path(run: &Value) -> &Value {
    let all = run["measurements"].as_array().expect("figures");
    all.iter().find(|one| one["stage"] == "path").expect("the path")
}

#[test]
fn the_disk_that_receives_is_named() {
    let options = ["--disks", "1x50", "--nics", "1000", "--file-size", "32M"];
    let Some(lab) = Lab::up("receive-disk", &options) else { return };
    let run = stored(&lab);
    assert_limit(&run, "disk", "disk:loop", "network to disk");
    let path = path(&run);
    let waits = path["workers"][0]["waiting_sink"].as_f64();
    assert!(waits.is_some_and(|waits| waits > 0.5), "{path:#}");
    let wrote = path["devices"][0]["written_bytes_per_second"].as_f64();
    assert!(wrote.is_some_and(|rate| rate > 40e6) && path["sender"]["host"].is_string(), "{path:#}");
}

#[test]
fn the_nic_that_receives_is_named_before_a_disk_and_before_memory() {
    let options = ["--disks", "1x100", "--nics", "200", "--file-size", "32M"];
    let Some(lab) = Lab::up("receive-nic", &options) else { return };
    assert_limit(&stored(&lab), "nic", "nic:", "network to disk");
    let run = measured(&lab, "network-to-memory", &[]);
    assert_limit(&run, "nic", "nic:", "network to memory");
    assert!(run["diagnosis"]["predicted"]["bytes_per_second"].is_number(), "{run:#}");
}

fn briefly(agent: &StartedAgent, flow: &str, words: &[&str]) -> ProcessEnd {
    agent.run_flow(linerate(), flow, &[&BRIEFLY[..], words].concat()).ended()
}

#[test]
fn both_ends_agree_on_what_came_and_was_stored() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().to_str().expect("a plain path");
    for (flow, words) in [
        ("network-to-memory", vec!["--verify"]),
        ("network-to-disk", vec!["--verify", "--sink", place, "--sink-limit", "64M"]),
    ] {
        let output = briefly(&StartedAgent::start(&[]), flow, &words);
        assert!(output.status.success(), "{flow}: {}", output.stderr);
        let run = output.json();
        let path = path(&run);
        assert!(path["incoming"] == true && path["verified"].is_null(), "{path:#}");
        assert_eq!(path["sender"]["verified"], true, "{path:#}");
        assert_eq!(path["sync_seconds"].is_number(), flow == "network-to-disk", "{path:#}");
    }
    assert_eq!(std::fs::read_dir(place).expect("a list").count(), 0);
}

#[test]
fn neither_end_that_is_killed_while_it_receives_leaves_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().to_str().expect("a plain path");
    for victim in ["agent", "run"] {
        let mut agent = StartedAgent::start(&[]);
        let words =
            ["--stages", "path", "--seconds", "5", "--repeats", "1", "--sink", place, "--sink-limit", "64M"];
        let mut run = agent.run_flow(linerate(), "network-to-disk", &words);
        let mut run = run.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
        StartedAgent::awaits_of(run.id(), place, true);
        if victim == "agent" {
            agent.child.kill().expect("killed");
        } else {
            run.kill().expect("killed");
        }
        let output = run.ended();
        if victim == "agent" {
            let said = &output.stderr;
            assert_eq!(said.lines().filter(|line| line.contains("path tcp")).count(), 1, "{said}");
        }
        assert_eq!(std::fs::read_dir(place).expect("a list").count(), 0, "{victim} left a file");
    }
}

#[test]
fn words_that_do_not_go_with_a_flow_are_one_sentence() {
    let said = |words: &[&str], status: i32| {
        let ended = linerate().arg("run").args(words).ended();
        ended.gives(status).says(&[]);
        ended.stderr
    };
    let peer = ["--peer", "127.0.0.1:1"];
    let (disk, memory) = (["--flow", "network-to-disk"], ["--flow", "network-to-memory"]);
    assert!(said(&memory, 2).contains("--peer HOST"));
    assert!(said(&[&disk[..], &peer].concat(), 2).contains("--sink DIR"));
    assert!(
        said(&[&memory[..], &peer, &["--source", "/etc/passwd"]].concat(), 2).contains("--source is about")
    );
    assert!(said(&[&memory[..], &peer, &["--sink", "/tmp"]].concat(), 2).contains("network-to-disk stores"));
    assert!(said(&[&memory[..], &peer, &["--protocol", "udp"]].concat(), 2).contains("goes over TCP"));
}

#[test]
fn a_directory_that_cannot_be_stored_in_is_one_sentence() {
    let agent = StartedAgent::start(&[]);
    let said = |place: &str, status: i32| {
        let ended = briefly(&agent, "network-to-disk", &["--sink", place]);
        ended.gives(status);
        assert_eq!(ended.stderr.lines().filter(|line| line.contains("sink")).count(), 1, "{ended}");
        ended.stderr
    };
    assert!(said("/nonexistent/place", 3).contains("it is not there"));
    let Some(()) = can_mount() else { return };
    let small = Tmpfs::new(12, "");
    assert!(said(small.path.to_str().expect("a plain path"), 1).contains("has too little room"));
    assert_eq!(std::fs::read_dir(&small.path).expect("a list").count(), 0);
}

#[test]
fn a_rate_limit_of_either_end_is_what_limits() {
    let kind = |agent: &StartedAgent, words: &[&str]| {
        let words = [&["--stages", "network,path", "--seconds", "0.4", "--repeats", "6"], words].concat();
        let run: &mut Command = &mut agent.run_flow(linerate(), "network-to-memory", &words);
        let run = run.ended().gives(0).json();
        let rate = path(&run)["bytes_per_second"].as_f64().expect("a rate");
        assert!(rate <= 21e6, "{rate}");
        run["diagnosis"]["bottleneck"]["kind"].as_str().expect("a kind").to_string()
    };
    assert_eq!(kind(&StartedAgent::start(&[]), &["--rate-limit", "20MB/s"]), "demand");
    assert_eq!(kind(&StartedAgent::start(&["--rate-limit", "20MB/s"]), &[]), "sender");
}
