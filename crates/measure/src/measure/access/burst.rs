//! A device that bursts and then settles: where a series of short windows changes its level, and how much the
//! burst was worth. `Series` takes the bytes while they move, at even distances of time.
//!
//! The change is looked for as the split that leaves the least absolute deviation from the medians of its two
//! sides (a change of mean in the L1 norm: one stalled window moves no median).

use super::Burst;
use crate::measure::statistics::median;
use std::time::Duration;

/// A burst is faster than what follows by at least this.
pub(crate) const LEAST_RATIO: f64 = 1.4;
/// Windows on each side of the change at least.
const LEAST_WINDOWS: usize = 5;
/// The two levels explain at least this share of the deviation from one.
const EXPLAINED: f64 = 0.6;

/// Length of the windows in which a burst is looked for, seconds: long enough for a few requests, short
/// beside any bucket.
pub(crate) const SHORT_WINDOW_SECONDS: f64 = 0.1;
/// So many of them at most are kept; an hour of a slow burst is shown by longer ones.
const MOST_SHORT_WINDOWS: usize = 600;

/// The burst in a series of rates (bytes per second), one for each `window_seconds`; none where it stays on
/// one level, or rises.
pub(crate) fn burst(rates: &[f64], window_seconds: f64) -> Option<Burst> {
    let whole = deviation(rates);
    let splits = LEAST_WINDOWS..rates.len().saturating_sub(LEAST_WINDOWS - 1);
    let cost = |split: &usize| deviation(&rates[..*split]) + deviation(&rates[*split..]);
    let (split, least) = splits.map(|split| (split, cost(&split))).min_by(|a, b| a.1.total_cmp(&b.1))?;
    let (fast, slow) = (median(&rates[..split]), median(&rates[split..]));
    if slow <= 0.0 || fast < LEAST_RATIO * slow || least > (1.0 - EXPLAINED) * whole {
        return None;
    }
    let until_bytes: f64 = rates[..split].iter().sum::<f64>() * window_seconds;
    let seconds = split as f64 * window_seconds;
    Some(Burst {
        burst_bytes_per_second: fast,
        sustained_bytes_per_second: slow,
        until_bytes,
        bucket_bytes: (until_bytes - slow * seconds).max(0.0),
        seconds,
    })
}

/// The burst in a flow over a network, of which the windows are seen at the sender: its buffers hide a little of it,
/// so that what the receiver counted must have fallen, too.
pub(crate) fn burst_of_flow(samples: &[f64], rates: &[f64], window_seconds: f64) -> Option<Burst> {
    let fell = match samples {
        [first, .., last] => *first >= LEAST_RATIO * last,
        _ => true,
    };
    burst(rates, window_seconds).filter(|_| fell)
}

/// Sum of the distances from the median.
fn deviation(rates: &[f64]) -> f64 {
    let middle = median(rates);
    rates.iter().map(|rate| (rate - middle).abs()).sum()
}

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
    use proptest::prelude::*;

    /// Noise of a few percent that is the same each time.
    fn noisy(level: f64, index: usize) -> f64 {
        level * (1.0 + 0.03 * ((index * 7919 % 13) as f64 / 6.5 - 1.0))
    }

    #[test]
    fn a_bucket_is_found_with_both_rates_and_its_size() {
        let mut rates: Vec<f64> = (0..60).map(|i| noisy(if i < 20 { 400e6 } else { 100e6 }, i)).collect();
        rates[7] = 20e6; // a stall within the burst
        rates[40] = 350e6; // and a lucky window after it
        let found = burst(&rates, 0.1).expect("a burst");
        assert!((found.burst_bytes_per_second / 400e6 - 1.0).abs() < 0.04, "{found:?}");
        assert!((found.sustained_bytes_per_second / 100e6 - 1.0).abs() < 0.04, "{found:?}");
        assert!((found.seconds - 2.0).abs() < 0.11, "{found:?}");
        assert!((found.bucket_bytes / (2.0 * 300e6) - 1.0).abs() < 0.1, "{found:?}");
        assert!((found.until_bytes / 800e6 - 1.0).abs() < 0.1, "{found:?}");
    }

    #[test]
    fn what_is_no_burst() {
        let level: Vec<f64> = (0..60).map(|i| noisy(100e6, i)).collect();
        assert_eq!(burst(&level, 0.1), None, "one level");
        let rising: Vec<f64> = (0..60).map(|i| noisy(if i < 20 { 100e6 } else { 400e6 }, i)).collect();
        assert_eq!(burst(&rising, 0.1), None, "it gets faster");
        let mut hasty = level.clone();
        hasty[0] = 900e6;
        assert_eq!(burst(&hasty, 0.1), None, "one window is not a burst");
        let swinging: Vec<f64> = (0..60).map(|i| if i % 10 < 5 { 300e6 } else { 100e6 }).collect();
        assert_eq!(burst(&swinging, 0.1), None, "up and down");
        assert_eq!(burst(&[], 0.1), None);
        assert_eq!(burst(&[0.0; 30], 0.1), None);
    }

    #[test]
    fn credits_of_a_network_are_those_that_its_receiver_sees_end() {
        let rates: Vec<f64> = (0..120).map(|i| noisy(if i < 60 { 287e6 } else { 48e6 }, i)).collect();
        let found = burst_of_flow(&[287e6, 165e6, 48e6], &rates, 0.1).expect("credits");
        assert!((found.seconds - 6.0).abs() < 0.11, "{found:?}");
        assert!((found.sustained_bytes_per_second / 48e6 - 1.0).abs() < 0.04, "{found:?}");
        assert_eq!(burst_of_flow(&[48e6; 3], &rates, 0.1), None, "a buffer that was filled");
        assert!(burst_of_flow(&[48e6], &rates, 0.1).is_some(), "one sample says nothing");
    }

    proptest! {
        #[test]
        fn any_bucket_is_found(
            fast in 200e6f64..2e9,
            ratio in 1.8f64..20.0,
            at in 8usize..50,
            length in 65usize..90,
        ) {
            let slow = fast / ratio;
            let rates: Vec<f64> = (0..length).map(|i| noisy(if i < at { fast } else { slow }, i)).collect();
            let found = burst(&rates, 0.1);
            let found = found.as_ref();
            prop_assert!(found.is_some());
            prop_assert!(found.is_some_and(|found| (found.seconds - at as f64 * 0.1).abs() < 0.11));
        }
    }

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
