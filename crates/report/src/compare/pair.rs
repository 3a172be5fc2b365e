//! Which measurements of several runs are the same: stage and job, or stage and name; never the files or
//! devices, which are what differs. Runs of one name are repeats of one another: their samples become one, so that the interval
//! holds what changes from run to run, too.
//!
//! What a rate does not report (latencies, CPU time, knees) is judged as rates are, by the intervals of the repeats.

use super::{Answer, ComparedFigure, Difference, Only, Rate, SampleComparison};
use crate::figure::{Unit, operations_word, percent, quantity as number, rate, seconds_word};
use crate::stage::name;
use linerate_facts::grouping::{distinct, grouped};
use linerate_facts::printable::printable;
use linerate_facts::wording::counted;
use linerate_measure::measure::access::ScalingCurve;
use linerate_measure::measure::statistics::{Interval, compare_intervals, median, spread};
use linerate_measure::measure::{Measurement, Measurements, Scaling, Stage};
use linerate_measure::run::Run;
use serde::Serialize;
use std::collections::HashMap;
use std::path::PathBuf;

/// The same key is the same measurement; the k-th of a key pairs with the k-th.
pub(crate) type Key = (Stage, String, usize);

/// All measurements of one run with their keys.
pub(crate) fn keyed(run: &Run) -> Vec<(Key, &Measurement)> {
    let mut keyed: Vec<(Key, &Measurement)> = Vec::new();
    // A file from another host may have a million of them.
    let mut counts: HashMap<(Stage, String), usize> = HashMap::new();
    for measurement in &run.measurements {
        let mut words = name(measurement);
        // A job's words say nothing of a protocol; another stage's name does, but for a path, whose name is
        // one.
        if measurement.with_file && !words.contains("file") {
            words += " with file";
        }
        let count = counts.entry((measurement.stage, words.clone())).or_default();
        keyed.push(((measurement.stage, words, *count), measurement));
        *count += 1;
    }
    keyed
}

