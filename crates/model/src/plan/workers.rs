//! Which workers there are, which sources feed the NIC of each, and on which core each is pinned.
//!
//! Each path has as many workers as its NIC's rate takes, at least one for each source that feeds it. Their core
//! is on the NIC's NUMA node where that is known, else on the disk's; the least used one, physical cores before
//! the second threads of cores that are already taken.
//! Where the receiver is a process of our own on this machine, workers keep to the first half of the physical
//! cores (in the kernel's order) and leave the rest to it.
//!
//! A NIC is fed by the sources of its own NUMA node where that costs nothing, else by all.
//! With all sources on all NICs half of the bytes of a server with two sockets cross between them. Kept to its own
//! node a byte crosses nothing; but a node whose disks are many and whose NIC is slow would then be a bottleneck
//! that the machine does not have, so both ends must be spread alike.

use super::goal::Goal;
use super::product::{PathPlan, SourcePlan, WorkerPlan};
use super::worker_count::{NicNeeds, WorkerCarries, of_nic};
use super::{DEFAULT_QUEUE_DEPTH, cpu_cost};
use linerate_facts::fact::Fact;
use linerate_machine::probe::Machine;
use std::collections::BTreeSet;

/// The fewest reads in flight of a worker: one being read while one is sent.
pub(super) const FEWEST_READS: u32 = 2;

/// Nodes whose part of the sources and part of the NICs' rate differ by more are not spread alike.
const SPREAD_ALIKE: f64 = 0.05;

/// A CPU that workers may use.
#[derive(Clone, Debug)]
pub(super) struct Core {
    pub(super) id: u32,
    node: Fact<u32>,
    /// 0 for the first thread of its physical core, 1 for the second, …
    thread: usize,
    /// Workers that are pinned to it.
    workers: usize,
}

/// The workers, and why there are so many.
#[derive(Debug, Default)]
pub(super) struct PlacedWorkers {
    pub workers: Vec<WorkerPlan>,
    pub notes: Vec<String>,
}

/// The workers of each NIC, dealt to the sources that feed it, pinned.
pub(super) fn place(
    machine: &Machine,
    goal: &Goal,
    sources: &[SourcePlan],
    paths: &[PathPlan],
    loopback: bool,
) -> PlacedWorkers {
    let mut cores = usable_cores(machine);
    if loopback {
        cores = first_half(cores);
    }
    let pairing = pair_sources(sources, paths);
    let mut notes: Vec<String> = pairing.note.into_iter().collect();
    let mut dealt: Vec<(usize, usize)> = Vec::new();
    for (index, (path, feeding)) in paths.iter().zip(&pairing.feeding).enumerate() {
        let needs = NicNeeds {
            name: &path.name,
            rate: &path.rate,
            carries: carries(goal, path),
            sources: feeding.len() as u32,
            cpus: cpus_of(&cores, paths, path),
        };
        if feeding.is_empty() {
            continue;
        }
        let count = of_nic(&needs, goal.workers);
        notes.extend(count.note);
        dealt.extend((0..count.workers as usize).map(|worker| (feeding[worker % feeding.len()], index)));
    }
    // Sources first, so that the workers of a source stand together.
    dealt.sort_by_key(|(source, _)| *source);
    let shares = shares(paths);
    let of_source = |source: usize| dealt.iter().filter(move |(other, _)| *other == source);
    let mut workers = Vec::with_capacity(dealt.len());
    for &(source_index, path_index) in &dealt {
        let (source, path) = (&sources[source_index], &paths[path_index]);
        let (core, node) = take_core(&mut cores, &path.node, &source.node);
        let own = of_source(source_index).count().max(1) as u32;
        // Rounded up where more than the usual depth is needed: fewer would not carry the rate.
        let divided = match source.queue_depth > DEFAULT_QUEUE_DEPTH {
            true => source.queue_depth.div_ceil(own),
            false => source.queue_depth / own,
        };
        let all: f64 = of_source(source_index).map(|(_, path)| shares[*path]).sum();
        workers.push(WorkerPlan {
            index: workers.len(),
            source: source_index,
            path: path_index,
            core,
            node,
            block_bytes: source.block_bytes,
            queue_depth: goal.queue_depth.unwrap_or(divided.max(FEWEST_READS)).max(1),
            share: if all > 0.0 { shares[path_index] / all } else { 0.0 },
        });
    }
    PlacedWorkers { workers, notes }
}

/// What one worker was measured to carry over a path, or is likely to.
fn carries(goal: &Goal, path: &PathPlan) -> Option<WorkerCarries> {
    let protocol = goal.first_protocol();
    let default = cpu_cost::sending(None, false, protocol, path.mtu.known().copied())?;
    Some(WorkerCarries::measured_or(default, path.worker_cost.as_ref()))
}

