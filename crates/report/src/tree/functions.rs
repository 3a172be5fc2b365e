//! The PCI functions of the tree with their interfaces and disks, from the root ports down.

use super::branch::{Branch, grouped};
use super::nics::interface;
use super::{disks, joined};
use linerate_facts::units::show_bits_rate;
use linerate_facts::wording::counted;
use linerate_machine::probe::{Interrupt, Machine, PciDevice, PciLink, PortKind};
use linerate_machine::topology::{
    DEEPEST, LinkCondition, LinkEnds, Topology, WeakerEnd, carries_bytes, class_name, raw_rate,
};
use std::collections::{BTreeMap, BTreeSet};

/// The PCI functions worth a line, as branches from the root ports down.
pub(super) struct Functions {
    roots: Vec<(Option<u32>, Branch)>,
    /// Addresses of the functions that have a line.
    pub(super) addresses: Vec<String>,
    left_out: usize,
    /// … of which nothing says what they are.
    unknown: usize,
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
    pub(super) fn left_out(&self) -> Vec<Branch> {
        let known = self.left_out - self.unknown;
        let lines = [(known, "bridges and chip set"), (self.unknown, "class not reported")];
        let line = |(count, what): (usize, &str)| {
            (count > 0).then(|| Branch::new(format!("{}: {what}", counted(count, "further PCI function"))))
        };
        lines.into_iter().filter_map(line).collect()
    }
}

/// Functions that carry bytes (storage, network, display, accelerator, or with an interface or a disk on
/// them) and the bridges above them. A bridge with one branch below is left out where it is no other link
/// than its child's.
pub(super) fn functions(machine: &Machine) -> Functions {
    let tree = Topology::new(machine);
    let interrupts = interrupts(machine);
    let mut walk = Walk { tree: &tree, interrupts, met: BTreeSet::new(), addresses: Vec::new() };
    let roots: Vec<_> = tree.roots().filter_map(|root| walk.branch(root, 0)).collect();
    let left_out: Vec<&PciDevice> =
        machine.pci.iter().filter(|device| !walk.addresses.contains(&device.address)).collect();
    let is_unknown = |device: &&&PciDevice| device.class.known().is_none() && !tree.is_bridge(device);
    Functions {
        roots: roots.into_iter().map(|built| (built.node, built.branch)).collect(),
        unknown: left_out.iter().filter(is_unknown).count(),
        left_out: left_out.len(),
        addresses: walk.addresses,
    }
}

/// The least MaxPayload, which is what many firmwares leave.
const SMALL_PAYLOAD: u32 = 128;

struct Walk<'t, 'a> {
    tree: &'t Topology<'a>,
    interrupts: BTreeMap<&'a str, (usize, BTreeSet<u32>)>,
    /// Each address is shown once, also where a damaged file holds it twice or in a ring.
    met: BTreeSet<&'a str>,
    addresses: Vec<String>,
}

struct BuiltBranch {
    node: Option<u32>,
    link: Option<PciLink>,
    branch: Branch,
}

impl<'a> Walk<'_, 'a> {
    fn branch(&mut self, device: &'a PciDevice, depth: usize) -> Option<BuiltBranch> {
        if !self.met.insert(&device.address) {
            return None;
        }
        let children = self.tree.children(&device.address).iter();
        let mut below: Vec<BuiltBranch> = match depth < DEEPEST {
            true => children.filter_map(|child| self.branch(child, depth + 1)).collect(),
            false => Vec::new(),
        };
        let attached = self.attached(device);
        let link = device.link.known().copied();
        let carries = device.class.known().is_some_and(|class| carries_bytes(*class));
        if attached.is_empty() && !carries {
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
        let node = device.node.known().copied().or_else(|| below.iter().find_map(|built| built.node));
        let port = self.tree.parent(device);
        let is_bridge = self.tree.is_bridge(device);
        let mut branch = Branch::named(&device.address, function(self.tree, device));
        let own = Some(device).filter(|_| !is_bridge);
        branch.slot(port.into_iter().chain(own).find_map(|end| end.express.slot.known().copied()));
        if !is_bridge {
            let (count, cpus) = self.interrupts.get(device.address.as_str()).cloned().unwrap_or_default();
            branch.interrupts(count, cpus);
        }
        branch.extend(attached);
        branch.extend(grouped(below.into_iter().map(|built| built.branch).collect()));
        Some(BuiltBranch { node, link, branch })
    }

    fn attached(&self, device: &PciDevice) -> Vec<Branch> {
        let here = Some(&device.address);
        let nics = self.tree.machine.nics.iter().filter(|nic| nic.pci.as_ref() == here);
        let nics = grouped(nics.map(|nic| interface(nic, device.driver.known())).collect());
        nics.into_iter().chain(disks::of_function(self.tree.machine, &device.address)).collect()
    }
}

