//! The PCIe tree as links between two ends, and what hangs on each card.
//!
//! sysfs shows a link at both its ends with the same speed and width. The upper end is a root port or a switch's downstream port, the
//! lower one an endpoint or a switch's upstream port; between the two sides of a switch there is no link. Where the configuration
//! space did not tell which is which (a user who is not root reads 64 bytes of it), the places alternate from the root bus down.

pub(crate) use super::capacity::{nic_rate, payload, port_payload, raw};
use crate::plan::links::{DEEPEST, Endpoint, synthetic_bridge, synthetic_endpoint};
use crate::probe::{Controller, Disk, DiskKind, Machine, Nic, PciDevice, PciLink, PortKind};
use crate::rates::pcie::Direction;
use std::collections::BTreeMap;

/// More PCI functions than any server has; a damaged file with more gets no statement about links.
const MOST_FUNCTIONS: usize = 4096;
/// Intel X722, the network part of the C620 chip set: its functions show a link of one lane that does not exist (`i40e_devids.h`).
const X722: std::ops::RangeInclusive<u32> = 0x37ce..=0x37d3;

/// One PCIe link with its two ends.
#[derive(Clone, Debug)]
pub struct PcieEdge<'a> {
    /// Lower end: an endpoint (the lowest function of its card) or a switch's upstream port.
    pub device: &'a PciDevice,
    /// Upper end: a root port or a switch's downstream port, where it is known.
    pub port: Option<&'a PciDevice>,
    /// As it runs.
    pub now: PciLink,
    /// The most that both ends can do; none where one end does not tell.
    pub both: Option<PciLink>,
    /// What is to be said about it.
    pub state: EdgeState,
}

/// How a link runs against what its ends can do.
#[derive(Clone, Debug, PartialEq)]
pub enum EdgeState {
    /// As both ends can, or it cannot be told.
    Full,
    /// The figures are those of no real link; the reason.
    Formality(String),
    /// It runs below what both ends can do.
    Below {
        /// On fewer lanes.
        narrower: bool,
        /// At a lower speed.
        slower: bool,
    },
    /// At a lower speed, which the device is known to choose while it has nothing to do.
    Idle,
}

/// Place of a function in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Root,
    Upstream,
    Downstream,
    Endpoint,
    /// On a root bus or within a switch: no link of its own.
    Integrated,
}

/// The tree with its indexes. Total on damaged files: rings end, doubles count once.
pub(crate) struct Topology<'a> {
    pub machine: &'a Machine,
    by_address: BTreeMap<&'a str, &'a PciDevice>,
    children: BTreeMap<&'a str, Vec<&'a PciDevice>>,
    nics: BTreeMap<&'a str, Vec<&'a Nic>>,
    disks: BTreeMap<&'a str, Vec<&'a Disk>>,
    controllers: BTreeMap<&'a str, Vec<&'a Controller>>,
}

impl<'a> Topology<'a> {
    pub fn new(machine: &'a Machine) -> Self {
        let mut by_address = BTreeMap::new();
        let mut children: BTreeMap<&str, Vec<&PciDevice>> = BTreeMap::new();
        let whole = machine.pci.len() <= MOST_FUNCTIONS;
        for device in machine.pci.iter().filter(|_| whole) {
            if by_address.insert(device.address.as_str(), device).is_some() {
                continue;
            }
            if let Some(parent) = device.parent.as_deref() {
                children.entry(parent).or_default().push(device);
            }
        }
        let disks = machine.disks.iter().filter(|disk| disk.kind != DiskKind::Partition);
        Topology {
            machine,
            by_address,
            children,
            nics: by_address_of(machine.nics.iter(), |nic| nic.pci.as_deref()),
            disks: by_address_of(disks, |disk| disk.pci.as_deref()),
            controllers: by_address_of(machine.controllers.iter(), |controller| controller.pci.as_deref()),
        }
    }

