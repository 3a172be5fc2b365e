//! `/proc/net/softnet_stat`: what the softirq of each CPU took, dropped and had to leave
//! (`softnet_seq_show` in `net/core/net-procfs.c`).

use crate::fact::Fact;
use crate::sysroot::Sysroot;
use serde::{Deserialize, Serialize};

const PATH: &str = "/proc/net/softnet_stat";
/// More CPUs than the kernel can be built for.
const MOST_CORES: usize = 8192;

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

pub(super) fn read(sysroot: &Sysroot) -> Fact<Vec<SoftnetCounters>> {
    let holds = |text: String| Fact::from_option(parse(&text), format!("{PATH}: holds no counters"));
    sysroot.fact(PATH).and_then(holds)
}

/// One line of hexadecimal words a CPU: processed, dropped, squeezed, …, flow limit as the eleventh,
/// the CPU as the thirteenth.
pub fn parse(text: &str) -> Option<Vec<SoftnetCounters>> {
    let found: Vec<SoftnetCounters> =
        text.lines().zip(0u32..).filter_map(parse_line).take(MOST_CORES).collect();
    (!found.is_empty()).then_some(found)
}

fn parse_line((line, number): (&str, u32)) -> Option<SoftnetCounters> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_of_new_and_old_kernels() {
        let text = "02de5b99 0000000a 00000002 0 0 0 0 0 0 0 00000007 0 00000003 0 0\n\n0000000c 1 2 0 0 0 0 \
                    0 0\nno line";
        let cores = parse(text).expect("counters");
        assert_eq!(cores.len(), 2);
        assert_eq!((cores[0].core, &cores[0].processed), (3, &Fact::Known(48_126_873)));
        assert_eq!((&cores[0].dropped, &cores[0].flow_limited), (&Fact::Known(10), &Fact::Known(7)));
        assert_eq!((cores[1].core, &cores[1].squeezed), (2, &Fact::Known(2)));
        assert!(cores[1].flow_limited.why().is_some());
        assert_eq!(parse("zz\n"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_left_out(text in "[0-9a-g \n]{0,200}") {
            prop_assert!(parse(&text).is_none_or(|cores| !cores.is_empty()));
        }
    }
}
