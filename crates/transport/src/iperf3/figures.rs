//! What a test gives: each stream's figures as either end counted them, by interval and in total.

use super::Iperf3Test;
use crate::flow::stream::TcpSample;
use linerate_system::clock;
use linerate_system::counters::process_cpu_split;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// A process's CPU time as a share of the test's, percent; several cores go beyond 100.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuUse {
    pub total: f64,
    pub user: f64,
    pub system: f64,
}

/// One stream over one interval, counted here.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct IntervalReport {
    /// Seconds since the test began, or since the warm-up began where `omitted`.
    pub start: f64,
    pub end: f64,
    pub bytes: u64,
    /// Part of the warm-up: not in the totals.
    pub omitted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retransmits: Option<u64>,
    /// UDP: datagrams sent, or expected by their numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter_seconds: Option<f64>,
    /// The kernel's view at the end of the interval (TCP sender).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpSample>,
}

/// One stream as one end counted it, without what was omitted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StreamFigures {
    /// iperf3's number: 1, 3, 4, 5, … in the order of opening.
    pub id: u32,
    /// The end that tells this sends.
    pub sender: bool,
    pub bytes: u64,
    pub seconds: f64,
    /// TCP sender.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retransmits: Option<u64>,
    /// UDP receiver, RFC 1889.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter_seconds: Option<f64>,
    /// UDP receiver: gaps in the numbers, less what came late.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<u64>,
    /// UDP: datagrams sent, or expected by their numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<u64>,
    /// UDP receiver: came after one with a higher number (or twice: iperf3 does not report them apart).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reordered: Option<u64>,
    /// UDP receiver: datagrams that are not the stream's, not believed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub foreign: Option<u64>,
    /// UDP sender: sends that the kernel refused for a moment, tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused_sends: Option<u64>,
    /// The end that tells this, and its other end; known of our own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub addresses: Option<(SocketAddr, SocketAddr)>,
    /// TCP, of our own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpSample>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<IntervalReport>,
    /// Why it ended, where it was not told to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Datagrams and losses of the warm-up, which the protocol wants reported.
    #[serde(skip)]
    pub omitted: (u64, u64),
}

impl StreamFigures {
    pub fn bits_per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.bytes as f64 * 8.0 / self.seconds } else { 0.0 }
    }
}

/// A test that took place, whole or in part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TestOutcome {
    /// What was asked for, with the sizes that were then taken.
    pub test: Iperf3Test,
    /// This end is the client.
    pub client: bool,
    pub cookie: String,
    /// Seconds since 1970.
    pub started: u64,
    /// Control connection: this end and the other.
    pub addresses: Option<(SocketAddr, SocketAddr)>,
    /// Version that the other end reported; only clients do.
    pub peer_version: Option<String>,
    /// Largest TCP segment of the control connection, bytes.
    pub segment_bytes: Option<u32>,
    /// SO_SNDBUF and SO_RCVBUF of the first stream as granted, bytes.
    pub buffer_bytes: Option<(u64, u64)>,
    /// Our streams.
    pub local: Vec<StreamFigures>,
    /// The same as the other end tells; empty where the test did not get that far.
    pub remote: Vec<StreamFigures>,
    pub cpu_local: CpuUse,
    pub cpu_remote: Option<CpuUse>,
    pub congestion_local: Option<String>,
    pub congestion_remote: Option<String>,
    /// What a reader of the figures should know.
    pub warnings: Vec<String>,
    /// Why the test ended early, where it did; the figures are those until then.
    pub error: Option<String>,
}

impl TestOutcome {
    /// What the other end tells of a stream of our own.
    pub fn remote_of(&self, id: u32) -> Option<&StreamFigures> {
        self.remote.iter().find(|stream| stream.id == id)
    }

    /// Bytes per second that arrived, summed over one direction: what the receiving ends counted, or where
    /// the other one did not tell, what was sent.
    pub fn received_bytes_per_second(&self, sent_by_us: bool) -> f64 {
        let ours = self.local.iter().filter(|stream| stream.sender == sent_by_us);
        let received =
            ours.map(|ours| if sent_by_us { self.remote_of(ours.id).unwrap_or(ours) } else { ours });
        // Of nothing the sum of floats is −0.
        received.map(|stream| stream.bits_per_second() / 8.0).fold(0.0, |sum, rate| sum + rate)
    }
}

/// What a listener hears once an interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IntervalProgress {
    /// As in `Interval`.
    pub start: f64,
    pub end: f64,
    pub omitted: bool,
    /// Bytes per second of all streams that send, and of all that receive.
    pub sent_bytes_per_second: f64,
    pub received_bytes_per_second: f64,
    pub retransmits: u64,
    pub lost: u64,
}

/// This process's CPU time over a test.
pub(super) struct CpuMeter {
    start: Instant,
    before: (Duration, Duration),
}

impl CpuMeter {
    pub(crate) fn start() -> CpuMeter {
        CpuMeter { start: clock::now(), before: process_cpu_split() }
    }

    pub(crate) fn used(&self) -> CpuUse {
        let (user, system) = process_cpu_split();
        let wall = clock::since(self.start).as_secs_f64().max(1e-9);
        let share = |now: Duration, before: Duration| now.saturating_sub(before).as_secs_f64() / wall * 100.0;
        let (user, system) = (share(user, self.before.0), share(system, self.before.1));
        CpuUse { total: user + system, user, system }
    }
}
