//! `lstopo` XML (hwloc 1, 2 and 3): packages, cores, processors, NUMA nodes, caches, the PCI tree, NICs and
//! disks.
//!
//! The format is hwloc's own (`hwloc/topology-xml.c`). What differs by version: in 1 the NUMA nodes hold the
//! packages, and the kinds of OS devices are numbers; 2 hangs the nodes beside; 3 makes the kinds bits and
//! adds units to sizes.

mod objects;

use super::topology_xml::{self, TopologyError};
use crate::probe::{
    Cache, Cpu, Disk, DiskKind, Kernel, LogicalCpu, Machine, Memory, Nic, NumaNode, PciDevice, in_order,
};
use linerate_facts::fact::Fact;
use objects::{Function, Objects, OsDevice};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Reads a topology.
pub(crate) fn from_lstopo(text: &str) -> Result<Machine, TopologyError> {
    let document = topology_xml::parse(text)?;
    let root = document.root_element();
    if root.tag_name().name() != "topology" {
        let name = root.tag_name().name();
        let wanted = "not the <topology> that lstopo writes; make the file with “lstopo FILE.xml”";
        return Err(TopologyError::at(text, root, format!("a <{name}>, {wanted}")));
    }
    let found = Objects::read(text, root)?;
    let reported =
        |name: &str| Fact::from_option(found.info(name).map(str::to_string), "lstopo does not report");
    let pci = pci(&found);
    Ok(Machine {
        host: reported("HostName"),
        kernel: Kernel { release: reported("OSRelease"), ..Default::default() },
        cpu: cpu(&found),
        memory: memory(&found),
        nics: nics(&found, &pci),
        disks: disks(&found, &pci),
        pci,
        ..Default::default()
    })
}

const ABSENT: &str = "lstopo does not report";

/// The processors.
fn cpu(objects: &Objects) -> Cpu {
    let mut siblings: HashMap<usize, Vec<u32>> = HashMap::new();
    for pu in &objects.pus {
        if let Some((core, _)) = pu.core {
            siblings.entry(core).or_default().push(pu.id);
        }
    }
    siblings.values_mut().for_each(|siblings| siblings.sort_unstable());
    let nodes = nearest_nodes(objects);
    let mut logical: BTreeMap<u32, LogicalCpu> = BTreeMap::new();
    for pu in &objects.pus {
        let own = pu.core.and_then(|(core, _)| siblings.get(&core)).cloned();
        logical.entry(pu.id).or_insert_with(|| LogicalCpu {
            id: pu.id,
            package: Fact::from_option(pu.package, ABSENT),
            core: Fact::from_option(pu.core.and_then(|(_, number)| number), ABSENT),
            node: Fact::from_option(nodes.get(&pu.id).copied(), ABSENT),
            siblings: Fact::from_option(own, ABSENT),
            online: true,
        });
    }
    let count =
        |number: usize| Fact::from_option(u32::try_from(number).ok().filter(|number| *number > 0), ABSENT);
    let allowed = objects
        .allowed
        .as_ref()
        .map(|allowed| allowed.iter().copied().filter(|id| logical.contains_key(id)).collect::<Vec<u32>>());
    Cpu {
        model: Fact::from_option(objects.info("CPUModel").map(str::to_string), ABSENT),
        packages: count(objects.packages),
        physical_cores: count(objects.cores),
        smt: match objects.cores {
            0 => Fact::unknown(ABSENT),
            _ => Fact::Known(siblings.values().any(|threads| threads.len() > 1)),
        },
        allowed: Fact::from_option(allowed.filter(|allowed| !allowed.is_empty()), ABSENT),
        caches: caches(objects),
        logical: logical.into_values().collect(),
        ..Default::default()
    }
}

fn caches(objects: &Objects) -> Vec<Cache> {
    let mut caches: Vec<Cache> = objects
        .caches
        .iter()
        .map(|cache| Cache {
            level: cache.level,
            kind: cache.kind.to_string(),
            size_bytes: Fact::from_option(cache.bytes, ABSENT),
            line_bytes: Fact::from_option(cache.line_bytes, ABSENT),
            cpus: cache.cpus.clone(),
        })
        .collect();
    caches.sort_by(|a, b| (a.level, &a.kind, a.cpus.first()).cmp(&(b.level, &b.kind, b.cpus.first())));
    caches
}

