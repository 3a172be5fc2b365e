//! One file that is being fetched: which of its blocks are there, which stream has which, what went wrong.

use super::copies::FileCopy;
use super::dealing::{Deal, PieceWatch};
use super::error::GetError;
use super::journal::{BlockMark, JournalHead, TransferJournal};
use super::kept_blocks::still_there;
use super::part::{PartFile, journal_path};
use super::pieces::{Piece, block_bytes_of, block_length, first_of, pieces_of};
use super::remote::RemoteFile;
use crate::s3::BlockSums;
use linerate_system::lock;
use linerate_system::side_file::SideFileError;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// The most bytes that a stream asks for at a time, of a server that closes the connection after each answer
/// …
const MOST_PIECE_BYTES: u64 = 1 << 30;
/// … and of one that can be asked for the next while this one comes. Its blocks are compared once it is
/// there, so small ones leave little to compare at the end.
const KEPT_PIECE_BYTES: u64 = 64 << 20;
/// Tries of each stream that bring no block before a file is given up.
const MOST_FAILURES: u32 = 5;

/// A file on its way.
pub(super) struct FileTransfer {
    /// As the server says that was asked first.
    pub(super) remote: RemoteFile,
    /// The number of that server, and what each has of it.
    pub(super) reference: usize,
    pub(super) copies: Vec<FileCopy>,
    pub(super) part: PartFile,
    pub(super) block_bytes: u64,
    /// Where a store has the sum of the whole.
    pub(super) object_sums: Option<BlockSums>,
    progress: Mutex<BlockProgress>,
    journal: Mutex<Option<TransferJournal>>,
    /// Pieces that streams are at.
    under_way: Mutex<Vec<Arc<PieceWatch>>>,
}

/// A block that is there.
#[derive(Clone, Copy)]
struct OwnBlock {
    sum: u64,
    /// The server that it came from; none: an earlier start fetched it, and nobody knows from where.
    server: Option<usize>,
}

/// What a comparison with a server's sums showed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ComparedBlocks {
    /// Bytes of blocks that have to come again.
    pub(super) again_bytes: u64,
    /// Mirrors whose blocks were others than the first server's, with the first such block.
    pub(super) differing: BTreeMap<usize, u64>,
    /// The first block of another server of which a mirror has another sum: nobody is left to say who is right.
    pub(super) disputed: Option<u64>,
}

struct BlockProgress {
    blocks: BTreeMap<u64, OwnBlock>,
    /// Blocks that nobody fetches.
    missing: Vec<Piece>,
    /// Blocks from an earlier start that the server has to confirm.
    unconfirmed: Vec<Piece>,
    /// Streams that have a piece, and streams that there are: when a server dies all of them fail at once.
    at_work: u32,
    streams: u32,
    failures: u32,
    different: u32,
    /// All that was compared was compared with another server's sums than those of the one that sent it.
    is_verified: bool,
    error: Option<GetError>,
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
pub(super) enum Work {
    Fetch(Piece),
    /// Compare the sums of what is there with the server's.
    Confirm(Piece),
}

/// How a file ends, for the one stream that was the last.
pub(super) enum Ended {
    NotYet,
    Whole,
    Failed(GetError),
}

impl FileTransfer {
    /// Begins, or goes on where an earlier process ended; also the bytes that are there. `copies`: of all servers, of
    /// which the one of this number said what `remote` is.
    pub(super) fn begin(
        remote: RemoteFile,
        (copies, reference): (Vec<FileCopy>, usize),
        destination: &Path,
        stop: &AtomicBool,
    ) -> Result<(Self, u64), GetError> {
        let part = PartFile::open(destination)?;
        let block_bytes = block_bytes_of(remote.bytes);
        let path = journal_path(destination);
        let head = part.file.metadata().map(|metadata| {
            let tags = (remote.entity_tag.as_deref(), remote.last_modified.as_deref());
            JournalHead::new(&remote.url.to_string(), (remote.bytes, block_bytes), tags, &metadata)
        });
        let head = head.map_err(|error| part.failed(error, remote.bytes))?;
        let before = TransferJournal::go_on(&path).map_err(|why| {
            part.discard_empty();
            GetError::side_file(&path, why)
        })?;
        let before = before.filter(|(_, content)| remote.has_ranges && content.head.is_of_same_file(&head));
        let object_sums = remote.sum.map(BlockSums::new);
        let (journal, blocks) = match before {
            Some((journal, content)) => {
                let there = still_there(
                    &part,
                    &content.blocks,
                    (block_bytes, remote.bytes),
                    object_sums.as_ref(),
                    stop,
                )?;
                (Some(journal), there)
            }
            None => (None, BTreeMap::new()),
        };
        let reserved = part.reserve(remote.bytes);
        if reserved.is_err() && blocks.is_empty() {
            part.discard();
        }
        reserved?;
        let journal = match (journal, remote.has_ranges) {
            (Some(journal), _) => Some(journal),
            (None, true) => Some(TransferJournal::begin(&path, &head).map_err(|why| match why {
                SideFileError::Io(error) => part.failed(error, remote.bytes),
                why => GetError::side_file(&path, why),
            })?),
            // Nothing could go on with it.
            (None, false) => None,
        };
        let count = remote.bytes.div_ceil(block_bytes);
        let kept = blocks.keys().map(|block| block_length(*block, block_bytes, remote.bytes)).sum();
        // An earlier process may have compared them, with another server, or somebody may have laid them there.
        let unconfirmed = if remote.has_sums { pieces_of(blocks.keys().copied()) } else { Vec::new() };
        let progress = BlockProgress {
            missing: pieces_of((0..count).filter(|block| !blocks.contains_key(block))),
            unconfirmed,
            blocks: blocks.into_iter().map(|(block, sum)| (block, OwnBlock { sum, server: None })).collect(),
            at_work: 0,
            streams: 1,
            failures: 0,
            different: 0,
            is_verified: true,
            error: None,
            is_over: false,
        };
        let (progress, journal, under_way) = (Mutex::new(progress), Mutex::new(journal), Mutex::default());
        let file = FileTransfer {
            remote,
            reference,
            copies,
            part,
            block_bytes,
            object_sums,
            progress,
            journal,
            under_way,
        };
        Ok((file, kept))
    }

