//! All that a text says of one function, and the function that comes of it.

use super::head::{self, Head};
use super::verbose::VerboseFacts;
use crate::probe::machine::{Express, PciDevice, PciLink};
use crate::probe::pci::address::{Buses, hexadecimal};
use crate::probe::pci::config::{self, CONFIG_BYTES, ConfigSpace};
use crate::probe::pci::parallel;
use linerate_facts::fact::Fact;

/// What was read of one function, in however many places of the text.
#[derive(Clone, Debug, Default)]
pub(super) struct Block {
    head: Head,
    words: VerboseFacts,
    /// Hex dump, as far as it goes without a gap.
    bytes: Vec<u8>,
    /// Buses behind it, as the tree draws them.
    drawn: Option<Buses>,
}

impl Block {
    /// The rest of a first line. What an earlier one had and this one has not, stays.
    pub(super) fn head(&mut self, rest: &str) {
        self.head = head::parse(rest).or(std::mem::take(&mut self.head));
    }

    /// One line below the first, without its indentation.
    pub(super) fn line(&mut self, line: &str) {
        match dump_line(line) {
            Some((0, bytes)) => self.bytes = bytes,
            Some((at, mut bytes)) if at == self.bytes.len() && at < CONFIG_BYTES => {
                self.bytes.append(&mut bytes);
            }
            Some(_) => {}
            None => self.words.line(line),
        }
    }

    /// Its name in the tree, and the buses behind it.
    pub(super) fn drawn(&mut self, name: &str, buses: Option<Buses>) {
        self.head = std::mem::take(&mut self.head).or(head::named(name));
        self.drawn = buses.or(self.drawn);
    }

    /// Buses behind it, where it is a bridge: from its bytes, its words, or the tree.
    pub(super) fn buses(&self) -> Option<Buses> {
        self.config().and_then(|config| config.buses).or(self.words.buses).or(self.drawn)
    }

    fn config(&self) -> Option<ConfigSpace> {
        (!self.bytes.is_empty()).then(|| config::decode(&self.bytes))
    }

    /// The function, bytes before words.
    pub(super) fn finish(self, address: String, parent: Option<String>) -> PciDevice {
        let why = self.words.why_missing();
        let words_on_parallel = self.words.parallel();
        let config = self.config().unwrap_or_else(|| ConfigSpace::unreadable(why));
        let words = self.words;
        let express = config.express;
        // A tree draws names alone.
        let by_name = || super::class::of_device(self.head.name.as_deref()?).map(|code| code << 8);
        let class = self.head.class.or_else(by_name);
        PciDevice {
            address,
            class: either(config.class, Some(Fact::from_option(class, NAME_ONLY))),
            vendor: either(config.vendor, Some(Fact::from_option(self.head.vendor, NAME_ONLY))),
            device: either(config.device, Some(Fact::from_option(self.head.device, NAME_ONLY))),
            driver: Fact::from_option(words.driver, "lspci reported no driver"),
            node: Fact::from_option(words.node, "lspci reported no NUMA node"),
            name: Fact::from_option(self.head.name, "lspci reported no name"),
            card_name: words.card_name,
            link: either(config.link, words.link),
            link_max: either(config.link_max, words.link_max.map(|most| capped(most, words.fastest))),
            express: Express {
                port: either(express.port, words.port),
                max_payload_bytes: either(express.max_payload_bytes, words.max_payload),
                max_payload_supported_bytes: either(
                    express.max_payload_supported_bytes,
                    words.max_payload_supported,
                ),
                max_read_request_bytes: either(express.max_read_request_bytes, words.max_read_request),
                power_saving: either(express.power_saving, words.power_saving),
                slot: either(either(express.slot, words.slot), words.in_slot),
                target_gt_per_second: either(express.target_gt_per_second, words.target),
                autonomous_change: either(express.autonomous_change, words.autonomous_change),
            },
            gpu_direct: None,
            parallel: parallel::real(either(config.parallel, words_on_parallel), parent.is_some()),
            parallel_below: either(config.parallel_below, words.parallel_below),
            parent,
        }
    }
}

const NAME_ONLY: &str = "only its name is given: lspci -nn shows the number";

/// The most that an end can do, where its list of speeds ends below its highest speed.
fn capped(most: Fact<PciLink>, fastest: Option<f64>) -> Fact<PciLink> {
    most.map(|most| PciLink { gt_per_second: most.gt_per_second.min(fastest.unwrap_or(f64::MAX)), ..most })
}

/// What the bytes say, else what the words say, else why the bytes do not.
fn either<T>(bytes: Fact<T>, fact: Option<Fact<T>>) -> Fact<T> {
    match bytes {
        Fact::Known(_) => bytes,
        Fact::Unknown { .. } => fact.unwrap_or(bytes),
    }
}

/// Offset and bytes of a line of a dump: `40: 10 e0 42 00 …`, at most sixteen.
fn dump_line(line: &str) -> Option<(usize, Vec<u8>)> {
    let (offset, rest) = line.split_once(": ")?;
    let offset = hexadecimal(offset, 2..=8)?;
    let byte = |word: &str| u8::try_from(hexadecimal(word, 2..=2)?).ok();
    let bytes: Option<Vec<u8>> = rest.split_ascii_whitespace().take(16).map(byte).collect();
    Some((usize::try_from(offset).ok()?, bytes?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_dump() {
        assert_eq!(dump_line("40: 10 e0 42"), Some((0x40, vec![0x10, 0xe0, 0x42])));
        assert_eq!(dump_line("100: 01"), Some((0x100, vec![1])));
        for line in ["40: 10 e0 4", "40: zz", "4: 10", "Bus: primary=00", "40 10"] {
            assert_eq!(dump_line(line), None, "{line}");
        }
    }

    #[test]
    fn a_dump_with_a_gap_ends_there() {
        let mut block = Block::default();
        for line in ["00: 86 80", "02: 05 34", "10: ff", "04: 01"] {
            block.line(line);
        }
        assert_eq!(block.bytes, [0x86, 0x80, 0x05, 0x34, 0x01]);
        block.line("00: de 10");
        assert_eq!(block.bytes, [0xde, 0x10], "the same function again");
    }
}
