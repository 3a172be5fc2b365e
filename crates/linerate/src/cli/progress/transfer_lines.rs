//! Lines of a transfer that goes on: one now and then with `--interval`, else one that stays on a terminal.

use super::Progress;
use crate::cli::arguments::TransferArgs;
use crate::cli::output::Output;
use linerate_deliver::{ProgressWatch, TransferProgress};
use linerate_facts::printable::printable;
use linerate_facts::units::{show_bytes_rate, show_size};
use linerate_system::clock;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// A rate of next to nothing says no more than this.
const MOST_SECONDS: f64 = 1e9;

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
pub(in crate::cli) struct TransferLines<'a> {
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
