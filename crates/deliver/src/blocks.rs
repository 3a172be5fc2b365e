//! A file in blocks, and runs of blocks: what a stream asks for at a time. Their sums are XXH3 of 64 bits, as
//! `linerate serve` offers them and `linerate get` compares them; `FileId` tells one content of a file from another.

use linerate_facts::printable::foreign;
pub use linerate_sums::Xxh3 as BlockSum;
use serde::{Deserialize, Serialize};
use std::fs::{File, Metadata};
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use thiserror::Error;

/// The name of the sum, with its width.
pub const HASH: &str = "xxh3-64";
/// Bytes of a block, as long as a file has not too many of them.
pub const BLOCK_BYTES: u64 = 4 << 20;
/// Bytes of a block at most.
pub const MOST_BLOCK_BYTES: u64 = 1 << 30;
/// The most blocks of a file.
pub const MOST_BLOCKS: u64 = 1 << 20;
/// The most bytes that one request for sums may have read, unless it is for one block.
pub const MOST_SUMMED_BYTES: u64 = 256 << 20;

/// A file of at most so many bytes comes in one answer, whose head has its sum where that is asked for.
pub const SMALL_BYTES: u64 = 1 << 20;

/// The blocks of a file of this length. Sums are of no other blocks, so that a server has one set of them for a file.
pub fn block_bytes_of(bytes: u64) -> u64 {
    let mut block_bytes = BLOCK_BYTES;
    while bytes.div_ceil(block_bytes) > MOST_BLOCKS && block_bytes < MOST_BLOCK_BYTES {
        block_bytes *= 2;
    }
    block_bytes
}

/// The most blocks of one request for sums.
pub fn most_sums(block_bytes: u64) -> u64 {
    (MOST_SUMMED_BYTES / block_bytes.max(1)).max(1)
}

/// The answer to a request for sums.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockList {
    /// [`HASH`].
    pub hash: String,
    pub block_bytes: u64,
    pub file_bytes: u64,
    /// Number of the first block.
    pub first: u64,
    /// Sixteen hexadecimal digits each.
    pub sums: Vec<String>,
}

/// Why a list of sums is of no use.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BlockListError {
    #[error("it is not a list of sums: {0}")]
    NoJson(String),
    #[error("its sums are {0}, not {HASH}")]
    OtherHash(String),
    #[error("it is of other blocks than those that were asked for")]
    OtherBlocks,
    #[error("a sum is not sixteen hexadecimal digits")]
    NoSum,
}

impl BlockList {
    /// Of blocks from `first` on.
    pub fn new(block_bytes: u64, file_bytes: u64, first: u64, sums: &[u64]) -> Self {
        let sums = sums.iter().copied().map(show_sum).collect();
        BlockList { hash: HASH.into(), block_bytes, file_bytes, first, sums }
    }

    /// The sums of an answer to what was asked.
    pub fn parse(json: &[u8], request: BlockRequest) -> Result<Vec<u64>, BlockListError> {
        let no_json = |error: serde_json::Error| BlockListError::NoJson(foreign(&error.to_string()));
        let list: BlockList = serde_json::from_slice(json).map_err(no_json)?;
        if list.hash != HASH {
            return Err(BlockListError::OtherHash(foreign(&list.hash)));
        }
        let BlockRequest { block_bytes, first, count } = request;
        if list.block_bytes != block_bytes || list.first != first || list.sums.len() as u64 != count {
            return Err(BlockListError::OtherBlocks);
        }
        let sum = |text: &String| parse_sum(text).ok_or(BlockListError::NoSum);
        list.sums.iter().map(sum).collect()
    }
}

/// As [`parse_sum`] reads it.
pub fn show_sum(sum: u64) -> String {
    format!("{sum:016x}")
}

/// Sixteen hexadecimal digits.
pub fn parse_sum(text: &str) -> Option<u64> {
    let digits = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    digits.then(|| u64::from_str_radix(text, 16).ok()).flatten()
}

/// Which sums are wanted: `?linerate=blocks&bytes=4194304&first=0&count=16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRequest {
    pub block_bytes: u64,
    pub first: u64,
    pub count: u64,
}

impl BlockRequest {
    /// As a URL's query.
    pub fn query(&self) -> String {
        let BlockRequest { block_bytes, first, count } = self;
        format!("linerate=blocks&bytes={block_bytes}&first={first}&count={count}")
    }

    /// From the words of a query, within the bounds, for a file of this length. What is left away is the first of its
    /// blocks, as many as may be asked for at once.
    pub fn parse(query: &str, file_bytes: u64) -> Option<Self> {
        let number = |name: &str, usual: u64| {
            let found = query.split('&').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
            found.map_or(Some(usual), |text| text.parse().ok())
        };
        let own = block_bytes_of(file_bytes);
        let block_bytes = number("bytes", own).filter(|bytes| *bytes == own)?;
        let most = most_sums(own);
        let first = number("first", 0)?;
        let rest = file_bytes.div_ceil(block_bytes).checked_sub(first)?;
        let count = number("count", rest.min(most))?;
        (count <= rest && count <= most).then_some(BlockRequest { block_bytes, first, count })
    }
}

/// A run of consecutive blocks of a file, by their numbers, end exclusive.
pub(crate) type BlockRun = Range<u64>;

/// Bytes of this block; the last one is shorter.
pub(crate) fn block_length(block: u64, block_bytes: u64, bytes: u64) -> u64 {
    block_bytes.min(bytes.saturating_sub(block.saturating_mul(block_bytes)))
}

