//! Datagrams put together to frames, in buffers that are made once; which pixels of a frame have come is known
//! exactly, a bit each.
//!
//! Line numbers and offsets come from outside: each run of pixels is held against the frame before a byte of
//! it is copied. Order does not matter, neither within a frame nor between frames; duplicates change nothing.
//!
//! Duplicates, overlapping runs and forged ones must not make a frame look whole. A bit a pixel costs a hundredth
//! of copying the pixel, and is right whatever comes.

use super::deadline::Deadlines;
use crate::geometry::{PIXEL_BYTES, Size};
use crate::rtp::Packet;

/// A timestamp further from the newest is not a frame of the same run: 10 s of 90 kHz.
const FAR_UNITS: u32 = 900_000;
/// So many in a row of another run are believed: the sender has jumped.
const JUMP: u8 = 4;

/// A buffer, and the frame that it takes.
#[derive(Debug)]
pub(crate) struct Slot {
    pub timestamp: u32,
    /// The start of its tick, nanoseconds since 1970.
    pub start: i64,
    /// When its last missing pixel arrived, likewise.
    pub whole_at: Option<i64>,
    /// The last of its datagrams came (others may be missing).
    pub marked: bool,
    pub datagrams: u64,
    /// Which frame of the movie its pixels are, where that is known.
    pub frame: Option<u32>,
    /// The server was told that it is whole.
    pub told_ready: bool,
    /// The pixels, line by line.
    pub bytes: Vec<u8>,
    coverage: Coverage,
    taken: bool,
}

/// What became of a datagram's pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placed {
    /// They are in their frame.
    Taken,
    /// And now the frame in this slot is whole.
    Whole(usize),
    /// Their frame was shown already.
    Old,
    /// Some of them lie outside of the frame.
    Outside,
    /// Every buffer has a frame: show the oldest, then try again.
    Full,
    /// The sender has jumped: show what is there, begin again, then try again.
    Jump,
}

/// The buffers of one screen.
#[derive(Debug)]
pub(crate) struct Frames {
    size: Size,
    slots: Vec<Slot>,
    /// The slot of the datagram before, mostly that of the next.
    current: usize,
    newest: Option<u32>,
    /// The newest that was shown or given up.
    shown: Option<u32>,
    /// A timestamp of another run, and how many came of that.
    strange: (u32, u8),
}

/// This timestamp is after that one on the circle of 32 bits.
fn is_after(this: u32, that: u32) -> bool {
    this.wrapping_sub(that).cast_signed() > 0
}

impl Frames {
    /// So many buffers. Memory that is never used is never touched.
    pub(crate) fn new(size: Size, buffers: usize) -> Frames {
        let slot = || Slot {
            timestamp: 0,
            start: 0,
            whole_at: None,
            marked: false,
            datagrams: 0,
            frame: None,
            told_ready: false,
            bytes: vec![0; size.frame_bytes()],
            coverage: Coverage::new(size.width as usize * size.height as usize),
            taken: false,
        };
        let slots = (0..buffers.max(2)).map(|_| slot()).collect();
        Frames { size, slots, current: 0, newest: None, shown: None, strange: (0, 0) }
    }

    /// Pixels of each frame.
    pub(crate) fn size(&self) -> Size {
        self.size
    }

    /// Number of buffers.
    pub(crate) fn buffers(&self) -> usize {
        self.slots.len()
    }

    /// A slot that was returned by `place` or `oldest`.
    pub(crate) fn slot(&mut self, index: usize) -> &mut Slot {
        &mut self.slots[index]
    }

    /// The frame that is to be shown next.
    pub(crate) fn oldest(&self) -> Option<usize> {
        let taken = self.slots.iter().enumerate().filter(|(_, slot)| slot.taken);
        let oldest =
            taken.reduce(
                |oldest, other| {
                    if is_after(oldest.1.timestamp, other.1.timestamp) { other } else { oldest }
                },
            )?;
        Some(oldest.0)
    }

    /// The frame was shown: what comes of it from now on is old, and its buffer is free.
    pub(crate) fn release(&mut self, index: usize) {
        self.slots[index].taken = false;
        self.shown = Some(self.slots[index].timestamp);
    }

