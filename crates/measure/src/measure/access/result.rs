//! What came of a job: rates, devices, the checks that tell whether to believe them, and how long requests took: a few
//! percentiles that are shown, and the distribution that other tools draw.

use super::{AccessJob, Burst, DeviceUse, PinningTrial};
use crate::measure::statistics::median;
use linerate_transport::flow::access::AccessTally;
use serde::{Deserialize, Serialize};

/// Percentiles of fio, but for those that have a field of their own.
const QUANTILES: [f64; 11] = [0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.995, 0.9995];
/// Bounds of fio's distribution of latencies, of nanoseconds, of microseconds and of milliseconds.
const LATENCY_BOUNDS: [u64; 10] = [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000];
const LONGEST_BOUND_NANOS: u64 = 2_000_000_000;

/// The part of a `Measurement` that only file access has. Rates in bytes per second, times in seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AccessResult {
    pub job: AccessJob,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reads: Option<SideResult>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writes: Option<SideResult>,
    /// Writes that a sync followed; none: no such job, or O_DSYNC, where `writes` are the syncs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub syncs: Option<SyncResult>,
    /// While all workers were still at work, and until the last had ended (its flush included).
    pub first_done_bytes_per_second: f64,
    pub last_done_bytes_per_second: f64,
    /// The block devices behind the sources, from diskstats over the same time.
    pub devices: Vec<DeviceUse>,
    pub checks: Checks,
    /// A device that was fast for a while and then slower.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<Burst>,
    /// Whether and when SNIA's steady state was reached, where it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steady: Option<Steady>,
    /// Blocks that did not hold what was written there; none: not asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub corrupt: Option<Vec<String>>,
    /// What failed: device or file, offset, reason.
    pub errors: Vec<String>,
    /// Each visit's own figures, in the order in which they were taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub visits: Vec<JobRound>,
    /// Whether pinned workers were slower than those that the kernel places; none: not tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pinning: Option<PinningTrial>,
    /// Of several sources at once: the sum of what each of them reached alone with its own workers of this job,
    /// bytes per second; none: not measured (`disk --scaling`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline_bytes_per_second: Option<f64>,
    /// The best of one source alone in a result that was named (`--scaling=RESULT`), in place of the best of this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best_alone_bytes_per_second: Option<f64>,
}

impl AccessResult {
    /// What failed, and the blocks that did not hold what was written there.
    pub(crate) fn failures(&self) -> impl Iterator<Item = String> {
        let corrupt = self.corrupt.iter().flatten().map(|what| format!("corrupt: {what}"));
        self.errors.iter().cloned().chain(corrupt)
    }

    /// Fewer requests were in flight than the job asked for: the others waited for a free place.
    pub fn queue_is_full(&self) -> bool {
        let paced = self.job.requests_per_second.is_some() || self.job.limit_bytes_per_second.is_some();
        !paced
            && self.job.seconds.is_some()
            && self.checks.waiting_depth >= 1.0
            && !self.checks.depth_is_reached()
    }

    /// How long data took to be durable: the sync alone, with O_DSYNC the write; none: writes were not synced.
    pub fn sync_latency(&self) -> Option<&Latency> {
        self.job.sync?;
        self.syncs.as_ref().map(|syncs| &syncs.latency).or(self.writes.as_ref().map(|side| &side.latency))
    }

    /// By Little's law, the requests under way.
    pub(crate) fn little_depth(&self) -> f64 {
        let sides = self.reads.iter().chain(&self.writes);
        sides.map(|side| side.operations_per_second * side.latency.mean).sum()
    }

    /// Nothing came of a job yet.
    pub fn of(job: AccessJob) -> Self {
        AccessResult { job, ..AccessResult::default() }
    }
}

/// What one visit of a job measured beside its rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobRound {
    /// Of reads and writes the side with the longer tail, seconds.
    pub p50_seconds: f64,
    pub p99_seconds: f64,
    /// CPU seconds of linerate per 10⁹ bytes.
    pub cpu_seconds_per_gb: f64,
}

/// Reads or writes of a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SideResult {
    pub operations: u64,
    pub bytes: u64,
    pub operations_per_second: f64,
    pub bytes_per_second: f64,
    pub latency: Latency,
}

/// Syncs of a job, each after one write or several.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SyncResult {
    pub operations: u64,
    pub operations_per_second: f64,
    /// Of the sync alone.
    pub latency: Latency,
    /// Of the write that it followed, the sync included.
    pub with_write: Latency,
}

/// Self-checks, printed with every result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Checks {
    /// Little's law: rate × mean latency, the requests that are under way …
    pub little_depth: f64,
    /// … of which so many were counted in flight, with the kernel …
    pub reached_depth: f64,
    /// … and so many waited for a free place in its queue, each for so many seconds on average …
    pub waiting_depth: f64,
    pub wait_seconds: f64,
    /// … and those asked for, over all workers.
    pub asked_depth: f64,
    /// Share of the CPUs' time that the generator itself used, of those it may use.
    pub generator_cpu: f64,
    /// Open loop: 99th percentile and maximum of how late requests were sent, seconds.
    pub lateness_p99: f64,
    pub lateness_maximum: f64,
    /// What does not fit together, in words; empty where all does.
    pub failed: Vec<String>,
}

impl Checks {
    /// From this share of the depth asked for it counts as reached.
    const REACHED: f64 = 0.8;

