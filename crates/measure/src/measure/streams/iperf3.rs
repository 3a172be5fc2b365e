//! A test against an iperf3 as a measurement: both ends' own counts, as far as its protocol tells them.

use super::job::{StreamDirection, StreamsJob};
use super::result::{Buffers, PathFigure, StreamFigure, StreamsResult};
use crate::measure::product::{Measurement, ReceiverResult, Stage};
use crate::measure::window::WindowObservation;
use linerate_facts::host::HostUse;
use linerate_facts::protocol::Protocol;
use linerate_model::plan::PathPlan;
use linerate_transport::iperf3::{self, CpuUse, IntervalReport, StreamFigures, TestOutcome};

/// The figure of a test over this path.
pub(crate) fn from_iperf3(outcome: &TestOutcome, path: &PathPlan) -> Measurement {
    let test = &outcome.test;
    let direction = match test.direction {
        iperf3::TestDirection::Send => StreamDirection::Send,
        iperf3::TestDirection::Receive => StreamDirection::Receive,
        iperf3::TestDirection::Both => StreamDirection::Both,
    };
    let directions = match direction {
        StreamDirection::Both => "both ways".to_string(),
        one => one.to_string(),
    };
    let streams: Vec<StreamFigure> =
        outcome.local.iter().map(|ours| stream(outcome, ours, &path.name)).collect();
    let seconds = outcome.local.iter().map(|stream| stream.seconds).fold(0.0, f64::max);
    let bytes = streams.iter().map(|stream| stream.received_bytes).fold(0, u64::saturating_add);
    let watched = WindowObservation {
        samples: samples(&outcome.local),
        bytes,
        host: HostUse { seconds, ..HostUse::default() },
        ..WindowObservation::default()
    };
    let name = format!("{} {} {directions}, iperf3", path.name, test.protocol);
    let mut measurement = Measurement::of(Stage::Network, name, path.resource.clone(), &watched);
    measurement.protocol = Some(test.protocol);
    // What arrived, over the whole test; the intervals are this end's.
    let arrived = |ours: bool| outcome.received_bytes_per_second(ours);
    measurement.bytes_per_second = arrived(true) + arrived(false);
    let per_gb = |cpu: &CpuUse| cpu.total / 100.0 * seconds * 1e9 / (bytes.max(1)) as f64;
    measurement.cpu_seconds_per_gb = per_gb(&outcome.cpu_local);
    measurement.receiver = outcome.cpu_remote.as_ref().map(|cpu| ReceiverResult {
        host: path.peer.ip().to_string(),
        cpu_seconds_per_gb: per_gb(cpu),
        ..ReceiverResult::default()
    });
    measurement.loss = super::describe::loss(streams.iter());
    measurement.method = method(outcome);
    measurement.flags = outcome.warnings.clone();
    let job = StreamsJob {
        streams: test.parallel,
        write_bytes: test.block_bytes.unwrap_or(0),
        congestion_control: test.congestion_control.clone(),
        bytes_per_second: test
            .bits_per_second
            .filter(|rate| *rate > 0)
            .map(|rate| rate as f64 / 8.0 * f64::from(test.parallel)),
        ..StreamsJob::plain(test.protocol, direction)
    };
    measurement.streams = Some(Box::new(StreamsResult::plain(job, paths(outcome, path, direction), streams)));
    measurement
}

fn method(outcome: &TestOutcome) -> String {
    let block = linerate_facts::units::show_size(u64::from(outcome.test.block_bytes.unwrap_or(0)));
    match outcome.test.protocol {
        Protocol::Tcp => {
            let control = outcome.congestion_local.as_deref().unwrap_or("of the system");
            format!("iperf3's protocol, send of {block}, TCP {control}")
        }
        Protocol::Udp => {
            format!("iperf3's protocol, datagrams of {block}, segmented by the kernel where it can")
        }
    }
}

/// Sums of this end's streams by interval, without the warm-up.
fn samples(streams: &[StreamFigures]) -> Vec<f64> {
    let counted = |stream: &StreamFigures| -> Vec<IntervalReport> {
        stream.intervals.iter().filter(|interval| !interval.omitted).cloned().collect()
    };
    let all: Vec<Vec<IntervalReport>> = streams.iter().map(counted).collect();
    let length = all.iter().map(Vec::len).min().unwrap_or(0);
    let rate = |interval: &IntervalReport| interval.bytes as f64 / (interval.end - interval.start).max(1e-9);
    (0..length).map(|index| all.iter().map(|intervals| rate(&intervals[index])).sum()).collect()
}

fn paths(outcome: &TestOutcome, path: &PathPlan, direction: StreamDirection) -> Vec<PathFigure> {
    let directions: &[StreamDirection] = match direction {
        StreamDirection::Both => &[StreamDirection::Send, StreamDirection::Receive],
        StreamDirection::Send => &[StreamDirection::Send],
        StreamDirection::Receive => &[StreamDirection::Receive],
    };
    let one = |way: &StreamDirection| {
        let sends = *way == StreamDirection::Send;
        let ours: Vec<StreamFigures> =
            outcome.local.iter().filter(|one| one.sender == sends).cloned().collect();
        let figures: Vec<StreamFigure> = ours.iter().map(|one| stream(outcome, one, &path.name)).collect();
        PathFigure {
            name: path.name.clone(),
            direction: *way,
            streams: ours.len() as u32,
            bytes_per_second: outcome.received_bytes_per_second(sends),
            samples: samples(&ours),
            loss: super::describe::loss(figures.iter()),
        }
    };
    directions.iter().map(one).collect()
}

/// One stream with both ends; where the other end did not tell, ours stands for both.
fn stream(outcome: &TestOutcome, ours: &StreamFigures, path: &str) -> StreamFigure {
    let theirs = outcome.remote_of(ours.id);
    let (sender, receiver) = if ours.sender { (Some(ours), theirs) } else { (theirs, Some(ours)) };
    let side = receiver.or(sender).unwrap_or(ours);
    let (sent, lost) = (sender.unwrap_or(ours), side.lost.unwrap_or(0));
    let expected = side.packets.unwrap_or(0);
    let (send_granted_bytes, receive_granted_bytes) = match (outcome.buffer_bytes, ours.sender) {
        (Some((send, _)), true) => (send, 0),
        (Some((_, receive)), false) => (0, receive),
        (None, _) => (0, 0),
    };
    StreamFigure {
        path: path.to_string(),
        direction: if ours.sender { StreamDirection::Send } else { StreamDirection::Receive },
        addresses: ours.addresses,
        bytes_per_second: side.bits_per_second() / 8.0,
        samples: samples(std::slice::from_ref(ours)),
        sent_bytes: sent.bytes,
        sent_datagrams: sent.packets.unwrap_or(expected),
        received_bytes: side.bytes,
        received_datagrams: expected.saturating_sub(lost),
        lost,
        reordered: side.reordered.unwrap_or(0),
        foreign: side.foreign.unwrap_or(0),
        jitter_seconds: side.jitter_seconds.unwrap_or(0.0),
        refused_sends: sent.refused_sends.unwrap_or(0),
        buffers: Buffers {
            send_asked_bytes: outcome.test.window_bytes,
            receive_asked_bytes: outcome.test.window_bytes,
            send_granted_bytes,
            receive_granted_bytes,
            needed_bytes: None,
        },
        tcp: ours.tcp.clone(),
        ..StreamFigure::default()
    }
}
