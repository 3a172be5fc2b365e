//! What has been read goes out: one send at a time, in the order of the file. Without a copy a block that was
//! sent stays the device's until it says so, while the next ones go out.

use super::error::{WorkerError, sink_error};
use super::{Block, FILE, Sending, Sink, WorkerLoop};
use crate::flow::rate_limit::RateLimit;
use crate::flow::source::Source;
use linerate_system::Errno;
use linerate_system::buffers::Lease;
use linerate_system::queue::{Action, Queue, Taken, Transfer};
use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The most that one send on TCP takes: a larger block goes out in pieces, so that a slow peer shows progress
/// and a stop is quick.
pub(super) const MOST_SEND_BYTES: usize = 1 << 20;
/// A worker that reads memory has no file: then the socket is the first.
const SOCKET_AFTER_FILE: usize = 1;

impl<Q: Queue + ?Sized> WorkerLoop<'_, Q> {
    /// Sends the front block if it is here and nothing is being sent; true if a UDP window forbids it.
    pub(super) fn send_next(&mut self) -> bool {
        if self.state.sending.is_some() || self.next_send().is_some() {
            return false;
        }
        let Some(Block::Ready { length, sent, .. }) = self.state.blocks.front() else { return false };
        let (from, left) = (*sent, length - sent);
        let zero_copy = self.sends_zero_copy();
        let most = self.state.most_send_bytes;
        let piece = self.worker.rate_limit.map_or(most, RateLimit::piece_bytes);
        let (allowed, train_bytes) = match &self.worker.sink {
            Sink::Null { .. } => return false,
            // The rest of the block could not follow before the device has given all of it back.
            Sink::Tcp if zero_copy => (left, 0),
            Sink::Tcp => (left.min(most).min(piece), 0),
            Sink::Udp(udp) => {
                let train = udp.train_bytes();
                (udp.may_send(left).min((piece / train.max(1)).clamp(1, 8) * train), train)
            }
        };
        if allowed == 0 {
            return true;
        }
        let Some(Block::Ready { lease, length, .. }) = self.state.blocks.pop_front() else { return false };
        let file = if matches!(self.worker.source, Source::Memory) { FILE } else { SOCKET_AFTER_FILE };
        let action = Action::Send { train_bytes, zero_copy };
        let digest = self.state.digest.filter(|_| zero_copy).map(|mut digest| {
            digest.update(&lease.bytes()[from..from + allowed]);
            digest
        });
        self.state.sending =
            Some(Sending { number: lease.number(), length, from, asked: allowed, digest, zero_copy });
        if let Some(limit) = self.worker.rate_limit {
            limit.charge_send(allowed, self.queue.now());
        }
        self.queue.submit(lease, Transfer { action, file, offset: 0, from, length: allowed });
        false
    }

    pub(super) fn wait_for_window(&mut self) -> Result<(), WorkerError> {
        let Sink::Udp(udp) = &mut self.worker.sink else { return Ok(()) };
        let before = self.queue.now();
        udp.wait_for_room().map_err(sink_error)?;
        udp.tell(self.worker.counters, self.queue.now() - before);
        let silent = udp.silent_for();
        if silent > self.worker.patience {
            return Err(self
                .stalled("the peer's feedback: is its host up, the link plugged in and its agent running?"));
        }
        Ok(())
    }

    /// A send of the front block's bytes from `from` on is over. What the kernel did not take goes out next:
    /// before Linux 5.19 io_uring's sends on TCP are often short.
    pub(super) fn sent(
        &mut self,
        sending: Sending,
        lease: Lease,
        result: io::Result<usize>,
    ) -> Result<(), WorkerError> {
        let Sending { length, from, zero_copy, .. } = sending;
        if zero_copy && result.as_ref().is_err_and(is_refusal) {
            self.worker.zero_copy = false;
            self.worker.counters.zero_copy_refused.store(true, Ordering::Relaxed);
            self.state.blocks.push_front(Block::Ready { lease, length, sent: from });
            return Ok(());
        }
        if matches!(self.worker.sink, Sink::Tcp) && result.as_ref().is_err_and(took_nothing) {
            self.state.blocks.push_front(Block::Ready { lease, length, sent: from });
            return Ok(());
        }
        let moved = match result.or_else(|error| self.worker.sink.go_on_after(error)) {
            Ok(moved) => moved,
            Err(error) => {
                self.pool.give_back(lease);
                return Err(sink_error(error));
            }
        };
        self.worker.counters.progress.add(moved as u64);
        if let Some(digest) = &mut self.state.digest {
            digest.update(&lease.bytes()[from..from + moved]);
        }
        if let Some(look) = &mut self.look {
            look(&lease.bytes()[from..from + moved]);
        }
        if let Sink::Udp(udp) = &mut self.worker.sink {
            udp.sent(moved).map_err(sink_error)?;
            udp.listen(Duration::ZERO).map_err(sink_error)?;
            self.worker.counters.lost_bytes.store(udp.lost_bytes(), Ordering::Relaxed);
        } else if moved == 0 {
            self.pool.give_back(lease);
            let why = "the peer closed the connection within a block: did its agent end?".to_string();
            return Err(WorkerError::Sink { why, error: io::ErrorKind::BrokenPipe.into() });
        }
        let sent = from + moved;
        if sent < length {
            self.state.blocks.push_front(Block::Ready { lease, length, sent });
        } else {
            self.pool.give_back(lease);
            if matches!(self.state.blocks.front(), Some(Block::Ready { .. })) {
                self.state.ahead.sent_with_more_ready();
            }
        }
        Ok(())
    }
}

