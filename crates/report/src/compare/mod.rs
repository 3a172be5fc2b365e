//! Any runs side by side: the same measurements paired, a difference called one only where the intervals part,
//! unlike machines said first.
//!
//! `measure::statistics` has the mathematics, `pair` tells which rows are the same; what sets the machines apart
//! is here, since a difference of the figures may be theirs; `view` shows the product.

mod pair;
mod view;

use super::figure::{Unit, seconds_word};
use crate::machine_facts::{MachineFact, of_server, of_settings};
use linerate_facts::failure::Failure;
use linerate_facts::grouping::{distinct, grouped};
use linerate_facts::printable::printable;
use linerate_facts::units;
use linerate_machine::probe::{Disk, Machine};
use linerate_measure::measure::Stage;
pub use linerate_measure::measure::statistics::{Interval, SampleComparison};
use linerate_measure::run::{Run, SCHEMA};
pub use pair::{Detail, Quantity, Sampled, joined};
pub(super) use pair::{keyed as measured_as, sampled};
use serde::Serialize;
use std::path::{Path, PathBuf};
pub use view::{page, screen};

/// Rates set beside each other; one serde value, saved as `compare.json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    pub schema: u32,
    /// In the order in which they were named; the first is what the others are held against.
    pub runs: Vec<Side>,
    /// What is not the same of the machines, most telling first.
    pub unlike: Vec<Unlike>,
    /// What at least two runs measured.
    pub rows: Vec<ComparedFigure>,
    /// Latencies, CPU time and knees of what at least two runs measured.
    pub details: Vec<Detail>,
    /// Answers that have no samples: a knee, a number of devices.
    pub answers: Vec<Answer>,
    /// What only one run measured.
    pub only: Vec<Only>,
}

/// One of the runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Side {
    /// What it is called among the others: its name, made unlike those of the others.
    pub label: String,
    pub file: PathBuf,
    pub host: String,
    /// RFC 3339, UTC.
    pub started: String,
    /// linerate's version.
    pub version: String,
    /// `run`, or the one stage that was measured.
    pub command: String,
    /// Something failed along the way.
    pub partial: bool,
    /// What it achieved, what limits it and what raises it; empty where one stage alone was measured.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub verdict: String,
}

/// A fact that differs between the machines.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Unlike {
    pub what: String,
    /// One for each run.
    pub values: Vec<String>,
}

/// One measurement in several runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedFigure {
    pub stage: Stage,
    pub name: String,
    /// One for each run; none where it did not measure this.
    pub figures: Vec<Option<Rate>>,
    /// One for each run; none for the one that the others are held against, and where there is no figure.
    pub against_first: Vec<Option<Difference>>,
}

impl ComparedFigure {
    /// A rate, `≥` where something else held it; links in bits.
    fn shown(&self, figure: &Rate) -> String {
        let bound = if figure.lower_bound { "≥ " } else { "" };
        match figure.seconds {
            Some(seconds) => seconds_word(seconds),
            None => format!("{bound}{}", self.unit().show(figure.bytes_per_second)),
        }
    }

    fn unit(&self) -> Unit {
        if self.stage == Stage::Network { Unit::Bits } else { Unit::Bytes }
    }
}

/// A rate of one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rate {
    /// Median, bytes per second.
    pub bytes_per_second: f64,
    /// Seconds an access, where that is what was measured: what the rate is made of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// None with fewer than three samples.
    pub interval: Option<Interval>,
    pub samples: usize,
    /// Something else held the stage.
    pub lower_bound: bool,
    pub flags: Vec<String>,
}

/// One rate against another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// Its median ÷ the other's.
    pub ratio: f64,
    /// Least and largest ratio that the intervals allow; none where they are missing or the first reaches to
    /// zero.
    pub ratio_interval: Option<Interval>,
    pub verdict: SampleComparison,
}

/// An answer in words, one for each run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    pub question: String,
    pub answers: Vec<String>,
}

/// A measurement that has no partner.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Only {
    pub run: String,
    pub stage: Stage,
    pub name: String,
    pub bytes_per_second: f64,
}

/// Whether there is anything to compare.
fn has_figures(run: &Run) -> bool {
    run.load.is_some() || run.scaling.is_some() || !run.measurements.is_empty()
}

fn side(run: &Run, file: &Path) -> Side {
    let name = if run.stage.is_some() { &run.name } else { &run.host };
    Side {
        label: printable(name),
        file: file.to_path_buf(),
        host: printable(&run.host),
        started: printable(&run.started),
        version: printable(run.tool_version()),
        command: run.command(),
        partial: !run.errors.is_empty(),
        verdict: if run.stage.is_none() { super::verdict::verdict(run).in_words() } else { String::new() },
    }
}

