//! What `linerate explain` found.

use crate::activity::ActivityShares;
use crate::connections::ConnectionsUse;
use crate::descriptors::FileUse;
use crate::observe::{GroupUse, MappedFile};
use crate::processes::ExplainedProcess;
use crate::rates::ProgramRates;
use crate::threads::ThreadUse;
use linerate_facts::host::LinkUse;
use linerate_measure::diagnose::{Bottleneck, Finding, ShareFigure};
use serde::Serialize;
use std::collections::BTreeSet;

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
