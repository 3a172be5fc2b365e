//! `linerate plan`: what a machine will do, on paper; with `linerate plan raid` and `linerate plan rates`.

use super::values::{Choices, one_of, percent, rate, size, time};
use clap::{ArgAction, Args, Subcommand};
use linerate_facts::protocol::Protocol;
use linerate_machine::rates::published::{self, Load};
use linerate_machine::rates::table::TableKind;
use linerate_model::plan::flow::Method;
use linerate_model::plan::raid::{Pattern, RaidLevel};
use std::path::PathBuf;
use std::time::Duration;

/// `linerate plan`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct PlanArgs {
    #[command(subcommand)]
    pub what: Option<PlanWhat>,
    /// Machine to plan for: a description in TOML, the output of `linerate probe --json`, a run.json, a kept result like
    /// @-1, or what other tools printed about it, as `linerate probe` takes it; repeat for several listings [default: this
    /// machine]
    #[arg(long, value_name = "FILE")]
    pub machine: Vec<PathBuf>,
    /// Count what this run has measured instead of data sheets: a kept result (@-1 is the newest of all), a run.json, or
    /// the folder that holds it; none: data sheets alone [without RUN: the newest kept run of this host] [default: of
    /// this machine the median of its newest kept runs during which others used next to nothing of it]
    #[arg(long, value_name = "RUN|none", num_args = 0..=1)]
    pub measured: Option<Option<PathBuf>>,
    /// Where bytes come from and where they go
    #[arg(long, value_parser = one_of(FLOWS), default_value = "disk-to-network")]
    pub flow: (&'static str, &'static str),
    /// Source in place of that of --flow: disk:NAME, volume:NAME, nic:NAME, disk for all, or memory; repeat
    /// for several
    #[arg(long, value_name = "END")]
    pub from: Vec<String>,
    /// Sink in place of that of --flow: nic:NAME, disk:NAME, volume:NAME, gpu:NAME, nic for all, or memory;
    /// repeat for several
    #[arg(long, value_name = "END")]
    pub to: Vec<String>,
    /// Transport over the NICs
    #[arg(long, value_parser = one_of(PLAN_PROTOCOLS), default_value = "tcp")]
    pub protocol: Protocol,
    /// How bytes pass memory
    #[arg(long, value_parser = one_of(METHODS), default_value = "direct")]
    pub method: Method,
    /// What if this part were taken away; repeat for several. Changes of all kinds together are one: the flow is
    /// solved for the machine after them
    #[arg(long, value_name = "NAME")]
    pub remove: Vec<String>,
    /// What if this card were in another slot, or this disk behind another controller, like eth0=slot3; after
    /// --remove
    #[arg(long = "move", value_name = "NAME=PLACE")]
    pub moves: Vec<String>,
    /// What if there were one more part, like nic=100G:pcie3x16@node1 or disk=3.2GB/s:pcie3x4; after --move
    #[arg(long, value_name = "KIND=PART[@PLACE]")]
    pub add: Vec<String>,
    /// What if the cards that --add brings, or without one those of the flow, were in the free slots where it is fastest
    #[arg(long)]
    pub place: bool,
    /// What if a figure were another, like mtu=9000, eth0.pcie=3x16 or memory.clock=1600; after --add
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// List the parts that a flow of this rate needs, counted in line rate of the network, and the slots that
    /// cannot carry them
    #[arg(long, value_name = "RATE", value_parser = rate(1.25e5..=1e13))]
    pub target: Option<f64>,
    /// Say how many clients are fed that take this rate of payload each, and what limits the next one; or an
    /// accelerator of MLPerf Storage by name, like unet3d/h100 (`linerate plan rates loads` has all)
    #[arg(long, value_name = "RATE|LOAD", value_parser = client_rate)]
    pub each: Option<ClientRate>,
    /// … which take from one port, or from all at once, as clients of parallel file systems do
    #[arg(long, value_name = "PORTS", action = ArgAction::Set, value_parser = one_of(OVER), default_value = "one-port", requires = "each")]
    pub over: bool,
    /// … and are busy for this share of the time, else waiting [default: 100%; of a load what the benchmark asks]
    #[arg(long, value_name = "SHARE", value_parser = percent(1.0..=100.0), requires = "each")]
    pub busy: Option<f64>,
    /// Say what TCP carries over a way with this round trip, such as 50ms, and which windows and streams fill it
    #[arg(long, value_name = "TIME", value_parser = time(Duration::from_micros(1)..=Duration::from_secs(10)), conflicts_with = "each")]
    pub rtt: Option<Duration>,
    /// … where this share of the packets is lost by chance, such as 0.01%
    #[arg(long, value_name = "SHARE", value_parser = percent(0.0..=50.0), requires = "rtt")]
    pub loss: Option<f64>,
    /// … with this number of streams [default: 1]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=1024), requires = "rtt")]
    pub streams: Option<u32>,
    /// … each of which may have this much under way [default: what this host's TCP buffers let through]
    #[arg(long, value_name = "SIZE", value_parser = size(1..=1 << 40), requires = "rtt")]
    pub window: Option<u64>,
    /// … by the congestion control of this name: cubic, reno, bbr, … [default: the machine's]
    #[arg(long, value_name = "NAME", requires = "rtt")]
    pub congestion_control: Option<String>,
    /// Draw the machine after all changes, with what the flow uses of each part and what limits it, into this file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    #[arg(from_global)]
    pub json: bool,
    /// Print rules for --expect in place of the screen: what this machine should do by its parts
    #[arg(long, conflicts_with = "json")]
    pub expectations: bool,
}

