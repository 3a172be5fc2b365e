//! From a connection into a part: buffers are filled from the socket, summed, and written past the page cache at
//! depth, so that the disk works while the next buffer fills.

use super::transfer::FileTransfer;
use crate::blocks::{BlockRun, BlockSum};
use crate::client::{HttpConnection, TransferError};
use crate::http::ranges::ByteRange;
use crate::stream_tally::StreamTally;
use linerate_system::attributes::write_with_holes;
use linerate_system::buffers::{Lease, Pool};
use linerate_system::clock;
use linerate_system::queue::{self, Action, Completion, Queue, Transfer};
use linerate_system::stop::STOP_CHECK;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of a buffer and of a write.
const BUFFER_BYTES: usize = 1 << 20;
/// Buffers of a stream: those that are being written, and the one that fills.
const BUFFERS: usize = 8;
/// O_DIRECT takes whole multiples of this.
const ALIGNMENT: usize = 4096;
/// The buffers of one stream for one file.
pub(super) struct BlockWriter {
    pool: Pool,
    /// Writes past the page cache; none where the file system has no such way.
    queue: Option<Box<dyn Queue>>,
    buffered: Arc<File>,
    method: String,
    /// By the number of its buffer: the block, the offset in the file, and its bytes.
    under_way: Vec<Option<(u64, u64, usize)>>,
    done: Vec<Completion>,
    landing: VecDeque<Landing>,
    failed: Option<io::Error>,
}

/// A block whose last bytes came, or will.
struct Landing {
    block: u64,
    sum: Option<u64>,
    written: u64,
}

impl BlockWriter {
    pub(super) fn new(file: &FileTransfer) -> Result<Self, TransferError> {
        let failed = |error| file.part.failed(error, file.remote.bytes);
        let pool = Pool::new(BUFFERS, BUFFER_BYTES).map_err(failed)?;
        // Past the page cache whole buffers are written, not what is between two holes.
        let direct = if file.remote.has_holes { None } else { file.part.direct() };
        let opened = direct.map(|direct| queue::open(true, vec![Arc::new(direct)], &pool)).transpose();
        let (queue, method) = match opened.map_err(failed)? {
            Some((queue, method)) => (Some(queue), method),
            None => (None, "pwrite".into()),
        };
        let buffered = Arc::clone(&file.part.file);
        let under_way = (0..BUFFERS).map(|_| None).collect();
        let (done, landing) = (Vec::with_capacity(BUFFERS), VecDeque::new());
        Ok(BlockWriter { pool, queue, buffered, method, under_way, done, landing, failed: None })
    }

    /// What writes, for the report.
    pub(super) fn method(&self) -> &str {
        &self.method
    }

