//! How long requests took: a few percentiles that are shown, and the distribution that other tools draw.

use crate::measure::statistics::median;
use linerate_transport::flow::access::AccessTally;
use serde::{Deserialize, Serialize};

/// Of requests, seconds, from the moment at which a user asked: in an open loop the intended start, else the end
/// of this user's last request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Of the windows in the middle, as the rate is: rate × mean are the requests under way (Little's law).
    pub mean: f64,
    pub minimum: f64,
    pub maximum: f64,
    pub p50: f64,
    pub p90: f64,
    pub p95: f64,
    pub p99: f64,
    pub p99_9: f64,
    pub p99_99: f64,
    /// Of the single requests; none: not kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standard_deviation: Option<f64>,
    /// The percentiles of fio that are not above, rising.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quantiles: Vec<LatencyQuantile>,
    /// Between the bounds that fio has; where no request is, there is no entry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub distribution: Vec<LatencyShare>,
}

/// This share of the requests took no longer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyQuantile {
    pub quantile: f64,
    pub seconds: f64,
}

/// Requests that took about as long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyShare {
    /// Not this long, and not less than the bound before; none: two seconds and more.
    pub below_seconds: Option<f64>,
    /// Of all requests of this side.
    pub share: f64,
}

/// fio's, but for those that have a field of their own.
const QUANTILES: [f64; 11] = [0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.995, 0.9995];
/// fio's bounds, of nanoseconds, of microseconds and of milliseconds.
const BOUNDS: [u64; 10] = [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000];
const LONGEST_BOUND_NANOS: u64 = 2_000_000_000;

/// The mean latency that goes with the median of the rates of the same times: with as many users throughout, rate ×
/// latency is their number in each. 0 without any.
pub(crate) fn middle_mean(means: impl Iterator<Item = f64>) -> f64 {
    let answers_of_a_user: Vec<f64> = means.filter(|mean| *mean > 0.0).map(|mean| 1.0 / mean).collect();
    if answers_of_a_user.is_empty() { 0.0 } else { 1.0 / median(&answers_of_a_user) }
}

impl Latency {
    /// Of all that was counted.
    pub(crate) fn of(tally: &AccessTally) -> Latency {
        let counted = &tally.latency;
        let seconds = |nanos: u64| nanos as f64 * 1e-9;
        let at = |quantile: f64| seconds(counted.value_at_quantile(quantile));
        let quantiles = QUANTILES.map(|quantile| LatencyQuantile { quantile, seconds: at(quantile) });
        Latency {
            mean: counted.mean() * 1e-9,
            minimum: seconds(counted.min()),
            maximum: seconds(counted.max()),
            p50: at(0.5),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
            p99_9: at(0.999),
            p99_99: at(0.9999),
            standard_deviation: Some(counted.stdev() * 1e-9),
            quantiles: quantiles.to_vec(),
            distribution: distribution(tally),
        }
    }
}

fn distribution(tally: &AccessTally) -> Vec<LatencyShare> {
    let of_unit = |unit: u64| BOUNDS.map(|bound| bound * unit);
    let mut bounds: Vec<u64> = [1, 1_000, 1_000_000].into_iter().flat_map(of_unit).collect();
    bounds.push(LONGEST_BOUND_NANOS);
    let counts = tally.counts_below(&bounds);
    let all = counts.iter().sum::<u64>().max(1) as f64;
    let entry = |(place, count): (usize, &u64)| LatencyShare {
        below_seconds: bounds.get(place).map(|nanos| *nanos as f64 * 1e-9),
        share: *count as f64 / all,
    };
    counts.iter().enumerate().filter(|(_, count)| **count > 0).map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_distribution_has_the_bounds_of_fio_and_adds_up() {
        let mut tally = AccessTally::new();
        let times = [(30_000, 3), (60_000, 4), (3_000_000, 2), (2_500_000_000, 1)];
        for (nanos, count) in times {
            (0..count).for_each(|_| tally.add(4096, Duration::from_nanos(nanos)));
        }
        let latency = Latency::of(&tally);
        let shares: Vec<_> = latency.distribution.iter().map(|one| (one.below_seconds, one.share)).collect();
        assert_eq!(shares.iter().map(|(_, share)| *share).collect::<Vec<_>>(), [0.3, 0.4, 0.2, 0.1]);
        let nanos = |bound: &Option<f64>| bound.map(|seconds| (seconds * 1e9).round() as u64);
        let bounds: Vec<_> = shares.iter().map(|(bound, _)| nanos(bound)).collect();
        assert_eq!(bounds, [Some(50_000), Some(100_000), Some(4_000_000), None]);
        assert!(latency.quantiles.windows(2).all(|pair| pair[0].seconds <= pair[1].seconds));
        let deviation = latency.standard_deviation.expect("it is kept");
        assert!((deviation - 0.7498).abs() < 0.001, "{deviation}");
    }

    #[test]
    fn nothing_done_has_no_distribution() {
        let latency = Latency::of(&AccessTally::new());
        assert_eq!((latency.distribution.len(), latency.mean), (0, 0.0));
    }
}
