//! What needs root: namespaces, file systems and devices of its own. Without root each test says that it is
//! skipped.

#![allow(unreachable_pub)]

#[path = "../support/mod.rs"]
mod support;

mod bad_disk;
mod check;
mod deliver;
mod deliver_limits;
mod deliver_nic;
mod disk;
mod experiment;
mod experiment_kills;
mod explain;
mod explain_experiment;
mod fleet;
mod hanging_sink;
mod ledger;
mod load;
mod long_path;
mod network;
mod others;
mod read_again;
mod receive;
mod script;
mod server_in_qemu;
mod sink;
mod table;
mod tune_measure;
mod wall;
mod wall_networks;
mod watch;
mod watch_figures;
