//! Datagrams that nobody received, as a measurement: what the NIC counted of them.

use super::counters::HostCounters;
use super::job::{StreamDirection, StreamsJob};
use super::result::{NicAccount, PathFigure, StreamFigure, StreamsResult};
use crate::measure::product::{Measurement, Stage};
use crate::measure::statistics;
use crate::measure::window::WindowObservation;
use linerate_facts::counters::{InterfaceCounters, NetworkCounters};
use linerate_facts::host::HostUse;
use linerate_facts::protocol::Protocol;
use linerate_model::plan::PathPlan;

/// Ethernet, IP and UDP, bytes of a packet.
pub(crate) const HEADERS: u64 = 14 + 20 + 8;
pub(crate) const HEADERS_V6: u64 = 14 + 40 + 8;

/// What was sent, and what this host counted meanwhile.
pub(crate) struct SentBlindly {
    /// Differences, from before the first datagram to after the last.
    pub counters: NetworkCounters,
    /// Of each stream, each window, bytes per second.
    pub samples: Vec<Vec<f64>>,
    pub streams: Vec<StreamFigure>,
    /// Answers that nobody listens.
    pub unreachable: u64,
    pub seconds: f64,
    pub cpu_seconds: f64,
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
    let account = account(path, sent);
    let left = account.payload_bytes as f64 / sent.bytes().max(1) as f64;
    let windows = sent.samples.iter().map(Vec::len).min().unwrap_or(0);
    let window = |index: usize| sent.samples.iter().map(|of| of[index]).sum::<f64>() * left;
    let samples: Vec<f64> = (0..windows).map(window).collect();
    let observed = WindowObservation {
        samples: samples.clone(),
        bytes: account.payload_bytes,
        host: HostUse { seconds: sent.seconds, cpu_seconds: sent.cpu_seconds, ..HostUse::default() },
        ..WindowObservation::default()
    };
    let mut measurement = Measurement::of(Stage::Network, name, path.resource.clone(), &observed);
    measurement.protocol = Some(Protocol::Udp);
    measurement.method = method(&account.interface, sent);
    let figure = PathFigure {
        name: path.name.clone(),
        direction: StreamDirection::Send,
        streams: job.streams,
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

fn method(nic: &str, sent: &SentBlindly) -> String {
    let trains = sent.streams.iter().any(|stream| stream.trains > 0);
    let how = if trains { "segmented by the kernel (UDP_SEGMENT)" } else { "datagrams one by one" };
    format!("UDP, {how}, without a receiver: counted by {nic}")
}

fn account(path: &PathPlan, sent: &SentBlindly) -> NicAccount {
    let interface = path.nic.clone().unwrap_or_default();
    let nic = sent.counters.interface(&interface);
    let of = |name: &str| nic.map_or(0, |nic| statistic(nic, name));
    let (packets, bytes) = (of("tx_packets"), of("tx_bytes"));
    let headers = if path.peer.is_ipv6() { HEADERS_V6 } else { HEADERS };
    let qdiscs = nic.and_then(|nic| nic.qdiscs.known());
    NicAccount {
        interface,
        packets,
        bytes,
        payload_bytes: bytes.saturating_sub(packets.saturating_mul(headers)).min(sent.bytes()),
        qdisc_drops: qdiscs.into_iter().flatten().filter_map(|one| one.drops.known()).sum(),
        unreachable: sent.unreachable,
    }
}

/// What an interface counts by this name of sysfs.
pub(crate) fn statistic(nic: &InterfaceCounters, name: &str) -> u64 {
    nic.statistics.known().and_then(|all| all.get(name)?.known().copied()).unwrap_or(0)
}