/// `--each`.
#[derive(Clone, Copy, Debug)]
pub enum ClientRate {
    /// Bytes per second.
    Rate(f64),
    /// What a load that never waits takes.
    Load(Load),
}

/// A rate begins with a digit, the name of a load with a letter.
fn client_rate(text: &str) -> Result<ClientRate, String> {
    if !text.starts_with(|first: char| first.is_ascii_alphabetic()) {
        return rate(1.0..=1e13)(text).map(ClientRate::Rate);
    }
    published::load_named(text).map(ClientRate::Load).ok_or_else(|| {
        let names: Vec<&str> = published::all_loads().iter().map(|load| load.name).collect();
        format!("give a rate like 5G or 600MB/s, or one of {}", names.join(", "))
    })
}

/// `--over`: from all ports at once.
const OVER: Choices<bool> = &[("one-port", "", false), ("all-ports", "", true)];

/// What else `linerate plan` computes.
#[derive(Debug, Subcommand)]
pub enum PlanWhat {
    /// Chunk, stripe, stride and the command lines of a disk array; or check the arrays that are there
    Raid(RaidArgs),
    /// Print the published rates of links and memory
    Rates(RatesArgs),
}

/// `--flow`: source and sink in words of `--from` and `--to`.
pub(crate) const FLOWS: Choices<(&str, &str)> = &[
    ("disk-to-network", "", ("disk", "nic")),
    ("network-to-disk", "", ("nic", "disk")),
    ("memory-to-network", "", ("memory", "nic")),
    ("network-to-memory", "", ("nic", "memory")),
    ("disk-to-memory", "", ("disk", "memory")),
    ("memory-to-disk", "", ("memory", "disk")),
    ("network-to-gpu", "", ("nic", "gpu")),
    ("disk-to-gpu", "", ("disk", "gpu")),
];

/// `--protocol` of a plan: one flow has one.
const PLAN_PROTOCOLS: Choices<Protocol> = &[("tcp", "", Protocol::Tcp), ("udp", "", Protocol::Udp)];

/// `--method`.
const METHODS: Choices<Method> = &[
    ("direct", "O_DIRECT and one copy into the socket, as linerate does it", Method::Direct),
    ("zerocopy", "No copy", Method::Zerocopy),
    ("cached", "Through the page cache: one copy more", Method::Cached),
    ("rdma", "RDMA: no copy, and the NIC packs the bytes itself", Method::Rdma),
    ("tls", "TLS in software, as kTLS does it: encrypting is the one copy", Method::Tls),
    ("tls-offload", "TLS that the NIC encrypts: no copy", Method::TlsOffload),
];

