//! The SMBIOS table from bytes: its entry point, its structures, their strings (DMTF DSP0134, sections 5.2 and
//! 6.1), and types 0, 1, 4, 9, 16 and 17 (chapter 7; offsets are those of its tables). The words of type 17 are spelt as
//! `dmidecode` spells them; what firmware writes where it has nothing to say counts as nothing.

use super::slot::{self, SlotFacts};
use super::{Firmware, FirmwareError, NOT_TOLD, by_identity, part};
use crate::probe::{CardSlot, MemoryArray, MemoryModule, Socket};
use linerate_facts::fact::Fact;

/// Structures have 16-bit handles, so there are no more.
const MOST_STRUCTURES: usize = 1 << 16;
/// Structure type that ends the table.
const END_OF_TABLE: u8 = 127;
/// Where `dmidecode --dump-bin` puts the table behind the entry point.
const TABLE_IN_DUMP: usize = 0x20;
/// Longer strings are cut: the specification allowed 64 characters until version 3.
pub(super) const LONGEST_STRING: usize = 256;

/// Kinds of memory (DSP0134, 7.18.2), from code 1 on.
const KINDS: &str = include_str!("memory_kinds.txt");

/// Form factors (DSP0134, 7.18.1), from code 1 on.
const FORMS: &str = include_str!("memory_forms.txt");

/// Reads a table of bytes.
pub(super) fn read(bytes: &[u8]) -> Result<Firmware, FirmwareError> {
    let table = read_table(bytes)?;
    let mut firmware = Firmware { damage: table.damage, ..Default::default() };
    for structure in &table.structures {
        match structure.kind {
            0 | 2 => firmware.add_builder(&text(structure, 0x04)),
            1 if firmware.maker.is_empty() && firmware.product.is_empty() => {
                firmware.maker = text(structure, 0x04);
                firmware.product = text(structure, 0x05);
            }
            4 => firmware.add_socket(socket(structure))?,
            9 => firmware.add_slot(card_slot(structure))?,
            16 => firmware.add_array(array(structure))?,
            17 => firmware.add_module(module(structure))?,
            _ => {}
        }
    }
    firmware.hypervisor = by_identity(&firmware);
    Ok(firmware)
}

/// A processor socket; `None` for what is not a central processor.
fn socket(from: &Structure) -> Option<Socket> {
    const CENTRAL_PROCESSOR: u8 = 3;
    (from.byte(0x05)? == CENTRAL_PROCESSOR).then(|| Socket {
        designation: text(from, 0x04),
        populated: from.byte(0x18).is_some_and(|status| status & 0x40 != 0),
        version: Fact::from_option(from.string(0x10).as_deref().and_then(stated).map(String::from), NOT_TOLD),
        max_mhz: above_zero(from.word(0x14).map(u32::from)),
        current_mhz: above_zero(from.word(0x16).map(u32::from)),
        cores: count(from, 0x23, 0x2A),
        cores_enabled: count(from, 0x24, 0x2C),
        threads: count(from, 0x25, 0x2E),
        ..Default::default()
    })
}

/// A count of one byte, or of the word that holds it where 255 is too small (SMBIOS 3.0).
fn count(from: &Structure, at: usize, wide_at: usize) -> Fact<u32> {
    above_zero(match from.byte(at) {
        Some(0xFF) => from.word(wide_at).or(Some(0xFF)).map(u32::from),
        small => small.map(u32::from),
    })
}

/// A slot for cards; `None` for one that is not of PCI Express.
fn card_slot(from: &Structure) -> Option<CardSlot> {
    const AVAILABLE: u8 = 3;
    const IN_USE: u8 = 4;
    let kind = slot::by_code(from.byte(0x05)?)?;
    let peers = from.byte(0x12).map_or(0, usize::from);
    let generation = from.byte(0x13 + 5 * peers).map(u32::from);
    Some(kind.slot(SlotFacts {
        designation: text(from, 0x04),
        number: from.word(0x09).map(u32::from).filter(|number| *number > 0),
        wired: slot::lanes_by_code(from.byte(0x06)?),
        generation,
        in_use: match from.byte(0x07)? {
            AVAILABLE => Some(false),
            IN_USE => Some(true),
            _ => None,
        },
        address: (|| Some((from.word(0x0D)?, from.byte(0x0F)?, from.byte(0x10)?)))(),
    }))
}

