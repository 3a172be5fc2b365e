//! A run from its first figure to its end: saved as it goes where that was asked for, kept among the user's
//! results, printed, and on standard error what failed. The same for the whole path and for one stage.

use super::arguments::{FormatArg, LiveArgs, OutputArgs};
use super::environment::power_commands;
use super::gate::Gate;
use super::output::Output;
use super::progress::Progress;
use super::stop::{Saved, end_run_that_hangs, stop_on_signals};
use linerate_facts::counters::power::PowerRecorder;
use linerate_facts::failure::Failure;
use linerate_facts::sysroot::Sysroot;
use linerate_measure::run::power::PowerListener;
use linerate_measure::run::{Run, RunContext, Save};
use linerate_report::results::{self, ResultStore};
use linerate_report::{self as report, Folder};
use linerate_system::stop::Stop;
use std::io::IsTerminal;
use std::path::Path;
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
            run.and_then(|run| {
                let run = Run { power: Some(drawn), ..run };
                saving.save(&run).map(|()| run)
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
        run.errors.extend(page.and_then(Result::err).map(|failure| failure.to_string()));
        let path = folder.map(|folder| folder.path().display().to_string());
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
