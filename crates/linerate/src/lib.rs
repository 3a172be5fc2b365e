//! linerate: how fast can this server move bytes from its disks to its network, what stops it, what do I change?
//!
//! One forward path: probe → plan → measure → diagnose → report. Each room's `mod.rs` shows its product and its one public function.

#![forbid(unsafe_code)]

pub mod agent;
pub mod capture;
pub mod cli;
pub mod diagnose;
pub mod event;
pub mod fact;
pub mod failure;
pub mod flow;
pub mod iperf3;
pub mod measure;
pub mod plan;
pub mod probe;
pub mod rates;
pub mod report;
pub mod run;
pub mod sysroot;
pub mod tune;
pub mod units;
pub mod wall;
pub mod watch;
pub mod web;
