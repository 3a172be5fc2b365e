//! Memory and the NUMA nodes that are online: `/proc/meminfo` and `/sys/devices/system/node`.
//!
//! How far the nodes are from each other is in `/sys/devices/system/node/node*/distance`, the firmware's table
//! (ACPI SLIT).

use crate::probe::cpu_list;
use crate::probe::machine::{Memory, NumaNode};
use linerate_facts::counters::of_meminfo;
use linerate_facts::fact::Fact;
use linerate_facts::sysroot::Sysroot;
use std::path::Path;

const NODES: &str = "/sys/devices/system/node";

/// Reads the memory.
pub(crate) fn read(sysroot: &Sysroot) -> Memory {
    let meminfo = sysroot.fact("/proc/meminfo");
    let total_bytes = size(&meminfo, "MemTotal");
    let mut nodes = nodes(sysroot);
    // The only node has all of it: some hypervisors and containers report another figure there.
    if let ([only], Fact::Known(_)) = (nodes.as_mut_slice(), &total_bytes) {
        only.total_bytes = total_bytes.clone();
    }
    Memory {
        total_bytes,
        available_bytes: size(&meminfo, "MemAvailable"),
        nodes,
        // What the firmware reports of slots and channels, `smbios` adds.
        ..Default::default()
    }
}

fn size(meminfo: &Fact<String>, key: &str) -> Fact<u64> {
    match meminfo {
        Fact::Known(text) => Fact::from_option(of_meminfo(text, key), format!("/proc/meminfo has no {key}")),
        Fact::Unknown { why } => Fact::unknown(why.clone()),
    }
}

/// Nodes that are online, ascending. Ids may be sparse; a kernel without NUMA shows none.
fn nodes(sysroot: &Sysroot) -> Vec<NumaNode> {
    let online = sysroot.text(format!("{NODES}/online")).ok().and_then(|text| cpu_list::parse_list(&text));
    let mut ids: Vec<u32> = sysroot
        .list(NODES)
        .iter()
        .filter_map(|name| name.strip_prefix("node")?.parse().ok())
        .filter(|id| online.as_ref().is_none_or(|online| online.contains(id)))
        .collect();
    ids.sort_unstable();
    let count = ids.len();
    ids.into_iter().map(|id| node(sysroot, id, count)).collect()
}

fn node(sysroot: &Sysroot, id: u32, count: usize) -> NumaNode {
    let directory = Path::new(NODES).join(format!("node{id}"));
    let cpus = cpu_list::read(sysroot, directory.join("cpulist"), directory.join("cpumap"));
    let meminfo = sysroot.fact(directory.join("meminfo"));
    NumaNode {
        id,
        cpus: cpus.known().cloned().unwrap_or_default(),
        total_bytes: match &meminfo {
            Fact::Known(text) => Fact::from_option(
                of_meminfo(text, "MemTotal"),
                format!("meminfo of node {id} has no MemTotal"),
            ),
            Fact::Unknown { why } => Fact::unknown(why.clone()),
        },
        distances: distances(sysroot, &directory, count),
    }
}

/// Largest distance that the table can hold; it stands for "out of reach".
const FARTHEST: u32 = 255;

/// Distances from one node to each node that is online, in the order of their ids.
///
/// The kernel prints one figure for each *online* node (`node_read_distance` in `drivers/base/node.c`); ids
/// may have gaps, and the nodes that are listed then are those that are online.
fn distances(sysroot: &Sysroot, directory: &Path, nodes: usize) -> Fact<Vec<u32>> {
    sysroot.fact(directory.join("distance")).and_then(|text| parse(&text, nodes))
}