    pub fn find(&self, address: &str) -> Option<&'a PciDevice> {
        self.by_address.get(address).copied()
    }

    pub fn parent(&self, device: &PciDevice) -> Option<&'a PciDevice> {
        self.find(device.parent.as_deref()?).filter(|parent| parent.address != device.address)
    }

    pub fn children(&self, address: &str) -> &[&'a PciDevice] {
        self.children.get(address).map_or(&[], Vec::as_slice)
    }

    /// Bridges above a function, nearest first.
    pub fn above(&self, device: &'a PciDevice) -> Vec<&'a PciDevice> {
        std::iter::successors(self.parent(device), |bridge| self.parent(bridge)).take(DEEPEST).collect()
    }

    /// What a function is: as its configuration space tells, else by its depth.
    pub fn place(&self, device: &'a PciDevice) -> Place {
        if let Some(kind) = device.express.port.known() {
            return match kind {
                PortKind::RootPort => Place::Root,
                PortKind::SwitchUpstream => Place::Upstream,
                PortKind::SwitchDownstream => Place::Downstream,
                PortKind::Endpoint | PortKind::LegacyEndpoint | PortKind::BridgeToPci => Place::Endpoint,
                PortKind::IntegratedEndpoint | PortKind::EventCollector | PortKind::BridgeFromPci => {
                    Place::Integrated
                }
            };
        }
        let depth = self.above(device).len();
        match (self.is_bridge(device), depth) {
            (true, 0) => Place::Root,
            (true, depth) if depth % 2 == 1 => Place::Upstream,
            (true, _) => Place::Downstream,
            (false, 0) => Place::Integrated,
            (false, _) => Place::Endpoint,
        }
    }

    pub fn is_bridge(&self, device: &PciDevice) -> bool {
        device.class.known().is_some_and(|class| class >> 8 == 0x0604)
            || self.children.contains_key(device.address.as_str())
    }

    /// All links, in the order of the functions at their lower ends.
    pub fn edges(&self) -> Vec<PcieEdge<'a>> {
        self.by_address.values().filter_map(|device| self.edge(device)).collect()
    }

    /// The link whose lower end a function is.
    pub fn edge(&self, device: &'a PciDevice) -> Option<PcieEdge<'a>> {
        if !matches!(self.place(device), Place::Upstream | Place::Endpoint)
            || self.lowest(device) != device.address
        {
            return None;
        }
        // A virtual machine's ports are drawn by the hypervisor; only what is passed through is real.
        let port = self.parent(device).filter(|_| !self.is_virtual());
        let now = device.link.known().or_else(|| port?.link.known()).copied()?;
        // Both ends of one link show the same: where they differ, and nobody told, these are the two sides of a switch.
        let told = device.express.port.known().is_some();
        let differs = port.and_then(|port| port.link.known()).is_some_and(|upper| *upper != now);
        if self.is_bridge(device) && !told && differs {
            return None;
        }
        let both = device.link_max.known().zip(port.and_then(|port| port.link_max.known())).map(|(a, b)| {
            PciLink { gt_per_second: a.gt_per_second.min(b.gt_per_second), width: a.width.min(b.width) }
        });
        let state = self.state(device, now, both);
        Some(PcieEdge { device, port, now, both, state })
    }

    fn is_virtual(&self) -> bool {
        self.machine.virtualisation.known().is_some_and(|name| name != "none")
    }

    fn state(&self, device: &'a PciDevice, now: PciLink, both: Option<PciLink>) -> EdgeState {
        if let Some(why) = self.formality(device) {
            return EdgeState::Formality(why);
        }
        let Some(both) = both else { return EdgeState::Full };
        let (narrower, slower) = (now.width < both.width, now.gt_per_second < both.gt_per_second);
        match (narrower, slower) {
            (false, false) => EdgeState::Full,
            (false, true) if self.idles(device) => EdgeState::Idle,
            _ => EdgeState::Below { narrower, slower },
        }
    }

    /// Why a link's figures are those of no real link, if they are.
    fn formality(&self, device: &'a PciDevice) -> Option<String> {
        if self.is_bridge(device) {
            return synthetic_bridge(self.machine, device, Direction::ToMemory, DEEPEST)
                .then(|| "it claims less than everything behind it: a switch's formality".into());
        }
        let on_chip = device.vendor.known() == Some(&0x8086)
            && device.device.known().is_some_and(|id| X722.contains(id));
        let network = |other: &&PciDevice| other.class.known().is_some_and(|class| class >> 16 == 0x02);
        let one_lane = device.link_max.known().or(device.link.known()).is_some_and(|link| link.width == 1);
        // Nobody builds a card with several ports on one lane; parts of a chip set show themselves so.
        let crowded = one_lane && self.functions(device).into_iter().filter(network).count() > 1;
        if on_chip || crowded {
            return Some("part of the chip set, which shows one lane that does not exist".into());
        }
        let endpoint = Endpoint {
            address: &device.address,
            port_bytes_per_second: self.port_rate(device).filter(|_| !self.nics(device).is_empty()),
        };
        synthetic_endpoint(device, &endpoint)
    }

    /// The device may have lowered its speed because it has nothing to do: GPUs and accelerators always, others where their link saves
    /// power or nothing uses them.
    fn idles(&self, device: &'a PciDevice) -> bool {
        let class = device.class.known().copied().unwrap_or(0);
        let accelerator = matches!(class >> 16, 0x03 | 0x12) || class >> 8 == 0x0b40;
        let saving = device.express.power_saving.known() == Some(&true);
        let up = |nic: &Nic| nic.state.known().is_none_or(|state| state == "up" || state == "unknown");
        let unused = match class >> 16 {
            0x02 => !self.nics(device).iter().any(|nic| up(nic)),
            0x01 => self.disks(device).is_empty(),
            _ => false,
        };
        accelerator || saving || unused
    }

    /// Functions of the same card, in order. On a root bus functions of one number are parts of the chip set that have nothing in common.
    pub fn functions(&self, device: &'a PciDevice) -> Vec<&'a PciDevice> {
        if self.parent(device).is_none() {
            return vec![device];
        }
        let own = card(&device.address);
        let all = self.by_address.range(own..).take_while(|(address, _)| address.starts_with(own));
        all.filter(|(address, _)| card(address) == own).map(|(_, device)| *device).collect()
    }

    /// The lowest function of the card that is no bridge's; a bridge is its own.
    fn lowest(&self, device: &'a PciDevice) -> &'a str {
        if self.is_bridge(device) {
            return &device.address;
        }
        self.functions(device).first().map_or(device.address.as_str(), |first| &first.address)
    }

    fn behind<T>(&self, index: &BTreeMap<&'a str, Vec<&'a T>>, device: &'a PciDevice) -> Vec<&'a T> {
        let functions = self.functions(device).into_iter();
        functions.filter_map(|function| index.get(function.address.as_str())).flatten().copied().collect()
    }

    /// Interfaces on any function of the card.
    pub fn nics(&self, device: &'a PciDevice) -> Vec<&'a Nic> {
        self.behind(&self.nics, device)
    }

    /// Whole disks on any function of the card.
    pub fn disks(&self, device: &'a PciDevice) -> Vec<&'a Disk> {
        self.behind(&self.disks, device)
    }

    /// Controllers on any function of the card.
    pub fn controllers(&self, device: &'a PciDevice) -> Vec<&'a Controller> {
        self.behind(&self.controllers, device)
    }

    /// What the card's ports to the world carry, bytes per second: network links that are up, and disk ports with something behind.
    pub fn port_rate(&self, device: &'a PciDevice) -> Option<f64> {
        let nics = self.nics(device).into_iter().filter_map(nic_rate);
        let used = self.controllers(device).into_iter().filter(|controller| !controller.disks.is_empty());
        let ports = used.filter_map(port_payload);
        let all: Vec<f64> = nics.chain(ports).collect();
        (!all.is_empty()).then(|| all.iter().sum())
    }

    /// Cards below a bridge.
    pub fn cards_below(&self, bridge: &'a PciDevice) -> Vec<&'a PciDevice> {
        let mut found: Vec<&PciDevice> = Vec::new();
        let mut pending = self.children(&bridge.address).to_vec();
        let mut steps = 0;
        while let Some(device) = pending.pop() {
            steps += 1;
            if steps > MOST_FUNCTIONS {
                break;
            }
            if self.is_bridge(device) {
                pending.extend(self.children(&device.address));
            } else if self.lowest(device) == device.address {
                found.push(device);
            }
        }
        found.sort_by(|a, b| a.address.cmp(&b.address));
        found
    }
}

fn by_address_of<'a, T>(
    things: impl Iterator<Item = &'a T>,
    pci: impl Fn(&'a T) -> Option<&'a str>,
) -> BTreeMap<&'a str, Vec<&'a T>> {
    let mut found: BTreeMap<&str, Vec<&T>> = BTreeMap::new();
    for thing in things {
        if let Some(address) = pci(thing) {
            found.entry(address).or_default().push(thing);
        }
    }
    found
}

/// `domain:bus:device` without the function.
pub(crate) fn card(address: &str) -> &str {
    address.rsplit_once('.').map_or(address, |(card, _)| card)
}
