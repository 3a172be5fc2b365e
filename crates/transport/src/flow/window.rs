//! How much a UDP worker may have under way: a window that grows until the path queues, and shrinks when it
//! loses.
//!
//! Unpaced senders with segmentation offload lose most of what they send (81 % with four of them on
//! loopback), and the kernel's own pacing (SO_MAX_PACING_RATE) is ignored on UDP without fq. So the worker
//! paces itself by what the receiver says it got, as TCP's acknowledgements do: after Vegas (Brakmo,
//! O'Malley, Peterson 1994), growth stops when the round trip tells of a queue. Where a queue is too short to
//! be seen, or several workers fill it at once, it remembers at what size it lost and comes near that slowly,
//! as CUBIC does (RFC 9438): growing at one pace, four bursty workers lost 3 % for ever. After a pause no
//! answers are on their way to be its clock, and a whole window at once, of each of four workers, is more than
//! the queue of their link holds: it opens as answers come (the restart window of RFC 5681, 4.1).

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

/// The sender's view of one UDP path.
#[derive(Debug)]
pub struct SendWindow {
    bytes: u64,
    largest_bytes: u64,
    sent_bytes: u64,
    answered_bytes: u64,
    lost_bytes: u64,
    shortest_trip: Duration,
    /// Losses of data sent before this are of the same event: one reduction is enough.
    recovery_bytes: u64,
    /// Size of the window when it last lost; none: not yet, or it was larger since without a loss.
    lost_at_bytes: Option<u64>,
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
        let largest_bytes = (receiver_buffer_bytes / 2).clamp(SMALLEST_BYTES, 1 << 30);
        SendWindow {
            bytes: (128 << 10).min(largest_bytes),
            largest_bytes,
            sent_bytes: 0,
            answered_bytes: 0,
            lost_bytes: 0,
            shortest_trip: idle_trip,
            recovery_bytes: 0,
            lost_at_bytes: None,
            restarted_bytes: 0,
            starting: true,
        }
    }

    /// Bytes that may be sent now.
    pub fn room(&self) -> u64 {
        self.open_bytes().saturating_sub(self.sent_bytes - self.answered_bytes)
    }

    /// What may be under way now: after a pause a part of the window, and half of what was answered since. Twice
    /// that half, as slow start has it, still overran the queue.
    fn open_bytes(&self) -> u64 {
        if self.starting {
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

    /// After how many bytes a probe should follow, so that several are under way in a window.
    pub fn probe_every_bytes(&self) -> u64 {
        (self.bytes / 4).clamp(SMALLEST_BYTES / 2, 1 << 20)
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

    /// Payload lost, as far as the receiver has told.
    pub fn lost_bytes(&self) -> u64 {
        self.lost_bytes
    }

    /// All that was sent is accounted for.
    pub fn settled(&self) -> bool {
        self.answered_bytes >= self.sent_bytes
    }

    /// The receiver told what had arrived when our probe did; `trip` is the probe's round trip.
    pub fn hear(&mut self, feedback: &Feedback, trip: Duration) {
        let probed = feedback.probe.sent_bytes;
        if probed > self.sent_bytes || probed < self.answered_bytes {
            return; // forged, or overtaken by a newer one
        }
        let was_limited = self.room() < self.bytes / 2;
        self.answered_bytes = probed;
        self.shortest_trip = self.shortest_trip.min(trip);
        let lost = probed.saturating_sub(feedback.received_bytes);
        let target = if self.starting { QUEUE_TARGET_STARTING } else { QUEUE_TARGET };
        if lost > self.lost_bytes {
            if probed > self.recovery_bytes {
                self.lost_at_bytes = Some(self.bytes);
                self.shrink(0.7);
            }
        } else if trip > self.shortest_trip + target {
            if probed > self.recovery_bytes {
                self.shrink(0.9);
            }
        } else if was_limited {
            self.bytes = (self.bytes + self.growth()).min(self.largest_bytes);
            let is_past = |lost_at: &mut u64| self.bytes as f64 > PAST_LOSS * *lost_at as f64;
            self.lost_at_bytes.take_if(is_past);
        }
        // Reordered data may still come in: the figure may also go down.
        self.lost_bytes = lost;
    }

    /// What an answer without loss and without a queue adds.
    fn growth(&self) -> u64 {
        let near = |lost_at: u64| self.bytes as f64 >= NEAR_LOSS * lost_at as f64;
        match self.starting {
            true => self.bytes / 2,
            false if self.lost_at_bytes.is_some_and(near) => self.bytes / SLOW_GROWTH,
            false => (self.bytes / 16).max(SMALLEST_BYTES / 2),
        }
    }

    /// Nothing was heard for long: what is under way is gone, or its answer is.
    pub fn silence(&mut self) {
        self.shrink(0.5);
        self.answered_bytes = self.sent_bytes;
    }

    fn shrink(&mut self, to: f64) {
        self.bytes = ((self.bytes as f64 * to) as u64).max(SMALLEST_BYTES);
        self.recovery_bytes = self.sent_bytes;
        self.starting = false;
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::Probe;
    use super::*;

    /// A path that serves `rate` bytes a millisecond behind a queue of `queue` bytes; 10 s of it.
    fn drive(rate: u64, queue: u64) -> (f64, f64) {
        let mut window = SendWindow::new(8 << 20, Duration::from_micros(100));
        let (mut waiting, mut received, mut lost) = (0u64, 0u64, 0u64);
        for _ in 0..10_000u64 {
            let burst = window.room();
            window.sent(burst);
            let taken = burst.min(queue + rate - waiting.min(queue + rate));
            lost += burst - taken;
            waiting += taken;
            let served = waiting.min(rate);
            waiting -= served;
            received += served;
            let trip = Duration::from_micros(100 + 1000 * waiting / rate);
            let probe = Probe { sent_bytes: window.sent_bytes() - waiting, nanos: 0 };
            let feedback = Feedback { probe, received_bytes: probe.sent_bytes - lost, ..Feedback::default() };
            window.hear(&feedback, trip);
        }
        (received as f64 / (rate * 10_000) as f64, lost as f64 / (received + lost) as f64)
    }

    #[test]
    fn fills_a_shaped_link_without_loss() {
        // 1 Gb/s and 10 Gb/s behind a queue of 10 ms: as deep as a shallow switch or the lab's tbf.
        for rate in [125_000u64, 1_250_000] {
            let (used, lost) = drive(rate, rate * 10);
            assert!(used > 0.97, "{rate}: used {used}");
            assert!(lost < 0.001, "{rate}: lost {lost}");
        }
    }

    #[test]
    fn a_path_with_hardly_a_queue_loses_little() {
        let (used, lost) = drive(125_000, 200_000);
        assert!(used > 0.85, "used {used}");
        assert!(lost < 0.02, "lost {lost}");
    }

    /// Flows that share a path of `rate` bytes a tenth of a millisecond behind a queue of `queue` bytes; each has
    /// `burst` bytes more to send every 100 ms. Shares of the possible rate and of what was sent that was lost,
    /// and the latter after the first third of `ticks`.
    fn share(flows: usize, rate: u64, queue: u64, burst: u64, ticks: u64) -> (f64, f64, f64) {
        /// A piece on the way, with what its flow had sent by then where it is a probe.
        type Piece = (usize, u64, Option<u64>, u64);
        const PROCESSOR: u64 = 400_000; // bytes that a sender can hand over in a tenth of a millisecond
        let mut windows: Vec<_> =
            (0..flows).map(|_| SendWindow::new(8 << 20, Duration::from_micros(100))).collect();
        let (mut left, mut received) = (vec![0u64; flows], vec![0u64; flows]);
        let (mut unprobed, mut way) = (vec![0u64; flows], std::collections::VecDeque::<Piece>::new());
        let (mut waiting, mut sent) = (0u64, 0u64);
        let mut by_then = (0, 0);
        for tick in 0..ticks {
            if tick == ticks / 3 {
                by_then = (sent, received.iter().sum::<u64>());
            }
            for flow in 0..flows {
                let window = &mut windows[flow];
                left[flow] += if tick % 1000 == 0 { burst } else { 0 };
                let mut may = window.room().min(left[flow]).min(PROCESSOR);
                while may >= 9000 {
                    let train = may.min(64 * 8972);
                    (may, left[flow], sent) = (may - train, left[flow] - train, sent + train);
                    window.sent(train);
                    unprobed[flow] += train;
                    if waiting + train <= queue {
                        waiting += train;
                        way.push_back((flow, train, None, tick));
                    }
                    if unprobed[flow] >= window.probe_every_bytes() {
                        unprobed[flow] = 0;
                        way.push_back((flow, 0, Some(window.sent_bytes()), tick));
                    }
                }
                if unprobed[flow] > 0 && tick % 20 == 0 {
                    unprobed[flow] = 0;
                    way.push_back((flow, 0, Some(window.sent_bytes()), tick));
                }
            }
            let mut can = rate;
            while let Some((flow, bytes, probe, at)) = way.pop_front() {
                let now = bytes.min(can);
                (can, waiting) = (can - now, waiting - now);
                received[flow] += now;
                if now < bytes {
                    way.push_front((flow, bytes - now, probe, at));
                    break;
                }
                let Some(sent_bytes) = probe else { continue };
                let probe = Probe { sent_bytes, nanos: 0 };
                let feedback = Feedback { probe, received_bytes: received[flow], ..Feedback::default() };
                windows[flow].hear(&feedback, Duration::from_micros(100 * (tick - at + 1)));
            }
        }
        let arrived = received.iter().sum::<u64>() as f64;
        let possible = (rate * ticks).min(burst * flows as u64 * ticks / 1000) as f64;
        let later = 1.0 - (arrived - by_then.1 as f64) / (sent - by_then.0) as f64;
        (arrived / possible, 1.0 - arrived / sent as f64, later)
    }

    #[test]
    fn workers_that_share_a_link_lose_little_whether_bursty_or_full() {
        // 10 Gb/s behind 5 ms, as the lab shapes it; four disks of 50 MB/s that are let through in slices of 100 ms.
        const LONG: u64 = 40_000;
        let (used, lost, _) = share(4, 125_000, 6_250_000, 5_200_000, LONG);
        assert!(used > 0.98 && lost < 0.005, "bursts: used {used}, lost {lost}");
        let (used, lost, _) = share(4, 125_000, 6_250_000, 50_000_000, LONG);
        assert!(used > 0.97 && lost < 0.015, "full: used {used}, lost {lost}");
        let (used, lost, _) = share(4, 12_500, 1_000_000, 5_000_000, LONG);
        assert!(used > 0.97 && lost < 0.005, "1 Gb/s: used {used}, lost {lost}");
        // A turn of a run: 0.35 s that do not count, and 0.7 s that do.
        let (_, _, lost) = share(4, 125_000, 6_250_000, 5_200_000, 10_500);
        assert!(lost < 0.005, "bursts in a turn: lost {lost}");
    }

    #[test]
    fn forged_feedback_is_not_believed() {
        let mut window = SendWindow::new(8 << 20, Duration::from_micros(100));
        window.sent(100_000);
        let room = window.room();
        let probe = Probe { sent_bytes: 1 << 40, nanos: 0 };
        window.hear(&Feedback { probe, received_bytes: 1 << 40, ..Feedback::default() }, Duration::ZERO);
        assert_eq!(window.room(), room);
    }
}
