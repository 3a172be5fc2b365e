//! The network: interfaces and their queues, softnet, TCP, UDP, and the loss ledger, live.

use linerate_facts::fact::Fact;
use serde::{Deserialize, Serialize};

/// What the softirq of one CPU did with packets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SoftnetCore {
    pub core: u32,
    pub processed_per_second: Option<f64>,
    /// The backlog was full (`net.core.netdev_max_backlog`).
    pub dropped_per_second: Option<f64>,
    /// Rounds that ended with packets left.
    pub squeezed_per_second: Option<f64>,
    pub flow_limited_per_second: Option<f64>,
    /// Packets waiting now; older kernels do not report it.
    pub backlog: Option<u64>,
    /// Counter.
    pub processed: u64,
    /// Counter.
    pub dropped: u64,
    /// Counter.
    pub squeezed: u64,
}

/// TCP of this network namespace, both IP versions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tcp {
    /// Connections now.
    pub established: Option<u64>,
    pub segments_in_per_second: Option<f64>,
    pub segments_out_per_second: Option<f64>,
    pub retransmits_per_second: Option<f64>,
    /// Retransmitted ÷ sent of the interval.
    pub retransmit_share: Option<f64>,
    pub timeouts_per_second: Option<f64>,
    pub resets_out_per_second: Option<f64>,
    pub errors_in_per_second: Option<f64>,
    pub listen_overflows_per_second: Option<f64>,
    /// Receive windows that had to be announced as 0: the programs here read too slowly.
    pub zero_windows_per_second: Option<f64>,
    /// Receive queues that had to be pruned or collapsed.
    pub pruned_per_second: Option<f64>,
    /// Counter.
    pub retransmits: Option<u64>,
    /// Counter.
    pub segments_in: Option<u64>,
    /// Counter.
    pub segments_out: Option<u64>,
}

/// UDP of this network namespace, both IP versions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Udp {
    pub datagrams_in_per_second: Option<f64>,
    pub datagrams_out_per_second: Option<f64>,
    /// The receiving socket's buffer was full.
    pub receive_buffer_drops_per_second: Option<f64>,
    /// The sending socket's buffer, or a queue below it, was full.
    pub send_buffer_drops_per_second: Option<f64>,
    pub checksum_drops_per_second: Option<f64>,
    /// The memory of all UDP sockets together was used up (`net.ipv4.udp_mem`).
    pub memory_drops_per_second: Option<f64>,
    /// No program listened.
    pub no_port_per_second: Option<f64>,
    /// Counted as errors and as none of the above: a socket's filter, or damage.
    pub other_drops_per_second: Option<f64>,
    /// Counter.
    pub datagrams_in: Option<u64>,
    /// Counter.
    pub datagrams_out: Option<u64>,
}

/// One counter of drops.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DropLine {
    /// The layer's word (`NIC ring`, `softnet`, `UDP`).
    pub layer: String,
    /// Of this interface; none: of the host.
    pub interface: Option<String>,
    /// The kernel's or the driver's own name.
    pub counter: String,
    /// What it counts: `packets`, `segments`, `rounds`, …
    pub unit: String,
    /// None in the first moment, and where it went back.
    pub per_second: Option<f64>,
    /// Counter.
    pub total: u64,
    /// What it means.
    pub meaning: String,
    /// What to do about it.
    pub cure: String,
}

/// One interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NicRates {
    /// Its name now (`eth0`); one that was renamed is a new one.
    pub name: String,
    /// Name of the driver (`mlx5_core`, `veth`).
    pub driver: Option<String>,
    /// Rate of its link, bits per second in each direction.
    pub link_bits_per_second: Fact<f64>,
    /// Payload that a run of linerate has sent over it on this host, bits per second; none where no such run is
    /// kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured_bits_per_second: Option<f64>,
    /// It has a link partner.
    pub carrier: Option<bool>,
    /// The kernel's `operstate` is `up` (or `unknown`, as virtual interfaces have).
    pub up: Option<bool>,
    pub receive: NicDirection,
    pub send: NicDirection,
    /// Queues that the driver counts, or else that have an interrupt of their own. Empty where neither is
    /// known.
    pub queues: Vec<NicQueue>,
    /// What the driver counts (`ethtool -S`) of drops, errors, pauses and lack of buffers: those that are not
    /// 0.
    pub ethtool: Vec<NamedCounter>,
    /// Interfaces whose packets are also its own: the members of a bond, team or bridge, what a VLAN or
    /// macvlan lies on.
    pub built_on: Vec<String>,
}

/// Those that a sum over interfaces is of: one that is built on others of them would be counted twice.
pub fn summed(nics: &[NicRates]) -> impl Iterator<Item = &NicRates> {
    let other =
        |nic: &NicRates, name: &String| *name != nic.name && nics.iter().any(|other| other.name == *name);
    nics.iter().filter(move |nic| !nic.built_on.iter().any(|name| other(nic, name)))
}

/// One direction of an interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NicDirection {
    /// As the interface counts: frames without preamble, gap and (usually) checksum.
    pub bytes_per_second: Option<f64>,
    /// The same in bits.
    pub bits_per_second: Option<f64>,
    pub packets_per_second: Option<f64>,
    pub drops_per_second: Option<f64>,
    pub errors_per_second: Option<f64>,
    /// Share of the link's rate, with the preamble, gap and checksum of each packet: 0 to 1. None where that rate
    /// is unknown.
    pub share_of_link: Option<f64>,
    /// Counter, bytes.
    pub bytes: u64,
    /// Counter.
    pub packets: u64,
    /// Counter.
    pub drops: u64,
    /// Counter.
    pub errors: u64,
}

/// One queue of an interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NicQueue {
    /// `0`, `1`, …; of a driver that names them otherwise, its own name.
    pub name: String,
    pub receive_packets_per_second: Option<f64>,
    pub receive_bytes_per_second: Option<f64>,
    pub send_packets_per_second: Option<f64>,
    pub send_bytes_per_second: Option<f64>,
    /// Packets that this queue dropped, both directions.
    pub drops_per_second: Option<f64>,
    pub interrupts_per_second: Option<f64>,
    /// The core that most of its interrupts went to.
    pub core: Option<u32>,
    /// Where the figures are from: `ethtool`, `interrupts`, or both.
    pub source: String,
}

/// One counter by its driver's name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NamedCounter {
    pub name: String,
    pub per_second: Option<f64>,
    pub total: u64,
}