    /// The next piece to fetch for a stream, of `left_bytes` that all files want; whoever takes it calls
    /// [`FileTransfer::done`] afterwards, or [`FileTransfer::give_back`].
    pub(super) fn next_fetch(&self, deal: &Deal, left_bytes: u64) -> Option<Piece> {
        if !self.has(deal.server) || self.copies[deal.server].is_looked_at() {
            return None;
        }
        let mut progress = lock(&self.progress);
        if progress.is_over || progress.error.is_some() {
            return None;
        }
        progress.streams = u32::try_from(deal.streams).unwrap_or(u32::MAX).max(1);
        if !self.remote.has_ranges {
            if progress.missing.is_empty() {
                return None;
            }
            progress.at_work += 1;
            progress.missing.clear();
            return Some(0..self.remote.bytes.div_ceil(self.block_bytes));
        }
        // Where a server has it not, nobody knows whether those that are faster do.
        let all_have_it = (0..self.copies.len()).all(|server| self.has(server));
        if all_have_it && deal.is_too_slow(self.block_bytes, left_bytes) {
            return None;
        }
        let left: u64 = progress.missing.iter().map(|piece| piece.end - piece.start).sum();
        // Large pieces first, so that a round trip costs little, small ones last, so that all end together.
        let most_bytes = if self.remote.keeps_open { KEPT_PIECE_BYTES } else { MOST_PIECE_BYTES };
        let most = deal.most_blocks(left, most_bytes / self.block_bytes);
        let piece = progress.missing.pop()?;
        progress.at_work += 1;
        let (now, later) = first_of(piece, most);
        progress.missing.extend(later);
        Some(now)
    }

    /// Work that was taken and not begun: no failure, somebody else has it. Where the file has failed meanwhile
    /// this may have been the last stream.
    pub(super) fn give_back(&self, work: Work) -> Ended {
        let mut progress = lock(&self.progress);
        progress.at_work -= 1;
        match work {
            Work::Fetch(piece) => progress.missing.push(piece),
            Work::Confirm(piece) => progress.unconfirmed.push(piece),
        }
        progress.ended()
    }

    /// A start before this one had all of it and was killed before its rename: no stream would find anything to do.
    pub(super) fn begun(&self) -> Ended {
        lock(&self.progress).ended()
    }

