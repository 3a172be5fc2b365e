//! What a command shows while it measures, how it spares the server, and how it gives its result: as screen,
//! JSON, CSV or in fio's shape on standard output, saved in a folder, and held to the rules of `--expect`.

use super::values::{rate, time};
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

/// Where the result of a measurement goes, and how.
#[derive(Clone, Debug, Args)]
pub struct OutputArgs {
    #[arg(from_global)]
    pub json: bool,
    /// What to print on standard output [default: text]
    #[arg(long, value_enum, value_name = "FORMAT", conflicts_with = "json")]
    pub format: Option<FormatArg>,
    /// Folder for run.json, saved as it goes, and report.html; made where it is absent [default: the result is
    /// kept for `linerate list` alone]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub keeping: KeepingArgs,
    #[command(flatten)]
    pub expect: ExpectArgs,
}

/// Whether a result is kept for later commands.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct KeepingArgs {
    /// Do not keep the result for `linerate list` and for later commands, which name it @-1
    #[arg(long)]
    pub no_save: bool,
}

/// `--format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FormatArg {
    /// The screen
    Text,
    /// run.json
    Json,
    /// A line for each measurement
    Csv,
    /// All of it in one line: time, host, command, and what came of it
    Line,
    /// As `fio --output-format=json`, a job for each measurement
    FioJson,
}

impl OutputArgs {
    /// What goes to standard output.
    pub fn format(&self) -> FormatArg {
        self.format.unwrap_or(if self.json { FormatArg::Json } else { FormatArg::Text })
    }
}

/// What a result has to be (`--expect`): the same for all commands that measure, look or compare.
#[derive(Clone, Debug, Default, Args)]
pub struct ExpectArgs {
    /// Hold the result to this rule, like 'path >= 0.9 likely', 'disk:* >= 3GB/s', 'p99 < 10ms', 'network loss < 0.1%',
    /// 'probe: no link below its best', 'twins within 10%', 'like node3.json' (of a comparison 'like first') or 'as
    /// usual', or to those of a TOML file; repeat for several. Each has its line; exit status 5: one failed, 6: one
    /// cannot be judged
    #[arg(long, value_name = "RULE|FILE")]
    pub expect: Vec<String>,
    /// Write what became of the rules into this file as well, as JUnit XML for a CI; replaced where it is there
    #[arg(long, value_name = "FILE", requires = "expect")]
    pub junit: Option<PathBuf>,
}

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
