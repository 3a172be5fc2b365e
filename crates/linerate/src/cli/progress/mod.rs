//! What a user sees on standard error while linerate works: on a terminal, the panel of the watch below the lines of what was
//! measured, or its first line alone where there is no room for more. Elsewhere nothing, and nothing is
//! started for it; but for lines in place of a panel: with `--interval` one this often with the rate of what is being
//! measured, as users of iperf3 expect it, wherever standard output goes. A transfer has one now and then with
//! `--interval`, else one that stays on a terminal.

mod panel;

use super::arguments::{LiveArgs, TransferArgs};
use super::output::Output;
use linerate_deliver::{ProgressWatch, TransferProgress};
use linerate_facts::printable::printable;
use linerate_facts::units::{show_bits_rate, show_bytes_rate, show_size};
use linerate_measure::event::{Event, Listener};
use linerate_measure::measure::{Measurement, Stage};
use linerate_system::clock;
use linerate_system::stop::Stop;
use linerate_watch::terminal::has_room;
pub(super) use panel::MachineView;
use panel::{Shows, StatusPanel};
use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How far a long piece of work is, is read this often.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A rate of next to nothing says no more than this.
const MOST_SECONDS: f64 = 1e9;

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

/// Keeps what was seen since the last line.
#[derive(Debug)]
struct IntervalLog {
    every: Duration,
    /// Standard output has nothing else until the end.
    on_output: bool,
    begin: Instant,
    due: Instant,
    running: Option<(Stage, String)>,
    rates: Vec<f64>,
}

impl IntervalLog {
    fn begin(every: Duration, on_output: bool) -> Self {
        let begin = clock::now();
        IntervalLog { every, on_output, begin, due: begin + every, running: None, rates: Vec::new() }
    }

    fn hear(&mut self, event: &Event, output: &Output) {
        let now = clock::now();
        let Some(line) = self.line(event, now) else { return };
        if self.on_output {
            // A reader that has gone away is no reason to end the measurement.
            let _ = output.print(&format!("{line}\n"));
        } else {
            output.tell(&line);
        }
    }

    /// One that is due.
    fn line(&mut self, event: &Event, now: Instant) -> Option<String> {
        match event {
            Event::Started { stage, name, .. } => {
                self.running = Some((*stage, name.clone()));
                self.rates.clear();
            }
            Event::Measured(_) => self.running = None,
            Event::Progress { bytes_per_second, .. } => self.rates.push(*bytes_per_second),
            _ => {}
        }
        let (stage, name) = self.running.as_ref().filter(|_| now >= self.due && !self.rates.is_empty())?;
        let mean = self.rates.iter().sum::<f64>() / self.rates.len() as f64;
        let seconds = now.duration_since(self.begin).as_secs_f64();
        let line = format!(
            "{seconds:>7.1} s  {:<8} {:<34} {:>12}",
            stage.to_string(),
            printable(name),
            rate(*stage, mean)
        );
        self.rates.clear();
        while self.due <= now {
            self.due += self.every;
        }
        Some(line)
    }
}

impl Progress {
    /// Does the work of a transfer of so many bytes, of which `done` counts those that are done; what it is given sees
    /// the rest.
    pub(in crate::cli) fn of_transfer<T>(
        command: &'static str,
        output: &Output,
        args: &TransferArgs,
        (done, total_bytes): (&AtomicU64, Option<u64>),
        work: impl FnOnce(Option<&ProgressWatch<'_>>) -> T,
    ) -> T {
        let Some(every) = args.interval else {
            let begun = clock::now();
            let show = |bytes: u64| size_and_rate(bytes, total_bytes, clock::since(begun));
            return Progress::during(command, output, total_bytes, done, show, || work(None));
        };
        let lines = TransferLines { line: None, output, is_json: args.json };
        work(Some(&ProgressWatch { every, total_bytes, show: &|line| lines.show(line) }))
    }
}

/// The lines of a transfer that reports by itself how far it is.
pub(super) struct TransferLines<'a> {
    /// The one that stays on a terminal; none with `--interval`.
    line: Option<Progress>,
    output: &'a Output,
    is_json: bool,
}

impl<'a> TransferLines<'a> {
    pub(in crate::cli) fn new(command: &'static str, output: &'a Output, args: &TransferArgs) -> Self {
        let line = args.interval.is_none().then(|| Progress::line(command, output));
        TransferLines { line, output, is_json: args.json }
    }

