//! The parts of the tree about memory and its nodes.

use super::branch::Branch;
use super::joined;
use linerate_facts::units::{show_bytes_rate, show_size};
use linerate_facts::wording::counted;
use linerate_machine::probe::cpu_list;
use linerate_machine::probe::{Confidence, Machine, Memory, MemoryChannel, MemoryModule, NumaNode};
use std::collections::{BTreeMap, BTreeSet};

/// More nodes than these have their distances as a range.
const DISTANCES: usize = 8;

/// Size, bandwidth, DIMMs; nothing where none of it is known.
pub(super) fn memory(memory: &Memory) -> Option<Branch> {
    let mut parts: Vec<String> =
        memory.total_bytes.known().map(|bytes| show_size(*bytes)).into_iter().collect();
    parts.extend(memory.available_bytes.known().map(|bytes| format!("{} available", show_size(*bytes))));
    let rated = memory.rated_bytes_per_second.known();
    parts.extend(rated.map(|rate| format!("rated {}", show_bytes_rate(*rate))));
    let modules = modules(memory);
    if parts.is_empty() && modules.is_empty() {
        return None;
    }
    let mut branch = Branch::new(format!("Memory   {}", joined(parts)));
    if !modules.is_empty() {
        branch.more(format!("         {modules}"));
    }
    Some(branch)
}

/// `16 × 32 GiB DDR4 at 2933 of 3200 MT/s · 16 channels, 1 DIMM in each · 16 of 32 slots empty`.
fn modules(memory: &Memory) -> String {
    let filled = |module: &&MemoryModule| module.size_bytes.known().is_some_and(|bytes| *bytes > 0);
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    let mut channels: BTreeMap<MemoryChannel, usize> = BTreeMap::new();
    for module in memory.modules.iter().filter(filled) {
        *kinds.entry(module_kind(module)).or_default() += 1;
        if let Some(channel) = module.channel.known() {
            *channels.entry(*channel).or_default() += 1;
        }
    }
    let kinds: Vec<String> = kinds.iter().map(|(kind, count)| format!("{count} × {kind}")).collect();
    let count = memory.channels.known().map(|count| {
        let each: BTreeSet<usize> = channels.values().copied().collect();
        let each: Vec<String> = each.iter().map(usize::to_string).collect();
        let each =
            if each.is_empty() { String::new() } else { format!(", {} DIMM in each", each.join(" or ")) };
        let sure = if memory.channels_confidence <= Confidence::Low { " by rule of thumb" } else { "" };
        format!("{}{sure}{each}", counted(*count, "channel"))
    });
    let empty = memory.modules.iter().filter(|module| module.size_bytes.known() == Some(&0)).count();
    let empty = (empty > 0).then(|| format!("{empty} of {} slots empty", memory.modules.len()));
    joined(kinds.into_iter().chain(count).chain(empty))
}

fn module_kind(module: &MemoryModule) -> String {
    let size = module.size_bytes.known().map(|bytes| show_size(*bytes)).unwrap_or_default();
    let clock = match (module.configured_mt_per_second.known(), module.rated_mt_per_second.known()) {
        (Some(set), Some(rated)) if set != rated => format!(" at {set} of {rated} MT/s"),
        (Some(set), _) => format!(" at {set} MT/s"),
        (None, Some(rated)) => format!(" rated {rated} MT/s"),
        (None, None) => String::new(),
    };
    format!("{size} {}{clock}", module.kind)
}

/// A node without what hangs on it.
pub(super) fn node(machine: &Machine, node: &NumaNode) -> Branch {
    let mut parts: Vec<String> = Vec::new();
    match node.cpus.as_slice() {
        [] => parts.push("no CPU".into()),
        cpus => parts.push(format!("cpus {}", cpu_list::show(cpus))),
    }
    let packages = machine.cpu.packages_of(&node.cpus);
    // Which package a node is on is worth a word only where there are several.
    if machine.cpu.packages.known().is_some_and(|count| *count > 1) && !packages.is_empty() {
        let packages: Vec<u32> = packages.into_iter().collect();
        parts.push(format!("package {}", cpu_list::show(&packages)));
    }
    parts.extend(node.total_bytes.known().map(|bytes| match bytes {
        0 => "no memory".to_string(),
        bytes => show_size(*bytes),
    }));
    // Memory without processors is often many nodes, which then are alike.
    parts.extend(distances(node).filter(|_| !node.cpus.is_empty()));
    let name = format!("Node {}", node.id);
    let label = name.chars().count();
    Branch::named(name, format!("{} {}", " ".repeat(8usize.saturating_sub(label)), joined(parts)))
}

/// `distances 10 21`, in the order of nodes; a range where there are many.
fn distances(node: &NumaNode) -> Option<String> {
    let all = node.distances.known().filter(|all| all.len() > 1)?;
    if all.len() > DISTANCES {
        let others = || all.iter().filter(|far| **far != 10);
        return Some(format!("distances {} to {}", others().min()?, others().max()?));
    }
    Some(format!("distances {}", all.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")))
}
