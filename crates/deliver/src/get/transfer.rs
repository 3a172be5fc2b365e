//! One file that is being fetched: which of its blocks are there, which stream has which, what went wrong.

use super::journal::{BlockMark, JournalHead, TransferJournal, still_there};
use super::part::{PartFile, journal_path};
use super::remote::RemoteFile;
use crate::blocks::{BlockRun, block_bytes_of, block_length, first_of, joined, runs_of};
use crate::client::TransferError;
use crate::http::ranges::ByteRange;
use crate::s3::BlockSums;
use linerate_system::lock;
use linerate_system::side_file::SideFileError;
use linerate_system::stop::Stop;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;

/// The most bytes that a stream asks for at a time, of a server that closes the connection after each answer
/// …
const MOST_PIECE_BYTES: u64 = 1 << 30;
/// … and of one that can be asked for the next while this one comes. Its blocks are compared once it is
/// there, so small ones leave little to compare at the end.
const KEPT_PIECE_BYTES: u64 = 64 << 20;
/// A file of so many bytes or fewer comes in finer blocks, so that there is something for each of many streams; unless
/// its server has sums of its own blocks.
const FINE_FILE_BYTES: u64 = 64 << 20;
const FINE_BLOCK_BYTES: u64 = 1 << 20;
/// A stream takes this part of its share of what is left, so that something remains for those that are faster.
const PART_OF_SHARE: f64 = 0.5;
/// Tries of each stream that bring no block before a file is given up.
const MOST_FAILURES: u32 = 5;
/// Blocks that differ from the server's before a file is given up.
const MOST_DIFFERENT: u32 = 4;

/// A file on its way.
pub(super) struct FileTransfer {
    /// As the server said when it was asked first.
    pub(super) remote: RemoteFile,
    pub(super) part: PartFile,
    pub(super) block_bytes: u64,
    /// Where a store has the sum of the whole.
    pub(super) object_sums: Option<BlockSums>,
    progress: Mutex<BlockProgress>,
    journal: Mutex<Option<TransferJournal>>,
}

/// A block that is there.
#[derive(Clone, Copy)]
struct OwnBlock {
    sum: u64,
    /// An earlier start fetched it.
    is_kept: bool,
}

#[derive(Default)]
struct BlockProgress {
    blocks: BTreeMap<u64, OwnBlock>,
    /// Blocks that nobody fetches.
    missing: Vec<BlockRun>,
    /// Blocks from an earlier start that the server has to confirm.
    unconfirmed: Vec<BlockRun>,
    /// Streams that have a piece, and streams that there are: when a server dies all of them fail at once.
    at_work: u32,
    streams: u32,
    failures: u32,
    different: u32,
    error: Option<TransferError>,
    is_over: bool,
}

impl BlockProgress {
    /// Whether nobody is at it and nothing is left to do; that is said once.
    fn ended(&mut self) -> Ended {
        let is_done = self.missing.is_empty() && self.unconfirmed.is_empty();
        if self.is_over || self.at_work > 0 || !is_done && self.error.is_none() {
            return Ended::NotYet;
        }
        self.is_over = true;
        self.error.take().map_or(Ended::Whole, Ended::Failed)
    }
}

/// What a stream is to do next for a file.
pub(super) enum FileWork {
    Fetch(BlockRun),
    /// Compare the sums of what is there with the server's.
    Confirm(BlockRun),
}

/// How a file ends, for the one stream that was the last.
pub(super) enum Ended {
    NotYet,
    Whole,
    Failed(TransferError),
}

impl FileTransfer {
    /// Begins, or goes on where an earlier process ended; also the bytes that are there.
    pub(super) fn begin(
        remote: RemoteFile,
        destination: &Path,
        stop: &Stop,
    ) -> Result<(Self, u64), TransferError> {
        let block_bytes = match remote.bytes <= FINE_FILE_BYTES && !remote.has_sums {
            true => FINE_BLOCK_BYTES,
            false => block_bytes_of(remote.bytes),
        };
        FileTransfer::begin_in(block_bytes, remote, destination, stop)
    }

