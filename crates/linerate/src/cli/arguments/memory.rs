//! `linerate memory`.

use super::output::{LiveArgs, OutputArgs};
use super::values::{Choices, one_of, seconds};
use clap::Args;
use linerate_facts::units::parse_size;
use linerate_measure::measure::memory_sweep::{Cores, MemoryKernel, WorkingSet};

/// Largest stride: a piece of an array is no longer.
const LARGEST_STRIDE_BYTES: u64 = 1 << 20;

/// `linerate memory`.
#[derive(Debug, Args)]
pub struct MemoryArgs {
    /// What is done with the words of the arrays; what stores does so through the caches and past them [default: all]
    #[arg(long, value_parser = one_of(KERNELS), value_delimiter = ',', value_name = "KERNEL,…")]
    pub kernels: Vec<MemoryKernel>,
    /// Distance of the words that are touched: 4 is each, 64 one in each cache line, 4k one in each page
    #[arg(long, value_parser = stride, value_delimiter = ',', value_name = "SIZE,…")]
    pub stride: Vec<u64>,
    /// Size of all arrays of all cores together, such as 256k; or L1, L2, L3 (half of that level) or memory
    /// (each array four times the last level)
    #[arg(long, value_parser = working_set, value_delimiter = ',', value_name = "SIZE|LEVEL,…")]
    pub working_set: Vec<WorkingSet>,
    /// Cores at work, such as 1,2,4,all: one thread of each core before the second ones, node by node
    #[arg(long, value_parser = cores, value_delimiter = ',', value_name = "COUNT,…")]
    pub cores: Vec<Cores>,
    /// Length of one sample in seconds [default: 0.1, less where there are many points]
    #[arg(short = 't', long, value_name = "TIME", value_parser = seconds)]
    pub seconds: Option<f64>,
    /// Samples of each point; the figure is their median
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: u32,
    #[command(flatten)]
    pub live: LiveArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// `--kernels`.
const KERNELS: Choices<MemoryKernel> = &[
    ("read", "Load each word", MemoryKernel::Read),
    ("write", "Store each word", MemoryKernel::Write),
    ("copy", "a = b", MemoryKernel::Copy),
    ("triad", "a = b + 3c, in double precision", MemoryKernel::Triad),
    ("latency", "Follow a chain of links in random order, one in each cache line", MemoryKernel::Latency),
];

fn stride(text: &str) -> Result<u64, String> {
    match parse_size(text).map_err(|error| error.to_string())? {
        bytes @ 4..=LARGEST_STRIDE_BYTES if bytes.is_multiple_of(4) => Ok(bytes),
        bytes => Err(format!("{bytes} bytes: a stride is a multiple of 4 between 4 and 1M")),
    }
}

fn working_set(text: &str) -> Result<WorkingSet, String> {
    if text.eq_ignore_ascii_case("memory") {
        return Ok(WorkingSet::Memory);
    }
    let level = text.strip_prefix(['L', 'l']).and_then(|level| level.parse().ok());
    match level {
        Some(level) => Ok(WorkingSet::Level(level)),
        None => parse_size(text).map(WorkingSet::Bytes).map_err(|_| {
            format!("“{text}” is not a working set: write a size like 256k, a cache level like L2, or memory")
        }),
    }
}

fn cores(text: &str) -> Result<Cores, String> {
    match text.parse() {
        _ if text.eq_ignore_ascii_case("all") => Ok(Cores::All),
        Ok(count) if count > 0 => Ok(Cores::Some(count)),
        _ => Err(format!("“{text}” is not a number of cores: write 1, 2, … or all")),
    }
}
