//! The figures of a result that a rule is about, each with where it lies and what there is to say of it.

use super::rule::{Bound, FigureRule, Metric, PartKind, Subject};
use crate::compare::{Quantity, measured_as, sampled};
use crate::figure::{Unit, operations_word, percent, rate, seconds_word};
use linerate_facts::printable::printable;
use linerate_facts::protocol::Protocol;
use linerate_measure::measure::access::{LoadCurve, LoadPoint};
use linerate_measure::measure::statistics::Interval;
use linerate_measure::measure::{Measurement, Stage};
use linerate_measure::run::Run;

/// One figure.
#[derive(Clone, Debug)]
pub(super) struct RuledFigure<'r> {
    /// `disk nvme0n1 alone`.
    pub(super) name: String,
    pub(super) value: f64,
    /// Where it lies by its repeats; none: they are too few. What was counted lies where it is.
    pub(super) interval: Option<[f64; 2]>,
    pub(super) unit: FigureUnit,
    /// What it was taken from; none: a curve.
    pub(super) measurement: Option<&'r Measurement>,
}

/// How it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FigureUnit {
    Rate(Unit),
    Operations,
    Share,
    Seconds,
}

impl FigureUnit {
    pub(super) fn show(self, value: f64) -> String {
        match self {
            FigureUnit::Rate(unit) => unit.show(value),
            FigureUnit::Operations => format!("{} IOPS", operations_word(value)),
            FigureUnit::Share => percent(value),
            FigureUnit::Seconds if value > 0.0 => seconds_word(value),
            FigureUnit::Seconds => "0 s".into(),
        }
    }
}

impl RuledFigure<'_> {
    /// `1.20 GB/s (1.18–1.22 GB/s)`.
    pub(super) fn shown(&self) -> String {
        let value = self.unit.show(self.value);
        match (self.interval, self.unit) {
            (Some([low, high]), _) if low == high => value,
            (Some([low, high]), FigureUnit::Rate(unit)) => {
                format!("{value} ({})", unit.show_range(low, high))
            }
            (Some([low, high]), unit) => format!("{value} ({} to {})", unit.show(low), unit.show(high)),
            (None, _) => value,
        }
    }
}

/// Those of a rule; empty where the result has none.
pub(super) fn of_rule<'r>(run: &'r Run, rule: &FigureRule) -> Vec<RuledFigure<'r>> {
    let mut figures: Vec<RuledFigure> = match &rule.subject {
        Subject::Any => measured_as(run).into_iter().filter_map(|row| of_row(row, rule)).collect(),
        Subject::Row(stage, row) => {
            let rows = rows(run, *stage, row, rule.metric);
            rows.into_iter().filter_map(|row| of_row(row, rule)).collect()
        }
        Subject::Part(kind, name) => parts(run, *kind, name, rule),
    };
    if matches!(rule.subject, Subject::Any | Subject::Row(Stage::Load, _)) {
        figures.extend(run.load.iter().filter_map(|curve| of_curve(curve, rule)));
    }
    figures
}

type MeasuredRow<'r> = ((Stage, String, usize), &'r Measurement);

/// Rows of a stage. Without further words those that stand for the stage: of a whole run what all devices do together,
/// of the first protocol; of one stage alone all of it.
fn rows<'r>(run: &'r Run, stage: Stage, row: &str, metric: Metric) -> Vec<MeasuredRow<'r>> {
    let mut rows = measured_as(run);
    rows.retain(|((of, ..), _)| *of == stage);
    if !row.is_empty() {
        let is_exact = |((_, name, _), _): &MeasuredRow<'_>| name == row;
        let has_exact = rows.iter().any(is_exact);
        rows.retain(|found| if has_exact { is_exact(found) } else { begins_with(&found.0.1, row) });
        return rows;
    }
    // TCP loses no datagram.
    let protocol = if metric == Metric::Loss { Some(Protocol::Udp) } else { headline(run) };
    if metric == Metric::Loss || run.stage.is_none() {
        rows.retain(|(_, figure)| figure.protocol.is_none() || figure.protocol == protocol);
    }
    if run.stage.is_none() {
        rows.retain(|(_, figure)| !figure.with_file || stage == Stage::Path);
        if rows.iter().any(|(_, figure)| figure.together) {
            rows.retain(|(_, figure)| figure.together);
        }
    }
    rows
}

/// The first that was asked for.
pub(super) fn headline(run: &Run) -> Option<Protocol> {
    run.goal.protocols.first().copied()
}

/// Whole words.
fn begins_with(name: &str, row: &str) -> bool {
    name.strip_prefix(row).is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric()))
}

/// A part alone.
fn parts<'r>(run: &'r Run, kind: PartKind, name: &str, rule: &FigureRule) -> Vec<RuledFigure<'r>> {
    let (stage, prefix) = match kind {
        PartKind::Disk => (Stage::Disk, "disk:"),
        PartKind::Nic => (Stage::Network, "nic:"),
    };
    let is_named = |found: &str| name == "*" || found == name;
    let protocol = if rule.metric == Metric::Loss { Some(Protocol::Udp) } else { headline(run) };
    let is_protocol = |figure: &Measurement| match kind {
        PartKind::Disk => true,
        PartKind::Nic => !figure.with_file && (run.stage.is_some() || figure.protocol == protocol),
    };
    let rows = measured_as(run).into_iter().filter(|((of, ..), figure)| *of == stage && is_protocol(figure));
    let alone = |row: MeasuredRow<'r>| {
        let part = row.1.resource.strip_prefix(prefix)?;
        // Several names are several disks at once.
        is_named(part).then(|| of_row(row, rule))?
    };
    let mut found: Vec<RuledFigure> = rows.clone().filter_map(alone).collect();
    if found.is_empty() && kind == PartKind::Nic && rule.metric == Metric::Rate {
        found = rows.flat_map(|(_, figure)| of_paths(figure, &is_named)).collect();
    }
    found
}