/// The socket had no room within its time limit, or the send was called back: its bytes go out later.
fn took_nothing(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock || Errno::from_io_error(error) == Some(Errno::CANCELED)
}

/// Blocks that are sent and counted, and that the device may still read.
#[derive(Debug)]
pub(super) struct Lent {
    /// By their numbers.
    blocks: Vec<bool>,
    count: usize,
    /// Allocated once.
    taken: Vec<Taken>,
}

impl Lent {
    /// None of so many.
    pub(super) fn new(blocks: usize) -> Self {
        Lent { blocks: vec![false; blocks], count: 0, taken: Vec::with_capacity(blocks) }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn add(&mut self, number: usize) {
        self.blocks[number] = true;
        self.count += 1;
    }

    /// The block came back; whether it was lent.
    pub(super) fn is_back(&mut self, number: usize) -> bool {
        let lent = std::mem::take(&mut self.blocks[number]);
        self.count -= usize::from(lent);
        lent
    }
}

impl<Q: Queue + ?Sized> WorkerLoop<'_, Q> {
    /// Short pieces cost less copied than pinned, and a rate limit is not a matter of what a byte costs.
    fn sends_zero_copy(&self) -> bool {
        let worker = &self.worker;
        worker.zero_copy
            && worker.rate_limit.is_none()
            && matches!(worker.sink, Sink::Tcp)
            && self.queue.zero_copy()
    }

    /// Sends without a copy that the kernel has taken whole: they are counted, and the next may follow, while their
    /// blocks are still lent. What was taken in part goes on when its block is back. Whether there were any.
    pub(super) fn count_taken(&mut self) -> bool {
        self.queue.taken(&mut self.state.lent.taken);
        let any = !self.state.lent.taken.is_empty();
        while let Some(taken) = self.state.lent.taken.pop() {
            let whole =
                |sending: &mut Sending| sending.number == taken.number && sending.asked == taken.bytes;
            let Some(sending) = self.state.sending.take_if(whole) else { continue };
            self.worker.counters.progress.add(taken.bytes as u64);
            self.state.digest = sending.digest;
            self.state.lent.add(sending.number);
            if matches!(self.state.blocks.front(), Some(Block::Ready { .. })) {
                self.state.ahead.sent_with_more_ready();
            }
        }
        any
    }
}

/// The kernel or the socket has no such sends, or no more memory may be pinned: a copy needs neither.
fn is_refusal(error: &io::Error) -> bool {
    let refusals = [Errno::INVAL, Errno::OPNOTSUPP, Errno::NOMEM, Errno::NOBUFS];
    refusals.iter().any(|refusal| error.raw_os_error() == Some(refusal.raw_os_error()))
}
