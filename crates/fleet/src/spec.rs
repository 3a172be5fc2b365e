//! What a fleet is to measure, and what is reported of it meanwhile.

use crate::launch::LaunchPlan;
use linerate_measure::measure::access::FileLayout;
use linerate_measure::run::fleet::{AbsentHost, FleetPattern, FleetRack, FleetResult, Redundancy};
use linerate_transport::agent::Network;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// The fewest that have a pair.
pub(crate) const LEAST_MEMBERS: usize = 2;

/// What every member reads and writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FleetDiskSpec {
    /// The same on every host.
    pub sources: Vec<PathBuf>,
    /// Of each source.
    pub workers: u32,
    /// Of each worker.
    pub bytes: u64,
    pub transfer_bytes: u64,
    pub queue_depth: u32,
    pub direct: bool,
    pub layout: FileLayout,
    /// The sources are on a file system that all hosts share, and no host reads what it wrote.
    pub reorder: bool,
    pub write: bool,
}

/// Who starts the members.
#[derive(Clone, Debug, Default)]
pub enum FleetStart {
    /// This process, by a launcher.
    Launch { plan: LaunchPlan, hosts: Vec<String> },
    /// They run already, and this is rank 0 of their job, which is a member too.
    #[default]
    Job,
}

impl FleetStart {
    /// The hosts of the list; none of a job.
    pub fn hosts(&self) -> &[String] {
        match self {
            FleetStart::Launch { hosts, .. } => hosts,
            FleetStart::Job => &[],
        }
    }
}

/// What is to be measured, on whom, and how.
#[derive(Clone, Debug, Default)]
pub struct FleetSpec {
    pub pattern: FleetPattern,
    pub start: FleetStart,
    /// How many members there will be, where that is known.
    pub members: Option<usize>,
    /// This program on the members' hosts.
    pub program: String,
    /// `HOST:PORT` to listen on and to be reached by.
    pub coordinator: Option<String>,
    pub rendezvous: Option<PathBuf>,
    /// The file of a job in the home folder (`JobRank::home_file`): written where it can be.
    pub home_file: Option<PathBuf>,
    /// Data goes between the members' addresses in this network.
    pub network: Option<Network>,
    pub seconds: f64,
    pub streams: u32,
    /// Of all flows of a window together.
    pub rate_limit: Option<f64>,
    /// Racks with their uplinks; empty: the network between the members blocks nothing.
    pub fabric: Vec<FleetRack>,
    /// What is read and written, for [`FleetPattern::Disk`] and [`FleetPattern::Storage`].
    pub disks: Option<FleetDiskSpec>,
    /// Whose disks, for [`FleetPattern::Storage`].
    pub servers: Vec<String>,
    /// How the servers could keep what they hold: what that would leave of what they and the clients do.
    pub redundancy: Vec<Redundancy>,
    /// Members that have not come by then are left out.
    pub patience: Duration,
}

/// What happens, for who shows it.
#[derive(Debug)]
pub enum FleetEvent<'a> {
    /// All are there that will be.
    Gathered(&'a FleetResult),
    Absent(&'a AbsentHost),
    /// These have not come yet, and are still waited for.
    Waiting(&'a [String]),
    Lost {
        name: &'a str,
        why: &'a str,
    },
    /// So many windows are done; the product so far.
    Window {
        done: usize,
        all: usize,
        result: &'a FleetResult,
    },
}