/// Sets the runs side by side; the first is what the others are held against.
pub fn compare(runs: &[(PathBuf, Run)]) -> Result<Comparison, Failure> {
    if let Some((file, _)) = runs.iter().find(|(_, run)| !has_figures(run)) {
        return Err(Failure::Lacks(format!(
            "{}: the run measured nothing, so that there is nothing to compare; give one that has figures",
            file.display()
        )));
    }
    let sides = labelled(runs.iter().map(|(file, run)| side(run, file)).collect());
    let saved: Vec<&Run> = runs.iter().map(|(_, run)| run).collect();
    let labels: Vec<&str> = sides.iter().map(|side| side.label.as_str()).collect();
    let (rows, only) = pair::rows(&saved, &labels);
    let details = pair::details(&saved);
    let answers = pair::answers(&saved);
    if rows.is_empty() && answers.is_empty() {
        let some = only.iter().take(2).map(|only| format!("“{}” only in {}", only.name, only.run));
        let some = some.collect::<Vec<_>>().join(", ");
        let some = if some.is_empty() { some } else { format!(" ({some})") };
        return Err(Failure::Usage(format!(
            "the runs have no measurement in common{some}; compare runs of the same command with the same \
             words"
        )));
    }
    Ok(Comparison { schema: SCHEMA, unlike: unlike_facts(&saved), runs: sides, rows, details, answers, only })
}

/// Runs of the same name are called by their folder instead (or by the file, where it is no `run.json`), and
/// get a number where that is the same, too.
fn labelled(mut sides: Vec<Side>) -> Vec<Side> {
    let names: Vec<String> = sides.iter().map(|side| side.label.clone()).collect();
    for side in &mut sides {
        let twice = names.iter().filter(|name| **name == side.label).count() > 1;
        if let (true, Some(place)) = (twice, place(&side.file)) {
            side.label = printable(&place);
        }
    }
    let names: Vec<String> = sides.iter().map(|side| side.label.clone()).collect();
    for (index, side) in sides.iter_mut().enumerate() {
        let before = names[..index].iter().filter(|name| **name == side.label).count();
        if before > 0 {
            side.label = format!("{} #{}", side.label, before + 1);
        }
    }
    sides
}

/// What tells a file from others of its kind.
fn place(file: &Path) -> Option<String> {
    let path = std::path::absolute(file).ok()?;
    let is_in_folder = path.ends_with("run.json");
    let named = if is_in_folder { path.parent()?.file_name()? } else { path.file_stem()? };
    Some(named.to_string_lossy().into_owned())
}

/// Facts that are not the same everywhere: of the servers, and where all runs are of one host also of how it
/// was set.
fn unlike_facts(runs: &[&Run]) -> Vec<Unlike> {
    let one_host = runs.windows(2).all(|pair| pair[0].host == pair[1].host);
    let all: Vec<Vec<MachineFact>> = runs.iter().map(|run| facts_of(run, one_host)).collect();
    let mut unlike = Vec::new();
    for what in distinct(all.iter().flatten().map(|fact| fact.what.as_str())) {
        let value = |facts: &Vec<MachineFact>| {
            let fact = facts.iter().find(|fact| fact.what == what);
            fact.map_or_else(|| "absent".to_string(), |fact| fact.value.clone())
        };
        let values: Vec<String> = all.iter().map(value).collect();
        if values.iter().any(|other| *other != values[0]) {
            unlike.push(Unlike { what: what.into(), values });
        }
    }
    unlike
}

/// Of each run the same facts in the same order, of one host also its settings.
fn facts_of(run: &Run, with_settings: bool) -> Vec<MachineFact> {
    let mut facts = of_server(run);
    facts.push(MachineFact { what: "devices".into(), value: devices(run, &run.machine) });
    facts.push(MachineFact { what: "flow".into(), value: run.goal.flow.ends().into() });
    facts.push(MachineFact { what: "linerate".into(), value: printable(run.tool_version()) });
    if with_settings {
        facts.extend(of_settings(run));
    }
    facts
}

/// The devices that were measured, by what they are and not by what the kernel called them: `2 × loop, 1
/// GiB`.
fn devices(run: &Run, machine: &Machine) -> String {
    let names = distinct(run.measurements.iter().flat_map(|measurement| {
        let devices = measurement.access.iter().flat_map(|access| &access.devices);
        // What lies over several devices is called by all of them.
        let resource = measurement.resource.strip_prefix("disk:").into_iter();
        devices.map(|device| device.name.as_str()).chain(resource.flat_map(|names| names.split('+')))
    }));
    let mut kinds: Vec<String> =
        names.into_iter().map(|name| machine.disk(name).map_or_else(|| printable(name), kind)).collect();
    kinds.sort();
    let kinds = grouped(kinds, |one, other| one == other);
    let words: Vec<String> = kinds.iter().map(|alike| format!("{} × {}", alike.len(), alike[0])).collect();
    if words.is_empty() { "none".into() } else { words.join("; ") }
}

fn kind(disk: &Disk) -> String {
    let mut words = vec![format!("{:?}", disk.kind).to_lowercase()];
    words.extend(disk.model.known().map(|model| printable(model)));
    words.extend(disk.size_bytes.known().map(|bytes| units::show_size(*bytes)));
    words.join(" ")
}
