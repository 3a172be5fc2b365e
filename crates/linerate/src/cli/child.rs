//! A command that stores on a disk of this host does its work in a child. Threads that wait for a disk that hangs
//! cannot be ended, and the kernel keeps a process until its last thread has gone. So the child reports its exit status
//! once its work is over, and this process, which opens nothing there, ends with that: the kernel has the child
//! for as long as the disk takes.

use super::arguments::Command;
use linerate_model::plan::RunFlow;
use linerate_system::clock;
use linerate_system::process;
use linerate_system::stop::Stop;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::fs::File;
use std::io::{self, PipeReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::sync::OnceLock;
use std::time::Duration;

/// Where a child reports: the number of a pipe, and its parent's.
const VARIABLE: &str = "LINERATE_STATUS_TO";
/// A child that has reported and does not hang is gone within this.
const GOING: Duration = Duration::from_secs(2);
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
        let text = std::env::var(VARIABLE).ok()?;
        let (pipe, parent) = text.split_once(' ')?;
        process::handed_down(pipe.parse().ok()?, parent.parse().ok()?)
    };
    named().is_some_and(|pipe| PARENT.set(pipe).is_ok())
}

fn start() -> io::Result<(Child, PipeReader)> {
    // Before there is a child: none of them may end this process alone.
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let (status, told) = io::pipe()?;
    let pipe = process::hand_down(&told)?;
    let mut child = std::process::Command::new(std::env::current_exe()?);
    child.args(std::env::args_os().skip(1)).env(VARIABLE, format!("{pipe} {}", std::process::id()));
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
    let _ = process::end_of(&mut child, &Stop::new(), clock::now() + GOING);
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
        let (status, told) = io::pipe().expect("a pipe");
        let pipe = process::hand_down(&told).expect("handed down");
        let script = script.replace("PIPE", &pipe.to_string());
        let child = std::process::Command::new("sh").args(["-c", &script]).spawn().expect("a shell");
        (child, status)
    }

    #[test]
    fn a_child_that_hangs_after_its_report_is_left_and_one_without_a_report_waited_for() {
        let (child, status) = shell("printf '\\003' >&PIPE; exec sleep 60");
        let (begun, id) = (Instant::now(), child.id());
        assert_eq!(end_of(child, status), 3);
        assert!((GOING..2 * GOING).contains(&begun.elapsed()), "{:?}", begun.elapsed());
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
