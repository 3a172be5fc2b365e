//! PCI functions with their links, and the network interfaces on them.

use crate::probe::cpu_list;
use linerate_facts::fact::Fact;
use serde::{Deserialize, Serialize};
use std::fmt::{Display, Formatter};
use std::net::IpAddr;

/// One PCI function.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PciDevice {
    /// `domain:bus:device.function`.
    pub address: String,
    /// Address of the bridge above, if there is one.
    pub parent: Option<String>,
    /// Class code, 24 bits (`0x020000` = Ethernet controller).
    pub class: Fact<u32>,
    /// Vendor id.
    pub vendor: Fact<u32>,
    /// Device id.
    pub device: Fact<u32>,
    /// Kernel driver bound.
    pub driver: Fact<String>,
    /// NUMA node; −1 in sysfs is `Unknown`.
    pub node: Fact<u32>,
    /// Link as it runs now.
    pub link: Fact<PciLink>,
    /// The most that the device itself can do.
    pub link_max: Fact<PciLink>,
    /// What its configuration space reports of PCI Express.
    pub express: Express,
    /// What it is called, where a reader that knows names read it (`lspci`).
    pub name: Fact<String>,
    /// What the card that it is on is called by its maker, where a reader read it (lspci's `Subsystem`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub card_name: Option<String>,
    /// The parallel bus that a function without PCI Express is made for; conventional PCI only behind a
    /// bridge, where it is not a formality.
    pub parallel: Fact<ParallelBus>,
    /// A GPU and a NIC that both have it exchange bytes without the host's memory (GPUDirect RDMA), as NCCL reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_direct: Option<bool>,
    /// How the bus behind a PCI-X bridge runs now.
    pub parallel_below: Fact<ParallelBus>,
}

/// A PCIe link's speed and width.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PciLink {
    /// Giga-transfers a second per lane: 2.5, 5, 8, 16, 32, 64, 128.
    pub gt_per_second: f64,
    /// Lanes.
    pub width: u32,
}

/// `8 GT/s x4`.
impl Display for PciLink {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} GT/s x{}", self.gt_per_second, self.width)
    }
}

/// Conventional PCI or PCI-X (PCI local bus specification 3.0; PCI-X addendum 2.0): one bus, shared by all
/// that is on it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ParallelBus {
    /// PCI-X, not conventional PCI.
    pub pci_x: bool,
    /// Clock in MHz: 33 or 66; PCI-X 66 to 533.
    pub megahertz: Fact<u32>,
    /// Data lines, 32 or 64; conventional PCI does not report.
    pub bits: Fact<u32>,
}

/// A slot for a card of PCI Express, as the firmware lists it (SMBIOS type 9): an empty one is often in no other list,
/// for the firmware switches its port off.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CardSlot {
    /// What is printed on the board, `PCIe Slot 3`; may be empty.
    pub designation: String,
    /// Physical slot number, that of [`Express::slot`].
    pub number: Fact<u32>,
    /// Lanes that are wired; of a connector of more they are fewer.
    pub lanes: Fact<u32>,
    /// Giga-transfers a second per lane.
    pub gt_per_second: Fact<f64>,
    /// A card is in it.
    pub in_use: Fact<bool>,
    /// Of the port above it, or of what is in it: firmware differs.
    pub address: Fact<String>,
}

impl CardSlot {
    /// The fastest link that it can do; none where speed or width is not reported.
    pub fn link(&self) -> Option<PciLink> {
        Some(PciLink { gt_per_second: *self.gt_per_second.known()?, width: *self.lanes.known()? })
    }
}

/// PCI Express of a function, from its configuration space (PCIe base specification, 7.5.3).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Express {
    /// What is at this end of the link.
    pub port: Fact<PortKind>,
    /// MaxPayload that is set, bytes.
    pub max_payload_bytes: Fact<u32>,
    /// MaxPayload that the function can do, bytes.
    pub max_payload_supported_bytes: Fact<u32>,
    /// MaxReadRequest that is set, bytes.
    pub max_read_request_bytes: Fact<u32>,
    /// The link may power down when idle (ASPM L0s or L1 is enabled).
    pub power_saving: Fact<bool>,
    /// Physical slot number: below a root or downstream port, or the one that a card is in.
    pub slot: Fact<u32>,
    /// The speed that this end does not go beyond, as the firmware or a driver set it, GT/s; what counts is
    /// that of the port above.
    pub target_gt_per_second: Fact<f64>,
    /// The hardware changed speed or width by itself, to save power and not because of errors; a port above a
    /// card reports it.
    pub autonomous_change: Fact<bool>,
}

/// Device/port type of the PCI Express capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PortKind {
    /// A card or a device on the board.
    Endpoint,
    /// A card that still uses I/O ports.
    LegacyEndpoint,
    /// The processor's or chip set's end of a link.
    RootPort,
    /// A switch's end towards the root.
    SwitchUpstream,
    /// A switch's end towards a card.
    SwitchDownstream,
    /// A bridge from PCI Express to conventional PCI or PCI-X below it.
    BridgeToPci,
    /// A bridge from conventional PCI or PCI-X to PCI Express below it.
    BridgeFromPci,
    /// A part of the processor or chip set: it has no link.
    IntegratedEndpoint,
    /// Collects errors of integrated endpoints: it has no link.
    EventCollector,
}

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
