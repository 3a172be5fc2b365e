//! What the kernel's network counts as a whole. By protocol: `/proc/net/snmp`, `/proc/net/netstat` (pairs of
//! lines: names, values) and `/proc/net/snmp6` (a name and a value a line).
//!
//! By CPU: `/proc/net/softnet_stat`, what the softirq of each took, dropped and had to leave
//! (`softnet_seq_show` in `net/core/net-procfs.c`).
//!
//! By the kernel's own reasons for the packets it dropped, over a test: a trace that root may keep
//! (`system::drop_trace`).

use super::{Counters, Groups};
use crate::fact::Fact;
use crate::sysroot::Sysroot;
use linerate_system::drop_trace::DropTrace;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use thiserror::Error;

/// More than any kernel has; a hostile file costs no more memory than this.
const MOST_COUNTERS: usize = 4096;
/// The kernel's longest names have some 30 letters.
const LONGEST_NAME: usize = 64;

const SOFTNET: &str = "/proc/net/softnet_stat";
/// More CPUs than the kernel can be built for.
const MOST_CORES: usize = 8192;

/// Among the reasons: packets whose records the trace had no room for. No reason of the kernel's is written
/// like that.
pub const MISSED_BY_TRACE: &str = "not recorded";

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

/// One CPU's. All are 32 bits wide and wrap.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SoftnetCounters {
    /// CPU; older kernels do not tell: then the number of the line.
    pub core: u32,
    /// Packets taken (a train of segments is one).
    pub processed: Fact<u64>,
    /// Packets dropped because the backlog of `net.core.netdev_max_backlog` packets was full.
    pub dropped: Fact<u64>,
    /// Rounds that ended with packets left, because `net.core.netdev_budget` or its time was used up.
    pub squeezed: Fact<u64>,
    /// Packets dropped by the flow limit (`net.core.flow_limit_cpu_bitmap`).
    pub flow_limited: Fact<u64>,
    /// Packets that wait now: a state, reported since Linux 5.10.
    pub backlog: Fact<u64>,
}

pub(super) fn read_softnet(sysroot: &Sysroot) -> Fact<Vec<SoftnetCounters>> {
    let holds =
        |text: String| Fact::from_option(parse_softnet(&text), format!("{SOFTNET}: holds no counters"));
    sysroot.fact(SOFTNET).and_then(holds)
}

/// One line of hexadecimal words a CPU: processed, dropped, squeezed, …, flow limit as the eleventh,
/// the CPU as the thirteenth.
pub fn parse_softnet(text: &str) -> Option<Vec<SoftnetCounters>> {
    let found: Vec<SoftnetCounters> =
        text.lines().zip(0u32..).filter_map(parse_softnet_line).take(MOST_CORES).collect();
    (!found.is_empty()).then_some(found)
}

fn parse_softnet_line((line, number): (&str, u32)) -> Option<SoftnetCounters> {
    let words: Option<Vec<u32>> =
        line.split_ascii_whitespace().take(16).map(|word| u32::from_str_radix(word, 16).ok()).collect();
    let words = words?;
    let word = |index: usize| {
        Fact::from_option(words.get(index).copied().map(u64::from), "this kernel does not report")
    };
    // Fewer are the format of no kernel.
    (words.len() >= 3).then(|| SoftnetCounters {
        core: words.get(12).copied().unwrap_or(number),
        processed: word(0),
        dropped: word(1),
        squeezed: word(2),
        flow_limited: word(10),
        backlog: word(11),
    })
}

/// Why there is no trace.
#[derive(Debug, Error)]
enum NoTrace {
    #[error("only root may trace drops")]
    NotRoot,
    #[error("not traced: {0}")]
    Refused(io::Error),
    #[error("a recorded tree does not hold them")]
    Recorded,
    #[error("{0}")]
    NotWanted(String),
}

/// A trace that runs until it is dropped, or why there is none.
#[derive(Debug)]
pub struct DropReasons(Result<DropTrace, NoTrace>);

impl DropReasons {
    /// Starts one; of a recorded tree there is none.
    pub fn start(sysroot: &Sysroot) -> Self {
        DropReasons(match sysroot.is_live() {
            true => DropTrace::start().map_err(|error| match error.kind() {
                io::ErrorKind::PermissionDenied => NoTrace::NotRoot,
                _ => NoTrace::Refused(error),
            }),
            false => Err(NoTrace::Recorded),
        })
    }

    /// None, and why.
    pub fn none(why: &str) -> Self {
        DropReasons(Err(NoTrace::NotWanted(why.into())))
    }

    /// Packets by reason since the start, of the whole host; those that the trace missed as [`MISSED_BY_TRACE`].
    pub fn read(&self) -> Fact<BTreeMap<String, u64>> {
        match &self.0 {
            Ok(trace) => match trace.read() {
                Ok(mut drops) => {
                    if drops.missed > 0 {
                        drops.reasons.insert(MISSED_BY_TRACE.into(), drops.missed);
                    }
                    Fact::Known(drops.reasons)
                }
                Err(error) => Fact::unknown(format!("the trace cannot be read: {error}")),
            },
            Err(why) => Fact::unknown(why),
        }
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

    #[test]
    fn lines_of_new_and_old_kernels() {
        let text = "02de5b99 0000000a 00000002 0 0 0 0 0 0 0 00000007 0 00000003 0 0\n\n0000000c 1 2 0 0 0 0 \
                    0 0\nno line";
        let cores = parse_softnet(text).expect("counters");
        assert_eq!(cores.len(), 2);
        assert_eq!((cores[0].core, &cores[0].processed), (3, &Fact::Known(48_126_873)));
        assert_eq!((&cores[0].dropped, &cores[0].flow_limited), (&Fact::Known(10), &Fact::Known(7)));
        assert_eq!((cores[1].core, &cores[1].squeezed), (2, &Fact::Known(2)));
        assert!(cores[1].flow_limited.why().is_some());
        assert_eq!(parse_softnet("zz\n"), None);
    }

    proptest! {
        #[test]
        fn any_text_of_softnet_is_read_or_left_out(text in "[0-9a-g \n]{0,200}") {
            prop_assert!(parse_softnet(&text).is_none_or(|cores| !cores.is_empty()));
        }
    }

    #[test]
    fn a_recorded_tree_has_none() {
        let reasons = DropReasons::start(&Sysroot::recorded("/nowhere"));
        assert_eq!(reasons.read().why(), Some("a recorded tree does not hold them"));
    }
}
