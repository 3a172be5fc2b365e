//! Network interfaces and interrupts.

use crate::probe::cpu_list;
use linerate_facts::fact::Fact;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// One network interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Nic {
    /// Interface name.
    pub name: String,
    /// Link rate, bits per second.
    pub speed_bits_per_second: Fact<u64>,
    /// MTU, bytes.
    pub mtu: Fact<u32>,
    /// `operstate` (`up`, `down`, `unknown`, …).
    pub state: Fact<String>,
    /// Kernel driver (`loopback` for lo, `veth`, …).
    pub driver: Fact<String>,
    /// Receive queues.
    pub rx_queues: Fact<u32>,
    /// Transmit queues.
    pub tx_queues: Fact<u32>,
    /// NUMA node.
    pub node: Fact<u32>,
    /// PCI function behind it, where there is one.
    pub pci: Option<String>,
    /// Addresses with prefix length.
    pub addresses: Vec<(IpAddr, u8)>,
    /// The active-backup bond in which it waits for another member to fail: it carries nothing now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standby_of: Option<String>,
    /// `lo`.
    pub loopback: bool,
    /// No interface was listed: it stands for a PCI function, is called by its address, and its speed is the one
    /// in the device's name.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_class: bool,
    /// What the driver reports over ethtool.
    pub details: NicDetails,
}

/// What a NIC's driver reports over ethtool; only of the live machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NicDetails {
    /// Receive ring: descriptors now and at most.
    pub rx_ring: Fact<(u32, u32)>,
    /// Transmit ring: descriptors now and at most.
    pub tx_ring: Fact<(u32, u32)>,
    /// Channels that receive, each with an interrupt of its own: now and at most.
    pub channels: Fact<(u32, u32)>,
    /// Offloads that are on, by the kernel's names (`tx-udp-segmentation`).
    pub offloads: Fact<Vec<String>>,
    /// Receive interrupts wait this long, microseconds; 0: adaptive or off.
    pub rx_coalesce_us: Fact<u32>,
    /// The driver adapts the receive coalescing.
    pub adaptive_rx: Fact<bool>,
    /// Firmware.
    pub firmware: Fact<String>,
    /// Forward error correction in use (`off`, `rs`, `baser` …).
    pub fec: Fact<String>,
    /// Pause frames: receive, transmit.
    pub pause: Fact<(bool, bool)>,
    /// Version of the driver; drivers of the kernel's own give the kernel's.
    pub driver_version: Fact<String>,
    /// Kind of port (`twisted pair`, `fibre`, `direct attach`, `none`).
    pub port: Fact<String>,
    /// Both directions at once.
    pub full_duplex: Fact<bool>,
    /// Rate and duplex were negotiated with the other end.
    pub negotiated: Fact<bool>,
    /// Rate of the fastest link mode that card and module report, bits per second.
    pub link_max_bits_per_second: Fact<u64>,
}

/// One interrupt of a device (`/proc/interrupts`, `/proc/irq`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Interrupt {
    /// Number.
    pub number: u32,
    /// Name that the driver gave it (`eth0-TxRx-3`, `nvme0q5`).
    pub name: String,
    /// PCI function that it belongs to, where that is known.
    pub pci: Option<String>,
    /// CPUs that may take it; in a file, a list as the kernel writes it (`0-3,8`).
    #[serde(with = "cpu_list::as_text")]
    pub allowed: Fact<Vec<u32>>,
    /// CPUs that take it; in a file, likewise.
    #[serde(with = "cpu_list::as_text")]
    pub effective: Fact<Vec<u32>>,
}
