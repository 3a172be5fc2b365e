//! `linerate check`: one result against what this host usually reaches, by its earlier results. Pure.
//!
//! `usual` is the judgement of one figure, `changes` says what of the machine is not as it was, `words` makes
//! the line of all that, and the file for Prometheus.

pub(super) mod changes;
#[cfg(test)]
mod tests;
mod usual;
mod words;

use crate::compare::measured_as;
use crate::figure::rate;
use linerate_measure::measure::{Measurement, Stage};
use linerate_measure::run::{Run, SCHEMA};
use serde::Serialize;
use std::collections::HashMap;
pub use usual::LEAST_RESULTS;
use usual::{RatePosition, judge};

/// A result held against the host's earlier ones.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HistoryCheck {
    pub schema: u32,
    pub host: String,
    /// RFC 3339, UTC: when the result began.
    pub started: String,
    /// `run`, or the one stage that was measured.
    pub command: String,
    pub verdict: CheckVerdict,
    /// All of it in one line.
    pub sentence: String,
    pub figures: Vec<CheckedFigure>,
    /// What of the machine is not as it was in any of the usual results; only said of what is slower or faster.
    pub changes: Vec<MachineChange>,
    /// The newest of the usual results, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usual_until: Option<String>,
    pub history: KeptHistory,
    /// What failed while it was measured: then nothing is judged.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
}

/// What the whole check says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CheckVerdict {
    Slower,
    Usual,
    Faster,
    /// This machine changes its own speed by more than what would be found.
    Unclear,
    TooFew,
    /// Something failed, or nothing was measured that can be judged.
    NotJudged,
}

/// Which earlier results there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KeptHistory {
    /// Of this flow on this machine.
    pub results: usize,
    pub needed: usize,
    /// Of this machine, measured otherwise: other disks, peers, options or budget.
    pub other_flows: usize,
    /// Of other machines: another name, or other hardware.
    pub other_machines: usize,
}

/// One figure against its earlier ones.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CheckedFigure {
    pub stage: Stage,
    pub name: String,
    pub bytes_per_second: f64,
    /// It decides the verdict; the others say where a change comes from.
    pub decides: bool,
    pub verdict: CheckVerdict,
    /// So many in a row, this one included, are as far on this side.
    pub in_a_row: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usual: Option<UsualRate>,
}

/// What a figure usually is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct UsualRate {
    /// Median.
    pub bytes_per_second: f64,
    /// Where 98 of 100 results lie; three in a row outside are no accident.
    pub interval: [f64; 2],
    /// One alone below this is no accident.
    pub far_below: f64,
    pub results: usize,
}

/// A fact of the machine that changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MachineChange {
    pub what: String,
    /// In the newest of the usual results.
    pub usual: String,
    pub now: String,
}

/// Holds a result against earlier ones, oldest first; those that are no repeats of it are counted only, like
/// `elsewhere`, those of other hosts.
pub fn check(run: &Run, earlier: &[Run], elsewhere: usize) -> HistoryCheck {
    let mut history = KeptHistory { needed: LEAST_RESULTS, other_machines: elsewhere, ..Default::default() };
    let mut repeats: Vec<&Run> = Vec::new();
    for other in earlier {
        match (is_same_machine(run, other), is_same_flow(run, other)) {
            (false, _) => history.other_machines += 1,
            (true, false) => history.other_flows += 1,
            (true, true) => repeats.push(other),
        }
    }
    history.results = repeats.len();
    let (figures, usual_results) = figures(run, &repeats);
    let verdict = if run.errors.is_empty() { verdict(&figures) } else { CheckVerdict::NotJudged };
    let usual_results: Vec<&Run> = usual_results.iter().map(|index| repeats[*index]).collect();
    let changed = matches!(verdict, CheckVerdict::Slower | CheckVerdict::Faster);
    let mut check = HistoryCheck {
        schema: SCHEMA,
        host: run.host.clone(),
        started: run.started.clone(),
        command: run.command(),
        verdict,
        sentence: String::new(),
        figures,
        changes: if changed { changes::since(run, &usual_results) } else { Vec::new() },
        usual_until: usual_results.last().map(|run| run.started.clone()),
        history,
        errors: run.errors.clone(),
    };
    check.sentence = words::sentence(&check);
    check
}