/// CPUs that the workers of a path have to themselves: those of its node, shared with the other paths there.
fn cpus_of(cores: &[Core], paths: &[PathPlan], path: &PathPlan) -> u32 {
    let on_node = |node: &Fact<u32>| node.known() == path.node.known();
    let local = cores.iter().filter(|core| path.node.known().is_some() && on_node(&core.node)).count();
    let (cpus, sharing) = match local {
        0 => (cores.len(), paths.len()),
        local => (local, paths.iter().filter(|other| on_node(&other.node)).count()),
    };
    (cpus / sharing.max(1)).max(1) as u32
}

/// One for each source where there is no path: what the disk stage needs. They are pinned to nothing.
pub(super) fn readers(sources: &[SourcePlan]) -> Vec<WorkerPlan> {
    let reader = |(index, source): (usize, &SourcePlan)| WorkerPlan {
        index,
        source: index,
        path: 0,
        core: 0,
        node: source.node.clone(),
        block_bytes: source.block_bytes,
        queue_depth: source.queue_depth,
        share: 1.0,
    };
    sources.iter().enumerate().map(reader).collect()
}

/// CPUs that are allowed and that none of our own is pinned to (`used`), for receivers on this
/// machine; all allowed ones where every one is used. The last comes first, since workers take from the
/// start.
pub fn spare_cores(machine: &Machine, used: &[u32]) -> Vec<u32> {
    let mut all: Vec<u32> = usable_cores(machine).iter().map(|core| core.id).collect();
    all.sort_unstable_by(|a, b| b.cmp(a));
    let spare: Vec<u32> = all.iter().copied().filter(|core| !used.contains(core)).collect();
    if spare.is_empty() { all } else { spare }
}

/// Online and allowed CPUs in the kernel's order. Never empty: CPU 0 where nothing could be read.
pub(super) fn usable_cores(machine: &Machine) -> Vec<Core> {
    let online: Vec<_> = machine.cpu.online().collect();
    let permitted = |id: &u32| machine.cpu.allowed.known().is_none_or(|allowed| allowed.contains(id));
    let mut usable: Vec<_> = online.iter().copied().filter(|cpu| permitted(&cpu.id)).collect();
    if usable.is_empty() {
        usable = online;
    }
    let ids: Vec<u32> = usable.iter().map(|cpu| cpu.id).collect();
    let mut cores: Vec<Core> = usable
        .iter()
        .map(|cpu| {
            let earlier =
                |siblings: &Vec<u32>| siblings.iter().filter(|id| **id < cpu.id && ids.contains(id)).count();
            let thread = cpu.siblings.known().map_or(0, earlier);
            Core { id: cpu.id, node: cpu.node.clone(), thread, workers: 0 }
        })
        .collect();
    if cores.is_empty() {
        let id = machine.cpu.allowed.known().and_then(|allowed| allowed.first().copied()).unwrap_or(0);
        cores.push(Core { id, node: Fact::unknown("no processor could be read"), thread: 0, workers: 0 });
    }
    cores.sort_by_key(|core| core.id);
    cores
}

/// The first half (rounded up) of each thread rank: with one thread a core that is the first half of the
/// cores.
pub(super) fn first_half(cores: Vec<Core>) -> Vec<Core> {
    let of_rank = |thread: usize| cores.iter().filter(|core| core.thread == thread).count();
    let mut taken = Vec::new();
    for core in &cores {
        let before = taken.iter().filter(|kept: &&Core| kept.thread == core.thread).count();
        if before < of_rank(core.thread).div_ceil(2) {
            taken.push(core.clone());
        }
    }
    taken
}

/// The least used core of the NIC's node, else of the disk's node, else of all.
pub(super) fn take_core(cores: &mut [Core], nic_node: &Fact<u32>, disk_node: &Fact<u32>) -> (u32, Fact<u32>) {
    let on = |core: &Core, node: &Fact<u32>| node.known().is_some() && core.node.known() == node.known();
    let node = [nic_node, disk_node].into_iter().find(|node| cores.iter().any(|core| on(core, node)));
    let chosen = cores
        .iter_mut()
        .filter(|core| node.is_none_or(|node| on(core, node)))
        .min_by_key(|core| (core.workers, core.thread, core.id));
    match chosen {
        Some(core) => {
            core.workers += 1;
            (core.id, core.node.clone())
        }
        None => (0, Fact::unknown("no processor could be read")),
    }
}

