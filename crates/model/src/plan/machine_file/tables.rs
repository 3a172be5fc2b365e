//! The words of a machine file: tables and keys as they are written. What they mean together is checked in
//! `build`.

use super::values::{Clock, Link, Pcie, PlaceValue, Rate};
use serde::Deserialize;
use toml::Spanned;

/// The whole file.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct File {
    pub name: Option<String>,
    pub processor: Processor,
    pub memory: Memory,
    pub socket_link: Vec<SocketLink>,
    pub hub: Vec<Hub>,
    pub slot: Vec<Slot>,
    pub switch: Vec<Switch>,
    pub bus: Vec<Bus>,
    pub controller: Vec<Controller>,
    pub nic: Vec<Nic>,
    pub disk: Vec<Disk>,
    pub gpu: Vec<Gpu>,
    pub volume: Vec<VolumeTable>,
    pub catalogue: Catalogue,
}

/// `[processor]`: all sockets alike.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Processor {
    pub model: Option<String>,
    pub sockets: Option<Spanned<u32>>,
    /// Physical cores of one socket.
    pub cores: Option<Spanned<u32>>,
    pub clock: Option<Spanned<Clock>>,
    /// NUMA nodes of the machine; one for each socket where absent.
    pub nodes: Option<Spanned<u32>>,
    pub cpu_seconds_per_gb: Option<Spanned<f64>>,
}

/// `[memory]`: all nodes alike.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Memory {
    pub kind: Option<String>,
    /// Configured, mega-transfers per second.
    pub speed: Option<Spanned<u32>>,
    /// Of one node, with at least one DIMM each.
    pub channels: Option<Spanned<u32>>,
    /// Of one node, in place of speed and channels.
    pub rate: Option<Spanned<Rate>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SocketLink {
    pub between: Spanned<Vec<u32>>,
    pub link: Option<Spanned<Link>>,
    pub links: Option<Spanned<u32>>,
    pub rate: Option<Spanned<Rate>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Hub {
    pub name: Spanned<String>,
    pub on: Option<Spanned<PlaceValue>>,
    pub link: Option<Spanned<Link>>,
    pub rate: Option<Spanned<Rate>>,
    /// PCIe lanes that it has for slots.
    pub lanes: Option<Spanned<u32>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Slot {
    pub name: Spanned<String>,
    pub count: Option<Spanned<u32>>,
    pub on: Option<Spanned<PlaceValue>>,
    pub pcie: Spanned<Pcie>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Switch {
    pub name: Spanned<String>,
    pub count: Option<Spanned<u32>>,
    pub on: Option<Spanned<PlaceValue>>,
    /// Its uplink.
    pub pcie: Spanned<Pcie>,
    pub max_payload: Option<Spanned<u32>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Bus {
    pub name: Spanned<String>,
    pub count: Option<Spanned<u32>>,
    pub on: Option<Spanned<PlaceValue>>,
    pub rate: Spanned<Rate>,
    #[serde(default)]
    pub full_duplex: bool,
    pub kind: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Controller {
    pub name: Spanned<String>,
    pub count: Option<Spanned<u32>>,
    pub on: Option<Spanned<PlaceValue>>,
    pub pcie: Option<Spanned<Pcie>>,
    pub max_payload: Option<Spanned<u32>>,
    /// What the controller itself moves, by its data sheet.
    pub rate: Option<Spanned<Rate>>,
    pub disk_ports: Option<Spanned<u32>>,
    pub kind: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nic {
    pub name: Spanned<String>,
    pub count: Option<Spanned<u32>>,
    pub on: Option<Spanned<PlaceValue>>,
    pub pcie: Option<Spanned<Pcie>>,
    pub max_payload: Option<Spanned<u32>>,
    pub ports: Option<Spanned<u32>>,
    /// Of each port.
    pub rate: Spanned<Rate>,
    pub mtu: Option<Spanned<u32>>,
    #[serde(default)]
    pub vlan: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Disk {
    pub name: Spanned<String>,
    pub count: Option<Spanned<u32>>,
    pub on: Option<Spanned<PlaceValue>>,
    pub pcie: Option<Spanned<Pcie>>,
    pub max_payload: Option<Spanned<u32>>,
    pub read: Option<Spanned<Rate>>,
    pub write: Option<Spanned<Rate>>,
    /// Of a remote disk, which is on a NIC: `tcp` where absent.
    pub transport: Option<Spanned<RemoteTransport>>,
}

/// What carries the bytes of a remote disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RemoteTransport {
    Tcp,
    Rdma,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Gpu {
    pub name: Spanned<String>,
    pub count: Option<Spanned<u32>>,
    pub on: Option<Spanned<PlaceValue>>,
    pub pcie: Spanned<Pcie>,
    pub max_payload: Option<Spanned<u32>>,
}

/// `[[volume]]`: RAID, a volume manager or a file system over disks, as somebody measured it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VolumeTable {
    pub name: Spanned<String>,
    /// Its disks, by their names or those of their entries.
    pub over: Spanned<PlaceValue>,
    pub kind: Option<String>,
    pub read: Option<Spanned<Rate>>,
    pub write: Option<Spanned<Rate>>,
    /// Of the sum of its disks, in place of `read` and `write`.
    pub efficiency: Option<Spanned<f64>>,
    /// Those of its disks that are the faster tier, and the share of the bytes read that comes from them, in place
    /// of `read`.
    pub tier: Option<Spanned<PlaceValue>>,
    pub hits: Option<Spanned<f64>>,
}

/// `[catalogue]`: parts that may be bought.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Catalogue {
    pub nic: Option<CatalogueNic>,
    pub controller: Option<CatalogueController>,
    pub disk: Option<CatalogueDisk>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CatalogueNic {
    pub rate: Spanned<Rate>,
    pub ports: Option<Spanned<u32>>,
    pub pcie: Spanned<Pcie>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CatalogueController {
    pub pcie: Spanned<Pcie>,
    pub disk_ports: Spanned<u32>,
    pub rate: Option<Spanned<Rate>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CatalogueDisk {
    pub read: Spanned<Rate>,
    pub write: Option<Spanned<Rate>>,
    /// What others reached with it in practice.
    pub in_practice: Option<Spanned<Rate>>,
    pub pcie: Option<Spanned<Pcie>>,
}
