//! How much a UDP worker may have under way: a window that grows until the path queues, and shrinks when it
//! loses.
//!
//! Unpaced senders with segmentation offload lose most of what they send (81 % with four of them on
//! loopback), and the kernel's own pacing (SO_MAX_PACING_RATE) is ignored on UDP without fq. So the worker
//! paces itself by what the receiver says it got, as TCP's acknowledgements do: after Vegas (Brakmo,
//! O'Malley, Peterson 1994), growth stops when the round trip tells of a queue.

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
            starting: true,
        }
    }

    /// Bytes that may be sent now.
    pub fn room(&self) -> u64 {
        self.bytes.saturating_sub(self.sent_bytes - self.answered_bytes)
    }

    /// The window's size, bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// After how many bytes a probe should follow, so that several are under way in a window.
    pub fn probe_every_bytes(&self) -> u64 {
        (self.bytes / 4).clamp(SMALLEST_BYTES / 2, 1 << 20)
    }

    /// Payload went out.
    pub fn sent(&mut self, bytes: u64) {
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
                self.shrink(0.7);
            }
        } else if trip > self.shortest_trip + target {
            if probed > self.recovery_bytes {
                self.shrink(0.9);
            }
        } else if was_limited {
            let growth =
                if self.starting { self.bytes / 2 } else { (self.bytes / 16).max(SMALLEST_BYTES / 2) };
            self.bytes = (self.bytes + growth).min(self.largest_bytes);
        }
        // Reordered data may still come in: the figure may also go down.
        self.lost_bytes = lost;
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
