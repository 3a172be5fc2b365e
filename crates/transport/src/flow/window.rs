//! How much a UDP worker may have under way: a window that grows until the path queues, and shrinks when it
//! loses.
//!
//! Unpaced senders with segmentation offload lose most of what they send (81 % with four of them on
//! loopback), and the kernel's own pacing (SO_MAX_PACING_RATE) is ignored on UDP without fq. So the worker
//! paces itself by what the receiver says it got, as TCP's acknowledgements do: after Vegas (Brakmo,
//! O'Malley, Peterson 1994), growth stops when the round trip tells of a queue. Where a queue is too short to
//! be seen, or several workers fill it at once, it remembers at what size it lost and comes near that slowly,
//! as CUBIC does (RFC 9438): growing at one pace, four bursty workers lost 3 % for ever. After a pause no
//! answers are on their way to be its clock, and a whole window at once, of each of four workers, is more
//! than the queue of their link holds: it opens as answers come (the restart window of RFC 5681, 4.1).
//!
//! A long path holds far more than any queue on it. A window that leaves at once there is a burst that queues
//! by itself, and is then taken for a full path (75 Mb/s of 1,000 over 50 ms): on a long path the window goes
//! out evenly over a round trip, as BBR paces (draft-ietf-ccwg-bbr), growth follows what was answered, and
//! single losses, of which every long path has some, do not shrink it. A host or a switch that stands still for
//! some hundredths of a second is not a full path either, but looks like one: where the window comes past the
//! size at which it shrank, it grows as fast as at its start. (Over 100 ms one such pause within the first
//! round trips cost three seconds.)

use super::wire::Feedback;
use std::time::Duration;

/// The window is never smaller: many workers may share a slow link, and the sum of theirs must fit its queue.
const SMALLEST_BYTES: u64 = 16 << 10;
/// A round trip longer than the shortest by this much means that the path is full and queues. A sender that
/// is held up for less leaves no gap.
const QUEUE_TARGET: Duration = Duration::from_millis(4);
/// The same while the window grows by half with each answer: four answers are under way then, and what they
/// add must fit a queue, too.
const QUEUE_TARGET_STARTING: Duration = Duration::from_millis(2);

/// From this share of the size at which it lost the window grows slowly, by one part in so many an answer.
const NEAR_LOSS: f64 = 0.85;
const SLOW_GROWTH: u64 = 256;
/// Beyond this times that size the path has become wider: what was lost then says nothing any more.
const PAST_LOSS: f64 = 1.1;

/// What may leave at once after a pause: this part of the window, and no less than a train.
const RESTART: u64 = 4;
const LEAST_RESTART_BYTES: u64 = 64 << 10;

/// A way of this round trip and longer is a long one.
const LONG_WAY: Duration = Duration::from_millis(3);
/// A long path: the queue that is none yet, as a part of the round trip.
const LONG_QUEUE: u32 = 8;
/// A long path: how much faster than a window a round trip it sends, so that the window is the limit and not
/// the pace. A faster pace queues before the window is as large as the way.
const PACE: f64 = 1.1;
/// A long path: growth a round trip is one part in so many where nothing has been found full yet; up to the size
/// that was; and near the size at which it lost.
const LONG_FREE_GROWTH: u64 = 2;
const LONG_GROWTH: u64 = 8;
const LONG_SLOW_GROWTH: u64 = 64;
/// A long path: where it lost it counts as full up to so many times that size: a loss that goes on for two round
/// trips shrinks it to less than the way holds.
const LOST_IS_FULL: u64 = 2;
/// A long path: what is left of the window when it loses. Its queue is a small part of it.
const LONG_SHRINK: f64 = 0.85;
/// A long path: loss below this share is the path's own, and slower would not help.
const OWN_LOSS: f64 = 0.005;
/// What waits at the receiver is taken to be no less than this long: it naps for a millisecond.
const LEAST_HELD: Duration = Duration::from_millis(2);
const MOST_BYTES: u64 = 1 << 30;

/// The sender's view of one UDP path.
#[derive(Debug)]
pub struct SendWindow {
    bytes: u64,
    /// What the receiver's buffer has room for.
    buffer_bytes: u64,
    /// What may be under way: that, and on a long path what the path itself holds.
    largest_bytes: u64,
    sent_bytes: u64,
    answered_bytes: u64,
    lost_bytes: u64,
    shortest_trip: Duration,
    /// The latest round trips.
    trips: [Duration; 4],
    /// Losses of data sent before this are of the same event: one reduction is enough.
    recovery_bytes: u64,
    /// What was lost by then.
    recovery_lost_bytes: u64,
    /// Size of the window when it last lost; none: not yet, or it was larger since without a loss.
    lost_at_bytes: Option<u64>,
    /// Up to this size a long path counts as full: it shrank there last; none: not yet, or it was larger since.
    full_at_bytes: Option<u64>,
    /// What was answered when it last began to send with nothing under way.
    restarted_bytes: u64,
    starting: bool,
}

