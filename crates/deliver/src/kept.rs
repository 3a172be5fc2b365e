//! A transfer as a run, so that it is kept, listed, reported and compared as any other measurement.

use crate::evidence::{held_by, measurement_of, workers_of};
use crate::flow_sockets::FlowSockets;
use crate::http::url::HttpUrl;
use crate::stream_tally::StreamTally;
use linerate_facts::host::HostUse;
use linerate_facts::protocol::Protocol;
use linerate_facts::sysroot::Sysroot;
use linerate_facts::wording::counted;
use linerate_machine::flow_devices::{FlowDevices, disks_below};
use linerate_machine::probe::{Machine, probe};
use linerate_measure::measure::{Measurement, Stage};
use linerate_measure::run::Run;
use linerate_model::plan::Goal;
use std::path::PathBuf;

/// More errors than this say nothing more.
const MOST_ERRORS: usize = 100;

/// What a transfer was, before it is a run.
pub(crate) struct TransferFacts<'a> {
    pub(crate) stage: Stage,
    pub(crate) url: &'a HttpUrl,
    /// Where the files are on this host.
    pub(crate) paths: &'a [PathBuf],
    pub(crate) streams: &'a [StreamTally],
    pub(crate) sockets: &'a FlowSockets,
    pub(crate) moved: u64,
    pub(crate) method: &'a str,
    pub(crate) rate_limit: Option<f64>,
}

impl TransferFacts<'_> {
    /// With what the host did meanwhile; the machine is looked at now, which takes some hundredths of a second.
    pub(crate) fn run(&self, sysroot: &Sysroot, host: &HostUse) -> Run {
        let machine = probe(sysroot);
        let used = FlowDevices {
            disks: disks_below(sysroot, &machine, self.paths),
            ..self.sockets.devices(self.stage == Stage::Get)
        };
        let workers = workers_of(self.streams, host.seconds, self.stage == Stage::Get);
        let measurement = measurement_of(host, self.stage, workers, self.moved, &used);
        let protocol = if self.url.secure { "HTTP/1.1 under TLS" } else { "HTTP/1.1" };
        let method = format!("{protocol}, {}, {}", counted(self.streams.len(), "stream"), self.method);
        let figures: Vec<_> = self.streams.iter().map(StreamTally::figures).collect();
        let held_by = held_by(&figures);
        let measurement = Measurement { method, held_by, ..measurement };
        let goal = Goal {
            sources: if self.stage == Stage::Put { self.paths.to_vec() } else { Vec::new() },
            peers: vec![self.url.authority()],
            protocols: vec![Protocol::Tcp],
            rate_limit: self.rate_limit,
            repeats: 1,
            ..Goal::default()
        };
        // Without what follows the path, which may be a key to the file.
        let name = self.url.with_target(self.url.path()).to_string();
        let mut run = Run::begin_stage(self.stage, name, machine, goal);
        if self.moved > 0 {
            run.measurements.push(measurement);
        }
        run.diagnosis = run.diagnose();
        run
    }
}

/// What a server did from its start to its end, as a run. It is named by what it served, for its stage is that of the
/// side it was on: files that went out were put, files that came in were got.
pub fn served_run(
    paths: &[PathBuf],
    machine: Machine,
    measurement: Measurement,
    rate_limit: Option<f64>,
) -> Run {
    let stage = measurement.stage;
    let goal = Goal {
        sources: if stage == Stage::Put { paths.to_vec() } else { Vec::new() },
        protocols: vec![Protocol::Tcp],
        rate_limit,
        repeats: 1,
        ..Goal::default()
    };
    let shown: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    let mut run = Run::begin_stage(stage, format!("serve {}", shown.join(" ")), machine, goal);
    run.measurements.push(measurement);
    run.diagnosis = run.diagnose();
    run
}

/// What failed, as far as it says something.
pub(crate) fn errors_of(errors: &[String]) -> Vec<String> {
    let more = errors.len().saturating_sub(MOST_ERRORS);
    let rest = (more > 0).then(|| format!("{more} more failed"));
    errors.iter().take(MOST_ERRORS).cloned().chain(rest).collect()
}
