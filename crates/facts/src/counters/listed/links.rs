//! `ip -s link` (`-s -s`, `-d`, and `ip -s addr`): what each interface counts, by the names of sysfs.

use super::MOST_INTERFACES;
use crate::counters::protocols::named;
use crate::counters::{Counters, InterfaceCounters, NetworkCounters};
use crate::fact::Fact;

/// Columns of a head (`RX: bytes packets errors dropped missed mcast`), and what sysfs calls them. `length`, `crc` and on are
/// those of `-s -s`.
const COLUMNS: [(&str, &str); 21] = [
    ("RX bytes", "rx_bytes"),
    ("RX packets", "rx_packets"),
    ("RX errors", "rx_errors"),
    ("RX dropped", "rx_dropped"),
    ("RX missed", "rx_missed_errors"),
    ("RX overrun", "rx_over_errors"),
    ("RX mcast", "multicast"),
    ("RX length", "rx_length_errors"),
    ("RX crc", "rx_crc_errors"),
    ("RX frame", "rx_frame_errors"),
    ("RX fifo", "rx_fifo_errors"),
    ("RX nohandler", "rx_nohandler"),
    ("TX bytes", "tx_bytes"),
    ("TX packets", "tx_packets"),
    ("TX errors", "tx_errors"),
    ("TX dropped", "tx_dropped"),
    ("TX carrier", "tx_carrier_errors"),
    ("TX collsns", "collisions"),
    ("TX aborted", "tx_aborted_errors"),
    ("TX fifo", "tx_fifo_errors"),
    ("TX window", "tx_window_errors"),
];

/// Every interface with its counts, `lo` left away.
pub fn ip_links(text: &str) -> Option<NetworkCounters> {
    let mut interfaces: Vec<InterfaceCounters> = Vec::new();
    let mut columns: Vec<Option<&str>> = Vec::new();
    for line in text.lines() {
        if let Some((name, mtu)) = interface_line(line) {
            if interfaces.len() >= MOST_INTERFACES {
                break;
            }
            columns.clear();
            let mtu = Fact::from_option(mtu, "ip does not report");
            interfaces.push(InterfaceCounters {
                name: name.to_string(),
                mtu,
                ..InterfaceCounters::default()
            });
        } else if let Some(head) = head(line) {
            columns = head;
        } else if let (Some(one), false) = (interfaces.last_mut(), columns.is_empty()) {
            let values = line.split_ascii_whitespace().map(|word| word.parse::<u64>().ok());
            let counters: Counters = columns
                .drain(..)
                .zip(values)
                .filter_map(|(name, value)| Some((name?.to_string(), Fact::Known(value?))))
                .collect();
            match &mut one.statistics {
                Fact::Known(all) => all.extend(counters),
                unknown if !counters.is_empty() => *unknown = Fact::Known(counters),
                Fact::Unknown { .. } => {}
            }
        }
    }
    interfaces.retain(|one| one.name != "lo" && one.statistics.known().is_some());
    (!interfaces.is_empty()).then(|| NetworkCounters { interfaces, ..NetworkCounters::default() })
}

/// `2: eth0@if3: <BROADCAST,UP> mtu 1500 …`: name and MTU.
pub fn interface_line(line: &str) -> Option<(&str, Option<u64>)> {
    let (number, rest) = line.split_once(": ")?;
    let (name, rest) = rest.split_once(": <")?;
    let name = name.split('@').next()?;
    let mtu = rest.split_once(" mtu ").and_then(|(_, mtu)| mtu.split(' ').next()?.parse().ok());
    (number.parse::<u32>().is_ok() && named(name).is_some()).then_some((name, mtu))
}

/// The columns of a head, those without a name of sysfs as none.
fn head(line: &str) -> Option<Vec<Option<&'static str>>> {
    let line = line.trim();
    let (side, rest) = line.split_at_checked(2).filter(|(side, _)| matches!(*side, "RX" | "TX"))?;
    let rest = rest.strip_prefix(" errors:").or(rest.strip_prefix(':'))?;
    let of_column = |word: &str| {
        let name = format!("{side} {word}");
        COLUMNS.iter().find(|(column, _)| *column == name).map(|(_, name)| *name)
    };
    Some(rest.split_ascii_whitespace().take(16).map(of_column).collect())
}
