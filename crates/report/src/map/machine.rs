//! The parts of the picture that are not the tree: nodes with processors and memory, volumes, what is said of the
//! whole.

use super::parts::{Chip, NodeBox, Strip};
use linerate_facts::units::{show_bytes_rate, show_size};
use linerate_facts::wording::counted;
use linerate_machine::probe::{Confidence, Disk, DiskKind, Machine, NumaNode, cpu_list};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of one transfer on a memory channel.
const CHANNEL_BYTES: f64 = 8.0;

/// Virtualisation and kernel.
pub(super) fn about(machine: &Machine) -> String {
    let virtualisation = machine.virtualisation.known().map(|name| match name.as_str() {
        "none" => "bare metal".to_string(),
        name => format!("virtual machine ({name})"),
    });
    let model = machine.cpu.model.known().map(|model| match machine.cpu.packages.known() {
        Some(count) if *count > 1 => format!("{count} × {model}"),
        _ => model.clone(),
    });
    let kernel = machine.kernel.release.known().map(|release| format!("Linux {release}"));
    [virtualisation, machine.instance.known().cloned(), model, kernel]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(" · ")
}

/// Nodes with processors, or with what hangs on them; one box for a machine that tells of no nodes.
pub(super) fn nodes(machine: &Machine) -> Vec<(Option<u32>, NodeBox)> {
    let nodes = &machine.memory.nodes;
    if nodes.is_empty() {
        let title = "The machine: it reports no nodes".into();
        let all =
            NodeBox { title, cpu: all_cpus(machine), memory: all_memory(machine), ..Default::default() };
        return vec![(None, NodeBox { memory_rate: rated(machine), ..all })];
    }
    let used = |node: &&NumaNode| {
        !node.cpus.is_empty() || machine.pci.iter().any(|device| device.node.known() == Some(&node.id))
    };
    nodes.iter().filter(used).map(|node| (Some(node.id), node_box(machine, node))).collect()
}

/// The box for a root on a node: its own, the only one there is, or the one for what is on no known node.
pub(super) fn place(
    machine: &Machine,
    nodes: &mut [(Option<u32>, NodeBox)],
    node: Option<u32>,
) -> Option<usize> {
    let own = nodes.iter().position(|(id, _)| node.is_some() && *id == node);
    own.or(if machine.memory.nodes.len() < 2 && !nodes.is_empty() { Some(0) } else { None })
        .or_else(|| nodes.iter().position(|(id, _)| id.is_none()))
}

fn node_box(machine: &Machine, node: &NumaNode) -> NodeBox {
    let packages = machine.cpu.packages_of(&node.cpus);
    let list: Vec<u32> = packages.iter().copied().collect();
    let package = (!list.is_empty()).then(|| match list.as_slice() {
        [one] => format!("CPU package {one}"),
        all => format!("CPU packages {}", cpu_list::show(all)),
    });
    let cores: BTreeSet<(Option<u32>, u32)> = machine
        .cpu
        .logical
        .iter()
        .filter(|cpu| cpu.online && node.cpus.contains(&cpu.id))
        .filter_map(|cpu| Some((cpu.package.known().copied(), *cpu.core.known()?)))
        .collect();
    let mut cpu = vec![
        package.unwrap_or_else(|| if node.cpus.is_empty() { "no processor".into() } else { "CPU".into() }),
    ];
    if !node.cpus.is_empty() {
        let cores = if cores.is_empty() { String::new() } else { counted(cores.len(), "core") + " · " };
        cpu.push(format!("{cores}cpus {}", cpu_list::show(&node.cpus)));
    }
    cpu.extend(last_cache(machine, &node.cpus));
    let (lines, rate) = memory(machine, node, &packages);
    NodeBox {
        id: Some(node.id),
        title: format!("Node {}", node.id),
        cpu,
        memory: lines,
        memory_rate: rate,
        ..NodeBox::default()
    }
}

