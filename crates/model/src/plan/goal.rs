//! What the user asked for: what is to be moved from where to where, and measured how long.

use linerate_facts::protocol::Protocol;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What the user asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Goal {
    /// Files and block devices to read, directories for scratch files; empty: the current directory.
    pub sources: Vec<PathBuf>,
    /// Addresses of agents; empty: a receiver of our own on loopback.
    pub peers: Vec<String>,
    /// Protocols to measure, the headline first.
    pub protocols: Vec<Protocol>,
    /// Length of one measurement, seconds; `None`: fitted to the budget.
    pub seconds: Option<f64>,
    /// Rounds in which all disks, all NICs and the path take turns.
    pub repeats: u32,
    /// The most that all measurements together may take, seconds.
    pub budget_seconds: f64,
    /// Bytes a read; `None`: chosen by the plan.
    pub block_bytes: Option<u64>,
    /// Reads in flight a worker; `None`: chosen by the plan.
    pub queue_depth: Option<u32>,
    /// Workers a NIC, each with a stream of its own; `None`: chosen by the plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<u32>,
    /// Payload of a UDP datagram, bytes; `None`: what the path's MTU carries, jumbo frames at most.
    pub datagram_bytes: Option<u32>,
    /// TCP congestion control for our sockets; `None`: the system's.
    pub congestion_control: Option<String>,
    /// Blocks go out over TCP without a copy; `None`: a trial on the path decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zero_copy: Option<bool>,
    /// Checksum the bytes at both ends (TCP).
    pub verify: bool,
    /// The most that all workers of a flow move together, bytes per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<f64>,
    /// Workers take only what nobody else wants of CPUs and disks.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub idle: bool,
    /// A little of each resource is taken away while the path runs, to see what the flow loses.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub experiment: bool,
    /// From where to where the path leads.
    #[serde(default, skip_serializing_if = "RunFlow::is_default")]
    pub flow: RunFlow,
    /// Directories in which what arrives here is stored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sinks: Vec<PathBuf>,
}

/// From where to where the bytes of a run go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunFlow {
    /// The peer throws them away.
    #[default]
    DiskToNetwork,
    /// The peer stores them in its sink.
    DiskToDisk,
    /// The peer sends them from its memory, and they are stored here.
    NetworkToDisk,
    /// The peer sends them from its memory, and they are thrown away here.
    NetworkToMemory,
}

impl RunFlow {
    fn is_default(&self) -> bool {
        *self == RunFlow::default()
    }

    /// This host is the one that receives.
    pub fn receives(self) -> bool {
        matches!(self, RunFlow::NetworkToDisk | RunFlow::NetworkToMemory)
    }

    /// What arrives is stored, at whichever end.
    pub fn stores(self) -> bool {
        matches!(self, RunFlow::DiskToDisk | RunFlow::NetworkToDisk)
    }

    /// `disk to network`.
    pub fn ends(self) -> &'static str {
        match self {
            RunFlow::DiskToNetwork => "disk to network",
            RunFlow::DiskToDisk => "disk to disk",
            RunFlow::NetworkToDisk => "network to disk",
            RunFlow::NetworkToMemory => "network to memory",
        }
    }
}

/// All stages, with what an experiment mostly needs; and six rounds of them where nothing is taken.
const BUDGET_SECONDS: f64 = 40.0;
const OBSERVING_BUDGET_SECONDS: f64 = 57.0;
/// What an experiment takes of the budget at most.
const EXPERIMENT_OF_BUDGET: f64 = 0.57;
/// A run of less has no time for one.
const LEAST_BUDGET_SECONDS: f64 = 30.0;
/// Reads of a flow with a rate limit are so short that they come at least this often, seconds.
const LIMITED_READ_SECONDS: f64 = 0.02;
const SHORTEST_READ_BYTES: u64 = 64 << 10;

impl Goal {
    /// The protocol that is measured first; TCP where none is named.
    pub fn first_protocol(&self) -> Protocol {
        self.protocols.first().copied().unwrap_or(Protocol::Tcp)
    }

    /// Something is taken from the path: where it was asked for, nothing bounds what is moved, nothing is stored for it,
    /// and there is time.
    pub fn experiments(&self) -> bool {
        self.may_be_taken_from() && self.budget_seconds >= LEAST_BUDGET_SECONDS
    }

    /// As long as there is time.
    fn may_be_taken_from(&self) -> bool {
        let is_bounded = self.rate_limit.is_some() || self.idle || self.seconds.is_some();
        self.experiment && self.flow == RunFlow::DiskToNetwork && !is_bounded
    }

    /// Time for all measurements, where the user has named none, seconds.
    pub fn usual_budget_seconds(&self) -> f64 {
        if self.may_be_taken_from() { BUDGET_SECONDS } else { OBSERVING_BUDGET_SECONDS }
    }

    /// Observing the path and taking from it, at most, seconds.
    pub fn experiment_seconds(&self) -> f64 {
        if self.experiments() { EXPERIMENT_OF_BUDGET * self.budget_seconds } else { 0.0 }
    }

    /// The peer's sink is measured alone, too; not under a rate limit, which its writer would not heed.
    pub fn writes_sink_alone(&self) -> bool {
        self.flow == RunFlow::DiskToDisk && self.rate_limit.is_none()
    }

    /// Bytes a read, where the user has named it or a rate limit asks for shorter ones than usual.
    pub fn read_bytes(&self) -> Option<u64> {
        let limited = |rate: f64| {
            let due = (rate * LIMITED_READ_SECONDS) as u64;
            let power = due.max(1).ilog2();
            (1u64 << power).clamp(SHORTEST_READ_BYTES, super::DEFAULT_BLOCK_BYTES)
        };
        self.block_bytes.or_else(|| self.rate_limit.map(limited))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_taken_from_what_is_bounded_stores_or_has_no_time() {
        let goal = Goal { experiment: true, budget_seconds: 40.0, ..Goal::default() };
        assert!(goal.experiments() && (goal.experiment_seconds() - 22.8).abs() < 1e-9);
        assert_eq!(Goal { budget_seconds: 300.0, ..goal.clone() }.experiment_seconds().round(), 171.0);
        assert_eq!(goal.usual_budget_seconds(), 40.0);
        assert_eq!(Goal { experiment: false, ..goal.clone() }.usual_budget_seconds(), 57.0);
        let without = [
            Goal { experiment: false, ..goal.clone() },
            Goal { rate_limit: Some(1e9), ..goal.clone() },
            Goal { idle: true, ..goal.clone() },
            Goal { seconds: Some(1.0), ..goal.clone() },
            Goal { budget_seconds: 29.0, ..goal.clone() },
            Goal { flow: RunFlow::DiskToDisk, ..goal.clone() },
            Goal { flow: RunFlow::NetworkToDisk, ..goal },
        ];
        assert!(without.iter().all(|goal| !goal.experiments() && goal.experiment_seconds() == 0.0));
    }
}
