//! Commands on results that are there: `linerate list`, `diagnose` and `report`.

use clap::Args;
use std::path::PathBuf;

/// `linerate list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Show the transfers of get, put and serve, too
    #[arg(long)]
    pub all: bool,
    /// Print the list as JSON on standard output, and nothing else
    #[arg(long)]
    pub json: bool,
}

/// `linerate diagnose`.
#[derive(Debug, Args)]
pub struct DiagnoseArgs {
    /// run.json, the folder that holds it, or a kept result (@-1 is the newest)
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// Print the diagnosis as JSON
    #[arg(long)]
    pub json: bool,
}

/// `linerate report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// run.json, the folder that holds it, or a kept result (@-1 is the newest)
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// Write the HTML page to this file instead of printing the screen
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Open the page in the browser (xdg-open): the file of --html, else one in a temporary folder of this user
    #[arg(long)]
    pub open: bool,
    /// Replace what says whose machine it is, the same by the same everywhere: host names, addresses, folders,
    /// users, serial numbers
    #[arg(long)]
    pub anonymous: bool,
    /// Print the run as JSON
    #[arg(long, conflicts_with_all = ["html", "open"])]
    pub json: bool,
}
