//! The parts of the tree that are devices: PCI functions with their interfaces and disks, and what hangs on no PCI function.

use super::branch::Branch;
use super::{bits, counted, joined};
use crate::fact::Fact;
use crate::probe::machine::{Disk, DiskKind, FileSystem, Machine, Nic, PciDevice, PciLink};
use crate::units::{show_bits_rate, show_size};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

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
        here.into_iter().map(|(_, branch)| branch).collect()
    }

    /// Branches that are left.
    pub(super) fn take_rest(&mut self) -> Vec<Branch> {
        std::mem::take(&mut self.roots).into_iter().map(|(_, branch)| branch).collect()
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
    for device in &machine.pci {
        // A parent that is not in the list (or is the device itself, in a damaged file) makes a root.
        let parent = device.parent.as_deref().filter(|parent| {
            *parent != device.address && machine.pci.iter().any(|other| other.address == *parent)
        });
        children.entry(parent).or_default().push(device);
    }
    let mut walk = Walk { machine, children, met: BTreeSet::new(), addresses: Vec::new() };
    let roots = walk.children.get(&None).cloned().unwrap_or_default();
    let roots: Vec<_> = roots.into_iter().filter_map(|root| walk.branch(root, 0)).collect();
    let left_out = machine.pci.len().saturating_sub(walk.addresses.len());
    Functions {
        roots: roots.into_iter().map(|made| (made.node, made.branch)).collect(),
        addresses: walk.addresses,
        left_out,
    }
}

/// Deeper than any PCIe hierarchy: 256 buses in a domain.
const DEEPEST: usize = 256;

struct Walk<'a> {
    machine: &'a Machine,
    children: BTreeMap<Option<&'a str>, Vec<&'a PciDevice>>,
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
        let mut branch = Branch::new(function(device));
        branch.extend(attached);
        branch.extend(below.into_iter().map(|made| made.branch));
        Some(Made { node, link, branch })
    }

    fn attached(&self, device: &PciDevice) -> Vec<Branch> {
        let here = Some(&device.address);
        let nics = self.machine.nics.iter().filter(|nic| nic.pci.as_ref() == here);
        let disks = self.machine.disks.iter().filter(|disk| disk.pci.as_ref() == here);
        let disks = disks.filter(|disk| disk.kind != DiskKind::Partition);
        nics.map(|nic| Branch::new(interface(nic, device.driver.known())))
            .chain(disks.map(|disk| with_partitions(self.machine, disk)))
            .collect()
    }
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
        code if code >> 8 == 0x03 => "display",
        0x0604 => "bridge",
        0x0b40 => "co-processor",
        code if code >> 8 == 0x12 => "accelerator",
        other => return format!("class {other:04x}"),
    };
    name.into()
}

fn function(device: &PciDevice) -> String {
    let class = device.class.known().map_or("device".into(), |class| class_name(*class));
    let ids = match (device.vendor.known(), device.device.known()) {
        (Some(vendor), Some(device)) => format!(" {vendor:04x}:{device:04x}"),
        _ => String::new(),
    };
    let driver = device.driver.known().filter(|name| *name != "pcieport").cloned().unwrap_or_default();
    let parts = [format!("{} {class}{ids}", device.address), driver, pcie(&device.link, &device.link_max)];
    joined(parts)
}