/// Slots of system memory; `None` for cache, flash and the like.
fn array(from: &Structure) -> Option<MemoryArray> {
    const SYSTEM_MEMORY: u8 = 3;
    (from.byte(0x05)? == SYSTEM_MEMORY).then(|| {
        let max_bytes = match from.dword(0x07) {
            Some(0x8000_0000) => from.qword(0x0F),
            kilobytes => kilobytes.map(|kilobytes| u64::from(kilobytes) * 1024),
        };
        MemoryArray {
            handle: from.handle.into(),
            max_bytes: Fact::from_option(max_bytes.filter(|bytes| *bytes > 0), NOT_TOLD),
            slots: above_zero(from.word(0x0D).map(u32::from)),
        }
    })
}

/// A slot; `None` for the firmware's own chip.
fn module(from: &Structure) -> Option<MemoryModule> {
    let kind = kind_in_words(from.byte(0x12).unwrap_or(0));
    let width = |at| above_zero(from.word(at).filter(|width| *width != 0xFFFF).map(u32::from));
    (!holds_firmware(kind)).then(|| MemoryModule {
        locator: text(from, 0x10),
        bank: text(from, 0x11),
        size_bytes: size(from),
        kind: kind.into(),
        form: form_in_words(from.byte(0x0E).unwrap_or(0)).into(),
        rated_mt_per_second: speed(from, 0x15, 0x54),
        configured_mt_per_second: speed(from, 0x20, 0x58),
        data_width_bits: width(0x0A),
        total_width_bits: width(0x08),
        rank: above_zero(from.byte(0x1B).map(|attributes| u32::from(attributes & 0x0F))),
        part: part(from.string(0x17).as_deref(), from.string(0x1A).as_deref()),
        array: Fact::from_option(from.word(0x04).map(u32::from), NOT_TOLD),
        ..Default::default()
    })
}

/// Size in bytes: megabytes or kilobytes in a word, or megabytes in a double word where the word is too
/// small.
fn size(from: &Structure) -> Fact<u64> {
    let bytes = match from.word(0x0C) {
        Some(0xFFFF) | None => None,
        Some(0x7FFF) => match from.dword(0x1C) {
            Some(megabytes) => Some(u64::from(megabytes & 0x7FFF_FFFF) << 20),
            None => Some(0x7FFF << 20),
        },
        Some(code) if code & 0x8000 != 0 => Some(u64::from(code & 0x7FFF) << 10),
        Some(megabytes) => Some(u64::from(megabytes) << 20),
    };
    Fact::from_option(bytes, NOT_TOLD)
}

/// Mega-transfers per second: a word, or the double word of SMBIOS 3.3 where the word is too small.
fn speed(from: &Structure, at: usize, wide_at: usize) -> Fact<u32> {
    above_zero(match from.word(at) {
        Some(0xFFFF) => from.dword(wide_at).map(|speed| speed & 0x7FFF_FFFF),
        speed => speed.map(u32::from),
    })
}

fn above_zero(value: Option<u32>) -> Fact<u32> {
    Fact::from_option(value.filter(|value| *value > 0), NOT_TOLD)
}

/// A string, empty where it says nothing.
fn text(from: &Structure, at: usize) -> String {
    from.string(at).as_deref().and_then(stated).unwrap_or_default().into()
}

/// One structure: header and formatted area, then its strings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Structure<'a> {
    pub(super) kind: u8,
    pub(super) handle: u16,
    /// Formatted area from the header's first byte on: offsets are those of the specification.
    area: &'a [u8],
    strings: &'a [u8],
}

