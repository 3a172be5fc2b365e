//! What came of one job of streams: each stream, each path, the datagrams, the buffers, the latency, and both
//! hosts' counters.

use super::HostCounters;
use super::calibrate::MethodTrial;
use super::find_rate::RateSearch;
use super::job::{StreamDirection, StreamsJob};
use super::path_mtu::PathMtu;
use linerate_transport::flow::stream::{StreamSample, TcpSample, ZeroCopyCounters};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// Everything about the streams of one measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamsResult {
    pub job: StreamsJob,
    /// Paths in the order of the peers: rates of each direction that was measured.
    pub paths: Vec<PathFigure>,
    pub streams: Vec<StreamFigure>,
    /// Round trips beside the bulk, and on the idle path before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_latency: Option<RoundTrips>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loaded_latency: Option<RoundTrips>,
    /// Ways of sending that were tried before it, the chosen one marked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub methods: Vec<MethodTrial>,
    /// The same streams once more with receivers that count and do not copy (`--skip-receive-copy`), bytes of
    /// payload per second: what the network and the kernels carry. `bytes_per_second` of the measurement is what a
    /// program received.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_only_bytes_per_second: Option<f64>,
    /// Its windows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub network_only_samples: Vec<f64>,
    /// How the rate was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub search: Option<RateSearch>,
    /// What each path carries in one packet, found by sending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path_mtus: Vec<PathMtu>,
    /// What the NIC counted of streams that nobody receives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_nic: Option<NicAccount>,
    /// Counters of both hosts over its time: what the ledger is made of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<HostCounters>,
}

impl StreamsResult {
    /// Streams without what is found out beside them.
    pub fn plain(job: StreamsJob, paths: Vec<PathFigure>, streams: Vec<StreamFigure>) -> Self {
        StreamsResult { job, paths, streams, ..StreamsResult::default() }
    }
}

/// What left by a NIC where nobody receives, from before the first datagram to after the last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NicAccount {
    pub interface: String,
    /// As the interface counts: with headers and with what other programs sent; a virtual one counts a train as
    /// one packet.
    pub packets: u64,
    pub bytes: u64,
    /// The bytes without the headers of the packets, at most what was sent.
    pub payload_bytes: u64,
    /// Packets that its queueing disciplines dropped.
    pub qdisc_drops: u64,
    /// Answers that nobody listens on the port (ICMP).
    pub unreachable: u64,
}

/// One path in one direction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathFigure {
    /// `eth0`.
    pub name: String,
    pub direction: StreamDirection,
    pub streams: u32,
    /// Median of the windows, bytes of payload per second at the receiver.
    pub bytes_per_second: f64,
    pub samples: Vec<f64>,
    /// Share of the datagrams that did not arrive (UDP).
    pub loss: f64,
}

/// One stream, both of its ends, over its whole life.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamFigure {
    /// Name of its path.
    pub path: String,
    /// `send`: from here.
    pub direction: StreamDirection,
    /// This end's and the other's; none where they could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub addresses: Option<(SocketAddr, SocketAddr)>,
    /// Processor of our end's thread, where it was pinned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core: Option<u32>,
    /// Processor of the other end's thread, where it was asked to pin it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer_core: Option<u32>,
    /// Mean over all windows, bytes of payload per second at the receiver.
    pub bytes_per_second: f64,
    /// Each window.
    pub samples: Vec<f64>,
    /// Payload bytes and datagrams as the sender counted them.
    pub sent_bytes: u64,
    pub sent_datagrams: u64,
    /// Segmented sends (UDP), each of several datagrams.
    pub trains: u64,
    /// As the receiver counted them.
    pub received_bytes: u64,
    pub received_datagrams: u64,
    /// Trains in which the kernel gave them (UDP_GRO).
    pub received_trains: u64,
    pub lost: u64,
    pub reordered: u64,
    pub duplicated: u64,
    /// Not of this stream.
    pub foreign: u64,
    /// Interarrival jitter (RFC 3550), seconds.
    pub jitter_seconds: f64,
    /// Largest less smallest one-way delay (RFC 5481), seconds.
    pub delay_variation_seconds: f64,
    /// By the receiving socket's buffer, in the kernel's unit.
    pub socket_drops: u64,
    /// Sends that the kernel refused for a moment.
    pub refused_sends: u64,
    pub buffers: Buffers,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zerocopy: Option<ZeroCopyCounters>,
    /// The sender's, at its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpSample>,
    /// TCP that this end sent: losses from the connection's first on, those of one round trip once; as of a worker.
    pub losses: u64,
    /// The segments that were acknowledged meanwhile; 0: nothing was lost, or nobody counted.
    pub loss_segments: f64,
    /// Checksums of both ends agree; none: not compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified: Option<bool>,
    /// CRC-64/NVME of what arrived, where it was checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checksum: Option<u64>,
    /// CPU time of its threads ÷ time: sender, receiver.
    pub sender_cpu_share: f64,
    pub receiver_cpu_share: f64,
}

/// Socket buffers: what was asked for, what the kernel granted, what the path needs (rate × round trip).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Buffers {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send_asked_bytes: Option<u64>,
    pub send_granted_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive_asked_bytes: Option<u64>,
    pub receive_granted_bytes: u64,
    /// Rate × round trip; none where no round trip is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needed_bytes: Option<u64>,
}

/// Round trips of small requests, seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RoundTrips {
    pub count: u64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p99_9: f64,
    pub maximum: f64,
}

impl RoundTrips {
    /// From what an asking stream counted; none where it got no answer.
    pub fn of(sample: &StreamSample) -> Option<Self> {
        let at = |wanted: f64| {
            let found = sample.round_trip_micros.iter().find(|(percentile, _)| *percentile == wanted);
            found.map(|(_, micros)| micros * 1e-6)
        };
        Some(RoundTrips {
            count: sample.calls,
            p50: at(50.0)?,
            p90: at(90.0)?,
            p99: at(99.0)?,
            p99_9: at(99.9)?,
            maximum: at(100.0)?,
        })
    }
}
