//! What commands that measure have in common: what they show, how they spare a server, which meters they read.

use super::values::{rate, time};
use clap::Args;
use std::time::Duration;

/// What commands that measure show on a terminal while they work.
#[derive(Clone, Debug, Default, Args)]
pub struct LiveArgs {
    /// On a terminal, show one line of progress in place of the panel with NICs, disks, cores and the present
    /// bottleneck
    #[arg(long)]
    pub no_live: bool,
    /// In place of both, print a line this often with the rate of what is being measured, such as 1s; on standard
    /// output, or on standard error where that has --json or another --format
    #[arg(long, value_name = "TIME", conflicts_with = "no_live",
          value_parser = time(Duration::from_millis(100)..=Duration::from_secs(3600)))]
    pub interval: Option<Duration>,
}

/// How commands that measure spare a server in production.
#[derive(Clone, Debug, Default, Args)]
pub struct GentleArgs {
    /// Never move more than this, such as 2G (bits) or 100MB/s, over all workers together and evenly; what
    /// reaches it is a lower bound [default: as fast as it goes]
    #[arg(long, alias = "limit", value_name = "RATE", value_parser = rate(1e4..=1.25e14))]
    pub rate_limit: Option<f64>,
    /// Take only what nobody else wants: workers with SCHED_IDLE, and the idle I/O class, which the schedulers
    /// bfq and mq-deadline heed
    #[arg(long)]
    pub idle: bool,
}

/// Meters of power that linerate does not find by itself.
#[derive(Clone, Debug, Default, Args)]
pub struct PowerArgs {
    /// Reads a power meter: run with sh -c again and again; the first number that it prints is watts. Repeat for
    /// a machine on several meters: their sum counts [default: the meter of the machine, else of its processors]
    #[arg(long, value_name = "COMMAND")]
    pub power_command: Vec<String>,
}