    /// The same in blocks of this length.
    fn begin_in(
        block_bytes: u64,
        remote: RemoteFile,
        destination: &Path,
        stop: &Stop,
    ) -> Result<(Self, u64), TransferError> {
        let part = PartFile::open(destination)?;
        let path = journal_path(destination);
        let metadata = part.file.metadata().map_err(|error| part.failed(error, remote.bytes))?;
        let head_in = |block_bytes: u64| {
            let tags = (remote.entity_tag.as_deref(), remote.last_modified.as_deref());
            JournalHead::new(&remote.url.to_string(), (remote.bytes, block_bytes), tags, &metadata)
        };
        let before = TransferJournal::go_on(&path).map_err(|why| {
            part.discard_empty();
            TransferError::side_file(&path, why)
        })?;
        // An earlier start may have had a server with sums of its own blocks, and this one none.
        let lengths = [block_bytes, block_bytes_of(remote.bytes)];
        let before = before.filter(|_| remote.has_ranges).and_then(|(journal, content)| {
            let is_its = |block_bytes: &u64| content.head.is_of_same_file(&head_in(*block_bytes));
            let block_bytes = lengths.into_iter().find(is_its)?;
            Some((journal, content, block_bytes))
        });
        let block_bytes = before.as_ref().map_or(block_bytes, |(.., block_bytes)| *block_bytes);
        let object_sums = remote.sum.map(BlockSums::new);
        let (journal, blocks) = match before {
            Some((journal, content, _)) => {
                let lengths = (block_bytes, remote.bytes);
                let there = still_there(&part.file, &content.blocks, lengths, object_sums.as_ref(), stop);
                let there = there.map_err(|error| match stop.is_ended() {
                    true => TransferError::Interrupted,
                    false => part.failed(error, remote.bytes),
                })?;
                (Some(journal), there)
            }
            None => (None, BTreeMap::new()),
        };
        let reserved = part.reserve(remote.bytes, remote.has_holes);
        if reserved.is_err() && blocks.is_empty() {
            part.discard();
        }
        reserved?;
        let journal = match (journal, remote.has_ranges) {
            (Some(journal), _) => Some(journal),
            (None, true) => {
                Some(TransferJournal::begin(&path, &head_in(block_bytes)).map_err(|why| match why {
                    SideFileError::Io(error) => part.failed(error, remote.bytes),
                    why => TransferError::side_file(&path, why),
                })?)
            }
            // Nothing could go on with it.
            (None, false) => None,
        };
        let count = remote.bytes.div_ceil(block_bytes);
        let kept = blocks.keys().map(|block| block_length(*block, block_bytes, remote.bytes)).sum();
        // An earlier process may have compared them with another server, or somebody may have laid them there.
        let unconfirmed = if remote.has_sums { runs_of(blocks.keys().copied()) } else { Vec::new() };
        let progress = BlockProgress {
            missing: runs_of((0..count).filter(|block| !blocks.contains_key(block))),
            unconfirmed,
            blocks: blocks.into_iter().map(|(block, sum)| (block, OwnBlock { sum, is_kept: true })).collect(),
            streams: 1,
            ..BlockProgress::default()
        };
        let (progress, journal) = (Mutex::new(progress), Mutex::new(journal));
        Ok((FileTransfer { remote, part, block_bytes, object_sums, progress, journal }, kept))
    }