impl SendWindow {
    /// A window that respects the receiver's buffer; `idle_trip` is a round trip over the path while nothing
    /// else is sent.
    pub fn new(receiver_buffer_bytes: u64, idle_trip: Duration) -> Self {
        // The kernel charges a datagram's whole allocation to the buffer: half of the granted payload figure
        // is safe.
        let buffer_bytes = (receiver_buffer_bytes / 2).clamp(SMALLEST_BYTES, MOST_BYTES);
        SendWindow {
            bytes: (128 << 10).min(buffer_bytes),
            buffer_bytes,
            largest_bytes: buffer_bytes,
            sent_bytes: 0,
            answered_bytes: 0,
            lost_bytes: 0,
            shortest_trip: idle_trip,
            trips: [idle_trip; 4],
            recovery_bytes: 0,
            recovery_lost_bytes: 0,
            lost_at_bytes: None,
            full_at_bytes: None,
            restarted_bytes: 0,
            starting: true,
        }
    }

    /// Bytes that may be sent now.
    pub fn room(&self) -> u64 {
        self.open_bytes().saturating_sub(self.sent_bytes - self.answered_bytes)
    }

    /// What may be under way now: after a pause a part of the window, and half of what was answered since.
    /// Twice that half, as slow start has it, still overran the queue.
    fn open_bytes(&self) -> u64 {
        if self.starting || self.is_long() {
            return self.bytes;
        }
        let at_once = (self.bytes / RESTART).max(LEAST_RESTART_BYTES);
        self.bytes.min(at_once + (self.answered_bytes - self.restarted_bytes) / 2)
    }

    /// The window's size, bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// It is as large as the receiver's buffer lets it be.
    pub(crate) fn is_largest(&self) -> bool {
        self.bytes >= self.largest_bytes
    }

    /// The shortest round trip.
    pub(crate) fn shortest_trip(&self) -> Duration {
        self.shortest_trip
    }

    fn is_long(&self) -> bool {
        self.shortest_trip >= LONG_WAY
    }

    /// On a long path: how fast the window may go out, bytes per second.
    pub(crate) fn pace(&self) -> Option<f64> {
        self.is_long().then(|| PACE * self.bytes as f64 / self.shortest_trip.as_secs_f64())
    }

    /// After how many bytes a probe should follow, so that several are under way in a window.
    pub fn probe_every_bytes(&self) -> u64 {
        let probes = if self.is_long() { 16 } else { 4 };
        (self.bytes / probes).clamp(SMALLEST_BYTES / 2, 1 << 20)
    }

    /// Payload went out.
    pub fn sent(&mut self, bytes: u64) {
        if self.settled() {
            self.restarted_bytes = self.answered_bytes;
        }
        self.sent_bytes += bytes;
    }

    /// Payload sent so far.
    pub fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    /// Payload lost, as far as the receiver has reported.
    pub fn lost_bytes(&self) -> u64 {
        self.lost_bytes
    }

    /// All that was sent is accounted for.
    pub fn settled(&self) -> bool {
        self.answered_bytes >= self.sent_bytes
    }

    /// The receiver reported what had arrived when our probe did; `trip` is the probe's round trip.
    pub fn hear(&mut self, feedback: &Feedback, trip: Duration) {
        let probed = feedback.probe.sent_bytes;
        if probed > self.sent_bytes || probed < self.answered_bytes {
            return; // forged, or overtaken by a newer one
        }
        let was_limited = self.room() < self.bytes / 2;
        let answered = probed - self.answered_bytes;
        self.answered_bytes = probed;
        self.shortest_trip = self.shortest_trip.min(trip);
        self.largest_bytes = self.way_bytes(trip, Duration::from_nanos(feedback.held_nanos));
        let lost = probed.saturating_sub(feedback.received_bytes);
        self.trips.rotate_right(1);
        self.trips[0] = trip;
        let trip = self.trip_of_the_path();
        let queue = trip - self.shortest_trip;
        if lost > self.lost_bytes && !self.is_own_loss(lost) {
            if probed > self.recovery_bytes {
                self.lost_at_bytes = Some(self.bytes);
                self.shrink(if self.is_long() { self.got_through(answered, lost) } else { 0.7 });
                self.full_at_bytes = self.lost_at_bytes.map(|size| LOST_IS_FULL * size);
            }
        } else if queue > self.queue_target() {
            if probed > self.recovery_bytes {
                self.shrink(self.drained(trip));
            }
        } else if was_limited {
            self.bytes = (self.bytes + self.growth(answered)).min(self.largest_bytes);
            let is_past = |size: &mut u64| self.bytes as f64 > PAST_LOSS * *size as f64;
            self.lost_at_bytes.take_if(is_past);
            self.full_at_bytes.take_if(is_past);
        }
        // Reordered data may still come in: the figure may also go down.
        self.lost_bytes = lost;
    }

