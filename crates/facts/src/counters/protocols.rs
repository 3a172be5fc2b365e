//! `/proc/net/snmp`, `/proc/net/netstat` (pairs of lines: names, values) and `/proc/net/snmp6` (a name and a
//! value a line).

use super::{Counters, Groups};
use crate::fact::Fact;
use crate::sysroot::Sysroot;

/// More than any kernel has; a hostile file costs no more memory than this.
const MOST_COUNTERS: usize = 4096;
/// The kernel's longest names have some 30 letters.
const LONGEST_NAME: usize = 64;

/// A file of groups.
pub(super) fn groups(sysroot: &Sysroot, path: &str) -> Fact<Groups> {
    let holds = |text: String| Fact::from_option(parse_groups(&text), format!("{path}: holds no counters"));
    sysroot.fact(path).and_then(holds)
}

/// A file without groups.
pub(super) fn flat(sysroot: &Sysroot, path: &str) -> Fact<Counters> {
    let holds = |text: String| Fact::from_option(parse_flat(&text), format!("{path}: holds no counters"));
    sysroot.fact(path).and_then(holds)
}

/// `Udp: InDatagrams NoPorts` and below it `Udp: 5269 0`. Lines that make no pair are left out.
pub fn parse_groups(text: &str) -> Option<Groups> {
    let mut found = Groups::new();
    let mut lines = text.lines().filter_map(|line| line.split_once(':')).peekable();
    let mut left = MOST_COUNTERS;
    while let Some((group, names)) = lines.next() {
        let Some((_, values)) = lines.next_if(|(other, _)| *other == group) else { continue };
        let pairs = names.split_ascii_whitespace().zip(values.split_ascii_whitespace());
        let counters: Counters =
            pairs.take(left).filter_map(|(name, value)| Some((named(name)?, count(value)))).collect();
        left = left.saturating_sub(counters.len());
        if let (Some(group), false) = (named(group.trim()), counters.is_empty()) {
            found.entry(group).or_default().extend(counters);
        }
    }
    (!found.is_empty()).then_some(found)
}

/// `Ip6InReceives     122`.
pub fn parse_flat(text: &str) -> Option<Counters> {
    let pair = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        Some((named(words.next()?)?, count(words.next()?)))
    };
    let found: Counters = text.lines().filter_map(pair).take(MOST_COUNTERS).collect();
    (!found.is_empty()).then_some(found)
}

/// A name as it may be in the kernel's files.
pub(super) fn named(name: &str) -> Option<String> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_.-".contains(letter);
    (!name.is_empty() && name.len() <= LONGEST_NAME && name.chars().all(plain)).then(|| name.to_string())
}

/// A count, or why it is none.
pub(super) fn count(value: &str) -> Fact<u64> {
    match value.parse() {
        Ok(count) => Fact::Known(count),
        // 32-bit counters shown with a sign were the kernel's before 3.x; TCP's MaxConn of −1 means no limit.
        Err(_) if value.starts_with('-') => Fact::unknown("negative: it wrapped, or is not a counter"),
        Err(_) => Fact::unknown("no number"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pairs_of_lines() {
        let text = "Ip: Forwarding InReceives\nIp: 2 39968606\nTcp: MaxConn InSegs New\nTcp: -1 \
                    18260562\nUdp: A\nUdpLite: B\nUdpLite: x\n";
        let groups = parse_groups(text).expect("counters");
        assert_eq!(groups["Ip"]["InReceives"], Fact::Known(39_968_606));
        assert_eq!(groups["Tcp"]["MaxConn"].why(), Some("negative: it wrapped, or is not a counter"));
        assert_eq!(groups["Tcp"].len(), 2, "a name without a value");
        assert!(!groups.contains_key("Udp"), "a line without its pair");
        assert_eq!(groups["UdpLite"]["B"].why(), Some("no number"));
        assert_eq!(parse_groups("Ip: A\n\nUdp: 1"), None);
    }

    #[test]
    fn the_flat_list() {
        let counters = parse_flat("Ip6InReceives   \t122\nnothing\nUdp6InErrors 0\n").expect("counters");
        assert_eq!(counters["Ip6InReceives"], Fact::Known(122));
        assert_eq!(counters.len(), 2);
        assert_eq!(parse_flat(""), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_left_out(text in "((Ip|Udp|é): ?[A-Z0-9a-z é-]{0,20}\n){0,8}") {
            for (group, counters) in parse_groups(&text).unwrap_or_default() {
                prop_assert!(!group.is_empty() && !counters.is_empty());
            }
            prop_assert!(parse_flat(&text).is_none_or(|counters| !counters.is_empty()));
        }
    }
}
