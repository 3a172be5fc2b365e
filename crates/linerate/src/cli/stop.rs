//! Ctrl-C and a polite kill: a stop that the steps wait on, and an end for what cannot wait on it.
//!
//! Before the results have a folder there is nothing to save: what waits there (a peer that does not answer,
//! a name server, a hanging disk) is left after a moment. Later the run saves what it has; only what hangs
//! longer than any patience is cut off.

use super::output::Output;
use linerate_facts::failure::Failure;
use linerate_system::clock;
use linerate_system::lock;
use linerate_system::stop::Stop;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard};
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
        super::child::report(Failure::Interrupted.exit_status());
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
