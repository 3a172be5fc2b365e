//! The one PCIe tree of a machine: what is above and below a function, which links there are, how each runs
//! beside what its two ends can do, what a class code says, what ports carry. Probe, plan, diagnose, watch and
//! report ask here, and so say the same.
//!
//! A link has two ends: the upper one is a root port or a switch's downstream port, the lower one a card or a
//! switch's upstream port; between the two sides of a switch there is no link. Everything is total: a damaged
//! list with rings gives an answer of bounded length.

mod link;
mod rate;
mod slots;

pub use link::{LinkCondition, LinkEnds, WeakerEnd};
pub use rate::{Shared, *};
pub use slots::FreeSlot;

use crate::probe::{Controller, Disk, DiskKind, Machine, Nic, PciDevice, PortKind};
use crate::rates::pcie::PayloadDirection;
use linerate_facts::fact::Fact;
use std::collections::{BTreeMap, BTreeSet};

/// No chain of bridges is longer: a domain has 256 buses.
pub const DEEPEST: usize = 256;
/// Volumes stacked on each other; more is a damaged file.
pub const DEEPEST_VOLUMES: usize = 16;
/// A graphics card on the board that has fewer lanes shows the console and nothing else.
const LEAST_GPU_LANES: u32 = 8;

/// The functions of a machine by their addresses, and the interfaces, disks and controllers on each. Built
/// once, then asked.
pub struct Topology<'a> {
    pub machine: &'a Machine,
    by_address: BTreeMap<&'a str, &'a PciDevice>,
    children: BTreeMap<&'a str, Vec<&'a PciDevice>>,
    nics: BTreeMap<&'a str, Vec<&'a Nic>>,
    disks: BTreeMap<&'a str, Vec<&'a Disk>>,
    controllers: BTreeMap<&'a str, Vec<&'a Controller>>,
}

/// MaxPayload of the way from a function to memory, bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct MaxPayload {
    /// What is set at the function.
    pub set: Fact<u32>,
    /// What every port on the way can do.
    pub able: Fact<u32>,
}

impl<'a> Topology<'a> {
    /// The tree of a machine. Of two functions with one address the first counts.
    pub fn new(machine: &'a Machine) -> Self {
        let mut by_address = BTreeMap::new();
        let mut children: BTreeMap<&str, Vec<&PciDevice>> = BTreeMap::new();
        for device in &machine.pci {
            if by_address.contains_key(device.address.as_str()) {
                continue;
            }
            by_address.insert(device.address.as_str(), device);
            if let Some(parent) = device.parent.as_deref().filter(|parent| *parent != device.address) {
                children.entry(parent).or_default().push(device);
            }
        }
        let whole = machine.disks.iter().filter(|disk| disk.kind != DiskKind::Partition);
        Topology {
            machine,
            by_address,
            children,
            nics: by_function(machine.nics.iter(), |nic| nic.pci.as_deref()),
            disks: by_function(whole, |disk| disk.pci.as_deref()),
            controllers: by_function(machine.controllers.iter(), |controller| controller.pci.as_deref()),
        }
    }

