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
mod document;
mod explain;
mod figure;
mod fio;
mod fleet;
mod flow;
mod folder;
pub mod gate;
pub mod grid;
mod html;
mod job_words;
mod json;
mod machine_facts;
mod map;
mod markup;
mod paper;
mod power;
mod raid;
mod rate_table;
pub mod results;
mod shares;
mod stage;
mod stages;
pub mod tree;
mod verdict;
pub mod wall;
pub mod wall_screens;
mod whole_path;

pub use compare::{
    Comparison, Detail, Difference, Interval, Quantity, Rate, SampleComparison, Sampled, compare, joined,
    page as compare_html, screen as compare_terminal,
};
pub use csv::{compare_csv, csv};
pub use explain::screen as explanation;
pub use fio::json as fio_json;
pub use flow::{FlowReport, MeasuredOn, WhatIfStep, wall_screen as wall_plan};
pub use folder::{Compared, Folder, Product};
pub use grid::NO_SCREEN;
pub use json::{parse, read, without_position, write as json};
use linerate_facts::failure::Failure;
use linerate_measure::measure::Stage;
use linerate_measure::run::Run;
pub use map::{plan_svg, svg as map_svg};
pub use paper::{measured_figure, page as reproduced_html, screen as reproduced};
pub use raid::{checked as raid_check, layout as raid};
pub use rate_table::screens as rates;
pub use stage::file_system_of;

/// The run as one screen, that of the whole path of 29 lines where that is enough, 40 at most, each at most `width` columns wide (40
/// to 110 are laid out; less is taken as 40, more as 110), with ANSI colours where `colour` is true. For
/// [`NO_SCREEN`] all of it, and no line of a table has an end. Ends with a newline.
pub fn terminal(run: &Run, width: usize, colour: bool) -> String {
    if let Some(fleet) = &run.fleet {
        let style = grid::Style::of(width, colour).with_tables_of(60);
        return fleet::document(run, fleet).screen(width.max(40), style);
    }
    match run.stage {
        None => whole_path::screen(run, width, colour),
        Some(stage) => stage::terminal(run, stage, width, grid::Style::of(width, colour)),
    }
}

/// Findings of a machine's map, each with what to do; nothing where there is none. Ends with a newline.
pub fn findings(findings: &[linerate_measure::diagnose::Finding], width: usize, colour: bool) -> String {
    let part = document::findings(findings, usize::MAX);
    let lines = part.lines(width.clamp(40, 120), grid::Style::of(width, colour));
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// The same run without what says whose machine it is: hosts, addresses, folders, users, serial numbers, programs.
pub fn anonymous(run: &Run) -> Result<Run, Failure> {
    let unreadable = |error: serde_json::Error| {
        Failure::Lacks(format!(
            "--anonymous: a name of this machine is a word of the result itself ({error}); it cannot be replaced"
        ))
    };
    if run.fleet.is_some() || run.stage == Some(Stage::Explain) {
        return Err(Failure::usage(
            "--anonymous: a result of fleet is about its hosts, one of explain about its program; without their names it \
             says nothing",
        ));
    }
    let mut value = serde_json::to_value(run).map_err(unreadable)?;
    json::leave_out_programs(&mut value, run);
    linerate_machine::capture::anonymise(&mut value, &run.machine);
    serde_json::to_vec(&value).and_then(|json| serde_json::from_slice(&json)).map_err(unreadable)
}

/// The run as one HTML page that needs nothing else: no network, no file, no script.
pub fn html(run: &Run) -> String {
    if let Some(fleet) = &run.fleet {
        return fleet::document(run, fleet).page();
    }
    match run.stage {
        None => whole_path::page(run),
        Some(stage) => stage::page(run, stage),
    }
}

#[cfg(test)]
mod tests;