/// Runs of neighbours, the last first: they are taken from the end.
pub(crate) fn runs_of(blocks: impl Iterator<Item = u64>) -> Vec<BlockRun> {
    let mut runs: Vec<BlockRun> = Vec::new();
    for block in blocks {
        match runs.last_mut() {
            Some(last) if last.end == block => last.end += 1,
            _ => runs.push(block..block + 1),
        }
    }
    runs.reverse();
    runs
}

/// The same of runs in any order, of which none has a block of another.
pub(crate) fn joined(mut runs: Vec<BlockRun>) -> Vec<BlockRun> {
    runs.sort_by_key(|run| std::cmp::Reverse(run.start));
    runs.dedup_by(|before, behind| {
        let are_neighbours = before.end == behind.start;
        if are_neighbours {
            behind.start = before.start;
        }
        are_neighbours
    });
    runs
}

/// At most so many blocks of a run, and the rest.
pub(crate) fn first_of(run: BlockRun, most: u64) -> (BlockRun, Option<BlockRun>) {
    let end = run.end.min(run.start + most.max(1));
    (run.start..end, (end < run.end).then_some(end..run.end))
}

/// One content of one file, or of one folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FileId {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) bytes: u64,
    pub(crate) modified: (i64, i64),
}

impl FileId {
    pub(crate) fn of(file: &File) -> io::Result<Self> {
        Ok(FileId::new(&file.metadata()?))
    }

    pub(crate) fn new(metadata: &Metadata) -> Self {
        FileId {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }

    /// When the content was changed last, as HTTP has it: seconds since 1970; 0 before.
    pub(crate) fn seconds(&self) -> u64 {
        u64::try_from(self.modified.0).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_sum_is_that_of_other_programs() {
        // xxhsum -H3 of nothing, and of “abc” (xxHash 0.8).
        assert_eq!(BlockSum::begin().end(), 0x2d06_8005_38d3_94c2);
        let mut sum = BlockSum::begin();
        ["a", "bc"].iter().for_each(|part| sum.add(part.as_bytes()));
        assert_eq!(sum.end(), 0x78af_5f94_892f_3950);
    }

    #[test]
    fn a_list_is_taken_only_as_it_was_asked_for() {
        let asked = BlockRequest { block_bytes: 1 << 20, first: 3, count: 2 };
        let json = |list: &BlockList| serde_json::to_vec(list).expect("JSON");
        let list = BlockList::new(1 << 20, 1 << 30, 3, &[1, u64::MAX]);
        assert_eq!(BlockList::parse(&json(&list), asked), Ok(vec![1, u64::MAX]));
        for other in [
            BlockList { first: 2, ..list.clone() },
            BlockList { block_bytes: 1, ..list.clone() },
            BlockList { sums: vec![], ..list.clone() },
        ] {
            assert_eq!(BlockList::parse(&json(&other), asked), Err(BlockListError::OtherBlocks));
        }
        let other = BlockList { hash: "md5".into(), ..list.clone() };
        assert_eq!(BlockList::parse(&json(&other), asked), Err(BlockListError::OtherHash("md5".into())));
        let other = BlockList { sums: vec!["1".into(), "+00000000000000f".into()], ..list };
        assert_eq!(BlockList::parse(&json(&other), asked), Err(BlockListError::NoSum));
        assert!(matches!(BlockList::parse(b"<html>", asked), Err(BlockListError::NoJson(_))));
    }

    #[test]
    fn what_is_asked_for_lies_within_the_file_and_the_bounds() {
        let asked = |query: &str| BlockRequest::parse(query, 100 << 20);
        assert_eq!(
            asked("linerate=blocks"),
            Some(BlockRequest { block_bytes: 4 << 20, first: 0, count: 25 })
        );
        let huge = BlockRequest::parse("first=0", 16 << 40).expect("blocks");
        assert_eq!((huge.block_bytes, huge.count), (16 << 20, 16), "a huge file has larger blocks");
        let queries = "bytes=1 bytes=3000000 bytes=0 bytes=18446744073709551615 first=26 first=25&count=1 \
            count=26 first=x count=-1 bytes=65536&count=1 bytes=8388608&count=1 \
            bytes=1048576&count=2";
        for wrong in queries.split(' ') {
            assert_eq!(asked(wrong), None, "{wrong}");
        }
        assert_eq!(
            BlockRequest::parse("", 0),
            Some(BlockRequest { block_bytes: 4 << 20, first: 0, count: 0 })
        );
    }

    proptest! {
        #[test]
        fn any_query_is_bounded(query in "(bytes|first|count|=|&|[0-9]{1,20}){0,12}", bytes in any::<u64>()) {
            if let Some(asked) = BlockRequest::parse(&query, bytes) {
                prop_assert!(asked.count <= 1 || asked.count * asked.block_bytes <= MOST_SUMMED_BYTES);
                prop_assert!(asked.first + asked.count <= bytes.div_ceil(asked.block_bytes));
            }
        }

        #[test]
        fn any_bytes_are_a_list_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = BlockList::parse(&bytes, BlockRequest { block_bytes: 1 << 20, first: 0, count: 1 });
        }
    }

    proptest! {
        /// However the blocks of runs are cut into smaller ones, they are joined to the runs that they were.
        #[test]
        fn pieces_in_any_order_are_joined_to_runs(blocks in proptest::collection::btree_set(0_u64..60, 0..60), cut in 1_u64..9, turn in 0_usize..60) {
            let runs = runs_of(blocks.into_iter());
            let mut cut_runs: Vec<BlockRun> = runs.iter().flat_map(|run| {
                run.clone().step_by(cut as usize).map(move |start| start..(start + cut).min(run.end))
            }).collect();
            let turn = turn % cut_runs.len().max(1);
            cut_runs.rotate_left(turn);
            prop_assert_eq!(joined(cut_runs), runs);
        }
    }
}
