//! What a worker counts: live counters for the sampler, and its own histograms, which nobody else touches
//! until it has ended.

use crate::flow::progress::Progress;
use hdrhistogram::Histogram;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Longest latency that is told apart: more counts as this.
const LONGEST: Duration = Duration::from_secs(600);

/// Bumped by the worker's thread, read by the sampler.
#[derive(Debug)]
pub struct AccessCounters {
    /// Bytes of all completed requests.
    pub progress: Progress,
    /// Completed requests.
    pub operations: AtomicU64,
    /// The window that is being measured; 0: the warm-up, which is forgotten at its end.
    window: AtomicU32,
    /// It has ended.
    pub ended: AtomicBool,
    /// Set by somebody else beside `stop`: what is under way is not waited for, and nothing is flushed
    /// (Ctrl-C).
    pub abandon: AtomicBool,
}

impl AccessCounters {
    /// Nothing done yet; `begin` is common to all workers of a measurement.
    pub fn new(begin: Instant) -> Self {
        AccessCounters {
            progress: Progress::new(begin),
            operations: AtomicU64::new(0),
            window: AtomicU32::new(0),
            ended: AtomicBool::new(false),
            abandon: AtomicBool::new(false),
        }
    }

    /// A window begins, and the one before it has ended. The worker sees it at its next look at the clock.
    pub fn next_window(&self) {
        self.window.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn window(&self) -> u32 {
        self.window.load(Ordering::Relaxed)
    }
}

/// Requests of both directions that were answered in some stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnsweredRequests {
    pub operations: u64,
    /// Sum of their latencies.
    pub latency_nanos: u64,
}

/// Requests of one direction.
#[derive(Clone, Debug)]
pub struct AccessTally {
    pub operations: u64,
    pub bytes: u64,
    /// Latencies in nanoseconds, three significant digits, 100 ns to ten minutes.
    pub latency: Histogram<u64>,
}

impl AccessTally {
    /// One completed request.
    pub fn add(&mut self, bytes: u64, latency: Duration) {
        self.add_alike(1, bytes, latency.as_nanos() as u64);
    }

    /// So many of `bytes` each that took equally long.
    pub(crate) fn add_alike(&mut self, operations: u64, bytes: u64, latency_nanos: u64) {
        self.operations += operations;
        self.bytes += operations * bytes;
        self.latency.saturating_record_n(latency_nanos, operations);
    }

    /// How many took less than each of these rising times, and not less than the one before it; last those that
    /// took longer than all.
    pub fn counts_below(&self, bounds_nanos: &[u64]) -> Vec<u64> {
        let mut counts = vec![0; bounds_nanos.len() + 1];
        for step in self.latency.iter_recorded() {
            // Of what the histogram holds as one, the least decides.
            let least = self.latency.lowest_equivalent(step.value_iterated_to());
            counts[bounds_nanos.partition_point(|bound| *bound <= least)] += step.count_at_value();
        }
        counts
    }

    /// As if nothing had been done; keeps its memory.
    pub(super) fn clear(&mut self) {
        (self.operations, self.bytes) = (0, 0);
        self.latency.reset();
    }

    /// Another worker's requests, too.
    pub fn join(&mut self, other: &AccessTally) {
        self.operations += other.operations;
        self.bytes += other.bytes;
        self.latency += &other.latency;
    }
}

impl Default for AccessTally {
    /// Nothing done yet. The histogram takes its memory now, and no more later.
    fn default() -> Self {
        AccessTally { operations: 0, bytes: 0, latency: histogram() }
    }
}

/// Writes that a sync followed.
#[derive(Clone, Debug, Default)]
pub struct SyncTally {
    /// The sync alone.
    pub alone: AccessTally,
    /// From when the write was asked for until its sync was over.
    pub with_write: AccessTally,
}

impl SyncTally {
    pub(super) fn add(&mut self, bytes: u64, alone_nanos: u64, whole_nanos: u64) {
        self.alone.add_alike(1, 0, alone_nanos);
        self.with_write.add_alike(1, bytes, whole_nanos);
    }

    pub(super) fn clear(&mut self) {
        self.alone.clear();
        self.with_write.clear();
    }

    /// Another worker's, too.
    pub fn join(&mut self, other: &SyncTally) {
        self.alone.join(&other.alone);
        self.with_write.join(&other.with_write);
    }
}

/// An empty histogram of nanoseconds with the bounds that all share, so that they can be added.
pub(crate) fn histogram() -> Histogram<u64> {
    // The bounds are constants that the library accepts; a histogram that grows by itself stands in, were
    // that to change.
    Histogram::new_with_bounds(100, LONGEST.as_nanos() as u64, 3)
        .unwrap_or_else(|_| Histogram::new(3).expect("three digits are within the library's bounds"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_between_bounds() {
        let mut tally = AccessTally::default();
        for nanos in [5_000, 99_000, 101_000, 2_500_000] {
            tally.add(4096, Duration::from_nanos(nanos));
        }
        assert_eq!(tally.counts_below(&[4_000, 100_000, 1_000_000]), [0, 2, 1, 1]);
        assert_eq!(AccessTally::default().counts_below(&[10]), [0, 0]);
    }

    #[test]
    fn tallies_add_up() {
        let mut one = AccessTally::default();
        let mut other = AccessTally::default();
        (1..=100).for_each(|ms| one.add(4096, Duration::from_millis(ms)));
        other.add(4096, Duration::from_secs(3600));
        one.join(&other);
        assert_eq!((one.operations, one.bytes), (101, 101 * 4096));
        let middle = one.latency.value_at_quantile(0.5) as f64 / 1e6;
        assert!((middle - 51.0).abs() < 0.5, "{middle} ms");
        assert!(
            one.latency.max() >= LONGEST.as_nanos() as u64,
            "more than the longest counts as the longest"
        );
    }

    #[test]
    fn a_tally_takes_no_more_memory_however_long_it_counts() {
        let mut tally = AccessTally::default();
        let room = tally.latency.distinct_values();
        for shift in 0..64 {
            tally.add_alike(1 << 20, 4096, 1u64 << shift);
        }
        tally.add_alike(1 << 40, 4096, u64::MAX);
        assert_eq!(tally.latency.distinct_values(), room);
        assert_eq!(tally.operations, (64 << 20) + (1 << 40));
    }
}
