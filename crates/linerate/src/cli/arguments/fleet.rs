//! `linerate fleet` and its members.

use super::disk::{LARGEST_REQUEST, LAYOUTS, MOST_BYTES};
use super::output::{ExpectArgs, KeepingArgs};
use super::values::{Choices, one_of, rate, seconds, size, time};
use clap::Args;
use linerate_measure::measure::access::FileLayout;
use linerate_measure::run::fleet::{FleetPattern, Redundancy};
use linerate_transport::agent::Network;
use std::path::PathBuf;
use std::time::Duration;

const PATTERNS: Choices<FleetPattern> = &[
    ("pairs", "each pair alone on its two hosts, each direction", FleetPattern::Pairs),
    ("all-to-all", "everybody to everybody at once", FleetPattern::AllToAll),
    ("incast", "1, 2, 4 … all others to one, each host in turn", FleetPattern::Incast),
    ("bisection", "halves by lot against each other, or with --fabric its racks", FleetPattern::Bisection),
    (
        "storage",
        "--servers read their --source and send it: each server's disks alone, then to 1, 2, 4 … all other hosts",
        FleetPattern::Storage,
    ),
    ("disk", "every host's own --source: each host alone, then 2, 4 … all at once", FleetPattern::Disk),
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
    /// storage: the hosts whose disks are read, as in --hosts; the others are their clients
    #[arg(long, value_name = "LIST")]
    pub servers: Option<String>,
    #[command(flatten)]
    pub disk: FleetDiskArgs,
    /// TCP streams of each flow
    #[arg(short = 'P', long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub streams: u32,
    /// Length of one window of flows
    #[arg(short = 't', long, value_name = "TIME", default_value = "2", value_parser = seconds)]
    pub seconds: f64,
    /// Never move more than this, such as 2G (bits) or 100MB/s, over all hosts together [default: as fast as it
    /// goes]
    #[arg(long, value_name = "RATE", value_parser = rate(1e4..=1.25e14))]
    pub rate_limit: Option<f64>,
    #[arg(from_global)]
    pub json: bool,
    /// Folder for run.json and report.html; made where it is absent [default: not saved]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub keeping: KeepingArgs,
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
    #[arg(long, value_name = "ADDRESS/PREFIX")]
    pub network: Option<Network>,
    /// A rack and the rate of its uplink, such as h[1-3]:500M, once for each rack; or a file with one a line. What
    /// an uplink takes is predicted, and not held against a host; of a bisection without RATE, too [default: the network between the hosts blocks
    /// nothing]
    #[arg(long, value_name = "HOSTS[:RATE]|FILE")]
    pub fabric: Vec<String>,
    /// storage: how the servers could keep data, as a number of copies (3) or an erasure code (4+2): what clients
    /// would read and write then, as arithmetic; repeat for several
    #[arg(long, value_name = "COPIES|DATA+PARITY", requires = "servers")]
    pub redundancy: Vec<Redundancy>,
    /// Members that have not come by then are left out
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time(Duration::from_secs(1)..=Duration::from_secs(3600)))]
    pub join_timeout: Duration,
    #[command(flatten)]
    pub expect: ExpectArgs,
}

/// What `linerate fleet disk` and `storage` read and write: the words are those of `linerate disk`.
#[derive(Debug, Args)]
pub struct FleetDiskArgs {
    /// disk, storage: directory to make files in, or file or block device to read, by the same path on every host;
    /// repeat for several
    #[arg(long, value_name = "PATH")]
    pub source: Vec<PathBuf>,
    /// disk, storage: workers of each source
    #[arg(long, requires = "source", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub workers: u32,
    /// disk, storage: bytes of each worker, which it reads or writes once alone; flows read them over and over
    #[arg(long, requires = "source", value_name = "SIZE", default_value = "256M", value_parser = size(1..=MOST_BYTES))]
    pub amount: u64,
    /// disk, storage: bytes a request
    #[arg(long, requires = "source", value_name = "SIZE", default_value = "1M", value_parser = size(1..=LARGEST_REQUEST))]
    pub transfer: u64,
    /// disk, storage: requests in flight of each worker
    #[arg(long, requires = "source", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub queue_depth: u32,
    /// disk: a file for each worker, or one for the workers of all hosts on a file system that they share: in
    /// one piece each, or in strides
    #[arg(long, requires = "source", value_parser = one_of(LAYOUTS), default_value = "file-per-worker")]
    pub layout: FileLayout,
    /// disk: no host reads what it wrote: the sources are on a file system that all hosts share
    #[arg(long, requires = "source")]
    pub reorder: bool,
    /// disk, storage: write first, then read; flushed to the devices
    #[arg(long, requires = "source")]
    pub write: bool,
    /// disk, storage: through the page cache instead of past it (O_DIRECT)
    #[arg(long, requires = "source")]
    pub buffered: bool,
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
