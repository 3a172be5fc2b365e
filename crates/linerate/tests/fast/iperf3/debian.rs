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
fn our_client_and_their_server_agree_in_every_mode() {
    let tcp = || short(Protocol::Tcp);
    let udp = || Iperf3Test { block_bytes: Some(1472), ..short(Protocol::Udp) };
    let slow = || Iperf3Test { bits_per_second: Some(20_000_000), ..udp() };
    let (receive, both) = (TestDirection::Receive, TestDirection::Both);
    for test in [
        Iperf3Test { parallel: 4, ..tcp() },
        Iperf3Test { direction: receive, parallel: 4, ..tcp() },
        Iperf3Test { direction: both, parallel: 2, ..tcp() },
        Iperf3Test { bytes: Some(10 << 20), ..tcp() },
        Iperf3Test { parallel: 4, ..udp() },
        Iperf3Test { direction: receive, parallel: 4, ..slow() },
        Iperf3Test { direction: both, parallel: 2, block_bytes: Some(8000), ..slow() },
        Iperf3Test { bytes: Some(1 << 20), block_bytes: Some(1000), ..udp() },
    ] {
        println!("{test:?}");
        with_their_server(&test);
    }
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
fn their_client_and_our_server_agree_in_every_mode() {
    for (words, streams) in [
        ("-t 1 -b 100M -P 4", 4),
        ("-t 1 -b 100M -P 4 -R", 4),
        ("-t 1 -b 100M -P 2 --bidir", 4),
        ("-t 1 -u -b 50M -P 4 -l 1472", 4),
        ("-t 1 -u -b 50M -l 1472 --udp-counters-64bit", 1),
        ("-t 1 -u -b 20M -P 4 -l 1472 -R", 4),
        ("-t 1 -u -b 20M -P 2 -l 1472 --bidir", 4),
        // Windows, and an end by bytes.
        ("-n 10M -w 200K -l 64K -N -S 32", 1),
    ] {
        with_their_client(words, streams);
    }
}