fn all_cpus(machine: &Machine) -> Vec<String> {
    let online: Vec<u32> = machine.cpu.online().map(|cpu| cpu.id).collect();
    let mut lines = vec!["CPU".to_string()];
    if !online.is_empty() {
        lines.push(format!("cpus {}", cpu_list::show(&online)));
    }
    lines
}

fn all_memory(machine: &Machine) -> Vec<String> {
    let size = machine.memory.total_bytes.known().map(|bytes| show_size(*bytes));
    std::iter::once("Memory".to_string()).chain(size).collect()
}

/// The largest cache of these processors: `L3 24 MiB`, several counted.
fn last_cache(machine: &Machine, cpus: &[u32]) -> Option<String> {
    let here = || machine.cpu.caches.iter().filter(|cache| cache.cpus.iter().any(|cpu| cpus.contains(cpu)));
    let level = here().map(|cache| cache.level).max()?;
    let sizes: Vec<u64> = here()
        .filter(|cache| cache.level == level)
        .filter_map(|cache| cache.size_bytes.known().copied())
        .collect();
    let size = show_size(*sizes.first()?);
    Some(if sizes.len() > 1 {
        format!("{} × L{level} {size}", sizes.len())
    } else {
        format!("L{level} {size}")
    })
}

fn rated(machine: &Machine) -> f64 {
    machine.memory.rated_bytes_per_second.known().copied().filter(|rate| rate.is_finite()).unwrap_or(0.0)
}

/// The memory of a node in lines, and its rate: that of its DIMMs where the node is a socket, of all where it
/// is the only node.
fn memory(machine: &Machine, node: &NumaNode, packages: &BTreeSet<u32>) -> (Vec<String>, f64) {
    let mut lines = vec![match node.total_bytes.known() {
        Some(0) => "no memory".to_string(),
        Some(bytes) => format!("Memory {}", show_size(*bytes)),
        None => "Memory".to_string(),
    }];
    let single = machine.memory.nodes.len() == 1;
    let whole_sockets = machine.memory.channels_confidence >= Confidence::Medium
        && machine.cpu.packages.known().is_some_and(|count| *count as usize == machine.memory.nodes.len());
    let here = machine.memory.modules.iter().filter(|module| {
        let socket = module.channel.known().map(|at| at.socket);
        let filled = module.size_bytes.known().is_some_and(|bytes| *bytes > 0);
        filled && (single || whole_sockets && socket.is_some_and(|socket| packages.contains(&socket)))
    });
    let mut channels: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for module in here {
        let clock = module.configured_mt_per_second.known().copied();
        let clock_text = clock.map(|clock| format!("-{clock}")).unwrap_or_default();
        let size =
            module.size_bytes.known().map(|bytes| format!("{} ", show_size(*bytes))).unwrap_or_default();
        *kinds.entry(format!("{size}{}{clock_text}", module.kind)).or_default() += 1;
        if let (Some(at), Some(clock)) = (module.channel.known(), clock) {
            let slowest = channels.entry((at.socket, at.channel)).or_insert(clock);
            *slowest = (*slowest).min(clock);
        }
    }
    lines.extend(kinds.iter().take(2).map(|(kind, count)| format!("{count} × {kind}")));
    let by_channel: f64 = channels.values().map(|clock| f64::from(*clock) * 1e6 * CHANNEL_BYTES).sum();
    let rate = if single && rated(machine) > 0.0 { rated(machine) } else { by_channel };
    if !channels.is_empty() {
        lines.push(counted(channels.len(), "channel"));
    }
    (lines, rate)
}

