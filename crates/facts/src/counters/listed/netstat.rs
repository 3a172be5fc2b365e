//! `netstat -s` and `nstat`: counters of the protocols.
//!
//! A table has what `netstat -s` calls the kernel's counters, of those that are judged or that shares are made
//! of. The sentences are those of net-tools (`statistics.c`) from 1.60 (2001) to 2.10; what has none there is
//! printed by the kernel's name.

use crate::counters::protocols::{count, named};
use crate::counters::{Counters, Groups, NetworkCounters};
use crate::fact::Fact;

/// More than any kernel has.
const MOST_COUNTERS: usize = 4096;
/// Groups of `/proc/net/snmp` and `/proc/net/netstat`, which `nstat` writes before each name; a longer one before one that it
/// begins with.
const GROUPS: [&str; 11] =
    ["IcmpMsg", "Icmp", "IpExt", "Ip", "TcpExt", "Tcp", "UdpLite", "Udp", "MPTcpExt", "Sctp", "XfrmStats"];

/// Sentences below the name of their group (`Tcp:`), or `InOctets: 806747296`.
pub fn netstat(text: &str) -> Option<NetworkCounters> {
    let mut groups = Groups::new();
    let mut group: Option<&str> = None;
    let mut left = MOST_COUNTERS;
    for line in text.lines() {
        let begins = !line.starts_with([' ', '\t']);
        let line = line.trim();
        if let (true, Some(name)) = (begins, line.strip_suffix(':').filter(|name| named(name).is_some())) {
            group = Some(name);
        } else if let Some((group, (name, value))) =
            group.and_then(|group| Some((group, parse_count_line(group, line)?)))
        {
            if left == 0 {
                break;
            }
            left -= 1;
            groups.entry(group.to_string()).or_default().insert(name, value);
        }
    }
    (!groups.is_empty()).then(|| NetworkCounters { snmp: Fact::Known(groups), ..NetworkCounters::default() })
}

/// A line of a group. Those of histograms (`echo replies: 45`) are not counters of the kernel's names.
fn parse_count_line(group: &str, line: &str) -> Option<(String, Fact<u64>)> {
    if let Some((name, value)) = line.split_once(": ").filter(|(name, _)| !name.contains(' ')) {
        return Some((named(name)?, count(value.trim())));
    }
    let line = line.trim_end_matches('.');
    let (words, value) = line
        .split_once(' ')
        .filter(|(value, _)| value.bytes().all(|byte| byte.is_ascii_digit()))
        .map(|(value, words)| (words, value))?;
    let of_line = |(of, name, phrases): &(&str, &str, &[&str])| {
        let matches = *of == group && phrases.iter().any(|phrase| phrase.strip_prefix("# ") == Some(words));
        matches.then(|| name.to_string())
    };
    Some((PHRASES.iter().find_map(of_line)?, count(value)))
}

/// `TcpRetransSegs    12    0.0`, or the same as JSON.
pub fn nstat(text: &str) -> Option<NetworkCounters> {
    let from_json = || {
        let document: serde_json::Value = serde_json::from_str(text).ok()?;
        let pairs = document.get("kernel")?.as_object()?.iter();
        Some(pairs.map(|(name, value)| (name.clone(), value.to_string())).collect::<Vec<_>>())
    };
    let from_text = || {
        let pair = |line: &str| {
            let mut words = line.split_ascii_whitespace();
            let pair = (words.next()?.to_string(), words.next()?.to_string());
            (!pair.0.starts_with('#')).then_some(pair)
        };
        text.lines().filter_map(pair).collect()
    };
    let (mut groups, mut flat) = (Groups::new(), Counters::new());
    for (name, value) in from_json().unwrap_or_else(from_text).into_iter().take(MOST_COUNTERS) {
        let Ok(value) = value.parse::<u64>() else { continue };
        let Some(name) = named(&name) else { continue };
        let of = GROUPS.into_iter().find_map(|group| Some((group, name.strip_prefix(group)?)));
        match of {
            // `Udp6InErrors`, `Ip6InReceives` are of /proc/net/snmp6.
            Some((_, rest)) if rest.starts_with('6') => drop(flat.insert(name, Fact::Known(value))),
            Some((group, rest)) if !rest.is_empty() => {
                groups.entry(group.to_string()).or_default().insert(rest.to_string(), Fact::Known(value));
            }
            _ => {}
        }
    }
    let known = |empty: bool| if empty { Err("not listed") } else { Ok(()) };
    let counters = NetworkCounters {
        snmp6: known(flat.is_empty()).map_or_else(Fact::unknown, |()| Fact::Known(flat)),
        snmp: known(groups.is_empty()).map_or_else(Fact::unknown, |()| Fact::Known(groups)),
        ..NetworkCounters::default()
    };
    (counters.snmp.known().is_some() || counters.snmp6.known().is_some()).then_some(counters)
}