/// `linerate plan raid`.
#[derive(Debug, Args)]
pub struct RaidArgs {
    /// How data is spread over the disks
    #[arg(long, value_parser = one_of(LEVELS), required_unless_present = "check", conflicts_with = "check")]
    pub level: Option<RaidLevel>,
    /// Number of disks, spares not counted; or the disks themselves, for the command lines
    #[arg(
        long,
        value_name = "DISKS|PATH,…",
        required_unless_present = "check",
        conflicts_with = "check",
        value_delimiter = ','
    )]
    pub disks: Vec<String>,
    /// What the application reads or writes at once [default: 1M; with --check, requests are not judged]
    #[arg(long, value_name = "SIZE", value_parser = size(0..=1 << 60))]
    pub request: Option<u64>,
    /// In which order, and whether it reads or writes
    #[arg(long, value_parser = one_of(PATTERNS), default_value = "sequential-read")]
    pub pattern: Pattern,
    /// Physical block of the disks; of an SSD for writes, what it erases at once
    #[arg(long, value_name = "SIZE", default_value = "4k", value_parser = size(0..=1 << 60), conflicts_with = "check")]
    pub block: u64,
    /// Compute with this chunk [default: the recommended one]
    #[arg(long, value_name = "SIZE", value_parser = size(0..=1 << 60), conflicts_with = "check")]
    pub chunk: Option<u64>,
    /// Check the arrays of this machine instead, or of a recorded tree that holds sys/ and proc/: chunk, alignment, what
    /// the file systems on them know
    #[arg(long, value_name = "DIR", num_args = 0..=1)]
    pub check: Option<Option<PathBuf>>,
    #[arg(from_global)]
    pub json: bool,
}

/// `--level`, and after `|` what it is called elsewhere.
const LEVELS: Choices<RaidLevel> = &[
    ("linear", "One disk after the other", RaidLevel::Linear),
    ("raid0|0", "Striped, nothing spare", RaidLevel::Raid0),
    ("raid1|1", "Mirrored", RaidLevel::Raid1),
    ("raid5|5", "Striped, one disk of parity", RaidLevel::Raid5),
    ("raid6|6", "Striped, two disks of parity", RaidLevel::Raid6),
    ("raid10|10", "Striped over mirrors", RaidLevel::Raid10),
    ("raidz1|raidz", "ZFS, one disk of parity", RaidLevel::Raidz1),
    ("raidz2", "ZFS, two disks of parity", RaidLevel::Raidz2),
    ("raidz3", "ZFS, three disks of parity", RaidLevel::Raidz3),
    ("btrfs-raid0", "btrfs, striped", RaidLevel::BtrfsRaid0),
    ("btrfs-raid1", "btrfs, two copies", RaidLevel::BtrfsRaid1),
    ("btrfs-raid10", "btrfs, striped, two copies", RaidLevel::BtrfsRaid10),
];

/// `--pattern`.
const PATTERNS: Choices<Pattern> = &[
    ("sequential-read", "", Pattern::SequentialRead),
    ("sequential-write", "", Pattern::SequentialWrite),
    ("random-read", "", Pattern::RandomRead),
    ("random-write", "", Pattern::RandomWrite),
];

/// `linerate plan rates`.
#[derive(Debug, Args)]
pub struct RatesArgs {
    /// What to show the rates of [default: everything]
    #[arg(value_parser = one_of(TABLES), value_name = "TABLE")]
    pub table: Option<TableKind>,
    #[arg(from_global)]
    pub json: bool,
}

/// `linerate plan rates TABLE`.
const TABLES: Choices<TableKind> = &[
    ("pcie", "PCI Express 1 to 7, PCI, PCI-X", TableKind::Pcie),
    ("memory", "DDR to DDR5, channels and DIMMs of server processors", TableKind::Memory),
    ("interconnect", "QPI, UPI, HyperTransport, xGMI, DMI, CXL", TableKind::Interconnect),
    ("ethernet", "1G to 800G: physical layers, media, reaches, goodput", TableKind::Ethernet),
    ("otn", "G.709 and SDH", TableKind::Otn),
    ("storage", "SATA, SAS, NVMe, SCSI, Fibre Channel, InfiniBand, USB", TableKind::Storage),
    ("loads", "What an accelerator of MLPerf Storage reads: names for plan --each", TableKind::Loads),
    ("instances", "What a cloud promises of its instances: network and volumes", TableKind::Instances),
];
