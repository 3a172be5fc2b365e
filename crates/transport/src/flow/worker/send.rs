//! What has been read goes out: one send at a time, in the order of the file.

use super::error::{WorkerError, sink_error};
use super::zero_copy::is_refusal;
use super::{Block, FILE, Sending, Sink, Work};
use crate::flow::rate_limit::RateLimit;
use crate::flow::source::Source;
use linerate_system::Errno;
use linerate_system::buffers::Lease;
use linerate_system::queue::{Action, Queue, Transfer};
use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The most that one send on TCP takes: a larger block goes out in pieces, so that a slow peer shows progress
/// and a stop is quick.
pub(super) const MOST_SEND_BYTES: usize = 1 << 20;
/// A worker that reads memory has no file: then the socket is the first.
const SOCKET_AFTER_FILE: usize = 1;

impl<Q: Queue + ?Sized> Work<'_, Q> {
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
            limit.sent(allowed, self.queue.now());
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