fn parse(text: &str, nodes: usize) -> Fact<Vec<u32>> {
    let figures: Option<Vec<u32>> =
        text.split_ascii_whitespace().map(|word| word.parse().ok().filter(|far| *far <= FARTHEST)).collect();
    match figures {
        Some(figures) if figures.len() == nodes => Fact::Known(figures),
        Some(figures) => {
            Fact::unknown(format!("the kernel reports {} distances for {nodes} nodes", figures.len()))
        }
        None => Fact::unknown("the kernel's list of distances is damaged"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_testing::Tree;
    use proptest::prelude::*;

    #[test]
    fn totals_and_sparse_nodes() {
        let tree = Tree::new(&[
            ("proc/meminfo", "MemTotal:       49368192 kB\nMemFree: 1 kB\nMemAvailable:   1024 kB\n"),
            ("sys/devices/system/node/online", "0,8,250\n"),
            ("sys/devices/system/node/node0/cpulist", "0-1\n"),
            ("sys/devices/system/node/node0/distance", "10 21 28\n"),
            ("sys/devices/system/node/node8/distance", "21 x 28\n"),
            ("sys/devices/system/node/node0/meminfo", "Node 0 MemTotal:  2048 kB\nNode 0 MemFree: 1 kB"),
            ("sys/devices/system/node/node3/cpulist", "2\n"),
            ("sys/devices/system/node/node8/cpumap", "00000000,0000000c\n"),
            ("sys/devices/system/node/node250/cpulist", "\n"),
            ("sys/devices/system/node/node250/meminfo", "Node 250 MemTotal:  16384 kB"),
        ]);
        let memory = read(&tree.sysroot());
        assert_eq!(memory.total_bytes, Fact::Known(49_368_192 * 1024));
        assert_eq!(memory.available_bytes, Fact::Known(1 << 20));
        let ids: Vec<u32> = memory.nodes.iter().map(|node| node.id).collect();
        assert_eq!(ids, [0, 8, 250], "node 3 is offline");
        assert_eq!(memory.nodes[0].distances, Fact::Known(vec![10, 21, 28]));
        assert_eq!(memory.nodes[1].distances.why(), Some("the kernel's list of distances is damaged"));
        assert!(memory.nodes[2].distances.why().is_some_and(|why| why.ends_with("not there")));
        assert_eq!(memory.nodes[0].total_bytes, Fact::Known(2 << 20));
        assert_eq!(memory.nodes[1].cpus, [2, 3], "CPUs and no memory, told by a mask");
        assert!(memory.nodes[1].total_bytes.why().is_some());
        assert!(memory.nodes[2].cpus.is_empty(), "memory and no CPU");
        assert!(memory.rated_bytes_per_second.why().is_some());
    }

    #[test]
    fn an_empty_tree_and_absurd_figures() {
        let memory = read(&Tree::new(&[]).sysroot());
        assert_eq!(memory.total_bytes.why(), Some("/proc/meminfo: not there"));
        assert!(memory.nodes.is_empty());
        assert_eq!(of_meminfo("MemTotal: 18446744073709551615 kB", "MemTotal"), None);
        assert_eq!(of_meminfo("MemTotal:", "MemTotal"), None);
    }

    #[test]
    fn the_only_node_has_the_memory_of_the_machine() {
        let tree = Tree::new(&[
            ("proc/meminfo", "MemTotal: 24731708 kB\n"),
            ("sys/devices/system/node/node0/meminfo", "Node 0 MemTotal:  11626708 kB\n"),
        ]);
        let memory = read(&tree.sysroot());
        assert_eq!(memory.nodes[0].total_bytes, memory.total_bytes);
    }

    #[test]
    fn one_for_each_node() {
        assert_eq!(parse("20 10 255\n", 3), Fact::Known(vec![20, 10, 255]));
        assert_eq!(parse("10 21\n", 3).why(), Some("the kernel reports 2 distances for 3 nodes"));
        assert!(parse("10 x\n", 2).why().is_some_and(|why| why.contains("damaged")));
        assert!(parse("10 99999\n", 2).why().is_some_and(|why| why.contains("damaged")));
        let tree = Tree::new(&[("sys/devices/system/node/node8/distance", "20 10\n")]);
        let of =
            |node: &str| distances(&tree.sysroot(), &Path::new("/sys/devices/system/node").join(node), 2);
        assert_eq!(of("node8"), Fact::Known(vec![20, 10]));
        assert!(of("node0").why().is_some_and(|why| why.contains("not there")));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_unknown(text in "[0-9 x\n-]{0,60}", nodes in 0usize..9) {
            if let Fact::Known(far) = parse(&text, nodes) {
                prop_assert_eq!(far.len(), nodes);
            }
        }
    }
}
