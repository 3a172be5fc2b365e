//! What `linerate explain` found, with what the program moves, and from where to where.

use crate::activity::{Activity, ActivityShares};
use crate::connections::{ConnectionUse, ConnectionsUse};
use crate::descriptors::FileUse;
use crate::observe::{GroupUse, MappedFile, Observation};
use crate::processes::ExplainedProcess;
use crate::threads::ThreadUse;
use linerate_facts::host::LinkUse;
use linerate_measure::diagnose::{Bottleneck, Finding, ShareFigure};
use linerate_model::verdict::Route;
use linerate_model::verdict::thresholds::WAITING;
use serde::Serialize;
use std::collections::BTreeSet;

/// A program that moves less is taken for one that moves nothing, bytes per second.
pub(crate) const NOTHING: f64 = 1000.0;
/// A thread that waits at a pipe for less of the time has another source.
const HAS_A_PART: f64 = 0.05;

/// All of it.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    pub program: ExplainedProgram,
    /// How long it was observed, seconds.
    pub seconds: f64,
    pub rates: ProgramRates,
    pub processes: Vec<ExplainedProcess>,
    pub threads: ThreadsSummary,
    pub files: Vec<ExplainedFile>,
    pub mapped: Vec<MappedFile>,
    pub connections: ConnectionsUse,
    pub disks: Vec<ExplainedDisk>,
    pub links: Vec<LinkUse>,
    pub control_group: GroupUse,
    pub cpus: CpuSummary,
    /// `measured`, `observed`, or `unknown`.
    pub verdict: &'static str,
    pub bottleneck: Bottleneck,
    /// The rule by which that is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// What it lost for what was taken of each part (`--experiment`), and what could not be taken from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<ShareFigure>,
    pub findings: Vec<Finding>,
    /// What each piece was read from, and by which permission.
    pub evidence: Vec<EvidenceSource>,
    /// What is not known, in sentences.
    pub unknown: Vec<String>,
    /// What root would see beyond this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root_would_add: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct ExplainedProgram {
    pub name: String,
    pub pids: Vec<u32>,
    /// None of its processes is there any more.
    pub ended: bool,
    /// CPU time ÷ time, and how much of that in its own code.
    pub cpus: f64,
    pub user_cpus: f64,
    /// What it uses to speak TLS in its own code, where it has such a library.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_library: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct ThreadsSummary {
    pub count: usize,
    /// Rounds of samples.
    pub rounds: u64,
    /// Those that move the bytes, and what they do with their time.
    pub workers: usize,
    pub of_workers: ActivityShares,
    /// The busiest first.
    pub busiest: Vec<ThreadUse>,
}

#[derive(Clone, Debug, Serialize)]
pub struct ExplainedFile {
    #[serde(flatten)]
    pub used: FileUse,
    pub processes: usize,
    pub disks: BTreeSet<String>,
}

/// A disk below its files.
#[derive(Clone, Debug, Serialize)]
pub struct ExplainedDisk {
    pub name: String,
    pub bytes_per_second: f64,
    pub busy: Option<f64>,
    /// Mean requests in flight.
    pub queue_depth: Option<f64>,
    pub latency_seconds: Option<f64>,
    /// Of its bytes, those of other programs, and which these are.
    pub others_bytes_per_second: Option<f64>,
    pub others: Vec<String>,
    /// The most that an earlier run of this host has measured of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured_bytes_per_second: Option<f64>,
}

/// The CPUs that the program may use.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct CpuSummary {
    pub count: usize,
    pub busy: f64,
    /// Shares of the fullest of them.
    pub interrupts: f64,
    pub steal: f64,
}

#[derive(Clone, Debug, Serialize)]
pub struct EvidenceSource {
    pub what: &'static str,
    pub read_from: &'static str,
    pub permission: &'static str,
}

/// What a program moves, bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ProgramRates {
    /// From the storage, and to it.
    pub storage_read: f64,
    pub storage_written: f64,
    /// From files and to files, by the storage or by the page cache.
    pub files_read: f64,
    pub files_written: f64,
    /// By TCP.
    pub sent: f64,
    pub received: f64,
    /// By its system calls, whatever it was of.
    pub called: f64,
}

