//! What commands that measure have in common: what they show, and how they spare a server.

use super::values::{rate, time};
use clap::Args;
use std::time::Duration;

/// What commands that measure show on a terminal while they work.
#[derive(Clone, Debug, Default, Args)]
pub struct LiveArgs {
    /// In place of the panel, print a line this often with the rate of what is being measured, such as 1s; on standard
    /// output, or on standard error where that has --json or another --format
    #[arg(short, long, value_name = "TIME", value_parser = time(Duration::from_millis(100)..=Duration::from_secs(3600)))]
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