    /// How far it is now.
    pub(in crate::cli) fn show(&self, line: &TransferProgress) {
        match (&self.line, self.is_json) {
            (Some(progress), _) => progress.reached(present(line), line.seconds_left),
            (None, true) => {
                if let Ok(json) = serde_json::to_string(line) {
                    self.output.tell(&json);
                }
            }
            // A reader that has gone away is no reason to end the transfer.
            (None, false) => drop(self.output.print(&format!("{}\n", printable(&text_of(line))))),
        }
    }
}

/// `1.2 GiB of 4 GiB, 812 MB/s, limited by the disks: …`.
fn present(line: &TransferProgress) -> String {
    let (done, rate) = (show_size(line.bytes), show_bytes_rate(line.bytes_per_second));
    let total = line.total_bytes.map_or(String::new(), |total| format!(" of {}", show_size(total)));
    printable(&format!("{done}{total}, {rate}, {}", line.limit.sentence))
}

/// `1.2 GiB, 812 MB/s`; the total without a rate.
fn size_and_rate(bytes: u64, total: Option<u64>, time: Duration) -> String {
    match total == Some(bytes) {
        true => show_size(bytes),
        false => {
            format!("{}, {}", show_size(bytes), show_bytes_rate(bytes as f64 / time.as_secs_f64().max(1e-3)))
        }
    }
}

/// `  3.0 s  1.2 GiB of 4 GiB, 812 MB/s, 5s left, limited by the disks: …`.
fn text_of(line: &TransferProgress) -> String {
    let TransferProgress { seconds, bytes, total_bytes, bytes_per_second, seconds_left, limit, .. } = line;
    let time =
        |left: f64| humantime::format_duration(Duration::from_secs(left.min(MOST_SECONDS).ceil() as u64));
    let left = seconds_left.map_or("time left unknown".into(), |left| format!("{} left", time(left)));
    format!(
        "{seconds:>7.1} s  {}{}, {}, {left}, {}",
        show_size(*bytes),
        total_bytes.map_or(String::new(), |total| format!(" of {}", show_size(total))),
        show_bytes_rate(*bytes_per_second),
        limit.sentence
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_deliver::TransferLimit;

    #[test]
    fn a_line_an_interval_with_the_mean_of_what_was_seen() {
        let mut log = IntervalLog::begin(Duration::from_secs(1), true);
        let at = |ms: u64| log_begin(&log) + Duration::from_millis(ms);
        let times = [100, 500, 900, 1100, 1900, 3500].map(at);
        let seen = |bytes_per_second| Event::Progress { stage: Stage::Network, bytes_per_second };
        let started = Event::Started { stage: Stage::Network, name: "lo tcp".into(), seconds: 9.0 };
        assert_eq!(log.line(&seen(9e9), times[0]), None, "nothing runs");
        assert_eq!(log.line(&started, times[0]), None);
        assert_eq!(log.line(&seen(1e9), times[1]), None);
        assert_eq!(log.line(&seen(2e9), times[2]), None);
        let line = log.line(&seen(3e9), times[3]).expect("it is due");
        assert_eq!(line.split_whitespace().collect::<Vec<_>>().join(" "), "1.1 s network lo tcp 16.0 Gb/s");
        assert_eq!(log.line(&seen(1e9), times[4]), None);
        // A line that was missed is not made up for.
        assert!(log.line(&seen(1e9), times[5]).is_some_and(|line| line.contains("3.5 s")));
        assert!(log.due > times[5]);
    }

    fn log_begin(log: &IntervalLog) -> Instant {
        log.begin
    }

    #[test]
    fn a_line_says_how_far_it_is_and_what_limits_it() {
        let limit = TransferLimit { sentence: "limited by the disks".into(), ..TransferLimit::default() };
        let line = TransferProgress {
            schema: 1,
            seconds: 3.04,
            bytes: 1 << 30,
            total_bytes: Some(4 << 30),
            bytes_per_second: 812e6,
            seconds_left: Some(4.2),
            limit,
        };
        let text = text_of(&line);
        assert_eq!(text, "    3.0 s  1 GiB of 4 GiB, 812 MB/s, 5s left, limited by the disks");
        let unknown = text_of(&TransferProgress { seconds_left: None, ..line });
        assert!(unknown.contains("812 MB/s, time left unknown, limited"), "{unknown}");
    }
}
