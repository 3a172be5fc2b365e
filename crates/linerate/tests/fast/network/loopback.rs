//! Without `--peer`: to a receiver of our own on loopback.

use crate::support::disk::measurements;
use crate::support::network::{QUICK, network};
use crate::support::process::Ends;

/// No trials.
const CHOSEN: [&str; 4] = ["--method", "write", "--congestion-control", "cubic"];

#[test]
fn both_protocols_in_all_directions_at_once() {
    let words = ["--direction", "send,receive,both", "--streams", "2", "--rate", "400M", "--json"];
    let run = network(&[&QUICK[..], &CHOSEN, &words].concat()).ended().gives(0).json();
    assert_eq!(run["stage"], "network");
    let all = measurements(&run);
    assert_eq!(all.len(), 6, "{:?}", all.iter().map(|m| m["name"].clone()).collect::<Vec<_>>());
    for measurement in all {
        assert!(measurement["bytes_per_second"].as_f64().is_some_and(|rate| rate > 1e6), "{measurement}");
        let streams = measurement["streams"]["streams"].as_array().expect("streams");
        let both = measurement["streams"]["job"]["direction"] == "both";
        assert_eq!(streams.len(), if both { 4 } else { 2 });
        let ways = measurement["streams"]["paths"].as_array().expect("paths");
        assert_eq!(ways.len(), if both { 2 } else { 1 }, "{ways:?}");
        for stream in streams {
            assert!(stream["received_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{stream}");
            assert!(stream["core"].is_number() && stream["peer_core"].is_number(), "{stream}");
        }
    }
}

#[test]
fn every_datagram_is_accounted_for() {
    let words = ["--protocol", "udp", "--direction", "send,receive", "--datagram", "1472", "--json"];
    let run = network(&[&QUICK[..], &words].concat()).ended().gives(0).json();
    for measurement in measurements(&run) {
        let stream = &measurement["streams"]["streams"][0];
        let count = |field: &str| stream[field].as_u64().expect("a count");
        assert!(count("sent_datagrams") > 0);
        assert_eq!(
            count("sent_datagrams"),
            count("received_datagrams") - count("duplicated") + count("lost"),
            "{stream}"
        );
        assert_eq!(count("foreign"), 0);
    }
}

#[test]
fn checksums_of_both_ends_agree() {
    let words = ["--protocol", "tcp", "--verify", "--direction", "send,receive", "--streams", "2", "--json"];
    let run = network(&[&QUICK[..], &CHOSEN, &words].concat()).ended().gives(0).json();
    for measurement in measurements(&run) {
        for stream in measurement["streams"]["streams"].as_array().expect("streams") {
            assert_eq!(stream["verified"], true, "{stream}");
            assert_eq!(stream["sent_bytes"], stream["received_bytes"]);
        }
    }
}

#[test]
fn a_file_arrives_whole_over_any_number_of_streams() {
    let place = tempfile::tempdir().expect("a directory");
    let path = place.path().join("file");
    // No multiple of anything that the streams or the disks are dealt in.
    let content = linerate_testing::content(1, 5_000_003);
    std::fs::write(&path, &content).expect("written");
    for streams in ["1", "3", "16"] {
        let source = path.to_str().expect("a plain path");
        let words =
            ["--protocol", "tcp", "--direction", "send", "--verify", "--source", source, "--no-latency"];
        let words = [
            &QUICK[..],
            &words,
            &["--method", "sendfile", "--congestion-control", "cubic"],
            &["--streams", streams, "--rate", "400M", "--json"],
        ]
        .concat();
        let run = network(&words).ended().gives(0).json();
        let with_file: Vec<_> = measurements(&run).iter().filter(|one| one["with_file"] == true).collect();
        assert_eq!(with_file.len(), 2, "cached and cold");
        for measurement in with_file {
            let ranges = measurement["streams"]["streams"].as_array().expect("streams");
            let arrived: u64 = ranges.iter().filter_map(|stream| stream["received_bytes"].as_u64()).sum();
            assert_eq!(arrived, content.len() as u64, "{streams} streams, {}", measurement["name"]);
            assert!(ranges.iter().all(|stream| stream["verified"] == true));
            assert_eq!(
                whole_checksum(ranges),
                checksum(&content),
                "{streams} streams, {}",
                measurement["name"]
            );
        }
    }
}

fn checksum(bytes: &[u8]) -> u64 {
    linerate_sums::crc(linerate_sums::CrcAlgorithm::Crc64Nvme, bytes)
}

/// That of the ranges one after the other.
fn whole_checksum(ranges: &[serde_json::Value]) -> u64 {
    let number = |range: &serde_json::Value, field: &str| range[field].as_u64().expect("a number");
    let whole = ranges.iter().map(|range| (number(range, "checksum"), number(range, "received_bytes")));
    let joined = whole.reduce(|(sum, length), (next, more)| {
        let algorithm = linerate_sums::CrcAlgorithm::Crc64Nvme;
        (linerate_sums::joined_crc(algorithm, sum, next, more), length + more)
    });
    joined.expect("a range").0
}

#[test]
fn pinned_and_not_pinned_are_side_by_side() {
    let words = ["--protocol", "tcp", "--direction", "send", "--pin", "auto", "--pin", "none"];
    let output = network(&[&QUICK[..], &CHOSEN, &words].concat()).ended();
    output.gives(0);
    let screen = &output.stdout;
    assert!(screen.contains("not pinned") && screen.contains("use of the cores"), "{screen}");
    assert!(screen.contains("softirq"), "{screen}");
}

#[test]
fn what_a_program_receives_and_the_network_alone_are_both_shown() {
    let words = ["--protocol", "tcp", "--skip-receive-copy", "--rate", "400M"];
    let run = network(&[&QUICK[..], &CHOSEN, &words, &["--json"]].concat()).ended().gives(0).json();
    for measurement in measurements(&run) {
        let alone = measurement["streams"]["network_only_bytes_per_second"].as_f64();
        assert!(alone.is_some_and(|rate| rate > 0.0), "{}: {alone:?}", measurement["name"]);
        assert!(measurement["bytes_per_second"].as_f64().is_some_and(|rate| rate > 0.0));
    }
    let output = network(&[&QUICK[..], &CHOSEN, &words].concat()).ended();
    assert!(output.stdout.contains("network only"), "{}", output.stderr);
}

#[test]
fn the_way_of_sending_is_chosen_and_said() {
    let words = ["--protocol", "tcp", "--direction", "send", "--json"];
    let run = network(&[&QUICK[..], &words].concat()).ended().gives(0).json();
    let result = &measurements(&run)[0]["streams"];
    let tried = result["methods"].as_array().expect("trials");
    assert!(tried.len() >= 3, "{tried:?}");
    let chosen: Vec<_> = tried.iter().filter(|trial| trial["chosen"] == true).collect();
    assert_eq!(chosen.len(), 1);
    assert_eq!(result["job"]["method"], chosen[0]["method"]);
    assert!(result["idle_latency"]["p50"].as_f64().is_some_and(|trip| trip > 0.0), "{result}");
    assert!(result["loaded_latency"]["p99"].as_f64().is_some_and(|trip| trip > 0.0));
    let carried = &result["path_mtus"][0];
    assert!(carried["found_bytes"].as_u64().is_some_and(|bytes| bytes >= 1500), "{carried}");
}
