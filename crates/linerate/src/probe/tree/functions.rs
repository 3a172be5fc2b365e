//! The PCI functions of the tree with their interfaces and disks, from the root ports down.

use super::branch::{Branch, grouped};
use super::nics::interface;
use super::{counted, disks, joined};
use crate::fact::Fact;
use crate::probe::machine::{Interrupt, Machine, PciDevice, PciLink, PortKind};
use crate::units::show_bits_rate;
use std::collections::{BTreeMap, BTreeSet};

/// The PCI functions worth a line, as branches from the root ports down.
pub(super) struct Functions {
    roots: Vec<(Option<u32>, Branch)>,
    /// Addresses of the functions that have a line.
    pub(super) addresses: Vec<String>,
    left_out: usize,
}

impl Functions {
    /// Branches on one NUMA node, which are then gone from here.
    pub(super) fn take_node(&mut self, node: u32) -> Vec<Branch> {
        let roots = std::mem::take(&mut self.roots);
        let (here, rest) = roots.into_iter().partition::<Vec<_>, _>(|(on, _)| *on == Some(node));
        self.roots = rest;
        grouped(here.into_iter().map(|(_, branch)| branch).collect())
    }

    /// Branches that are left.
    pub(super) fn take_rest(&mut self) -> Vec<Branch> {
        grouped(std::mem::take(&mut self.roots).into_iter().map(|(_, branch)| branch).collect())
    }

    /// How many functions have no line.
    pub(super) fn left_out(&self) -> Option<Branch> {
        let count = counted(self.left_out, "further PCI function");
        (self.left_out > 0).then(|| Branch::new(format!("{count}: bridges and chip set")))
    }
}

/// Functions that carry bytes (storage, network, display, accelerator, or with an interface or a disk on them) and the bridges above
/// them. A bridge with one branch below is left out where it is no other link than its child's.
pub(super) fn functions(machine: &Machine) -> Functions {
    let mut children: BTreeMap<Option<&str>, Vec<&PciDevice>> = BTreeMap::new();
    let known: BTreeSet<&str> = machine.pci.iter().map(|device| device.address.as_str()).collect();
    for device in &machine.pci {
        // A parent that is not in the list (or is the device itself, in a damaged file) makes a root.
        let parent =
            device.parent.as_deref().filter(|parent| *parent != device.address && known.contains(parent));
        children.entry(parent).or_default().push(device);
    }
    let by_address: BTreeMap<&str, &PciDevice> =
        machine.pci.iter().map(|device| (device.address.as_str(), device)).collect();
    let interrupts = interrupts(machine);
    let mut walk =
        Walk { machine, children, by_address, interrupts, met: BTreeSet::new(), addresses: Vec::new() };
    let roots = walk.children.get(&None).cloned().unwrap_or_default();
    let roots: Vec<_> = roots.into_iter().filter_map(|root| walk.branch(root, 0)).collect();
    let left_out = machine.pci.len().saturating_sub(walk.addresses.len());
    Functions {
        roots: roots.into_iter().map(|made| (made.node, made.branch)).collect(),
        addresses: walk.addresses,
        left_out,
    }
}

/// The least MaxPayload, which is what many firmwares leave.
const SMALL_PAYLOAD: u32 = 128;

/// Deeper than any PCIe hierarchy: 256 buses in a domain.
const DEEPEST: usize = 256;

struct Walk<'a> {
    machine: &'a Machine,
    children: BTreeMap<Option<&'a str>, Vec<&'a PciDevice>>,
    by_address: BTreeMap<&'a str, &'a PciDevice>,
    interrupts: BTreeMap<&'a str, (usize, BTreeSet<u32>)>,
    /// Each address is shown once, also where a damaged file holds it twice or in a ring.
    met: BTreeSet<&'a str>,
    addresses: Vec<String>,
}

struct Made {
    node: Option<u32>,
    link: Option<PciLink>,
    branch: Branch,
}