/// Each NIC's part of streams that went over several at once.
fn of_paths<'r>(figure: &'r Measurement, is_named: &impl Fn(&str) -> bool) -> Vec<RuledFigure<'r>> {
    let paths = figure.streams.iter().flat_map(|streams| &streams.paths);
    let named = paths.filter(|path| is_named(&path.name)).filter_map(|path| {
        Some(RuledFigure {
            name: printable(&format!("network {} over {}", figure.name, path.name)),
            value: rate(path.bytes_per_second)?,
            interval: interval_of(&path.samples),
            unit: FigureUnit::Rate(Unit::Bits),
            measurement: Some(figure),
        })
    });
    named.collect()
}

fn interval_of(samples: &[f64]) -> Option<[f64; 2]> {
    let samples: Vec<f64> = samples.iter().copied().filter_map(rate).collect();
    Interval::of(&samples).map(|within| [within.low, within.high])
}

/// Where the rate of a row lies.
pub(super) fn rate_interval(figure: &Measurement) -> Option<[f64; 2]> {
    let sane = |[low, high]: &[f64; 2]| rate(*low).is_some() && rate(*high).is_some() && low <= high;
    figure.interval.filter(sane).or_else(|| interval_of(&figure.samples))
}

/// What the rule looks at of a row; none where the row has it not.
fn of_row<'r>(((stage, name, again), figure): MeasuredRow<'r>, rule: &FigureRule) -> Option<RuledFigure<'r>> {
    let name = if again == 0 { name } else { format!("{name} #{}", again + 1) };
    let unit = if stage == Stage::Network { Unit::Bits } else { Unit::Bytes };
    let (value, interval, unit) = match (rule.metric, rule.bound) {
        (Metric::Rate, Bound::Operations(_)) => {
            let value = operations(figure)?;
            let of_rate = value / rate(figure.bytes_per_second).filter(|rate| *rate > 0.0)?;
            let interval = rate_interval(figure).map(|within| within.map(|rate| rate * of_rate));
            (value, interval, FigureUnit::Operations)
        }
        (Metric::Rate, _) => (rate(figure.bytes_per_second)?, rate_interval(figure), FigureUnit::Rate(unit)),
        (Metric::Loss, _) => {
            let loss = Some(figure.loss).filter(|_| figure.protocol == Some(Protocol::Udp))?;
            (loss, Some([loss; 2]), FigureUnit::Share)
        }
        (Metric::Spread, _) => {
            let spread = Some(figure.spread).filter(|_| figure.samples.len() > 2)?;
            (spread, Some([spread; 2]), FigureUnit::Share)
        }
        (Metric::P50 | Metric::P99, _) => {
            let (value, interval) = latency(figure, rule.metric)?;
            (value, interval, FigureUnit::Seconds)
        }
    };
    let is_number = value.is_finite() && value >= 0.0;
    let name = printable(&format!("{stage} {name}"));
    is_number.then_some(RuledFigure { name, value, interval, unit, measurement: Some(figure) })
}

fn operations(figure: &Measurement) -> Option<f64> {
    let access = figure.access.as_ref()?;
    let sides = access.reads.iter().chain(&access.writes);
    Some(sides.map(|side| side.operations_per_second).sum::<f64>()).and_then(rate)
}

/// Of file access each visit has its own; round trips beside a bulk are counted over all of it.
fn latency(figure: &Measurement, metric: Metric) -> Option<(f64, Option<[f64; 2]>)> {
    if let Some(trips) = figure.streams.as_ref().and_then(|streams| streams.loaded_latency.as_ref()) {
        let value = if metric == Metric::P99 { trips.p99 } else { trips.p50 };
        return Some((value, Some([value; 2])));
    }
    let quantity = if metric == Metric::P99 { Quantity::P99 } else { Quantity::P50 };
    let sampled = sampled(figure, quantity)?;
    Some((sampled.median, sampled.interval.map(|within| [within.low.max(0.0), within.high])))
}

/// The answer of a load: the rate that was asked for, or the least load with nearly the most requests.
fn of_curve(curve: &LoadCurve, rule: &FigureRule) -> Option<RuledFigure<'static>> {
    let point: &LoadPoint = curve.answer().or(curve.points.last())?;
    let (value, unit) = match rule.metric {
        Metric::Rate => (curve.level_rate().unwrap_or(point.operations_per_second), FigureUnit::Operations),
        Metric::P50 => (point.latency.p50, FigureUnit::Seconds),
        Metric::P99 => (point.latency.p99, FigureUnit::Seconds),
        Metric::Loss | Metric::Spread => return None,
    };
    let value = rate(value)?;
    // Requests are counted one by one; its repeats are not kept.
    Some(RuledFigure { name: "load".into(), value, interval: Some([value; 2]), unit, measurement: None })
}

/// What there is in place of a figure that a rule names, for the sentence.
pub(super) fn names(run: &Run) -> Vec<String> {
    let rows =
        measured_as(run).into_iter().map(|((stage, name, _), _)| printable(&format!("{stage} {name}")));
    rows.chain(run.load.iter().map(|_| "load".to_string())).collect()
}