/// Each measurement that any of the runs has, with those of all of them.
pub(super) fn paired<'r>(runs: &[&'r Run]) -> Vec<(Key, Vec<Option<&'r Measurement>>)> {
    let keyed: Vec<Vec<(Key, &Measurement)>> = runs.iter().map(|run| keyed(run)).collect();
    let of_run =
        |run: &Vec<(Key, &'r Measurement)>, key: &Key| Some(run.iter().find(|(other, _)| other == key)?.1);
    let of_all = |key: &Key| keyed.iter().map(|run| of_run(run, key)).collect();
    distinct(keyed.iter().flatten().map(|(key, _)| key))
        .into_iter()
        .map(|key| (key.clone(), of_all(key)))
        .collect()
}

/// Each against the first that there is, which has nothing to be held against.
pub(super) fn against_first(values: &[Option<(f64, Option<Interval>)>]) -> Vec<Option<Difference>> {
    let first = values.iter().position(Option::is_some);
    let against = |(index, value): (usize, &Option<(f64, Option<Interval>)>)| {
        let first = first.filter(|first| *first != index)?;
        Some(Difference::between(values[first]?, (*value)?))
    };
    values.iter().enumerate().map(against).collect()
}

/// Rows that at least two runs have, and what only one has.
pub(super) fn rows(runs: &[&Run], labels: &[&str]) -> (Vec<ComparedFigure>, Vec<Only>) {
    let (mut rows, mut only) = (Vec::new(), Vec::new());
    // Jobs of another tool have names of their own.
    let foreign = runs.iter().all(|run| !run.tool.is_empty());
    for (key, found) in paired(runs) {
        let mut names = found.iter().flatten().map(|one| printable(&one.name));
        let job = names.next().filter(|job| foreign && *job != key.1 && names.all(|name| name == *job));
        let shown = match (job, key.2) {
            (Some(job), _) => format!("{job}: {}", key.1),
            (None, 0) => key.1.clone(),
            (None, before) => format!("{} #{}", key.1, before + 1),
        };
        if found.iter().flatten().count() > 1 {
            rows.push(row(key.0, shown, &found));
        } else {
            let alone = found.iter().zip(labels).find_map(|(found, label)| Some(((*found)?, *label)));
            only.extend(alone.map(|(measurement, label)| Only {
                run: label.to_string(),
                stage: key.0,
                name: shown,
                bytes_per_second: rate(measurement.bytes_per_second).unwrap_or(0.0),
            }));
        }
    }
    (rows, only)
}

fn row(stage: Stage, name: String, measurements: &[Option<&Measurement>]) -> ComparedFigure {
    let figures: Vec<Option<Rate>> = measurements.iter().map(|one| one.and_then(figure)).collect();
    let rates =
        figures.iter().map(|figure| figure.as_ref().map(|rate| (rate.bytes_per_second, rate.interval)));
    ComparedFigure { stage, name, against_first: against_first(&rates.collect::<Vec<_>>()), figures }
}

fn figure(measurement: &Measurement) -> Option<Rate> {
    let samples: Vec<f64> = measurement.samples.iter().copied().filter_map(rate).collect();
    Some(Rate {
        bytes_per_second: rate(measurement.bytes_per_second)?,
        seconds: measurement.memory.as_ref().and_then(|point| point.latency_seconds),
        interval: Interval::of(&samples),
        samples: samples.len(),
        lower_bound: measurement.lower_bound,
        flags: measurement.flags.iter().map(|flag| printable(flag)).collect(),
    })
}

impl Difference {
    /// Of two medians with their intervals.
    pub(super) fn between(
        (first, of_first): (f64, Option<Interval>),
        (second, of_second): (f64, Option<Interval>),
    ) -> Self {
        let ratio = |a: f64, b: f64| rate(a / b).unwrap_or(0.0);
        // An interval that reaches to zero, as a wide one of few samples may, allows any ratio.
        let above_zero = of_first.filter(|interval| interval.low > 0.0);
        let ratio_interval = above_zero.zip(of_second).map(|(first, second)| Interval {
            low: ratio(second.low.max(0.0), first.high),
            high: ratio(second.high, first.low),
        });
        Difference {
            ratio: ratio(second, first),
            ratio_interval,
            verdict: compare_intervals(of_first, of_second),
        }
    }
}

/// What has no samples of its own: the load that has nearly the most, limits, devices.
pub(super) fn answers(runs: &[&Run]) -> Vec<Answer> {
    let loads: Vec<_> = runs.iter().map(|run| run.load.as_ref()).collect();
    let scalings: Vec<_> = runs.iter().map(|run| run.scaling.as_ref()).collect();
    let dash = |answer: Option<String>| answer.unwrap_or_else(|| "–".into());
    let mut answers = Vec::new();
    let mut add = |question: String, of: Vec<Option<String>>| {
        if of.iter().flatten().count() > 1 {
            answers.push(Answer { question, answers: of.into_iter().map(dash).collect() });
        }
    };
    let nearly = loads.iter().map(|load| {
        let point = load.as_ref()?.answer()?;
        let load = match point.offered {
            Some(offered) => format!("{} offered", operations_word(offered)),
            None => counted(point.workers, "worker"),
        };
        let done = operations_word(point.operations_per_second);
        Some(format!("{load}: {done} IOPS, {}", seconds_word(point.latency.mean)))
    });
    add("nearly the most".into(), nearly.collect());
    let limit = loads.iter().flatten().map(|load| printable(&load.limit)).find(|limit| !limit.is_empty());
    let highest = loads.iter().map(|load| load.as_ref()?.highest.map(operations_word));
    add(format!("most within {}", limit.unwrap_or_else(|| "the limit".into())), highest.collect());
    for cell in scalings.iter().flatten().take(1).flat_map(|scaling| scaling.curves()) {
        let of = |scaling: Option<&'_ Scaling>| -> Option<ScalingCurve> {
            scaling?.curves().find(|one| one.cell == cell.cell).cloned()
        };
        let several = scalings.iter().flatten().any(|scaling| !scaling.further.is_empty());
        let of_cell = if several { format!(", {}", printable(&cell.cell)) } else { String::new() };
        let last = scalings.iter().map(|scaling| {
            let curve = of(*scaling)?;
            let step = curve.steps.last()?;
            let rate = Unit::Bytes.show(step.bytes_per_second);
            Some(format!("{rate}, {} of the baseline", percent(step.share)))
        });
        add(format!("all devices{of_cell}"), last.collect());
        let levels = scalings.iter().map(|scaling| {
            let at = of(*scaling)?.levels_off_at;
            Some(at.map_or("never".into(), |at| format!("at {}", counted(at, "device"))))
        });
        add(format!("levels off{of_cell}"), levels.collect());
    }
    answers
}

