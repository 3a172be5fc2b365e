//! linerate: how fast can this server move bytes from its disks to its network, what limits it, what do I
//! change?
//!
//! One forward path: probe → plan → measure → diagnose → report, a crate for each part of it. This one is the
//! command line, and the whole under one name for those who use linerate as a library.

#![forbid(unsafe_code)]

pub mod cli;

pub use linerate_deliver as deliver;
pub use linerate_explain as explain;
pub use linerate_facts::{counters, fact, failure, printable, protocol, sysroot, units, usage};
pub use linerate_fleet as fleet;
pub use linerate_interop as interop;
pub use linerate_machine::{capture, probe, rates, topology};
pub use linerate_measure::{diagnose, event, measure, run};
pub use linerate_model::{plan, verdict};
pub use linerate_report as report;
pub use linerate_transport::{address, agent, flow, iperf3, perftest};
pub use linerate_tune as tune;
pub use linerate_wall as wall;
pub use linerate_watch as watch;
pub use linerate_web as web;
