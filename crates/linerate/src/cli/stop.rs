//! How a command ends in time. On Ctrl-C and a polite kill: a stop that the steps wait on, and an end for what
//! cannot wait on it.
//!
//! Before the results have a folder there is nothing to save: what waits there (a peer that does not answer, a
//! name server, a hanging disk) is left after a moment. Later the run saves what it has; only what hangs
//! longer than any patience is cut off.
//!
//! A command that stores on a disk of this host does its work in a child. Threads that wait for a disk that
//! hangs cannot be ended, and the kernel keeps a process until its last thread has gone. So the child reports
//! its exit status once its work is over, and this process, which opens nothing there, ends with that: the
//! kernel has the child for as long as the disk takes.

use super::arguments::Command;
use super::output::Output;
use linerate_facts::failure::Failure;
use linerate_model::plan::RunFlow;
use linerate_system::stop::Stop;
use linerate_system::{clock, lock, process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;
use std::fs::File;
use std::io::{self, PipeReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

/// The steps before the first result get this long to end by themselves.
const BEFORE: Duration = Duration::from_millis(500);
/// The measuring gets this long to end its workers and to save; beyond it, something hangs in the kernel.
const AFTER: Duration = Duration::from_secs(5);

/// Ended by Ctrl-C and by a polite kill.
pub(super) fn stop_on_signals() -> Result<Arc<Stop>, Failure> {
    let stop = Arc::new(Stop::new());
    let uncaught = |error| Failure::Lacks(format!("signals cannot be caught: {error}"));
    stop.end_at_signals(&[SIGINT, SIGTERM, SIGHUP]).map_err(uncaught)?;
    // Caught, so that a file beyond `ulimit -f` is an error of the write (setrlimit(2)) and not our death.
    signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false))).map_err(uncaught)?;
    Ok(stop)
}

/// Where the results are, once there are any; shared with the thread that ends what hangs.
#[derive(Clone, Debug, Default)]
pub(super) struct Saved(Arc<Mutex<Option<PathBuf>>>);

impl Saved {
    /// Held while the folder is made: so either the run ends before there is one, or it is known.
    pub(super) fn lock(&self) -> MutexGuard<'_, Option<PathBuf>> {
        lock(&self.0)
    }
}

/// Ends the process if it does not end by itself within `patience` after `stop`; `last` is done before.
pub(super) fn end_what_hangs(
    stop: &Arc<Stop>,
    patience: Duration,
    output: &Output,
    last: impl FnOnce(&Output) + Send + 'static,
) -> Result<(), Failure> {
    let (stop, output) = (Arc::clone(stop), output.clone());
    let watch = move || {
        stop.wait_ended();
        // It has ended: no stop ends this sleep, but the process may end before it.
        clock::sleep(patience);
        last(&output);
        std::process::exit(i32::from(Failure::Interrupted.exit_status()));
    };
    let started = std::thread::Builder::new().name("stop".into()).spawn(watch);
    started.map(drop).map_err(|error| Failure::Lacks(format!("no thread to watch for Ctrl-C: {error}")))
}

/// The same of a run. What it makes besides its results ends with the process: scratch files have no name, and a
/// built-in receiver ends with its standard input. Only a trace of drops would stay in the kernel.
pub(super) fn end_run_that_hangs(stop: &Arc<Stop>, saved: &Saved, output: &Output) -> Result<(), Failure> {
    let saved = saved.clone();
    end_what_hangs(stop, BEFORE, output, move |output| {
        let mut folder = saved.lock();
        if folder.is_some() {
            drop(folder);
            clock::sleep(AFTER - BEFORE);
            folder = saved.lock();
        }
        output.complain(&interrupted(folder.as_deref()));
        linerate_system::drop_trace::remove_all();
        report(Failure::Interrupted.exit_status());
        // With the lock held: no folder is made any more.
        std::process::exit(i32::from(Failure::Interrupted.exit_status()));
    })
}

fn interrupted(folder: Option<&Path>) -> String {
    match folder {
        Some(folder) if folder.as_os_str().is_empty() => {
            "interrupted, and something hangs: what was measured before is lost".into()
        }
        Some(folder) => format!(
            "interrupted, and something hangs: what was measured before is in {}",
            folder.join("run.json").display()
        ),
        None => Failure::Interrupted.to_string(),
    }
}