    /// The latest round trip; on a long path the shortest of the latest ones. A queue there passes slowly, and
    /// a host that comes too late to one answer is none.
    fn trip_of_the_path(&self) -> Duration {
        let latest = if self.is_long() { self.trips.len() } else { 1 };
        self.trips[..latest].iter().copied().fold(Duration::MAX, Duration::min)
    }

    /// What may be under way when the latest round trip was `trip`, without the time that it was `held` at
    /// the receiver: of what is under way on a long path only that part of the time's share lies in its
    /// buffer.
    fn way_bytes(&self, trip: Duration, held: Duration) -> u64 {
        if !self.is_long() {
            return self.buffer_bytes;
        }
        let held = held.max(LEAST_HELD).as_secs_f64();
        let times = (trip.as_secs_f64() + held) / held;
        ((self.buffer_bytes as f64 * times) as u64).min(MOST_BYTES)
    }

    /// Whether what was lost since the last reduction, `lost` in all, is no more than a long path loses
    /// anyway.
    fn is_own_loss(&self, lost: u64) -> bool {
        let fresh = lost.saturating_sub(self.recovery_lost_bytes) as f64;
        let since = self.answered_bytes.saturating_sub(self.recovery_bytes).max(self.bytes) as f64;
        self.is_long() && fresh < OWN_LOSS * since
    }

    /// The share that got through of the bytes which an answer is for, and no more than `LONG_SHRINK`: while
    /// it starts the window overshoots by much, later by little.
    fn got_through(&self, answered: u64, lost: u64) -> f64 {
        let lost = lost.saturating_sub(self.lost_bytes) as f64;
        (1.0 - lost / answered.max(1) as f64).clamp(0.5, LONG_SHRINK)
    }

    /// The queue that says that the path is full.
    fn queue_target(&self) -> Duration {
        match (self.is_long(), self.starting) {
            (true, _) => QUEUE_TARGET.max(self.shortest_trip / LONG_QUEUE),
            (false, true) => QUEUE_TARGET_STARTING,
            (false, false) => QUEUE_TARGET,
        }
    }

    /// What to shrink to for a queue: on a long path by what lies in it, but for half of what may.
    fn drained(&self, trip: Duration) -> f64 {
        if !self.is_long() {
            return 0.9;
        }
        let wanted = self.shortest_trip + self.queue_target() / 2;
        (wanted.as_secs_f64() / trip.as_secs_f64()).clamp(0.5, 0.95)
    }

    /// What an answer for so many bytes, without loss and without a queue, adds.
    fn growth(&self, answered: u64) -> u64 {
        let near = |lost_at: u64| self.bytes as f64 >= NEAR_LOSS * lost_at as f64;
        let near_loss = self.lost_at_bytes.is_some_and(near);
        match (self.is_long(), self.starting) {
            (true, _) if near_loss => answered / LONG_SLOW_GROWTH,
            (true, _) if self.full_at_bytes.is_some() => answered / LONG_GROWTH,
            (true, _) => answered / LONG_FREE_GROWTH,
            (false, true) => self.bytes / 2,
            (false, false) if near_loss => self.bytes / SLOW_GROWTH,
            (false, false) => (self.bytes / 16).max(SMALLEST_BYTES / 2),
        }
    }

    /// Nothing was heard for long: what is under way is gone, or its answer is.
    pub fn silence(&mut self) {
        self.shrink(0.5);
        self.answered_bytes = self.sent_bytes;
    }

    fn shrink(&mut self, to: f64) {
        self.full_at_bytes = Some(self.bytes);
        self.bytes = ((self.bytes as f64 * to) as u64).max(SMALLEST_BYTES);
        self.recovery_bytes = self.sent_bytes;
        self.recovery_lost_bytes = self.lost_bytes;
        self.starting = false;
    }
}

#[cfg(test)]
mod tests;
