//! Types 0, 1, 4, 9, 16 and 17 of the SMBIOS table, from bytes (DMTF DSP0134, chapter 7; offsets are those of
//! its tables).

use super::firmware::{NOT_TOLD, by_identity, part};
use super::names;
use super::slot::{self, SlotFacts};
use super::table::{self, Structure};
use super::{Firmware, FirmwareError};
use crate::probe::{CardSlot, MemoryArray, MemoryModule, Socket};
use linerate_facts::fact::Fact;

/// Reads a table of bytes.
pub(super) fn read(bytes: &[u8]) -> Result<Firmware, FirmwareError> {
    let table = table::read(bytes)?;
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

/// A processor socket; `None` for what is no central processor.
fn socket(from: &Structure) -> Option<Socket> {
    const CENTRAL_PROCESSOR: u8 = 3;
    (from.byte(0x05)? == CENTRAL_PROCESSOR).then(|| Socket {
        designation: text(from, 0x04),
        populated: from.byte(0x18).is_some_and(|status| status & 0x40 != 0),
        version: Fact::from_option(
            from.string(0x10).as_deref().and_then(names::stated).map(String::from),
            NOT_TOLD,
        ),
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
    let kind = names::kind(from.byte(0x12).unwrap_or(0));
    let width = |at| above_zero(from.word(at).filter(|width| *width != 0xFFFF).map(u32::from));
    (!names::holds_firmware(kind)).then(|| MemoryModule {
        locator: text(from, 0x10),
        bank: text(from, 0x11),
        size_bytes: size(from),
        kind: kind.into(),
        form: names::form(from.byte(0x0E).unwrap_or(0)).into(),
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
    from.string(at).as_deref().and_then(names::stated).unwrap_or_default().into()
}
