//! PCI functions, NICs and disks of a topology.

use super::super::link_rate;
use super::objects::{Function, Objects, OsDevice};
use crate::probe::{Disk, DiskKind, Nic, PciDevice, in_order};
use linerate_facts::fact::Fact;

const ABSENT: &str = "lstopo does not report";

/// The PCI functions, in address order; each once.
pub(crate) fn pci(found: &Objects) -> Vec<PciDevice> {
    let mut devices: Vec<PciDevice> = found.functions.iter().map(|function| one(found, function)).collect();
    devices.sort_by(|a, b| order(&a.address).cmp(&order(&b.address)));
    devices.dedup_by(|a, b| a.address == b.address);
    devices
}

/// Domains with more than four digits come last.
fn order(address: &str) -> (usize, &str) {
    (address.len(), address)
}

fn one(found: &Objects, function: &Function) -> PciDevice {
    let words = |at: usize| function.kind.split_ascii_whitespace().nth(at);
    let class = words(0).and_then(|class| u32::from_str_radix(class, 16).ok());
    let ids = words(1).and_then(|ids| ids.trim_matches(['[', ']']).split_once(':'));
    // Zeros stand where lstopo could not read them.
    let ids = ids.filter(|(vendor, _)| vendor.contains(|digit| digit != '0'));
    let identity = |text: Option<&str>| {
        Fact::from_option(text.and_then(|text| u32::from_str_radix(text, 16).ok()), ABSENT)
    };
    PciDevice {
        address: function.address.clone(),
        parent: function.parent.map(|parent| found.functions[parent].address.clone()),
        // lstopo leaves out the last eight bits, the interface.
        class: Fact::from_option(class.filter(|class| *class <= 0xffff).map(|class| class << 8), ABSENT),
        vendor: identity(ids.map(|ids| ids.0)),
        device: identity(ids.map(|ids| ids.1)),
        node: node(&function.nodes),
        link: match function.link {
            Some(rate) => link_rate::link(rate, fastest(found, function)),
            None => Fact::unknown(ABSENT),
        },
        name: Fact::from_option(function.name.clone(), ABSENT),
        ..Default::default()
    }
}

/// The highest speed of the link's upper end: the processor's, where the device is a root port or right below
/// one; else the switch's.
fn fastest(found: &Objects, function: &Function) -> Option<f64> {
    let vendor = |function: &Function| {
        let ids = function.kind.split_ascii_whitespace().nth(1)?;
        u32::from_str_radix(ids.trim_start_matches('[').split(':').next()?, 16).ok()
    };
    let switch = |function: &Function| vendor(function).and_then(link_rate::switch_port);
    let above = function.parent.map(|parent| &found.functions[parent]);
    match above {
        Some(bridge) if bridge.parent.is_some() => switch(bridge).or_else(|| switch(function)),
        _ => {
            let number = |name: &str| found.info(name).and_then(|text| text.parse().ok());
            let (family, model) = (number("CPUFamilyNumber")?, number("CPUModelNumber")?);
            link_rate::processor_port(found.info("CPUVendor")?, family, model)
        }
    }
}

/// The node, where it is one.
fn node(nodes: &[u32]) -> Fact<u32> {
    match nodes {
        [node] => Fact::Known(*node),
        [] => Fact::unknown(ABSENT),
        _ => Fact::unknown("lstopo puts it on several nodes"),
    }
}

/// hwloc 3 has bits (16 a network, 32 OpenFabrics, both for an RDMA device without an interface), before a
/// number.
fn is_network(found: &Objects, device: &OsDevice) -> bool {
    match found.version {
        0..=2 => device.kind == 2,
        _ => device.kind & (16 | 32) == 16,
    }
}

/// hwloc 3: 1 is storage, with 2 for memory (DAX); before, 0.
fn is_disk(found: &Objects, device: &OsDevice) -> bool {
    match found.version {
        0..=2 => device.kind == 0,
        _ => device.kind & (1 | 2) == 1,
    }
}

/// The network interfaces; lstopo reports which they are and where they hang, neither rate nor state.
pub(crate) fn nics(found: &Objects, pci: &[PciDevice]) -> Vec<Nic> {
    let devices = found.devices.iter().filter(|device| is_network(found, device));
    let mut nics: Vec<Nic> = devices
        .map(|device| {
            let (address, node) = place(found, device, pci);
            Nic {
                name: device.name.clone(),
                pci: address,
                node,
                loopback: device.name == "lo",
                ..Default::default()
            }
        })
        .collect();
    nics.sort_by(|a, b| in_order(&a.name, &b.name));
    nics.dedup_by(|a, b| a.name == b.name);
    nics
}

/// The block devices.
pub(crate) fn disks(found: &Objects, pci: &[PciDevice]) -> Vec<Disk> {
    let devices = found.devices.iter().filter(|device| is_disk(found, device));
    let mut disks: Vec<Disk> = devices.map(|device| disk(found, device, pci)).collect();
    disks.sort_by(|a, b| in_order(&a.name, &b.name));
    disks.dedup_by(|a, b| a.name == b.name);
    disks
}

fn disk(found: &Objects, device: &OsDevice, pci: &[PciDevice]) -> Disk {
    let text = |name: &str| {
        let info = device.infos.iter().find(|(key, _)| key == name);
        info.map(|(_, value)| value.trim().to_string()).filter(|value| !value.is_empty())
    };
    // `1756495872KiB`; hwloc 2 leaves the unit out.
    let size = text("Size").and_then(|size| size.trim_end_matches("KiB").parse::<u64>().ok());
    let (address, node) = place(found, device, pci);
    let starts = |prefix: &str| device.name.starts_with(prefix);
    Disk {
        name: device.name.clone(),
        kind: match () {
            () if starts("nvme") => DiskKind::Nvme,
            () if starts("sd") || starts("sr") => DiskKind::Scsi,
            () if starts("vd") => DiskKind::Virtio,
            () if starts("dm-") => DiskKind::Dm,
            () => DiskKind::Other,
        },
        number: Fact::from_option(text("LinuxDeviceID"), ABSENT),
        size_bytes: Fact::from_option(size.and_then(|size| size.checked_mul(1024)), ABSENT),
        model: Fact::from_option(text("Model"), ABSENT),
        logical_block_bytes: Fact::from_option(text("SectorSize").and_then(|size| size.parse().ok()), ABSENT),
        pci: address,
        node,
        ..Default::default()
    }
}

/// The function that a device hangs on, and its node.
fn place(found: &Objects, device: &OsDevice, pci: &[PciDevice]) -> (Option<String>, Fact<u32>) {
    let Some(function) = device.function.map(|at| &found.functions[at]) else {
        return (None, Fact::unknown("lstopo shows it on no PCI function"));
    };
    let known = pci.binary_search_by(|device| order(&device.address).cmp(&order(&function.address)));
    let node = known.map_or_else(|_| node(&function.nodes), |at| pci[at].node.clone());
    (Some(function.address.clone()), node)
}
