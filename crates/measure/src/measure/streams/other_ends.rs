//! Streams to where no linerate is, as measurements: a test against an iperf3, by both ends' own counts, as far as its
//! protocol reports them; and datagrams that nobody received, by what the NIC counted of them.

use super::HostCounters;
use super::job::{StreamDirection, StreamsJob};
use super::result::{Buffers, NicAccount, PathFigure, StreamFigure, StreamsResult};
use crate::measure::product::{Measurement, ReceiverResult, Stage};
use crate::measure::statistics;
use crate::measure::window::WindowObservation;
use linerate_facts::counters::{InterfaceCounters, NetworkCounters};
use linerate_facts::host::HostUse;
use linerate_facts::protocol::Protocol;
use linerate_model::plan::PathPlan;
use linerate_transport::iperf3::{self, CpuUse, IntervalReport, StreamFigures, TestOutcome};

/// Bytes of a packet that are not payload.
pub(crate) const ETHERNET: u64 = 14;
const UDP: u64 = 8;
/// Ethernet, IP and UDP.
pub(crate) const HEADERS: u64 = ETHERNET + 20 + UDP;
pub(crate) const HEADERS_V6: u64 = ETHERNET + 40 + UDP;
/// What says of a packet of IPv6 which fragment it is.
const FRAGMENT_V6: u64 = 8;

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
        outcome.local.iter().map(|ours| figure_of_iperf3(outcome, ours, &path.name)).collect();
    let seconds = outcome.local.iter().map(|stream| stream.seconds).fold(0.0, f64::max);
    let bytes = streams.iter().map(|stream| stream.received_bytes).fold(0, u64::saturating_add);
    let watched = WindowObservation {
        samples: samples_of_iperf3(&outcome.local),
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
    measurement.method = method_of_iperf3(outcome);
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
    measurement.streams =
        Some(Box::new(StreamsResult::plain(job, paths_to_iperf3(outcome, path, direction), streams)));
    measurement
}

