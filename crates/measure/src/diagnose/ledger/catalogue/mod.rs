//! The counters that tell of a drop: at which layer, what it means, and what cures it.
//!
//! Names are the kernel's (`include/uapi/linux/snmp.h`, `Documentation/networking/statistics.rst`); drivers
//! have theirs.

mod drivers;
mod interfaces;
mod protocols;

pub(super) use drivers::{OF_DRIVERS, matches};
pub(super) use interfaces::{OF_INTERFACE, qdisc_cure};
pub(super) use protocols::{OF_IP, OF_SOFTNET, OF_TCP, OF_UDP};

use super::product::{Layer, Unit};

/// Counters with one cure.
#[derive(Clone, Copy, Debug)]
pub(super) struct Family {
    /// Group of `/proc/net/snmp` or `/proc/net/netstat`; of an interface's, empty.
    pub group: &'static str,
    pub layer: Layer,
    pub unit: Unit,
    /// Id of the finding; empty: the ledger's line says enough.
    pub finding: &'static str,
    /// `NIC` stands for the interface's name.
    pub cure: &'static str,
    /// Name and meaning of each.
    pub counters: &'static [(&'static str, &'static str)],
}

/// One counter.
#[derive(Clone, Copy, Debug)]
pub(super) struct CounterEntry {
    pub family: &'static Family,
    pub name: &'static str,
    pub meaning: &'static str,
}

/// The counters of a table, one by one.
pub(super) fn entries(table: &'static [Family]) -> impl Iterator<Item = CounterEntry> {
    table.iter().flat_map(|family| {
        family.counters.iter().map(move |(name, meaning)| CounterEntry { family, name, meaning })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_counter_is_once_and_names_its_cure() {
        let tables: [&'static [Family]; 6] =
            [&OF_UDP, &OF_IP, &OF_TCP, &OF_SOFTNET, &OF_INTERFACE, &OF_DRIVERS];
        let all: Vec<CounterEntry> = tables.into_iter().flat_map(entries).collect();
        let names: BTreeSet<_> = all.iter().map(|entry| (entry.family.group, entry.name)).collect();
        assert_eq!(names.len(), all.len());
        assert!(all.len() > 50, "{}", all.len());
        for entry in all {
            assert!(entry.meaning.len() > 10 && entry.family.cure.len() > 10, "{entry:?}");
            assert!(!entry.meaning.ends_with('.') && !entry.family.cure.ends_with('.'), "{entry:?}");
        }
    }

    #[test]
    fn every_queueing_discipline_has_a_cure() {
        for kind in ["tbf", "htb", "pfifo", "pfifo_fast", "clsact", "netem", "fq", "fq_codel", "unheard-of"] {
            assert!(qdisc_cure(kind, "eth7").contains("eth7"), "{kind}");
        }
    }
}
