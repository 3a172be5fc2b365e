//! Softnet, TCP, UDP, and the loss ledger, live.

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
    /// Packets waiting now; older kernels do not tell.
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
