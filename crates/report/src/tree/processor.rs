//! The parts of the tree about CPUs, memory with its nodes, and power.

use super::branch::Branch;
use super::joined;
use linerate_facts::fact::Fact;
use linerate_facts::units::{show_bytes_rate, show_size};
use linerate_facts::wording::counted;
use linerate_machine::probe::cpu_list;
use linerate_machine::probe::{
    Confidence, Cpu, CpuSpeed, IdleState, Machine, Memory, MemoryChannel, MemoryModule, NumaNode, Power,
};
use std::collections::{BTreeMap, BTreeSet};

/// Under the label of a line.
const UNDER: &str = "         ";

/// Model, counts, and below them clocks, caches, idle states.
pub(super) fn cpu(cpu: &Cpu) -> Branch {
    let mut parts: Vec<String> = cpu.model.known().cloned().into_iter().collect();
    let online = cpu.online().count();
    let packages = cpu.packages.known().map(|n| counted(*n, "package"));
    let cores = cpu.physical_cores.known().map(|n| counted(*n, "core"));
    // Where every core has one thread, the count of threads says nothing new.
    let several = online > 0 && cpu.physical_cores.known() != Some(&(online as u32));
    let threads = several.then(|| counted(online, "thread"));
    parts.push([packages, cores, threads].into_iter().flatten().collect::<Vec<_>>().join(", "));
    parts.extend(cpu.smt.known().map(|on| format!("SMT {}", if *on { "on" } else { "off" })));
    parts.extend(cpu.governor.known().map(|governor| format!("governor {governor}")));
    let offline: Vec<u32> = cpu.logical.iter().filter(|one| !one.online).map(|one| one.id).collect();
    if !offline.is_empty() {
        parts.push(format!("offline {}", cpu_list::show(&offline)));
    }
    let mut branch = Branch::new(format!("CPU      {}", joined(parts)));
    let (clocks, computes) = (clocks(cpu), baseline(cpu));
    let rest = [caches(cpu), idle(&cpu.idle_states), limits(cpu)];
    for line in [clocks].into_iter().chain(computes).chain(rest) {
        if !line.is_empty() {
            branch.more(format!("{UNDER}{line}"));
        }
    }
    branch
}

fn clocks(cpu: &Cpu) -> String {
    let clock =
        cpu.frequency_hertz.known().map(|(low, high)| format!("{} to {}", gigahertz(*low), gigahertz(*high)));
    let driver = cpu.frequency_driver.known().cloned();
    let clock = [clock, driver.map(|driver| format!("by {driver}"))]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(" ");
    // Where the baseline is known, it is in its lines.
    let alone = cpu.baseline.known().is_none();
    let checksum =
        cpu.crc32c_bytes_per_second.known().filter(|rate| alone && rate.is_finite() && **rate > 0.0);
    let checksum =
        checksum.map(|rate| format!("CRC-32C {} a core", show_bytes_rate(*rate))).unwrap_or_default();
    let empty: Vec<&str> = cpu
        .sockets
        .iter()
        .filter(|socket| !socket.populated)
        .map(|socket| socket.designation.as_str())
        .collect();
    let empty =
        if empty.is_empty() { String::new() } else { format!("socket {} is empty", empty.join(", ")) };
    joined([clock, checksum, empty])
}

/// What the cores compute: a line for one thread, for one on each core, for all.
fn baseline(cpu: &Cpu) -> Vec<String> {
    let online = cpu.online().count() as u32;
    let smt = cpu.physical_cores.known().is_some_and(|cores| *cores < online);
    let line = |speed: &CpuSpeed| {
        let on = match speed.threads {
            1 => "1 thread".into(),
            threads if smt && threads == online => format!("all {threads} threads"),
            threads => format!("{threads} cores"),
        };
        let giga = |rate: f64| match rate / 1e9 {
            many if many >= 100.0 => format!("{many:.0} G"),
            few => format!("{few:.2} G"),
        };
        format!(
            "computes {} integer/s, {} floating point/s, CRC-32C {} on {on}",
            giga(speed.integer_per_second),
            giga(speed.floating_per_second),
            show_bytes_rate(speed.crc32c_bytes_per_second)
        )
    };
    cpu.baseline.known().into_iter().flatten().map(line).collect()
}

fn gigahertz(hertz: u64) -> String {
    format!("{:.2} GHz", hertz as f64 / 1e9)
}

/// `caches 32 × L1d 48 KiB, 32 × L2 1.2 MiB, 2 × L3 24 MiB`.
fn caches(cpu: &Cpu) -> String {
    let mut kinds: BTreeMap<(u32, String, u64), usize> = BTreeMap::new();
    for cache in &cpu.caches {
        let Some(size) = cache.size_bytes.known() else { continue };
        let kind = match cache.kind.as_str() {
            "Data" => "d",
            "Instruction" => "i",
            _ => "",
        };
        *kinds.entry((cache.level, format!("L{}{kind}", cache.level), *size)).or_default() += 1;
    }
    let one = |((_, name, size), count): (&(u32, String, u64), &usize)| match count {
        1 => format!("{name} {}", show_size(*size)),
        count => format!("{count} × {name} {}", show_size(*size)),
    };
    let all: Vec<String> = kinds.iter().map(one).collect();
    if all.is_empty() { String::new() } else { format!("caches {}", all.join(", ")) }
}

/// `idle states POLL, C1 (1 µs), C6 (170 µs, off)`: the time is what waking takes.
fn idle(states: &[IdleState]) -> String {
    let one = |state: &IdleState| {
        let wakes = state.exit_latency_us.known().filter(|us| **us > 0).map(|us| format!("{us} µs"));
        let off = (state.disabled.known() == Some(&true)).then(|| "off".to_string());
        let about: Vec<String> = wakes.into_iter().chain(off).collect();
        if about.is_empty() { state.name.clone() } else { format!("{} ({})", state.name, about.join(", ")) }
    };
    let all: Vec<String> = states.iter().map(one).collect();
    if all.is_empty() { String::new() } else { format!("idle states {}", all.join(", ")) }
}

/// What this process may not use; nothing where it may use all.
fn limits(cpu: &Cpu) -> String {
    let online: BTreeSet<u32> = cpu.online().map(|one| one.id).collect();
    let mut limits = Vec::new();
    if let Fact::Known(allowed) = &cpu.allowed
        && !online.iter().all(|id| allowed.contains(id))
    {
        limits.push(format!("this process may run on {} only", cpu_list::show(allowed)));
    }
    if let Fact::Known(cores) = cpu.quota_cores
        && cores > 0.0
    {
        limits.push(format!("its control group grants {cores:.2} cores"));
    }
    joined(limits)
}

/// What tells the power; nothing where nothing does.
pub(super) fn power(power: &Power) -> Option<Branch> {
    let list = |name: &str, all: &Fact<Vec<String>>| {
        all.known().filter(|all| !all.is_empty()).map(|all| format!("{name} {}", all.join(", ")))
    };
    let ipmi = power.ipmi.known().filter(|there| **there).map(|_| "IPMI".to_string());
    let parts: Vec<String> =
        [list("RAPL", &power.rapl), list("hwmon", &power.hwmon), ipmi].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| Branch::new(format!("Power    {}", joined(parts))))
}

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
    // Memory without CPUs is often many nodes, which then are alike.
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