impl ProgramRates {
    pub(crate) fn of(observed: &Observation) -> ProgramRates {
        let total = &observed.total;
        let (read, written) = (total.storage_read.unwrap_or(0.0), total.storage_written.unwrap_or(0.0));
        let moved = |writes: bool| -> f64 {
            let of = observed.files.iter().filter(|file| file.writes == writes);
            of.map(|file| file.bytes_per_second).fold(0.0, |sum, one| sum + one)
        };
        let (sent, received) = (observed.connections.sent, observed.connections.received);
        let reads_pipes = shares_of(&observed.threads, Activity::PipeRead) >= HAS_A_PART;
        let has_files = observed.files.iter().any(|file| !file.writes) && !observed.input_is_piped;
        // Of its processes those that read files: others may read what these write into a pipe.
        let reads_files =
            |one: &&ExplainedProcess| observed.files.iter().any(|file| !file.writes && file.pid == one.pid);
        let by_calls =
            || observed.processes.iter().filter(reads_files).filter_map(|one| one.called_read).sum();
        // `read` of a socket is counted, too.
        let called = if has_files && !reads_pipes { by_calls() } else { 0.0 } - received;
        let called = if called > 0.1 * received { called } else { 0.0 };
        ProgramRates {
            storage_read: read,
            storage_written: written,
            files_read: moved(false).max(read).max(called),
            files_written: moved(true).max(written),
            sent,
            received,
            called: total.called_read.unwrap_or(0.0).max(total.called_written.unwrap_or(0.0)),
        }
    }

    /// What comes goes on to another host, and nothing of it to files.
    fn is_relay(&self) -> bool {
        let (less, more) = (self.sent.min(self.received), self.sent.max(self.received));
        more >= NOTHING && less >= 0.8 * more && self.files_read.max(self.files_written) < 0.25 * more
    }

    fn direct_route(&self) -> (Route, f64) {
        let files = self.files_read.max(self.files_written);
        let network = self.sent.max(self.received);
        match () {
            () if files.max(network).max(self.called) < NOTHING => (Route::Unknown, 0.0),
            () if network < 0.25 * files => (Route::Disks, files),
            () if network >= NOTHING && self.received > self.sent => (Route::NetworkToDisks, self.received),
            () if network >= NOTHING && self.files_read >= 0.5 * self.sent => {
                (Route::DisksToNetwork, self.sent)
            }
            () if network >= NOTHING => (Route::Network, self.sent),
            () => (Route::Network, self.called),
        }
    }

    /// From where to where, and how much.
    pub(crate) fn route(&self, observed: &Observation) -> (Route, f64) {
        if self.is_relay() { self.relay_route(observed) } else { self.direct_route() }
    }

    /// The side of a relay that is slower: where data waits to be sent, it is that to which it sends.
    fn relay_route(&self, observed: &Observation) -> (Route, f64) {
        let waits = |one: &ConnectionUse| one.sent >= 0.1 * self.sent && one.busy >= WAITING;
        match observed.connections.busiest.iter().any(waits) {
            true => (Route::Network, self.sent),
            false => (Route::NetworkToDisks, self.received),
        }
    }
}

/// The largest share of one of them.
pub(crate) fn shares_of(threads: &[ThreadUse], activity: Activity) -> f64 {
    threads.iter().map(|one| one.shares.of(activity)).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_go_from_where_to_where_most_of_them_go() {
        let of = |files_read, files_written, sent, received| {
            ProgramRates { files_read, files_written, sent, received, ..ProgramRates::default() }
                .direct_route()
        };
        assert_eq!(of(5e6, 0.0, 5e6, 100.0), (Route::DisksToNetwork, 5e6));
        assert_eq!(of(0.0, 0.0, 5e6, 100.0), (Route::Network, 5e6));
        assert_eq!(of(0.0, 4e6, 2e4, 5e6), (Route::NetworkToDisks, 5e6));
        assert_eq!(of(5e6, 5e6, 1e5, 1e5), (Route::Disks, 5e6));
        assert_eq!(of(10.0, 0.0, 0.0, 0.0), (Route::Unknown, 0.0));
    }
}
