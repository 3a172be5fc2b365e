//! The counters of one host that tell of drops and are not 0.

use super::catalogue::{self, CounterEntry, Family, entries, qdisc_cure};
use super::product::{Drop, Layer, Unit};
use linerate_facts::counters::{
    Counters, InterfaceCounters, NetworkCounters, QdiscCounters, SoftnetCounters,
};

/// One of them, with where it was read.
#[derive(Clone, Debug)]
pub(super) struct DropReading {
    pub layer: Layer,
    pub interface: Option<String>,
    /// The kernel's own name, or the kind of the queueing discipline.
    pub name: String,
    /// Id of its finding; empty: none.
    pub finding: &'static str,
    pub drop: Drop,
}

/// Every drop counter of a host that is not 0, in the order of the layers, with its meaning and its cure.
pub fn drops(counters: &NetworkCounters) -> Vec<(Layer, Drop)> {
    told(counters, None).into_iter().map(|one| (one.layer, one.drop)).collect()
}

/// The same, each with the interface that it is of, where it is of one.
pub fn drops_by_interface(counters: &NetworkCounters) -> Vec<(Layer, Option<String>, Drop)> {
    told(counters, None).into_iter().map(|one| (one.layer, one.interface, one.drop)).collect()
}

/// The same with more about each; of one interface or of all.
pub(super) fn told(counters: &NetworkCounters, interface: Option<&str>) -> Vec<DropReading> {
    let mut found: Vec<DropReading> = Vec::new();
    for entry in entries(&catalogue::OF_UDP) {
        found.extend(of(&entry, None, counters.both("Udp", entry.name)));
    }
    found.extend(other_udp_errors(counters));
    for entry in entries(&catalogue::OF_IP).chain(entries(&catalogue::OF_TCP)) {
        let count = match entry.family.group {
            "Ip" => counters.both("Ip", entry.name),
            group => counters.count(group, entry.name),
        };
        found.extend(of(&entry, None, count));
    }
    found.extend(softnet(counters));
    for one in interfaces(counters, interface) {
        found.extend(of_interface(one));
    }
    found.sort_by_key(|one| one.layer);
    found
}

/// The interface of this name, or all.
pub(super) fn interfaces<'a>(
    counters: &'a NetworkCounters,
    name: Option<&'a str>,
) -> impl Iterator<Item = &'a InterfaceCounters> {
    counters.interfaces.iter().filter(move |one| name.is_none_or(|name| one.name == name))
}

fn of(entry: &CounterEntry, interface: Option<&str>, count: Option<u64>) -> Option<DropReading> {
    let counted = count.filter(|count| *count > 0)?;
    let family = entry.family;
    Some(DropReading {
        layer: family.layer,
        interface: interface.map(str::to_string),
        name: entry.name.to_string(),
        finding: family.finding,
        drop: Drop {
            counter: format!("{} {}", family.group, entry.name).trim().to_string(),
            counted,
            datagrams: 0,
            unit: family.unit,
            meaning: entry.meaning.to_string(),
            cure: interface.map_or_else(|| family.cure.to_string(), |name| family.cure.replace("NIC", name)),
        },
    })
}

const OTHER_UDP_ERRORS: Family = Family {
    group: "Udp",
    layer: Layer::Udp,
    unit: Unit::Datagrams,
    finding: "",
    cure: "look at the filters of the receiving sockets, and at the drop reasons (`perf record -e \
           skb:kfree_skb`)",
    counters: &[],
};

/// `InErrors` has all the others in it; what it has beyond them.
fn other_udp_errors(counters: &NetworkCounters) -> Option<DropReading> {
    let part = |name| counters.both("Udp", name).unwrap_or(0);
    let known =
        ["RcvbufErrors", "InCsumErrors", "MemErrors"].map(part).into_iter().fold(0, u64::saturating_add);
    let rest = counters.both("Udp", "InErrors")?.saturating_sub(known);
    let meaning = "datagrams were not taken for another reason: a socket's filter, or damage";
    let entry = CounterEntry { family: &OTHER_UDP_ERRORS, name: "InErrors", meaning };
    of(&entry, None, Some(rest))
}

fn softnet(counters: &NetworkCounters) -> Vec<DropReading> {
    let Some(cores) = counters.softnet.known() else { return Vec::new() };
    let one = |entry: CounterEntry| {
        let of_core = |core: &SoftnetCounters| match entry.name {
            "dropped" => core.dropped.known().copied(),
            "squeezed" => core.squeezed.known().copied(),
            _ => core.flow_limited.known().copied(),
        };
        of(&entry, None, Some(cores.iter().filter_map(of_core).fold(0, u64::saturating_add)))
    };
    entries(&catalogue::OF_SOFTNET).filter_map(one).collect()
}

fn of_interface(one: &InterfaceCounters) -> Vec<DropReading> {
    let own = entries(&catalogue::OF_INTERFACE)
        .filter_map(|entry| of(&entry, Some(&one.name), one.count(entry.name)));
    let drivers = entries(&catalogue::OF_DRIVERS)
        .filter_map(|entry| of(&entry, Some(&one.name), of_driver(one.driver.known()?, entry.name)));
    let qdiscs = one.qdiscs.known().into_iter().flatten().filter_map(|qdisc| of_qdisc(one, qdisc));
    own.chain(drivers).chain(qdiscs).collect()
}

/// All queues together, where the name has one for each.
fn of_driver(counters: &Counters, pattern: &str) -> Option<u64> {
    if let Some(count) = counters.get(pattern) {
        return count.known().copied();
    }
    let fixed = pattern.split('*').next().filter(|fixed| fixed.len() < pattern.len())?;
    let from = counters.range(fixed.to_string()..).take_while(|(name, _)| name.starts_with(fixed));
    let own =
        from.filter(|(name, _)| catalogue::matches(pattern, name)).filter_map(|(_, count)| count.known());
    own.copied().reduce(u64::saturating_add)
}

/// A root's drops have those of its children in them (`qdisc_tree_reduce_backlog`, and each parent's own
/// count on enqueueing): only the outermost and those beside it are counted, and the cure is the innermost's.
fn of_qdisc(one: &InterfaceCounters, qdisc: &QdiscCounters) -> Option<DropReading> {
    if !matches!(qdisc.parent.as_str(), "root" | "ingress") {
        return None;
    }
    let counted = qdisc.drops.known().copied().filter(|drops| *drops > 0)?;
    let inner = one.qdiscs.known()?.iter().find(|inner| {
        let drops = inner.drops.known().copied().unwrap_or(0);
        drops > 0 && qdisc.parent == "root" && !matches!(inner.parent.as_str(), "root" | "ingress")
    });
    let kind = inner.map_or(qdisc.kind.as_str(), |inner| inner.kind.as_str());
    Some(DropReading {
        layer: Layer::Qdisc,
        interface: Some(one.name.clone()),
        name: qdisc.kind.clone(),
        finding: "qdisc-drops",
        drop: Drop {
            counter: format!("{} {} drops", qdisc.kind, qdisc.handle),
            counted,
            datagrams: 0,
            unit: Unit::Packets,
            meaning: match qdisc.kind.as_str() {
                "clsact" | "ingress" => "a filter dropped them".into(),
                _ => format!("the queue of {kind} was full"),
            },
            cure: qdisc_cure(kind, &one.name),
        },
    })
}