impl HistoryCheck {
    /// For node_exporter's textfile collector.
    pub fn prometheus_text(&self) -> String {
        words::metrics(self)
    }
}

/// Its name and what cannot be changed in it.
fn is_same_machine(run: &Run, other: &Run) -> bool {
    run.host == other.host && is_same_hardware(run, other)
}

/// What cannot be changed in a machine.
pub(super) fn is_same_hardware(run: &Run, other: &Run) -> bool {
    let hardware = |run: &Run| {
        let (machine, cpu) = (&run.machine, &run.machine.cpu);
        let word = |model: Option<&String>| model.cloned().unwrap_or_default();
        (word(cpu.model.known()), cpu.packages.known().copied(), word(machine.virtualisation.known()))
    };
    hardware(run) == hardware(other)
}

/// Whether the other measured the same way, whole.
fn is_same_flow(run: &Run, other: &Run) -> bool {
    let ends = |run: &Run| {
        let plan = run.plan.as_ref();
        let sources = plan.iter().flat_map(|plan| plan.sources.iter().map(|source| source.resource.clone()));
        let paths = plan.iter().flat_map(|plan| &plan.paths);
        let paths = paths.flat_map(|path| [path.resource.clone(), path.receiver.clone()]);
        sources.chain(paths).collect::<Vec<_>>()
    };
    let same = run.stage == other.stage && run.name == other.name && run.goal == other.goal;
    same && ends(run) == ends(other) && other.errors.is_empty()
}

/// Every figure that is a rate; and the results that are usual for the first of those that decide.
fn figures(run: &Run, repeats: &[&Run]) -> (Vec<CheckedFigure>, Vec<usize>) {
    let keyed: Vec<HashMap<_, &Measurement>> =
        repeats.iter().map(|other| measured_as(other).into_iter().collect()).collect();
    let mut usual_results: Option<Vec<usize>> = None;
    let mut figures = Vec::new();
    for (key, measurement) in measured_as(run) {
        let Some(now) = rate(measurement.bytes_per_second).filter(|rate| *rate > 0.0) else { continue };
        let mut rates = Vec::new();
        let mut of_results = Vec::new();
        for (index, other) in keyed.iter().enumerate() {
            let same = other.get(&key).filter(|one| one.resource == measurement.resource);
            let earlier = same.and_then(|one| rate(one.bytes_per_second)).filter(|rate| *rate > 0.0);
            of_results.extend(earlier.map(|_| index));
            rates.extend(earlier);
        }
        rates.push(now);
        let judged = judge(&rates);
        let decides = run.stage.is_some() || measurement.stage == Stage::Path;
        if decides && usual_results.is_none() && judged.usual.is_some() {
            usual_results = Some(judged.usual_results.iter().map(|index| of_results[*index]).collect());
        }
        figures.push(CheckedFigure {
            stage: measurement.stage,
            name: key.1,
            bytes_per_second: now,
            decides,
            verdict: judged.position.into(),
            in_a_row: judged.in_a_row,
            usual: judged.usual.map(|usual| UsualRate {
                bytes_per_second: usual.median,
                interval: [usual.low, usual.high],
                far_below: usual.far_low,
                results: judged.usual_results.len(),
            }),
        });
    }
    (figures, usual_results.unwrap_or_default())
}

impl From<RatePosition> for CheckVerdict {
    fn from(position: RatePosition) -> Self {
        match position {
            RatePosition::TooFew => CheckVerdict::TooFew,
            RatePosition::Within => CheckVerdict::Usual,
            RatePosition::Below => CheckVerdict::Slower,
            RatePosition::Above => CheckVerdict::Faster,
            RatePosition::Unclear => CheckVerdict::Unclear,
        }
    }
}

/// The worst of those that decide.
fn verdict(figures: &[CheckedFigure]) -> CheckVerdict {
    use CheckVerdict::{Faster, NotJudged, Slower, TooFew, Unclear, Usual};
    let found = |verdict| figures.iter().any(|figure| figure.decides && figure.verdict == verdict);
    [Slower, TooFew, Unclear, Faster, Usual].into_iter().find(|verdict| found(*verdict)).unwrap_or(NotJudged)
}
