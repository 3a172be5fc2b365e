//! A run from its first figure to its end: saved as it goes where that was asked for, kept among the user's
//! results, printed, and on standard error what failed. The same for the whole path and for one stage.

use super::arguments::{FormatArg, LiveArgs, OutputArgs, PowerArgs, RunArgs};
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

/// Where a run is saved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum SaveTarget<'a> {
    Nowhere,
    /// A new folder, called after the time.
    New,
    Named(&'a Path),
}

/// Where a result goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ResultTarget<'a> {
    pub(super) place: SaveTarget<'a>,
    /// On standard output.
    pub(super) format: FormatArg,
    /// Among the user's results, for `linerate list`.
    pub(super) keep: bool,
}

impl<'a> ResultTarget<'a> {
    /// Of a benchmark.
    pub(super) fn of(args: &'a OutputArgs) -> Self {
        ResultTarget {
            place: args.folder().map_or(SaveTarget::Nowhere, SaveTarget::Named),
            format: args.format(),
            keep: !args.keeping.no_save,
        }
    }

    /// Of `linerate run`, which saves in a new folder where none is named.
    pub(super) fn of_run(args: &'a RunArgs) -> Self {
        let format = args.format.unwrap_or(if args.json { FormatArg::Json } else { FormatArg::Text });
        let place = match &args.output {
            Some(folder) => SaveTarget::Named(folder),
            None if format == FormatArg::Line => SaveTarget::Nowhere,
            None => SaveTarget::New,
        };
        ResultTarget { place, format, keep: !args.keeping.no_save }
    }
}

/// Where the results go.
pub(super) struct Saving<'a> {
    target: ResultTarget<'a>,
    saved: Saved,
    folder: Option<Folder>,
    output: &'a Output,
}

/// Measures this machine with a line of progress or the panel, saves what there is after each figure, and prints.
pub(super) fn conducted(
    target: ResultTarget<'_>,
    command: &'static str,
    live: &LiveArgs,
    power: Option<&PowerArgs>,
    output: &Output,
    conduct: impl FnOnce(RunContext<'_>) -> Result<Run, Failure>,
) -> Result<u8, Failure> {
    let (run, saving) = measured(target, command, live, power, output, conduct)?;
    saving.finish(run)
}

/// The same, without what is printed and kept at the end.
pub(super) fn measured<'a>(
    target: ResultTarget<'a>,
    command: &'static str,
    live: &LiveArgs,
    power: Option<&PowerArgs>,
    output: &'a Output,
    conduct: impl FnOnce(RunContext<'_>) -> Result<Run, Failure>,
) -> Result<(Run, Saving<'a>), Failure> {
    let stop = stop_on_signals()?;
    let mut saving = Saving::begin(target, &stop, output)?;
    let mut progress = Progress::new(command, live, target.format == FormatArg::Text, output);
    let sysroot = &Sysroot::live();
    let run = match power.map(|words| PowerRecorder::start(sysroot, &words.power_command)) {
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
        match target.place {
            SaveTarget::Nowhere => {}
            SaveTarget::New => Folder::check(None)?,
            SaveTarget::Named(folder) => Folder::check(Some(folder))?,
        }
        let saved = Saved::default();
        end_run_that_hangs(stop, &saved, output)?;
        Ok(Saving { target, saved, folder: None, output })
    }

    /// All that is known after each figure; the folder is made with the first.
    pub(super) fn save(&mut self, run: &Run) -> Result<(), Failure> {
        if let Some(folder) = &self.folder {
            return folder.save(run);
        }
        let named = match self.target.place {
            SaveTarget::Nowhere => {
                // From here on Ctrl-C ends with what was measured.
                self.saved.lock().get_or_insert_with(Default::default);
                return Ok(());
            }
            SaveTarget::New => None,
            SaveTarget::Named(folder) => Some(folder),
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
        if self.target.keep {
            keep(&run, self.output);
        }
        match (self.output.print(&self.printed(&run, path.as_deref())), &path) {
            // Saved is saved: a full disk behind standard output takes nothing from it.
            (Err(failure), Some(_)) => run.errors.push(failure.to_string()),
            (printed, _) => printed?,
        }
        // A folder that the user did not name is told, wherever standard output goes.
        if let (false, SaveTarget::New, Some(path)) = (text, self.target.place, &path) {
            self.output.tell(&format!("saved in {path}"));
        }
        // On a terminal the screen has just said it.
        if let (Some(summary), true) = (summary(&run.errors), !text || !std::io::stdout().is_terminal()) {
            self.output.complain(&summary);
        }
        Ok(u8::from(!run.errors.is_empty()))
    }

    fn printed(&self, run: &Run, path: Option<&str>) -> String {
        match self.target.format {
            FormatArg::Json => report::json(run),
            FormatArg::Csv => report::csv(run),
            FormatArg::Line => results::line(run),
            FormatArg::FioJson => report::fio_json(run),
            FormatArg::Text => {
                let saved = path.map(|path| format!("saved: {path}/run.json, {path}/report.html\n"));
                report::terminal(run, self.output.width(), self.output.colour()) + &saved.unwrap_or_default()
            }
        }
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

/// For `linerate list`, where anything was measured. What stands in the way takes nothing from the result: it is
/// a warning, and the exit status stays what it is.
pub(super) fn keep(run: &Run, output: &Output) {
    if run.measurements.is_empty() {
        return;
    }
    if let Err(why) = ResultStore::of_user().and_then(|store| store.keep(run)) {
        output
            .complain(&format!("the result is not kept for `linerate list`: {why}; --no-save does without"));
    }
}
