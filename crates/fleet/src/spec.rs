//! What a fleet is to measure, what is reported of it meanwhile, and why it, or a member of it, cannot go on.

use crate::fabric::FabricError;
use crate::hosts::HostListError;
use crate::launch::{LaunchError, LaunchPlan};
use linerate_facts::failure::Failure;
use linerate_measure::measure::access::FileLayout;
use linerate_measure::run::fleet::{AbsentHost, FleetPattern, FleetRack, FleetResult, Redundancy};
use linerate_transport::agent::{Broken, Network};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
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

/// What the user reads is one sentence: the thing, the likely cause, the remedy.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    #[error("--hosts {text}: {why}")]
    Hosts { text: String, why: HostListError },
    #[error("--servers {text}: {why}")]
    Servers { text: String, why: HostListError },
    #[error("hostfile {}: {why}", file.display())]
    Hostfile { file: PathBuf, why: HostListError },
    #[error("hostfile {} cannot be read: {error}; name a file with a host a line", file.display())]
    UnreadHostfile { file: PathBuf, error: std::io::Error },
    #[error(transparent)]
    Fabric(#[from] FabricError),
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error("the coordinator has no key: {0}")]
    Key(Failure),
    #[error("the coordinator cannot listen: {0}")]
    Listen(Failure),
    #[error(
        "the coordinator has no address that members could connect to; name one with --coordinator HOST:PORT"
    )]
    NoAddress,
    #[error("--coordinator {text}: no address is found for it here; write HOST:PORT, or [IPV6]:PORT")]
    UnknownCoordinator { text: String },
    #[error("the file {} for the rendezvous cannot be written: {error}; name one that all hosts share", file.display())]
    Rendezvous { file: PathBuf, error: std::io::Error },
    #[error("{joined} of {expected} members came within {seconds:.0} s, and two at least are needed; {why}")]
    TooFew { joined: usize, expected: String, seconds: f64, why: String },
    #[error("{ipv4} is reached by IPv4 and {ipv6} by IPv6: name one network that all have with --network")]
    MixedFamilies { ipv4: String, ipv6: String },
    #[error("{name} has no address in {network}: name a network that all members have with --network")]
    NotInNetwork { name: String, network: String },
    #[error("the member cannot take data: {0}")]
    Member(Failure),
    #[error(
        "no coordinator was reached: {last}; does it run, and may this host connect there? Name it with \
         --coordinator HOST:PORT or --rendezvous FILE"
    )]
    NoCoordinator { last: String },
    #[error(
        "the coordinator at {address} speaks version {digit} of the channel; install the same version on all hosts"
    )]
    OtherFraming { address: SocketAddr, digit: char },
    #[error("the coordinator refused this member: {why}")]
    Refused { why: String },
    #[error("the coordinator is gone: {why}")]
    CoordinatorLost { why: String },
    #[error("interrupted before anything was measured: nothing was saved")]
    Stopped,
}

impl FleetError {
    /// The words were wrong, and not what they name.
    pub fn is_usage(&self) -> bool {
        match self {
            FleetError::Hosts { .. }
            | FleetError::Servers { .. }
            | FleetError::Hostfile { .. }
            | FleetError::Fabric(_) => true,
            FleetError::Launch(error) => error.is_usage(),
            _ => false,
        }
    }
}

/// Why a connection became no member.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JoinError {
    #[error(transparent)]
    Broken(#[from] Broken),
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error("its first message is not a hello")]
    NoHello,
    #[error("a second member called {name} came and was left out: start one alone on each host")]
    Twice { name: String },
    #[error(
        "member {name} runs linerate {version} (fleet protocol {protocol}), this is linerate {} (fleet protocol {own}); \
         install the same version on all hosts",
        env!("CARGO_PKG_VERSION")
    )]
    OtherProtocol { name: String, version: String, protocol: u32, own: u32 },
}
