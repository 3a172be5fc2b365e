//! A file past the page cache to a TCP socket: what a cold file on a fast disk needs.
//!
//! As the workers of a run do it: reads at depth and the send go through one ring, so that the disk is asked for
//! the next blocks while one is copied into the socket. (With a blocking send between two looks at the ring a disk
//! of 1.73 GB/s gave 1.29.)

use super::content::Range;
use linerate_system::Errno;
use linerate_system::buffers::{Lease, Pool};
use linerate_system::queue::{self, Action, Completion, Queue, Transfer};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes a read.
const BLOCK_BYTES: usize = 1 << 20;
/// Reads in flight, the block that is being sent and the next: as a worker of a run has them.
const BLOCKS: usize = 8 + 2;
/// Of the queue's files.
const SOURCE: usize = 0;
const SOCKET: usize = 1;
/// Direct reads begin at multiples of this (a sector of 4 KiB at most, open(2)).
const ALIGNMENT: u64 = 4096;

/// A send that was called back ends within this, or its connection is lost.
const CALL_BACK_TIME: Duration = Duration::from_millis(500);

fn is_cancelled(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::CANCELED.raw_os_error())
}

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
    /// Number of the front block while it is being sent.
    sending: Option<usize>,
    send_began: Instant,
    done: Vec<Completion>,
    /// Time in which the next bytes were not here yet.
    waited: Duration,
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
    /// `wanted` bytes of the range of `length` bytes, begun again at its end, for this socket.
    pub(super) fn new(stream: &TcpStream, range: Range, length: u64, wanted: u64) -> io::Result<Self> {
        let pool = Pool::new(BLOCKS, BLOCK_BYTES)?;
        let socket = File::from(OwnedFd::from(stream.try_clone()?));
        let (queue, _) = queue::open(true, vec![Arc::clone(&range.file), Arc::new(socket)], &pool)?;
        let (blocks, done) = (VecDeque::with_capacity(BLOCKS), Vec::with_capacity(BLOCKS));
        Ok(ReadAhead {
            queue,
            pool,
            range,
            length,
            next: 0,
            wanted,
            blocks,
            sending: None,
            send_began: Instant::now(),
            done,
            waited: Duration::ZERO,
        })
    }

    /// Another range of the same file, once all of the last one was sent.
    pub(super) fn begin(&mut self, offset: u64, length: u64) {
        debug_assert!(self.blocks.is_empty() && self.wanted == 0, "the last range is not at its end");
        self.range.offset = offset;
        (self.length, self.next, self.wanted) = (length, 0, length);
    }

    /// What moves the bytes, for the report.
    pub(super) fn method(&self) -> String {
        self.queue.method()
    }

    /// Sends the next bytes in order, at most `most`; how many the kernel took, none at the end. WouldBlock while
    /// they are not here, or the socket has no room: then what is under way goes on, and the call is repeated.
    pub(super) fn send(&mut self, most: usize) -> io::Result<usize> {
        self.ask();
        if self.sending.is_none() && self.blocks.front().is_some_and(|block| block.lease.is_none()) {
            let begun = Instant::now();
            self.turn()?;
            self.waited += begun.elapsed();
        }
        if self.sending.is_none() {
            let Some(front) = self.blocks.front_mut() else { return Ok(0) };
            let Some(lease) = front.lease.take() else { return Err(io::ErrorKind::WouldBlock.into()) };
            let (from, length) = (front.from, (front.to - front.from).min(most));
            (self.sending, self.send_began) = (Some(lease.number()), Instant::now());
            let action = Action::Send { train_bytes: 0, zero_copy: false };
            self.queue.submit(lease, Transfer { action, file: SOCKET, offset: 0, from, length });
        }
        // Reads that end meanwhile find their place; the send may take several turns.
        match self.turn()? {
            Some(sent) => sent,
            None => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Ends a send that the socket has no room for. Gives the bytes that it took; none where nothing waits for the
    /// socket, or the queue calls nothing back.
    pub(super) fn call_back(&mut self) -> Option<io::Result<usize>> {
        let Some(number) = self.sending else {
            // Without io_uring a send ends by itself.
            return self.blocks.front().is_some_and(|block| block.lease.is_some()).then_some(Ok(0));
        };
        // It may have begun a moment ago, after a wait for the file.
        if self.send_began.elapsed() < super::STOP_CHECK || !self.queue.cancel(number) {
            return None;
        }
        let patience = Instant::now() + CALL_BACK_TIME;
        loop {
            match self.turn() {
                Ok(Some(Err(error))) if is_cancelled(&error) || super::is_waiting(&error) => {
                    return Some(Ok(0));
                }
                Ok(Some(ended)) => return Some(ended),
                Ok(None) if Instant::now() < patience => {}
                Ok(None) => return Some(Err(io::ErrorKind::TimedOut.into())),
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// How long it has waited for the source since this was asked last.
    pub(super) fn take_waited(&mut self) -> Duration {
        std::mem::take(&mut self.waited)
    }

    /// The bytes of the last send, until they are consumed.
    pub(super) fn last(&self, sent: usize) -> &[u8] {
        match self.blocks.front() {
            Some(Block { from, lease: Some(lease), .. }) => &lease.bytes()[*from..*from + sent],
            _ => &[],
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
            self.queue
                .submit(lease, Transfer { action: Action::Read, file: SOURCE, offset, from: 0, length });
            self.blocks.push_back(Block { number, at: self.next, from, to, lease: None });
            self.next = (self.next + useful) % self.length;
            self.wanted -= useful;
        }
    }

    /// Hands over what is queued and takes what has come; the end of the send, where it was among it.
    fn turn(&mut self) -> io::Result<Option<io::Result<usize>>> {
        self.queue.turn(Some(super::STOP_CHECK), &mut self.done)?;
        let (mut ended, mut failed) = (None, Ok(()));
        // All of them, also after an error: each brings a block home.
        for Completion { lease, result } in self.done.drain(..) {
            let number = lease.number();
            let Some(block) = self.blocks.iter_mut().find(|block| block.number == number) else {
                self.pool.give_back(lease);
                continue;
            };
            block.lease = Some(lease);
            if self.sending.take_if(|sending| *sending == number).is_some() {
                ended = Some(result);
                continue;
            }
            failed = failed.and(match result {
                Ok(read) if read >= block.to => Ok(()),
                Ok(_) => Err(self.range.error(block.at, &io::ErrorKind::UnexpectedEof.into())),
                Err(error) => Err(self.range.error(block.at, &error)),
            });
        }
        failed.map(|()| ended)
    }
}
