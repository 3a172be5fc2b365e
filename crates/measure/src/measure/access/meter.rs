//! What is watched of a pool at work: its progress for the windows, by marks between completions.

use super::{Burst, DeviceUse};
use crate::measure::window::{Meter, WindowObservation};
use linerate_system::clock;
use linerate_transport::flow::access::AccessCounters;
use linerate_transport::flow::progress::Mark;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// So many times the mean distance of completions, beyond those in flight, is no chance any more.
const LONG_GAPS: u64 = 8;
/// A pause shorter than this part of a window changes no figure.
const SHORT_PART: u64 = 20;

/// Windows or one window, with what the devices did meanwhile.
#[derive(Debug, Default)]
pub(crate) struct AccessObservation {
    pub windows: WindowObservation,
    pub timed: bool,
    pub devices: Vec<DeviceUse>,
    /// When the first worker had done its part (seconds since the common zero), and the bytes of all until
    /// then.
    pub first_done: Option<(f64, u64)>,
    /// A change of level in the series of short windows.
    pub burst: Option<Burst>,
    /// A source lies in memory.
    pub in_memory: bool,
    pub area_bytes: u64,
    pub asked_bytes: u64,
    pub cores: Vec<u32>,
}

/// Reads the workers' progress.
#[derive(Debug)]
pub(crate) struct WorkerMeter<'a> {
    pub counters: &'a [Arc<AccessCounters>],
    /// Common zero of the workers' clocks.
    pub begin: Instant,
    /// The shortest warm-up, and requests in flight of all workers after whose number of answers it is over;
    /// 0: where a pace leaves users without a request.
    pub warm_up: Duration,
    pub users: u64,
    pub transfer_bytes: u64,
    pub queue_depth: u64,
    /// Each worker at the last mark.
    pub last: Vec<Mark>,
}

impl Meter for WorkerMeter<'_> {
    type Error = Infallible;

    fn marks(&mut self) -> Result<Option<Vec<Mark>>, Infallible> {
        let now = clock::since(self.begin).as_nanos() as u64;
        let mut marks: Vec<Mark> = self.counters.iter().map(|counters| counters.progress.mark()).collect();
        let in_flight = self.queue_depth;
        for (mark, before) in marks.iter_mut().zip(&self.last) {
            *mark = with_stall(*mark, before, now, self.transfer_bytes, in_flight);
        }
        self.last.clone_from(&marks);
        self.counters.iter().for_each(|counters| counters.next_window());
        Ok(Some(marks))
    }

    fn has_one_clock(&self) -> bool {
        true
    }

    /// Before each user was answered once, latencies still grow: those who ask behind a queue of thousands wait
    /// for seconds.
    fn is_settled(&mut self) -> bool {
        let answered = |counters: &Arc<AccessCounters>| counters.operations.load(Ordering::Relaxed);
        clock::since(self.begin) >= self.warm_up
            && self.counters.iter().map(answered).sum::<u64>() >= self.users
    }
}

/// A mark ends with the last completion, so that no rate is rounded to whole requests. Where nothing was
/// completed for much longer than usual, the pause is time that the figure has to bear: the mark ends now.
fn with_stall(mark: Mark, before: &Mark, now: u64, transfer_bytes: u64, in_flight: u64) -> Mark {
    let requests = mark.bytes.saturating_sub(before.bytes) / transfer_bytes.max(1);
    let busy = mark.nanos.saturating_sub(before.nanos);
    let idle = now.saturating_sub(mark.nanos);
    let Some(gap) = busy.checked_div(requests) else { return mark };
    let unusual = idle > gap.saturating_mul(in_flight + LONG_GAPS);
    let counts = idle > now.saturating_sub(before.nanos) / SHORT_PART;
    if unusual && counts { Mark { nanos: now, ..mark } } else { mark }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_pause_at_the_end_of_a_window_counts_and_the_usual_distance_does_not() {
        let before = Mark { bytes: 0, nanos: 0 };
        let mark = Mark { bytes: 100 * 4096, nanos: 100 * MS };
        let usual = with_stall(mark, &before, 101 * MS, 4096, 1);
        assert_eq!(usual, mark);
        let stalled = with_stall(mark, &before, 1000 * MS, 4096, 1);
        assert!((stalled.rate_since(&before) / 409_600.0 - 1.0).abs() < 1e-9, "all of the second counts");
        // Two slow requests, the third on its way; a whole queue that completes at once.
        let slow = Mark { bytes: 2 * 4096, nanos: 600 * MS };
        assert_eq!(with_stall(slow, &before, 1000 * MS, 4096, 1), slow);
        let at_once = Mark { bytes: 32 * 4096, nanos: 640 * MS };
        assert_eq!(with_stall(at_once, &before, 1000 * MS, 4096, 32), at_once);
        assert_eq!(with_stall(before, &before, 1000 * MS, 4096, 1), before, "nothing at all is not a rate");
    }
}
