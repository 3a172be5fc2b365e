//! Commands on results that are there: `linerate list`, `report` and `compare`.

use super::expect::ExpectArgs;
use super::output::FormatArg;
use clap::Args;
use std::path::PathBuf;

/// `linerate list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Folder of results to list instead of the kept ones: run.json files, folders that hold one, and results of fio,
    /// iperf3, nuttcp, IOR and elbencho, known by what is in them
    #[arg(value_name = "DIR")]
    pub folder: Option<PathBuf>,
    /// Show the transfers of get, put and serve, too
    #[arg(long)]
    pub all: bool,
    #[arg(from_global)]
    pub json: bool,
}

/// `linerate report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// run.json, the folder that holds it, a kept result (@-1 is the newest), or a result of another tool: the JSON of
    /// fio or iperf3, what nuttcp or IOR printed, the CSV of elbencho
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// Write the page to this file instead of printing the screen
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pub html: Option<PathBuf>,
    /// What to print on standard output [default: text]
    #[arg(long, value_enum, value_name = "FORMAT", conflicts_with_all = ["html", "json"])]
    pub format: Option<FormatArg>,
    /// Replace host names, addresses, folders, users and serial numbers; equal ones stay equal
    #[arg(long)]
    pub anonymous: bool,
    #[arg(from_global)]
    pub json: bool,
    /// Print rules for --expect in place of the screen: what this result, of a machine that is good, holds to
    #[arg(long, conflicts_with_all = ["html", "json", "format"])]
    pub expectations: bool,
}

/// `linerate compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// run.json files, folders that hold one, or kept results (@-1 is the newest, @-2 the one before, @disk-1 the
    /// newest of `linerate disk`), or results of fio, iperf3, nuttcp, IOR or elbencho; the first is what the others are
    /// held against. Fleets are compared with fleets of the same pattern [default: the newest two kept measurements of one command and goal]
    #[arg(value_name = "RUN", num_args = 0..)]
    pub runs: Vec<PathBuf>,
    /// Take runs of the same name for repeats of one another: their samples become one
    #[arg(long)]
    pub join: bool,
    /// Print a line for each rate of each run as CSV
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    #[arg(from_global)]
    pub json: bool,
    /// Folder for compare.json and report.html with the plots of all runs over each other [default: nothing
    /// is saved]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Rules for each run but the first, which they call 'first'
    #[command(flatten)]
    pub expect: ExpectArgs,
}
