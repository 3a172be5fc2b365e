//! `linerate fleet` and its members.

use super::values::{Choices, one_of, rate, seconds, time};
use clap::Args;
use linerate_fleet::FleetPattern;
use linerate_transport::agent::{Network, NetworkError};
use std::path::PathBuf;
use std::time::Duration;

const PATTERNS: Choices<FleetPattern> = &[
    ("pairs", "each pair alone on its two hosts, each direction", FleetPattern::Pairs),
    ("all-to-all", "everybody to everybody at once", FleetPattern::AllToAll),
    ("incast", "1, 2, 4 … all others to one, each host in turn", FleetPattern::Incast),
    ("bisection", "halves by lot against each other", FleetPattern::Bisection),
];

/// `linerate fleet`.
#[derive(Debug, Args)]
pub struct FleetArgs {
    /// Who sends to whom, and what together
    #[arg(value_parser = one_of(PATTERNS))]
    pub pattern: FleetPattern,
    /// Hosts, such as a[1-8,10] or a1,a2
    #[arg(long, value_name = "LIST", conflicts_with = "hostfile")]
    pub hosts: Option<String>,
    /// File with a host a line, as mpirun reads it
    #[arg(long, value_name = "FILE")]
    pub hostfile: Option<PathBuf>,
    /// What starts linerate on the hosts, such as 'mpirun -np 8' or 'pdsh -w {hosts}'; with {host} it is started
    /// once for each [default: ssh, once for each host]
    #[arg(long, value_name = "COMMAND")]
    pub launch: Option<String>,
    /// linerate on the hosts [default: the path of this one]
    #[arg(long, value_name = "PATH")]
    pub program: Option<String>,
    /// Members to wait for, where neither a list nor the launcher says how many there are
    #[arg(long, value_name = "MEMBERS", value_parser = clap::value_parser!(u32).range(2..=4096))]
    pub members: Option<u32>,
    /// Where the members find the coordinator [default: every address of this host; in a job, rank 0 as the
    /// launcher names it, port 7412]
    #[arg(long, value_name = "HOST[:PORT]")]
    pub coordinator: Option<String>,
    /// In a job: a file on a file system that all hosts share, by which rank 0 says where it is
    #[arg(long, value_name = "FILE")]
    pub rendezvous: Option<PathBuf>,
    /// Data goes between the addresses in this network [default: those by which the members reach the
    /// coordinator]
    #[arg(long, value_name = "ADDRESS/PREFIX", value_parser = network)]
    pub network: Option<Network>,
    /// Length of one window
    #[arg(long, value_name = "TIME", default_value = "2", value_parser = seconds)]
    pub seconds: f64,
    /// Before each window, not counted
    #[arg(long, value_name = "TIME", default_value = "300ms", value_parser = time(Duration::ZERO..=Duration::from_secs(60)))]
    pub warm_up: Duration,
    /// TCP streams of each flow
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub streams: u32,
    /// Never move more than this, such as 2G (bits) or 100MB/s, over all hosts together [default: as fast as it
    /// goes]
    #[arg(long, value_name = "RATE", value_parser = rate(1e4..=1.25e14))]
    pub rate_limit: Option<f64>,
    /// Members that have not come by then are left out
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time(Duration::from_secs(1)..=Duration::from_secs(3600)))]
    pub join_timeout: Duration,
    /// Print the result as JSON on standard output, and nothing else
    #[arg(long)]
    pub json: bool,
    /// Folder for fleet.json and report.html; made where it is absent [default: not saved]
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
}

fn network(text: &str) -> Result<Network, NetworkError> {
    text.parse()
}

/// `linerate fleet-member`: for linerate's own use.
#[derive(Debug, Args)]
pub struct FleetMemberArgs {
    /// Where the coordinator is
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',', required = true)]
    pub join: Vec<String>,
    /// As the coordinator calls it
    #[arg(long)]
    pub name: Option<String>,
}
