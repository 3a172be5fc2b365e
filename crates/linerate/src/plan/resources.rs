//! Everything on the way as resources: disks → their links → memory → CPU → the NICs' links → NICs → receivers.

use super::links::{Endpoint, Links, links};
use super::product::{Goal, Origin, PathPlan, Protocol, Resource, ResourceKind, SourcePlan};
use crate::fact::Fact;
use crate::probe::{Disk, DiskKind, Machine, Nic};
use crate::rates::ethernet::{Stack, goodput_share};
use crate::rates::pcie::Direction;
use crate::units::bytes_per_second;

/// Drivers without a link: what they show as speed is a constant of the driver (`veth_get_link_ksettings` says 10 Gb/s, `tun` likewise).
pub(super) const DRIVERS_WITHOUT_RATE: [&str; 4] = ["veth", "tun", "tap", "dummy"];

/// All resources, sources first; `next` draws the graph.
pub(super) fn resources(
    machine: &Machine,
    goal: &Goal,
    sources: &[SourcePlan],
    paths: &[PathPlan],
    loopback: bool,
) -> Vec<Resource> {
    let protocol = goal.protocols.first().copied().unwrap_or(Protocol::Tcp);
    let mut disks = disks(machine, sources);
    let mut nics = nics(machine, paths, protocol, loopback);
    let inward = link_disks(machine, &mut disks);
    let (outward, cpu_next) = link_nics(machine, &mut nics, &inward.resources);
    let memory = memory(machine, goal, sources, loopback);
    let mut cpu =
        Resource::unknown("cpu", ResourceKind::Cpu, "known once the CPU cost of a byte is measured");
    cpu.next = cpu_next;
    let mut all = disks;
    all.extend(inward.resources);
    all.extend([memory, cpu]);
    all.extend(outward.resources);
    all.extend(nics);
    all.extend(receivers(paths));
    all
}

/// Payload rate of a path by its NIC's data sheet, for planning the split.
pub fn path_rate(machine: &Machine, path: &PathPlan, protocol: Protocol) -> Fact<f64> {
    let Some(name) = &path.nic else { return Fact::unknown("no interface is known for the route") };
    match nic_rates(machine, name, path, protocol) {
        Ok((_, effective)) => Fact::Known(effective),
        Err(why) => Fact::unknown(why),
    }
}

/// Crossings of the memory bus by one payload byte: the disk's DMA in, the copy into the socket (2), the NIC's DMA out; another copy
/// (2) where a file comes through the page cache; on loopback the receiver's copy (2) in place of the NIC; a checksum reads once more.
pub fn memory_touches(goal: &Goal, sources: &[SourcePlan], loopback: bool) -> f64 {
    let cache = if sources.iter().all(|source| source.direct) { 0.0 } else { 2.0 };
    let out = if loopback { 2.0 } else { 1.0 };
    1.0 + cache + 2.0 + out + if goal.verify { 1.0 } else { 0.0 }
}

fn disks(machine: &Machine, sources: &[SourcePlan]) -> Vec<Resource> {
    let mut disks: Vec<Resource> = Vec::new();
    for source in sources {
        if disks.iter().any(|disk| disk.id == source.resource) {
            continue;
        }
        let (kind, name) = match source.resource.split_once(':') {
            Some(("disk", name)) => (ResourceKind::Disk, name),
            _ => (ResourceKind::Source, source.resource.as_str()),
        };
        let device = machine.disks.iter().find(|disk| disk.name == name);
        disks.push(Resource::unknown(&source.resource, kind, why_unrated(machine, device)));
    }
    disks
}

