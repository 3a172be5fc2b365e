//! What a user sees on standard error while linerate works. On a terminal: the panel of the watch below the lines of what was measured, or one
//! plain line where there is no room for it or it is not wanted. Elsewhere: nothing, and nothing is started for it.

mod live;
mod plain;

use super::words::LiveWords;
use crate::event::{Event, Listener};
use crate::measure::{Measurement, Stage};
use crate::report::printable;
use crate::units::{show_bits_rate, show_bytes_rate};
use crate::watch::terminal;
use live::Live;
pub use live::{Beside, aside};
use plain::Plain;
use std::io::IsTerminal;

/// Shows what happens on a terminal; elsewhere it is silent.
#[derive(Debug)]
pub enum Progress {
    Live(Live),
    Plain(Plain),
}

impl Progress {
    /// The panel of `command` where standard error is a terminal with room for it.
    pub fn new(command: &'static str, words: &LiveWords) -> Self {
        let wanted = !words.no_live && std::io::stderr().is_terminal() && is_capable();
        match wanted.then(|| Live::start(command)).flatten() {
            Some(live) => Progress::Live(live),
            None => Progress::plain(),
        }
    }

    /// The line alone: nothing is sampled beside what is measured.
    pub fn plain() -> Self {
        Progress::Plain(Plain::new())
    }

    /// Removes it.
    pub fn finish(&mut self) {
        match self {
            Progress::Live(live) => live.finish(),
            Progress::Plain(plain) => plain.finish(),
        }
    }
}

impl Listener for Progress {
    fn hear(&mut self, event: &Event) {
        match self {
            Progress::Live(live) => live.hear(event),
            Progress::Plain(plain) => plain.hear(event),
        }
    }
}

/// The terminal understands where lines go, and has room for them.
fn is_capable() -> bool {
    let dumb = std::env::var("TERM").is_ok_and(|term| term == "dumb" || term.is_empty());
    let (columns, rows) = terminal::smallest();
    let size = terminal_size::terminal_size_of(std::io::stderr());
    !dumb && size.is_some_and(|(width, height)| width.0 >= columns && height.0 >= rows)
}

fn rate(stage: Stage, bytes_per_second: f64) -> String {
    match stage {
        Stage::Memory | Stage::Disk | Stage::Load => show_bytes_rate(bytes_per_second),
        Stage::Network | Stage::Path => show_bits_rate(bytes_per_second),
    }
}

/// What stays of a measurement on the terminal.
fn done(measurement: &Measurement) -> String {
    let Measurement { stage, name, bytes_per_second, .. } = measurement;
    let name = printable(name);
    format!("  {:<8} {name:<34} {:>12}", stage.to_string(), rate(*stage, *bytes_per_second))
}

/// A step in words for a user.
fn step(step: &str) -> &str {
    match step {
        "scratch" => "writing a scratch file",
        step => step,
    }
}
