//! Results that are there: `linerate list` has the kept ones, one below the other; `linerate report` judges
//! one again and shows it, for others without what says whose it is; `linerate compare` sets several side by
//! side.

use super::arguments::{CompareArgs, FormatArg, ListArgs, ReportArgs};
use super::output::Output;
use super::saving::{Gate, printed};
use linerate_facts::failure::Failure;
use linerate_facts::printable::printable;
use linerate_measure::run::Run;
use linerate_measure::run::fleet::FleetPattern;
use linerate_report as report;
use linerate_report::results::{self, ResultList};
use linerate_report::{Compared, Folder, gate};
use std::path::{Path, PathBuf};

/// Prints them.
pub(super) fn list(args: &ListArgs, output: &Output) -> Result<u8, Failure> {
    let list = match &args.folder {
        Some(folder) => of_folder(folder, args.all)?,
        None => ResultList::read(args.all)
            .map_err(|why| Failure::Lacks(format!("kept results cannot be read: {why}")))?,
    };
    output.print(&if args.json { list.json() } else { list.screen(output.width(), output.colour()) })?;
    Ok(0)
}

fn of_folder(folder: &Path, transfers: bool) -> Result<ResultList, Failure> {
    ResultList::of_folder(folder, transfers).map_err(|why| {
        Failure::Lacks(format!(
            "{}: {why}; name a folder that holds results, or nothing for the kept ones",
            folder.display()
        ))
    })
}

/// Does the command.
pub(super) fn show_report(args: &ReportArgs, output: &Output) -> Result<u8, Failure> {
    let mut run = results::read(&args.run)?;
    if let Some(diagnosis) = run.diagnose() {
        run.diagnosis = Some(diagnosis);
    }
    let run = if args.anonymous { report::anonymous(&run)? } else { run };
    if args.expectations {
        output.print(&gate::expectations_of_result(&run))?;
        return Ok(0);
    }
    let format = args.format.unwrap_or(if args.json { FormatArg::Json } else { FormatArg::Text });
    match &args.html {
        Some(file) => write_page(file, &report::html(&run))?,
        None => output.print(&printed(&run, format, output))?,
    }
    Ok(0)
}

pub(super) fn write_page(path: &Path, page: &str) -> Result<(), Failure> {
    std::fs::write(path, page).map_err(|error| {
        Failure::Lacks(format!(
            "{} could not be written: {error}; name a file in a folder that you may write",
            path.display()
        ))
    })
}

/// What rules call the run that the others are compared with.
const FIRST_RUN: &str = "first";

/// Does the command.
pub(super) fn compare(args: &CompareArgs, output: &Output) -> Result<u8, Failure> {
    // Asked before the files are read, which may be large.
    args.output.as_deref().map(Folder::check).transpose()?;
    let named = match &args.runs[..] {
        [] => results::newest_two()?.to_vec(),
        [one] => {
            let one = printable(&one.to_string_lossy());
            return Err(Failure::Usage(format!(
                "{one} alone: name what to compare it with, or nothing for the newest two of one command and goal"
            )));
        }
        several => several.to_vec(),
    };
    let read = |path: PathBuf| results::read(&path).map(|run| (path, run));
    let mut runs = named.into_iter().map(read).collect::<Result<Vec<_>, Failure>>()?;
    refuse_unlike(&runs)?;
    if args.join {
        runs = report::joined(runs);
    }
    if runs.len() < 2 {
        return Err(Failure::Usage(
            "with --join all runs are one, since they have the same name; name them apart with --name when \
             measuring"
                .into(),
        ));
    }
    let gate = Gate::beside(&args.expect, vec![(PathBuf::from(FIRST_RUN), runs[0].1.clone())])?;
    let comparison = report::compare(&runs)?;
    let compared = Compared { comparison: &comparison, runs: &runs };
    let mut text = if args.csv {
        report::compare_csv(&comparison)
    } else if args.json {
        report::json(&compared)
    } else {
        report::compare_terminal(&comparison, output.width(), output.colour())
    };
    if let Some(place) = &args.output {
        let folder = Folder::begin(place, &compared)?;
        folder.save_report(&compared)?;
        if !args.csv && !args.json {
            text += &format!("saved: {p}/compare.json, {p}/report.html\n", p = folder.path().display());
        }
    }
    output.print(&text)?;
    match gate {
        Some(gate) => {
            let later: Vec<&Run> = runs[1..].iter().map(|(_, run)| run).collect();
            gate.finish(&later, 0, !args.csv && !args.json, output)
        }
        None => Ok(0),
    }
}

/// A fleet can be compared with another one of its pattern.
fn refuse_unlike(runs: &[(PathBuf, Run)]) -> Result<(), Failure> {
    let patterns = runs.iter().map(|(_, run)| run.fleet.as_ref().map(|fleet| fleet.pattern));
    let mut patterns: Vec<Option<FleetPattern>> = patterns.collect();
    patterns.dedup();
    match patterns[..] {
        [Some(one), Some(other), ..] => Err(Failure::usage(format!(
            "one fleet measured {} and the other {}: only the same pattern can be compared",
            one.name(),
            other.name()
        ))),
        [_] | [] => Ok(()),
        _ => Err(Failure::usage(
            "a fleet and a run of one host have nothing in common: name fleets alone, or runs",
        )),
    }
}
