//! Bytes at even distances of time, for anyone who looks for a change of level.

use super::Burst;
use super::burst::burst;
use std::time::Duration;

/// Length of the windows in which a burst is looked for, seconds: long enough for a few requests, short
/// beside any bucket.
pub(crate) const SHORT_WINDOW_SECONDS: f64 = 0.1;
/// So many of them at most are kept; an hour of a slow burst is shown by longer ones.
const MOST_SHORT_WINDOWS: usize = 600;

/// Bytes so far, from the start on: a bucket begins to empty with the first request.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    window: Duration,
    marks: Vec<(Duration, u64)>,
}

impl Series {
    /// Nothing yet.
    pub(crate) fn new() -> Self {
        Series { window: Duration::from_secs_f64(SHORT_WINDOW_SECONDS), marks: vec![(Duration::ZERO, 0)] }
    }

    /// So many bytes by `now`, time since the start. Asked for `bytes` only where it is time for a mark.
    pub(crate) fn look(&mut self, now: Duration, bytes: impl FnOnce() -> u64) {
        if now < self.window * self.marks.len() as u32 {
            return;
        }
        self.marks.push((now, bytes()));
        if self.marks.len() > MOST_SHORT_WINDOWS {
            // Twice as long, half as many: the memory that it takes has an end.
            let mut index = 0;
            self.marks.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.window *= 2;
        }
    }

    /// Of each window, bytes per second.
    pub(crate) fn rates(&self) -> Vec<f64> {
        let rate = |pair: &[(Duration, u64)]| {
            let seconds = (pair[1].0 - pair[0].0).as_secs_f64();
            pair[1].1.saturating_sub(pair[0].1) as f64 / seconds.max(1e-9)
        };
        self.marks.windows(2).map(rate).collect()
    }

    /// A fall from one level to a lower one.
    pub(crate) fn burst(&self) -> Option<Burst> {
        burst(&self.rates(), self.window_seconds())
    }

    /// Looks that are rare make longer windows than were asked for.
    pub(crate) fn window_seconds(&self) -> f64 {
        let last = self.marks.last().map_or(0.0, |(at, _)| at.as_secs_f64());
        last / self.marks.len().saturating_sub(1).max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_that_is_seen_seldom_shows_its_bucket_as_well() {
        let (mut series, mut now, mut bytes) = (Series::new(), Duration::ZERO, 0);
        // 40 MB a write: 400 MB/s for 2 s, then 100 MB/s.
        while now < Duration::from_secs(8) {
            now += Duration::from_millis(if now < Duration::from_secs(2) { 100 } else { 400 });
            bytes += 40_000_000;
            series.look(now, || bytes);
        }
        let found = series.burst().expect("a burst");
        assert!((found.burst_bytes_per_second / 400e6 - 1.0).abs() < 0.01, "{found:?}");
        assert!((found.sustained_bytes_per_second / 100e6 - 1.0).abs() < 0.01, "{found:?}");
    }

    #[test]
    fn a_long_series_keeps_its_bounds() {
        let mut series = Series::new();
        (1..20_000).for_each(|tick| series.look(Duration::from_millis(100 * tick), || tick * 10_000_000));
        let rates = series.rates();
        assert!(
            rates.len() <= MOST_SHORT_WINDOWS && rates.iter().all(|rate| (rate / 100e6 - 1.0).abs() < 0.01)
        );
        assert_eq!(series.burst(), None);
    }
}
