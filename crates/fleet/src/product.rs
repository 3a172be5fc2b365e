//! The product of `linerate fleet`, as `fleet.json` has it and `--json` prints it.

use crate::polish::median;
use crate::schedule::FleetPattern;
use linerate_machine::probe::Machine;
use serde::{Deserialize, Serialize};

/// Version of the products of linerate.
pub(crate) const SCHEMA: u32 = 2;

/// What a fleet measured, and what follows from it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FleetResult {
    pub schema: u32,
    pub version: String,
    /// RFC 3339.
    pub started: String,
    pub pattern: FleetPattern,
    /// Length of one window, seconds, after its warm-up.
    pub seconds: f64,
    /// TCP streams of one flow.
    pub streams: u32,
    pub members: Vec<FleetMember>,
    /// Hosts that were named and never came, with the reason.
    #[serde(default)]
    pub absent: Vec<AbsentHost>,
    /// How the members differ, before any figure.
    #[serde(default)]
    pub differences: Vec<String>,
    pub windows: Vec<FleetWindow>,
    pub cells: Vec<FleetCell>,
    pub verdict: FleetVerdict,
    /// What failed along the way; the rest was measured.
    #[serde(default)]
    pub errors: Vec<String>,
}

/// One host, or one rank of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FleetMember {
    pub name: String,
    /// Where it takes data.
    pub address: String,
    pub version: String,
    #[serde(default)]
    pub rank: Option<u32>,
    /// Its monotonic clock less the coordinator's, seconds, and by how much that may be wrong.
    pub clock_offset_seconds: f64,
    pub clock_error_seconds: f64,
    /// Its time of day less the coordinator's, seconds.
    pub time_of_day_offset_seconds: f64,
    #[serde(default)]
    pub machine: Option<Box<Machine>>,
    /// When and why it was lost.
    #[serde(default)]
    pub lost: Option<String>,
}

/// A host that never came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AbsentHost {
    pub name: String,
    pub why: String,
}

/// Flows that ran together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FleetWindow {
    pub flows: usize,
    /// Sum of its flows, as their receivers counted.
    pub bytes_per_second: f64,
    /// The same as it follows from what each member did alone; none: not predicted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted_bytes_per_second: Option<f64>,
    /// Between the first and the last member's begin.
    pub start_skew_seconds: f64,
    /// It only measured what each member can do.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub alone: bool,
}

/// One flow in one window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FleetCell {
    pub from: String,
    pub to: String,
    /// Number of its window.
    pub window: usize,
    /// As its receiver counted; none: it failed.
    pub bytes_per_second: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted_bytes_per_second: Option<f64>,
    /// Of each second.
    #[serde(default)]
    pub samples: Vec<f64>,
    #[serde(default)]
    pub retransmits: u64,
    #[serde(default)]
    pub rtt_micros: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// Which way a member is slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FleetDirection {
    Send,
    Receive,
}

/// What the matrix says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FleetVerdict {
    pub sentence: String,
    /// Members that differ from the others, the slowest first.
    #[serde(default)]
    pub members: Vec<SlowMember>,
    /// Pairs, and links between groups, that differ though their hosts do not.
    #[serde(default)]
    pub links: Vec<SlowLink>,
}

/// One direction of one member.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlowMember {
    pub name: String,
    pub direction: FleetDirection,
    /// Of the rate that the others have.
    pub ratio: f64,
    /// Pairs that show it, of those that were measured.
    pub pairs: usize,
    pub pairs_measured: usize,
}

/// A way between hosts that are each as fast as the others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlowLink {
    pub from: Vec<String>,
    pub to: Vec<String>,
    /// Of what the same hosts do elsewhere.
    pub ratio: f64,
    pub pairs: usize,
    pub pairs_measured: usize,
    /// The most that all its flows carried together in one window.
    pub bytes_per_second: f64,
}

impl FleetResult {
    /// Something is missing from it.
    pub fn is_partial(&self) -> bool {
        !self.errors.is_empty()
            || !self.absent.is_empty()
            || self.members.iter().any(|member| member.lost.is_some())
    }

    /// Rate from one member to another, the median of its windows; none where it was not measured.
    pub fn rate(&self, from: &str, to: &str) -> Option<f64> {
        let measured = |cell: &&FleetCell| {
            cell.from == from
                && cell.to == to
                && !self.windows.get(cell.window).is_some_and(|window| window.alone)
        };
        median(self.cells.iter().filter(measured).filter_map(|cell| cell.bytes_per_second))
    }
}
