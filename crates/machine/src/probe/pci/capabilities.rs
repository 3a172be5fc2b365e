//! The list of capabilities of a configuration space (PCI local bus specification 3.0, 6.7): a chain of
//! offsets of which each is followed once, so a damaged list ends.

use super::registers::Registers;

/// Capability of PCI-X.
pub(super) const PCI_X: u8 = 0x07;
/// Capability of PCI Express.
pub(super) const PCI_EXPRESS: u8 = 0x10;

/// As many as fit: four bytes each behind the 64 of the header.
const MOST: usize = 48;

/// How a list ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CapabilityEnd {
    /// With its end mark; or there is none.
    Complete,
    /// It goes on beyond the bytes that are there.
    CutOff,
    /// It leads into the header, into itself, or to a place that does not answer.
    Broken,
}

/// Capabilities in the order of the list.
#[derive(Clone, Debug)]
pub(super) struct Capabilities {
    found: Vec<(u8, usize)>,
    pub(super) end: CapabilityEnd,
}

impl Capabilities {
    /// Follows the list.
    pub(super) fn walk(registers: &Registers) -> Self {
        let mut list = Capabilities { found: Vec::new(), end: CapabilityEnd::Complete };
        let Some(status) = registers.word(0x06) else {
            return Capabilities { end: CapabilityEnd::CutOff, ..list };
        };
        if status & 0x10 == 0 {
            return list;
        }
        let start = if registers.header() == 2 { 0x14 } else { 0x34 };
        let mut next = registers.byte(start);
        list.end = loop {
            let Some(pointer) = next else { break CapabilityEnd::CutOff };
            // The lowest two bits are reserved.
            let offset = usize::from(pointer & 0xfc);
            if offset == 0 {
                break CapabilityEnd::Complete;
            }
            let (Some(id), following) = (registers.byte(offset), registers.byte(offset + 1)) else {
                break CapabilityEnd::CutOff;
            };
            let again = list.found.iter().any(|(_, known)| *known == offset);
            if offset < 0x40 || id == 0xff || again || list.found.len() >= MOST {
                break CapabilityEnd::Broken;
            }
            list.found.push((id, offset));
            next = following;
        };
        list
    }

    /// Where the first capability of a kind lies.
    pub(super) fn offset(&self, kind: u8) -> Option<usize> {
        self.found.iter().find(|(id, _)| *id == kind).map(|(_, offset)| *offset)
    }
}
