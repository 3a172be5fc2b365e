//! How fast the streams of a way bring what they are at.

use linerate_system::lock;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Of less time of a stream nothing can be said.
const LEAST: Duration = Duration::from_millis(100);
/// The rate follows what comes in steps of this much time of a stream.
const STEP: Duration = Duration::from_millis(500);

/// Counted by the streams of a way.
#[derive(Debug, Default)]
pub(super) struct WayPace {
    bytes: AtomicU64,
    /// Nanoseconds of all its streams, in which they were at a piece.
    nanos: AtomicU64,
    /// Nanoseconds after the transfer began in which the first and the last bytes came; none: 0.
    first: AtomicU64,
    last: AtomicU64,
    recent: Mutex<RecentPace>,
}

/// What was known when the rate was looked at.
#[derive(Debug, Default)]
struct RecentPace {
    bytes: u64,
    nanos: u64,
    rate: Option<f64>,
}

impl WayPace {
    /// Bytes came, for which a stream took this time.
    pub(super) fn add(&self, bytes: u64, time: Duration, begun: Instant) {
        let now = nanos(begun.elapsed());
        if self.bytes.fetch_add(bytes, Ordering::Relaxed) == 0 {
            self.first.store(now.saturating_sub(nanos(time)), Ordering::Relaxed);
        }
        self.nanos.fetch_add(nanos(time), Ordering::Relaxed);
        self.last.fetch_max(now, Ordering::Relaxed);
    }

    /// All that came.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes per second of all its streams, from the first byte to the last.
    pub(super) fn mean_rate(&self) -> f64 {
        let time = self.last.load(Ordering::Relaxed).saturating_sub(self.first.load(Ordering::Relaxed));
        if time > 0 { self.bytes() as f64 / (time as f64 * 1e-9) } else { 0.0 }
    }

    /// Bytes per second of one of its streams lately; none: nothing came for long enough.
    pub(super) fn stream_rate(&self) -> Option<f64> {
        let mut recent = lock(&self.recent);
        let (bytes, time) = (self.bytes(), self.nanos.load(Ordering::Relaxed));
        let (more, since) = (bytes.saturating_sub(recent.bytes), time.saturating_sub(recent.nanos));
        let least = if recent.rate.is_none() { LEAST } else { STEP };
        if since >= nanos(least) {
            let now = more as f64 / (since as f64 * 1e-9);
            let rate = recent.rate.map_or(now, |before| (before + now) / 2.0);
            *recent = RecentPace { bytes, nanos: time, rate: Some(rate) };
        }
        recent.rate
    }

    /// What is known is replaced by this: a stream of it had to give up its piece. Of one that had brought nothing yet
    /// it is halved: a rate of nothing would keep the way from every further piece, and nobody would learn that it is
    /// fast again.
    pub(super) fn was_late(&self, rate: f64, begun: Instant) {
        // It waited until now for what did not come.
        self.last.fetch_max(nanos(begun.elapsed()), Ordering::Relaxed);
        let (bytes, nanos) = (self.bytes(), self.nanos.load(Ordering::Relaxed));
        let mut recent = lock(&self.recent);
        let rate = if rate > 0.0 { Some(rate) } else { recent.rate.map(|before| before / 2.0) };
        *recent = RecentPace { bytes, nanos, rate };
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_one_stream_and_follows_what_comes() {
        let (pace, begun) = (WayPace::default(), Instant::now());
        assert_eq!((pace.stream_rate(), pace.mean_rate()), (None, 0.0));
        pace.add(1000, Duration::from_millis(50), begun);
        assert_eq!(pace.stream_rate(), None, "too short");
        // Two streams at the same time.
        pace.add(1000, Duration::from_millis(50), begun);
        assert_eq!(pace.stream_rate(), Some(20_000.0));
        pace.add(5000, Duration::from_millis(500), begun);
        assert_eq!(pace.stream_rate(), Some(15_000.0), "half of what was, half of what is");
        assert_eq!((pace.stream_rate(), pace.bytes()), (Some(15_000.0), 7000));
        pace.was_late(3.0, begun);
        assert_eq!(pace.stream_rate(), Some(3.0));
        pace.was_late(0.0, begun);
        assert_eq!(pace.stream_rate(), Some(1.5), "half of what was");
        let unknown = WayPace::default();
        unknown.was_late(0.0, begun);
        assert_eq!(unknown.stream_rate(), None, "it may be fast all the same");
    }
}