    /// Another run of timestamps begins. Every slot must have been released.
    pub(crate) fn begin_anew(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.taken = false);
        (self.newest, self.shown, self.strange) = (None, None, (0, 0));
    }

    /// Copies a datagram's pixels to their places.
    #[inline]
    pub(crate) fn place(&mut self, packet: &Packet<'_>, arrived: i64, deadlines: &mut Deadlines) -> Placed {
        let index = match self.slot_of(packet.timestamp, arrived, deadlines) {
            Ok(index) => index,
            Err(placed) => return placed,
        };
        let Size { width, height } = self.size;
        let slot = &mut self.slots[index];
        slot.datagrams += 1;
        slot.marked |= packet.marker;
        let mut outside = false;
        for line in packet.lines() {
            let (number, offset) = (usize::from(line.number), usize::from(line.offset));
            let pixels = line.bytes.len() / PIXEL_BYTES;
            if number >= height as usize || offset + pixels > width as usize {
                outside = true;
                continue;
            }
            let first = number * width as usize + offset;
            if slot.coverage.add(first, pixels) > 0 {
                let start = first * PIXEL_BYTES;
                slot.bytes[start..start + line.bytes.len()].copy_from_slice(line.bytes);
            }
        }
        if slot.whole_at.is_none() && slot.coverage.is_whole() {
            slot.whole_at = Some(arrived);
            return Placed::Whole(index);
        }
        if outside { Placed::Outside } else { Placed::Taken }
    }

    fn slot_of(&mut self, timestamp: u32, arrived: i64, deadlines: &mut Deadlines) -> Result<usize, Placed> {
        let holds = |slot: &Slot| slot.taken && slot.timestamp == timestamp;
        if holds(&self.slots[self.current]) {
            return Ok(self.current);
        }
        if let Some(index) = self.slots.iter().position(holds) {
            self.current = index;
            return Ok(index);
        }
        if let Some(newest) = self.newest
            && timestamp.wrapping_sub(newest).cast_signed().unsigned_abs() > FAR_UNITS
        {
            return Err(self.stray(timestamp));
        }
        if self.shown.is_some_and(|shown| !is_after(timestamp, shown)) {
            return Err(Placed::Old);
        }
        let index = self.slots.iter().position(|slot| !slot.taken).ok_or(Placed::Full)?;
        let slot = &mut self.slots[index];
        slot.coverage.clear();
        slot.start = deadlines.start(timestamp, arrived);
        (slot.timestamp, slot.taken, slot.marked, slot.datagrams) = (timestamp, true, false, 0);
        (slot.whole_at, slot.frame, slot.told_ready) = (None, None, false);
        if self.newest.is_none_or(|newest| is_after(timestamp, newest)) {
            self.newest = Some(timestamp);
        }
        (self.current, self.strange.1) = (index, 0);
        Ok(index)
    }

    /// A timestamp far from all others: one alone is a stray, several are a sender that has jumped.
    fn stray(&mut self, timestamp: u32) -> Placed {
        let (last, count) = self.strange;
        let near = timestamp.wrapping_sub(last).cast_signed().unsigned_abs() <= FAR_UNITS;
        self.strange = (timestamp, if near { count + 1 } else { 1 });
        if self.strange.1 >= JUMP { Placed::Jump } else { Placed::Old }
    }
}

const WORD_BITS: usize = u64::BITS as usize;

/// The pixels of one frame.
#[derive(Debug)]
pub(crate) struct Coverage {
    words: Box<[u64]>,
    pixels: usize,
    covered: usize,
}

impl Coverage {
    /// None of so many pixels has come.
    pub(crate) fn new(pixels: usize) -> Coverage {
        Coverage { words: vec![0; pixels.div_ceil(WORD_BITS)].into_boxed_slice(), pixels, covered: 0 }
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.words.fill(0);
        self.covered = 0;
    }

    /// These pixels came; how many of them had not come before. What lies beyond the frame counts for
    /// nothing.
    pub(crate) fn add(&mut self, first: usize, count: usize) -> usize {
        let end = first.saturating_add(count).min(self.pixels);
        let (mut at, mut new) = (first, 0);
        while at < end {
            let (word, bit) = (at / WORD_BITS, at % WORD_BITS);
            let here = (WORD_BITS - bit).min(end - at);
            let mask = (u64::MAX >> (WORD_BITS - here)) << bit;
            new += (mask & !self.words[word]).count_ones() as usize;
            self.words[word] |= mask;
            at += here;
        }
        self.covered += new;
        new
    }

    /// Every pixel has come.
    fn is_whole(&self) -> bool {
        self.covered == self.pixels
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    proptest! {
        #[test]
        fn agrees_with_a_set_of_pixels(pixels in 1usize..600, runs in prop::collection::vec((0usize..700, 0usize..300), 0..40)) {
            let (mut coverage, mut set) = (Coverage::new(pixels), HashSet::new());
            for (first, count) in runs {
                let before = set.len();
                set.extend((first..first + count).filter(|pixel| *pixel < pixels));
                prop_assert_eq!(coverage.add(first, count), set.len() - before);
                prop_assert_eq!(coverage.covered, set.len());
                prop_assert_eq!(coverage.is_whole(), set.len() == pixels);
            }
            coverage.clear();
            prop_assert_eq!(coverage.add(0, usize::MAX), pixels);
        }
    }
}
