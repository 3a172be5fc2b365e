//! `StageRun`: everything that one single-stage command (`disk`, `load`, `memory`) knows, one serde value, saved as `run.json` beside its
//! report. `linerate compare` reads these and whole runs alike.

use super::SCHEMA;
use crate::diagnose::Finding;
use crate::diagnose::ledger::MeasuredLedger;
use crate::iperf3::Outcome;
use crate::measure::{LoadCurve, Measurements, Scaling, Stage};
use crate::probe::Machine;
use serde::{Deserialize, Serialize};

/// A benchmark of one stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageRun {
    pub schema: u32,
    /// linerate's version.
    pub version: String,
    /// RFC 3339, UTC.
    pub started: String,
    pub host: String,
    /// Which command: disk, load or memory.
    pub stage: Stage,
    /// What the user calls it (`--name`), such as a file system's name; else the first source's.
    pub name: String,
    pub machine: Machine,
    #[serde(default)]
    pub measurements: Measurements,
    /// `disk --scaling`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaling: Option<Scaling>,
    /// `load`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<LoadCurve>,
    /// `network --iperf3`: each test as both ends told it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub iperf3: Vec<Outcome>,
    /// `network`: where every packet went.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ledgers: Vec<MeasuredLedger>,
    #[serde(default)]
    pub findings: Vec<Finding>,
    /// What failed along the way; not empty means partial results.
    #[serde(default)]
    pub errors: Vec<String>,
    /// Files that were made and are still there.
    #[serde(default)]
    pub changes: Vec<String>,
}

impl StageRun {
    /// Nothing measured yet.
    pub fn begin(stage: Stage, name: String, machine: Machine) -> Self {
        let host = machine.host.known().cloned().unwrap_or_else(|| "unknown".into());
        StageRun {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION").to_string(),
            started: humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string(),
            host,
            stage,
            name,
            machine,
            measurements: Vec::new(),
            scaling: None,
            load: None,
            iperf3: Vec::new(),
            ledgers: Vec::new(),
            findings: Vec::new(),
            errors: Vec::new(),
            changes: Vec::new(),
        }
    }
}
