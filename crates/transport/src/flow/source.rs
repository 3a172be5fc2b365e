//! Where a worker's bytes come from: blocks of a file dealt out by a cursor that several workers share, or
//! memory; and how many of them it holds for its sink.
//!
//! Where the source limits, each pause of the sink has to be bridged by blocks that wait for it, or the device
//! stands still and the time is lost. Where the sink limits, what waits long falls out of the cache before it
//! is copied out: 16 blocks of 1 MiB cost a sixth more CPU a byte than 8 did, from tmpfs to loopback. Which of
//! both limits shows by itself: a sink that is ready while nothing is there to send.

use linerate_facts::random::Random;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Direct reads begin at multiples of this (a sector of 4 KiB at most, open(2)).
const ALIGNMENT: u64 = 4096;

/// Deals out the blocks of one file in order, over and over. Workers that share it split the file by their
/// own speed, so an uneven pair of NICs gets uneven shares without anybody computing them.
#[derive(Debug)]
pub struct Cursor {
    next: AtomicU64,
    blocks: u64,
    block_bytes: u64,
}

impl Cursor {
    /// The whole blocks within `length_bytes`; at least one.
    pub fn new(length_bytes: u64, block_bytes: u64) -> Self {
        Cursor { next: AtomicU64::new(0), blocks: (length_bytes / block_bytes).max(1), block_bytes }
    }

    /// The same, begun half a round ahead of a reader who is at this offset.
    pub fn opposite_to(offset: u64, length_bytes: u64, block_bytes: u64) -> Self {
        let at = Cursor::new(length_bytes, block_bytes);
        at.next.store(offset / block_bytes, Ordering::Relaxed);
        at.opposite()
    }

    /// The same, begun half a round ahead of another that goes over the same file: they do not meet while the file is
    /// read once.
    pub fn opposite(&self) -> Self {
        let next = self.next.load(Ordering::Relaxed).wrapping_add(self.blocks / 2);
        Cursor { next: AtomicU64::new(next), ..*self }
    }

    /// Offset of the next block.
    pub fn next_offset(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed) % self.blocks * self.block_bytes
    }

    /// Bytes that were dealt out, those of the same blocks again with them.
    pub fn dealt_bytes(&self) -> u64 {
        self.next.load(Ordering::Relaxed).saturating_mul(self.block_bytes)
    }

    /// What a round deals out.
    pub fn length_bytes(&self) -> u64 {
        self.blocks.saturating_mul(self.block_bytes)
    }

    /// Times that the whole file was dealt out.
    pub fn rounds(&self) -> f64 {
        self.next.load(Ordering::Relaxed) as f64 / self.blocks as f64
    }
}

/// A range of a file for one worker, in order, over and over, until so many bytes were taken.
#[derive(Debug)]
pub struct RangeCursor {
    offset: u64,
    length: u64,
    wanted: u64,
    taken: AtomicU64,
}

impl RangeCursor {
    /// `wanted` bytes of the range, begun again at its end.
    pub(super) fn new(offset: u64, length: u64, wanted: u64) -> Self {
        RangeCursor { offset, length, wanted, taken: AtomicU64::new(0) }
    }

    fn next_piece(&self, block_bytes: usize) -> Option<Piece> {
        let taken = self.taken.load(Ordering::Relaxed);
        let at = taken.checked_rem(self.length)?;
        let position = self.offset + at;
        let offset = position / ALIGNMENT * ALIGNMENT;
        let from = (position - offset) as usize;
        let room = (block_bytes as u64 / ALIGNMENT * ALIGNMENT).saturating_sub(from as u64);
        let bytes = (self.length - at).min(self.wanted - taken).min(room);
        self.taken.store(taken + bytes, Ordering::Relaxed);
        let to = from + bytes as usize;
        let length = to.next_multiple_of(ALIGNMENT as usize);
        (bytes > 0).then_some(Piece { offset, length, from, to, least: to })
    }
}

/// A read, and what of it is sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Piece {
    /// In the file.
    pub offset: u64,
    /// Bytes of the read.
    pub length: usize,
    /// Bytes `from .. to` of it are of the source: the rest is there to keep it aligned.
    pub from: usize,
    pub to: usize,
    /// Fewer than these are an error.
    pub least: usize,
}

/// A worker's source.
#[derive(Debug)]
pub enum Source {
    /// A file or block device, and what to call it in an error.
    File { file: File, cursor: Arc<Cursor>, label: String },
    /// Exactly these bytes of a file.
    Range { file: Arc<File>, cursor: RangeCursor, label: String },
    /// The same few buffers again and again.
    Memory,
}

impl Source {
    /// What is read next, into a block of so many bytes; none: nothing.
    pub(super) fn next_piece(&self, block_bytes: usize) -> Option<Piece> {
        match self {
            Source::File { cursor, .. } => {
                let offset = cursor.next_offset();
                Some(Piece { offset, length: block_bytes, from: 0, to: block_bytes, least: 1 })
            }
            Source::Range { cursor, .. } => cursor.next_piece(block_bytes),
            Source::Memory => None,
        }
    }
}

