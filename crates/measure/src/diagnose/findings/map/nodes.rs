//! NUMA nodes. Which core does what: NICs and disks on nodes that are apart, one queue for many cores, interrupts that
//! all go to one. And memory below what its parts can do: clocked down, channels without a DIMM, nodes without memory.

use super::{listed, rate};
use crate::diagnose::product::{Finding, Severity};
use linerate_facts::units::{bytes_per_second, show_bytes_rate};
use linerate_facts::wording::counted;
use linerate_machine::probe::{Confidence, Disk, DiskKind, Machine, MemoryChannel, MemoryModule, Nic};
use linerate_machine::topology::{Topology, frame_rate};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// What one core takes from one queue at best, bytes per second: 25 Gb/s.
const PER_QUEUE: f64 = 25e9 / 8.0;
/// Below this one core is enough.
const FAST: f64 = 10e9 / 8.0;

/// Bytes of one transfer on a channel: 64 bits, whatever the ECC.
const CHANNEL_BYTES: f64 = 8.0;
/// Crossings of memory by a byte from disk to network with one copy into the socket: DMA in, copy (2), DMA
/// out.
const TOUCHES: f64 = 4.0;
/// Share of the rated bandwidth that a copy reaches.
const REACHED: f64 = 0.8;

/// `node-apart`: disks on packages without a NIC. Nodes of one package count as near: what crosses between
/// them does not cross a socket link.
pub(super) fn apart(machine: &Machine) -> Vec<Finding> {
    let up = |nic: &&Nic| {
        !nic.loopback && nic.pci.is_some() && nic.state.known().is_some_and(|state| state == "up")
    };
    let whole = |disk: &&Disk| !matches!(disk.kind, DiskKind::Partition) && disk.pci.is_some();
    let nics: Vec<(&str, u32)> = machine
        .nics
        .iter()
        .filter(up)
        .filter_map(|nic| Some((nic.name.as_str(), *nic.node.known()?)))
        .collect();
    let disks: Vec<(&str, u32)> = machine
        .disks
        .iter()
        .filter(whole)
        .filter_map(|disk| Some((disk.name.as_str(), *disk.node.known()?)))
        .collect();
    let near = |a: u32, b: u32| a == b || !packages(machine, a).is_disjoint(&packages(machine, b));
    let far: Vec<&(&str, u32)> =
        disks.iter().filter(|(_, disk)| !nics.iter().any(|(_, nic)| near(*disk, *nic))).collect();
    let Some((_, node)) = far.first() else { return Vec::new() };
    if nics.is_empty() {
        return Vec::new();
    }
    let disk_names: Vec<&str> = far.iter().map(|(name, _)| *name).collect();
    let nic_names: Vec<&str> = nics.iter().map(|(name, _)| *name).collect();
    let nic_nodes: BTreeSet<u32> = nics.iter().map(|(_, node)| *node).collect();
    let all = far.len() == disks.len();
    vec![Finding::new(if all { Severity::Slow } else { Severity::Note }, "node-apart", format!(
            "{} {} on node {node}, the NICs ({}) on node {}: each byte between them crosses the socket link",
            listed(&disk_names),
            if disk_names.len() == 1 { "is" } else { "are" },
            listed(&nic_names),
            nic_nodes.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
        )).evidence(json!({ "devices": disk_names, "nics": nic_names, "disk_node": node, "nic_nodes": nic_nodes })).remedy(format!(
            "move a NIC to a slot of node {node}, or the disks' controller to one of the NICs' node"
        ))]
}

fn packages(machine: &Machine, node: u32) -> BTreeSet<u32> {
    let on = machine.cpu.logical.iter().filter(|cpu| cpu.node.known() == Some(&node));
    on.filter_map(|cpu| cpu.package.known().copied()).collect()
}

/// `nic-queues`: a fast NIC with so few queues that one core each has to take more than it can.
pub(super) fn queues(tree: &Topology) -> Vec<Finding> {
    let machine = tree.machine;
    let cores = machine.cpu.online().count();
    machine.nics.iter().filter(|nic| nic.pci.is_some()).filter_map(|nic| few_queues(nic, cores)).collect()
}

fn few_queues(nic: &Nic, cores: usize) -> Option<Finding> {
    let speed = bytes_per_second(*nic.speed_bits_per_second.known()?);
    let channels = nic.details.channels.known().filter(|(now, _)| *now > 0);
    let queues =
        channels.map(|(now, _)| *now).or(nic.rx_queues.known().copied()).filter(|queues| *queues > 0)?;
    let each = speed / f64::from(queues);
    let single = queues == 1 && speed >= FAST;
    if cores <= queues as usize || !(single || each > PER_QUEUE) {
        return None;
    }
    let most = channels.map(|(_, most)| *most).filter(|most| *most > queues);
    let wanted = most.map(|most| most.min(u32::try_from(cores).unwrap_or(u32::MAX)));
    Some(
        Finding::new(
            if each > PER_QUEUE { Severity::Slow } else { Severity::Note },
            "nic-queues",
            format!(
                "{} has {} for {} and {cores} cores: one core takes what arrives on a queue",
                nic.name,
                if queues == 1 { "one queue".into() } else { format!("{queues} queues") },
                rate(speed)
            ),
        )
        .evidence(json!({ "devices": [nic.name], "queues": queues, "most": most, "cores": cores }))
        .remedy(match wanted {
            Some(wanted) => format!(
                "`linerate tune apply --finding nic-queues` (or `ethtool -L {} combined \
                                     {wanted}`), with the interrupts spread over the cores",
                nic.name
            ),
            None => "the driver offers no more: in a virtual machine give the interface more queues, else \
                     look for a driver or firmware that does"
                .into(),
        }),
    )
}

