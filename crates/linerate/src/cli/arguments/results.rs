//! Commands on results that are there: `linerate list`, `report` and `compare`; and `linerate reproduce`,
//! which holds those of a paper to this program.

use super::output::{ExpectArgs, FormatArg};
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

/// `linerate reproduce`.
#[derive(Debug, Args)]
pub struct ReproduceArgs {
    /// Experiments of a paper, in TOML, or one that ships with linerate by its name [default: lists those]
    #[arg(required_if_eq("json", "true"))]
    pub paper: Option<PathBuf>,
    /// Plan for the paper's own machine, on paper, and measure nothing
    #[arg(long, requires = "paper")]
    pub plan: bool,
    /// What a name in braces in the paper's commands is here, like nic=eth0; repeat for several [default: folder is the
    /// current directory]
    #[arg(long, value_name = "NAME=VALUE", value_parser = part, conflicts_with = "plan")]
    pub with: Vec<(String, String)>,
    /// Write the page into this file as well
    #[arg(long, value_name = "FILE", requires = "paper")]
    pub html: Option<PathBuf>,
    #[arg(from_global)]
    pub json: bool,
}

fn part(text: &str) -> Result<(String, String), String> {
    let (name, value) =
        text.split_once('=').ok_or_else(|| format!("“{text}” is not NAME=VALUE, like nic=eth0"))?;
    if name.is_empty() || value.is_empty() {
        return Err(format!("“{text}” lacks a name or a value: write it like nic=eth0"));
    }
    // It follows an option: a value that looks like one would be another option.
    if value.starts_with('-') {
        return Err(format!("“{value}” looks like an option; name a part of this machine"));
    }
    Ok((name.into(), value.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_a_name_and_a_value() {
        assert_eq!(part("nic=eth0"), Ok(("nic".into(), "eth0".into())));
        for wrong in ["nic", "=eth0", "nic=", "nic=--destroy-data"] {
            assert!(part(wrong).is_err(), "{wrong}");
        }
    }
}
