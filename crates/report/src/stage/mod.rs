//! The benchmark of one stage: its title and its parts on the terminal, and on the page with its charts before them and the
//! machine behind them.

mod access;
mod ledger;
mod matrix;
mod memory;
mod network;
mod outcome;
pub(super) mod scaling;
pub(super) mod streams;
mod transfer;

use super::charts::{self, Named};
use super::document::{Block, Document, Media, Part, bold, drawn, errors, findings_of, plain};
use super::grid::Style;
use super::html::machine;
use super::{power, shares};
use linerate_facts::printable::printable;
use linerate_measure::measure::Stage;
use linerate_measure::run::Run;
pub(super) use outcome::{name, sentence};
pub use scaling::file_system_of;

/// Rows of a page shown at once; more are behind a heading that opens.
const ROWS_SHOWN: usize = 40;
const MEDIANS: &str = "Medians of the repeats; spread is (highest − lowest) ÷ median. CPU seconds are those of our process for \
     10⁹ bytes.";
/// Errors that fit beside the rest.
const ERRORS: usize = 8;

/// What each stage shows of itself.
fn parts(run: &Run, stage: Stage) -> Vec<Part<'_>> {
    match stage {
        Stage::Memory => memory::parts(run),
        Stage::Load => access::load_parts(run),
        Stage::Network => network::parts(run),
        Stage::Get | Stage::Put => transfer::parts(run),
        Stage::Explain => shares::part(run).into_iter().collect(),
        Stage::Disk | Stage::Path | Stage::Fleet => access::parts(run),
    }
}

/// The host, what was done, and what it is called.
fn title(run: &Run, stage: Stage) -> String {
    let [tool, name] = [&run.made_by(), &run.name].map(|text| printable(text));
    let is_known = run.machine.host.known().is_some() || run.tool.is_empty();
    let host = if is_known { printable(&run.host) } else { "an unknown host".into() };
    let command = run.command();
    match stage {
        Stage::Memory => format!("{tool} on {host}: memory"),
        Stage::Network => format!("{tool} {command} from {host}: {name}"),
        Stage::Load => format!("{tool} {command} on {host}: {name}"),
        _ => format!("{tool} on {host}, {command}: {name}"),
    }
}

/// No line is wider than `width`, but for tables, which have 60 columns; ends with a newline.
pub(super) fn terminal(run: &Run, stage: Stage, width: usize, style: Style) -> String {
    let widest = if matches!(stage, Stage::Memory | Stage::Get | Stage::Put) { 110 } else { 140 };
    let errors = if style.is_screen() { ERRORS } else { usize::MAX };
    document(run, stage, errors).screen(width.clamp(40, widest), style.with_tables_of(60))
}

/// The whole page.
pub(super) fn page(run: &Run, stage: Stage) -> String {
    document(run, stage, usize::MAX).page()
}

fn document(run: &Run, stage: Stage, most_errors: usize) -> Document<'_> {
    let charts = charts::html(&[Named { name: &run.name, run }]);
    let mut all = vec![errors(&run.errors, most_errors), drawn("charts", "Charts", charts)];
    all.extend(parts(run, stage).into_iter().chain(power::part(run)));
    all.extend([findings_of(run, usize::MAX), changes(run)]);
    // Of the machine behind another tool's result nothing is known.
    all.extend(run.tool.is_empty().then(|| machine::part(&run.machine)));
    all.push(left(run));
    Document {
        tab: format!("{}: {} on {} – linerate", run.name, stage, run.host),
        heading: title(run, stage),
        about: vec![run.started.clone()],
        answer: vec![bold(outcome::sentence(run))],
        sheet: charts::SHEET.into(),
        parts: all,
        ..Document::default()
    }
}

/// Files that are still there.
fn changes(run: &Run) -> Part<'_> {
    let changed = run.changes.iter().map(|change| Block::Text(plain(format!("changed: {change}"))));
    let title = "Files that were made and are still there";
    Part { id: "changes", title, late: 1, blocks: changed.collect(), ..Part::default() }
}

/// Where the figures come from.
fn left(run: &Run) -> Part<'_> {
    let sides = run.measurements.iter().filter_map(|m| m.access.as_ref());
    let sides = sides.flat_map(|access| [&access.reads, &access.writes]).flatten();
    let bytes: f64 = sides.map(|side| side.bytes as f64).sum();
    let moved = charts::with_unit(charts::Quantity::Size, bytes);
    let moved = if bytes > 0.0 { format!("{moved} were moved. ") } else { String::new() };
    let again = "The same page from the file alone: `linerate report run.json`; beside other runs: `linerate compare`.";
    let blocks = vec![Block::Text(plain(format!("{moved}{again}")))];
    Part { id: "again", title: "Of this run", on: Media::Page, blocks, ..Part::default() }
}