fn why_unrated(machine: &Machine, device: Option<&Disk>) -> &'static str {
    let virtual_machine = machine.virtualisation.known().is_some_and(|name| name != "none");
    match device.map(|disk| disk.kind) {
        None => "no block device of this machine: it is as fast as it is measured",
        Some(DiskKind::Loop) => "a loop device is as fast as the file behind it",
        Some(DiskKind::Dm | DiskKind::Md) => "a volume is as fast as its members",
        Some(_) if virtual_machine => "a virtual machine's disk has no data sheet",
        Some(_) => "no data sheet of the disk can be read from the system",
    }
}

/// PCI functions behind a block device: its controller, or those of its members.
fn controllers<'a>(machine: &'a Machine, name: &str, depth: usize) -> Vec<&'a str> {
    let Some(disk) = machine.disks.iter().find(|disk| disk.name == name) else { return Vec::new() };
    if let Some(pci) = &disk.pci {
        return vec![pci];
    }
    if depth == 0 {
        return Vec::new();
    }
    let mut found: Vec<&str> =
        disk.members.iter().flat_map(|member| controllers(machine, member, depth - 1)).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// Puts the links of the disks' controllers between them and memory. A volume with one unread member is not bounded by the others.
fn link_disks(machine: &Machine, disks: &mut [Resource]) -> Links {
    let behind: Vec<Vec<&str>> =
        disks.iter().map(|disk| controllers(machine, disk.id.trim_start_matches("disk:"), 8)).collect();
    let mut addresses: Vec<&str> = behind.iter().flatten().copied().collect();
    addresses.sort_unstable();
    addresses.dedup();
    let endpoints: Vec<Endpoint> =
        addresses.iter().map(|address| Endpoint { address, port_bytes_per_second: None }).collect();
    let mut found = links(machine, &endpoints, Direction::ToMemory, &[]);
    for (disk, behind) in disks.iter_mut().zip(&behind) {
        let to = |address: &&str| found.nearest.get(*address).cloned().unwrap_or_else(|| "memory".into());
        disk.next = behind.iter().map(to).collect();
        disk.next.dedup();
        if disk.next.is_empty() {
            disk.next.push("memory".into());
        }
    }
    for link in found.resources.iter_mut().filter(|link| link.next.is_empty()) {
        link.next.push("memory".into());
    }
    found
}

/// Memory by its configured clock ÷ touches.
fn memory(machine: &Machine, goal: &Goal, sources: &[SourcePlan], loopback: bool) -> Resource {
    let touches = memory_touches(goal, sources, loopback);
    let mut memory = Resource::unknown("memory", ResourceKind::Memory, "");
    match &machine.memory.rated_bytes_per_second {
        Fact::Known(rated) => {
            memory.rated = Some(*rated);
            memory.effective = Some(rated / touches);
            memory.capacity = rated / touches;
            memory.origin = Origin::Effective;
            memory.why = Some(format!("each byte crosses the memory bus {touches} times"));
        }
        Fact::Unknown { why } => memory.why = Some(why.clone()),
    }
    memory.next.push("cpu".into());
    memory
}

fn nics(machine: &Machine, paths: &[PathPlan], protocol: Protocol, loopback: bool) -> Vec<Resource> {
    let mut nics: Vec<Resource> = Vec::new();
    for path in paths {
        let position = nics.iter().position(|nic| nic.id == path.resource).unwrap_or_else(|| {
            nics.push(nic(machine, path, protocol, loopback));
            nics.len() - 1
        });
        if !nics[position].next.contains(&path.receiver) {
            nics[position].next.push(path.receiver.clone());
        }
    }
    nics
}

fn nic(machine: &Machine, path: &PathPlan, protocol: Protocol, loopback: bool) -> Resource {
    let mut nic = Resource::unknown(&path.resource, ResourceKind::Nic, "");
    let name = path.nic.as_deref().unwrap_or_else(|| path.resource.trim_start_matches("nic:"));
    let rates =
        if loopback { Err("the host's own stack".into()) } else { nic_rates(machine, name, path, protocol) };
    match rates {
        Ok((rated, effective)) => {
            nic.rated = Some(rated);
            nic.effective = Some(effective);
            nic.capacity = effective;
            nic.origin = Origin::Effective;
            nic.why = None;
        }
        Err(why) => nic.why = Some(why),
    }
    nic
}

