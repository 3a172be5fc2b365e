//! How a result is given: as screen, JSON, CSV or in fio's shape on standard output, and saved in a folder.

use super::expect::ExpectArgs;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

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
