//! `linerate run`: the flow, how long, and what becomes of the result.

use super::deliver::ServerTrustArgs;
use super::expect::ExpectArgs;
use super::flow::FlowArgs;
use super::measuring::{GentleArgs, LiveArgs, PowerArgs};
use super::output::{FormatArg, KeepingArgs};
use super::values::{Choices, PROTOCOLS, one_of, seconds, size};
use clap::Args;
use linerate_facts::protocol::Protocol;
use linerate_measure::measure::Stage;
use linerate_model::plan::RunFlow;
use std::path::PathBuf;

/// `linerate run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub flow: FlowArgs,
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
    /// What stays free of the file system of each --sink [default: a tenth of it, 16G at most]
    #[arg(long, value_name = "SIZE", value_parser = size(0..=1 << 60), requires = "sink")]
    pub sink_keep: Option<u64>,
    /// All files in a --sink together [default: what is free]
    #[arg(long, value_name = "SIZE", value_parser = size(1..=1 << 60), requires = "sink")]
    pub sink_limit: Option<u64>,
    #[command(flatten)]
    pub server: ServerTrustArgs,
    /// Stages to measure
    #[arg(long, value_parser = one_of(STAGES), value_delimiter = ',', default_values = ["memory", "disk", "network", "path"])]
    pub stages: Vec<Stage>,
    /// Length of one sample, such as 2 (seconds) or 500ms [default: fitted to --budget]
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub seconds: Option<f64>,
    /// Rounds in which disks, NICs and the path take turns: six and more can confirm a verdict; what --budget
    /// leaves goes to the path and to what limits it
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: u32,
    /// Time for all measurements together, however many devices there are
    #[arg(long, value_name = "TIME", default_value = "57", value_parser = seconds)]
    pub budget: f64,
    /// Take five minutes, with as many rounds as fit: narrower intervals
    #[arg(long, conflicts_with_all = ["budget", "repeats", "seconds"])]
    pub thorough: bool,
    /// Take nothing from the flow: what limits it is then inferred from its waits and counters, not measured
    #[arg(long)]
    pub observe: bool,
    #[command(flatten)]
    pub gentle: GentleArgs,
    /// Keep cores from deep sleep while linerate works (/dev/cpu_dma_latency; needs root, more power)
    #[arg(long)]
    pub awake: bool,
    #[command(flatten)]
    pub power: PowerArgs,
    #[command(flatten)]
    pub live: LiveArgs,
    /// Print the run as JSON on standard output, and nothing else; short for --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// What to print on standard output; line: the run in one line, for the log of a cron job [default: text]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<FormatArg>,
    /// Folder for run.json and report.html [default: a new one, linerate-DATE-TIME; with --format line none]
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub keeping: KeepingArgs,
    #[command(flatten)]
    pub expect: ExpectArgs,
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