    /// The next piece to fetch for one of `streams`, by its `share` of what is left; without one it is a block, for nobody
    /// knows yet how fast the stream is. None, too, where `others` have nothing else to do and no more blocks than they
    /// are left. Whoever takes it calls [`FileTransfer::done`] afterwards, or [`FileTransfer::give_back`].
    pub(super) fn next_fetch(&self, streams: u64, share: Option<f64>, others: u64) -> Option<BlockRun> {
        let mut progress = lock(&self.progress);
        if progress.is_over || progress.error.is_some() {
            return None;
        }
        progress.streams = u32::try_from(streams).unwrap_or(u32::MAX).max(1);
        if !self.remote.has_ranges {
            // It comes as a whole: what others still compare of it may be what has to come again.
            if progress.missing.is_empty() || progress.at_work > 0 {
                return None;
            }
            progress.at_work += 1;
            progress.missing.clear();
            progress.unconfirmed.clear();
            return Some(0..self.remote.bytes.div_ceil(self.block_bytes));
        }
        let left: u64 = progress.missing.iter().map(|piece| piece.end - piece.start).sum();
        if left <= others {
            return None;
        }
        // Large pieces first, so that a round trip costs little, small ones last, so that all end together.
        let most_bytes = if self.remote.keeps_open { KEPT_PIECE_BYTES } else { MOST_PIECE_BYTES };
        let part_of_left = (left as f64 * share.unwrap_or(0.0) * PART_OF_SHARE) as u64;
        let most = part_of_left.clamp(1, (most_bytes / self.block_bytes).max(1));
        let piece = progress.missing.pop()?;
        #[cfg(test)]
        planted!(TwicePiece, progress.missing.insert(0, piece.clone()));
        progress.at_work += 1;
        let (now, later) = first_of(piece, most);
        progress.missing.extend(later);
        Some(now)
    }

    /// The next blocks of which the sums are to be compared with the server's; as [`FileTransfer::next_fetch`].
    pub(super) fn next_confirm(&self) -> Option<BlockRun> {
        let mut progress = lock(&self.progress);
        if progress.is_over || progress.error.is_some() {
            return None;
        }
        // One question for all neighbours: a far server's answer takes a round trip.
        progress.unconfirmed = joined(std::mem::take(&mut progress.unconfirmed));
        let piece = progress.unconfirmed.pop()?;
        progress.at_work += 1;
        let (now, later) = first_of(piece, crate::blocks::most_sums(self.block_bytes));
        progress.unconfirmed.extend(later);
        Some(now)
    }

    /// Work that was taken and not begun: no failure, somebody else has it. Where the file has failed meanwhile
    /// this may have been the last stream.
    pub(super) fn give_back(&self, work: FileWork) -> Ended {
        let mut progress = lock(&self.progress);
        progress.at_work -= 1;
        #[cfg(test)]
        planted!(LostPiece, return progress.ended());
        match work {
            FileWork::Fetch(piece) => progress.missing.push(piece),
            FileWork::Confirm(piece) => progress.unconfirmed.push(piece),
        }
        progress.ended()
    }

    /// A start before this one had all of it and was killed before its rename: no stream would find anything to do.
    pub(super) fn check_end(&self) -> Ended {
        lock(&self.progress).ended()
    }

    /// A block was written.
    pub(super) fn landed(&self, block: u64, sum: u64) -> Result<(), TransferError> {
        let mut progress = lock(&self.progress);
        progress.blocks.insert(block, OwnBlock { sum, is_kept: false });
        progress.failures = 0;
        drop(progress);
        self.note([(block, sum)], BlockMark::Received)
    }

    fn note(
        &self,
        blocks: impl IntoIterator<Item = (u64, u64)>,
        mark: BlockMark,
    ) -> Result<(), TransferError> {
        let mut journal = lock(&self.journal);
        let Some(journal) = journal.as_mut() else { return Ok(()) };
        journal.add(blocks, mark).map_err(|error| self.part.failed(error, self.remote.bytes))
    }

    /// The server's sums of blocks from `first` on: those that differ have to come again. Bytes of those.
    pub(super) fn compare(&self, first: u64, sums: &[u64]) -> Result<u64, TransferError> {
        let mut progress = lock(&self.progress);
        let mut wrong = Vec::new();
        for (block, sum) in (first..).zip(sums) {
            wrong.extend(progress.blocks.get(&block).filter(|own| own.sum != *sum).map(|own| (block, *own)));
        }
        #[cfg(test)]
        planted!(DifferentBlock, wrong.clear());
        for (block, _) in &wrong {
            progress.blocks.remove(block);
            progress.missing.push(*block..block + 1);
        }
        // What an earlier start left says nothing of the server, nor of the path to it.
        let of_server = wrong.iter().filter(|(_, own)| !own.is_kept);
        let (first_different, count) = (of_server.clone().next(), of_server.count());
        progress.different += count as u32;
        let times = progress.different;
        drop(progress);
        self.note(wrong.iter().map(|(block, own)| (*block, own.sum)), BlockMark::Void)?;
        match first_different {
            Some((block, _)) if times > MOST_DIFFERENT => {
                Err(TransferError::Differs { url: self.remote.url.to_string(), block: *block, times })
            }
            _ => Ok(wrong.iter().map(|(block, _)| self.block_length(*block)).sum()),
        }
    }

