//! `linerate compare`: runs read, set side by side, shown as screen, CSV, JSON or page.

use super::arguments::CompareArgs;
use super::gate::Gate;
use super::output::Output;
use linerate_facts::failure::Failure;
use linerate_facts::printable::printable;
use linerate_measure::run::Run;
use linerate_measure::run::fleet::FleetPattern;
use linerate_report::{self as report, Compared, Folder, results};
use std::path::PathBuf;

/// What rules call the run that the others are compared with.
const FIRST: &str = "first";

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
    let gate = Gate::beside(&args.expect, vec![(PathBuf::from(FIRST), runs[0].1.clone())])?;
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
