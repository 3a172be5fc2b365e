//! `linerate check`: one result against what this host usually reaches, by its earlier results. Pure.
//!
//! `usual` is the judgement of one figure. What of the machine is not as it was in any of the usual results
//! may be why a figure is another one. `words` makes the line of all that, and the file for Prometheus.

mod usual;
mod words;

pub use usual::LEAST_RESULTS;

use crate::compare::measured_as;
use crate::figure::{percent, rate};
use crate::machine_facts::{MachineFact, fill, of_server, of_settings};
use linerate_facts::grouping::distinct;
use linerate_facts::printable::printable;
use linerate_measure::measure::{Measurement, Stage};
use linerate_measure::run::{Run, SCHEMA};
use serde::Serialize;
use std::collections::HashMap;
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
    /// Where 98 of 100 results lie; three in a row outside are not an accident.
    pub interval: [f64; 2],
    /// One alone below this is not an accident.
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

/// Holds a result against earlier ones, oldest first; those that are not repeats of it are counted only, like
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
        changes: if changed { changes_since(run, &usual_results) } else { Vec::new() },
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

/// A file system is said to be fuller where it is by this share more than ever before.
const FULLER_BY: f64 = 0.05;
/// CPUs are said to be busier where others use this share of them more than ever before.
const BUSIER_BY: f64 = 0.1;
/// Nothing is known of it there.
const ABSENT: &str = "absent";

/// Against the usual results, oldest first; the ones that lie nearest to the flow come first.
pub(crate) fn changes_since(run: &Run, usual: &[&Run]) -> Vec<MachineChange> {
    let Some(newest) = usual.last() else { return Vec::new() };
    let then: Vec<Vec<MachineFact>> = usual.iter().map(|run| facts(run)).collect();
    let now = facts(run);
    let mut changes = circumstances(run, usual);
    let known_now = now.iter().map(|fact| fact.what.as_str());
    let gone = then.iter().rev().take(1).flatten().map(|fact| fact.what.as_str());
    for what in distinct(known_now.chain(gone)) {
        let (value, mut before) = (value_of(&now, what), then.iter().map(|facts| value_of(facts, what)));
        if before.clone().any(|before| before == value) {
            continue;
        }
        let usual = before.next_back().unwrap_or(ABSENT);
        changes.push(change(what, usual, value));
    }
    changes.extend(files(run, newest, usual));
    changes
}

fn facts(run: &Run) -> Vec<MachineFact> {
    let mut facts = of_settings(run);
    facts.extend(of_server(run));
    facts.push(MachineFact { what: "linerate".into(), value: printable(&run.version) });
    facts
}

fn value_of<'a>(facts: &'a [MachineFact], what: &str) -> &'a str {
    facts.iter().find(|fact| fact.what == what).map_or(ABSENT, |fact| &fact.value)
}

fn change(what: &str, usual: &str, now: &str) -> MachineChange {
    MachineChange { what: what.into(), usual: usual.into(), now: now.into() }
}

/// What was so while it was measured, and is not a setting: other work, and a hypervisor that takes CPUs away.
fn circumstances(run: &Run, usual: &[&Run]) -> Vec<MachineChange> {
    let others = |run: &Run| {
        let shares = run.measurements.iter().map(|measurement| measurement.cpu_share.others);
        shares.filter(|share| share.is_finite()).fold(0.0, f64::max)
    };
    let flagged = |run: &Run, flag: &str| {
        run.measurements.iter().any(|measurement| measurement.flags.iter().any(|word| word == flag))
    };
    let most = usual.iter().map(|run| others(run)).fold(0.0, f64::max);
    let mut changes = Vec::new();
    if others(run) > most + BUSIER_BY {
        let share = |share: f64| format!("{} of the CPUs", percent(share));
        changes.push(change("other work", &share(most), &share(others(run))));
    }
    for (flag, what) in [("steal", "CPU taken by the hypervisor"), ("quota", "throttled by the CPU quota")] {
        if flagged(run, flag) && !usual.iter().any(|run| flagged(run, flag)) {
            changes.push(change(what, "no", "yes"));
        }
    }
    changes
}

fn files(run: &Run, newest: &Run, usual: &[&Run]) -> Vec<MachineChange> {
    let before: Vec<Vec<(String, f64)>> = usual.iter().map(|run| fill(run)).collect();
    let last = fill(newest);
    let mut changes = Vec::new();
    for (place, now) in fill(run) {
        let of_place =
            |all: &[(String, f64)]| all.iter().find(|(other, _)| *other == place).map(|(_, full)| *full);
        let most = before.iter().filter_map(|all| of_place(all)).reduce(f64::max);
        if let (Some(most), Some(last)) = (most, of_place(&last))
            && now > most + FULLER_BY
        {
            changes.push(change(&format!("fill of {place}"), &percent(last), &percent(now)));
        }
    }
    changes
}

#[cfg(test)]
mod tests;
