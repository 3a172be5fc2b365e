//! What came of a copy: both halves as one result, kept and printed.

use super::message::{FileCounts, HalfEnd};
use super::{CopyRoute, Ends};
use crate::cli::arguments::TransferArgs;
use crate::cli::output::Output;
use crate::cli::saving::keep;
use crate::cli::transfer::{complain_of, not_moved};
use linerate_deliver::{TransferEnd, TransferError};
use linerate_facts::failure::Failure;
use linerate_facts::printable::printable;
use linerate_facts::units::{show_bits_rate, show_bytes_rate, show_size};
use linerate_facts::wording::counted;
use linerate_measure::run::Run;
use linerate_report as report;

/// Both halves.
pub(super) struct Copied {
    end: TransferEnd,
    notes: Vec<String>,
    counts: FileCounts,
    is_dry_run: bool,
}

impl Copied {
    pub(super) fn new(route: &CopyRoute, (own, other): Ends, started: String, is_dry_run: bool) -> Self {
        let mut run = own.run;
        let mut lacks = own.lacks;
        let (mut notes, mut counts) = (own.notes, own.counts);
        match other {
            Ok(HalfEnd { run: other, lacks: other_lacks, notes: other_notes, counts: other_counts }) => {
                if route.is_push {
                    (notes, counts, lacks) = (other_notes, other_counts, other_lacks);
                }
                let host = &route.host;
                run.errors.extend(other.errors.iter().map(|error| format!("{host}: {error}")));
                run.transfer = run.transfer.or(other.transfer);
                run.served = run.served.or(other.served);
                if !run.measurements.is_empty() {
                    run.measurements.extend(other.measurements.into_iter().take(1));
                }
            }
            Err(why) => {
                // Which is why the half here ended.
                run.errors.retain(|error| *error != TransferError::Interrupted.to_string());
                run.errors.push(why + "; the same command goes on where it ended");
            }
        }
        let shown = |path: &std::ffi::OsString| path.to_string_lossy().into_owned();
        let sources: Vec<String> = route.sources.iter().map(shown).collect();
        let (sources, destination) = (sources.join(" "), shown(&route.destination));
        run.name = match route.is_push {
            true => format!("copy {sources} {}:{destination}", route.host),
            false => format!("copy {}:{sources} {destination}", route.host),
        };
        run.goal.peers = vec![route.host.to_string()];
        run.started = started;
        run.diagnosis = run.diagnose();
        Copied { end: TransferEnd { run, lacks }, notes, counts, is_dry_run }
    }

    /// Keeps it, prints it, and gives the exit status of the contract.
    pub(super) fn print(self, args: &TransferArgs, output: &Output) -> Result<u8, Failure> {
        let (status, errors) = (self.end.exit_status(), self.end.run.errors.clone());
        let text = if args.json && !self.is_dry_run { report::json(&self.end.run) } else { self.text() };
        if !args.keeping.no_save && !self.is_dry_run {
            keep(&self.end.kept(), output);
        }
        output.print(&text)?;
        complain_of(&errors, args.json, output);
        Ok(status)
    }

    /// What was left out, what is not there, what was moved, and what limited it, last.
    fn text(&self) -> String {
        let mut text: String = self.notes.iter().map(|note| printable(note) + "\n").collect();
        if self.is_dry_run {
            return text;
        }
        text += &not_moved([self.counts.already_there, self.counts.unfinished, self.counts.failed]);
        text.push_str(&sentence(&self.end.run, self.counts.copied));
        text
    }
}

/// `3 files, 412 GiB in 200.0 s: 2.20 GB/s (17.6 Gb/s). The other host's disk vdb limits it (…).`
fn sentence(run: &Run, files: u64) -> String {
    let Some(transfer) = &run.transfer else { return String::new() };
    let files = counted(files, "file");
    let Some(measured) = run.measurements.first().filter(|_| transfer.moved_bytes > 0) else {
        return format!("{files} copied\n");
    };
    // That of the half that fetched, to the last of its files on the disk.
    let seconds = run.measurements.iter().map(|one| one.seconds).fold(measured.seconds, f64::max);
    let rate = transfer.moved_bytes as f64 / seconds.max(1e-9);
    let (size, bytes_rate, bits_rate) =
        (show_size(transfer.moved_bytes), show_bytes_rate(rate), show_bits_rate(rate));
    let already_there = match transfer.kept_bytes {
        0 => String::new(),
        already_there => format!(" ({} were there)", show_size(already_there)),
    };
    let limit = run.bottleneck();
    let limit = limit.map_or(String::new(), |limit| format!(" {}", printable(&limit.sentence)));
    format!("{files}, {size}{already_there} in {}: {bytes_rate} ({bits_rate}).{limit}\n", time(seconds))
}

/// `3 min 20 s`; of less than a minute with a tenth of a second.
fn time(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match (whole / 3600, whole / 60 % 60, whole % 60) {
        (0, 0, _) => format!("{seconds:.1} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_units_of_people() {
        let shown = [0.34, 59.4, 59.6, 200.0, 3599.7, 7260.0].map(time);
        assert_eq!(shown, ["0.3 s", "59.4 s", "1 min 0 s", "3 min 20 s", "1 h 0 min", "2 h 1 min"]);
    }
}
