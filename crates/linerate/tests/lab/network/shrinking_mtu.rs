//! The MTU of the path shrinks in the middle of `linerate run`: it ends in time, and says what happened.

use super::routed::{MIDDLE_MTU, Routed};
use crate::support::process::{Ends, ProcessEnd};
use serde_json::Value;
use std::process::Command;
use std::time::{Duration, Instant};

const SMALL_MTU: u64 = 1000;
/// Of the path, before it changes: well within the time that is counted, also on a busy machine.
const BYTES_BEFORE: u64 = 8 << 20;
/// With the probe, the other stages' preparation, and a busy machine.
const SOON: Duration = Duration::from_secs(45);

/// The path alone, for three seconds; the MTU shrinks in the middle of it.
fn run(ground: &Routed, protocol: &str) -> (Value, ProcessEnd) {
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("source");
    std::fs::write(&source, vec![7; 64 << 20]).expect("written");
    let source = source.to_str().expect("a plain path");
    let words = ["--protocol", protocol, "--source", source, "--stages", "path", "--method", "write"];
    let short = ["--seconds", "3", "--repeats", "1", "--no-save", "--rate-limit", "200M"];
    // Of UDP, what the router lets through at first: 28 bytes are headers.
    let datagram = (MIDDLE_MTU - 28).to_string();
    let fitting = if protocol == "udp" { &["--datagram", &datagram][..] } else { &[] };
    until_its_end(ground, ground.run(folder.path(), &[&words[..], &short, fitting].concat()))
}

/// The command's product; in the middle of its work the MTU shrinks.
fn until_its_end(ground: &Routed, mut command: Command) -> (Value, ProcessEnd) {
    let begun = Instant::now();
    let before = ground.sent_bytes();
    let child = command.spawn().expect("it starts");
    while ground.sent_bytes() < before + BYTES_BEFORE {
        assert!(begun.elapsed() < SOON, "nothing is sent");
        std::thread::sleep(Duration::from_millis(20));
    }
    ground.shrink(SMALL_MTU);
    let output = child.ended();
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    (output.json(), output)
}

#[test]
fn tcp_goes_on_with_smaller_segments_and_they_are_named() {
    let Some(ground) = Routed::new() else { return };
    let (run, output) = run(&ground, "tcp");
    output.gives(0);
    assert!(run["measurements"][0]["bytes_per_second"].as_f64().is_some_and(|rate| rate > 1e6), "{run}");
    let findings = run["diagnosis"]["findings"].as_array().expect("findings");
    let named = |finding: &Value| finding["text"].as_str().is_some_and(|text| text.contains("smaller MTU"));
    assert!(findings.iter().any(named), "{findings:?}");
}

#[test]
fn udp_ends_with_the_size_of_its_datagrams_as_the_reason() {
    let Some(ground) = Routed::new() else { return };
    names_the_datagrams(run(&ground, "udp"));
}

#[test]
fn streams_of_udp_end_with_the_same_reason() {
    let Some(ground) = Routed::new() else { return };
    let datagram = (MIDDLE_MTU - 28).to_string();
    let words =
        ["--protocol", "udp", "--seconds", "3", "--repeats", "1", "--no-save", "--datagram", &datagram];
    names_the_datagrams(until_its_end(&ground, ground.network(7411, &words)));
}

fn names_the_datagrams((run, output): (Value, ProcessEnd)) {
    output.gives(1);
    let errors = run["errors"].as_array().expect("errors");
    let named = |error: &Value| error.as_str().is_some_and(|text| text.contains("--datagram"));
    assert!(errors.iter().any(named), "{errors:?}");
}
