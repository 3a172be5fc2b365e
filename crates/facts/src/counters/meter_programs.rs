//! Meters that a program reads: IPMI's (`ipmitool dcmi power reading`) and whatever `LINERATE_POWER_COMMAND` names.

use crate::sysroot::Sysroot;
use linerate_system::clock::{self, POLL_INTERVAL};
use linerate_system::lock;
use linerate_system::process::kill_group;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// A program that takes longer is ended.
const LIMIT: Duration = Duration::from_secs(10);
/// A figure is short; a program that prints a book has it cut.
const LONGEST_BYTES: u64 = 64 << 10;

/// A program's watts, with the time.
pub type TimedWatts = (Instant, Result<f64, ProgramError>);

/// Why a program gave no watts: its name, and what it did instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{program} {why}")]
pub struct ProgramError {
    program: &'static str,
    why: String,
}

/// The program that runs now, so that it can be ended with the watch.
#[derive(Clone, Debug, Default)]
pub struct Program(Arc<Mutex<Option<Child>>>);

impl Program {
    fn lock(&self) -> MutexGuard<'_, Option<Child>> {
        lock(&self.0)
    }

    /// Ends it, with all that it started.
    pub fn end(&self) {
        if let Some(mut child) = self.lock().take() {
            kill_group(child.id());
            let _ = child.wait();
        }
    }

    /// What it printed; the error is a phrase.
    fn run(&self, command: &mut Command) -> Result<String, String> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
        let child = command.spawn().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => "is not installed".to_string(),
            _ => format!("cannot be started: {error}"),
        })?;
        *self.lock() = Some(child);
        let started = clock::now();
        loop {
            let mut running = self.lock();
            let Some(child) = running.as_mut() else { return Err("was ended".into()) };
            match child.try_wait() {
                Ok(Some(status)) => {
                    let out = child.stdout.take();
                    *running = None;
                    let mut text = Vec::new();
                    // A child of its own that still holds the pipe keeps this source waiting, and no other.
                    if let Some(out) = out.filter(|_| status.success()) {
                        let _ = out.take(LONGEST_BYTES).read_to_end(&mut text);
                    }
                    return match status.success() {
                        true => Ok(String::from_utf8_lossy(&text).into_owned()),
                        false => Err(format!("failed ({status})")),
                    };
                }
                Ok(None) => {}
                Err(error) => return Err(format!("is lost: {error}")),
            }
            drop(running);
            if clock::since(started) > LIMIT {
                self.end();
                return Err(format!("took longer than {} s and was ended", LIMIT.as_secs()));
            }
            clock::sleep(POLL_INTERVAL);
        }
    }
}

/// Asks the management controller, where the kernel has a way to it and `ipmitool` is there; none where there
/// is no controller.
pub fn ipmi(sysroot: &Sysroot, program: &Program) -> impl FnMut() -> Option<TimedWatts> + Send + 'static {
    let (sysroot, program) = (sysroot.clone(), program.clone());
    move || {
        if !sysroot.is_live() || sysroot.list("/sys/class/ipmi").is_empty() {
            return None;
        }
        let read = program.run(Command::new("ipmitool").args(["dcmi", "power", "reading"]));
        let watts = read.and_then(|text| parse_ipmi(&text).ok_or_else(|| "reports no power".to_string()));
        Some((clock::now(), watts.map_err(|why| ProgramError { program: "ipmitool", why })))
    }
}

/// Runs the user's command with `sh -c`; the first number that it prints is watts.
pub fn power_command(command: &str, program: &Program) -> impl FnMut() -> TimedWatts + Send + 'static {
    let (command, program) = (command.to_string(), program.clone());
    move || {
        let read = program.run(Command::new("sh").args(["-c", &command]));
        let watts =
            read.and_then(|text| parse_watts(&text).ok_or_else(|| "printed no number of watts".to_string()));
        (clock::now(), watts.map_err(|why| ProgramError { program: "the power command", why }))
    }
}

/// `    Instantaneous power reading:                   220 Watts`.
fn parse_ipmi(text: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.trim_start().starts_with("Instantaneous power reading"))?;
    parse_watts(line.split_once(':')?.1)
}

/// The first word that is a number, with or without its unit (`231.5`, `231.5W`). Below 1 MW: more is not
/// what was meant.
fn parse_watts(text: &str) -> Option<f64> {
    let number = |word: &str| {
        let word = word.strip_suffix("Watts").or(word.strip_suffix(['W', 'w'])).unwrap_or(word);
        word.parse::<f64>().ok()
    };
    text.split_ascii_whitespace().find_map(number).filter(|watts| (0.0..1e6).contains(watts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_with_watts() {
        assert_eq!(
            parse_ipmi(
                "\n    Instantaneous power reading:                   220 Watts\n    Minimum: 1 Watts"
            ),
            Some(220.0)
        );
        assert_eq!(parse_ipmi("Power reading state is: deactivated"), None);
        assert_eq!(
            (parse_watts("power 231.5W now"), parse_watts("-3"), parse_watts("nan inf")),
            (Some(231.5), None, None)
        );
    }

    #[test]
    fn a_command_is_run_fails_or_hangs() {
        let program = Program::default();
        let run = |command: &str| power_command(command, &program)().1;
        assert_eq!(run("echo 12.5"), Ok(12.5));
        let failed = |why: &str| ProgramError { program: "the power command", why: why.into() };
        assert_eq!(run("echo none"), Err(failed("printed no number of watts")));
        assert!(run("exit 3").is_err_and(|error| error.why.starts_with("failed")));
        let ending = program.clone();
        let waiter = std::thread::spawn(move || {
            while ending.lock().is_none() {
                std::thread::yield_now();
            }
            ending.end();
        });
        assert!(run("sleep 60").is_err());
        waiter.join().expect("the end");
    }

    proptest! {
        #[test]
        fn any_text_is_watts_or_none(text in "[0-9a-zW:.eé -]{0,40}") {
            prop_assert!(parse_watts(&text).is_none_or(|watts| (0.0..1e6).contains(&watts)));
            let _ = parse_ipmi(&text);
        }
    }
}
