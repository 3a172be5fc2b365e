//! `--expect`: rules are read before anything is measured, and the result is held to them once it is kept and printed.

use super::arguments::ExpectArgs;
use super::output::Output;
use linerate_facts::failure::Failure;
use linerate_measure::run::Run;
use linerate_report::gate::{Expectations, GateReport, History, judge, junit_page};
use linerate_report::results;
use linerate_system::file::{check_writable, folder_of};
use linerate_system::side_file::ReplacingFile;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The result of a command that lacks something.
const PARTIAL: u8 = 1;

/// What results of a command have to hold to.
#[derive(Clone, Debug)]
pub(super) struct Gate {
    expected: Expectations,
    junit: Option<PathBuf>,
}

impl Gate {
    /// None where nothing is expected. Refuses wrong rules, and a file that cannot be written, before any work.
    pub(super) fn open(args: &ExpectArgs) -> Result<Option<Self>, Failure> {
        Gate::beside(args, Vec::new())
    }

    /// The same with results that rules may name.
    pub(super) fn beside(args: &ExpectArgs, named: Vec<(PathBuf, Run)>) -> Result<Option<Self>, Failure> {
        if args.expect.is_empty() {
            return Ok(None);
        }
        let expected = Expectations::read(&args.expect, named)?;
        if let Some(file) = &args.junit {
            check_writable(folder_of(file)).map_err(|error| unwritten(file, &error))?;
        }
        Ok(Some(Gate { expected, junit: args.junit.clone() }))
    }

    /// Holds results to the rules.
    pub(super) fn judge(&self, runs: &[&Run]) -> Result<Vec<GateReport>, Failure> {
        let judged = |run: &&Run| -> Result<GateReport, Failure> {
            let history = match self.expected.need_history() {
                true => results::read_before(run)?,
                false => History::default(),
            };
            Ok(judge(run, &self.expected, &history))
        };
        runs.iter().map(judged).collect()
    }

    /// A line a rule, on standard output where that is text, else on standard error; the file for a CI. The exit
    /// status, `own` being the command's: what failed comes first. A file that cannot be written takes nothing from the
    /// rest.
    pub(super) fn finish(&self, runs: &[&Run], own: u8, text: bool, output: &Output) -> Result<u8, Failure> {
        let reports = self.judge(runs)?;
        for report in &reports {
            match text {
                true => output.print(&report.screen(output.width()))?,
                false => report.screen(linerate_report::NO_SCREEN).lines().for_each(|line| output.tell(line)),
            }
        }
        self.status(&reports, own, output)
    }

    /// Writes the file for a CI; the exit status.
    pub(super) fn status(&self, reports: &[GateReport], own: u8, output: &Output) -> Result<u8, Failure> {
        let written = self.junit.as_deref().map(|file| write(file, &junit_page(reports)));
        let failure = written.and_then(Result::err);
        failure.iter().for_each(|failure| output.complain(&failure.to_string()));
        let worst = reports.iter().map(|report| report.outcome).max();
        Ok(match worst.map_or(0, |outcome| outcome.exit_status()) {
            0 if failure.is_some() => own.max(PARTIAL),
            0 => own,
            status => status,
        })
    }
}

fn write(file: &Path, page: &str) -> Result<(), Failure> {
    let written = ReplacingFile::beside(file, 0o666).and_then(|mut new| {
        new.file.write_all(page.as_bytes())?;
        new.put(file)
    });
    written.map_err(|error| unwritten(file, &error))
}

fn unwritten(file: &Path, error: &io::Error) -> Failure {
    Failure::Lacks(format!(
        "--junit {}: {error}; name a file in a folder that is there, has room, and that you may write",
        file.display()
    ))
}
