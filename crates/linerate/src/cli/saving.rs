//! A run from its first figure to its end: saved as it goes where that was asked for, kept among the user's
//! results, printed, and on standard error what failed. The same for the whole path and for one stage.
//!
//! The rules of `--expect` are read before anything is measured, and the result is held to them once it is
//! kept and printed.

use super::arguments::{ExpectArgs, FormatArg, LiveArgs, OutputArgs, power_commands};
use super::output::Output;
use super::progress::Progress;
use super::stop::{Saved, end_run_that_hangs, stop_on_signals};
use linerate_facts::counters::power::PowerRecorder;
use linerate_facts::failure::Failure;
use linerate_facts::sysroot::Sysroot;
use linerate_measure::run::power::PowerListener;
use linerate_measure::run::{Run, RunContext, Save};
use linerate_report as report;
use linerate_report::Folder;
use linerate_report::gate::{Expectations, GateReport, History, judge, junit_page};
use linerate_report::results::{self, ResultStore};
use linerate_system::file::{check_writable, folder_of};
use linerate_system::side_file::replace_whole;
use linerate_system::stop::Stop;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a result goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResultTarget<'a> {
    /// Folder for a copy that is saved as it goes, and for the page.
    pub(super) folder: Option<&'a Path>,
    /// On standard output.
    pub(super) format: FormatArg,
    /// Among the user's results, for `linerate list`.
    pub(super) keep: bool,
    /// What it has to hold to.
    pub(super) gate: Option<&'a Gate>,
}

impl<'a> ResultTarget<'a> {
    /// Of a benchmark.
    pub(super) fn of(args: &'a OutputArgs, gate: &'a Option<Gate>) -> Self {
        ResultTarget {
            folder: args.output.as_deref(),
            format: args.format(),
            keep: !args.keeping.no_save,
            gate: gate.as_ref(),
        }
    }
}

/// Where the results go.
pub(super) struct Saving<'a> {
    target: ResultTarget<'a>,
    saved: Saved,
    folder: Option<Folder>,
    output: &'a Output,
}

