//! `Run`: everything that one `linerate run` knows, one serde value, saved after each step as `run.json` (schema 1).
//!
//! `again` makes one figure ready once, to be taken many times. `conduct` does the run: probe → plan → measure → diagnose; `cut` lets
//! Ctrl-C end it. `sources`, `scratch` and `paths` make what the user named ready for it.

pub mod again;
pub mod conduct;
mod cut;
pub mod disk;
pub mod load;
pub mod network;
mod paths;
mod scratch;
mod sources;
mod stage_run;

use crate::diagnose::Diagnosis;
use crate::measure::Measurements;
use crate::plan::{Goal, Plan};
use crate::probe::Machine;
use serde::{Deserialize, Serialize};
pub use stage_run::StageRun;

/// Schema number of `run.json`: additions are allowed within it, renames are not.
pub const SCHEMA: u32 = 1;

/// All products of the forward path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    pub schema: u32,
    /// linerate's version.
    pub version: String,
    /// RFC 3339, UTC.
    pub started: String,
    pub host: String,
    pub machine: Machine,
    pub goal: Goal,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
    #[serde(default)]
    pub measurements: Measurements,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diagnosis: Option<Diagnosis>,
    /// What linerate changed on this machine (nothing, but for scratch files that are gone).
    #[serde(default)]
    pub changes: Vec<String>,
    /// What failed along the way; not empty means partial results.
    #[serde(default)]
    pub errors: Vec<String>,
}

impl Run {
    /// A run that has probed and done nothing else yet.
    pub fn begin(machine: Machine, goal: Goal) -> Self {
        let host = machine.host.known().cloned().unwrap_or_else(|| "unknown".into());
        Run {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION").to_string(),
            started: humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string(),
            host,
            machine,
            goal,
            plan: None,
            measurements: Vec::new(),
            diagnosis: None,
            changes: Vec::new(),
            errors: Vec::new(),
        }
    }
}