/// Nodes of memory alone (GPU or CXL memory), alike ones together.
pub(super) fn memory_only(machine: &Machine) -> Option<Strip> {
    let alone = |node: &&NumaNode| {
        node.cpus.is_empty() && !machine.pci.iter().any(|device| device.node.known() == Some(&node.id))
    };
    let mut kinds: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for node in machine.memory.nodes.iter().filter(alone) {
        let size = node.total_bytes.known().map_or("size unknown".into(), |bytes| show_size(*bytes));
        kinds.entry(size).or_default().push(node.id);
    }
    let chips: Vec<Chip> = kinds
        .into_iter()
        .map(|(size, ids)| {
            let which = if ids.len() == 1 { "Node" } else { "Nodes" };
            let sub = if ids.len() == 1 { size } else { format!("{size} each") };
            let title = format!("{which} {}", cpu_list::show(&ids));
            Chip { tip: format!("{title}: {sub}"), title, sub, ..Chip::default() }
        })
        .collect();
    (!chips.is_empty()).then(|| Strip { title: "Memory without processors".into(), chips })
}

/// What joins the nodes: `socket links · distance 21`. Their rate stands in no file of the system.
pub(super) fn between(machine: &Machine, boxes: usize) -> Option<String> {
    if boxes < 2 {
        return None;
    }
    let packages = machine.cpu.packages.known().copied().unwrap_or(0);
    let what = if packages > 1 { "socket links" } else { "links between the nodes of the processor" };
    let far = |node: &NumaNode| {
        node.distances.known().map(|all| all.iter().copied().filter(|far| *far > 10).collect::<Vec<_>>())
    };
    let all: Vec<u32> = machine.memory.nodes.iter().filter_map(far).flatten().collect();
    let distance = match (all.iter().min(), all.iter().max()) {
        (Some(near), Some(far)) if near == far => format!(" · distance {near}"),
        (Some(near), Some(far)) => format!(" · distances {near} to {far}"),
        _ => String::new(),
    };
    Some(format!("{what}{distance} · rate not reported by the system"))
}

/// A disk's file systems, its partitions' among them: `xfs on /data`.
pub(super) fn mounted(machine: &Machine, disk: &Disk) -> Option<String> {
    let own = |name: &String| {
        *name == disk.name
            || machine.disks.iter().any(|part| {
                part.name == *name && part.kind == DiskKind::Partition && part.members.contains(&disk.name)
            })
    };
    let mut here = machine.file_systems.iter().filter(|fs| fs.devices.iter().any(own));
    let first = here.next()?;
    let part = if first.devices.len() > 1 { "part of " } else { "" };
    let more = match here.count() {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    Some(format!("{part}{} on {}{more}", first.kind, first.mount_point.display()))
}

/// A block device that is not part of the tree.
pub(super) fn volume(machine: &Machine, disk: &Disk) -> Chip {
    let size = disk.size_bytes.known().map(|bytes| show_size(*bytes));
    let array = disk.array.as_ref().map(|array| {
        let disks = array.disks.known().map(|count| format!(" of {count}")).unwrap_or_default();
        format!("{}{disks}", array.level)
    });
    let chunk = disk.array.as_ref().and_then(|array| array.chunk_bytes.known());
    let chunk = chunk.map(|bytes| format!("chunk {}", show_size(*bytes)));
    let under = match disk.members.as_slice() {
        [] => disk.backing_file.as_ref().map(|file| format!("file {}", file.display())),
        [first, .., last] if disk.members.len() > 3 => Some(format!("on {first} – {last}")),
        members => Some(format!("on {}", members.join(", "))),
    };
    let parts = |parts: Vec<Option<String>>| parts.into_iter().flatten().collect::<Vec<_>>().join(" · ");
    let mounted = mounted(machine, disk);
    Chip {
        title: parts(vec![Some(disk.name.clone()), size.clone(), array.clone()]),
        sub: parts(vec![mounted.clone(), chunk.clone(), under]),
        tip: parts(vec![Some(disk.name.clone()), size, array, chunk, Some(disk.members.join(", ")), mounted]),
        id: Some(format!("disk:{}", disk.name)),
        used: None,
    }
}

/// Bandwidth of memory in words.
pub(super) fn bandwidth(rate: f64) -> String {
    if rate > 0.0 { show_bytes_rate(rate) } else { "rate unknown".into() }
}
