//! `/proc/net/dev`: one read for all interfaces, where sysfs would be some twenty files for each.

use super::Counters;
use crate::fact::Fact;

/// More than any machine has.
const MOST_NICS: usize = 4096;

/// One interface.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NicCounters {
    pub name: String,
    /// The kernel's index; a name that went to another interface has another. 0 where it is not known.
    pub index: u32,
    pub rx_bytes: u64,
    pub rx_packets: u64,
    pub rx_errors: u64,
    /// `rx_dropped` and `rx_missed_errors` together.
    pub rx_dropped: u64,
    pub rx_fifo: u64,
    pub rx_frame: u64,
    pub multicast: u64,
    pub tx_bytes: u64,
    pub tx_packets: u64,
    pub tx_errors: u64,
    pub tx_dropped: u64,
    pub tx_fifo: u64,
    pub collisions: u64,
    pub tx_carrier: u64,
}

impl NicCounters {
    /// The counters by the names that sysfs has for them; those of the ends of a line are left out.
    pub(super) fn by_name(&self) -> Counters {
        let counters = [
            ("rx_bytes", self.rx_bytes),
            ("rx_packets", self.rx_packets),
            ("rx_errors", self.rx_errors),
            ("rx_dropped", self.rx_dropped),
            ("rx_fifo_errors", self.rx_fifo),
            ("rx_frame_errors", self.rx_frame),
            ("multicast", self.multicast),
            ("tx_bytes", self.tx_bytes),
            ("tx_packets", self.tx_packets),
            ("tx_errors", self.tx_errors),
            ("tx_dropped", self.tx_dropped),
        ];
        counters.into_iter().map(|(name, count)| (name.to_string(), Fact::Known(count))).collect()
    }
}

/// Reads the table in its order; none where it is no such table.
pub fn parse_net_dev(text: &str) -> Option<Vec<NicCounters>> {
    // A namespace may have no interface that is up: its table is the two lines of the head.
    text.starts_with("Inter-|").then(|| text.lines().skip(2).filter_map(parse_line).take(MOST_NICS).collect())
}

fn parse_line(line: &str) -> Option<NicCounters> {
    let (name, rest) = line.rsplit_once(':')?;
    let name = name.trim();
    let mut counts = [0u64; 16];
    let mut words = rest.split_ascii_whitespace();
    for count in &mut counts {
        *count = words.next()?.parse().ok()?;
    }
    super::plain(name).then(|| NicCounters {
        name: name.to_string(),
        index: 0,
        rx_bytes: counts[0],
        rx_packets: counts[1],
        rx_errors: counts[2],
        rx_dropped: counts[3],
        rx_fifo: counts[4],
        rx_frame: counts[5],
        multicast: counts[7],
        tx_bytes: counts[8],
        tx_packets: counts[9],
        tx_errors: counts[10],
        tx_dropped: counts[11],
        tx_fifo: counts[12],
        collisions: counts[13],
        tx_carrier: counts[14],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEAD: &str = "Inter-|   Receive  |  Transmit\n face |bytes packets\n";

    #[test]
    fn lines_with_and_without_a_blank() {
        let text = format!(
            "{HEAD}    lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n  eth0:307744965 1 0 0 0 0 0 0 2 3 0 0 0 \
             0 0 0\nv:1:5 1\n"
        );
        let nics = parse_net_dev(&text).expect("a table");
        assert_eq!(nics.len(), 2);
        assert_eq!((nics[0].multicast, nics[0].tx_bytes, nics[0].tx_carrier), (8, 9, 15));
        assert_eq!((nics[1].name.as_str(), nics[1].rx_bytes), ("eth0", 307_744_965));
        assert_eq!(parse_net_dev(HEAD), Some(Vec::new()));
        assert_eq!(parse_net_dev("eth0: 1"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(( ?eth[0-9é]: ?)?([0-9]{1,22} ){0,17}\n){0,8}") {
            let read = parse_net_dev(&format!("{HEAD}{text}")).expect("the head is there");
            prop_assert!(read.iter().all(|nic| !nic.name.is_empty()));
        }
    }
}