fn method_of_iperf3(outcome: &TestOutcome) -> String {
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
fn samples_of_iperf3(streams: &[StreamFigures]) -> Vec<f64> {
    let counted = |stream: &StreamFigures| -> Vec<IntervalReport> {
        stream.intervals.iter().filter(|interval| !interval.omitted).cloned().collect()
    };
    let all: Vec<Vec<IntervalReport>> = streams.iter().map(counted).collect();
    let length = all.iter().map(Vec::len).min().unwrap_or(0);
    let rate = |interval: &IntervalReport| interval.bytes as f64 / (interval.end - interval.start).max(1e-9);
    (0..length).map(|index| all.iter().map(|intervals| rate(&intervals[index])).sum()).collect()
}

fn paths_to_iperf3(outcome: &TestOutcome, path: &PathPlan, direction: StreamDirection) -> Vec<PathFigure> {
    let directions: &[StreamDirection] = match direction {
        StreamDirection::Both => &[StreamDirection::Send, StreamDirection::Receive],
        StreamDirection::Send => &[StreamDirection::Send],
        StreamDirection::Receive => &[StreamDirection::Receive],
    };
    let one = |way: &StreamDirection| {
        let sends = *way == StreamDirection::Send;
        let ours: Vec<StreamFigures> =
            outcome.local.iter().filter(|one| one.sender == sends).cloned().collect();
        let figures: Vec<StreamFigure> =
            ours.iter().map(|one| figure_of_iperf3(outcome, one, &path.name)).collect();
        PathFigure {
            name: path.name.clone(),
            direction: *way,
            streams: ours.len() as u32,
            bytes_per_second: outcome.received_bytes_per_second(sends),
            samples: samples_of_iperf3(&ours),
            loss: super::describe::loss(figures.iter()),
        }
    };
    directions.iter().map(one).collect()
}

/// One stream with both ends; where the other end did not tell, ours stands for both.
fn figure_of_iperf3(outcome: &TestOutcome, ours: &StreamFigures, path: &str) -> StreamFigure {
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
        samples: samples_of_iperf3(std::slice::from_ref(ours)),
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

/// What was sent, and what this host counted meanwhile.
pub(crate) struct SentBlindly {
    /// Differences, from before the first datagram to after the last.
    pub counters: NetworkCounters,
    /// Of each stream, each window, bytes per second.
    pub samples: Vec<Vec<f64>>,
    pub streams: Vec<StreamFigure>,
    /// Answers that nobody listens.
    pub unreachable: u64,
    /// What the host did for it.
    pub host: HostUse,
}

impl SentBlindly {
    fn bytes(&self) -> u64 {
        self.streams.iter().map(|stream| stream.sent_bytes).sum()
    }
}

/// The figure over this path: of what the kernel was given, the part that left by the NIC.
pub(crate) fn from_blind(
    name: String,
    host: String,
    path: &PathPlan,
    job: &StreamsJob,
    sent: &SentBlindly,
) -> Measurement {
    let account = account(path, job, sent);
    let left = account.payload_bytes as f64 / sent.bytes().max(1) as f64;
    let windows = sent.samples.iter().map(Vec::len).min().unwrap_or(0);
    let window = |index: usize| sent.samples.iter().map(|of| of[index]).sum::<f64>() * left;
    let samples: Vec<f64> = (0..windows).map(window).collect();
    let observed = WindowObservation {
        samples: samples.clone(),
        bytes: account.payload_bytes,
        host: sent.host.clone(),
        ..WindowObservation::default()
    };
    let mut measurement = Measurement::of(Stage::Network, name, path.resource.clone(), &observed);
    measurement.protocol = Some(Protocol::Udp);
    measurement.method = method_without_receiver(&account.interface, sent);
    let figure = PathFigure {
        name: path.name.clone(),
        direction: StreamDirection::Send,
        streams: sent.streams.len() as u32,
        bytes_per_second: statistics::median(&samples),
        samples,
        loss: 0.0,
    };
    let counters = HostCounters {
        host,
        peer: false,
        paths: vec![path.name.clone()],
        interface: path.nic.clone(),
        counters: sent.counters.clone(),
    };
    let part = |stream: &StreamFigure| StreamFigure {
        bytes_per_second: stream.bytes_per_second * left,
        samples: stream.samples.iter().map(|rate| rate * left).collect(),
        ..stream.clone()
    };
    let streams = sent.streams.iter().map(part).collect();
    let result = StreamsResult {
        at_nic: Some(account),
        counters: vec![counters],
        ..StreamsResult::plain(job.clone(), vec![figure], streams)
    };
    measurement.streams = Some(Box::new(result));
    measurement
}

fn method_without_receiver(nic: &str, sent: &SentBlindly) -> String {
    let trains = sent.streams.iter().any(|stream| stream.trains > 0);
    let how = if trains { "segmented by the kernel (UDP_SEGMENT)" } else { "datagrams one by one" };
    format!("UDP, {how}, without a receiver: counted by {nic}")
}

/// The figure over all NICs at once, of the figures of each.
pub(crate) fn all_blind(
    name: String,
    figures: &[Measurement],
    job: &StreamsJob,
    host: &HostUse,
) -> Measurement {
    let results = || figures.iter().filter_map(|figure| figure.streams.as_deref());
    let accounts = || results().filter_map(|result| result.at_nic.as_ref());
    let sum = |of: fn(&NicAccount) -> u64| accounts().map(of).sum::<u64>();
    let interfaces: Vec<&str> = accounts().map(|account| account.interface.as_str()).collect();
    let account = NicAccount {
        interface: interfaces.join(", "),
        packets: sum(|one| one.packets),
        bytes: sum(|one| one.bytes),
        payload_bytes: sum(|one| one.payload_bytes),
        qdisc_drops: sum(|one| one.qdisc_drops),
        unreachable: sum(|one| one.unreachable),
    };
    let windows = figures.iter().map(|figure| figure.samples.len()).min().unwrap_or(0);
    let observed = WindowObservation {
        samples: (0..windows)
            .map(|at| figures.iter().map(|figure| figure.samples[at]).sum::<f64>())
            .collect(),
        bytes: account.payload_bytes,
        host: host.clone(),
        ..WindowObservation::default()
    };
    let mut measurement = Measurement::of(Stage::Network, name, "all".into(), &observed);
    measurement.protocol = Some(Protocol::Udp);
    measurement.together = true;
    measurement.method = figures.first().map(|figure| figure.method.clone()).unwrap_or_default();
    let paths = results().flat_map(|result| result.paths.clone()).collect();
    let streams = results().flat_map(|result| result.streams.clone()).collect();
    let plain = StreamsResult::plain(job.clone(), paths, streams);
    measurement.streams = Some(Box::new(StreamsResult { at_nic: Some(account), ..plain }));
    measurement
}

/// How datagrams are cut at this MTU: packets of each, and bytes of each packet and of each datagram that are not payload.
fn cut(mtu: u64, v6: bool, datagram: u64) -> (u64, u64, u64) {
    let headers = if v6 { HEADERS_V6 } else { HEADERS };
    if datagram + headers - ETHERNET <= mtu {
        return (1, headers, 0);
    }
    let each = headers - UDP + if v6 { FRAGMENT_V6 } else { 0 };
    // A fragment begins at a multiple of 8 bytes (RFC 791, RFC 8200).
    let room = (mtu.saturating_sub(each - ETHERNET) / 8 * 8).max(8);
    ((datagram + UDP).div_ceil(room), each, UDP)
}

fn account(path: &PathPlan, job: &StreamsJob, sent: &SentBlindly) -> NicAccount {
    let interface = path.nic.clone().unwrap_or_default();
    let nic = sent.counters.interface(&interface);
    let of = |name: &str| nic.map_or(0, |nic| statistic(nic, name));
    let (packets, bytes) = (of("tx_packets"), of("tx_bytes"));
    // Without an MTU nothing is known of fragments.
    let mtu = path.mtu.known().map_or(u64::MAX, |mtu| u64::from(*mtu));
    let datagram = u64::from(job.datagram_bytes.unwrap_or(0));
    let (fragments, each, of_datagram) = cut(mtu, path.peer.is_ipv6(), datagram);
    let headers = packets.saturating_mul(each).saturating_add(packets / fragments * of_datagram);
    let qdiscs = nic.and_then(|nic| nic.qdiscs.known());
    NicAccount {
        interface,
        packets,
        bytes,
        payload_bytes: bytes.saturating_sub(headers).min(sent.bytes()),
        qdisc_drops: qdiscs.into_iter().flatten().filter_map(|one| one.drops.known()).sum(),
        unreachable: sent.unreachable,
    }
}

/// What an interface counts by this name of sysfs.
pub(crate) fn statistic(nic: &InterfaceCounters, name: &str) -> u64 {
    nic.statistics.known().and_then(|all| all.get(name)?.known().copied()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_have_headers_of_their_own() {
        assert_eq!(cut(1500, false, 1472), (1, 42, 0));
        assert_eq!(cut(1500, false, 1473), (2, 34, 8));
        // iperf's 63 KiB over jumbo frames, as SARA sent them.
        assert_eq!(cut(9000, false, 64_512), (8, 34, 8));
        assert_eq!(cut(1500, true, 1453), (2, 62, 8));
        assert_eq!(cut(u64::MAX, false, 64_512), (1, 42, 0));
    }
}
