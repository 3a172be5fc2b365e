//! The program, running.

use super::process::{Ends, Running};
use linerate::watch::Moment;
use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};

/// `linerate watch` with these words, nothing on its standard input.
pub fn watch(words: &[&str]) -> Command {
    let mut command = super::linerate();
    command.arg("watch").args(words);
    command
}

/// A watch that prints JSON; ended with the value.
pub struct RunningWatch {
    pub child: Running,
    lines: Lines<BufReader<ChildStdout>>,
}

impl RunningWatch {
    pub fn start(mut command: Command) -> RunningWatch {
        RunningWatch::start_with(command.stdout(Stdio::piped()).spawn().expect("linerate starts"))
    }

    /// The next moment; none at the end.
    pub fn next(&mut self) -> Option<Moment> {
        let line = self.lines.next()?.expect("text");
        Some(serde_json::from_str(&line).expect("a moment"))
    }
}

/// Goes before a command whose rates are multiplied by its intervals: each source has times of its own, and
/// on a busy machine they are as far apart as its threads are late. Nothing where this user has no right to
/// it.
pub fn hurried() -> &'static [&'static str] {
    let may = Command::new("chrt").args(["--fifo", "10", "true"]).stderr(Stdio::null()).status();
    if may.is_ok_and(|status| status.success()) { &["chrt", "--fifo", "10"] } else { &[] }
}

/// What a program printed.
pub fn printed(program: &str, words: &[&str]) -> String {
    let ended = Command::new(program).args(words).env("LC_ALL", "C").ended();
    ended.gives(0);
    ended.stdout
}

impl RunningWatch {
    /// Of a child that was started elsewhere, its output piped.
    pub fn start_with(mut child: Child) -> RunningWatch {
        let out = child.stdout.take().expect("its output");
        RunningWatch { child: Running(child), lines: BufReader::new(out).lines() }
    }

    /// Its next line is `held`.
    pub fn says_held(&mut self) -> bool {
        self.lines.next().is_some_and(|line| line.is_ok_and(|line| line == "held"))
    }
}
