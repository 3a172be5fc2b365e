//! The commands that say what limits a flow: `linerate run` and `linerate check` measure one, from its ends to
//! what becomes of the result; `linerate explain` looks at the one of another program.

use super::deliver::ServerTrustArgs;
use super::output::{ExpectArgs, GentleArgs, KeepingArgs, LiveArgs, OutputArgs};
use super::values::{Choices, PROTOCOLS, bytes, one_of, seconds, size, time};
use clap::Args;
use linerate_explain::ExplainTarget;
use linerate_facts::protocol::Protocol;
use linerate_measure::measure::Stage;
use linerate_model::plan::{Goal, RunFlow};
use std::path::PathBuf;
use std::time::Duration;

/// The ends of the path that is measured.
#[derive(Clone, Debug, Args)]
pub struct EndsArgs {
    /// File or block device to read, or directory to write a nameless scratch file in and read that; repeat for several
    /// disks [default: .]. Of `run` also http:// or https://HOST[:PORT]/PATH, a file of any server: the flow comes from
    /// there, and is thrown away, or stored in --sink
    #[arg(long, value_name = "PATH|URL")]
    pub source: Vec<PathBuf>,
    /// Length of each scratch file, written whole, however long it takes [default: what is written in 8
    /// seconds, less with a short --budget, 4G at most; a tenth of the disk, or 16G, stays free]
    #[arg(long, value_name = "SIZE", value_parser = size(64 << 20..=1 << 60))]
    pub amount: Option<u64>,
    /// Address of an agent, one for each path; repeat for several NICs [default: a built-in receiver on
    /// loopback]
    #[arg(long, value_name = "ADDRESS[:PORT]")]
    pub peer: Vec<String>,
    /// File with the agents' key [default: the digits in LINERATE_KEY, else
    /// $XDG_CONFIG_HOME/linerate/key]
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
}

/// How `linerate run` moves the bytes.
#[derive(Clone, Debug, Default, Args)]
pub struct MethodArgs {
    /// Bytes a read, such as 1M [default: chosen by the plan]
    #[arg(long, alias = "block", value_name = "SIZE", value_parser = sectors)]
    pub transfer: Option<u64>,
    /// Reads in flight over each source [default: chosen by the plan]
    #[arg(long, value_name = "READS", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub queue_depth: Option<u32>,
    /// Workers a NIC: threads with a stream each [default: as many as its rate takes, by what one was measured
    /// to carry before, or is likely to; of TCP over a far way that loses packets, as many as fill it, 16 at most]
    #[arg(short = 'P', long, visible_alias = "streams", value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub workers: Option<u32>,
    /// Payload of a UDP datagram, such as 1472 [default: what the path's MTU carries]
    #[arg(long, value_name = "BYTES", value_parser = bytes(64..=65_507))]
    pub datagram: Option<u32>,
    /// TCP congestion control of our sockets, such as cubic [default: the system's]
    #[arg(long, value_name = "NAME")]
    pub congestion_control: Option<String>,
    /// How blocks are handed to TCP [default: where packets leave by a NIC, what a short trial finds better]
    #[arg(long, value_parser = one_of(METHODS))]
    pub method: Option<bool>,
    /// Checksum the bytes at both ends (TCP)
    #[arg(long)]
    pub verify: bool,
}

/// `linerate check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Judge this result in place of measuring: run.json, the folder that holds it, or a kept result (@-1 is the
    /// newest); of any command that measures
    #[arg(value_name = "RESULT", conflicts_with_all = ["EndsArgs", "protocol", "budget", "GentleArgs"])]
    pub result: Option<PathBuf>,
    #[command(flatten)]
    pub ends: EndsArgs,
    /// What to measure over the network; the first is the headline
    #[arg(long, value_parser = one_of(PROTOCOLS), default_value = "tcp")]
    pub protocol: &'static [Protocol],
    /// Time for all measurements together; results of another budget are no history of this one
    #[arg(short = 't', long, value_name = "TIME", default_value = "25", value_parser = seconds)]
    pub budget: f64,
    #[command(flatten)]
    pub gentle: GentleArgs,
    /// Write the figures and the verdict into this file as well, for the textfile collector of node_exporter; a
    /// reader finds the old file or the new one
    #[arg(long, value_name = "FILE")]
    pub prometheus: Option<PathBuf>,
    #[arg(from_global)]
    pub json: bool,
    #[command(flatten)]
    pub keeping: KeepingArgs,
    #[command(flatten)]
    pub expect: ExpectArgs,
}

/// `--method`: whether zero copy is asked for.
const METHODS: Choices<bool> = &[
    ("write", "send: the kernel copies each block into the socket", false),
    ("zerocopy", "from where they lie (io_uring's SEND_ZC, Linux 6.2), until the kernel refuses it", true),
];

/// Direct I/O wants whole sectors; a block larger than 1 GiB is no transfer size.
fn sectors(text: &str) -> Result<u64, String> {
    match size(512..=1 << 30)(text)? {
        bytes if bytes.is_multiple_of(512) => Ok(bytes),
        bytes => Err(format!("{bytes} bytes: direct I/O wants a multiple of 512")),
    }
}

const MOST_ROUNDS: u32 = 1000;
/// Within what the budget then says.
pub(crate) const ROUNDS: u32 = 6;