/// Link rate and the payload share of it, bytes per second; or why there is none.
fn nic_rates(
    machine: &Machine,
    name: &str,
    path: &PathPlan,
    protocol: Protocol,
) -> Result<(f64, f64), String> {
    let nic = find_nic(machine, name).ok_or_else(|| format!("no interface {name} was read"))?;
    if nic.loopback {
        return Err("the host's own stack".into());
    }
    if let Some(driver) = nic.driver.known().filter(|driver| DRIVERS_WITHOUT_RATE.contains(&driver.as_str()))
    {
        return Err(format!("{driver} has no link: the speed it shows is a constant of the driver"));
    }
    let bits = match &nic.speed_bits_per_second {
        Fact::Known(bits) if *bits > 0 => *bits,
        Fact::Known(_) => return Err("the driver shows a speed of 0".into()),
        Fact::Unknown { why } => return Err(why.clone()),
    };
    let mtu = path.mtu.known().or(nic.mtu.known()).ok_or_else(|| "the MTU could not be read".to_string())?;
    let ipv6 = path.peer.is_ipv6();
    let stack = match protocol {
        Protocol::Tcp => Stack::tcp(ipv6),
        Protocol::Udp => Stack::udp(ipv6),
    };
    let tagged = name.contains('.');
    let share =
        goodput_share(*mtu, stack, tagged).ok_or_else(|| format!("an MTU of {mtu} holds no payload"))?;
    Ok((bytes_per_second(bits), bytes_per_second(bits) * share))
}

fn find_nic<'a>(machine: &'a Machine, name: &str) -> Option<&'a Nic> {
    machine.nics.iter().find(|nic| nic.name == name)
}

/// The links of the NICs, and where bytes go from the CPU.
fn link_nics(machine: &Machine, nics: &mut [Resource], taken: &[Resource]) -> (Links, Vec<String>) {
    let pci = |nic: &Resource| {
        let found = find_nic(machine, nic.id.trim_start_matches("nic:"))?;
        Some((found.pci.as_deref()?, found.speed_bits_per_second.known().copied()))
    };
    let behind: Vec<Option<(&str, Option<u64>)>> = nics.iter().map(pci).collect();
    let mut endpoints: Vec<Endpoint> = Vec::new();
    for (address, speed) in behind.iter().flatten() {
        if endpoints.iter().all(|endpoint| endpoint.address != *address) {
            endpoints.push(Endpoint { address, port_bytes_per_second: speed.map(bytes_per_second) });
        }
    }
    let mut found = links(machine, &endpoints, Direction::FromMemory, taken);
    let mut from_cpu = Vec::new();
    for (nic, behind) in nics.iter().zip(&behind) {
        let address = behind.map(|(address, _)| address);
        if let Some(nearest) = address.and_then(|address| found.nearest.get(address)) {
            let link = found.resources.iter_mut().find(|link| link.id == *nearest);
            link.into_iter().for_each(|link| link.next.push(nic.id.clone()));
        }
        let entry = address.and_then(|address| found.farthest.get(address)).unwrap_or(&nic.id).clone();
        if !from_cpu.contains(&entry) {
            from_cpu.push(entry);
        }
    }
    // From memory to the device: what is nearest to memory comes first.
    found.resources.reverse();
    (found, from_cpu)
}

fn receivers(paths: &[PathPlan]) -> Vec<Resource> {
    let mut receivers: Vec<Resource> = Vec::new();
    for path in paths {
        if receivers.iter().all(|receiver| receiver.id != path.receiver) {
            let why = "what the receiver takes is known once it is measured";
            receivers.push(Resource::unknown(&path.receiver, ResourceKind::Receiver, why));
        }
    }
    receivers
}
