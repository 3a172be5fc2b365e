//! What the ledger is made from and what it says.

use super::super::product::Finding;
use linerate_facts::counters::NetworkCounters;
use linerate_facts::protocol::Protocol;
use linerate_facts::usage::CoreUse;
use serde::{Deserialize, Serialize};

/// One host of the test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LedgerHost {
    pub host: String,
    /// Differences over the test.
    pub counters: NetworkCounters,
    /// The interface that the streams used; none: all that the counters hold.
    pub interface: Option<String>,
    pub offload: Offload,
    /// Use of each core over the test; empty where it is not known.
    pub cores: Vec<CoreUse>,
}

/// Whether this host's kernel was given, or gave, trains of datagrams: they are what its UDP counters count
/// then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Offload {
    /// The sender's: UDP_SEGMENT.
    pub segmented: bool,
    /// The receiver's: UDP_GRO.
    pub coalesced: bool,
}

/// What the streams of one direction did: sums over all of them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Streams {
    pub protocol: Protocol,
    pub ipv6: bool,
    /// Payload of a datagram, bytes (UDP).
    pub datagram_bytes: u32,
    /// How long they ran.
    pub seconds: f64,
    pub sent: SentCounts,
    pub received: ReceiverAccount,
}

/// The sending programs' account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SentCounts {
    /// Payload that the kernel took.
    pub bytes: u64,
    /// UDP.
    pub datagrams: u64,
    /// UDP with segmentation: calls or messages, each a train.
    pub trains: u64,
    /// Sends that the kernel refused for a moment (ENOBUFS, EAGAIN) and that were tried again: nothing of
    /// them is lost.
    pub refused: u64,
    /// Sends that it refused because they are longer than the path takes (EMSGSIZE).
    pub too_long: u64,
}

/// The receiving programs' account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReceiverAccount {
    pub bytes: u64,
    /// UDP: all that came, duplicates with them, foreign ones not.
    pub datagrams: u64,
    /// UDP with GRO: trains of two and more of them.
    pub trains: u64,
    pub duplicated: u64,
    /// Datagrams of nobody's that came to our sockets.
    pub foreign: u64,
    /// Drops by our sockets' buffers, in the kernel's unit; less than all where the last of them were not
    /// told.
    pub socket_drops: u64,
    /// The smallest receive buffer of a socket, as granted, bytes; 0 where it is not known.
    pub receive_buffer_bytes: u64,
    /// The receiving thread that was held most by its core: its core, and its CPU time.
    pub thread: Option<Thread>,
}

/// A receiving thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Thread {
    /// Where it is pinned.
    pub core: u32,
    /// That it used in the test.
    pub cpu_seconds: f64,
}

/// Where every packet went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ledger {
    pub protocol: Protocol,
    /// Nobody receives: it ends at the NIC, and what left by it counts as received.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub until_nic: bool,
    /// From the sending program to the receiving one, a line a layer, and the interface's for each interface.
    pub lines: Vec<LedgerLine>,
    /// Sent and not received, by the numbers in the datagrams (UDP); what TCP lost, it sent again.
    pub lost_datagrams: i64,
    pub lost_bytes: i64,
    /// Lost, and in no counter; below 0: counted as dropped, and not lost.
    pub unaccounted_datagrams: i64,
    pub unaccounted_bytes: i64,
    /// Traffic of others in the same counters.
    pub others: Vec<Others>,
    /// The kernel's own reasons, where it was traced: of all traffic of the host, most first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<Reason>,
    pub findings: Vec<Finding>,
}

/// Packets in a counter that are not of these streams.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Others {
    pub host: String,
    pub counter: String,
    /// In the counter's unit.
    pub counted: u64,
}

/// Packets that a host dropped for one reason (`enum skb_drop_reason`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    pub host: String,
    /// `SOCKET_RCVBUFF`, `QDISC_DROP`, …
    pub reason: String,
    /// Packets: trains as one.
    pub counted: u64,
}

/// One layer of one host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LedgerLine {
    pub host: String,
    /// Of the layers below IP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    pub layer: Layer,
    /// The counter of what passed: `Udp OutDatagrams`.
    pub counter: String,
    /// What passed, as datagrams; with others' traffic where the counter has it.
    pub datagrams: Option<u64>,
    /// What passed: payload of UDP or TCP, bytes.
    pub bytes: Option<u64>,
    /// What `counter` counts.
    pub unit: Unit,
    /// Dropped here: datagrams of our own (UDP), packets (TCP, which sends them again).
    pub dropped: u64,
    /// The counters that say so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drops: Vec<Drop>,
    /// Against the worst of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cure: Option<String>,
}

/// In the order in which a packet passes them at the sender; the receiver's is the reverse.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, strum::Display,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "lowercase")]
pub enum Layer {
    Application,
    Socket,
    #[strum(serialize = "UDP")]
    Udp,
    #[strum(serialize = "TCP")]
    Tcp,
    #[strum(serialize = "IP")]
    Ip,
    Qdisc,
    /// The kernel's receive queue of a core, before IP.
    Softnet,
    /// The ring of the NIC.
    #[strum(serialize = "NIC ring")]
    NicRing,
    /// The cable, the switch, and what is too long for them.
    Wire,
}

/// What a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "kebab-case", tag = "counts")]
#[strum(serialize_all = "lowercase")]
pub enum Unit {
    /// Datagrams, one by one.
    Datagrams,
    /// Trains of datagrams; `datagrams_each` on the average of this test.
    Trains { datagrams_each: f64 },
    /// Packets of any kind, segments of trains one by one.
    Packets,
    /// Pieces of datagrams.
    Fragments,
    /// Bytes.
    Bytes,
}

/// A counter of drops that is not 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Drop {
    /// `Udp RcvbufErrors`, `tbf 8001: drops`, `rx_missed_errors`.
    pub counter: String,
    /// As the kernel counts it.
    pub counted: u64,
    /// Datagrams of our own; 0 where another line has the same packets, or where nothing is lost by it.
    pub datagrams: u64,
    pub unit: Unit,
    pub meaning: String,
    pub cure: String,
}