/// The sources of each path.
#[derive(Debug)]
pub(super) struct Pairing {
    /// By path, indices of its sources.
    pub feeding: Vec<Vec<usize>>,
    /// What a user should know of it.
    pub note: Option<String>,
}

/// Pairs sources and paths.
fn pair_sources(sources: &[SourcePlan], paths: &[PathPlan]) -> Pairing {
    let all: Vec<usize> = (0..sources.len()).collect();
    if !by_node(sources, paths) {
        return Pairing { feeding: vec![all; paths.len()], note: None };
    }
    let own = |path: &PathPlan| {
        all.iter().copied().filter(|source| sources[*source].node.known() == path.node.known()).collect()
    };
    let note = "each NIC has the files of its own NUMA node: no byte crosses between the sockets";
    Pairing { feeding: paths.iter().map(own).collect(), note: Some(note.into()) }
}

/// Several nodes, all known, have both, in the same proportion.
fn by_node(sources: &[SourcePlan], paths: &[PathPlan]) -> bool {
    let known = |node: &Fact<u32>| node.known().copied();
    let (Some(of_sources), Some(of_paths)) = (
        sources.iter().map(|source| known(&source.node)).collect::<Option<Vec<u32>>>(),
        paths.iter().map(|path| known(&path.node)).collect::<Option<Vec<u32>>>(),
    ) else {
        return false;
    };
    let nodes: BTreeSet<u32> = of_sources.iter().chain(&of_paths).copied().collect();
    let shares = shares(paths);
    // Files of one disk are one disk's worth.
    let disks: BTreeSet<(&str, u32)> =
        sources.iter().zip(&of_sources).map(|(source, node)| (source.resource.as_str(), *node)).collect();
    let alike = |node: &u32| {
        let of_disks = disks.iter().filter(|(_, other)| other == node).count() as f64 / disks.len() as f64;
        let of_rate: f64 =
            of_paths.iter().zip(&shares).filter(|(other, _)| *other == node).map(|(_, share)| share).sum();
        of_disks > 0.0 && of_rate > 0.0 && (of_disks - of_rate).abs() <= SPREAD_ALIKE
    };
    nodes.len() > 1 && nodes.iter().all(alike)
}

/// Each path's share of a source's bytes: its rate ÷ all rates; equal where one of them is unknown.
pub(super) fn shares(paths: &[PathPlan]) -> Vec<f64> {
    let rates: Vec<f64> = paths
        .iter()
        .map_while(|path| path.rate.known().copied().filter(|rate| rate.is_finite() && *rate > 0.0))
        .collect();
    let sum: f64 = rates.iter().sum();
    if rates.len() == paths.len() && sum.is_finite() {
        rates.iter().map(|rate| rate / sum).collect()
    } else {
        vec![1.0 / paths.len().max(1) as f64; paths.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{paths, sources};
    use super::*;

    fn of(disk_nodes: &[Option<u32>], nic_nodes: &[Option<u32>]) -> Vec<Vec<usize>> {
        let node = |node: &Option<u32>| Fact::from_option(*node, "not in this test");
        let (mut from, mut to) = (sources(disk_nodes.len()), paths(nic_nodes.len()));
        for (index, (source, at)) in from.iter_mut().zip(disk_nodes).enumerate() {
            (source.node, source.resource) = (node(at), format!("disk:nvme{index}n1"));
        }
        to.iter_mut().zip(nic_nodes).for_each(|(path, at)| path.node = node(at));
        pair_sources(&from, &to).feeding
    }

    #[test]
    fn each_nic_gets_the_sources_of_its_own_node() {
        let (one, two) = (Some(0), Some(1));
        assert_eq!(of(&[one, one, two, two], &[one, two]), [[0, 1], [2, 3]]);
        assert_eq!(of(&[two, one], &[one, two]), [[1], [0]]);
        assert_eq!(of(&[one, two], &[one, one, two, two]), [[0], [0], [1], [1]]);
    }

    #[test]
    fn sources_that_are_spread_otherwise_feed_all_nics() {
        let (one, two) = (Some(0), Some(1));
        assert_eq!(of(&[one, one, one, two], &[one, two]), [[0, 1, 2, 3], [0, 1, 2, 3]]);
        assert_eq!(of(&[one, one], &[one, two]), [[0, 1], [0, 1]]);
        assert_eq!(of(&[one, None], &[one, two]), [[0, 1], [0, 1]]);
        assert_eq!(of(&[one, one], &[one]), [[0, 1]]);
        assert_eq!(of(&[], &[one, two]), [Vec::<usize>::new(), vec![]]);
    }
}
