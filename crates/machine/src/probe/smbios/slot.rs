//! Slots for cards (SMBIOS type 9): what the firmware calls them, the lanes that are wired, the generation, whether
//! something is in them (DMTF DSP0134, 7.10; the words are `dmidecode`'s).

use super::NOT_TOLD;
use crate::probe::CardSlot;
use crate::rates::pcie::GENERATIONS;
use linerate_facts::fact::Fact;

/// The bus of a slot that has none.
const NO_BUS: u8 = 0xFF;

/// What a slot's type says of a slot of PCI Express that takes a card: generation and the connector's lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlotType {
    generation: Option<u32>,
    lanes: Option<u32>,
}

/// By its code; none for another kind of slot (PCI, M.2, U.2 …).
pub(super) fn by_code(code: u8) -> Option<SlotType> {
    const LANES: [Option<u32>; 6] = [None, Some(1), Some(2), Some(4), Some(8), Some(16)];
    let (first, generation) = match code {
        // Older than the others: much firmware writes these for slots of any generation.
        0xA5..=0xAA => (0xA5, None),
        0xAB..=0xB0 => (0xAB, Some(2)),
        0xB1..=0xB6 => (0xB1, Some(3)),
        0xB8..=0xBD => (0xB8, Some(4)),
        0xBE..=0xC3 => (0xBE, Some(5)),
        // Generation 6 and beyond, any width.
        0xC4 => (0xC4, None),
        _ => return None,
    };
    Some(SlotType { generation, lanes: LANES[usize::from(code - first)] })
}

/// The width of the slot's data bus by its code: lanes that are wired.
pub(super) fn lanes_by_code(code: u8) -> Option<u32> {
    const LANES: [u32; 7] = [1, 2, 4, 8, 12, 16, 32];
    LANES.get(usize::from(code).checked_sub(8)?).copied()
}

/// Wired lanes and type by `dmidecode`'s words: `x8 PCI Express 3 x16`, `x4 PCI Express`.
pub(super) fn by_words(words: &str) -> Option<(Option<u32>, SlotType)> {
    let (width, rest) = words.split_once("PCI Express")?;
    let mut found = SlotType { generation: None, lanes: None };
    for word in rest.split_ascii_whitespace() {
        match (word.strip_prefix('x'), word.trim_end_matches('+').parse()) {
            (Some(lanes), _) => found.lanes = Some(lanes.parse().ok()?),
            (None, Ok(generation)) if generation < 6 => found.generation = Some(generation),
            (None, Ok(_)) => {}
            // A mini card, a drive's bay.
            (None, Err(_)) => return None,
        }
    }
    Some((width.trim().strip_prefix('x').and_then(|lanes| lanes.parse().ok()), found))
}

/// What else is printed of a slot.
pub(super) struct SlotFacts {
    pub(super) designation: String,
    pub(super) number: Option<u32>,
    pub(super) wired: Option<u32>,
    /// Since SMBIOS 3.4, beside a type that has none.
    pub(super) generation: Option<u32>,
    /// None: unknown, or the slot cannot be used (its processor is missing).
    pub(super) in_use: Option<bool>,
    /// Segment, bus, device and function.
    pub(super) address: Option<(u16, u8, u8)>,
}

impl SlotType {
    /// The slot of this type.
    pub(super) fn slot(self, facts: SlotFacts) -> CardSlot {
        let generation = self.generation.or(facts.generation);
        let speed = GENERATIONS.iter().find(|one| Some(one.number) == generation);
        // The host bridge is not a slot: firmware leaves the address at 0.
        let address = facts.address.filter(|(_, bus, at)| *bus != NO_BUS && (*bus, *at) != (0, 0));
        CardSlot {
            designation: facts.designation,
            number: Fact::from_option(facts.number, NOT_TOLD),
            lanes: Fact::from_option(
                facts.wired.or(self.lanes).filter(|lanes| (1..=32).contains(lanes)),
                NOT_TOLD,
            ),
            gt_per_second: Fact::from_option(speed.map(|one| one.gt_per_second), NOT_TOLD),
            in_use: Fact::from_option(facts.in_use, NOT_TOLD),
            address: Fact::from_option(
                address
                    .map(|(segment, bus, at)| format!("{segment:04x}:{bus:02x}:{:02x}.{}", at >> 3, at & 7)),
                NOT_TOLD,
            ),
        }
    }
}

/// `0000:3b:00.0` as segment, bus, device and function.
pub(super) fn address(text: &str) -> Option<(u16, u8, u8)> {
    let (card, function) = text.split_once('.')?;
    let mut parts = card.split(':');
    let mut hex = || u16::from_str_radix(parts.next()?, 16).ok();
    let (segment, bus, device) = (hex()?, u8::try_from(hex()?).ok()?, u8::try_from(hex()?).ok()?);
    let function: u8 = function.parse().ok()?;
    (device < 32 && function < 8).then_some((segment, bus, device << 3 | function))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_by_code_and_by_words_are_the_same() {
        for (code, words) in [
            (0xA5, "PCI Express"),
            (0xA9, "PCI Express x8"),
            (0xAF, "PCI Express 2 x8"),
            (0xB1, "PCI Express 3"),
            (0xB6, "PCI Express 3 x16"),
            (0xB8, "PCI Express 4"),
            (0xC3, "PCI Express 5 x16"),
            (0xC4, "PCI Express 6+"),
        ] {
            assert_eq!(by_words(words).map(|(_, kind)| kind), by_code(code), "{words}");
        }
        assert_eq!(by_words("x8 PCI Express 3 x16").and_then(|(wired, _)| wired), Some(8));
        assert_eq!(by_words("64-bit PCI Express").and_then(|(wired, _)| wired), None);
        assert_eq!((lanes_by_code(0x0B), lanes_by_code(0x0D), lanes_by_code(5)), (Some(8), Some(16), None));
        for other in [
            "x4 PCI Express 3 SFF-8639 (U.2)",
            "x1 PCI Express Mini 52-pin",
            "32-bit PCI",
            "x4 M.2 Socket 3",
            "",
        ] {
            assert_eq!(by_words(other), None, "{other}");
        }
        assert!([0, 6, 0x17, 0xA4, 0xB7, 0xC5, 0xFF].iter().all(|code| by_code(*code).is_none()));
    }

    #[test]
    fn addresses() {
        assert_eq!(address("0000:3b:1f.7"), Some((0, 0x3b, 0xff)));
        for wrong in ["", "3b:00.0", "0000:3b:20.0", "0000:3b:00.8", "0000:3b:00", "0000:3b3:00.0"] {
            assert_eq!(address(wrong), None, "{wrong}");
        }
    }
}