    /// The function at an address.
    pub fn find(&self, address: &str) -> Option<&'a PciDevice> {
        self.by_address.get(address).copied()
    }

    /// All functions, in the order of their addresses.
    pub fn all(&self) -> impl Iterator<Item = &'a PciDevice> {
        self.by_address.values().copied()
    }

    /// Functions without a bridge above them that is in the list.
    pub fn roots(&self) -> impl Iterator<Item = &'a PciDevice> {
        self.all().filter(|device| self.parent(device).is_none())
    }

    /// The bridge above a function.
    pub fn parent(&self, device: &PciDevice) -> Option<&'a PciDevice> {
        self.find(device.parent.as_deref()?).filter(|parent| parent.address != device.address)
    }

    /// Functions right behind a bridge.
    pub fn children(&self, bridge: &str) -> &[&'a PciDevice] {
        self.children.get(bridge).map_or(&[], Vec::as_slice)
    }

    /// The bridges above a function, the nearest first, the root port last.
    pub fn above(&self, device: &PciDevice) -> Vec<&'a PciDevice> {
        let mut chain: Vec<&PciDevice> = Vec::new();
        let mut at = self.parent(device);
        while let Some(bridge) = at {
            let ring =
                bridge.address == device.address || chain.iter().any(|met| met.address == bridge.address);
            if ring || chain.len() >= DEEPEST {
                break;
            }
            chain.push(bridge);
            at = self.parent(bridge);
        }
        chain
    }

    /// All functions behind a bridge, the nearest first.
    pub fn below(&self, bridge: &PciDevice) -> Vec<&'a PciDevice> {
        let mut met: BTreeSet<&str> = BTreeSet::from([bridge.address.as_str()]);
        let mut found: Vec<&PciDevice> = Vec::new();
        let mut pending: Vec<&PciDevice> = self.children(&bridge.address).to_vec();
        while !pending.is_empty() {
            pending.retain(|device| met.insert(&device.address));
            found.extend(&pending);
            pending = pending.iter().flat_map(|device| self.children(&device.address)).copied().collect();
        }
        found
    }

    /// A function is behind a bridge, near or far.
    pub fn is_below(&self, device: &PciDevice, bridge: &str) -> bool {
        self.above(device).iter().any(|above| above.address == bridge)
    }

    /// It is a bridge by its class, or functions are behind it.
    pub fn is_bridge(&self, device: &PciDevice) -> bool {
        device.class.known().is_some_and(|class| is_bridge(*class))
            || self.children.contains_key(device.address.as_str())
    }

    /// A port that a card could be put into.
    pub fn is_empty_port(&self, device: &PciDevice) -> bool {
        let is_port = self
            .kind(device)
            .is_some_and(|kind| kind == PortKind::RootPort || kind == PortKind::SwitchDownstream);
        is_port
            && self.is_bridge(device)
            && self.children(&device.address).is_empty()
            && device.link_max.known().is_some()
    }

    /// Graphics cards and accelerators that may be an end of a flow.
    pub fn is_gpu(&self, device: &PciDevice) -> bool {
        let most = device.link_max.known().or(device.link.known());
        let wide = most.is_some_and(|link| link.width >= LEAST_GPU_LANES);
        let fits = |class: &u32| is_accelerator(*class) && (wide || !is_vga(*class));
        device.class.known().is_some_and(fits)
    }

    /// What a function is at its end of its link: as its configuration space says, else (only root reads
    /// that) from its place in the tree. `None` where neither says it: a bridge to conventional PCI, for
    /// instance.
    pub fn kind(&self, device: &PciDevice) -> Option<PortKind> {
        if let Some(kind) = device.express.port.known() {
            return Some(*kind);
        }
        let mut upper = None;
        for at in self.above(device).into_iter().rev() {
            upper = at.express.port.known().copied().or_else(|| self.kind_by_place(at, upper));
        }
        self.kind_by_place(device, upper)
    }

    fn kind_by_place(&self, device: &PciDevice, upper: Option<PortKind>) -> Option<PortKind> {
        let has_parent = device.parent.is_some();
        if !self.is_bridge(device) {
            return Some(if has_parent { PortKind::Endpoint } else { PortKind::IntegratedEndpoint });
        }
        device.link.known().or(device.link_max.known())?;
        match upper {
            None if !has_parent => Some(PortKind::RootPort),
            Some(PortKind::RootPort | PortKind::SwitchDownstream) => Some(PortKind::SwitchUpstream),
            Some(PortKind::SwitchUpstream) => Some(PortKind::SwitchDownstream),
            _ => None,
        }
    }

    /// Functions of the same card, in order. On a root bus functions of one number are parts of the chip set
    /// with nothing in common.
    pub fn functions(&self, device: &'a PciDevice) -> Vec<&'a PciDevice> {
        if self.parent(device).is_none() {
            return vec![device];
        }
        let own = card(&device.address);
        let all = self.by_address.range(own..).take_while(|(address, _)| address.starts_with(own));
        all.filter(|(address, _)| card(address) == own).map(|(_, device)| *device).collect()
    }

    /// The lowest function of a card; a bridge is its own.
    pub fn lowest(&self, device: &'a PciDevice) -> &'a PciDevice {
        if self.is_bridge(device) {
            return device;
        }
        self.functions(device).into_iter().find(|one| !self.is_bridge(one)).unwrap_or(device)
    }

    /// Cards below a bridge, each by its lowest function, in order.
    pub fn cards_below(&self, bridge: &PciDevice) -> Vec<&'a PciDevice> {
        let is_card =
            |device: &&PciDevice| !self.is_bridge(device) && self.lowest(device).address == device.address;
        let mut cards: Vec<&PciDevice> = self.below(bridge).into_iter().filter(is_card).collect();
        cards.sort_by(|a, b| a.address.cmp(&b.address));
        cards
    }

    /// Interfaces on any function of the card.
    pub fn nics(&self, device: &'a PciDevice) -> Vec<&'a Nic> {
        self.on_card(&self.nics, device)
    }

    /// Whole disks on any function of the card.
    pub fn disks(&self, device: &'a PciDevice) -> Vec<&'a Disk> {
        self.on_card(&self.disks, device)
    }

    /// Controllers on any function of the card.
    pub fn controllers(&self, device: &'a PciDevice) -> Vec<&'a Controller> {
        self.on_card(&self.controllers, device)
    }

    fn on_card<T>(&self, index: &BTreeMap<&'a str, Vec<&'a T>>, device: &'a PciDevice) -> Vec<&'a T> {
        let functions = self.functions(device).into_iter();
        functions.filter_map(|function| index.get(function.address.as_str())).flatten().copied().collect()
    }

    /// What the card's ports to the world carry, bytes per second: network links that are up, and disk ports
    /// with something behind.
    pub fn port_rate(&self, device: &'a PciDevice) -> Option<f64> {
        let nics = self.nics(device).into_iter().filter_map(frame_rate);
        let used = self.controllers(device).into_iter().filter(|controller| !controller.disks.is_empty());
        let all: Vec<f64> = nics.chain(used.filter_map(disk_port_rate)).collect();
        (!all.is_empty()).then(|| all.iter().sum())
    }

    /// The direction that a card's link is judged by: a NIC sends what it reads from memory, a controller writes to
    /// memory what its disks read.
    pub fn payload_direction(&self, device: &'a PciDevice) -> PayloadDirection {
        let is_network = !self.nics(device).is_empty();
        if is_network { PayloadDirection::FromMemory } else { PayloadDirection::ToMemory }
    }

    /// MaxPayload that is set, and the most that could be: the smallest of what each part of the way can do.
    pub fn max_payload(&self, device: &PciDevice) -> MaxPayload {
        let above = self.above(device);
        let mut path = above.into_iter().chain([device]).map(|at| &at.express.max_payload_supported_bytes);
        let unknown = path.clone().find(|able| able.known().is_none()).cloned();
        let able = unknown.unwrap_or_else(|| {
            Fact::from_option(
                path.by_ref().filter_map(Fact::known).min().copied(),
                "nothing on the way reports it",
            )
        });
        MaxPayload { set: device.express.max_payload_bytes.clone(), able }
    }
}

/// `domain:bus:device` without the function: functions of one card share its link.
pub fn card(address: &str) -> &str {
    address.rsplit_once('.').map_or(address, |(card, _)| card)
}

/// The link has this end at its top.
fn is_upper_end(kind: PortKind) -> bool {
    matches!(kind, PortKind::RootPort | PortKind::SwitchDownstream | PortKind::BridgeFromPci)
}

fn by_function<'a, T>(
    things: impl Iterator<Item = &'a T>,
    function: impl Fn(&'a T) -> Option<&'a str>,
) -> BTreeMap<&'a str, Vec<&'a T>> {
    let mut found: BTreeMap<&str, Vec<&T>> = BTreeMap::new();
    for thing in things {
        if let Some(address) = function(thing) {
            found.entry(address).or_default().push(thing);
        }
    }
    found
}

/// Class of a PCI-to-PCI bridge, without its programming interface.
const BRIDGE: u32 = 0x0604;
/// Base class of network controllers.
const NETWORK: u32 = 0x02;

/// The name of a class that carries bytes, or of a bridge; none for the others.
pub fn class_name(class: u32) -> Option<&'static str> {
    Some(match (class >> 16, class >> 8) {
        (_, BRIDGE) => "bridge",
        (_, 0x0101) => "IDE",
        (_, 0x0104) => "RAID",
        (_, 0x0106) => "SATA",
        (_, 0x0107) => "SAS",
        (_, 0x0108) => "NVMe",
        (0x01, _) => "storage",
        (_, 0x0200) => "Ethernet",
        (_, 0x0207 | 0x0c06) => "InfiniBand",
        (_, 0x0c04) => "Fibre Channel",
        (0x02, _) => "network",
        (_, 0x0302) => "GPU",
        (0x03, _) => "display",
        (_, 0x0b40) => "co-processor",
        (0x12, _) => "accelerator",
        _ => return None,
    })
}

/// Storage, network, graphics, co-processors, accelerators: all that a flow may end at.
pub fn carries_bytes(class: u32) -> bool {
    class_name(class).is_some() && !is_bridge(class)
}

/// A bridge to a further bus: a root port, a port of a switch, a bridge to conventional PCI.
fn is_bridge(class: u32) -> bool {
    class >> 8 == BRIDGE
}

/// Graphics cards, co-processors and accelerators: their drivers lower the speed of a link while it is idle.
pub fn is_accelerator(class: u32) -> bool {
    matches!(class >> 16, 0x03 | 0x12) || class >> 8 == 0x0b40
}

/// A graphics card on the board has this class, too.
fn is_vga(class: u32) -> bool {
    class >> 8 == 0x0300
}

#[cfg(test)]
mod tests;
