//! Counters as tools print them: `netstat -s`, `nstat`, `ip -s link`, `ethtool -S`, `tc -s qdisc`. Each listing is a part of
//! [`NetworkCounters`], by the kernel's own names, so that it is judged as a live reading is.

mod links;
mod netstat;
mod over_time;

pub use links::{ListedSockets, interface_line, ip_links, ss_sockets, tc_qdiscs};
pub use netstat::{netstat, nstat};
pub use over_time::{CountedListings, over_time};

use super::{Counters, InterfaceCounters, NetworkCounters};
use crate::fact::Fact;

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

#[cfg(test)]
mod tests;