/// `linerate run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub ends: EndsArgs,
    /// What to measure over the network; the first is the headline
    #[arg(long, value_parser = one_of(PROTOCOLS), default_value = "both")]
    pub protocol: &'static [Protocol],
    /// From where to where; what is stored, or comes from the peer, goes over TCP
    #[arg(long = "flow", value_parser = one_of(RUN_FLOWS), default_value = "disk-to-network")]
    pub run_flow: RunFlow,
    /// With --flow network-to-disk: store in this directory, in files without a name that end with each measurement; no
    /// file that is there is touched. Repeat for several disks
    #[arg(long, value_name = "DIR")]
    pub sink: Vec<PathBuf>,
    /// All files in a --sink together [default: what is free, but a tenth of the file system, 16G at most]
    #[arg(long, value_name = "SIZE", value_parser = size(1..=1 << 60), requires = "sink")]
    pub sink_limit: Option<u64>,
    #[command(flatten)]
    pub method: MethodArgs,
    /// Stages to measure
    #[arg(long, value_parser = one_of(STAGES), value_delimiter = ',', default_values = ["memory", "disk", "network", "path"])]
    pub stages: Vec<Stage>,
    /// Length of one sample, such as 2 (seconds) or 500ms [default: fitted to --budget]
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub seconds: Option<f64>,
    /// Rounds in which disks, NICs and the path take turns: six and more can confirm a verdict; what --budget
    /// leaves goes to the path and to what limits it [default: 6; with a longer --budget as many as it holds]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: Option<u32>,
    /// Time for all measurements together, however many devices there are; more of it, such as 5m, makes intervals
    /// narrower [default: 40 seconds; 57 where nothing is taken from the flow]
    #[arg(short = 't', long, value_name = "TIME", value_parser = seconds)]
    pub budget: Option<f64>,
    /// Take nothing from the flow: what limits it is then inferred from its waits and counters, not measured
    #[arg(long)]
    pub observe: bool,
    #[command(flatten)]
    pub gentle: GentleArgs,
    #[command(flatten)]
    pub live: LiveArgs,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub server: ServerTrustArgs,
}

impl RunArgs {
    /// The time that was asked for, or the usual one; and so many rounds: six, or as many as a longer time holds.
    pub fn with_time(&self, goal: Goal) -> Goal {
        let usual_seconds = goal.usual_budget_seconds();
        let budget_seconds = self.budget.unwrap_or(usual_seconds);
        let usual_rounds = if budget_seconds > usual_seconds { MOST_ROUNDS } else { ROUNDS };
        Goal { budget_seconds, repeats: self.repeats.unwrap_or(usual_rounds), ..goal }
    }
}

/// `--flow` of a run.
const RUN_FLOWS: Choices<RunFlow> = &[
    ("disk-to-network", "the peer throws away what arrives", RunFlow::DiskToNetwork),
    ("disk-to-disk", "it is stored there: `linerate agent --sink DIR`", RunFlow::DiskToDisk),
    ("network-to-disk", "the peer sends from its memory, and --sink stores it here", RunFlow::NetworkToDisk),
    (
        "network-to-memory",
        "the peer sends from its memory, and it is thrown away here",
        RunFlow::NetworkToMemory,
    ),
];

/// `--stages`.
const STAGES: Choices<Stage> = &[
    ("memory", "", Stage::Memory),
    ("disk", "", Stage::Disk),
    ("network", "", Stage::Network),
    ("path", "", Stage::Path),
];

/// `linerate explain`.
#[derive(Debug, Args)]
#[group(skip)]
pub struct ExplainArgs {
    /// The program: the number of a process, or its name
    #[arg(value_name = "PID|NAME", required_unless_present_any = ["port", "unit", "container"])]
    pub program: Option<String>,
    /// The program that listens at this TCP port
    #[arg(short, long, value_name = "N", conflicts_with_all = ["program", "unit", "container"], value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,
    /// All processes of this unit of systemd
    #[arg(long, value_name = "UNIT", conflicts_with_all = ["program", "container"])]
    pub unit: Option<String>,
    /// All processes of this container, by its ID
    #[arg(long, value_name = "ID", conflicts_with = "program")]
    pub container: Option<String>,
    /// How long it is observed
    #[arg(short = 't', long, value_name = "TIME", value_parser = time(Duration::from_secs(1)..=Duration::from_secs(3600)), default_value = "10")]
    pub seconds: Duration,
    /// Then takes a little of the disks that it reads, of its CPUs, and of the NIC that leads to --peer, for moments, 40 s at
    /// most: what it loses by that shows what limits it. Says what it takes and asks first; nothing is written
    #[arg(long)]
    pub experiment: bool,
    /// Address of an agent behind the NIC over which the program sends: what is sent there is taken from that
    #[arg(long, value_name = "ADDRESS[:PORT]", requires = "experiment")]
    pub peer: Option<String>,
    /// File with the agent's key [default: the digits in LINERATE_KEY, else $XDG_CONFIG_HOME/linerate/key]
    #[arg(long, value_name = "FILE", requires = "peer")]
    pub key_file: Option<PathBuf>,
    /// Take it without asking
    #[arg(long, requires = "experiment")]
    pub yes: bool,
    #[arg(from_global)]
    pub json: bool,
    #[command(flatten)]
    pub keeping: KeepingArgs,
}

impl ExplainArgs {
    /// Which program is meant.
    pub fn target(&self) -> ExplainTarget {
        match (&self.program, self.port, &self.unit, &self.container) {
            (_, Some(port), ..) => ExplainTarget::Port(port),
            (_, _, Some(unit), _) => ExplainTarget::Unit(unit.clone()),
            (_, _, _, Some(container)) => ExplainTarget::Container(container.clone()),
            (program, ..) => {
                let name = program.clone().unwrap_or_default();
                name.parse().map_or(ExplainTarget::Name(name), ExplainTarget::Process)
            }
        }
    }
}
