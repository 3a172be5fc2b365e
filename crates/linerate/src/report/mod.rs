//! The last step: one `Run` as a terminal screen, as JSON, as a self-contained HTML page.
//!
//! Pure functions of the run: the same `run.json` gives the same screen and the same page anywhere, without the hardware.
//! Names in a run come from outside (devices, hosts, files, peers): everything that is shown goes through [`printable`].

mod charts;
mod compare;
mod csv;
mod figure;
mod fio;
mod flow;
mod folder;
mod html;
mod iperf3_ends;
pub mod iperf3_json;
mod job_words;
mod json;
mod ledger_words;
mod map;
mod printable;
mod stage;
mod stages;
mod stream_words;
mod terminal;
mod verdict;
pub mod wall;
pub mod wall_screens;

use crate::failure::Failure;
use crate::probe::Machine;
use crate::run::{Run, StageRun};
pub use compare::{Comparison, Detail, Difference, Interval, Quantity, Rate, Sampled, Verdict};
pub use flow::{FlowReport, Step};
pub use folder::{Compared, Folder, Product};
pub use json::SavedRun;
pub use printable::{columns, printable, shortened, wrapped};
use std::path::{Path, PathBuf};

/// The run as one screen of at most 40 lines, each at most `width` columns wide (60 to 110 are laid out; less is taken as
/// 60, more as 110), with ANSI colours where `colour` is true. Ends with a newline.
pub fn terminal(run: &Run, width: usize, colour: bool) -> String {
    terminal::screen(run, width, colour)
}

/// Tables of rates for a screen of `width` columns (80 and more are laid out), sources below each.
pub fn rates(tables: &[crate::rates::table::Table], width: usize, colour: bool) -> String {
    terminal::rates(tables, width, colour)
}

/// Where every packet of a test went: a line a layer, with what each dropped and the cure. Ends with a newline.
pub fn ledger(ledger: &crate::diagnose::ledger::Ledger, width: usize, colour: bool) -> String {
    terminal::ledger(ledger, width, colour)
}

/// An array as it follows from the arithmetic, with the command lines that make it.
pub fn raid(layout: &crate::plan::raid::Layout, width: usize, colour: bool) -> String {
    terminal::raid(layout, width, colour)
}

/// Arrays that are there, each with what is right and what is not.
pub fn raid_check(arrays: &[crate::plan::raid::Checked], width: usize, colour: bool) -> String {
    terminal::raid_check(arrays, width, colour)
}

/// A run, or one stage's benchmark, as pretty-printed `run.json`, with a newline at the end.
pub fn json<P: Product>(product: &P) -> String {
    json::write(product)
}

/// What a wall needs at each stage and whether the server has it; `width` and `colour` as for [`terminal`].
pub fn wall_plan(verdict: &crate::wall::need::Verdict, width: usize, colour: bool) -> String {
    flow::wall_screen(verdict, width, colour)
}

/// One stage's benchmark for a terminal, as the command that measured it shows it; `width` and `colour` as for [`terminal`].
pub fn stage_terminal(run: &StageRun, width: usize, colour: bool) -> String {
    terminal::stage(run, width, colour)
}

/// One stage's benchmark as one HTML page that needs nothing else, with its charts.
pub fn stage_html(run: &StageRun) -> String {
    html::stage_page(run)
}

/// One stage's benchmark as CSV, a line for each measurement.
pub fn stage_csv(run: &StageRun) -> String {
    csv::csv(run)
}

/// One stage's benchmark in the shape of `fio --output-format=json`, a job for each measurement of files.
pub fn stage_fio_json(run: &StageRun) -> String {
    fio::json(run)
}

/// The network's figures in the shape of `iperf3 -J`, one document after the other.
pub fn stage_iperf3_json(run: &StageRun) -> String {
    iperf3_ends::documents(run)
}

/// Runs of either kind side by side, by the files that they were read from. The first is what the others are held against.
pub fn compare(runs: &[(PathBuf, SavedRun)]) -> Result<Comparison, Failure> {
    compare::compare(runs)
}

/// Runs of the same name as repeats of one another: one for each name, with the samples of all.
pub fn joined(runs: Vec<(PathBuf, SavedRun)>) -> Vec<(PathBuf, SavedRun)> {
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
pub fn compare_html(comparison: &Comparison, runs: &[(PathBuf, SavedRun)]) -> String {
    compare::page(comparison, runs)
}

/// Reads a `run.json` of either kind, or the one in a folder; errors as of [`read`].
pub fn read_saved(path: &Path) -> Result<SavedRun, Failure> {
    json::read_saved(path)
}

/// The text of a `run.json` of either kind; `name` is what errors call it.
pub fn parse_saved(text: &[u8], name: &Path) -> Result<SavedRun, Failure> {
    json::parse_saved(text, name)
}

/// Reads a `run.json`, or the one in a folder. The error tells whether it is not there, not JSON (line and column), of another
/// schema, or lacks a field.
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

/// The machine as a block diagram in SVG that needs nothing else: nodes side by side, what hangs on them over which links, with rates on
/// the edges. Light or dark as the reader prefers; no script.
pub fn map_svg(machine: &Machine) -> String {
    map::svg(machine)
}