    /// Once it is whole: the server has sums of its blocks, and all were compared with them.
    pub(super) fn is_verified(&self) -> bool {
        self.remote.has_sums
    }

    /// A stream is done with its piece, or gives it up with the blocks that did not come.
    pub(super) fn done(&self, work: FileWork, result: Result<(), TransferError>) -> Ended {
        let mut progress = lock(&self.progress);
        progress.at_work -= 1;
        if result.is_ok()
            && self.remote.has_sums
            && let FileWork::Fetch(piece) = &work
        {
            progress.unconfirmed.push(piece.clone());
        }
        if let Err(error) = result {
            let given_up = match work {
                FileWork::Confirm(piece) => {
                    progress.unconfirmed.push(piece);
                    false
                }
                FileWork::Fetch(piece) => {
                    let missing = |block: &u64| progress.missing.iter().any(|one| one.contains(block));
                    let absent = |block: &u64| !progress.blocks.contains_key(block);
                    let lost: Vec<u64> =
                        piece.clone().filter(|block| absent(block) && !missing(block)).collect();
                    // The server was not asked for the sums of those that came, or not for all of them.
                    let came: Vec<u64> = piece.filter(|block| !absent(block)).collect();
                    progress.missing.extend(runs_of(lost.into_iter()));
                    if self.remote.has_sums {
                        progress.unconfirmed.extend(runs_of(came.into_iter()));
                    }
                    // What cannot be asked for from its middle would begin again and again.
                    !self.remote.has_ranges
                }
            };
            // Others go on with it: nothing of the file failed. Another copy counts: its address is asked again and again
            // where all others are dead.
            let is_file = !matches!(error, TransferError::Revoked);
            progress.failures += u32::from(is_file);
            let passes = !is_file
                || error.may_pass() && !given_up && progress.failures < MOST_FAILURES * progress.streams;
            if !passes && progress.error.is_none() {
                progress.error = Some(error);
            }
        }
        progress.ended()
    }

    /// Tries of each stream without a block so far: the next waits longer.
    pub(super) fn failures(&self) -> u32 {
        let progress = lock(&self.progress);
        progress.failures.div_ceil(progress.streams)
    }

    /// Bytes that are there, also of an earlier start.
    pub(super) fn bytes_there(&self) -> u64 {
        lock(&self.progress).blocks.keys().map(|block| self.block_length(*block)).sum()
    }

    /// Bytes of a piece that are there.
    pub(super) fn bytes_there_of(&self, piece: &BlockRun) -> u64 {
        let progress = lock(&self.progress);
        progress.blocks.range(piece.clone()).map(|(block, _)| self.block_length(*block)).sum()
    }

    /// Bytes of blocks that an earlier start fetched, and that are there still.
    pub(super) fn kept_bytes(&self) -> u64 {
        let progress = lock(&self.progress);
        let kept = progress.blocks.iter().filter(|(_, own)| own.is_kept);
        kept.map(|(block, _)| self.block_length(*block)).sum()
    }

    /// An end by Ctrl-C: nobody goes on with it.
    pub(super) fn give_up(&self) -> bool {
        let mut progress = lock(&self.progress);
        !std::mem::replace(&mut progress.is_over, true)
    }

    pub(super) fn block_length(&self, block: u64) -> u64 {
        block_length(block, self.block_bytes, self.remote.bytes)
    }

    /// The bytes of a piece.
    pub(super) fn range_of(&self, piece: &BlockRun) -> ByteRange {
        let end = (piece.end * self.block_bytes).min(self.remote.bytes);
        ByteRange { first: piece.start * self.block_bytes, last: end - 1 }
    }

    /// A later start can go on with it.
    pub(super) fn can_go_on(&self) -> bool {
        self.remote.has_ranges && self.remote.if_range().is_some() && self.bytes_there() > 0
    }
}

#[cfg(test)]
mod tests;
