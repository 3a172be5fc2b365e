//! Where a worker's bytes come from: blocks of a file dealt out by a cursor that several workers share, or
//! memory.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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

/// A worker's source.
#[derive(Debug)]
pub enum Source {
    /// A file or block device, and what to call it in an error.
    File { file: File, cursor: Arc<Cursor>, label: String },
    /// The same few buffers again and again.
    Memory,
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
