//! `linerate plan`.

use super::values::{bytes, rate};
use super::{EXIT_STATUS, MachineArgs};
use crate::cli::raid::RaidArgs;
use clap::{Args, Subcommand, ValueEnum};
use linerate_facts::protocol::Protocol;
use linerate_model::plan::flow::Method;
use std::path::PathBuf;

/// `linerate plan`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct PlanArgs {
    #[command(subcommand)]
    pub what: Option<PlanWhat>,
    /// Machine to plan for: a description in TOML, the output of `linerate probe --json`, or a run.json
    /// [default: this machine]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["root", "lspci", "dmidecode", "lstopo", "nccl"])]
    pub machine: Option<PathBuf>,
    #[command(flatten)]
    pub told: MachineArgs,
    /// Where bytes come from and where they go
    #[arg(long, value_enum, default_value_t = FlowArg::DiskToNetwork)]
    pub flow: FlowArg,
    /// Source in place of that of --flow: disk:NAME, nic:NAME, disk for all, or memory; repeat for several
    #[arg(long, value_name = "END")]
    pub from: Vec<String>,
    /// Sink in place of that of --flow: nic:NAME, disk:NAME, gpu:NAME, nic for all, or memory; repeat for
    /// several
    #[arg(long, value_name = "END")]
    pub to: Vec<String>,
    /// Transport over the NICs
    #[arg(long, value_enum, default_value_t = PlanProtocol::Tcp)]
    pub protocol: PlanProtocol,
    /// MTU of every NIC [default: what each has]
    #[arg(long, value_name = "BYTES", value_parser = bytes(576..=65_535))]
    pub mtu: Option<u32>,
    /// How bytes pass memory
    #[arg(long, value_enum, default_value_t = PlanMethodArg::Direct)]
    pub method: PlanMethodArg,
    /// What if this part were taken away; repeat for several
    #[arg(long, value_name = "NAME")]
    pub remove: Vec<String>,
    /// What if this card were in another slot, or this disk behind another controller, like eth0=slot3; after
    /// --remove
    #[arg(long = "move", value_name = "NAME=PLACE")]
    pub moves: Vec<String>,
    /// What if there were one more part, like nic=100G:pcie3x16@node1 or disk=3.2GB/s:pcie3x4; after --move
    #[arg(long, value_name = "KIND=PART[@PLACE]")]
    pub add: Vec<String>,
    /// What if a figure were another, like mtu=9000, eth0.pcie=3x16 or memory.clock=1600; after --add
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// List the parts that a flow of this rate needs, counted in line rate of the network, and the slots that
    /// cannot carry them
    #[arg(long, value_name = "RATE", value_parser = rate(1.25e5..=1e13))]
    pub target: Option<f64>,
    /// Print the plan as JSON
    #[arg(long)]
    pub json: bool,
}

/// What else `linerate plan` computes.
#[derive(Debug, Subcommand)]
pub enum PlanWhat {
    /// Chunk, stripe, stride and the command lines of a disk array; or check the arrays that are there
    #[command(after_help = EXIT_STATUS)]
    Raid(RaidArgs),
}

/// `--flow`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FlowArg {
    DiskToNetwork,
    NetworkToDisk,
    MemoryToNetwork,
    NetworkToMemory,
    DiskToMemory,
    MemoryToDisk,
    NetworkToGpu,
    DiskToGpu,
}

impl FlowArg {
    /// Source and sink in words of `--from` and `--to`.
    pub fn ends(self) -> (&'static str, &'static str) {
        match self {
            FlowArg::DiskToNetwork => ("disk", "nic"),
            FlowArg::NetworkToDisk => ("nic", "disk"),
            FlowArg::MemoryToNetwork => ("memory", "nic"),
            FlowArg::NetworkToMemory => ("nic", "memory"),
            FlowArg::DiskToMemory => ("disk", "memory"),
            FlowArg::MemoryToDisk => ("memory", "disk"),
            FlowArg::NetworkToGpu => ("nic", "gpu"),
            FlowArg::DiskToGpu => ("disk", "gpu"),
        }
    }
}

/// `--protocol` of a plan: one flow has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PlanProtocol {
    Tcp,
    Udp,
}

impl PlanProtocol {
    /// The protocol.
    pub fn protocol(self) -> Protocol {
        match self {
            PlanProtocol::Tcp => Protocol::Tcp,
            PlanProtocol::Udp => Protocol::Udp,
        }
    }
}

/// `--method`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PlanMethodArg {
    /// O_DIRECT and one copy into the socket, as linerate does it
    Direct,
    /// No copy
    Zerocopy,
    /// Through the page cache: one copy more
    Cached,
}

impl PlanMethodArg {
    /// The method.
    pub fn method(self) -> Method {
        match self {
            PlanMethodArg::Direct => Method::Direct,
            PlanMethodArg::Zerocopy => Method::Zerocopy,
            PlanMethodArg::Cached => Method::Cached,
        }
    }
}
