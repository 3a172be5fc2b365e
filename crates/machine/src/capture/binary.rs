//! The two binary files that a capture holds: the firmware's table (SMBIOS) and the configuration space of
//! PCI functions. What reveals whose they are is written over in place, so that every length and offset stays.

use super::identities;
use super::names::{NameKind, Names};

/// Structures whose contents are known, with the offsets of their strings that name one thing (serial number,
/// asset tag), by type: DMTF DSP0134. Others (OEM strings, management controllers, makers' own) are emptied.
const KNOWN: [(u8, &[usize]); 14] = [
    (0, &[]),
    (1, &[0x07]),
    (2, &[0x07, 0x08]),
    (3, &[0x07, 0x08]),
    (4, &[0x20, 0x21]),
    (7, &[]),
    (8, &[]),
    (9, &[]),
    (16, &[]),
    (17, &[0x18, 0x19]),
    (19, &[]),
    (20, &[]),
    (41, &[]),
    (127, &[]),
];

/// The firmware's table without serial numbers, asset tags and the system's UUID.
pub(crate) fn smbios(table: &[u8], names: &mut Names) -> Vec<u8> {
    let mut table = table.to_vec();
    let mut at = 0;
    // Each structure takes at least its four bytes of header.
    while let Some(&[kind, length, ..]) = table.get(at..).filter(|rest| rest.len() >= 4) {
        let strings = at + usize::from(length);
        if length < 4 || strings > table.len() {
            // What cannot be taken apart cannot be cleaned.
            table.truncate(at);
            break;
        }
        let end = strings_end(&table, strings);
        structure(&mut table[at..end], kind, usize::from(length), names);
        at = end;
        if kind == 127 {
            table.truncate(at);
            break;
        }
    }
    table
}

/// After the two zero bytes that end a structure's strings.
fn strings_end(table: &[u8], from: usize) -> usize {
    let pair = table[from..].windows(2).position(|pair| pair == [0, 0]);
    pair.map_or(table.len(), |pair| from + pair + 2)
}

fn structure(bytes: &mut [u8], kind: u8, length: usize, names: &mut Names) {
    let (formatted, strings) = bytes.split_at_mut(length);
    let Some((_, telling)) = KNOWN.iter().find(|(known, _)| *known == kind) else {
        formatted[4..].fill(0);
        strings.iter_mut().filter(|byte| **byte != 0).for_each(|byte| *byte = b'x');
        return;
    };
    if let (1, Some(uuid)) = (kind, formatted.get_mut(8..24))
        && uuid.iter().any(|byte| *byte != uuid[0])
    {
        uuid.fill(0);
        uuid[15] = 1;
    }
    for offset in *telling {
        let Some(number) = formatted.get(*offset).filter(|number| **number > 0) else { continue };
        let mut all = strings.split_mut(|byte| *byte == 0);
        let Some(string) = all.nth(usize::from(*number) - 1) else { continue };
        let text = String::from_utf8_lossy(string).into_owned();
        let trimmed = text.trim();
        if trimmed.len() == text.len() && text.is_ascii() && identities::is_serial(trimmed) {
            let name = names.of(NameKind::Serial, trimmed);
            if name.len() == string.len() {
                string.copy_from_slice(name.as_bytes());
                continue;
            }
        }
        // Padded, short or not text: what is there is no name of its own any more.
        if identities::is_serial(trimmed) {
            names.of(NameKind::Serial, trimmed);
            string.fill(b'x');
        }
    }
}

/// Configuration space without the device's serial number (for many NICs, the hardware address): extended
/// capability 3, PCIe base specification 7.9.3.
pub(crate) fn configuration(space: &[u8]) -> Vec<u8> {
    let mut space = space.to_vec();
    let mut at = 0x100;
    // Each capability takes four bytes at least: a chain in a circle ends.
    for _ in 0..space.len() / 4 {
        let Some(header) =
            space.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes)
        else {
            break;
        };
        if header & 0xffff == 0x0003
            && let Some(serial) = space.get_mut(at + 4..at + 12)
        {
            serial.fill(0);
        }
        at = (header >> 20) as usize & 0xffc;
        if at < 0x100 {
            break;
        }
    }
    space
}
