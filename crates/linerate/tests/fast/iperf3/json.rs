//! Our JSON of a test has the keys of Debian's, neither more nor fewer, and adds up.

use super::peers::{Ours, Theirs, our_client, short, their_client};
use crate::support::rights::there;
use linerate::iperf3::{Iperf3Limits, Iperf3Test, TestDirection};
use linerate::protocol::Protocol;
use linerate::report::iperf3_json::{Ends, iperf3_json};
use serde_json::Value;
use std::collections::BTreeSet;

/// Every path to a value with its kind: `end.streams[].sender.bytes number`.
fn keys(value: &Value, path: &str, into: &mut BTreeSet<String>) {
    let kind = match value {
        Value::Object(members) => {
            members.iter().for_each(|(key, value)| keys(value, &format!("{path}.{key}"), into));
            return;
        }
        Value::Array(items) => {
            items.iter().for_each(|item| keys(item, &format!("{path}[]"), into));
            return;
        }
        Value::Number(_) => "number",
        Value::String(_) => "text",
        Value::Bool(_) => "truth",
        Value::Null => "nothing",
    };
    into.insert(format!("{path} {kind}"));
}

fn keys_of(value: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    keys(value, "", &mut found);
    found
}

#[test]
fn a_clients_keys_are_those_of_debians() {
    if !there("iperf3") {
        return;
    }
    for (protocol, direction, words) in [
        (Protocol::Tcp, TestDirection::Send, "-b 100M"),
        (Protocol::Tcp, TestDirection::Receive, "-b 100M -R"),
        (Protocol::Tcp, TestDirection::Both, "-b 100M --bidir"),
        (Protocol::Udp, TestDirection::Send, "-b 20M -u"),
        (Protocol::Udp, TestDirection::Receive, "-b 20M -u -R"),
        (Protocol::Udp, TestDirection::Both, "-b 20M -u --bidir"),
    ] {
        let server = Theirs::start();
        let theirs = keys_of(&their_client(server.address, &format!("-t 1 -P 2 {words}")));
        let server = Theirs::start();
        let test = Iperf3Test { direction, parallel: 2, ..short(protocol) };
        let outcome = our_client(server.address, &test);
        assert_eq!(outcome.error, None);
        let ours = keys_of(&iperf3_json(&Ends::from(&outcome)));
        let more: Vec<_> = ours.difference(&theirs).collect();
        let fewer: Vec<_> = theirs.difference(&ours).collect();
        assert!(more.is_empty() && fewer.is_empty(), "{words}: more {more:?}, fewer {fewer:?}");
    }
}

#[test]
fn the_sums_are_those_of_the_streams() {
    let server = Ours::start(Iperf3Limits::default());
    let test =
        Iperf3Test { parallel: 3, seconds: 0.4, direction: TestDirection::Both, ..short(Protocol::Udp) };
    let outcome = our_client(server.address, &test);
    let theirs = server.ended();
    for (outcome, who) in [(&outcome, "connecting_to"), (&theirs, "accepted_connection")] {
        let json = iperf3_json(&Ends::from(outcome));
        assert!(json["start"][who]["port"].is_u64(), "{who}");
        let sent = |sends: bool| -> u64 {
            outcome.local.iter().filter(|stream| stream.sender == sends).map(|stream| stream.bytes).sum()
        };
        // The client's own sending is the first sum, on both hosts.
        assert_eq!(json["end"]["sum_sent"]["bytes"].as_u64().map(|b| b > 0), Some(true));
        let ours = if outcome.client { "sum_sent" } else { "sum_sent_bidir_reverse" };
        assert_eq!(json["end"][ours]["bytes"], sent(true));
        let got = if outcome.client { "sum_received_bidir_reverse" } else { "sum_received" };
        assert_eq!(json["end"][got]["bytes"], sent(false));
        let streams = json["end"]["streams"].as_array().expect("streams");
        assert_eq!(streams.len(), 6);
        let intervals = json["intervals"].as_array().expect("intervals");
        let first: u64 = intervals.iter().filter_map(|i| i["sum"]["bytes"].as_u64()).sum();
        assert_eq!(first, sent(outcome.client));
    }
}

#[test]
fn a_test_that_failed_says_so_at_the_top() {
    let mut ends = Ends { client: true, ..Ends::default() };
    assert_eq!(iperf3_json(&ends).get("error"), None);
    ends.error = Some("gone".into());
    let json = iperf3_json(&ends);
    assert_eq!(json["error"], "gone");
    assert_eq!(json["end"]["sum_sent"]["bytes"], 0);
}
