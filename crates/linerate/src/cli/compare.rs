//! `linerate compare`: runs read, set side by side, shown as screen, CSV, JSON or page.

use super::arguments::CompareArgs;
use super::output::Output;
use linerate_facts::failure::Failure;
use linerate_facts::printable::printable;
use linerate_fleet::{FleetResult, compare_fleets};
use linerate_measure::run::Run;
use linerate_report::{self as report, Compared, Folder, results};
use std::path::PathBuf;

/// Does the command.
pub(super) fn compare(words: &CompareArgs, output: &Output) -> Result<u8, Failure> {
    // Asked before the files are read, which may be large.
    if words.output.is_some() {
        Folder::check(words.output.as_deref())?;
    }
    if let Some(fleets) = fleets(words)? {
        return compare_two(words, &fleets, output);
    }
    let named = match &words.runs[..] {
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
    let mut runs: Vec<(PathBuf, Run)> = named.into_iter().map(read).collect::<Result<_, Failure>>()?;
    if words.join {
        runs = report::joined(runs);
    }
    if runs.len() < 2 {
        return Err(Failure::Usage(
            "with --join all runs are one, since they have the same name; name them apart with --name when \
             measuring"
                .into(),
        ));
    }
    let comparison = report::compare(&runs)?;
    let compared = Compared { comparison: &comparison, runs: &runs };
    let mut text = if words.csv {
        report::compare_csv(&comparison)
    } else if words.json {
        report::json(&compared)
    } else {
        report::compare_terminal(&comparison, output.width(), output.colour())
    };
    if let Some(place) = &words.output {
        let folder = Folder::begin(Some(place), &compared)?;
        folder.save_report(&compared)?;
        if !words.csv && !words.json {
            text += &format!("saved: {p}/compare.json, {p}/report.html\n", p = folder.path().display());
        }
    }
    output.print(&text)?;
    Ok(0)
}

/// What `linerate fleet` left; none where the words name runs of one host.
fn fleets(words: &CompareArgs) -> Result<Option<[FleetResult; 2]>, Failure> {
    let mut fleets = Vec::new();
    for path in &words.runs {
        fleets.extend(report::fleet::compare::read(path)?);
    }
    if fleets.is_empty() {
        return Ok(None);
    }
    if fleets.len() < words.runs.len() {
        return Err(Failure::usage(
            "a fleet and a run of one host have nothing in common: name two fleets, or runs",
        ));
    }
    if words.join || words.csv {
        return Err(Failure::usage("--join and --csv are for runs of one host: leave them away for fleets"));
    }
    let two = |fleets: Vec<FleetResult>| {
        Failure::usage(format!(
            "{} fleets are named, and two are compared: name the one of before and that of now",
            fleets.len()
        ))
    };
    <[FleetResult; 2]>::try_from(fleets).map(Some).map_err(two)
}

fn compare_two(words: &CompareArgs, fleets: &[FleetResult; 2], output: &Output) -> Result<u8, Failure> {
    let file = |number: usize| words.runs[number].to_string_lossy();
    let (before, after) = (file(0), file(1));
    let comparison = compare_fleets((&before, &fleets[0]), (&after, &fleets[1])).map_err(Failure::usage)?;
    let product = report::fleet::compare::ComparedFleets(&comparison);
    let mut text = match words.json {
        true => report::json(&product),
        false => report::fleet::compare::terminal(&comparison, output.width(), output.colour()),
    };
    if let Some(place) = &words.output {
        let folder = Folder::begin(Some(place), &product)?;
        folder.save_report(&product)?;
        if !words.json {
            text += &format!("saved: {p}/compare.json, {p}/report.html\n", p = folder.path().display());
        }
    }
    output.print(&text)?;
    Ok(0)
}
