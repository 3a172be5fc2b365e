//! Reading a file ahead of the sender, at depth and past the page cache: what a cold file on a fast disk
//! needs.

use super::content::Range;
use linerate_system::buffers::{Lease, Pool};
use linerate_system::queue::{self, Action, Completion, Queue, Transfer};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

/// Bytes a read.
const BLOCK_BYTES: usize = 1 << 20;
/// Reads in flight, and blocks that wait to be sent.
const BLOCKS: usize = 16;
/// Direct reads begin at multiples of this (a sector of 4 KiB at most, open(2)).
const ALIGNMENT: u64 = 4096;

/// A range of a file, read in order, over and over.
pub(super) struct ReadAhead {
    queue: Box<dyn Queue>,
    pool: Pool,
    range: Range,
    length: u64,
    /// Next byte of the range to read, and how many are still wanted.
    next: u64,
    wanted: u64,
    blocks: VecDeque<Block>,
    done: Vec<Completion>,
}

/// Bytes `from .. to` of a read are of the range, the rest is there to keep it aligned.
struct Block {
    number: usize,
    at: u64,
    from: usize,
    to: usize,
    lease: Option<Lease>,
}

impl ReadAhead {
    /// `wanted` bytes of the range of `length` bytes, begun again at its end.
    pub(super) fn new(range: Range, length: u64, wanted: u64) -> io::Result<Self> {
        let pool = Pool::new(BLOCKS, BLOCK_BYTES)?;
        let (queue, _) = queue::open(true, vec![Arc::clone(&range.file)], &pool)?;
        let (blocks, done) = (VecDeque::with_capacity(BLOCKS), Vec::with_capacity(BLOCKS));
        Ok(ReadAhead { queue, pool, range, length, next: 0, wanted, blocks, done })
    }

    /// The next bytes in order, at most `most`, at least one; WouldBlock while they are not here.
    pub(super) fn front(&mut self, most: usize) -> io::Result<&[u8]> {
        self.ask();
        if self.blocks.front().is_some_and(|block| block.lease.is_none()) {
            self.queue.turn(Some(super::STOP_CHECK), &mut self.done)?;
            self.take()?;
        }
        match self.blocks.front() {
            Some(Block { from, to, lease: Some(lease), .. }) => {
                Ok(&lease.bytes()[*from..(*to).min(*from + most)])
            }
            Some(_) => Err(io::ErrorKind::WouldBlock.into()),
            None => Ok(&[]),
        }
    }

    /// Those were sent.
    pub(super) fn consume(&mut self, bytes: usize) {
        let Some(block) = self.blocks.front_mut() else { return };
        block.from += bytes;
        if block.from >= block.to
            && let Some(lease) = self.blocks.pop_front().and_then(|block| block.lease)
        {
            self.pool.give_back(lease);
        }
    }

    /// Keeps all blocks busy.
    fn ask(&mut self) {
        while self.wanted > 0 {
            let Some(lease) = self.pool.take() else { break };
            let place = self.range.offset + self.next;
            let offset = place / ALIGNMENT * ALIGNMENT;
            let from = (place - offset) as usize;
            let useful = (self.length - self.next).min(self.wanted).min((BLOCK_BYTES - from) as u64);
            let to = from + useful as usize;
            let length = to.next_multiple_of(ALIGNMENT as usize);
            let number = lease.number();
            self.queue.submit(lease, Transfer { action: Action::Read, file: 0, offset, from: 0, length });
            self.blocks.push_back(Block { number, at: self.next, from, to, lease: None });
            self.next = (self.next + useful) % self.length;
            self.wanted -= useful;
        }
    }

    /// What has come finds its place.
    fn take(&mut self) -> io::Result<()> {
        for Completion { lease, result } in self.done.drain(..) {
            let number = lease.number();
            let Some(block) = self.blocks.iter_mut().find(|block| block.number == number) else {
                self.pool.give_back(lease);
                continue;
            };
            match result {
                Ok(read) if read >= block.to => block.lease = Some(lease),
                Ok(_) => return Err(self.range.error(block.at, &io::ErrorKind::UnexpectedEof.into())),
                Err(error) => return Err(self.range.error(block.at, &error)),
            }
        }
        Ok(())
    }
}