    /// Takes the bytes of a piece from an answer; blocks that are written whole are landed, also where it fails.
    /// `ahead` is called before each buffer, with the bytes that are still to come.
    pub(super) fn receive(
        &mut self,
        connection: &mut HttpConnection<'_>,
        file: &FileTransfer,
        piece: &BlockRun,
        tally: &StreamTally,
        paid: impl Fn(u64),
        ahead: impl FnMut(&mut HttpConnection<'_>, u64),
    ) -> Result<(), TransferError> {
        let received = self.fill(connection, file, piece, tally, paid, ahead);
        let drained = self.drain(file, tally);
        self.landing.clear();
        received.and(drained)
    }

    fn fill(
        &mut self,
        connection: &mut HttpConnection<'_>,
        file: &FileTransfer,
        piece: &BlockRun,
        tally: &StreamTally,
        paid: impl Fn(u64),
        mut ahead: impl FnMut(&mut HttpConnection<'_>, u64),
    ) -> Result<(), TransferError> {
        let ByteRange { first, last } = file.range_of(piece);
        let (mut at, end) = (first, last + 1);
        let mut sum = BlockSum::begin();
        let mut of_object = file.object_sums.as_ref().map(|sums| (sums, sums.begin()));
        while at < end {
            ahead(connection, end - at);
            let begun = clock::now();
            let mut lease = self.free_buffer(file, tally)?;
            connection.quiet.excuse(clock::since(begun));
            let block = at / file.block_bytes;
            let block_end = ((block + 1) * file.block_bytes).min(end);
            let wanted = (block_end - at).min(BUFFER_BYTES as u64) as usize;
            let filled = self.fill_buffer(connection, file, &mut lease, wanted, tally, (end - at, &paid));
            if let Err(error) = filled {
                self.pool.give_back(lease);
                return Err(error);
            }
            sum.add(&lease.bytes()[..wanted]);
            of_object.iter_mut().for_each(|(_, own)| own.update(&lease.bytes()[..wanted]));
            if at.is_multiple_of(file.block_bytes) {
                self.landing.push_back(Landing { block, sum: None, written: 0 });
            }
            let offset = at;
            at += wanted as u64;
            if at == block_end {
                of_object
                    .iter_mut()
                    .for_each(|(sums, own)| sums.add(block, &std::mem::replace(own, sums.begin())));
                let of_block = std::mem::replace(&mut sum, BlockSum::begin()).end();
                self.landing
                    .iter_mut()
                    .filter(|one| one.block == block)
                    .for_each(|one| one.sum = Some(of_block));
            }
            self.write(lease, block, offset, wanted, file, tally)?;
        }
        Ok(())
    }

    fn fill_buffer(
        &mut self,
        connection: &mut HttpConnection<'_>,
        file: &FileTransfer,
        lease: &mut Lease,
        wanted: usize,
        tally: &StreamTally,
        (left, paid): (u64, &impl Fn(u64)),
    ) -> Result<(), TransferError> {
        let mut filled = 0;
        while filled < wanted {
            match connection.read(&mut lease.bytes_mut()[filled..wanted], &file.remote.url)? {
                0 => {
                    let missing = left - filled as u64;
                    return Err(TransferError::CutShort { url: file.remote.url.to_string(), missing });
                }
                read => {
                    filled += read;
                    tally.add_moved(read as u64);
                    tally.paced(|| paid(read as u64));
                }
            }
        }
        Ok(())
    }

    /// A buffer; where all are being written, the first that was.
    fn free_buffer(&mut self, file: &FileTransfer, tally: &StreamTally) -> Result<Lease, TransferError> {
        loop {
            if let Some(lease) = self.pool.take() {
                return Ok(lease);
            }
            self.turn(Some(STOP_CHECK), file, tally)?;
        }
    }

    fn write(
        &mut self,
        lease: Lease,
        block: u64,
        offset: u64,
        length: usize,
        file: &FileTransfer,
        tally: &StreamTally,
    ) -> Result<(), TransferError> {
        // The end of a file that is not a multiple goes through the page cache.
        let queue = self.queue.as_mut().filter(|_| length.is_multiple_of(ALIGNMENT));
        let Some(queue) = queue else {
            let bytes = &lease.bytes()[..length];
            let write = || match file.remote.has_holes {
                true => write_with_holes(&self.buffered, bytes, offset),
                false => self.buffered.write_all_at(bytes, offset),
            };
            let written = tally.at_disk(write);
            self.pool.give_back(lease);
            written.map_err(|error| file.part.failed(error, file.remote.bytes))?;
            return self.wrote(block, length, file);
        };
        self.under_way[lease.number()] = Some((block, offset, length));
        queue.submit(lease, Transfer { action: Action::Write, file: 0, offset, from: 0, length });
        self.turn(None, file, tally)
    }

    /// Hands over what is queued, and takes what was written.
    fn turn(
        &mut self,
        wait: Option<Duration>,
        file: &FileTransfer,
        tally: &StreamTally,
    ) -> Result<(), TransferError> {
        let failed = |error| file.part.failed(error, file.remote.bytes);
        let Some(queue) = &mut self.queue else { return Ok(()) };
        // Handing over blocks, too, where the file system starts a write within the call.
        tally.at_disk(|| queue.turn(wait, &mut self.done)).map_err(failed)?;
        let mut result = Ok(());
        for Completion { lease, result: written } in std::mem::take(&mut self.done) {
            let Some((block, offset, length)) = self.under_way[lease.number()].take() else {
                self.pool.give_back(lease);
                continue;
            };
            // The rest of a short write goes the other way, or says why it was short.
            let whole = written.and_then(|written| match written < length {
                true => self.buffered.write_all_at(&lease.bytes()[written..length], offset + written as u64),
                false => Ok(()),
            });
            self.pool.give_back(lease);
            match whole {
                Ok(()) => result = result.and(self.wrote(block, length, file)),
                Err(error) => drop(self.failed.get_or_insert(error)),
            }
        }
        self.failed.take().map_or(result, |error| Err(failed(error)))
    }

    fn wrote(&mut self, block: u64, length: usize, file: &FileTransfer) -> Result<(), TransferError> {
        let found = self.landing.iter().position(|one| one.block == block);
        let Some(place) = found else { return Ok(()) };
        self.landing[place].written += length as u64;
        let Landing { sum: Some(sum), written, .. } = self.landing[place] else { return Ok(()) };
        if written < file.block_length(block) {
            return Ok(());
        }
        self.landing.remove(place);
        file.landed(block, sum)
    }

    /// Until nothing is being written any more.
    fn drain(&mut self, file: &FileTransfer, tally: &StreamTally) -> Result<(), TransferError> {
        let mut result = Ok(());
        while self.queue.as_ref().is_some_and(|queue| queue.in_flight() > 0) {
            let turned = self.turn(Some(STOP_CHECK), file, tally);
            result = result.and(turned);
        }
        result
    }
}
