//! The SMBIOS table as bytes: its entry point, its structures, their strings (DMTF DSP0134, sections 5.2 and
//! 6.1).

use super::FirmwareError;

/// Structures have 16-bit handles, so there are no more.
const MOST_STRUCTURES: usize = 1 << 16;
/// Structure type that ends the table.
const END_OF_TABLE: u8 = 127;
/// Where `dmidecode --dump-bin` puts the table behind the entry point.
const TABLE_IN_DUMP: usize = 0x20;
/// Longer strings are cut: the specification allowed 64 characters until version 3.
pub(super) const LONGEST_STRING: usize = 256;

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

    pub(super) fn dword(&self, at: usize) -> Option<u32> {
        self.array(at).map(u32::from_le_bytes)
    }

    pub(super) fn qword(&self, at: usize) -> Option<u64> {
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
pub(super) fn read(bytes: &[u8]) -> Result<Table<'_>, FirmwareError> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_and_strings() {
        let table = b"\x11\x08\x10\x00\x01\x02\x03\x00first\0second\0\0\x01\x04\x20\x00\0\0\x7f\x04\xff\xff\0\0garbage";
        let read = read(table).expect("a table");
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
        let read = super::read(table).expect("one structure");
        assert_eq!(read.structures.len(), 1);
        assert_eq!(read.damage.as_deref(), Some("the structure at byte 6 claims 2 bytes"));
        for (bytes, cause) in [
            (&b""[..], "it is empty"),
            (b"\x11\xff\0\0\0\0", "claims 255 bytes, which are not there"),
            (b"\x00\x00\x00\x00", "claims 0 bytes"),
            (b"_SM3_\0\x18", "it has no structure"),
        ] {
            let why = super::read(bytes).expect_err("no table").to_string();
            assert!(why.contains(cause), "{why}");
        }
    }
}
