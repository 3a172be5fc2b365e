//! `linerate disk`.

use super::job::JobArgs;
use super::measuring::LiveArgs;
use super::output::OutputArgs;
use super::values::{Choices, one_of};
use clap::Args;
use linerate_measure::run::disk::Preparation;
use std::path::PathBuf;

/// What a job file says itself.
const JOB_OPTIONS: [&str; 16] = [
    "source",
    "workers",
    "transfer",
    "queue_depth",
    "access",
    "pattern",
    "layout",
    "engine",
    "seconds",
    "amount",
    "block",
    "buffered",
    "rate",
    "rate_limit",
    "sync",
    "every",
];

/// `linerate disk`.
#[derive(Debug, Args)]
pub struct DiskArgs {
    #[command(flatten)]
    pub job: JobArgs,
    /// Do what a job file of fio says, as far as linerate has it, instead of the options of the job; what it
    /// has not is refused by name
    #[arg(long, value_name = "FILE", conflicts_with_all = JOB_OPTIONS)]
    pub fio_job: Option<PathBuf>,
    /// Visits of each combination, in an order that favours none; the figure is their median
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: u32,
    /// Passes of a job that writes an amount; the last counts, since the first one allocates
    #[arg(long, value_name = "PASSES", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    /// Measure until the device is steady by SNIA's rule: of the last 5 measurements none is 20 % off and
    /// they drift by at most 10 %
    #[arg(long, conflicts_with = "scaling")]
    pub steady_state: bool,
    /// In each combination each source alone, then 1, 2, 3 … all of them at once: what is reached of the baseline
    /// (the sum of each alone), where it levels off, and what limits it there. With RESULT, a kept one like @-1 or a
    /// run.json, "of best alone" is of the best that one source reached there
    #[arg(long, value_name = "RESULT", num_args = 0..=1, require_equals = true)]
    pub scaling: Option<Option<PathBuf>>,
    /// One source after the other, a block device first: the same job on it and through each file system, and what those
    /// take of its rate and in CPU time
    #[arg(long, conflicts_with_all = ["scaling", "fio_job"])]
    pub tax: bool,
    /// What to call the result, such as a file system's name [default: the first source]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    #[command(flatten)]
    pub live: LiveArgs,
    #[command(flatten)]
    pub output: OutputArgs,
    /// What is done before measuring
    #[arg(long, value_name = "HOW,…", value_parser = one_of(PREPARATIONS), value_delimiter = ',')]
    pub prepare: Vec<Preparation>,
}

/// `--prepare`.
const PREPARATIONS: Choices<Preparation> = &[
    ("discard", "Discard all data of the block devices named by --destroy-data (TRIM)", Preparation::Discard),
    ("fill", "Then write these devices once in full", Preparation::Fill),
    (
        "drop-caches",
        "Before each measurement empty the page cache of the whole machine (root only): others read from disk again",
        Preparation::DropCaches,
    ),
];
