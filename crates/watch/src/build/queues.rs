//! What the driver of an interface counts; interrupts by device, and the queues of an interface: what the
//! driver counts of them, what their interrupts do.

use super::Readings;
use super::host::since;
use crate::model::{IrqLine, NamedCounter, NicQueue};
use crate::sources::{Details, DriverReading};
use linerate_facts::counters::rates::{Elapsed, rounded};
use linerate_facts::counters::{Counters, InterfaceCounters, Interrupts};
use linerate_facts::wording::in_order;
use std::collections::BTreeMap;

/// Interrupts of no NIC and no disk: the busiest so many.
const MOST_OTHERS: usize = 16;
/// Lines in all.
const MOST_LINES: usize = 1024;
/// Cores that are shown of one interrupt.
const MOST_CORES: usize = 8;

/// Those of NICs and disks, and the busiest others; busiest first.
pub(crate) fn irqs(both: &Readings<Interrupts>, details: &Details) -> Vec<IrqLine> {
    let owners = owners(details);
    let mut others = 0;
    let mut found: Vec<IrqLine> =
        (0..both.now.lines.len()).filter_map(|index| line(both, index, &owners)).collect();
    found.sort_by(|a, b| {
        let rate = |line: &IrqLine| line.per_second.unwrap_or(0.0);
        rate(b).total_cmp(&rate(a)).then_with(|| in_order(&a.number, &b.number))
    });
    found.retain(|line| {
        others += usize::from(line.device.is_none());
        line.device.is_some() || others <= MOST_OTHERS && line.per_second.is_none_or(|rate| rate > 0.0)
    });
    found.truncate(MOST_LINES);
    found
}

fn line(both: &Readings<Interrupts>, index: usize, owners: &[(String, String)]) -> Option<IrqLine> {
    let now = both.now.lines.get(index)?;
    let since = since(both, index);
    let (mut per_second, mut by_core) = (None, Vec::new());
    if let Some((span, counts)) = since {
        let known: Option<Vec<u64>> = counts.iter().copied().collect();
        per_second = known.map(|counts| rounded(counts.iter().sum::<u64>() as f64 / span.seconds()));
        let cores = both.now.cores.iter().zip(&counts);
        by_core = cores
            .filter_map(|(core, count)| {
                count.filter(|count| *count > 0).map(|count| (*core, rounded(count as f64 / span.seconds())))
            })
            .collect();
        by_core.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        by_core.truncate(MOST_CORES);
    }
    let device = owners.iter().find(|(word, _)| belongs(&now.name, word)).map(|(_, device)| device.clone());
    Some(IrqLine {
        number: now.number.clone(),
        name: now.name.clone(),
        per_second,
        by_core,
        device,
        total: now.counts.iter().fold(0, |sum, count| sum.saturating_add(*count)),
    })
}

/// Words that name a device in the names of its interrupts, the longest first: the interface itself
/// (`eth0-TxRx-3`), its PCI function (`mlx5_comp3@pci:0000:17:00.0`), its device on its bus
/// (`virtio2-input.0`, `nvme0q5`).
fn owners(details: &Details) -> Vec<(String, String)> {
    let mut owners = Vec::new();
    for (name, nic) in &details.nics {
        let words = [Some(name), nic.pci.as_ref(), nic.bus_name.as_ref()];
        owners.extend(words.into_iter().flatten().map(|word| (word.clone(), name.clone())));
    }
    for (name, disk) in details.disks.iter().filter(|(_, disk)| !disk.partition) {
        owners.extend(disk.bus_name.iter().map(|word| (word.clone(), name.clone())));
    }
    owners.sort_by(|a, b| b.0.len().cmp(&a.0.len()).then_with(|| a.cmp(b)));
    owners.dedup();
    owners
}

/// A word within a name, not within another word: `eth1` is not in `eth10-rx`.
fn belongs(name: &str, word: &str) -> bool {
    name.match_indices(word).any(|(at, _)| {
        let before = name[..at].chars().next_back();
        let after = name[at + word.len()..].chars().next();
        !before.is_some_and(|c| c.is_ascii_alphanumeric()) && !after.is_some_and(|c| c.is_ascii_digit())
    })
}