    /// As many requests were in flight as were asked for, or nearly.
    pub fn depth_is_reached(&self) -> bool {
        self.reached_depth >= Self::REACHED * self.asked_depth
    }
}

/// SNIA Solid State Storage Performance Test Specification 2.0.2, steady state: over a window of rounds the
/// excursion is within 20 % of the mean and the slope within 10 %.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Steady {
    pub reached: bool,
    pub rounds: u32,
    pub excursion: f64,
    pub slope: f64,
}

/// `linerate disk --scaling`: a curve for each cell of the grid.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Scaling {
    /// Of the first cell; in the file its fields are those of this.
    #[serde(flatten)]
    pub first: ScalingCurve,
    /// Of the other cells.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub further: Vec<ScalingCurve>,
}

impl Scaling {
    /// Every curve, in the order of the cells.
    pub fn curves(&self) -> impl Iterator<Item = &ScalingCurve> {
        std::iter::once(&self.first).chain(&self.further)
    }
}

/// One cell with 1, 2, 3 … devices.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScalingCurve {
    /// The job of the cell with all of its devices (`title`).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cell: String,
    pub steps: Vec<ScalingStep>,
    /// The first number of devices from which on more of them bring less than a tenth of a device; none: it
    /// never levels off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub levels_off_at: Option<u32>,
    /// Rate there, and what the model or the counters blame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_by: Option<String>,
}

/// So many devices at once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScalingStep {
    pub devices: u32,
    pub bytes_per_second: f64,
    /// Of the sum of the same devices alone.
    pub share: f64,
    pub spread: f64,
}

/// `linerate load`: the curve, and the answer that was looked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadCurve {
    pub points: Vec<LoadPoint>,
    /// Index of the answer among the points: of a closed loop that levels off the least load with 90 % of the most,
    /// of an open loop the highest rate that kept the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub knee: Option<usize>,
    /// Closed loop that levels off: the most requests a second, which a second step came near.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most: Option<f64>,
    /// Closed loop: users at which the asymptotes meet, capacity × the time of an answer when nobody else
    /// asks. About half of the capacity is reached there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub knee_workers: Option<f64>,
    /// Highest rate (open loop) or number of workers (closed loop) that kept the limit, and the limit in
    /// words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub highest: Option<f64>,
    pub limit: String,
    /// Where each of several runs that were joined levels off, requests a second (`linerate compare --join`); empty
    /// for one run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub knees: Vec<f64>,
}

impl LoadCurve {
    /// This share of the most is as good as all of it: what more load brings is longer waits.
    const NEARLY: f64 = 0.9;
    /// A step that none other comes this near is an outlier: a throttle let a full bucket through.
    const CONFIRMED: f64 = 0.92;

    /// Requests a second where it levels off; of an open loop those of the highest rate.
    pub fn level_rate(&self) -> Option<f64> {
        let point = self.points.get(self.knee?)?;
        // Files of before have no `most`.
        if point.offered.is_some() {
            Some(point.operations_per_second)
        } else {
            self.most.or_else(|| self.highest_rate())
        }
    }

    /// The point of the answer; of a closed loop the least load with nearly the most requests.
    pub fn answer(&self) -> Option<&LoadPoint> {
        let point = self.points.get(self.knee?)?;
        if point.offered.is_some() { Some(point) } else { self.points.get(self.nearly_most()?) }
    }

    /// The most requests a second, as far as a second step confirms it.
    pub(crate) fn highest_rate(&self) -> Option<f64> {
        let mut rates: Vec<f64> = self.points.iter().map(|point| point.operations_per_second).collect();
        rates.sort_by(|one, other| other.total_cmp(one));
        match rates[..] {
            [most, second, ..] if second < Self::CONFIRMED * most => Some(second),
            _ => rates.first().copied(),
        }
    }

    /// Index of the least load that has nearly the most requests.
    pub(crate) fn nearly_most(&self) -> Option<usize> {
        let most = self.highest_rate()?;
        let nearly = Self::NEARLY * most..=most / Self::CONFIRMED;
        self.points.iter().position(|point| nearly.contains(&point.operations_per_second))
    }
}

/// One step of a load test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadPoint {
    pub workers: u32,
    /// Requests in flight, with the kernel; the others of the users waited for a free place in its queue. None:
    /// not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<f64>,
    /// Offered requests per second (open loop).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offered: Option<f64>,
    pub operations_per_second: f64,
    pub latency: Latency,
    /// (max − min) ÷ median of the rates of its repeats.
    pub spread: f64,
    pub within_limit: bool,
}

/// The part of a `Measurement` that only `linerate memory` has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryPoint {
    /// `read`, `write`, `copy`, `triad`, `latency`.
    pub kernel: String,
    /// `plain` or `streaming`; none for kernels that do not store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
    pub stride_bytes: u64,
    /// Of all cores together, bytes.
    pub working_set_bytes: u64,
    pub cores: u32,
    /// NUMA nodes of the cores and of the memory; none where there is one node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_of_cores: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_of_memory: Option<u32>,
    /// Pointer chase: seconds an access; none for bandwidth.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_seconds: Option<f64>,
    /// The smallest level that the working set fits into: `L1`, `L2`, `L3`, `memory`.
    pub level: String,
}

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
    let of_unit = |unit: u64| LATENCY_BOUNDS.map(|bound| bound * unit);
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
        let mut tally = AccessTally::default();
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
        let latency = Latency::of(&AccessTally::default());
        assert_eq!((latency.distribution.len(), latency.mean), (0, 0.0));
    }
}