impl Structure<'_> {
    fn array<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.area.get(at..at.checked_add(N)?)?.try_into().ok()
    }

    pub(super) fn byte(&self, at: usize) -> Option<u8> {
        self.area.get(at).copied()
    }

    pub(super) fn word(&self, at: usize) -> Option<u16> {
        self.array(at).map(u16::from_le_bytes)
    }

    fn dword(&self, at: usize) -> Option<u32> {
        self.array(at).map(u32::from_le_bytes)
    }

    fn qword(&self, at: usize) -> Option<u64> {
        self.array(at).map(u64::from_le_bytes)
    }

    /// The string whose number is at an offset; `None` where the number is 0 (not specified) or has no
    /// string.
    pub(super) fn string(&self, at: usize) -> Option<String> {
        let number = usize::from(self.byte(at)?);
        let bytes = self.strings.split(|byte| *byte == 0).nth(number.checked_sub(1)?)?;
        let text = String::from_utf8_lossy(bytes.get(..LONGEST_STRING).unwrap_or(bytes)).trim().to_string();
        (!bytes.is_empty()).then_some(text)
    }
}

/// The structures of a table in their order, and what is broken behind them, if anything.
#[derive(Debug)]
pub(super) struct Table<'a> {
    pub(super) structures: Vec<Structure<'a>>,
    pub(super) damage: Option<String>,
}

/// Reads a bare table, or one behind its entry point as `dmidecode --dump-bin` writes it.
fn read_table(bytes: &[u8]) -> Result<Table<'_>, FirmwareError> {
    let table = match entry_point(bytes) {
        Some(length) => {
            let table = bytes.get(TABLE_IN_DUMP..).unwrap_or_default();
            // Old firmware announces the exact length, new firmware a bound: the bytes end first or the end
            // marker does.
            table.get(..length).unwrap_or(table)
        }
        None => bytes,
    };
    let read = walk(table);
    if read.structures.is_empty() {
        let cause = match (bytes.is_empty(), read.damage) {
            (true, _) => "it is empty (recorded without root?)".into(),
            (false, Some(damage)) => damage,
            (false, None) => "it has no structure".into(),
        };
        return Err(FirmwareError::NoStructure(cause));
    }
    Ok(read)
}

/// The announced length of the table, where the bytes begin with an entry point (section 5.2; `_DMI_` is its
/// older tail alone). An entry point that breaks off announces nothing.
fn entry_point(bytes: &[u8]) -> Option<usize> {
    let word =
        |at: usize| bytes.get(at..at + 2).map_or(0, |word| usize::from(word[0]) | usize::from(word[1]) << 8);
    if bytes.starts_with(b"_SM3_") {
        Some(word(0x0C) | word(0x0E) << 16)
    } else if bytes.starts_with(b"_SM_") {
        Some(word(0x16))
    } else if bytes.starts_with(b"_DMI_") {
        Some(word(0x06))
    } else {
        None
    }
}

fn walk(table: &[u8]) -> Table<'_> {
    let mut structures = Vec::new();
    let mut at = 0;
    let mut damage = None;
    while let Some(header) = table.get(at..at + 4).filter(|_| structures.len() < MOST_STRUCTURES) {
        let (kind, length) = (header[0], usize::from(header[1]));
        if length < 4 {
            damage = Some(format!("the structure at byte {at} claims {length} bytes"));
            break;
        }
        let Some(area) = table.get(at..at + length) else {
            damage = Some(format!("the structure at byte {at} claims {length} bytes, which are not there"));
            break;
        };
        // Strings end with an empty one; a structure without strings has two zero bytes, too.
        let rest = &table[at + length..];
        let end = rest.windows(2).position(|pair| pair == [0, 0]);
        if end.is_none() && kind != END_OF_TABLE {
            damage = Some(format!("the strings of the structure at byte {at} do not end"));
        }
        let strings = &rest[..end.unwrap_or(rest.len())];
        let handle = u16::from_le_bytes([header[2], header[3]]);
        structures.push(Structure { kind, handle, area, strings });
        let Some(end) = end.filter(|_| kind != END_OF_TABLE) else { break };
        at += length + end + 2;
    }
    Table { structures, damage }
}

