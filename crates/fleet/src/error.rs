//! Why a fleet, or a member of one, cannot go on.

use crate::fabric::FabricError;
use crate::hosts::HostListError;
use crate::launch::LaunchError;
use linerate_facts::failure::Failure;
use linerate_transport::agent::Broken;
use std::net::SocketAddr;
use std::path::PathBuf;

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
