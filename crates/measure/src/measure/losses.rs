//! Losses of TCP streams as they come, from a connection's begin on: what losses by chance let a flow keep follows from
//! how many of its segments were lost (`chance_loss` of the model), and those before the samples count as well.

use super::Stages;
use linerate_model::plan::long_path::{CongestionControl, FEWEST_LOSSES, LossCount, LossyFlow};
use linerate_system::connection::TcpView;

/// Looks at one stream's count of retransmitted segments. It counts from its first loss on: that ends slow start, mostly
/// by overflowing a queue, which a way without any chance loss does to each connection as well.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LossWatch {
    retransmits: u64,
    last_seconds: Option<f64>,
    /// Bytes that were acknowledged when the first was seen, and at the latest look.
    first_bytes: Option<u64>,
    bytes: u64,
    losses: u64,
}

impl LossWatch {
    /// One look; both counters since the begin. What goes on being sent again in a round trip is one loss: TCP answers it
    /// once (RFC 5348, section 5.2), however many segments a queue that overflowed has dropped.
    pub(super) fn look(
        &mut self,
        seconds: f64,
        retransmits: u64,
        acknowledged_bytes: u64,
        round_trip_seconds: f64,
    ) {
        self.bytes = self.bytes.max(acknowledged_bytes);
        if retransmits <= self.retransmits {
            return;
        }
        self.retransmits = retransmits;
        let is_another = |last: f64| seconds - last > round_trip_seconds;
        if self.last_seconds.is_none_or(is_another) {
            match self.first_bytes {
                None => self.first_bytes = Some(self.bytes),
                Some(_) => self.losses += 1,
            }
        }
        self.last_seconds = Some(seconds);
    }

    /// One look at what the kernel counts of the stream's connection.
    pub(super) fn look_at(&mut self, seconds: f64, view: &TcpView) {
        let round_trip_seconds = f64::from(view.info.rtt_us) * 1e-6;
        self.look(seconds, view.info.retransmits.into(), view.info.acknowledged_bytes, round_trip_seconds);
    }

    /// Losses after the first among the segments since.
    pub(super) fn count(&self, segment_bytes: u32) -> LossCount {
        loss_count(self.losses, self.loss_bytes(), segment_bytes)
    }

    /// After the first.
    pub(super) fn losses(&self) -> u64 {
        self.losses
    }

    /// Bytes that were acknowledged since the first.
    pub(super) fn loss_bytes(&self) -> u64 {
        self.first_bytes.map_or(0, |first| self.bytes.saturating_sub(first))
    }
}

/// So many losses in so many bytes of such segments.
pub(super) fn loss_count(losses: u64, bytes: u64, segment_bytes: u32) -> LossCount {
    LossCount { losses, segments: bytes as f64 / f64::from(segment_bytes.max(1)) }
}

impl Stages<'_> {
    /// Of the sender.
    pub(super) fn congestion_control(&self) -> CongestionControl {
        CongestionControl::of(self.machine, self.goal)
    }

    /// What a flow has shown counts for those that come.
    pub(super) fn count_losses(&mut self, streams: impl Iterator<Item = LossCount>) {
        streams.for_each(|stream| self.losses.join(stream));
    }

    /// So much was lost that how long a flow takes to find its rate must not depend on whether it loses something: one
    /// that is counted from a moment on before which it lost nothing for long has a larger window than losses let stand.
    pub(super) fn is_lossy(&self) -> bool {
        self.losses.losses >= FEWEST_LOSSES
    }

    /// Round trips from one loss of a stream to its next; none where too few were seen, or where it is not known how they
    /// are answered.
    pub(super) fn trips_between_losses(&self) -> Option<f64> {
        let control = self.congestion_control();
        let flow = LossyFlow {
            congestion_control: &control,
            loss: self.losses,
            round_trip_seconds: self.round_trip_seconds,
            segment_bytes: 1.0,
            streams: 1,
        };
        flow.trips_between_losses().filter(|_| self.is_lossy() && self.round_trip_seconds > 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_again_in_a_round_trip_is_one_loss() {
        let losses = |looks: &[(f64, u64)]| {
            let mut watch = LossWatch::default();
            let bytes = |seconds: f64| (1e6 * seconds) as u64;
            looks.iter().for_each(|(at, retransmits)| watch.look(*at, *retransmits, bytes(*at), 0.05));
            (watch.losses(), watch.loss_bytes())
        };
        assert_eq!(losses(&[(0.0, 0), (0.02, 0)]), (0, 0));
        assert_eq!(losses(&[(0.02, 1), (0.04, 1), (0.5, 2), (0.9, 3), (1.02, 3)]), (2, 1_000_000));
        // A queue that overflows at the end of slow start: three round trips of sending again are no chance loss.
        let overflow: Vec<(f64, u64)> =
            (0u32..8).map(|at| (f64::from(at) * 0.02, 40 * u64::from(at))).collect();
        assert_eq!(losses(&overflow), (0, 120_000));
        assert_eq!(losses(&[(0.02, 5), (0.04, 3)]).0, 0, "a counter that goes back is another one");
    }
}