/// Kind of memory by its code.
fn kind_in_words(code: u8) -> &'static str {
    by_code(KINDS, code)
}

/// Form factor by its code.
fn form_in_words(code: u8) -> &'static str {
    by_code(FORMS, code)
}

fn by_code(names: &'static str, code: u8) -> &'static str {
    usize::from(code).checked_sub(1).and_then(|at| names.lines().nth(at)).unwrap_or("<OUT OF SPEC>")
}

/// The chip of the firmware itself is listed among the memory devices; it is no memory of the machine.
pub(super) fn holds_firmware(kind: &str) -> bool {
    matches!(kind, "Flash" | "ROM")
}

/// What a string says; nothing where it only fills the place.
pub(super) fn stated(text: &str) -> Option<&str> {
    const FILLERS: [&str; 13] = [
        "not specified",
        "unknown",
        "no dimm",
        "none",
        "n/a",
        "empty",
        "undefined",
        "not available",
        "not present",
        "default string",
        "to be filled by o.e.m.",
        "<bad index>",
        "<out of spec>",
    ];
    let text = text.trim();
    let filler = FILLERS.iter().any(|filler| text.eq_ignore_ascii_case(filler));
    (!text.is_empty() && !filler).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_and_strings() {
        let table = b"\x11\x08\x10\x00\x01\x02\x03\x00first\0second\0\0\x01\x04\x20\x00\0\0\x7f\x04\xff\xff\0\0garbage";
        let read = read_table(table).expect("a table");
        assert_eq!(read.structures.len(), 3, "what follows the end is not read");
        let one = &read.structures[0];
        assert_eq!((one.kind, one.handle), (17, 16));
        assert_eq!(one.string(4).as_deref(), Some("first"));
        assert_eq!(one.string(5).as_deref(), Some("second"));
        assert_eq!((one.string(6), one.string(7), one.string(8)), (None, None, None));
        assert_eq!(
            (one.word(4), one.word(7), one.dword(4), one.qword(4)),
            (Some(0x201), None, Some(0x3_0201), None)
        );
        assert!(read.damage.is_none());
    }

    #[test]
    fn damage_is_reported_and_what_is_before_it_is_kept() {
        let table = b"\x01\x04\x20\x00\0\0\x11\x02\x00\x00\0\0";
        let read = super::read_table(table).expect("one structure");
        assert_eq!(read.structures.len(), 1);
        assert_eq!(read.damage.as_deref(), Some("the structure at byte 6 claims 2 bytes"));
        for (bytes, cause) in [
            (&b""[..], "it is empty"),
            (b"\x11\xff\0\0\0\0", "claims 255 bytes, which are not there"),
            (b"\x00\x00\x00\x00", "claims 0 bytes"),
            (b"_SM3_\0\x18", "it has no structure"),
        ] {
            let why = super::read_table(bytes).expect_err("no table").to_string();
            assert!(why.contains(cause), "{why}");
        }
    }

    #[test]
    fn codes_of_the_specification() {
        assert_eq!(
            [
                kind_in_words(0x18),
                kind_in_words(0x1A),
                kind_in_words(0x1F),
                kind_in_words(0x22),
                kind_in_words(0x25)
            ],
            ["DDR3", "DDR4", "Logical non-volatile device", "DDR5", "MRDIMM"]
        );
        assert_eq!(
            [kind_in_words(0), kind_in_words(0x26), kind_in_words(255), form_in_words(0)],
            ["<OUT OF SPEC>"; 4]
        );
        assert_eq!([form_in_words(9), form_in_words(0xF)], ["DIMM", "FB-DIMM"]);
    }

    #[test]
    fn fillers_say_nothing() {
        assert_eq!(stated(" M393A8G40BB4-CWE  "), Some("M393A8G40BB4-CWE"));
        for filler in ["", "  ", "Not Specified", "NO DIMM", "UNKNOWN"] {
            assert_eq!(stated(filler), None);
        }
    }
}
