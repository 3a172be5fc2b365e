//! A transfer, and what a server did, as a run: so it is kept, listed, reported and compared as any other measurement.

use crate::evidence::{held_by, measurement_of, workers_of};
use crate::http::url::HttpUrl;
use crate::progress::WatchedTransfer;
use crate::stream_tally::StreamTally;
use linerate_facts::host::HostUse;
use linerate_facts::protocol::Protocol;
use linerate_facts::sysroot::Sysroot;
use linerate_facts::wording::counted;
use linerate_machine::flow_devices::{FlowDevices, disks_below};
use linerate_machine::probe::{Machine, probe};
use linerate_measure::measure::{Measurement, Stage};
use linerate_measure::run::{Run, ServedResult, TransferOutcome, TransferResult};
use linerate_model::plan::Goal;
use std::path::PathBuf;

/// More errors, or files, than this of one transfer are not kept: there may be a million of them.
const MOST_KEPT_ERRORS: usize = 100;
const MOST_KEPT_FILES: usize = 1000;

/// What a transfer was, before it is a run.
pub(crate) struct TransferFacts<'a> {
    pub(crate) watched: &'a WatchedTransfer<'a>,
    pub(crate) url: &'a HttpUrl,
    pub(crate) transfer: TransferResult,
    pub(crate) errors: Vec<String>,
    pub(crate) method: &'a str,
}

impl TransferFacts<'_> {
    /// With what the host did meanwhile; the machine is looked at now, which takes some hundredths of a second.
    pub(crate) fn run(self, sysroot: &Sysroot, host: &HostUse) -> Run {
        let WatchedTransfer { stage, paths, streams, sockets, rate_limit, server, .. } = *self.watched;
        let machine = probe(sysroot);
        let used = FlowDevices {
            disks: disks_below(sysroot, &machine, paths),
            ..sockets.devices(stage == Stage::Get)
        };
        let workers = workers_of(streams, host.seconds, stage == Stage::Get);
        let measurement = measurement_of(host, stage, workers, self.transfer.moved_bytes, &used);
        let protocol = if self.url.secure { "HTTP/1.1 under TLS" } else { "HTTP/1.1" };
        let method = format!("{protocol}, {}, {}", counted(streams.len(), "stream"), self.method);
        let figures: Vec<_> = streams.iter().map(StreamTally::figures).collect();
        let held_by = held_by(&figures);
        let measurement = Measurement { method, held_by, ..server.beside(measurement) };
        let goal = Goal { peers: vec![self.url.authority()], ..goal_of(stage, paths, rate_limit) };
        // Without what follows the path, which may be a key to the file.
        let name = self.url.with_target(self.url.path()).to_string();
        let mut run = Run::begin_stage(stage, name, machine, goal);
        if self.transfer.moved_bytes > 0 {
            run.measurements.push(measurement);
        }
        run.diagnosis = run.diagnose();
        run.errors = self.errors;
        run.transfer = Some(self.transfer);
        run
    }
}

fn goal_of(stage: Stage, paths: &[PathBuf], rate_limit: Option<f64>) -> Goal {
    Goal {
        sources: if stage == Stage::Put { paths.to_vec() } else { Vec::new() },
        protocols: vec![Protocol::Tcp],
        rate_limit,
        repeats: 1,
        ..Goal::default()
    }
}

/// What came of a transfer.
pub struct TransferEnd {
    /// Without a measurement where nothing was moved.
    pub run: Run,
    /// All that failed did so before anything of it came.
    pub lacks: bool,
}

impl TransferEnd {
    /// The exit status of the contract.
    pub fn exit_status(&self) -> u8 {
        let mut files = self.run.transfer.iter().flat_map(|transfer| &transfer.files);
        match self.run.errors.is_empty() {
            true => 0,
            false if self.lacks && files.all(|file| file.outcome == TransferOutcome::Failed) => 3,
            false => 1,
        }
    }

    /// The run as it is kept: without the files and errors of a large transfer that say nothing new.
    pub fn kept(self) -> Run {
        let mut run = self.run;
        let more = run.errors.len().saturating_sub(MOST_KEPT_ERRORS);
        run.errors.truncate(MOST_KEPT_ERRORS);
        run.errors.extend((more > 0).then(|| format!("{more} more failed")));
        if let Some(transfer) = &mut run.transfer {
            transfer.files_left_out = transfer.files.len().saturating_sub(MOST_KEPT_FILES);
            transfer.files.truncate(MOST_KEPT_FILES);
        }
        run
    }
}

/// What a server did from its start to its end, as a run. It is named by what it served, for its stage is that of the
/// side it was on: files that went out were put, files that came in were got.
pub fn served_run(
    paths: &[PathBuf],
    machine: Machine,
    (served, measured): (ServedResult, Option<Measurement>),
    rate_limit: Option<f64>,
) -> Run {
    let stage = measured.as_ref().map_or(Stage::Put, |measured| measured.stage);
    let goal = goal_of(stage, paths, rate_limit);
    let shown: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    let mut run = Run::begin_stage(stage, format!("serve {}", shown.join(" ")), machine, goal);
    run.measurements.extend(measured);
    run.served = Some(served);
    run.diagnosis = run.diagnose();
    run
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_measure::run::TransferFile;

    #[test]
    fn a_large_transfer_is_kept_without_all_its_files() {
        let file = TransferFile::new("http://h/a".into(), "a".into(), TransferOutcome::Failed);
        let mut run = Run::begin_stage(Stage::Get, "a".into(), Machine::default(), Goal::default());
        run.errors = vec!["why".into(); MOST_KEPT_ERRORS + 7];
        run.transfer =
            Some(TransferResult { files: vec![file; MOST_KEPT_FILES + 5], ..TransferResult::default() });
        let end = |lacks| TransferEnd { run: run.clone(), lacks };
        assert_eq!((end(true).exit_status(), end(false).exit_status()), (3, 1), "nothing came");
        let kept = end(true).kept();
        assert_eq!(kept.errors.last().map(String::as_str), Some("7 more failed"));
        let transfer = kept.transfer.expect("files");
        assert_eq!((transfer.files.len(), transfer.files_left_out), (MOST_KEPT_FILES, 5));
    }
}
