//! Losses of TCP streams as they come, from a connection's begin on: what losses by chance let a flow keep follows from
//! how many of its segments were lost (`chance_loss` of the model), and those before the samples count as well.

use super::Stages;
use super::tcp_figures::TcpFigures;
use linerate_model::plan::long_path::{CongestionControl, FEWEST_LOSSES, LossyFlow};

/// Looks at one stream's count of retransmitted segments.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LossWatch {
    retransmits: u64,
    last_seconds: Option<f64>,
    losses: u64,
}

impl LossWatch {
    /// One look; `retransmits` since the begin. What goes on being sent again in a round trip is one loss: TCP answers it
    /// once (RFC 5348, section 5.2), however many segments a queue that overflowed has dropped.
    pub(super) fn look(&mut self, seconds: f64, retransmits: u64, round_trip_seconds: f64) {
        if retransmits <= self.retransmits {
            return;
        }
        self.retransmits = retransmits;
        let is_another = |last: f64| seconds - last > round_trip_seconds;
        self.losses += u64::from(self.last_seconds.is_none_or(is_another));
        self.last_seconds = Some(seconds);
    }

    /// So far.
    pub(super) fn losses(&self) -> u64 {
        self.losses
    }
}

impl Stages<'_> {
    /// Of the sender.
    pub(super) fn congestion_control(&self) -> CongestionControl {
        CongestionControl::of(self.machine, self.goal)
    }

    /// What a flow has shown counts for those that come.
    pub(super) fn count_losses(&mut self, streams: &[TcpFigures]) {
        streams.iter().for_each(|stream| self.losses.join(stream.loss_count()));
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
            looks.iter().for_each(|(seconds, retransmits)| watch.look(*seconds, *retransmits, 0.05));
            watch.losses()
        };
        assert_eq!(losses(&[(0.0, 0), (0.02, 0)]), 0);
        assert_eq!(losses(&[(0.02, 1), (0.04, 1), (0.5, 2), (0.9, 3)]), 3);
        // A queue that overflows at the end of slow start: three round trips of sending again.
        let overflow: Vec<(f64, u64)> =
            (0u32..8).map(|at| (f64::from(at) * 0.02, 40 * u64::from(at))).collect();
        assert_eq!(losses(&overflow), 1);
        assert_eq!(losses(&[(0.02, 5), (0.04, 3)]), 1, "a counter that goes back is another one");
    }
}
