//! What each end tells the other when a test is over.

use super::figures::{StreamFigures, TestOutcome};
use super::results::{Results, StreamResult};
use linerate_facts::protocol::Protocol;

/// Our side of the exchange.
pub(crate) fn results(outcome: &TestOutcome) -> Results {
    let sends = outcome.local.iter().any(|stream| stream.sender);
    let streams = outcome.local.iter().map(|stream| StreamResult {
        id: stream.id,
        bytes: stream.bytes,
        retransmits: stream.retransmits,
        jitter_seconds: stream.jitter_seconds.unwrap_or(0.0),
        lost: stream.lost.unwrap_or(0) + stream.omitted.1,
        omitted_lost: Some(stream.omitted.1),
        packets: stream.packets.unwrap_or(0) + stream.omitted.0,
        omitted_packets: Some(stream.omitted.0),
        seconds: stream.seconds,
    });
    Results {
        cpu: outcome.cpu_local,
        sender_has_retransmits: if sends { i32::from(outcome.test.protocol == Protocol::Tcp) } else { -1 },
        congestion_control: outcome.congestion_local.clone(),
        streams: streams.collect(),
    }
}

/// What the other end told.
pub(crate) fn take_results(outcome: &mut TestOutcome, theirs: &Results) {
    let udp = outcome.test.protocol == Protocol::Udp;
    outcome.cpu_remote = Some(theirs.cpu);
    outcome.congestion_remote = theirs.congestion_control.clone();
    let reported = theirs.streams.iter().filter_map(|stream| {
        // A stream that we do not have is not believed.
        let ours = outcome.local.iter().find(|ours| ours.id == stream.id)?;
        let (sender, udp_receiver) = (!ours.sender, udp && ours.sender);
        // Before 3.13 a peer did not tell what it omitted: about as much as we did.
        let omitted_packets = stream.omitted_packets.unwrap_or(ours.omitted.0);
        let omitted_lost = stream.omitted_lost.unwrap_or(0);
        Some(StreamFigures {
            id: stream.id,
            sender,
            bytes: stream.bytes,
            seconds: if stream.seconds > 0.0 { stream.seconds } else { ours.seconds },
            retransmits: stream.retransmits.filter(|_| sender && !udp),
            jitter_seconds: udp_receiver.then_some(stream.jitter_seconds),
            lost: udp_receiver.then(|| stream.lost.saturating_sub(omitted_lost)),
            packets: udp.then(|| stream.packets.saturating_sub(omitted_packets)),
            ..StreamFigures::default()
        })
    });
    outcome.remote = reported.collect();
}
