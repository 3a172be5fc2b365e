//! Many hosts: the site's own launcher starts the members, they connect back to the coordinator, windows of flows
//! begin at one moment on all of them, and the matrix of rates names the host or the link that differs.
//!
//! [`coordinate`] is `linerate fleet` for the command line, [`serve`] one member of it. What runs together is a
//! [`FleetPattern`]; what follows from the figures is [`judge`], a pure function; [`FleetResult`] is the product.
//! [`JobRank`] says whether this process is one of several of a job, for every command.

#![forbid(unsafe_code)]

#[cfg(test)]
#[macro_use]
extern crate linerate_testing;
#[cfg(test)]
mod tests;

mod conversation;
mod coordinator;
mod disk_round;
mod disk_tasks;
mod evidence;
mod fabric;
mod flows;
mod gather;
mod hosts;
mod incast;
mod job;
mod judge;
mod judge_storage;
mod launch;
mod matrix;
mod member;
mod predict;
mod protocol;
mod redundancy;
mod rounds;
mod run;
mod schedule;
mod sentence;
mod spec;
mod summary;
mod sums;

pub use coordinator::coordinate;
pub use fabric::{FabricError, check_fabric, parse_fabric};
pub use hosts::{HostListError, parse_hostfile, parse_hosts, parse_servers};
pub use job::{JobLauncher, JobRank};
pub use judge::judge;
pub use launch::{LaunchEnd, LaunchError, LaunchPlan, LaunchedMembers, SSH_WORDS};
pub use matrix::MatrixCell;
pub use member::{CoordinatorSearch, MemberSpec, serve};
pub use protocol::DEFAULT_COORDINATOR_PORT;
pub use run::run_of;
pub use schedule::{FlowEnds, MemberRoles, WindowPlan, windows};
pub use sentence::limit_words;
pub use spec::{FleetDiskSpec, FleetError, FleetEvent, FleetSpec, FleetStart};