/// `interrupts-one-core`: a device with several interrupts has all of them on one core.
pub(super) fn interrupts(machine: &Machine) -> Vec<Finding> {
    let cores = machine.cpu.online().count();
    let mut by_owner: BTreeMap<&str, (usize, BTreeSet<u32>, bool)> = BTreeMap::new();
    for irq in &machine.interrupts {
        let Some(owner) = irq.pci.as_deref() else { continue };
        let (count, cpus, whole) = by_owner.entry(owner).or_insert((0, BTreeSet::new(), true));
        *count += 1;
        *whole &= irq.effective.known().is_some();
        cpus.extend(irq.effective.known().into_iter().flatten());
    }
    let crowded = by_owner
        .into_iter()
        .filter(|(_, (count, cpus, whole))| *whole && *count > 2 && cpus.len() == 1 && cores > 2);
    let finding = |(owner, (count, cpus, _)): (&str, (usize, BTreeSet<u32>, bool))| {
        let nics =
            machine.nics.iter().filter(|nic| nic.pci.as_deref() == Some(owner)).map(|nic| nic.name.as_str());
        let disks = machine
            .disks
            .iter()
            .filter(|disk| disk.pci.as_deref() == Some(owner))
            .map(|disk| disk.name.as_str());
        let names: Vec<&str> = nics.chain(disks).collect();
        let core = cpus.first().copied().unwrap_or(0);
        (!names.is_empty()).then(|| {
            Finding::slow(
                "interrupts-one-core",
                format!("all {count} interrupts of {} go to core {core}", listed(&names)),
            )
            .evidence(json!({ "devices": names, "interrupts": count, "core": core }))
            .remedy(
                "`linerate tune apply --finding interrupts-one-core` spreads them over the cores of the \
                 card's node, or gives each queue of a disk those that use it; or start irqbalance",
            )
        })
    };
    crowded.filter_map(finding).collect()
}

/// `interrupts-other-node`: no interrupt of a NIC is taken on the node that the card is on.
pub(super) fn interrupts_apart(machine: &Machine) -> Vec<Finding> {
    machine.nics.iter().filter_map(|nic| taken_elsewhere(machine, nic)).collect()
}

fn taken_elsewhere(machine: &Machine, nic: &Nic) -> Option<Finding> {
    let (owner, node) = (nic.pci.as_deref()?, *nic.node.known()?);
    let own: Vec<_> = machine.interrupts.iter().filter(|irq| irq.pci.as_deref() == Some(owner)).collect();
    let mut cpus: BTreeSet<u32> = BTreeSet::new();
    for irq in &own {
        cpus.extend(irq.effective.known()?);
    }
    let node_of = |cpu: &u32| machine.cpu.logical.iter().find(|one| one.id == *cpu)?.node.known().copied();
    let nodes: BTreeSet<u32> = cpus.iter().map(node_of).collect::<Option<_>>()?;
    // Nodes of one package are near.
    let near =
        |other: &u32| *other == node || !packages(machine, *other).is_disjoint(&packages(machine, node));
    if nodes.is_empty() || nodes.iter().any(near) {
        return None;
    }
    let list: Vec<String> = nodes.iter().map(u32::to_string).collect();
    let whole = if own.len() == 1 { "the interrupt".into() } else { format!("all {} interrupts", own.len()) };
    Some(
        Finding::slow(
            "interrupts-other-node",
            format!(
                "{whole} of {} go{} to node {}, the card is on node {node}: what it receives crosses the socket link",
                nic.name,
                if own.len() == 1 { "es" } else { "" },
                list.join(", "),
            ),
        )
        .evidence(json!({ "devices": [nic.name], "interrupts": own.len(), "cpus": cpus, "node": node }))
        .remedy("`linerate tune apply --finding interrupts-other-node` gives them to CPUs of the card's node"),
    )
}

/// Memory by its clock is less than the NICs need: only then does a finding here hold the flow.
fn memory_severity(machine: &Machine) -> Severity {
    let need: f64 = machine.nics.iter().filter_map(frame_rate).sum::<f64>() * TOUCHES;
    let short = machine.memory.rated_bytes_per_second.known().is_some_and(|rated| rated * REACHED < need);
    if short { Severity::Slow } else { Severity::Note }
}

fn filled_modules(machine: &Machine) -> impl Iterator<Item = &MemoryModule> {
    machine.memory.modules.iter().filter(|module| module.size_bytes.known().is_some_and(|bytes| *bytes > 0))
}