/// Group, the kernel's name, and its sentences with `#` for the count. A full stop at the end is left away.
const PHRASES: [(&str, &str, &[&str]); 49] = [
    ("Ip", "InReceives", &["# total packets received"]),
    ("Ip", "InHdrErrors", &["# with invalid headers"]),
    ("Ip", "InAddrErrors", &["# with invalid addresses"]),
    ("Ip", "ForwDatagrams", &["# forwarded"]),
    ("Ip", "InDiscards", &["# incoming packets discarded"]),
    ("Ip", "InDelivers", &["# incoming packets delivered"]),
    ("Ip", "OutRequests", &["# requests sent out"]),
    ("Ip", "OutDiscards", &["# outgoing packets dropped"]),
    ("Ip", "OutNoRoutes", &["# dropped because of missing route"]),
    ("Ip", "ReasmTimeout", &["# fragments dropped after timeout"]),
    ("Ip", "ReasmReqds", &["# reassemblies required"]),
    ("Ip", "ReasmOKs", &["# packets reassembled ok"]),
    ("Ip", "ReasmFails", &["# packet reassembles failed", "# packet reassemblies failed"]),
    ("Ip", "FragOKs", &["# fragments received ok"]),
    ("Ip", "FragFails", &["# fragments failed"]),
    ("Ip", "FragCreates", &["# fragments created"]),
    ("Icmp", "InMsgs", &["# ICMP messages received"]),
    ("Icmp", "OutMsgs", &["# ICMP messages sent"]),
    (
        "Tcp",
        "ActiveOpens",
        &["# active connections openings", "# active connection openings", "# active opens"],
    ),
    (
        "Tcp",
        "PassiveOpens",
        &["# passive connection openings", "# passive connections openings", "# passive opens"],
    ),
    ("Tcp", "AttemptFails", &["# failed connection attempts"]),
    ("Tcp", "EstabResets", &["# connection resets received"]),
    ("Tcp", "CurrEstab", &["# connections established"]),
    ("Tcp", "InSegs", &["# segments received"]),
    ("Tcp", "OutSegs", &["# segments send out", "# segments sent out"]),
    ("Tcp", "RetransSegs", &["# segments retransmited", "# segments retransmitted"]),
    ("Tcp", "InErrs", &["# bad segments received"]),
    ("Tcp", "OutRsts", &["# resets sent"]),
    ("Udp", "InDatagrams", &["# packets received"]),
    ("Udp", "NoPorts", &["# packets to unknown port received"]),
    ("Udp", "InErrors", &["# packet receive errors"]),
    ("Udp", "OutDatagrams", &["# packets sent", "# packets send"]),
    ("Udp", "RcvbufErrors", &["# receive buffer errors"]),
    ("Udp", "SndbufErrors", &["# send buffer errors"]),
    ("TcpExt", "TCPTimeouts", &["# other TCP timeouts"]),
    ("TcpExt", "TCPLostRetransmit", &["# retransmits lost"]),
    ("TcpExt", "ListenOverflows", &["# times the listen queue of a socket overflowed"]),
    ("TcpExt", "ListenDrops", &["# SYNs to LISTEN sockets dropped", "# SYNs to LISTEN sockets ignored"]),
    (
        "TcpExt",
        "PruneCalled",
        &[
            "# packets pruned from receive queue because of socket buffer overrun",
            "# times pruned because of socket buffer overrun",
        ],
    ),
    ("TcpExt", "RcvPruned", &["# packets pruned from receive queue"]),
    ("TcpExt", "OfoPruned", &["# packets dropped from out-of-order queue because of socket buffer overrun"]),
    ("TcpExt", "TCPRcvCollapsed", &["# packets collapsed in receive queue due to low socket buffer"]),
    (
        "TcpExt",
        "TCPAbortOnMemory",
        &["# times unable to send RST due to no memory", "# connections aborted due to memory pressure"],
    ),
    ("TcpExt", "TCPFastRetrans", &["# fast retransmits"]),
    ("TcpExt", "TCPSlowStartRetrans", &["# retransmits in slow start"]),
    ("TcpExt", "TCPSackRecovery", &["# times recovered from packet loss by selective acknowledgements"]),
    ("TcpExt", "TCPRenoRecovery", &["# times recovered from packet loss due to fast retransmit"]),
    ("TcpExt", "TCPAbortOnTimeout", &["# connections aborted due to timeout"]),
    ("TcpExt", "DelayedACKs", &["# delayed acks sent"]),
];
