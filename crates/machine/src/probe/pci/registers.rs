//! The registers of a configuration space.

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
