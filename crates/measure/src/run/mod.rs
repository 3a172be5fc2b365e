//! `Run`: everything that one command which measures knows, one serde value, saved after each step as
//! `run.json` (schema 2).
//!
//! `again` makes one figure ready once, to be taken many times. `conduct` does the whole path: probe → plan →
//! measure → diagnose; `disk`, `load` and `network` do one stage of it. `context` is what each of them works with, and lets Ctrl-C
//! end it; `ends` and `scratch` make what the user named ready.

pub mod again;
pub mod conduct;
mod context;
pub mod disk;
pub mod ends;
pub mod fleet;
pub mod load;
pub mod network;
pub mod power;
mod scratch;
mod transfer;

use crate::diagnose::ledger::MeasuredLedger;
use crate::diagnose::{
    Bottleneck, Diagnosis, Finding, TwinComparison, burst_of_network, compared_nodes, compared_paths,
    compared_twins, diagnose, disk_findings, load_findings, map_findings, others_findings, slow_nodes,
    slow_paths, stream_findings, transfer_diagnosis,
};
use crate::measure::{LoadCurve, Measurements, Scaling, Stage};
pub use conduct::worker_costs;
pub use context::{RunContext, Save};
use fleet::FleetResult;
use linerate_machine::probe::Machine;
use linerate_model::plan::{Goal, Plan};
use linerate_system::clock;
use linerate_transport::iperf3::TestOutcome;
use serde::{Deserialize, Serialize};
pub use transfer::{ServedResult, TransferFile, TransferNic, TransferOutcome, TransferResult};

/// Schema number of `run.json`: additions are allowed within it, renames are not.
pub const SCHEMA: u32 = 2;

/// All products of the forward path, or of one stage of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    pub schema: u32,
    /// linerate's version.
    pub version: String,
    /// The other tool whose result this is, with its version (`fio-3.33`); empty: linerate measured it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tool: String,
    /// RFC 3339, UTC.
    pub started: String,
    pub host: String,
    /// The stage that was measured alone (`linerate disk`, `load`, `memory`, `network`), or the transfer that was made (`get`, `put`), or the program (`explain`); none: the whole
    /// path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<Stage>,
    /// What the user calls it (`--name`), such as a file system's name; else the first source's. Of one stage
    /// only.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    pub machine: Machine,
    pub goal: Goal,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
    pub measurements: Measurements,
    /// `disk --scaling`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scaling: Option<Scaling>,
    /// `load`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<LoadCurve>,
    /// `network --iperf3`: each test as both ends reported it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub iperf3: Vec<TestOutcome>,
    /// `network`: where every packet went.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ledgers: Vec<MeasuredLedger>,
    /// `get`, `put`: the files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfer: Option<TransferResult>,
    /// `serve`: what was asked for and how it went out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub served: Option<ServedResult>,
    /// `fleet`: the members, and the rates between them; who reads a run reads them by themselves, so that what is
    /// wrong in them is said, and not passed over.
    #[serde(flatten, skip_deserializing)]
    pub fleet: Option<Box<FleetResult>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diagnosis: Option<Diagnosis>,
    /// What the machine drew meanwhile; none without a meter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power: Option<power::RunPower>,
    /// What linerate changed on this machine: scratch files, which are gone, and files that were to be kept.
    pub changes: Vec<String>,
    /// What failed along the way; not empty means partial results.
    pub errors: Vec<String>,
}

impl Run {
    /// A run that has probed and done nothing else yet.
    pub fn begin(machine: Machine, goal: Goal) -> Self {
        let host = machine.host.known().cloned().unwrap_or_else(|| "unknown".into());
        Run {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION").to_string(),
            started: humantime::format_rfc3339_seconds(clock::date()).to_string(),
            host,
            machine,
            goal,
            ..Run::default()
        }
    }