/// Where a child reports: the number of a pipe, and its parent's.
const STATUS_VARIABLE: &str = "LINERATE_STATUS_TO";
/// A child that has reported and does not hang is gone within this.
const CHILD_END: Duration = Duration::from_secs(2);
/// What a shell adds to the number of a signal that ended a program.
const BY_SIGNAL: u8 = 128;

static PARENT: OnceLock<File> = OnceLock::new();

/// Has a child do the command; its exit status. None: this process does it itself.
pub(super) fn done_in_child(command: &Command) -> Option<u8> {
    if !stores(command) || is_child() {
        return None;
    }
    // Without /proc, or without room for one process more, it is done here.
    let (child, status) = start().ok()?;
    Some(end_of(child, status))
}

/// Tells the process that waits, where there is one, how this one ends. What was to be printed is: whoever reads that
/// does not wait for the kernel either.
pub(super) fn report(status: u8) {
    if let Some(mut parent) = PARENT.get() {
        // Without /dev/null they stay open; a parent that is gone need not know.
        let _ = process::leave_streams();
        let _ = parent.write_all(&[status]);
    }
}

fn stores(command: &Command) -> bool {
    matches!(command, Command::Run(words) if words.run_flow == RunFlow::NetworkToDisk)
}

fn is_child() -> bool {
    let named = || {
        let text = std::env::var(STATUS_VARIABLE).ok()?;
        let (pipe, parent) = text.split_once(' ')?;
        process::handed_down(pipe.parse().ok()?, parent.parse().ok()?)
    };
    named().is_some_and(|pipe| PARENT.set(pipe).is_ok())
}

fn start() -> io::Result<(Child, PipeReader)> {
    // Before there is a child: none of them may end this process alone.
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let (status, report) = io::pipe()?;
    let pipe = process::hand_down(&report)?;
    let mut child = std::process::Command::new(std::env::current_exe()?);
    child.args(std::env::args_os().skip(1)).env(STATUS_VARIABLE, format!("{pipe} {}", std::process::id()));
    let child = child.spawn()?;
    let id = child.id();
    let pass_on = move || signals.forever().for_each(|signal| process::signal(id, signal));
    std::thread::Builder::new().name("signals".into()).spawn(pass_on)?;
    Ok((child, status))
}

/// Waits for what the child reports, or for its end.
fn end_of(mut child: Child, mut status: PipeReader) -> u8 {
    let mut reported = [0];
    if status.read_exact(&mut reported).is_err() {
        return child.wait().map_or(1, of_ended);
    }
    // Its work is over: no stop shortens this.
    let _ = process::end_of(&mut child, &Stop::new(), clock::now() + CHILD_END);
    reported[0]
}

fn of_ended(status: ExitStatus) -> u8 {
    let signal = || status.signal().map(|signal| BY_SIGNAL.saturating_add(u8::try_from(signal).unwrap_or(0)));
    status.code().and_then(|code| u8::try_from(code).ok()).or_else(signal).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn shell(script: &str) -> (Child, PipeReader) {
        let (status, report) = io::pipe().expect("a pipe");
        let pipe = process::hand_down(&report).expect("handed down");
        let script = script.replace("PIPE", &pipe.to_string());
        let child = std::process::Command::new("sh").args(["-c", &script]).spawn().expect("a shell");
        (child, status)
    }

    #[test]
    fn a_child_that_hangs_after_its_report_is_left_and_one_without_a_report_waited_for() {
        let (child, status) = shell("printf '\\003' >&PIPE; exec sleep 60");
        let (begun, id) = (Instant::now(), child.id());
        assert_eq!(end_of(child, status), 3);
        assert!((CHILD_END..2 * CHILD_END).contains(&begun.elapsed()), "{:?}", begun.elapsed());
        process::signal(id, SIGTERM);
        let ended = |script| {
            let (child, status) = shell(script);
            end_of(child, status)
        };
        assert_eq!(ended("printf '\\001' >&PIPE; exit 7"), 1);
        assert_eq!(ended("exec PIPE>&-; sleep 0.1; exit 7"), 7);
        assert_eq!(ended("kill -9 $$"), 128 + 9);
    }
}