/// For each function the number of its interrupts and the CPUs that take them, or may where that is not
/// known.
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

/// What follows the address: class, ids, name, driver, link, packet sizes.
fn function(tree: &Topology, device: &PciDevice) -> String {
    let class = match device.express.port.known() {
        Some(PortKind::SwitchUpstream) => "switch".into(),
        Some(PortKind::RootPort) => "root port".into(),
        _ => device.class.known().map_or("device".into(), |class| class_words(*class)),
    };
    let ids = match (device.vendor.known(), device.device.known()) {
        (Some(vendor), Some(device)) => format!(" {vendor:04x}:{device:04x}"),
        _ => String::new(),
    };
    let driver = device.driver.known().filter(|name| *name != "pcieport").cloned().unwrap_or_default();
    let parts = [
        format!(" {class}{ids}"),
        device.name.known().cloned().unwrap_or_default(),
        device.card_name.clone().unwrap_or_default(),
        driver,
        pcie(tree, device),
        packets(tree, device),
    ];
    joined(parts)
}

fn class_words(class: u32) -> String {
    class_name(class).map_or_else(|| format!("class {:04x}", class >> 8), str::to_string)
}

/// `8 GT/s x16 (126 Gb/s)`, and how that is beside what the two ends of the link can do.
fn pcie(tree: &Topology, device: &PciDevice) -> String {
    let link = tree.link(device).filter(|link| link.runs.as_ref() == device.link.known());
    let own = match (device.link.known(), device.link_max.known()) {
        (Some(now), Some(most)) if link.is_none() && now != most => {
            return format!("{now} ({}), could do {most}", wire_rate(*now));
        }
        (Some(now), _) => format!("{now} ({})", wire_rate(*now)),
        (None, Some(most)) => return format!("no link now, could do {most}"),
        (None, None) => return String::new(),
    };
    // Said at the lower end only.
    let link = link.filter(|link| link.port.is_none_or(|port| port.address != device.address));
    let able = link.as_ref().and_then(|link| link.able).map(|able| able.to_string()).unwrap_or_default();
    match link.as_ref().map(|link| &link.condition) {
        Some(LinkCondition::Below { target: Some(speed), .. }) => {
            format!("{own}, below the {able} of both ends: the port is set to {speed} GT/s")
        }
        Some(LinkCondition::Below { .. }) => format!("{own}, below the {able} of both ends"),
        Some(LinkCondition::Idle) => {
            format!("{own}, idle: {} can do {able}", link.map_or("", |link| link.able_ends()))
        }
        Some(LinkCondition::Formality(_)) => format!("{own}, a formality"),
        Some(LinkCondition::Unknown) if !able.is_empty() => format!("{own}, could do {able}"),
        _ => own + &link.as_ref().map(stronger_end).unwrap_or_default(),
    }
}

/// What one end could do beyond the other. A port that is only wider is the usual case.
fn stronger_end(link: &LinkEnds) -> String {
    let most = |end: Option<&PciDevice>| end.and_then(|end| end.link_max.known().copied());
    let (Some(port), Some(card)) = (most(link.port), most(Some(link.device))) else { return String::new() };
    match link.weaker {
        WeakerEnd::Port => format!(", the card could do {card}"),
        WeakerEnd::Card if port.gt_per_second > card.gt_per_second => {
            format!(", the port above could do {port}")
        }
        WeakerEnd::Each => format!(", the card could do {card}, the port above {port}"),
        WeakerEnd::Card | WeakerEnd::Neither => String::new(),
    }
}

fn wire_rate(link: PciLink) -> String {
    raw_rate(link).map_or("rate unknown".into(), show_bits_rate)
}

/// Packet sizes, where one is the smallest although the way allows more, or smaller than usual.
fn packets(tree: &Topology, device: &PciDevice) -> String {
    let payload = tree.max_payload(device);
    let payload = match (payload.set.known(), payload.able.known()) {
        (Some(set), Some(able)) if *set <= SMALL_PAYLOAD && set < able => {
            Some(format!("MaxPayload {set} of {able}"))
        }
        _ => None,
    };
    // 512 is what a reset leaves (PCIe base specification, 7.5.3.4).
    let read = device.express.max_read_request_bytes.known();
    let read = read.filter(|bytes| **bytes < 512 && !tree.is_bridge(device));
    joined(payload.into_iter().chain(read.map(|bytes| format!("MaxReadRequest {bytes}"))))
}