/// `8 GT/s x16 (126 Gb/s)`, and what the device could do where it runs below that.
fn pcie(link: &Fact<PciLink>, most: &Fact<PciLink>) -> String {
    let one = |link: &PciLink| format!("{} GT/s x{}", link.gt_per_second, link.width);
    match (link.known(), most.known()) {
        (Some(now), Some(most)) if now != most => {
            format!("{} ({}), could do {}", one(now), wire_rate(now), one(most))
        }
        (Some(now), _) => format!("{} ({})", one(now), wire_rate(now)),
        (None, Some(most)) => format!("no link now, could do {}", one(most)),
        (None, None) => String::new(),
    }
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

/// A disk with those of its partitions that something is mounted from.
fn with_partitions(machine: &Machine, disk: &Disk) -> Branch {
    let mut branch = Branch::new(block_device(machine, disk));
    let parts = machine
        .disks
        .iter()
        .filter(|part| part.kind == DiskKind::Partition && part.members.contains(&disk.name));
    let used = parts.filter(|part| !mounts(machine, &part.name).is_empty());
    branch.extend(used.map(|part| Branch::new(block_device(machine, part))));
    branch
}

fn block_device(machine: &Machine, disk: &Disk) -> String {
    let size = disk.size_bytes.known().map(|bytes| show_size(*bytes)).unwrap_or_default();
    let medium = match (disk.kind, disk.rotational.known()) {
        (DiskKind::Scsi, Some(true)) => "rotating",
        (DiskKind::Scsi, Some(false)) => "solid state",
        _ => "",
    };
    let block = match (disk.kind, disk.logical_block_bytes.known()) {
        (DiskKind::Partition, _) | (_, None) => String::new(),
        (_, Some(bytes)) => format!("{bytes} B blocks"),
    };
    let under = match (disk.kind, &disk.backing_file) {
        (DiskKind::Partition, _) => String::new(),
        (_, Some(file)) => format!("file {}", file.display()),
        _ if disk.members.is_empty() => String::new(),
        _ => format!("on {}", disk.members.join(", ")),
    };
    let model = disk.model.known().filter(|_| disk.kind != DiskKind::Partition).cloned().unwrap_or_default();
    let parts =
        [format!("{} {size}", disk.name), model, medium.into(), block, under, mounts(machine, &disk.name)];
    joined(parts)
}

/// `ext4 on /`; further mounts of the same device (bind mounts, subvolumes) are counted.
fn mounts(machine: &Machine, disk: &str) -> String {
    let mut here = machine.file_systems.iter().filter(|fs| fs.devices.iter().any(|device| device == disk));
    let Some(first) = here.next() else { return String::new() };
    let more = match here.count() {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    let part = if first.devices.len() > 1 { "part of " } else { "" };
    format!("{part}{} on {}{more}", first.kind, first.mount_point.display())
}

/// Block devices on no PCI function that the tree shows: dm, md, loop, zram, and disks of a recording without its PCI.
pub(super) fn stacked(machine: &Machine) -> Vec<Branch> {
    machine
        .disks
        .iter()
        .filter(|disk| disk.kind != DiskKind::Partition && !on_shown_function(machine, disk.pci.as_deref()))
        .filter(|disk| has_bytes(disk))
        .map(|disk| with_partitions(machine, disk))
        .collect()
}

/// A loop device without a file and a disk without a medium have no bytes.
pub(super) fn has_bytes(disk: &Disk) -> bool {
    match disk.size_bytes {
        Fact::Known(bytes) => bytes > 0,
        Fact::Unknown { .. } => !matches!(disk.kind, DiskKind::Loop | DiskKind::Other),
    }
}

/// Interfaces on no PCI function that the tree shows.
pub(super) fn virtual_interfaces(machine: &Machine) -> Vec<Branch> {
    machine
        .nics
        .iter()
        .filter(|nic| !on_shown_function(machine, nic.pci.as_deref()))
        .map(|nic| Branch::new(interface(nic, None)))
        .collect()
}

pub(super) fn network_file_systems(machine: &Machine) -> Vec<Branch> {
    let line = |fs: &FileSystem| format!("{} on {} from {}", fs.kind, fs.mount_point.display(), fs.source);
    machine.file_systems.iter().filter(|fs| fs.devices.is_empty()).map(|fs| Branch::new(line(fs))).collect()
}

fn on_shown_function(machine: &Machine, pci: Option<&str>) -> bool {
    machine.pci.iter().any(|device| Some(device.address.as_str()) == pci)
}

fn interface(nic: &Nic, function_driver: Option<&String>) -> String {
    let driver = nic.driver.known().filter(|name| !nic.loopback && Some(*name) != function_driver);
    let queues = match (nic.rx_queues.known(), nic.tx_queues.known()) {
        (Some(rx), Some(tx)) if rx == tx && *rx == 1 => String::new(),
        (Some(rx), Some(tx)) if rx == tx => counted(*rx as usize, "queue"),
        (Some(rx), Some(tx)) => format!("{rx} receive and {tx} transmit queues"),
        _ => String::new(),
    };
    let addresses: Vec<String> = nic
        .addresses
        .iter()
        // A link-local address is no address for a flow.
        .filter(|(address, _)| !matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local()))
        .map(|(address, prefix)| format!("{address}/{prefix}"))
        .collect();
    let parts = [
        nic.name.clone(),
        nic.state.known().filter(|state| *state != "unknown").cloned().unwrap_or_default(),
        nic.speed_bits_per_second.known().map(|speed| bits(*speed)).unwrap_or_default(),
        driver.cloned().unwrap_or_default(),
        nic.mtu.known().map(|mtu| format!("MTU {mtu}")).unwrap_or_default(),
        queues,
        addresses.join(" "),
    ];
    joined(parts)
}
