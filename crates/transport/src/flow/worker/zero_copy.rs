//! Sends without a copy: a block that was sent stays the device's until it says so, while the next ones go out.

use super::{Block, Sending, Sink, Work};
use linerate_system::Errno;
use linerate_system::queue::{Queue, Taken};
use std::io;

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

impl<Q: Queue + ?Sized> Work<'_, Q> {
    /// Short pieces cost less copied than pinned, and a rate limit is no matter of what a byte costs.
    pub(super) fn sends_zero_copy(&self) -> bool {
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
pub(super) fn is_refusal(error: &io::Error) -> bool {
    let refusals = [Errno::INVAL, Errno::OPNOTSUPP, Errno::NOMEM, Errno::NOBUFS];
    refusals.iter().any(|refusal| error.raw_os_error() == Some(refusal.raw_os_error()))
}