/// One interface's, by their numbers.
pub(crate) fn queues(name: &str, driver: Option<&Driver>, irqs: &[IrqLine]) -> Vec<NicQueue> {
    let mut found: BTreeMap<u32, NicQueue> = BTreeMap::new();
    for one in driver.into_iter().flat_map(Driver::rates) {
        let Some((number, receives, what)) = queue_counter(&one.name) else { continue };
        let queue = found.entry(number).or_insert_with(|| NicQueue {
            name: number.to_string(),
            source: "ethtool".into(),
            ..NicQueue::default()
        });
        let place = match (what, receives) {
            (What::Packets, true) => &mut queue.receive_packets_per_second,
            (What::Packets, false) => &mut queue.send_packets_per_second,
            (What::Bytes, true) => &mut queue.receive_bytes_per_second,
            (What::Bytes, false) => &mut queue.send_bytes_per_second,
            (What::Drops, _) => &mut queue.drops_per_second,
        };
        // Both ways count into the drops.
        *place = match what {
            What::Drops => linerate_facts::counters::rates::sum([*place, one.per_second]),
            _ => one.per_second,
        };
    }
    for irq in irqs.iter().filter(|irq| irq.device.as_deref() == Some(name)) {
        let Some(number) = queue_of_irq(&irq.name) else { continue };
        let queue = found
            .entry(number)
            .or_insert_with(|| NicQueue { name: number.to_string(), ..NicQueue::default() });
        queue.interrupts_per_second =
            linerate_facts::counters::rates::sum([queue.interrupts_per_second, irq.per_second]);
        queue.core = queue.core.or(irq.by_core.first().map(|(core, _)| *core));
        queue.source = match queue.source.as_str() {
            "" | "interrupts" => "interrupts",
            _ => "ethtool and interrupts",
        }
        .into();
    }
    found.into_values().collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Packets,
    Bytes,
    Drops,
}

/// Reads the names that drivers give the counters of a queue: number, whether it receives, what it counts.
/// `rx_queue_3_packets` (ixgbe, igb, virtio_net), `rx3_bytes` (mlx5), `rx-3.packets` (i40e), `[3]:
/// rx_ucast_packets` (bnxt_en), `queue_3_tx_cnt` (ena), `rx_bytes[3]` (gve).
fn queue_counter(name: &str) -> Option<(u32, bool, What)> {
    let (mut number, mut receives, mut what) = (None, None, None);
    let name = name.to_ascii_lowercase();
    for word in name_parts(&name) {
        match word {
            "rx" if receives != Some(false) => receives = Some(true),
            "tx" if receives != Some(true) => receives = Some(false),
            "packets" | "cnt" | "pkts" if what.is_none() => what = Some(What::Packets),
            "bytes" if what.is_none() => what = Some(What::Bytes),
            "drops" | "drop" | "dropped" if what.is_none() => what = Some(What::Drops),
            "queue" | "ucast" | "q" => {}
            digits if number.is_none() && digits.starts_with(|c: char| c.is_ascii_digit()) => {
                number = Some(digits.parse().ok().filter(|number| *number < 4096)?);
            }
            // Something finer: `rx3_csum_complete`, `tx0_xdp_xmit`.
            _ => return None,
        }
    }
    Some((number?, receives?, what?))
}

/// Letters and digits, each by themselves.
fn name_parts(name: &str) -> impl Iterator<Item = &str> {
    name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| !part.is_empty()).flat_map(|part| {
        let digit = part.find(|c: char| c.is_ascii_digit()).unwrap_or(part.len());
        let (letters, digits) = part.split_at(digit);
        [letters, digits].into_iter().filter(|word| !word.is_empty())
    })
}

/// The last number in the name of a queue's interrupt, before an address behind it: `mlx5_comp3@pci:…`,
/// `virtio2-input.0`, `eth0-TxRx-3`.
fn queue_of_irq(name: &str) -> Option<u32> {
    let name = name.split('@').next()?;
    let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let number = name[name.len() - digits..].parse().ok()?;
    // `virtio2` and `eth0` alone are not queues.
    let letters = name[..name.len() - digits].to_ascii_lowercase();
    let queue = ["comp", "txrx", "rx", "tx", "input", "output", "queue", "q", "ring", "ch", "fp"];
    let letters = letters.trim_end_matches(['-', '.', '_']);
    queue.iter().any(|word| letters.ends_with(word)).then_some(number)
}

