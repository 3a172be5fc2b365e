//! What tools of iproute2 print of interfaces and connections.
//!
//! `ip -s link` (`-s -s`, `-d`, and `ip -s addr`): what each interface counts, by the names of sysfs.
//!
//! `tc -s qdisc`: `qdisc fq 8001: dev eth0 root …`, and below it ` Sent 1 bytes 2 pkt (dropped 3, overlimits 4
//! requeues 5)`.
//!
//! `ss -ti`: what the TCP connections of a host have waited for, and what they retransmitted.

use super::MOST_INTERFACES;
use crate::counters::protocols::named;
use crate::counters::{Counters, InterfaceCounters, NetworkCounters, QdiscCounters};
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
        } else if let Some(head) = columns_of_head(line) {
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
fn columns_of_head(line: &str) -> Option<Vec<Option<&'static str>>> {
    let line = line.trim();
    let (side, rest) = line.split_at_checked(2).filter(|(side, _)| matches!(*side, "RX" | "TX"))?;
    let rest = rest.strip_prefix(" errors:").or(rest.strip_prefix(':'))?;
    let of_column = |word: &str| {
        let name = format!("{side} {word}");
        COLUMNS.iter().find(|(column, _)| *column == name).map(|(_, name)| *name)
    };
    Some(rest.split_ascii_whitespace().take(16).map(of_column).collect())
}

/// Disciplines of one listing: a card of 128 queues has as many.
const MOST_DISCIPLINES: usize = 16_384;

/// The disciplines of every interface, the root's first.
pub fn tc_qdiscs(text: &str) -> Option<NetworkCounters> {
    let mut interfaces: Vec<InterfaceCounters> = Vec::new();
    let mut current: Option<usize> = None;
    let mut left = MOST_DISCIPLINES;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().take(64).collect();
        if words.first() == Some(&"qdisc") {
            current = None;
            let Some((interface, discipline)) = discipline_head(&words).filter(|_| left > 0) else {
                continue;
            };
            left -= 1;
            let at = interfaces.iter().position(|one| one.name == interface);
            if at.is_none() && interfaces.len() >= MOST_INTERFACES {
                break;
            }
            let at = at.unwrap_or_else(|| {
                interfaces.push(InterfaceCounters {
                    name: interface,
                    qdiscs: Fact::Known(Vec::new()),
                    ..InterfaceCounters::default()
                });
                interfaces.len() - 1
            });
            if let Fact::Known(all) = &mut interfaces[at].qdiscs {
                all.push(discipline);
                current = Some(at);
            }
        } else if let Some(discipline) = current.and_then(|at| match &mut interfaces[at].qdiscs {
            Fact::Known(all) => all.last_mut(),
            Fact::Unknown { .. } => None,
        }) {
            read_discipline(&words, discipline);
        }
    }
    for one in &mut interfaces {
        if let Fact::Known(all) = &mut one.qdiscs {
            all.sort_by_key(|discipline| discipline.parent != "root");
        }
    }
    (!interfaces.is_empty()).then(|| NetworkCounters { interfaces, ..NetworkCounters::default() })
}

fn discipline_head(words: &[&str]) -> Option<(String, QdiscCounters)> {
    let after = |word: &str| words.iter().skip_while(|other| **other != word).nth(1).copied();
    let parent = match after("parent") {
        Some(class) => class.to_string(),
        None if words.contains(&"ingress") || matches!(words.get(1), Some(&("ingress" | "clsact"))) => {
            "ingress".into()
        }
        None => "root".into(),
    };
    let discipline = QdiscCounters {
        kind: named(words.get(1)?)?,
        handle: words.get(2)?.chars().take(16).collect(),
        parent,
        ..QdiscCounters::default()
    };
    Some((named(after("dev")?)?, discipline))
}

fn read_discipline(words: &[&str], discipline: &mut QdiscCounters) {
    let number = |text: &str| {
        let digits: String = text.chars().filter(char::is_ascii_digit).collect();
        digits.parse::<u64>().ok()
    };
    let before = |word: &str| {
        let at = words.iter().position(|other| *other == word)?;
        number(words.get(at.checked_sub(1)?)?)
    };
    let after =
        |word: &str| words.iter().skip_while(|other| **other != word).nth(1).and_then(|text| number(text));
    if words.first() == Some(&"Sent") {
        let known = |value: Option<u64>| Fact::from_option(value, "tc does not report");
        discipline.bytes = known(before("bytes"));
        discipline.packets = known(before("pkt").or(before("pkts")));
        discipline.drops = known(after("(dropped"));
        discipline.overlimits = known(after("overlimits"));
        discipline.requeues = known(after("requeues"));
    }
}

/// Connections of one listing.
const MOST_CONNECTIONS: u64 = 1 << 20;
/// A connection that waited for less of its busy time than this is not limited by it.
const LEAST_WAITED_SHARE: f64 = 0.1;

/// All connections together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ListedSockets {
    pub connections: u64,
    pub sent_bytes: u64,
    pub retransmitted_bytes: u64,
    /// Connections that waited for the receiver's window for a tenth of their busy time or more, and the most that one did.
    pub by_receiver: (u64, f64),
    /// The same of the sender's own buffer.
    pub by_send_buffer: (u64, f64),
}

/// The words below each connection: `bytes_sent:34433 rwnd_limited:260ms(80.2%)`.
pub fn ss_sockets(text: &str) -> Option<ListedSockets> {
    let mut all = ListedSockets::default();
    for line in text.lines().filter(|line| line.contains(" rto:") || line.contains("\trto:")) {
        if all.connections >= MOST_CONNECTIONS {
            break;
        }
        all.connections += 1;
        for (name, value) in line.split_ascii_whitespace().filter_map(|word| word.split_once(':')) {
            let bytes = || value.parse::<u64>().unwrap_or(0);
            let share = || {
                let (_, percent) = value.split_once('(')?;
                let share = percent.strip_suffix("%)")?.parse::<f64>().ok()? / 100.0;
                (0.0..=1.0).contains(&share).then_some(share)
            };
            match name {
                "bytes_sent" => all.sent_bytes = all.sent_bytes.saturating_add(bytes()),
                "bytes_retrans" => all.retransmitted_bytes = all.retransmitted_bytes.saturating_add(bytes()),
                "rwnd_limited" => waited(&mut all.by_receiver, share()),
                "sndbuf_limited" => waited(&mut all.by_send_buffer, share()),
                _ => {}
            }
        }
    }
    (all.connections > 0).then_some(all)
}

fn waited((connections, most): &mut (u64, f64), share: Option<f64>) {
    if let Some(share) = share.filter(|share| *share >= LEAST_WAITED_SHARE) {
        *connections += 1;
        *most = most.max(share);
    }
}