/// One run for each name, in the order in which the names came.
pub fn joined(runs: Vec<(PathBuf, Run)>) -> Vec<(PathBuf, Run)> {
    grouped(runs, |(_, one), (_, other)| repeated(one) == repeated(other))
        .into_iter()
        .filter_map(as_one)
        .collect()
}

/// Runs of the same command and name are repeats.
fn repeated(run: &Run) -> String {
    format!("{} {}", run.command(), if run.stage.is_some() { &run.name } else { &run.host })
}

fn as_one(group: Vec<(PathBuf, Run)>) -> Option<(PathBuf, Run)> {
    let measurements = measurements(&group);
    let errors: Vec<String> = group.iter().skip(1).flat_map(|(_, run)| &run.errors).cloned().collect();
    let knees = group.iter().filter_map(|(_, run)| run.load.as_ref()?.level_rate()).collect();
    let (file, mut first) = group.into_iter().next()?;
    first.measurements = measurements;
    if let Some(load) = &mut first.load {
        load.knees = knees;
    }
    first.errors.extend(errors);
    Some((file, first))
}

/// Each measurement that any of the runs has, with the samples of all that have it.
fn measurements(group: &[(PathBuf, Run)]) -> Measurements {
    let keyed = group.iter().flat_map(|(_, run)| keyed(run));
    let same = |alike: Vec<(Key, &Measurement)>| {
        of_all(&alike.into_iter().map(|(_, measurement)| measurement).collect::<Vec<_>>())
    };
    grouped(keyed, |(one, _), (other, _)| one == other).into_iter().filter_map(same).collect()
}

/// The samples of all; everything else is that of the run in the middle.
fn of_all(same: &[&Measurement]) -> Option<Measurement> {
    let samples: Vec<f64> = same.iter().flat_map(|measurement| &measurement.samples).copied().collect();
    let middle = median(&samples);
    let off = |measurement: &Measurement| (measurement.bytes_per_second - middle).abs();
    let nearest = same.iter().min_by(|a, b| off(a).total_cmp(&off(b)))?;
    let mut joined = (*nearest).clone();
    let mut flags: Vec<String> = same.iter().flat_map(|measurement| measurement.flags.clone()).collect();
    flags.sort();
    flags.dedup();
    // Too few samples of one run are many together; what they spread is shown by the interval.
    joined.flags = flags;
    joined.spread = spread(&samples);
    joined.bytes_per_second = middle;
    joined.samples = samples;
    if let Some(access) = &mut joined.access {
        let each = same.iter().filter_map(|measurement| measurement.access.as_ref());
        access.visits = each.flat_map(|access| access.visits.iter().copied()).collect();
    }
    Some(joined)
}

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
    Sampled::of(&values_of(measurement, quantity))
}

/// Of all measurements that at least two runs have; knees last.
pub(super) fn details(runs: &[&Run]) -> Vec<Detail> {
    let mut details = Vec::new();
    for ((stage, name, _), found) in paired(runs) {
        for quantity in [Quantity::P50, Quantity::P99, Quantity::Cpu] {
            let figures = found.iter().map(|one| one.and_then(|one| sampled(one, quantity)));
            details.extend(detail_of(stage, name.clone(), quantity, figures.collect()));
        }
    }
    let knees = runs.iter().map(|run| Sampled::of(&knees(run))).collect();
    details.extend(detail_of(Stage::Load, "load test".into(), Quantity::Knee, knees));
    details
}

/// None where fewer than two runs have it.
fn detail_of(
    stage: Stage,
    name: String,
    quantity: Quantity,
    figures: Vec<Option<Sampled>>,
) -> Option<Detail> {
    if figures.iter().flatten().count() < 2 {
        return None;
    }
    let medians = figures.iter().map(|figure| figure.map(|of| (of.median, of.interval)));
    let against_first = against_first(&medians.collect::<Vec<_>>());
    Some(Detail { stage, name, quantity, against_first, figures })
}

/// One value for each visit.
fn values_of(measurement: &Measurement, quantity: Quantity) -> Vec<f64> {
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
