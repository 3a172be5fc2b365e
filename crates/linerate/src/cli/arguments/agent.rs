//! `linerate agent`.

use super::values::{rate, seconds, size};
use clap::Args;
use linerate_transport::agent::Network;
use std::path::PathBuf;

/// `linerate agent`.
#[derive(Debug, Args)]
pub struct AgentArgs {
    /// Address to listen on; repeat for several [default: every address, port 7411]
    #[arg(short = 'p', long, value_name = "[ADDRESS:]PORT")]
    pub listen: Vec<String>,
    /// File with the key; made, mode 0600, where it is absent [default: the digits in LINERATE_KEY,
    /// else $XDG_CONFIG_HOME/linerate/key]
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// Take connections from these hosts only, whether with the key; repeat for several [default: every host]
    #[arg(long, value_name = "ADDRESS[/PREFIX]")]
    pub allow: Vec<Network>,
    /// Payload that all streams of one client together may move, such as 10G [default: as fast as it goes]
    #[arg(long, value_name = "RATE", value_parser = rate(1000.0..=1.25e14))]
    pub rate_limit: Option<f64>,
    /// Length of one test; then it is ended [default: as long as the client likes]
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub time_limit: Option<f64>,
    /// Buffers of all clients' streams together, such as 512M [default: a quarter of the memory that is
    /// available at the start, 8G at most]
    #[arg(long, value_name = "SIZE", value_parser = size(1..=1 << 60))]
    pub memory_limit: Option<u64>,
    /// Store what `linerate run --flow disk-to-disk` sends in this directory, in files without a name that end
    /// with each measurement; no file that is there is touched [default: all is thrown away]
    #[arg(long, value_name = "DIR", conflicts_with = "own")]
    pub sink: Option<PathBuf>,
    /// All files in the sink together [default: what is free, but a tenth of the file system, 16G at most]
    #[arg(long, value_name = "SIZE", value_parser = size(1..=1 << 60), requires = "sink")]
    pub sink_limit: Option<u64>,
    /// Answer iperf3's clients as well, on port 5201 of the same addresses, one test at a time. Its protocol
    /// knows no key: anyone who can connect can test, within the limits above
    #[arg(long)]
    pub iperf3: bool,
    /// Let no client take of the CPUs here. While it runs, `linerate run` has the agent compute for up to a tenth of
    /// the time on the CPUs that receive from it, to measure whether they limit it; without, that is unknown
    #[arg(long)]
    pub no_experiment: bool,
    /// For linerate's own use: key from standard input, ends with it
    #[arg(long, hide = true, conflicts_with = "key_file")]
    pub own: bool,
}