impl<'a> Walk<'a> {
    fn branch(&mut self, device: &'a PciDevice, depth: usize) -> Option<Made> {
        if !self.met.insert(&device.address) {
            return None;
        }
        let children = self.children.get(&Some(device.address.as_str())).cloned().unwrap_or_default();
        let mut below: Vec<Made> = match depth < DEEPEST {
            true => children.into_iter().filter_map(|child| self.branch(child, depth + 1)).collect(),
            false => Vec::new(),
        };
        let attached = self.attached(device);
        let link = device.link.known().copied();
        if attached.is_empty() && !carries_bytes(device) {
            match below.as_slice() {
                [] => return None,
                [only] if link.is_none() || link == only.link => {
                    let mut only = below.remove(0);
                    only.node = only.node.or(device.node.known().copied());
                    return Some(only);
                }
                _ => {}
            }
        }
        self.addresses.push(device.address.clone());
        let node = device.node.known().copied().or_else(|| below.iter().find_map(|made| made.node));
        let port = device.parent.as_deref().and_then(|parent| self.by_address.get(parent).copied());
        let mut branch = Branch::named(&device.address, function(device, port));
        let own = Some(device).filter(|device| !is_bridge(device));
        branch.slot(port.into_iter().chain(own).find_map(|end| end.express.slot.known().copied()));
        if !is_bridge(device) {
            let (count, cpus) = self.interrupts.get(device.address.as_str()).cloned().unwrap_or_default();
            branch.interrupts(count, cpus);
        }
        branch.extend(attached);
        branch.extend(grouped(below.into_iter().map(|made| made.branch).collect()));
        Some(Made { node, link, branch })
    }

    fn attached(&self, device: &PciDevice) -> Vec<Branch> {
        let here = Some(&device.address);
        let nics = self.machine.nics.iter().filter(|nic| nic.pci.as_ref() == here);
        let nics = grouped(nics.map(|nic| interface(nic, device.driver.known())).collect());
        nics.into_iter().chain(disks::of_function(self.machine, &device.address)).collect()
    }
}

/// For each function the number of its interrupts and the CPUs that take them, or may where that is not told.
fn interrupts(machine: &Machine) -> BTreeMap<&str, (usize, BTreeSet<u32>)> {
    let mut found: BTreeMap<&str, (usize, BTreeSet<u32>)> = BTreeMap::new();
    let cpus = |irq: &Interrupt| irq.effective.known().or(irq.allowed.known()).cloned().unwrap_or_default();
    for irq in &machine.interrupts {
        let Some(pci) = irq.pci.as_deref() else { continue };
        let (count, all) = found.entry(pci).or_default();
        *count += 1;
        all.extend(cpus(irq));
    }
    found
}

/// Storage, network, display, co-processor and accelerator classes of the PCI code assignment.
fn carries_bytes(device: &PciDevice) -> bool {
    let Fact::Known(class) = device.class else { return false };
    matches!(class >> 16, 0x01..=0x03 | 0x12) || matches!(class >> 8, 0x0b40 | 0x0c04 | 0x0c06)
}

fn class_name(class: u32) -> String {
    let name = match class >> 8 {
        0x0101 => "IDE",
        0x0104 => "RAID",
        0x0106 => "SATA",
        0x0107 => "SAS",
        0x0108 => "NVMe",
        code if code >> 8 == 0x01 => "storage",
        0x0200 => "Ethernet",
        0x0207 | 0x0c06 => "InfiniBand",
        0x0c04 => "Fibre Channel",
        code if code >> 8 == 0x02 => "network",
        0x0302 => "GPU",
        code if code >> 8 == 0x03 => "display",
        0x0604 => "bridge",
        0x0b40 => "co-processor",
        code if code >> 8 == 0x12 => "accelerator",
        other => return format!("class {other:04x}"),
    };
    name.into()
}

