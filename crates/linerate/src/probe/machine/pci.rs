//! PCI functions and their links.

use crate::fact::Fact;
use serde::{Deserialize, Serialize};

/// One PCI function.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PciDevice {
    /// `domain:bus:device.function`.
    pub address: String,
    /// Address of the bridge above, if there is one.
    pub parent: Option<String>,
    /// Class code, 24 bits (`0x020000` = Ethernet controller).
    pub class: Fact<u32>,
    /// Vendor and device id.
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
    /// What its configuration space tells of PCI Express.
    #[serde(default)]
    pub express: Express,
    /// What it is called, where a reader that knows names read it (`lspci`).
    #[serde(default)]
    pub name: Fact<String>,
}

/// A PCIe link's speed and width.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PciLink {
    /// Giga-transfers a second per lane: 2.5, 5, 8, 16, 32, 64, 128.
    pub gt_per_second: f64,
    /// Lanes.
    pub width: u32,
}

/// PCI Express of a function, from its configuration space (PCIe base specification, 7.5.3).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Express {
    /// What stands at this end of the link.
    pub port: Fact<PortKind>,
    /// MaxPayload that is set, bytes.
    pub max_payload_bytes: Fact<u32>,
    /// MaxPayload that the function can do, bytes.
    pub max_payload_supported_bytes: Fact<u32>,
    /// MaxReadRequest that is set, bytes.
    pub max_read_request_bytes: Fact<u32>,
    /// The link may power down when idle (ASPM L0s or L1 is enabled).
    pub power_saving: Fact<bool>,
    /// Physical slot number of a root or downstream port; none where it has no slot.
    pub slot: Fact<u32>,
}

/// Device/port type of the PCI Express capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PortKind {
    Endpoint,
    LegacyEndpoint,
    RootPort,
    SwitchUpstream,
    SwitchDownstream,
    BridgeToPci,
    BridgeFromPci,
    IntegratedEndpoint,
    EventCollector,
}