/// Fills a buffer with what senders from memory send: no NIC or tunnel compresses it.
pub(crate) fn fill(buffer: &mut [u8]) {
    Random::new(0).fill(buffer);
}

/// Being read while one waits: fewer make no pipeline.
const FEWEST_READS_AHEAD: usize = 2;
/// Sends without a wait for the source before one block fewer is held, until the first wait.
const SENDS_AT_FIRST: u32 = 8;
/// And from then on: each try may cost the sink a wait for the device.
const SENDS_LATER: u32 = 1024;

/// The blocks that are held, and what they are changed by.
#[derive(Debug)]
pub(super) struct ReadAhead {
    blocks: usize,
    most: usize,
    sends: u32,
    /// Sends without a wait before fewer are tried.
    sends_before_fewer: u32,
}

impl ReadAhead {
    /// Begins with as many as there are reads in flight; `most` are there.
    pub(super) fn new(depth: usize, most: usize) -> Self {
        let most = most.max(1);
        ReadAhead { blocks: depth.clamp(1, most), most, sends: 0, sends_before_fewer: SENDS_AT_FIRST }
    }

    /// Blocks that are held at most, read or being read.
    pub(super) fn blocks(&self) -> usize {
        self.blocks
    }

    /// A block went out while the next was there already.
    pub(super) fn sent_with_more_ready(&mut self) {
        self.sends += 1;
        if self.sends >= self.sends_before_fewer {
            self.sends = 0;
            self.blocks = (self.blocks - 1).max(FEWEST_READS_AHEAD.min(self.most));
        }
    }

    /// The sink waits, and nothing is there.
    pub(super) fn ran_dry(&mut self) {
        self.blocks = (self.blocks + self.blocks.div_ceil(4)).min(self.most);
        self.sends = 0;
        self.sends_before_fewer = SENDS_LATER;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_from_memory_does_not_compress() {
        let mut bytes = vec![0; 1 << 16];
        fill(&mut bytes);
        let mut counts = [0u32; 256];
        bytes.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
        assert!(counts.iter().all(|count| (128..=400).contains(count)), "{counts:?}");
    }

    #[test]
    fn every_block_once_a_round_anyone_who_asks() {
        let cursor = Arc::new(Cursor::new(10 * 4096 + 100, 4096));
        let askers: Vec<_> = (0..4)
            .map(|_| {
                let cursor = Arc::clone(&cursor);
                std::thread::spawn(move || (0..5).map(|_| cursor.next_offset()).collect::<Vec<_>>())
            })
            .collect();
        let mut dealt: Vec<u64> = askers.into_iter().flat_map(|asker| asker.join().expect("dealt")).collect();
        dealt.sort_unstable();
        let twice: Vec<u64> = (0..10).flat_map(|block| [block * 4096; 2]).collect();
        assert_eq!(dealt, twice);
        assert!((cursor.rounds() - 2.0).abs() < 1e-9);
    }

    #[test]
    fn a_second_reader_begins_half_a_file_ahead_of_the_first() {
        let (cursor, blocks) = (Cursor::new(10 * 4096, 4096), |cursor: &Cursor| cursor.next_offset() / 4096);
        (0..13).for_each(|_| _ = blocks(&cursor));
        assert_eq!((blocks(&cursor.opposite()), blocks(&cursor)), (8, 3));
        assert_eq!(blocks(&Cursor::opposite_to(3 * 4096, 10 * 4096, 4096)), 8);
    }

    #[test]
    fn a_slow_source_gets_all_blocks_and_a_slow_sink_few() {
        let mut ahead = ReadAhead::new(8, 16);
        (0..4).for_each(|_| ahead.ran_dry());
        assert_eq!(ahead.blocks(), 16);
        let mut ahead = ReadAhead::new(8, 16);
        (0..48).for_each(|_| ahead.sent_with_more_ready());
        assert_eq!(ahead.blocks(), 2);
        (0..1000).for_each(|_| ahead.sent_with_more_ready());
        assert_eq!(ahead.blocks(), 2);
    }

    /// A device that needs five in flight to keep up with the sink is asked for fewer once in a thousand
    /// blocks, no more.
    #[test]
    fn what_the_source_needs_is_found_and_kept() {
        let mut ahead = ReadAhead::new(8, 16);
        let mut waits = 0;
        for _ in 0..20_000 {
            if ahead.blocks() < 5 {
                ahead.ran_dry();
                waits += 1;
            } else {
                ahead.sent_with_more_ready();
            }
        }
        assert!(waits <= 20, "{waits}");
        assert!((5..=7).contains(&ahead.blocks()), "{ahead:?}");
    }

    #[test]
    fn a_pool_of_one_block_stays_at_one() {
        let mut ahead = ReadAhead::new(1, 1);
        ahead.ran_dry();
        (0..100).for_each(|_| ahead.sent_with_more_ready());
        assert_eq!(ahead.blocks(), 1);
    }
}
