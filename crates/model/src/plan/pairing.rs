//! Which sources feed which NIC: those of its own NUMA node where that costs nothing, else all.
//!
//! With all sources on all NICs half of the bytes of a server with two sockets cross between them. Kept to its own
//! node a byte crosses nothing; but a node whose disks are many and whose NIC is slow would then be a bottleneck
//! that the machine does not have, so both ends must be spread alike.

use super::product::{PathPlan, SourcePlan};
use linerate_facts::fact::Fact;
use std::collections::BTreeSet;

/// Nodes whose part of the sources and part of the NICs' rate differ by more are not spread alike.
const ALIKE: f64 = 0.05;

/// The sources of each path.
#[derive(Debug)]
pub(super) struct Pairing {
    /// By path, indices of its sources.
    pub feeding: Vec<Vec<usize>>,
    /// What a user should know of it.
    pub note: Option<String>,
}

/// Pairs sources and paths.
pub(super) fn pair(sources: &[SourcePlan], paths: &[PathPlan]) -> Pairing {
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
        of_disks > 0.0 && of_rate > 0.0 && (of_disks - of_rate).abs() <= ALIKE
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
        pair(&from, &to).feeding
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
