//! A frame on its way out of its worker: when each of its trains is due, and what becomes of those that the
//! network does not take.

use super::{LOOK, RouteSource, Step, TileWork};
use crate::rtp::DatagramStamp;
use crate::serve::ahead::{FrameState, Slot};
use crate::serve::compose;
use crate::serve::counters::{SenderStage, bump};
use crate::serve::wire::{SendOutcome, Wire, send_train};
use linerate_system::queue::Queue;
use std::sync::atomic::Ordering;

/// Frames take this share of their period; the rest is slack for what comes in between.
const SPREAD: (u64, u64) = (9, 10);
/// A frame that began late is not squeezed into less than this share.
const LEAST_SPREAD: (u64, u64) = (3, 10);
/// A frame that the network has not taken after this is given up, nanoseconds.
const PATIENCE: u64 = 1_000_000_000;
/// Trains that are due within this time go out together, nanoseconds: going to sleep and waking up cost a
/// fifth of the sender's CPU time with one millisecond (0.32 s per GB in jumbo frames instead of 0.26 on a
/// busy two-core machine). A stock receiver's socket holds ten.
const TOGETHER: u64 = 2_000_000;

/// Datagrams that are due at the same time, within what the wire allows.
fn together(span: u64, datagrams: usize, train: usize, most_trains: usize) -> usize {
    let due = datagrams as u64 * TOGETHER / span.max(1) / train.max(1) as u64;
    train.max(1) * (due as usize).clamp(1, most_trains.max(1))
}

/// A frame on its way out.
pub(super) struct Sending {
    pub slot: Slot,
    /// The first datagram that is not sent.
    next: usize,
    pub began: u64,
    pub span: u64,
    /// Since when the network takes nothing.
    pub blocked_since: Option<u64>,
}

impl<D: RouteSource, Q: Queue + ?Sized> TileWork<'_, D, Q> {
    pub(super) fn begin(&mut self, now: u64, due: u64) -> Step {
        let Some(slot) = self.ahead.pop() else { return Step::Now };
        let period = self.sender.clock.period;
        let late = now.saturating_sub(due);
        if late < period / 10 {
            (self.starved, self.blocked) = (0, 0);
        }
        let share = |(part, of): (u64, u64)| period * part / of;
        let span = share(SPREAD).saturating_sub(late).max(share(LEAST_SPREAD));
        self.sender.counters.tick.store(slot.tick, Ordering::Relaxed);
        self.sending = Some(Sending { slot, next: 0, began: now, span, blocked_since: None });
        Step::Now
    }

    /// Sends what is due of the frame.
    pub(super) fn go_on_sending(&mut self, now: u64) -> Step {
        let (Some(sending), Some((wire, layout))) = (&mut self.sending, &mut self.route) else {
            return self.give_up();
        };
        let FrameState::Ready(picture) = &sending.slot.state else { return self.give_up() };
        let datagrams = layout.datagrams();
        let together = together(sending.span, datagrams, wire.most_datagrams(), wire.most_together());
        let begins = sending.next - sending.next % together;
        let due = sending.began + sending.span * begins as u64 / datagrams as u64;
        // (A clock that was put back meanwhile does not hold the frame up.)
        if now < due && due - now <= sending.span {
            return Step::Rest(due - now);
        }
        let end = datagrams.min(sending.next + wire.most_datagrams());
        let stamp = DatagramStamp {
            sequence: self.sender.sequence,
            timestamp: self.sender.clock.rate.timestamp_of(sending.slot.tick),
            ssrc: self.sender.ssrc,
        };
        let range = sending.next..end;
        let counters = self.sender.counters;
        match send_train(wire, layout, picture.pixels(), range.clone(), stamp, &mut self.headers) {
            SendOutcome::All => {
                bump(&counters.bytes, range.map(|datagram| layout.bytes_of(datagram) as u64).sum());
                bump(&counters.datagrams, (end - sending.next) as u64);
            }
            SendOutcome::Again => return Step::Now,
            SendOutcome::Refused => {
                counters.refused_at.store(now, Ordering::Relaxed);
                return Step::Now;
            }
            SendOutcome::Blocked => {
                let since = *sending.blocked_since.get_or_insert(now);
                if now.saturating_sub(since) > PATIENCE {
                    return self.give_up();
                }
                return Step::Block(LOOK);
            }
            SendOutcome::Lost(error) => {
                bump(&counters.datagrams_lost, (end - sending.next) as u64);
                counters.tell_network(error.to_string(), now);
            }
        }
        self.sender.sequence = self.sender.sequence.wrapping_add((end - sending.next) as u32);
        (sending.next, sending.blocked_since) = (end, None);
        if end == datagrams { self.finish(now) } else { Step::Now }
    }

    fn finish(&mut self, now: u64) -> Step {
        let Some(sending) = self.sending.take() else { return Step::Now };
        let counters = self.sender.counters;
        bump(&counters.frames_sent, 1);
        if let (FrameState::Ready(picture), Some((_, layout))) = (&sending.slot.state, &self.route) {
            compose::paint(counters, layout.size(), picture.pixels(), now);
        }
        self.ahead.hand_on(sending.slot.state, self.pool);
        Step::Now
    }

    /// The network takes nothing, or its route is gone: the rest of this frame is lost, and counted as such
    /// by its numbers.
    fn give_up(&mut self) -> Step {
        if let Some(sending) = self.sending.take() {
            let datagrams = self.route.as_ref().map_or(sending.next, |(_, layout)| layout.datagrams());
            let rest = datagrams - sending.next.min(datagrams);
            self.sender.sequence = self.sender.sequence.wrapping_add(rest as u32);
            bump(&self.sender.counters.datagrams_lost, rest as u64);
            self.sender.counters.drop_frame(SenderStage::Network);
            self.ahead.hand_on(sending.slot.state, self.pool);
        }
        Step::Now
    }
}
