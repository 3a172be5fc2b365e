//! Processors, caches, NUMA nodes of a topology.

use super::objects::Objects;
use crate::probe::{Cache, Cpu, LogicalCpu, Memory, NumaNode};
use linerate_facts::fact::Fact;
use std::collections::{BTreeMap, HashMap, HashSet};

const ABSENT: &str = "lstopo does not report";

/// The processors.
pub(crate) fn cpu(objects: &Objects) -> Cpu {
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
pub(crate) fn memory(objects: &Objects) -> Memory {
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