/// Words in the names of drivers' counters that tell of a loss, or of what leads to one.
const LOSS_WORDS: &str = "drop err discard miss pause no_buf nobuf out_of_buffer overrun fifo crc timeout";
/// Lines of one interface's driver.
const MOST_NAMED: usize = 64;

/// Two readings of the drivers.
pub(crate) type DriverPair<'a> = (Option<&'a DriverReading>, Option<&'a DriverReading>);

/// What one interface's driver counted, now and before.
pub(crate) struct Driver<'a> {
    now: &'a Counters,
    before: Option<(&'a Counters, Elapsed)>,
}

impl<'a> Driver<'a> {
    pub(crate) fn of((before, now): DriverPair<'a>, name: &str) -> Option<Self> {
        let now = now?;
        let own =
            |interface: &'a InterfaceCounters| (interface.name == name).then_some(interface.driver.known()?);
        let counters = now.interfaces.iter().find_map(own)?;
        let before = before.and_then(|before| {
            Some((before.interfaces.iter().find_map(own)?, Elapsed::between(before.at, now.at)?))
        });
        Some(Driver { now: counters, before })
    }

    /// All that are not 0, with their rates.
    pub(crate) fn rates(&self) -> impl Iterator<Item = NamedCounter> + '_ {
        self.now.iter().filter_map(|(name, value)| {
            let total = *value.known()?;
            // Those of 0 are not kept: what is missing before was 0.
            let rate = self.before.and_then(|(before, span)| {
                let earlier = before.get(name).map_or(Some(0), |value| value.known().copied())?;
                span.rate(earlier, total)
            });
            Some(NamedCounter { name: name.clone(), per_second: rate, total })
        })
    }

    /// Those of losses, the fastest first.
    pub(crate) fn losses(&self) -> Vec<NamedCounter> {
        let tells = |name: &str| {
            let name = name.to_ascii_lowercase();
            LOSS_WORDS.split(' ').any(|word| name.contains(word))
        };
        let mut found: Vec<NamedCounter> = self.rates().filter(|one| tells(&one.name)).collect();
        found.sort_by(|a, b| {
            let rate = |one: &NamedCounter| one.per_second.unwrap_or(0.0);
            rate(b).total_cmp(&rate(a)).then(b.total.cmp(&a.total)).then_with(|| a.name.cmp(&b.name))
        });
        found.truncate(MOST_NAMED);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_of_queues_of_many_drivers() {
        for (name, expected) in [
            ("rx_queue_3_packets", Some((3, true, What::Packets))),
            ("tx_queue_0_bytes", Some((0, false, What::Bytes))),
            ("rx12_packets", Some((12, true, What::Packets))),
            ("rx-3.packets", Some((3, true, What::Packets))),
            ("[5]: rx_ucast_packets", Some((5, true, What::Packets))),
            ("queue_7_tx_cnt", Some((7, false, What::Packets))),
            ("rx_bytes[2]", Some((2, true, What::Bytes))),
            ("rx_queue_1_drops", Some((1, true, What::Drops))),
            ("rx3_csum_complete", None),
            ("tx_queue_0_xdp_xmit", None),
            ("rx_packets", None),
            ("rx_65_to_127_bytes", None),
            ("port.rx_bytes", None),
        ] {
            assert_eq!(queue_counter(name), expected, "{name}");
        }
    }

    #[test]
    fn names_of_interrupts() {
        for (name, expected) in [
            ("mlx5_comp3@pci:0000:17:00.0", Some(3)),
            ("virtio2-input.0", Some(0)),
            ("i40e-eth0-TxRx-11", Some(11)),
            ("eth0-rx-1", Some(1)),
            ("eth0", None),
            ("mlx5_async0@pci:0000:17:00.0", None),
            ("virtio2-config", None),
        ] {
            assert_eq!(queue_of_irq(name), expected, "{name}");
        }
        assert!(
            belongs("eth1-rx-0", "eth1") && !belongs("eth10-rx-0", "eth1") && !belongs("veth1-rx", "eth1")
        );
        assert!(belongs("nvme0q5", "nvme0") && !belongs("nvme01q5", "nvme0"));
    }

    proptest! {
        #[test]
        fn any_name_is_a_queue_or_none(name in "(rx|tx|[0-9]{1,5}|_|-|packets|bytes|queue|é|@|\\[|\\]){0,8}") {
            let _ = queue_counter(&name);
            let _ = queue_of_irq(&name);
            let _ = belongs(&name, "rx");
        }
    }
}
