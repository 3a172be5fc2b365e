//! The flow that `run` and `check` measure, and `linerate check`.

use super::expect::ExpectArgs;
use super::measuring::GentleArgs;
use super::output::KeepingArgs;
use super::values::{Choices, PROTOCOLS, bytes, one_of, seconds, size};
use clap::Args;
use linerate_facts::protocol::Protocol;
use std::path::PathBuf;

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
    #[arg(value_name = "RESULT", conflicts_with = "EndsArgs")]
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
