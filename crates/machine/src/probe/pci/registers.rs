//! The registers of a configuration space, what is known of one function by them, and the list of its
//! capabilities (PCI local bus specification 3.0, 6.7): a chain of offsets of which each is followed once, so that
//! a damaged list ends.

use super::address::Buses;
use crate::probe::machine::{Express, ParallelBus, PciLink};
use linerate_facts::fact::Fact;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Registers by offset, little-endian; none beyond what is there.
pub(super) struct Registers<'a> {
    long: &'a dyn Fn(usize) -> Option<[u8; 4]>,
    known: RefCell<BTreeMap<usize, Option<[u8; 4]>>>,
}

impl<'a> Registers<'a> {
    /// `long` gives the four bytes at an offset; each is asked for once.
    pub(super) fn new(long: &'a dyn Fn(usize) -> Option<[u8; 4]>) -> Self {
        Registers { long, known: RefCell::default() }
    }

    fn around(&self, offset: usize) -> Option<[u8; 4]> {
        let start = offset & !3;
        *self.known.borrow_mut().entry(start).or_insert_with(|| (self.long)(start))
    }

    pub(super) fn byte(&self, offset: usize) -> Option<u8> {
        self.around(offset).map(|bytes| bytes[offset & 3])
    }

    /// Two bytes at an even offset.
    pub(super) fn word(&self, offset: usize) -> Option<u16> {
        let [first, second, third, fourth] = self.around(offset)?;
        Some(u16::from_le_bytes(if offset & 2 == 0 { [first, second] } else { [third, fourth] }))
    }

    /// Four bytes at an offset that four divides.
    pub(super) fn long(&self, offset: usize) -> Option<u32> {
        self.around(offset).map(u32::from_le_bytes)
    }

    /// Layout of the header: 0 a device, 1 a bridge to PCI, 2 one to CardBus; the top bit says that there are further
    /// functions.
    pub(super) fn header(&self) -> u8 {
        self.byte(0x0e).unwrap_or(0) & 0x7f
    }
}

/// Capability of PCI-X.
pub(super) const PCI_X: u8 = 0x07;
/// Capability of PCI Express.
pub(super) const PCI_EXPRESS: u8 = 0x10;

/// As many as fit: four bytes each behind the 64 of the header.
const MOST_CAPABILITIES: usize = 48;

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
            if offset < 0x40 || id == 0xff || again || list.found.len() >= MOST_CAPABILITIES {
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

/// One function's configuration space, decoded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConfigSpace {
    /// Vendor id.
    pub vendor: Fact<u32>,
    /// Device id.
    pub device: Fact<u32>,
    /// Class code, 24 bits.
    pub class: Fact<u32>,
    /// Buses behind it, where it is a bridge.
    pub buses: Option<Buses>,
    /// Its PCI Express capability.
    pub express: Express,
    /// Link as it runs now.
    pub link: Fact<PciLink>,
    /// The most that this end of the link can do.
    pub link_max: Fact<PciLink>,
    /// The parallel bus that it is made for.
    pub parallel: Fact<ParallelBus>,
    /// The parallel bus behind it.
    pub parallel_below: Fact<ParallelBus>,
}