/// Most DIMMs in one channel.
fn per_channel(machine: &Machine) -> Option<usize> {
    let mut count: BTreeMap<MemoryChannel, usize> = BTreeMap::new();
    for module in filled_modules(machine) {
        *count.entry(*module.channel.known()?).or_default() += 1;
    }
    count.into_values().max()
}

/// `memory-clock`: DIMMs run slower than they are rated.
pub(super) fn memory_clock(machine: &Machine) -> Vec<Finding> {
    let clocks = |module: &MemoryModule| {
        let (rated, set) = (*module.rated_mt_per_second.known()?, *module.configured_mt_per_second.known()?);
        (set > 0 && set < rated).then_some((rated, set))
    };
    let slow: Vec<(u32, u32)> = filled_modules(machine).filter_map(clocks).collect();
    let Some((rated, set)) = slow.iter().copied().max_by_key(|(rated, set)| rated - set) else {
        return Vec::new();
    };
    let why = match per_channel(machine) {
        Some(count) if count > 1 => {
            format!("up to {count} DIMMs share a channel, which most boards clock lower")
        }
        Some(_) => {
            "with one DIMM in a channel the reason is the processor, the slowest DIMM or a BIOS setting"
                .into()
        }
        None => "the reason is several DIMMs on a channel, the processor, or a BIOS setting".into(),
    };
    let lost = machine
        .memory
        .channels
        .known()
        .map(|channels| f64::from(*channels) * CHANNEL_BYTES * f64::from(rated - set) * 1e6);
    let figure = lost.map(|lost| format!(" ({} less of memory)", show_bytes_rate(lost))).unwrap_or_default();
    vec![Finding::new(memory_severity(machine), "memory-clock", format!(
            "{} of {} DIMMs are rated {rated} MT/s and run at {set}{figure}: \
                       {why}",
            slow.len(),
            filled_modules(machine).count()
        )).evidence(json!({
            "dimms": slow.len(), "rated_mt_per_second": rated, "configured_mt_per_second": set, "dimms_per_channel": per_channel(machine),
            "memory_bytes_per_second_lost": lost,
        })).remedy("look for the memory speed in the BIOS and for the board's table of DIMMs per channel; \
                 fewer, larger DIMMs run faster")]
}

/// `memory-channels`: a socket that has DIMMs has channels with slots and none in them.
pub(super) fn empty_channels(machine: &Machine) -> Vec<Finding> {
    // Channels by a rule of thumb may be no channels.
    if machine.memory.channels_confidence < Confidence::Medium {
        return Vec::new();
    }
    let mut channels: BTreeMap<u32, (BTreeSet<u32>, BTreeSet<u32>)> = BTreeMap::new();
    for module in &machine.memory.modules {
        let (Some(at), Some(size)) = (module.channel.known(), module.size_bytes.known()) else {
            return Vec::new();
        };
        let (all, used) = channels.entry(at.socket).or_default();
        all.insert(at.channel);
        if *size > 0 {
            used.insert(at.channel);
        }
    }
    let lacking = channels.iter().filter(|(_, (all, used))| !used.is_empty() && used.len() < all.len());
    let lacking: Vec<(u32, usize, usize)> =
        lacking.map(|(socket, (all, used))| (*socket, used.len(), all.len())).collect();
    let Some((socket, used, all)) = lacking.first().copied() else { return Vec::new() };
    let more = if lacking.len() > 1 {
        format!(" (and {} likewise)", counted(lacking.len() - 1, "more socket"))
    } else {
        String::new()
    };
    vec![Finding::new(memory_severity(machine), "memory-channels", format!(
            "socket {socket} has DIMMs in {used} of {all} memory channels{more}: it has {:.0} % of its \
             memory bandwidth",
            100.0 * used as f64 / all as f64
        )).evidence(json!({ "sockets": lacking.iter().map(|(socket, used, all)| json!({ "socket": socket, "used": used, "channels": all })).collect::<Vec<_>>() })).remedy("put one DIMM of the same kind into each channel")]
}

/// `memory-one-node`: a node has CPUs and no memory while others have it.
pub(super) fn one_node(machine: &Machine) -> Vec<Finding> {
    let nodes = &machine.memory.nodes;
    let without: Vec<u32> = nodes
        .iter()
        .filter(|node| !node.cpus.is_empty() && node.total_bytes.known() == Some(&0))
        .map(|node| node.id)
        .collect();
    let with: Vec<u32> = nodes
        .iter()
        .filter(|node| node.total_bytes.known().is_some_and(|bytes| *bytes > 0))
        .map(|node| node.id)
        .collect();
    if without.is_empty() || with.is_empty() {
        return Vec::new();
    }
    let list = |nodes: &[u32]| nodes.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    vec![Finding::slow("memory-one-node", format!(
            "node {} has processors and no memory; all of it is on node {}: what runs and what is plugged in \
             there crosses the socket link for each byte",
            list(&without),
            list(&with)
        )).evidence(json!({ "without_memory": without, "with_memory": with })).remedy("spread the DIMMs evenly over the sockets")]
}