    /// Bytes that no stream has yet, and those of the pieces that streams are at.
    pub(super) fn left_bytes(&self) -> u64 {
        let missing = lock(&self.progress).missing.iter().map(|piece| self.bytes_of(piece).1).sum::<u64>();
        missing + lock(&self.under_way).iter().map(|watch| watch.left_bytes()).sum::<u64>()
    }

    /// A stream begins with a piece, and calls [`FileTransfer::unwatch`] afterwards.
    pub(super) fn watch(&self, piece: &Piece) -> Arc<PieceWatch> {
        let watch = Arc::new(PieceWatch::new(self.bytes_of(piece).1));
        lock(&self.under_way).push(Arc::clone(&watch));
        watch
    }

    pub(super) fn unwatch(&self, watch: &Arc<PieceWatch>) {
        lock(&self.under_way).retain(|other| !Arc::ptr_eq(other, watch));
    }

    /// For a stream that has nothing to do: a piece that it would have much sooner is taken from the one that is at
    /// it, and is to be given out again in a moment.
    pub(super) fn revoke_late(&self, deal: &Deal) -> bool {
        let Some(rate) = deal.stream_rate.filter(|_| self.remote.has_ranges && self.has(deal.server)) else {
            return false;
        };
        let under_way = lock(&self.under_way);
        let late = under_way.iter().find(|watch| watch.is_late(rate, self.block_bytes));
        late.map(|watch| watch.revoked.store(true, Ordering::Relaxed)).is_some()
    }

    /// A block was written, from this server.
    pub(super) fn landed(&self, block: u64, sum: u64, server: usize) -> Result<(), GetError> {
        let mut progress = lock(&self.progress);
        progress.blocks.insert(block, OwnBlock { sum, server: Some(server) });
        progress.failures = 0;
        drop(progress);
        self.note([(block, sum)], BlockMark::Received)
    }

    fn note(&self, blocks: impl IntoIterator<Item = (u64, u64)>, mark: BlockMark) -> Result<(), GetError> {
        let mut journal = lock(&self.journal);
        let Some(journal) = journal.as_mut() else { return Ok(()) };
        journal.add(blocks, mark).map_err(|error| self.part.failed(error, self.remote.bytes))
    }

    /// A stream is done with its piece, or gives it up with the blocks that did not come.
    pub(super) fn done(&self, work: Work, result: Result<(), GetError>) -> Ended {
        let mut progress = lock(&self.progress);
        progress.at_work -= 1;
        if result.is_ok()
            && self.remote.has_sums
            && let Work::Fetch(piece) = &work
        {
            progress.unconfirmed.push(piece.clone());
        }
        if let Err(error) = result {
            let given_up = match work {
                Work::Confirm(piece) => {
                    progress.unconfirmed.push(piece);
                    false
                }
                Work::Fetch(piece) => {
                    let missing = |block: &u64| progress.missing.iter().any(|one| one.contains(block));
                    let absent = |block: &u64| !progress.blocks.contains_key(block);
                    let lost: Vec<u64> =
                        piece.clone().filter(|block| absent(block) && !missing(block)).collect();
                    // The server was not asked for the sums of those that came, or not for all of them.
                    let came: Vec<u64> = piece.filter(|block| !absent(block)).collect();
                    progress.missing.extend(pieces_of(lost.into_iter()));
                    if self.remote.has_sums {
                        progress.unconfirmed.extend(pieces_of(came.into_iter()));
                    }
                    // What cannot be asked for from its middle would begin again and again.
                    !self.remote.has_ranges
                }
            };
            // Others go on with it: nothing of the file failed.
            let is_file = !matches!(
                error,
                GetError::Revoked | GetError::OtherCopy { .. } | GetError::OtherAtMirror { .. }
            );
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

    /// Bytes of blocks that an earlier start fetched, and that are there still.
    pub(super) fn kept_bytes(&self) -> u64 {
        let progress = lock(&self.progress);
        let kept = progress.blocks.iter().filter(|(_, own)| own.server.is_none());
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

    /// First byte of a piece, and how many it has.
    pub(super) fn bytes_of(&self, piece: &Piece) -> (u64, u64) {
        let from = piece.start * self.block_bytes;
        (from, (piece.end * self.block_bytes).min(self.remote.bytes) - from)
    }

    /// A later start can go on with it.
    pub(super) fn can_go_on(&self) -> bool {
        self.remote.has_ranges && self.remote.if_range().is_some() && self.bytes_there() > 0
    }
}

mod servers;
mod sums;
#[cfg(test)]
mod tests;
