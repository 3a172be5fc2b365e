//! `linerate check`: measured briefly or read, held against this host's kept results, said in one line.

use super::arguments::{CheckArgs, FormatArg, LiveArgs, MethodArgs};
use super::output::Output;
use super::run::flow_of;
use super::saving::{Gate, ResultTarget, keep, measured, summary};
use linerate_facts::failure::Failure;
use linerate_facts::printable::{printable, shortened};
use linerate_measure::run::Run;
use linerate_measure::run::conduct::conduct;
use linerate_model::plan::Goal;
use linerate_report::check::{CheckVerdict, HistoryCheck, check as judged};
use linerate_report::results::{self, ResultStore};
use linerate_system::file::{check_writable, folder_of};
use linerate_system::side_file::ReplacingFile;
use std::io::{self, Write};
use std::path::Path;

/// Columns of a host's name, which has 64 letters at most (hostname(7)).
const HOST_COLUMNS: usize = 64;
/// Slower than usual.
const SLOWER: u8 = 4;

/// Does the command.
pub(super) fn check(args: CheckArgs, output: &Output) -> Result<u8, Failure> {
    // A file that cannot be written is said before half a minute of work.
    if let Some(file) = &args.prometheus {
        check_writable(folder_of(file)).map_err(|error| unwritten(file, &error))?;
    }
    let (json, prometheus, gate) = (args.json, args.prometheus.clone(), Gate::open(&args.expect)?);
    let run = match &args.result {
        Some(result) => results::read(result)?,
        None => {
            // Without a place for results there is no history, now or later.
            ResultStore::of_user()
                .map_err(|why| Failure::Lacks(format!("check needs kept results: {why}")))?;
            measure(args, output)?
        }
    };
    let (earlier, elsewhere) = results::read_before(&run)?;
    let found = judged(&run, &earlier, elsewhere);
    if let Some(file) = &prometheus {
        // The collector reads at any time whatever ends in `.prom`, also after a power failure.
        let written = ReplacingFile::beside(file, 0o666).and_then(|mut new| {
            new.file.write_all(found.prometheus_text().as_bytes())?;
            new.file.sync_all()?;
            new.put(file)
        });
        written.map_err(|error| unwritten(file, &error))?;
    }
    if let Some(gate) = gate {
        return expected(&gate, &run, json, output);
    }
    let host = || shortened(&printable(&found.host), HOST_COLUMNS);
    output.show(json, &found, || format!("{}: {}\n", host(), found.sentence))?;
    if let (Some(summary), true) = (summary(&run.errors), json) {
        output.complain(&summary);
    }
    Ok(status(&found))
}

/// Rules in place of what is usual, which is one of them.
fn expected(gate: &Gate, run: &Run, json: bool, output: &Output) -> Result<u8, Failure> {
    let own = u8::from(!run.errors.is_empty());
    if let Some(summary) = summary(&run.errors) {
        output.complain(&summary);
    }
    if !json {
        return gate.finish(&[run], own, true, output);
    }
    let reports = gate.judge(&[run])?;
    reports.iter().try_for_each(|report| output.print_json(report))?;
    gate.status(&reports, own, output)
}

fn status(check: &HistoryCheck) -> u8 {
    match check.verdict {
        CheckVerdict::Slower => SLOWER,
        CheckVerdict::NotJudged => 1,
        _ => 0,
    }
}

fn measure(args: CheckArgs, output: &Output) -> Result<Run, Failure> {
    let (goal, spec) = flow_of(args.ends, MethodArgs::default(), args.protocol, &args.gentle)?;
    let goal = Goal { budget_seconds: args.budget, ..goal };
    let target = ResultTarget {
        folder: None,
        format: if args.json { FormatArg::Json } else { FormatArg::Text },
        keep: false,
        gate: None,
    };
    let (run, _) = measured(target, "check", &LiveArgs::default(), false, output, |context| {
        conduct(context, goal, &spec)
    })?;
    if !args.keeping.no_save {
        keep(&run, output);
    }
    Ok(run)
}

fn unwritten(file: &Path, error: &io::Error) -> Failure {
    Failure::Lacks(format!(
        "--prometheus {}: {error}; name a file in a folder that is there and that you may write",
        file.display()
    ))
}
