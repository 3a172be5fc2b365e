//! ZFS pools: `/proc/spl/kstat/zfs`. The devices of a pool are in no file of the kernel.

use crate::probe::machine::Array;
use linerate_facts::fact::Fact;
use linerate_facts::sysroot::Sysroot;

/// The pool of a dataset (`tank/data` → `tank`) as an array: its state, and why nothing else is reported.
pub(super) fn read(sysroot: &Sysroot, dataset: &str) -> Array {
    let pool = dataset.split(['/', '@']).next().unwrap_or_default();
    let why = format!("the kernel shows no devices of a ZFS pool: `zpool status -P {pool}` does");
    let state = match pool {
        // A name that is a path would lead elsewhere.
        "" | "." | ".." => Fact::unknown("the mount table names no pool"),
        pool => sysroot.fact(format!("/proc/spl/kstat/zfs/{pool}/state")),
    };
    Array {
        level: "zpool".into(),
        chunk_bytes: Fact::unknown(&why),
        disks: Fact::unknown(&why),
        data_disks: Fact::unknown(&why),
        degraded: match state.known().map(String::as_str) {
            Some("ONLINE") => Fact::Known(0),
            _ => Fact::unknown(&why),
        },
        stripe_bytes: Fact::unknown(&why),
        copies: Fact::unknown(&why),
        layout: Fact::unknown(&why),
        sync_action: Fact::unknown(&why),
        state,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_testing::Tree;

    #[test]
    fn a_pool_has_a_state_and_no_more() {
        let tree = Tree::new(&[
            ("proc/spl/kstat/zfs/tank/state", "ONLINE\n"),
            ("proc/spl/kstat/zfs/old/state", "DEGRADED\n"),
        ]);
        let tank = read(&tree.sysroot(), "tank/data/deep");
        assert_eq!(
            (tank.state.known().map(String::as_str), tank.degraded.known()),
            (Some("ONLINE"), Some(&0))
        );
        assert!(tank.disks.why().is_some_and(|why| why.contains("zpool status -P tank")));
        assert_eq!(read(&tree.sysroot(), "old").degraded.known(), None);
        assert!(read(&tree.sysroot(), "..").state.why().is_some());
    }
}