/// The node that each processor belongs to for the kernel. lstopo gives every node near a processor that
/// processor, high-bandwidth memory and memory without processors included: the kernel's is the one with the
/// fewest processors, and of those with as many the first.
fn nearest_nodes(objects: &Objects) -> HashMap<u32, u32> {
    let mut nodes: Vec<_> = objects.memories.iter().collect();
    nodes.sort_by_key(|node| (node.cpus.len(), node.id));
    let mut nearest = HashMap::new();
    for node in nodes {
        for cpu in &node.cpus {
            nearest.entry(*cpu).or_insert(node.id);
        }
    }
    nearest
}

/// The memory and its nodes.
fn memory(objects: &Objects) -> Memory {
    let shown: HashSet<u32> = objects.pus.iter().map(|pu| pu.id).collect();
    let mut cpus: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (cpu, node) in nearest_nodes(objects).into_iter().filter(|(cpu, _)| shown.contains(cpu)) {
        cpus.entry(node).or_default().push(cpu);
    }
    let mut nodes: BTreeMap<u32, NumaNode> = BTreeMap::new();
    for memory in &objects.memories {
        let mut own = cpus.remove(&memory.id).unwrap_or_default();
        own.sort_unstable();
        nodes.entry(memory.id).or_insert_with(|| NumaNode {
            id: memory.id,
            cpus: own,
            total_bytes: Fact::from_option(memory.bytes, ABSENT),
            distances: distances(objects, memory.id),
        });
    }
    let nodes: Vec<NumaNode> = nodes.into_values().collect();
    let total = nodes.iter().map(|node| node.total_bytes.known().copied());
    let total = total.sum::<Option<u64>>().filter(|total| *total > 0);
    Memory { total_bytes: Fact::from_option(total, ABSENT), nodes, ..Default::default() }
}

/// Distances of one node in the order of the nodes' numbers.
fn distances(objects: &Objects, node: u32) -> Fact<Vec<u32>> {
    let Some((numbers, values)) = &objects.distances else {
        return Fact::unknown(
            "lstopo reports no \
        distances",
        );
    };
    let in_order: Vec<u32> = match numbers.is_empty() {
        true => objects.memories.iter().map(|memory| memory.id).collect(),
        false => numbers.clone(),
    };
    let row = in_order.iter().position(|number| *number == node);
    let row = row.and_then(|row| values.chunks_exact(in_order.len()).nth(row));
    let Some(row) = row.filter(|_| in_order.len() * in_order.len() == values.len()) else {
        return Fact::unknown("lstopo reports no distances of it");
    };
    let mut row: Vec<(u32, u32)> = in_order.iter().copied().zip(row.iter().copied()).collect();
    row.sort_unstable();
    Fact::Known(row.into_iter().map(|(_, distance)| distance).collect())
}

/// The PCI functions, in address order; each once.
fn pci(objects: &Objects) -> Vec<PciDevice> {
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
            Some(rate) => topology_xml::link(rate, fastest(objects, function)),
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
    let switch = |function: &Function| vendor(function).and_then(topology_xml::switch_port);
    let above = function.parent.map(|parent| &objects.functions[parent]);
    match above {
        Some(bridge) if bridge.parent.is_some() => switch(bridge).or_else(|| switch(function)),
        _ => {
            let number = |name: &str| objects.info(name).and_then(|text| text.parse().ok());
            let (family, model) = (number("CPUFamilyNumber")?, number("CPUModelNumber")?);
            topology_xml::processor_port(objects.info("CPUVendor")?, family, model)
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
fn nics(objects: &Objects, pci: &[PciDevice]) -> Vec<Nic> {
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
fn disks(objects: &Objects, pci: &[PciDevice]) -> Vec<Disk> {
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

#[cfg(test)]
mod tests;
