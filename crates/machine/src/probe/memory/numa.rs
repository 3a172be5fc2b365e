//! How far the NUMA nodes are from each other: `/sys/devices/system/node/node*/distance`, the firmware's
//! table (ACPI SLIT).

use linerate_facts::fact::Fact;
use linerate_facts::sysroot::Sysroot;
use std::path::Path;

/// Largest distance that the table can hold; it stands for "out of reach".
const LARGEST: u32 = 255;

/// Distances from one node to each node that is online, in the order of their ids.
///
/// The kernel prints one figure for each *online* node (`node_read_distance` in `drivers/base/node.c`); ids
/// may have gaps, and the nodes that are listed then are those that are online.
pub(crate) fn distances(sysroot: &Sysroot, directory: &Path, nodes: usize) -> Fact<Vec<u32>> {
    sysroot.fact(directory.join("distance")).and_then(|text| parse(&text, nodes))
}

fn parse(text: &str, nodes: usize) -> Fact<Vec<u32>> {
    let figures: Option<Vec<u32>> =
        text.split_ascii_whitespace().map(|word| word.parse().ok().filter(|far| *far <= LARGEST)).collect();
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
