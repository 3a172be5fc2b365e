//! What a rate does not report: latencies, CPU time, knees; judged as rates are, by the intervals of
//! their repeats.

use super::pair::{against_first, paired};
use super::{Difference, SampleComparison};
use crate::figure::{operations_word, quantity as number, rate, seconds_word};
use linerate_measure::measure::interval::Interval;
use linerate_measure::measure::statistics::median;
use linerate_measure::measure::{Measurement, Stage};
use linerate_measure::run::Run;
use serde::Serialize;

/// What is compared beside the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// Median and 99th percentile of the latency, seconds; of reads and writes the slower side.
    P50,
    P99,
    /// CPU seconds of linerate per 10⁹ bytes.
    Cpu,
    /// Requests a second where a load test levels off, one for each of the runs of a name (`--join`).
    Knee,
}

impl Quantity {
    /// Its name on a screen.
    pub fn word(self) -> &'static str {
        match self {
            Quantity::P50 => "p50",
            Quantity::P99 => "p99",
            Quantity::Cpu => "CPU s/GB",
            Quantity::Knee => "level, IOPS",
        }
    }

    /// A value with its unit.
    pub fn show(self, value: f64) -> String {
        match self {
            Quantity::P50 | Quantity::P99 => seconds_word(value),
            Quantity::Cpu => number(value),
            Quantity::Knee => operations_word(value),
        }
    }
}

/// One quantity of one measurement, in several runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Detail {
    pub stage: Stage,
    pub name: String,
    pub quantity: Quantity,
    /// One for each run; none where it has none.
    pub figures: Vec<Option<Sampled>>,
    /// As that of a row: `higher` is a longer latency, more CPU time, a higher knee.
    pub against_first: Vec<Option<Difference>>,
}

impl Detail {
    /// It is said to differ in some run.
    pub fn differs(&self) -> bool {
        let verdicts = self.against_first.iter().flatten();
        verdicts
            .into_iter()
            .any(|against| matches!(against.verdict, SampleComparison::Higher | SampleComparison::Lower))
    }
}

/// Repeats of one value, in the unit of its quantity.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sampled {
    pub median: f64,
    /// None with fewer than three samples.
    pub interval: Option<Interval>,
    pub samples: usize,
}

impl Sampled {
    fn of(samples: &[f64]) -> Option<Self> {
        let samples: Vec<f64> =
            samples.iter().copied().filter_map(rate).filter(|value| *value > 0.0).collect();
        if samples.is_empty() {
            return None;
        }
        Some(Sampled { median: median(&samples), interval: Interval::of(&samples), samples: samples.len() })
    }
}

/// A quantity of one measurement; none where it has none.
pub(crate) fn sampled(measurement: &Measurement, quantity: Quantity) -> Option<Sampled> {
    Sampled::of(&values(measurement, quantity))
}

/// Of all measurements that at least two runs have; knees last.
pub(super) fn details(runs: &[&Run]) -> Vec<Detail> {
    let mut details = Vec::new();
    for ((stage, name, _), found) in paired(runs) {
        for quantity in [Quantity::P50, Quantity::P99, Quantity::Cpu] {
            let figures = found.iter().map(|one| one.and_then(|one| sampled(one, quantity)));
            details.extend(detail(stage, name.clone(), quantity, figures.collect()));
        }
    }
    let knees = runs.iter().map(|run| Sampled::of(&knees(run))).collect();
    details.extend(detail(Stage::Load, "load test".into(), Quantity::Knee, knees));
    details
}

/// None where fewer than two runs have it.
fn detail(stage: Stage, name: String, quantity: Quantity, figures: Vec<Option<Sampled>>) -> Option<Detail> {
    if figures.iter().flatten().count() < 2 {
        return None;
    }
    let medians = figures.iter().map(|figure| figure.map(|of| (of.median, of.interval)));
    let against_first = against_first(&medians.collect::<Vec<_>>());
    Some(Detail { stage, name, quantity, against_first, figures })
}

/// One value for each visit.
fn values(measurement: &Measurement, quantity: Quantity) -> Vec<f64> {
    let Some(access) = &measurement.access else { return Vec::new() };
    let of = |visit: &linerate_measure::measure::access::JobRound| match quantity {
        Quantity::P50 => visit.p50_seconds,
        Quantity::P99 => visit.p99_seconds,
        Quantity::Cpu => visit.cpu_seconds_per_gb,
        Quantity::Knee => 0.0,
    };
    access.visits.iter().map(of).collect()
}

/// Of each run that was joined into this one, or of this one alone.
fn knees(run: &Run) -> Vec<f64> {
    let Some(load) = &run.load else { return Vec::new() };
    if load.knees.is_empty() { load.level_rate().into_iter().collect() } else { load.knees.clone() }
}
