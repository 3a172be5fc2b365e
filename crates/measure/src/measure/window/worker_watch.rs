//! Workers' counters, and looks at them while they work.

use super::WorkerObservation;
use crate::event::WorkerShares;
use linerate_system::clock;
use linerate_transport::flow::counters::WorkerCounters;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Time between two looks that are for the user's eyes only.
const GLANCE: Duration = Duration::from_millis(500);

/// One worker's counters at one moment.
#[derive(Clone, Debug, Default)]
pub struct WorkerCounts {
    cpu_nanos: u64,
    source_nanos: u64,
    sink_nanos: u64,
    full_window_nanos: u64,
    trip_nanos: u64,
    least_trip_nanos: u64,
    sent_bytes: u64,
    lost_bytes: u64,
}

impl WorkerCounts {
    /// Of each worker, in their order.
    pub fn of(workers: &[Arc<WorkerCounters>]) -> Vec<Self> {
        workers.iter().map(|counters| WorkerCounts::now(counters)).collect()
    }

    fn now(counters: &WorkerCounters) -> Self {
        WorkerCounts {
            cpu_nanos: counters.cpu_nanos.load(Ordering::Relaxed),
            source_nanos: counters.waiting_source_nanos.load(Ordering::Relaxed),
            sink_nanos: counters.waiting_sink_nanos.load(Ordering::Relaxed),
            full_window_nanos: counters.full_window_nanos.load(Ordering::Relaxed),
            trip_nanos: counters.trip_nanos.load(Ordering::Relaxed),
            least_trip_nanos: counters.least_trip_nanos.load(Ordering::Relaxed),
            sent_bytes: counters.progress.mark().bytes,
            lost_bytes: counters.lost_bytes.load(Ordering::Relaxed),
        }
    }

    pub(super) fn since(&self, earlier: &WorkerCounts, seconds: f64) -> WorkerObservation {
        let share =
            |late: u64, early: u64| (late.saturating_sub(early) as f64 * 1e-9 / seconds.max(1e-9)).min(1.0);
        let cpu_share = share(self.cpu_nanos, earlier.cpu_nanos);
        let source = share(self.source_nanos, earlier.source_nanos);
        let sink = share(self.sink_nanos, earlier.sink_nanos);
        // io_uring moves bytes inside the call that waits: what was CPU time was no waiting.
        let waited = (1.0 - cpu_share) / (source + sink).max(1.0 - cpu_share).max(1e-9);
        WorkerObservation {
            bytes_per_second: 0.0,
            cpu_share,
            waiting_source: source * waited,
            waiting_sink: sink * waited,
            full_window: share(self.full_window_nanos, earlier.full_window_nanos) * waited,
            round_trip_seconds: self.trip_nanos as f64 * 1e-9,
            least_round_trip_seconds: self.least_trip_nanos as f64 * 1e-9,
            sent_bytes: self.sent_bytes.saturating_sub(earlier.sent_bytes),
            lost_bytes: self.lost_bytes.saturating_sub(earlier.lost_bytes),
        }
    }
}

/// A rate now and then, for those who look on. Beside the figures, never part of them.
#[derive(Clone, Copy, Debug)]
pub(in crate::measure) struct RateGlance {
    at: Instant,
    bytes: u64,
}

impl RateGlance {
    /// So many bytes until now.
    pub(crate) fn new(bytes: u64) -> Self {
        RateGlance { at: clock::now(), bytes }
    }

    /// So many bytes until now; their rate, where half a second has passed.
    pub(crate) fn look(&mut self, bytes: u64) -> Option<f64> {
        let passed = clock::since(self.at);
        let moved = bytes.saturating_sub(self.bytes) as f64;
        (passed >= GLANCE).then(|| {
            *self = RateGlance::new(bytes);
            moved / passed.as_secs_f64()
        })
    }
}

/// Looks at working workers now and then, for those who look on: their rate, and what they do with their
/// time. Beside the figures, never part of them.
pub(in crate::measure) struct WorkerWatch {
    at: Instant,
    counts: Vec<WorkerCounts>,
}

impl WorkerWatch {
    /// From now on.
    pub(crate) fn new(workers: &[Arc<WorkerCounters>]) -> Self {
        WorkerWatch { at: clock::now(), counts: WorkerCounts::of(workers) }
    }

    /// Bytes per second that left the workers (less what UDP is known to have lost) and their shares; none
    /// before half a second has passed.
    pub(crate) fn look(&mut self, workers: &[Arc<WorkerCounters>]) -> Option<(f64, WorkerShares)> {
        let seconds = clock::since(self.at).as_secs_f64();
        if seconds < GLANCE.as_secs_f64() || workers.is_empty() {
            return None;
        }
        let now = WorkerWatch::new(workers);
        let watched: Vec<WorkerObservation> =
            now.counts.iter().zip(&self.counts).map(|(now, then)| now.since(then, seconds)).collect();
        *self = now;
        let mean = |of: fn(&WorkerObservation) -> f64| {
            watched.iter().map(of).sum::<f64>() / watched.len().max(1) as f64
        };
        let moved: f64 = watched.iter().map(|one| one.sent_bytes.saturating_sub(one.lost_bytes) as f64).sum();
        let shares = WorkerShares {
            count: u32::try_from(watched.len()).unwrap_or(u32::MAX),
            busy: mean(|one| one.cpu_share),
            starved: mean(|one| one.waiting_source),
            blocked: mean(|one| one.waiting_sink),
            busiest: watched.iter().map(|one| one.cpu_share).fold(0.0, f64::max),
            incoming: false,
        };
        Some((moved / seconds, shares))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_reports_what_workers_wait_for() {
        let workers = [(); 2].map(|()| Arc::new(WorkerCounters::new(Instant::now())));
        let mut glance = WorkerWatch::new(&workers);
        assert!(glance.look(&workers).is_none(), "too early");
        std::thread::sleep(GLANCE);
        let passed = glance.at.elapsed();
        workers[0].progress.add(1_000_000);
        workers[0].cpu_nanos.store(passed.as_nanos() as u64 / 5, Ordering::Relaxed);
        for worker in &workers {
            WorkerCounters::waited(&worker.waiting_source_nanos, passed / 2);
        }
        workers[1].lost_bytes.store(500, Ordering::Relaxed);
        let (rate, shares) = glance.look(&workers).expect("a look");
        // Half a second, or more on a busy machine.
        assert!(rate > 100e3 && rate <= 2.001e6, "{rate}");
        assert_eq!(shares.count, 2);
        assert!(
            shares.busiest > 0.1 && shares.busiest <= 0.201 && shares.busy < shares.busiest,
            "{shares:?}"
        );
        // Half of the time, less on a machine that lets this test wait.
        assert!(shares.starved > 0.2 && shares.starved <= 0.501 && shares.blocked == 0.0, "{shares:?}");
        assert!(glance.look(&workers).is_none(), "each look begins again");
    }
}
