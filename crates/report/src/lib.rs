//! The last step: one `Run` as a terminal screen, as JSON, as a self-contained HTML page.
//!
//! Pure functions of the run: the same `run.json` gives the same screen and the same page anywhere, without
//! the hardware. Names in a run come from outside (devices, hosts, files, peers): everything that is shown
//! goes through [`printable`].

#![forbid(unsafe_code)]

mod charts;
pub mod check;
mod compare;
mod csv;
#[cfg(test)]
mod extreme;
mod figure;
mod figure_words;
mod fio;
pub mod fleet;
mod flow;
mod folder;
pub mod grid;
mod html;
mod job_words;
mod json;
mod ledger_words;
mod machine_facts;
mod map;
mod markup;
mod power;
mod programs;
mod rdma_words;
pub mod results;
mod scalability;
mod stage;
mod stages;
mod stream_words;
mod style;
mod terminal;
pub mod tree;
mod verdict;
pub mod wall;
pub mod wall_screens;

pub use compare::Detail;
pub use compare::Difference;
pub use compare::Quantity;
pub use compare::Sampled;
pub use compare::{Comparison, Interval, Rate, SampleComparison};

pub use flow::{FlowReport, MeasuredOn, WhatIfStep};
pub use folder::{Compared, Folder, Product};
use linerate_facts::failure::Failure;
use linerate_machine::probe::Machine;
use linerate_measure::run::Run;
use std::path::{Path, PathBuf};
pub use style::NO_SCREEN;

/// The run as one screen, that of the whole path of at most 40 lines, each at most `width` columns wide (60
/// to 110 are laid out; less is taken as 60, more as 110), with ANSI colours where `colour` is true. For
/// [`NO_SCREEN`] all of it, and no line of a table has an end. Ends with a newline.
pub fn terminal(run: &Run, width: usize, colour: bool) -> String {
    terminal::run(run, width, colour)
}

/// Tables of rates for a screen of `width` columns (80 and more are laid out), sources below each.
pub fn rates(tables: &[linerate_machine::rates::table::Table], width: usize, colour: bool) -> String {
    terminal::rates(tables, width, colour)
}

/// Where every packet of a test went: a line a layer, with what each dropped and the cure. Ends with a
/// newline.
pub fn ledger(ledger: &linerate_measure::diagnose::ledger::Ledger, width: usize, colour: bool) -> String {
    terminal::ledger(ledger, width, colour)
}

/// Findings of a machine's map, each with what to do; nothing where there is none. Ends with a newline.
pub fn findings(findings: &[linerate_measure::diagnose::Finding], width: usize, colour: bool) -> String {
    let lines = terminal::findings(findings, width.clamp(60, 120), style::Style::of(width, colour));
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// An array as it follows from the arithmetic, with the command lines that make it.
pub fn raid(layout: &linerate_model::plan::raid::RaidLayout, width: usize, colour: bool) -> String {
    terminal::raid(layout, width, colour)
}

/// Arrays that are there, each with what is right and what is not.
pub fn raid_check(arrays: &[linerate_model::plan::raid::Checked], width: usize, colour: bool) -> String {
    terminal::raid_check(arrays, width, colour)
}

/// A run as pretty-printed `run.json`, with a newline at the end.
pub fn json<P: Product>(product: &P) -> String {
    json::write(product)
}

/// What a wall needs at each stage and whether the server has it; `width` and `colour` as for [`terminal`].
pub fn wall_plan(verdict: &linerate_wall::need::ServerVerdict, width: usize, colour: bool) -> String {
    flow::wall_screen(verdict, width, colour)
}

/// A run as CSV, a line for each measurement.
pub fn csv(run: &Run) -> String {
    csv::csv(run)
}

/// A run in the shape of `fio --output-format=json`, a job for each measurement of files.
pub fn fio_json(run: &Run) -> String {
    fio::json(run)
}

/// Runs side by side, by the files that they were read from. The first is what the others are
/// held against.
pub fn compare(runs: &[(PathBuf, Run)]) -> Result<Comparison, Failure> {
    compare::compare(runs)
}

/// Runs of the same name as repeats of one another: one for each name, with the samples of all.
pub fn joined(runs: Vec<(PathBuf, Run)>) -> Vec<(PathBuf, Run)> {
    compare::joined(runs)
}

/// A comparison for a terminal; `width` and `colour` as for [`terminal`].
pub fn compare_terminal(comparison: &Comparison, width: usize, colour: bool) -> String {
    compare::screen(comparison, width, colour)
}

/// A comparison as CSV, a line for each rate of each run.
pub fn compare_csv(comparison: &Comparison) -> String {
    compare::csv(comparison)
}

/// A comparison as one HTML page with the plots of all runs over each other.
pub fn compare_html(comparison: &Comparison, runs: &[(PathBuf, Run)]) -> String {
    compare::page(comparison, runs)
}

/// The same run without what says whose machine it is: hosts, addresses, folders, users, serial numbers, programs.
pub fn anonymous(run: &Run) -> Result<Run, Failure> {
    let unreadable = |error: serde_json::Error| {
        Failure::Lacks(format!(
            "--anonymous: a name of this machine is a word of the result itself ({error}); it cannot be replaced"
        ))
    };
    let mut value = serde_json::to_value(run).map_err(unreadable)?;
    programs::leave_out(&mut value, run);
    linerate_machine::capture::anonymise(&mut value, &run.machine);
    serde_json::from_value(value).map_err(unreadable)
}

/// Reads a `run.json`, or the one in a folder. The error tells whether it is not there, not JSON (line and
/// column), of another schema, or lacks a field.
pub fn read(path: &Path) -> Result<Run, Failure> {
    json::read(path)
}

/// The text of a `run.json`; `name` is what errors call it. They are those of [`read`].
pub fn parse(text: &[u8], name: &Path) -> Result<Run, Failure> {
    json::parse(text, name)
}

/// The run as one HTML page that needs nothing else: no network, no file, no script.
pub fn html(run: &Run) -> String {
    html::page(run)
}

/// The machine as a block diagram in SVG that needs nothing else: nodes side by side, what hangs on them over
/// which links, with rates on the edges. Light or dark as the reader prefers; no script.
pub fn map_svg(machine: &Machine) -> String {
    map::svg(machine)
}

#[cfg(test)]
mod described_tests;
