//! A router in the middle has a smaller MTU than both ends: found over UDP and TCP, and told apart from a
//! router that says nothing.

use super::routed::{ICMP, MIDDLE_MTU, Routed};
use serde_json::Value;

/// One short figure a protocol, without trials.
const QUICK: &str = "--protocol both --rate 200M --direction send --method write --congestion-control cubic --no-latency --seconds 0.3 \
    --repeats 2 --pin=none";

fn path_mtu_finding(run: &Value) -> &str {
    let findings = run["diagnosis"]["findings"].as_array().expect("findings");
    let found = findings.iter().find(|finding| finding["id"] == "path-mtu");
    found.and_then(|finding| finding["text"].as_str()).unwrap_or_else(|| panic!("not named: {findings:?}"))
}

fn found_bytes(run: &Value) -> (u64, bool) {
    let path = &run["measurements"][0]["streams"]["path_mtus"][0];
    assert_eq!((&path["ours_bytes"], &path["theirs_bytes"]), (&1500.into(), &1500.into()), "{path}");
    (path["found_bytes"].as_u64().expect("found"), path["black_hole"] == true)
}

#[test]
fn a_router_that_says_too_big_is_heard_by_both_protocols_and_the_agent_tries_its_own_methods() {
    let Some(ground) = Routed::new() else { return };
    both_protocols_hear_the_router(&ground);
    the_agents_method_is_tried_at_the_agent(&ground);
}

fn both_protocols_hear_the_router(ground: &Routed) {
    let (run, output) = ground.measure(&QUICK.split(' ').collect::<Vec<_>>());
    output.gives(0);
    let (found, black_hole) = found_bytes(&run);
    assert!((MIDDLE_MTU - 4..=MIDDLE_MTU).contains(&found), "{found}");
    assert!(!black_hole, "the router told so");
    let text = path_mtu_finding(&run);
    assert!(text.contains(&found.to_string()) && text.contains("1500") && !text.contains("vanish"), "{text}");
    for measurement in run["measurements"].as_array().expect("measurements") {
        assert!(measurement["bytes_per_second"].as_f64().is_some_and(|rate| rate > 1e6), "{measurement}");
        let stream = &measurement["streams"]["streams"][0];
        if measurement["streams"]["job"]["protocol"] == "tcp" {
            assert_eq!(stream["tcp"]["path_mtu"], MIDDLE_MTU, "{stream}");
        } else {
            assert_eq!(measurement["streams"]["job"]["datagram_bytes"], found - 28, "one packet each");
            assert_eq!(stream["lost"], 0, "{stream}");
        }
    }
}

#[test]
fn a_router_that_says_nothing_is_a_black_hole() {
    let Some(ground) = Routed::new() else { return };
    if !ground.router_swallows(ICMP) {
        return;
    }
    let (run, output) = ground.measure(&QUICK.split(' ').collect::<Vec<_>>());
    output.gives(0);
    let (found, black_hole) = found_bytes(&run);
    assert!((MIDDLE_MTU - 4..=MIDDLE_MTU).contains(&found) && black_hole, "{found} {black_hole}");
    let text = path_mtu_finding(&run);
    assert!(text.contains("black hole") && text.contains(&found.to_string()), "{text}");
    // TCP's segments vanish as well, and still its end can be asked: the control connection's are small.
    let measurements = run["measurements"].as_array().expect("measurements");
    assert_eq!(measurements.len(), 2);
    for measurement in measurements {
        let rate = measurement["bytes_per_second"].as_f64().expect("a rate");
        if measurement["streams"]["job"]["protocol"] == "tcp" {
            assert!(rate < 1e6, "{measurement}");
        } else {
            assert_eq!(measurement["streams"]["streams"][0]["lost"], 0, "of datagrams that fit");
            assert!(rate > 1e6, "{measurement}");
        }
    }
}

fn the_agents_method_is_tried_at_the_agent(ground: &Routed) {
    let words = ["--protocol", "tcp", "--direction", "receive,both", "--congestion-control", "cubic"];
    let short = ["--no-latency", "--seconds", "0.2", "--repeats", "1"];
    let (run, output) = ground.measure(&[&words[..], &short].concat());
    output.gives(0);
    let chosen = |measurement: &Value, by_peer: bool| {
        let tried = measurement["streams"]["methods"].as_array().expect("trials").clone();
        let by = |trial: &Value| trial["by_peer"].as_bool().unwrap_or(false) == by_peer;
        let chosen: Vec<Value> =
            tried.into_iter().filter(|trial| by(trial) && trial["chosen"] == true).collect();
        assert!(chosen.len() <= 1, "{chosen:?}");
        chosen.first().map(|trial| (trial["method"].clone(), trial["write_bytes"].clone()))
    };
    let [receive, both] = [0, 1].map(|at| &run["measurements"][at]);
    let way = |job: &Value| (job["method"].clone(), job["write_bytes"].clone());
    // Only the agent sends: nobody here was asked, and it does what was best there.
    let job = &receive["streams"]["job"];
    assert_eq!((chosen(receive, true), chosen(receive, false)), (Some(way(job)), None), "{receive}");
    assert!(receive["method"].as_str().is_some_and(|told| told.contains("by the peer")), "{receive}");
    let job = &both["streams"]["job"];
    assert_eq!(chosen(both, true), Some(way(&job["peer"])), "{job}");
    assert_eq!(chosen(both, false), Some(way(job)), "{job}");
}
