//! `linerate run`: the flow, how long, and what becomes of the result.

use super::deliver::ServerTrustArgs;
use super::flow::{EndsArgs, MethodArgs};
use super::measuring::{GentleArgs, LiveArgs};
use super::output::OutputArgs;
use super::values::{Choices, PROTOCOLS, one_of, seconds, size};
use clap::Args;
use linerate_facts::protocol::Protocol;
use linerate_measure::measure::Stage;
use linerate_model::plan::{Goal, RunFlow};
use std::path::PathBuf;

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
