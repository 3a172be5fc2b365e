//! Many hosts: the site's own launcher starts the members, they connect back to the coordinator, windows of flows
//! begin at one moment on all of them, and the matrix of rates names the host or the link that differs.
//!
//! [`coordinate`] is `linerate fleet` for the command line, [`serve`] one member of it. What runs together is a
//! [`FleetPattern`]; what follows from the figures is [`judge`], a pure function; [`FleetResult`] is the product.
//! [`JobRank`] says whether this process is one of several of a job, for every command.

#![forbid(unsafe_code)]

mod coordinator;
mod differences;
mod error;
mod fair;
mod flows;
mod gather;
mod groups;
mod hosts;
mod job;
mod judge;
mod launch;
mod link;
mod member;
mod polish;
mod product;
mod protocol;
mod schedule;
mod sentence;
mod summary;
mod window;

pub use coordinator::{FleetEvent, FleetSpec, FleetStart, coordinate};
pub use error::FleetError;
pub use hosts::{HostListError, parse_hostfile, parse_hosts};
pub use job::{JobLauncher, JobRank};
pub use judge::{MatrixCell, judge};
pub use launch::{LaunchError, LaunchPlan, SSH_WORDS};
pub use member::{CoordinatorSearch, MemberSpec, serve};
pub use product::{
    AbsentHost, FleetCell, FleetDirection, FleetMember, FleetResult, FleetVerdict, FleetWindow, SlowLink,
    SlowMember,
};
pub use protocol::DEFAULT_COORDINATOR_PORT;
pub use schedule::{FleetPattern, FlowEnds, WindowPlan};
