//! What a user sees on standard error while linerate works: on a terminal, the panel of the watch below the lines of what was
//! measured, or its first line alone where there is no room for more. Elsewhere nothing, and nothing is
//! started for it; but for the lines of `--interval`, which go wherever standard output goes.

mod lines;
mod panel;

use super::arguments::LiveArgs;
use super::output::Output;
use linerate_facts::printable::printable;
use linerate_facts::units::{show_bits_rate, show_bytes_rate};
use linerate_measure::event::{Event, Listener};
use linerate_measure::measure::{Measurement, Stage};
use linerate_system::clock;
use linerate_system::stop::Stop;
use linerate_watch::terminal::has_room;
use lines::IntervalLog;
pub(super) use lines::TransferLines;
pub(super) use panel::MachineView;
use panel::{Shows, StatusPanel};
use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How far a long piece of work is, is read this often.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Shows what happens on a terminal; elsewhere it is silent.
pub(super) struct Progress {
    panel: Option<StatusPanel>,
    log: Option<IntervalLog>,
    output: Output,
}

impl Progress {
    /// The panel of `command`, or its first line where standard error is a terminal without room for it; with
    /// `--interval` lines in place of both, on standard output where that is for people.
    pub(super) fn new(command: &'static str, args: &LiveArgs, for_people: bool, output: &Output) -> Self {
        if let Some(every) = args.interval {
            let log = Some(IntervalLog::begin(every, for_people));
            return Progress { panel: None, log, output: output.clone() };
        }
        let shows = if has_room(std::io::stderr()) { Shows::Panel } else { Shows::Line };
        Progress::showing(command, shows, output)
    }

    /// The first line alone: nothing is sampled beside what is measured.
    pub(super) fn line(command: &'static str, output: &Output) -> Self {
        Progress::showing(command, Shows::Line, output)
    }

    fn showing(command: &'static str, shows: Shows, output: &Output) -> Self {
        let shows = if is_dumb() { Shows::Nothing } else { shows };
        let start = || StatusPanel::start(command, shows, output);
        let panel = std::io::stderr().is_terminal().then(start).flatten();
        Progress { panel, log: None, output: output.clone() }
    }

    /// Removes it.
    pub(super) fn finish(&mut self) {
        self.panel.iter_mut().for_each(StatusPanel::finish);
    }

    /// How far a piece of work is, and how long it will still take, for the terminal of whoever asked for it.
    pub(super) fn reached(&self, how_far: String, seconds_left: Option<f64>) {
        if let Some(panel) = &self.panel {
            panel.reached(how_far, seconds_left);
        }
    }

    /// Does a piece of work with one line about it. `show` says in words how far `done` of `total` is.
    pub(super) fn during<T>(
        command: &'static str,
        output: &Output,
        total: Option<u64>,
        done: &AtomicU64,
        show: impl Fn(u64) -> String + Sync,
        work: impl FnOnce() -> T,
    ) -> T {
        let progress = Progress::line(command, output);
        if progress.panel.is_none() {
            return work();
        }
        let (begin, over) = (clock::now(), Stop::new());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                loop {
                    let now = done.load(Ordering::Relaxed);
                    let of = total.map_or(String::new(), |total| format!(" of {}", show(total)));
                    let left = total.filter(|total| now > 0 && now < *total);
                    let left = left
                        .map(|total| clock::since(begin).as_secs_f64() * (total - now) as f64 / now as f64);
                    progress.reached(show(now) + &of, left);
                    if over.wait(POLL_INTERVAL) {
                        return;
                    }
                }
            });
            let _ends = over.ends_at_drop();
            work()
        })
    }
}

impl Listener for Progress {
    fn hear(&mut self, event: &Event) {
        log(event);
        self.panel.iter_mut().for_each(|panel| panel.hear(event));
        self.log.iter_mut().for_each(|log| log.hear(event, &self.output));
    }
}

fn log(event: &Event) {
    match event {
        Event::Step(name) => tracing::info!(name, "step begins"),
        Event::Started { stage, name, seconds } => {
            tracing::info!(%stage, name, seconds, "measurement begins");
        }
        Event::Measured(measurement) => {
            let Measurement { stage, name, bytes_per_second, method, flags, .. } = &**measurement;
            tracing::info!(%stage, name, bytes_per_second, method, ?flags, "measured");
        }
        Event::Note(note) => tracing::info!(note, "note"),
        Event::Failed(why) => tracing::error!(why, "failed; the run goes on with what is left"),
        // Many times a second.
        Event::Remaining { .. } | Event::Progress { .. } | Event::Workers(_) | Event::Uses(_) => {}
    }
}

/// The terminal does not understand where lines go.
pub(super) fn is_dumb() -> bool {
    std::env::var("TERM").is_ok_and(|term| term == "dumb" || term.is_empty())
}

fn rate(stage: Stage, bytes_per_second: f64) -> String {
    match stage {
        Stage::Memory | Stage::Disk | Stage::Load | Stage::Get | Stage::Put | Stage::Explain => {
            show_bytes_rate(bytes_per_second)
        }
        Stage::Network | Stage::Fleet | Stage::Path => show_bits_rate(bytes_per_second),
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