/// Measures this machine with a line of progress or the panel, `with_power` also what it draws, saves what there is after each figure, and prints.
pub(super) fn conducted(
    target: ResultTarget<'_>,
    command: &'static str,
    live: &LiveArgs,
    with_power: bool,
    output: &Output,
    conduct: impl FnOnce(RunContext<'_>) -> Result<Run, Failure>,
) -> Result<u8, Failure> {
    let (run, saving) = measured(target, command, live, with_power, output, conduct)?;
    saving.finish(run)
}

/// The same, without what is printed and kept at the end.
pub(super) fn measured<'a>(
    target: ResultTarget<'a>,
    command: &'static str,
    live: &LiveArgs,
    with_power: bool,
    output: &'a Output,
    conduct: impl FnOnce(RunContext<'_>) -> Result<Run, Failure>,
) -> Result<(Run, Saving<'a>), Failure> {
    let stop = stop_on_signals()?;
    let mut saving = Saving::begin(target, &stop, output)?;
    let mut progress = Progress::new(command, live, target.format == FormatArg::Text, output);
    let sysroot = &Sysroot::live();
    let run = match with_power.then(|| PowerRecorder::start(sysroot, &power_commands())) {
        Some(Ok(recorder)) => {
            let mut listener = PowerListener::begin(&mut progress, recorder, &stop);
            let save: Save<'_> = &mut |run| saving.save(run);
            let run = conduct(RunContext { sysroot, stop: &stop, listener: &mut listener, save });
            let drawn = listener.product();
            run.map(|run| {
                let mut run = Run { power: Some(drawn), ..run };
                let unsaved = saving.save(&run).err().map(|failure| failure.to_string());
                run.errors.extend(unsaved.filter(|why| !run.errors.contains(why)));
                run
            })
        }
        _ => {
            let save: Save<'_> = &mut |run| saving.save(run);
            conduct(RunContext { sysroot, stop: &stop, listener: &mut progress, save })
        }
    };
    progress.finish();
    Ok((run?, saving))
}

impl<'a> Saving<'a> {
    /// Refuses a folder that cannot be written, before anything is measured (the folder itself is made with
    /// the first result, minutes later where disks are slow); from now on a Ctrl-C ends what hangs.
    pub(super) fn begin(
        target: ResultTarget<'a>,
        stop: &Arc<Stop>,
        output: &'a Output,
    ) -> Result<Self, Failure> {
        target.folder.map(Folder::check).transpose()?;
        let saved = Saved::default();
        end_run_that_hangs(stop, &saved, output)?;
        Ok(Saving { target, saved, folder: None, output })
    }

    /// All that is known after each figure; the folder is made with the first.
    pub(super) fn save(&mut self, run: &Run) -> Result<(), Failure> {
        if let Some(folder) = &self.folder {
            return folder.save(run);
        }
        let Some(named) = self.target.folder else {
            // From here on Ctrl-C ends with what was measured.
            self.saved.lock().get_or_insert_with(Default::default);
            return Ok(());
        };
        let mut place = self.saved.lock();
        let new = Folder::begin(named, run)?;
        *place = Some(new.path().to_path_buf());
        self.folder = Some(new);
        Ok(())
    }

    /// The page beside it, the result kept and on standard output, in a sentence on standard error what failed;
    /// the exit status.
    pub(super) fn finish(self, mut run: Run) -> Result<u8, Failure> {
        let folder = self.folder.as_ref();
        let page = folder.map(|folder| folder.save_report(&run));
        let saved = folder.filter(|_| matches!(page, Some(Ok(()))));
        let path = saved.map(|folder| folder.path().display().to_string());
        run.errors.extend(page.and_then(Result::err).map(|failure| failure.to_string()));
        let text = self.target.format == FormatArg::Text;
        let number = if self.target.keep { keep(&run, self.output) } else { None };
        let opened = match (&path, number) {
            (Some(path), _) => Some(format!("saved: {path}/run.json, {path}/report.html\n")),
            (None, number) => number.map(opens),
        };
        let shown =
            printed(&run, self.target.format, self.output) + &opened.filter(|_| text).unwrap_or_default();
        match (self.output.print(&shown), &path) {
            // Saved is saved: a full disk behind standard output takes nothing from it.
            (Err(failure), Some(_)) => run.errors.push(failure.to_string()),
            (printed, _) => printed?,
        }
        // On a terminal the screen has just said it.
        if let (Some(summary), true) = (summary(&run.errors), !text || !std::io::stdout().is_terminal()) {
            self.output.complain(&summary);
        }
        let status = u8::from(!run.errors.is_empty());
        match self.target.gate {
            Some(gate) => {
                let text = matches!(self.target.format, FormatArg::Text | FormatArg::Line);
                gate.finish(&[&run], status, text, self.output)
            }
            None => Ok(status),
        }
    }
}

/// A result as it goes to standard output.
pub(super) fn printed(run: &Run, format: FormatArg, output: &Output) -> String {
    match format {
        FormatArg::Text => report::terminal(run, output.width(), output.colour()),
        FormatArg::Json => report::json(run),
        FormatArg::Csv => report::csv(run),
        FormatArg::Line => results::line(run),
        FormatArg::FioJson => report::fio_json(run),
    }
}

/// One sentence for all that failed: the first, which is mostly the cause of the others; none where nothing
/// failed.
pub(super) fn summary(errors: &[String]) -> Option<String> {
    let (first, others) = errors.split_first()?;
    Some(match others.len() {
        0 => first.clone(),
        more => format!("{first} (and {more} more; run.json has them under “errors”)"),
    })
}

/// For `linerate list`, where anything was measured: its number. What stands in the way takes nothing from the result:
/// it is a warning, and the exit status stays what it is.
pub(super) fn keep(run: &Run, output: &Output) -> Option<u64> {
    if run.measurements.is_empty() {
        return None;
    }
    let stored = ResultStore::of_user().and_then(|store| store.keep(run));
    if let Err(why) = &stored {
        output
            .complain(&format!("the result is not kept for `linerate list`: {why}; --no-save does without"));
    }
    stored.ok()
}

/// The last line of a screen: what shows the kept result as a page.
fn opens(number: u64) -> String {
    format!("kept; its page: linerate report @{number} --html report.html\n")
}

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
    replace_whole(file, page.as_bytes()).map_err(|error| unwritten(file, &error))
}

fn unwritten(file: &Path, error: &io::Error) -> Failure {
    Failure::Lacks(format!(
        "--junit {}: {error}; name a file in a folder that is there, has room, and that you may write",
        file.display()
    ))
}
