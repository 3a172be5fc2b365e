//! Against Debian's iperf3, both ways round: every mode completes, and both ends tell the same figures within
//! 1 %.

use super::peers::{Ours, Theirs, disagreement, in_a_few_tries, our_client, short, their_client};
use crate::support::rights::there;
use linerate::iperf3::{Iperf3Limits, Iperf3Test, TestDirection};
use linerate::protocol::Protocol;
use serde_json::Value;

/// Our client against their server.
fn with_their_server(test: &Iperf3Test) {
    if !there("iperf3") {
        return;
    }
    in_a_few_tries(|| {
        let server = Theirs::start();
        let outcome = our_client(server.address, test);
        let ways = if test.direction == TestDirection::Both { 2 } else { 1 };
        assert_eq!(outcome.local.len(), test.parallel as usize * ways, "{:?}", outcome.error);
        let ids: Vec<u32> = outcome.local.iter().map(|stream| stream.id).collect();
        assert_eq!(ids[..], [1, 3, 4, 5, 6, 7, 8, 9][..ids.len()]);
        assert!(outcome.cpu_remote.is_some() || outcome.error.is_some());
        disagreement(&outcome).map_or(Ok(()), Err)
    });
}

#[test]
fn our_client_sends_tcp_on_four_streams() {
    with_their_server(&Iperf3Test { parallel: 4, ..short(Protocol::Tcp) });
}

#[test]
fn our_client_receives_tcp_on_four_streams() {
    with_their_server(&Iperf3Test { direction: TestDirection::Receive, parallel: 4, ..short(Protocol::Tcp) });
}

#[test]
fn our_client_does_both_over_tcp() {
    with_their_server(&Iperf3Test { direction: TestDirection::Both, parallel: 2, ..short(Protocol::Tcp) });
}

#[test]
fn our_client_sends_udp_on_four_streams() {
    with_their_server(&Iperf3Test { parallel: 4, block_bytes: Some(1472), ..short(Protocol::Udp) });
}

#[test]
fn our_client_receives_udp_on_four_streams() {
    with_their_server(&Iperf3Test {
        direction: TestDirection::Receive,
        parallel: 4,
        block_bytes: Some(1472),
        bits_per_second: Some(20_000_000),
        ..short(Protocol::Udp)
    });
}

#[test]
fn our_client_does_both_over_udp() {
    let rate = Some(20_000_000);
    let test = Iperf3Test {
        direction: TestDirection::Both,
        parallel: 2,
        bits_per_second: rate,
        ..short(Protocol::Udp)
    };
    with_their_server(&Iperf3Test { block_bytes: Some(8000), ..test });
}

#[test]
fn our_client_ends_by_bytes() {
    with_their_server(&Iperf3Test { bytes: Some(10 << 20), ..short(Protocol::Tcp) });
    with_their_server(&Iperf3Test { bytes: Some(1 << 20), block_bytes: Some(1000), ..short(Protocol::Udp) });
}

#[test]
fn our_client_leaves_the_warm_up_out() {
    if !there("iperf3") {
        return;
    }
    in_a_few_tries(|| {
        let server = Theirs::start();
        let test = Iperf3Test { omit_seconds: 1.0, parallel: 2, ..short(Protocol::Udp) };
        let outcome = our_client(server.address, &test);
        for stream in &outcome.local {
            assert!(stream.intervals.iter().any(|interval| interval.omitted), "{stream:?}");
            let counted: u64 =
                stream.intervals.iter().filter(|interval| !interval.omitted).map(|i| i.bytes).sum();
            assert_eq!(counted, stream.bytes, "{stream:?}");
        }
        // The two ends do not end their warm-up at the same moment.
        let near = |a: u64, b: u64| (a as f64 - b as f64).abs() < 0.05 * a as f64;
        let same = |id| outcome.remote_of(id).map(|remote| (remote.bytes, remote.packets.unwrap_or(0)));
        for ours in &outcome.local {
            let theirs = same(ours.id).ok_or("no results of theirs")?;
            if !near(ours.bytes, theirs.0) || !near(ours.packets.unwrap_or(0), theirs.1) {
                return Err(format!("{ours:?} {theirs:?}"));
            }
        }
        Ok(())
    });
}

/// Their client against our server: what both say, and the sums that their client prints.
fn with_their_client(words: &str, streams: usize) {
    if !there("iperf3") {
        return;
    }
    let server = Ours::start(Iperf3Limits::default());
    in_a_few_tries(|| {
        let printed = their_client(server.address, words);
        assert_eq!(printed.get("error"), None, "{words}: {printed}");
        let outcome = server.ended();
        assert_eq!(outcome.local.len(), streams, "{words}");
        assert_eq!(outcome.peer_version.as_deref().map(|version| &version[..2]), Some("3."));
        if let Some(why) = disagreement(&outcome) {
            return Err(format!("{words}: {why}"));
        }
        for (sum, ours_sent, theirs) in [
            ("/end/sum_sent/bytes", None, true),
            ("/end/sum_received/bytes", None, true),
            ("/end/sum_sent_bidir_reverse/bytes", Some(true), false),
        ] {
            let Some(sum) = printed.pointer(sum).and_then(Value::as_u64) else { continue };
            let both = outcome.local.iter().any(|s| s.sender) && outcome.local.iter().any(|s| !s.sender);
            let of =
                |sender: bool| outcome.local.iter().filter(|s| s.sender == sender).map(|s| s.bytes).sum();
            let ours: u64 = match ours_sent {
                Some(sender) => of(sender),
                None if both => of(!theirs),
                None => of(true) + of(false),
            };
            assert!((ours as f64 - sum as f64).abs() <= 0.011 * ours as f64, "{words}: {ours} and {sum}");
        }
        Ok(())
    });
}

#[test]
fn their_client_sends_tcp_on_four_streams() {
    with_their_client("-t 1 -b 100M -P 4", 4);
}

#[test]
fn their_client_receives_tcp_on_four_streams() {
    with_their_client("-t 1 -b 100M -P 4 -R", 4);
}

#[test]
fn their_client_does_both_over_tcp() {
    with_their_client("-t 1 -b 100M -P 2 --bidir", 4);
}

#[test]
fn their_client_sends_udp_on_four_streams() {
    with_their_client("-t 1 -u -b 50M -P 4 -l 1472", 4);
    with_their_client("-t 1 -u -b 50M -l 1472 --udp-counters-64bit", 1);
}

#[test]
fn their_client_receives_udp_on_four_streams() {
    with_their_client("-t 1 -u -b 20M -P 4 -l 1472 -R", 4);
}

#[test]
fn their_client_does_both_over_udp() {
    with_their_client("-t 1 -u -b 20M -P 2 -l 1472 --bidir", 4);
}

#[test]
fn their_client_asks_for_windows_and_ends_by_bytes() {
    with_their_client("-n 10M -w 200K -l 64K -N -S 32", 1);
}
