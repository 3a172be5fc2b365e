//! `netstat -s` and `nstat`: counters of the protocols.

use super::phrases::PHRASES;
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
            group.and_then(|group| Some((group, counted(group, line)?)))
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

/// A line of a group. Those of histograms (`echo replies: 45`) are no counters of the kernel's names.
fn counted(group: &str, line: &str) -> Option<(String, Fact<u64>)> {
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