/// What follows the address: class, ids, name, driver, link, packet sizes.
fn function(device: &PciDevice, port: Option<&PciDevice>) -> String {
    let class = match device.express.port.known() {
        Some(PortKind::SwitchUpstream) => "switch".into(),
        Some(PortKind::RootPort) => "root port".into(),
        _ => device.class.known().map_or("device".into(), |class| class_name(*class)),
    };
    let ids = match (device.vendor.known(), device.device.known()) {
        (Some(vendor), Some(device)) => format!(" {vendor:04x}:{device:04x}"),
        _ => String::new(),
    };
    let driver = device.driver.known().filter(|name| *name != "pcieport").cloned().unwrap_or_default();
    let parts = [
        format!(" {class}{ids}"),
        device.name.known().cloned().unwrap_or_default(),
        driver,
        pcie(device, port),
        packets(device, port),
    ];
    joined(parts)
}

/// `8 GT/s x16 (126 Gb/s)`, and what the device and the port above could do where that is another.
fn pcie(device: &PciDevice, port: Option<&PciDevice>) -> String {
    let one = |link: &PciLink| format!("{} GT/s x{}", link.gt_per_second, link.width);
    let own = match (device.link.known(), device.link_max.known()) {
        (Some(now), Some(most)) if now != most => {
            format!("{} ({}), could do {}", one(now), wire_rate(now), one(most))
        }
        (Some(now), _) => format!("{} ({})", one(now), wire_rate(now)),
        (None, Some(most)) => format!("no link now, could do {}", one(most)),
        (None, None) => return String::new(),
    };
    // A port that is only wider is the usual case. What is above a bridge is a link's other end only where that is told.
    let told = |port: &&PciDevice| {
        let kind = port.express.port.known();
        kind.map_or(!is_bridge(device), |kind| {
            matches!(kind, PortKind::RootPort | PortKind::SwitchDownstream)
        })
    };
    let slot = port.filter(told).and_then(|port| port.link_max.known()).filter(|slot| {
        let most = device.link_max.known().or(device.link.known());
        most.is_some_and(|most| slot.gt_per_second != most.gt_per_second || slot.width < most.width)
    });
    match slot {
        Some(slot) => format!("{own}, the port above {}", one(slot)),
        None => own,
    }
}

/// Packet sizes, where one is the smallest although the way allows more, or smaller than usual.
fn packets(device: &PciDevice, port: Option<&PciDevice>) -> String {
    let express = &device.express;
    let above = port.and_then(|port| port.express.max_payload_supported_bytes.known());
    let possible =
        express.max_payload_supported_bytes.known().map(|own| above.map_or(*own, |above| *own.min(above)));
    let payload = express.max_payload_bytes.known().and_then(|set| match possible {
        Some(possible) if *set <= SMALL_PAYLOAD && *set < possible => {
            Some(format!("MaxPayload {set} of {possible}"))
        }
        _ => None,
    });
    // 512 is what a reset leaves (PCIe base specification, 7.5.3.4).
    let read = express.max_read_request_bytes.known().filter(|bytes| **bytes < 512 && !is_bridge(device));
    let read = read.map(|bytes| format!("MaxReadRequest {bytes}"));
    joined(payload.into_iter().chain(read))
}

fn is_bridge(device: &PciDevice) -> bool {
    device.class.known().is_some_and(|class| class >> 8 == 0x0604)
}

/// The link's rate one way after its line code: 8b/10b up to 5 GT/s, 128b/130b up to 32, none in the flits above.
fn wire_rate(link: &PciLink) -> String {
    let code = match link.gt_per_second {
        speed if speed <= 5.0 => 8.0 / 10.0,
        speed if speed <= 32.0 => 128.0 / 130.0,
        _ => 1.0,
    };
    let bits = link.gt_per_second * 1e9 * f64::from(link.width) * code;
    show_bits_rate(crate::units::bytes_per_second(bits as u64))
}