    /// The same of one stage alone, under the name that the user gave it.
    pub fn begin_stage(stage: Stage, name: String, machine: Machine, goal: Goal) -> Self {
        Run { stage: Some(stage), name, ..Run::begin(machine, goal) }
    }

    /// What took the figures: `linerate 0.2.0`, `fio-3.33`.
    pub fn made_by(&self) -> String {
        if self.tool.is_empty() { format!("linerate {}", self.version) } else { self.tool.clone() }
    }

    /// linerate's version, or the other tool with its own.
    pub fn tool_version(&self) -> &str {
        if self.tool.is_empty() { &self.version } else { &self.tool }
    }

    /// What was done: the command's name.
    pub fn command(&self) -> String {
        self.stage.map_or_else(|| "run".into(), |stage| stage.to_string())
    }

    /// What limited it, where it was judged.
    pub fn bottleneck(&self) -> Option<&Bottleneck> {
        self.diagnosis.as_ref().and_then(|diagnosis| diagnosis.bottleneck.as_ref())
    }

    /// What is wrong or worth changing, as far as it was diagnosed.
    pub fn findings(&self) -> &[Finding] {
        self.diagnosis.as_ref().map_or(&[], |diagnosis| &diagnosis.findings)
    }

    /// What the figures mean, from what is in the run alone; none where the run ended before its plan.
    pub fn diagnose(&self) -> Option<Diagnosis> {
        // Its reader has judged it, by what only the tool's own file says.
        if !self.tool.is_empty() {
            return self.diagnosis.clone();
        }
        let mut findings = match self.stage {
            None | Some(Stage::Path) => {
                return Some(diagnose(&self.machine, &self.goal, self.plan.as_ref()?, &self.measurements));
            }
            Some(Stage::Get | Stage::Put) => {
                return transfer_diagnosis(&self.goal, self.plan.as_ref(), &self.measurements);
            }
            Some(Stage::Fleet | Stage::Explain) => return self.diagnosis.clone(),
            Some(Stage::Memory) => memory_findings(&self.machine, &self.measurements),
            Some(Stage::Disk) => disk_findings(&self.machine, &self.measurements),
            Some(Stage::Load) => {
                self.load.as_ref().map_or_else(Vec::new, |curve| load_findings(curve, &self.measurements))
            }
            Some(Stage::Network) => network_findings(&self.machine, &self.measurements, &self.ledgers),
        };
        findings.extend(others_findings(&self.measurements));
        Some(Diagnosis::of_findings(findings))
    }

    /// Disks, NICs or memory nodes that did less than `ratio` of others like them, and how many had one to compare with.
    pub fn twins(&self, ratio: f64) -> TwinComparison {
        match (self.stage, &self.plan) {
            (None, Some(plan)) => compared_twins(&self.machine, &self.goal, plan, &self.measurements, ratio),
            (Some(Stage::Network), _) => compared_paths(&self.machine, &self.measurements, ratio),
            (Some(Stage::Memory), _) => compared_nodes(&self.machine, &self.measurements, ratio),
            _ => TwinComparison::default(),
        }
    }
}

/// Of the whole map what is about memory.
fn memory_findings(machine: &Machine, measurements: &Measurements) -> Vec<Finding> {
    let mut findings = map_findings(machine);
    findings.retain(|finding| finding.id.starts_with("memory-"));
    findings.extend(slow_nodes(machine, measurements));
    findings
}

/// The same fault shows in several ledgers: once is enough.
fn network_findings(
    machine: &Machine,
    measurements: &Measurements,
    ledgers: &[MeasuredLedger],
) -> Vec<Finding> {
    let mut findings = slow_paths(machine, measurements);
    findings.extend(measurements.iter().find_map(burst_of_network));
    findings.extend(stream_findings(measurements));
    for found in ledgers.iter().flat_map(|one| &one.ledger.findings) {
        if !findings.iter().any(|known| known.id == found.id) {
            findings.push(found.clone());
        }
    }
    findings
}
