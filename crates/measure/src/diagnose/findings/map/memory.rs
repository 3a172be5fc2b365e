//! Memory below what its parts can do: clocked down, channels without a DIMM, nodes without memory.

use super::super::super::product::{Finding, Severity};
use linerate_facts::units::show_bytes_rate;
use linerate_facts::wording::counted;
use linerate_machine::probe::{Confidence, Machine, MemoryChannel, MemoryModule};
use linerate_machine::topology::frame_rate;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of one transfer on a channel: 64 bits, whatever the ECC.
const CHANNEL_BYTES: f64 = 8.0;
/// Crossings of memory by a byte from disk to network with one copy into the socket: DMA in, copy (2), DMA
/// out.
const TOUCHES: f64 = 4.0;
/// Share of the rated bandwidth that a copy reaches.
const REACHED: f64 = 0.8;

/// Memory by its clock is less than the NICs need: only then does a finding here hold the flow.
fn severity(machine: &Machine) -> Severity {
    let need: f64 = machine.nics.iter().filter_map(frame_rate).sum::<f64>() * TOUCHES;
    let short = machine.memory.rated_bytes_per_second.known().is_some_and(|rated| rated * REACHED < need);
    if short { Severity::Slow } else { Severity::Note }
}

fn filled(machine: &Machine) -> impl Iterator<Item = &MemoryModule> {
    machine.memory.modules.iter().filter(|module| module.size_bytes.known().is_some_and(|bytes| *bytes > 0))
}

/// Most DIMMs in one channel.
fn per_channel(machine: &Machine) -> Option<usize> {
    let mut count: BTreeMap<MemoryChannel, usize> = BTreeMap::new();
    for module in filled(machine) {
        *count.entry(*module.channel.known()?).or_default() += 1;
    }
    count.into_values().max()
}

/// `memory-clock`: DIMMs run slower than they are rated.
pub(super) fn clock(machine: &Machine) -> Vec<Finding> {
    let clocks = |module: &MemoryModule| {
        let (rated, set) = (*module.rated_mt_per_second.known()?, *module.configured_mt_per_second.known()?);
        (set > 0 && set < rated).then_some((rated, set))
    };
    let slow: Vec<(u32, u32)> = filled(machine).filter_map(clocks).collect();
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
    vec![Finding::new(severity(machine), "memory-clock", format!(
            "{} of {} DIMMs are rated {rated} MT/s and run at {set}{figure}: \
                       {why}",
            slow.len(),
            filled(machine).count()
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
    vec![Finding::new(severity(machine), "memory-channels", format!(
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
