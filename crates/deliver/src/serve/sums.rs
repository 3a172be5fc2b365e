//! Sums of blocks that were computed once: on the way of the bytes to a client, or because they were asked for.

use crate::blocks::BlockSum;
use crate::file_id::FileId;
use linerate_system::lock;
use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;

/// The most sums that are kept, of all files together.
const MOST_KEPT: usize = 1 << 20;
/// The most files of which the SHA-256 is kept.
const MOST_DIGESTS: usize = 4096;
/// The most files of which sums are kept.
const MOST_FILES: usize = 256;

/// Kept sums, by file and size of its blocks; the files that came first go first.
#[derive(Default)]
pub(super) struct KeptSums(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    files: VecDeque<((FileId, u64), HashMap<u64, u64>)>,
    count: usize,
}

impl KeptSums {
    pub(super) fn get(&self, file: FileId, block_bytes: u64, block: u64) -> Option<u64> {
        let kept = lock(&self.0);
        let (_, sums) = kept.files.iter().find(|(key, _)| *key == (file, block_bytes))?;
        sums.get(&block).copied()
    }

    pub(super) fn keep(&self, file: FileId, block_bytes: u64, block: u64, sum: u64) {
        let mut kept = lock(&self.0);
        while kept.count >= MOST_KEPT {
            let Some((_, sums)) = kept.files.pop_front() else { break };
            kept.count -= sums.len();
        }
        let found = kept.files.iter().position(|(key, _)| *key == (file, block_bytes));
        let place = found.unwrap_or_else(|| {
            if kept.files.len() >= MOST_FILES
                && let Some((_, sums)) = kept.files.pop_front()
            {
                kept.count -= sums.len();
            }
            kept.files.push_back(((file, block_bytes), HashMap::new()));
            kept.files.len() - 1
        });
        if kept.files[place].1.insert(block, sum).is_none() {
            kept.count += 1;
        }
    }
}

/// The SHA-256 of files that clients put with it; those that came first go first.
#[derive(Default)]
pub(super) struct KeptDigests(Mutex<VecDeque<(FileId, [u8; 32])>>);

impl KeptDigests {
    pub(super) fn get(&self, file: FileId) -> Option<[u8; 32]> {
        let kept = lock(&self.0);
        kept.iter().rev().find(|(id, _)| *id == file).map(|(_, sha256)| *sha256)
    }

    pub(super) fn keep(&self, file: FileId, sha256: [u8; 32]) {
        let mut kept = lock(&self.0);
        if kept.len() >= MOST_DIGESTS {
            kept.pop_front();
        }
        kept.push_back((file, sha256));
    }
}

/// Sums of the blocks that pass by whole.
pub(super) struct Summing {
    id: FileId,
    block_bytes: u64,
    at: u64,
    /// Of the block that is at hand, where it was seen from its start.
    sum: Option<BlockSum>,
}

impl Summing {
    pub(super) fn new(id: FileId, block_bytes: u64, at: u64) -> Self {
        Summing { id, block_bytes, at, sum: None }
    }

    pub(super) fn add(&mut self, mut bytes: &[u8], mut keep: impl FnMut(u64, u64, FileId, u64)) {
        while !bytes.is_empty() {
            let within = self.at % self.block_bytes;
            if within == 0 {
                self.sum = Some(BlockSum::begin());
            }
            let (now, rest) = bytes.split_at(((self.block_bytes - within) as usize).min(bytes.len()));
            self.at += now.len() as u64;
            if let Some(sum) = &mut self.sum {
                sum.add(now);
                if self.at.is_multiple_of(self.block_bytes) || self.at == self.id.bytes {
                    keep((self.at - 1) / self.block_bytes, sum.end(), self.id, self.block_bytes);
                    self.sum = None;
                }
            }
            bytes = rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_kept_by_content_and_size_of_the_blocks() {
        let file = tempfile::tempfile().expect("a file");
        let id = |bytes| {
            file.set_len(bytes).expect("a length");
            FileId::of(&file).expect("an id")
        };
        let (one, two) = (id(1), id(2));
        let sums = KeptSums::default();
        sums.keep(one, 4096, 0, 7);
        assert_eq!(
            (sums.get(one, 4096, 0), sums.get(one, 8192, 0), sums.get(two, 4096, 0)),
            (Some(7), None, None)
        );
        for size in 0..2 * MOST_FILES as u64 {
            sums.keep(two, size, 0, size);
        }
        assert_eq!((sums.get(one, 4096, 0), lock(&sums.0).files.len()), (None, MOST_FILES));
        assert_eq!(lock(&sums.0).count, MOST_FILES);
    }

    #[test]
    fn only_blocks_that_were_seen_whole_are_summed() {
        let content: Vec<u8> = (0..1000u32).map(|i| (i % 251) as u8).collect();
        let file = tempfile::tempfile().expect("a file");
        file.set_len(1000).expect("a length");
        let id = FileId::of(&file).expect("an id");
        let mut found = Vec::new();
        // From the middle of the first block to the end, in pieces of 7.
        let mut summing = Summing::new(id, 256, 100);
        content[100..]
            .chunks(7)
            .for_each(|piece| summing.add(piece, |block, sum, _, _| found.push((block, sum))));
        let sum = |block: usize| {
            let mut sum = BlockSum::begin();
            sum.add(&content[block * 256..1000.min(block * 256 + 256)]);
            (block as u64, sum.end())
        };
        assert_eq!(found, [sum(1), sum(2), sum(3)]);
    }
}
