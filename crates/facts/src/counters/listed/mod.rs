//! Counters as tools print them: `netstat -s`, `nstat`, `ip -s link`, `ethtool -S`, `tc -s qdisc`. Each listing is a part of
//! [`NetworkCounters`], by the kernel's own names, so that it is judged as a live reading is.
//!
//! Of several listings of one host a counter that is listed once is since the boot, one that is listed twice by the same
//! tool is what was counted between the first of them and the last.

mod links;
mod netstat;
#[cfg(test)]
mod tests;

use super::{Counters, Groups, InterfaceCounters, NetworkCounters};
use crate::fact::Fact;
pub use links::{ListedSockets, interface_line, ip_links, ss_sockets, tc_qdiscs};
pub use netstat::{netstat, nstat};
use std::collections::BTreeMap;

/// Interfaces of one listing: more are of no machine.
const MOST_INTERFACES: usize = 4096;
/// Counters of a driver that are kept, as of a live one.
const MOST_DRIVER_COUNTERS: usize = 4096;

/// `ethtool -S`: a name and a value a line. The listing does not say of which interface it is.
pub fn driver_counters(interface: &str, text: &str) -> Option<NetworkCounters> {
    let pair = |line: &str| {
        let (name, value) = line.rsplit_once(':')?;
        let (name, value) = (name.trim(), value.trim().parse::<u64>().ok()?);
        (!name.is_empty() && printable_name(name)).then(|| (name.to_string(), value))
    };
    let pairs: Vec<(String, u64)> = text.lines().filter_map(pair).collect();
    if pairs.is_empty() {
        return None;
    }
    let counted = pairs.into_iter().filter(|(_, value)| *value > 0).take(MOST_DRIVER_COUNTERS);
    let driver: Counters = counted.map(|(name, value)| (name, Fact::Known(value))).collect();
    Some(of_interface(InterfaceCounters {
        name: interface.to_string(),
        driver: Fact::Known(driver),
        ..InterfaceCounters::default()
    }))
}

fn of_interface(interface: InterfaceCounters) -> NetworkCounters {
    NetworkCounters { interfaces: vec![interface], ..NetworkCounters::default() }
}

/// Drivers have names with blanks and brackets (`[0]: rx_discards`).
fn printable_name(name: &str) -> bool {
    name.len() <= 64 && !name.contains(|letter: char| letter.is_control())
}

/// What a pile of listings counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CountedListings {
    pub since_boot: NetworkCounters,
    pub between: NetworkCounters,
    /// Of the last listing of `ss -ti`.
    pub sockets: Option<ListedSockets>,
}

impl CountedListings {
    /// Nothing was listed that counts.
    pub fn is_empty(&self) -> bool {
        *self == CountedListings::default()
    }
}

/// Listings in the order of their time, each with the tool that printed it.
pub fn over_time(listings: &[(&str, NetworkCounters)]) -> CountedListings {
    let mut by_tool: BTreeMap<&str, Vec<&NetworkCounters>> = BTreeMap::new();
    for (tool, counters) in listings {
        by_tool.entry(tool).or_default().push(counters);
    }
    let mut counted = CountedListings::default();
    for all in by_tool.values() {
        let first = all.iter().fold(NetworkCounters::default(), |sum, one| joined(sum, one));
        let last = all.iter().rev().fold(NetworkCounters::default(), |sum, one| joined(sum, one));
        let times = |has: &dyn Fn(&NetworkCounters) -> bool| all.iter().filter(|one| has(one)).count();
        let twice = |piece: &Piece<'_>| times(&|one| piece.is_in(one)) > 1;
        counted.between = joined(counted.between, &only(last.since(&first), &twice));
        counted.since_boot = joined(counted.since_boot, &only(last, &|piece| !twice(piece)));
    }
    counted
}

/// What one listing holds whole.
enum Piece<'a> {
    Protocols,
    FlatProtocols,
    MoreProtocols,
    Softnet,
    Statistics(&'a str),
    Driver(&'a str),
    Disciplines(&'a str),
}

impl Piece<'_> {
    fn is_in(&self, counters: &NetworkCounters) -> bool {
        let interface =
            |name: &str, has: fn(&InterfaceCounters) -> bool| counters.interface(name).is_some_and(has);
        match self {
            Piece::Protocols => counters.snmp.known().is_some(),
            Piece::FlatProtocols => counters.snmp6.known().is_some(),
            Piece::MoreProtocols => counters.netstat.known().is_some(),
            Piece::Softnet => counters.softnet.known().is_some(),
            Piece::Statistics(name) => interface(name, |one| one.statistics.known().is_some()),
            Piece::Driver(name) => interface(name, |one| one.driver.known().is_some()),
            Piece::Disciplines(name) => interface(name, |one| one.qdiscs.known().is_some()),
        }
    }
}

/// The pieces that are wanted; an interface of which none is left goes.
fn only(mut counters: NetworkCounters, wanted: &dyn Fn(&Piece<'_>) -> bool) -> NetworkCounters {
    fn kept<T>(fact: &mut Fact<T>, is_wanted: bool) {
        if !is_wanted {
            *fact = Fact::default();
        }
    }
    kept(&mut counters.snmp, wanted(&Piece::Protocols));
    kept(&mut counters.snmp6, wanted(&Piece::FlatProtocols));
    kept(&mut counters.netstat, wanted(&Piece::MoreProtocols));
    kept(&mut counters.softnet, wanted(&Piece::Softnet));
    for one in &mut counters.interfaces {
        kept(&mut one.statistics, wanted(&Piece::Statistics(&one.name)));
        kept(&mut one.driver, wanted(&Piece::Driver(&one.name)));
        kept(&mut one.qdiscs, wanted(&Piece::Disciplines(&one.name)));
    }
    let is_known = |one: &InterfaceCounters| {
        one.statistics.known().is_some() || one.driver.known().is_some() || one.qdiscs.known().is_some()
    };
    counters.interfaces.retain(is_known);
    counters.drop_reasons = Fact::default();
    counters
}

/// Both together; where both know, the first is believed.
fn joined(mut first: NetworkCounters, second: &NetworkCounters) -> NetworkCounters {
    fn filled<T: Clone>(first: &mut Fact<T>, second: &Fact<T>) {
        if first.known().is_none() && second.known().is_some() {
            *first = second.clone();
        }
    }
    fn groups(first: &mut Fact<Groups>, second: &Fact<Groups>) {
        match (first, second) {
            (Fact::Known(first), Fact::Known(second)) => {
                for (group, counters) in second {
                    let own = first.entry(group.clone()).or_default();
                    for (name, value) in counters {
                        own.entry(name.clone()).or_insert_with(|| value.clone());
                    }
                }
            }
            (first, second) => filled(first, second),
        }
    }
    groups(&mut first.snmp, &second.snmp);
    groups(&mut first.netstat, &second.netstat);
    filled(&mut first.snmp6, &second.snmp6);
    filled(&mut first.softnet, &second.softnet);
    for one in &second.interfaces {
        match first.interfaces.iter_mut().find(|other| other.name == one.name) {
            None => first.interfaces.push(one.clone()),
            Some(own) => {
                filled(&mut own.kind, &one.kind);
                filled(&mut own.mtu, &one.mtu);
                filled(&mut own.statistics, &one.statistics);
                filled(&mut own.driver, &one.driver);
                filled(&mut own.qdiscs, &one.qdiscs);
            }
        }
    }
    first
}
