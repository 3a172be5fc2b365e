//! PCI functions, NICs and disks of a topology.

use super::super::link_rate;
use super::objects::{Function, Objects, OsDevice};
use crate::probe::{Disk, DiskKind, Nic, PciDevice, in_order};
use linerate_facts::fact::Fact;

const ABSENT: &str = "lstopo does not report";

/// The PCI functions, in address order; each once.
pub(crate) fn pci(objects: &Objects) -> Vec<PciDevice> {
    let mut devices: Vec<PciDevice> =
        objects.functions.iter().map(|function| pci_device(objects, function)).collect();
    devices.sort_by(|a, b| sort_key(&a.address).cmp(&sort_key(&b.address)));
    devices.dedup_by(|a, b| a.address == b.address);
    devices
}

/// Domains with more than four digits come last.
fn sort_key(address: &str) -> (usize, &str) {
    (address.len(), address)
}

fn pci_device(objects: &Objects, function: &Function) -> PciDevice {
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
        parent: function.parent.map(|parent| objects.functions[parent].address.clone()),
        // lstopo leaves out the last eight bits, the interface.
        class: Fact::from_option(class.filter(|class| *class <= 0xffff).map(|class| class << 8), ABSENT),
        vendor: identity(ids.map(|ids| ids.0)),
        device: identity(ids.map(|ids| ids.1)),
        node: node(&function.nodes),
        link: match function.link {
            Some(rate) => link_rate::link(rate, fastest(objects, function)),
            None => Fact::unknown(ABSENT),
        },
        name: Fact::from_option(function.name.clone(), ABSENT),
        ..Default::default()
    }
}

/// The highest speed of the link's upper end: the processor's, where the device is a root port or right below
/// one; else the switch's.
fn fastest(objects: &Objects, function: &Function) -> Option<f64> {
    let vendor = |function: &Function| {
        let ids = function.kind.split_ascii_whitespace().nth(1)?;
        u32::from_str_radix(ids.trim_start_matches('[').split(':').next()?, 16).ok()
    };
    let switch = |function: &Function| vendor(function).and_then(link_rate::switch_port);
    let above = function.parent.map(|parent| &objects.functions[parent]);
    match above {
        Some(bridge) if bridge.parent.is_some() => switch(bridge).or_else(|| switch(function)),
        _ => {
            let number = |name: &str| objects.info(name).and_then(|text| text.parse().ok());
            let (family, model) = (number("CPUFamilyNumber")?, number("CPUModelNumber")?);
            link_rate::processor_port(objects.info("CPUVendor")?, family, model)
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
fn is_network(objects: &Objects, device: &OsDevice) -> bool {
    match objects.version {
        0..=2 => device.kind == 2,
        _ => device.kind & (16 | 32) == 16,
    }
}

/// hwloc 3: 1 is storage, with 2 for memory (DAX); before, 0.
fn is_disk(objects: &Objects, device: &OsDevice) -> bool {
    match objects.version {
        0..=2 => device.kind == 0,
        _ => device.kind & (1 | 2) == 1,
    }
}

/// The network interfaces; lstopo reports which they are and where they hang, neither rate nor state.
pub(crate) fn nics(objects: &Objects, pci: &[PciDevice]) -> Vec<Nic> {
    let devices = objects.devices.iter().filter(|device| is_network(objects, device));
    let mut nics: Vec<Nic> = devices
        .map(|device| {
            let (address, node) = place(objects, device, pci);
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
pub(crate) fn disks(objects: &Objects, pci: &[PciDevice]) -> Vec<Disk> {
    let devices = objects.devices.iter().filter(|device| is_disk(objects, device));
    let mut disks: Vec<Disk> = devices.map(|device| disk(objects, device, pci)).collect();
    disks.sort_by(|a, b| in_order(&a.name, &b.name));
    disks.dedup_by(|a, b| a.name == b.name);
    disks
}

fn disk(objects: &Objects, device: &OsDevice, pci: &[PciDevice]) -> Disk {
    let text = |name: &str| {
        let info = device.infos.iter().find(|(key, _)| key == name);
        info.map(|(_, value)| value.trim().to_string()).filter(|value| !value.is_empty())
    };
    // `1756495872KiB`; hwloc 2 leaves the unit out.
    let size = text("Size").and_then(|size| size.trim_end_matches("KiB").parse::<u64>().ok());
    let (address, node) = place(objects, device, pci);
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
fn place(objects: &Objects, device: &OsDevice, pci: &[PciDevice]) -> (Option<String>, Fact<u32>) {
    let Some(function) = device.function.map(|at| &objects.functions[at]) else {
        return (None, Fact::unknown("lstopo shows it on no PCI function"));
    };
    let known = pci.binary_search_by(|device| sort_key(&device.address).cmp(&sort_key(&function.address)));
    let node = known.map_or_else(|_| node(&function.nodes), |at| pci[at].node.clone());
    (Some(function.address.clone()), node)
}
