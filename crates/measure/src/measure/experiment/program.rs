//! A flow that is not linerate's: what is taken of it, and who counts its bytes. Nothing of it can be raised. And why
//! of any flow nothing was taken, or why what was taken says nothing.

use linerate_model::shares::Hopeless;
use std::fs::File;
use std::io;
use std::time::Duration;

/// Counts a flow that linerate does not move.
pub trait ForeignFlow {
    /// Bytes so far; none: it is not there any more.
    fn bytes(&mut self) -> Option<u64>;

    /// They are counted no more often than this.
    fn pause(&self) -> Duration;
}

/// What is taken of what a program uses.
#[derive(Debug)]
pub struct ProgramTakerSpec {
    /// The program's name.
    pub name: String,
    pub disks: Vec<ProgramDisk>,
    /// All CPUs that its threads may run on; empty: nothing is taken of them.
    pub cores: Vec<u32>,
    /// Share of the time in which it needs a CPU.
    pub cpu_busy: f64,
    /// Ids of what may be busy and cannot be taken from.
    pub untaken: Vec<String>,
    /// Threads that move its bytes, and what each moves at once.
    pub threads: u32,
    pub step_bytes: u64,
    pub round_trip_seconds: f64,
    /// Observing and taking together.
    pub longest: Duration,
}

/// A disk, and a file on it that is read beside the program.
#[derive(Debug)]
pub struct ProgramDisk {
    /// By the kernel.
    pub name: String,
    /// Open past the page cache.
    pub file: File,
    pub label: String,
    /// Where the program is in it.
    pub position: u64,
    pub bytes: u64,
    pub block_bytes: u64,
}

/// In a sentence after `Not measured: `.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    #[error("the path is too far for slots of a second")]
    FarPath,
    #[error("a source cannot be read past the page cache (O_DIRECT): a taker would read memory")]
    CachedSource,
    #[error("the agent bounds what this host may move")]
    AgentRateLimit,
    /// Of the flow that is taken from, in its own words.
    #[error("{0}")]
    Flow(String),
    #[error("{path}: {error}")]
    UnreadSource { path: String, error: io::Error },
    #[error("a taker did not start: {0}")]
    NoTaker(io::Error),
    #[error("{0}")]
    Hopeless(Hopeless),
    #[error("nothing that it uses is busy and can be taken from")]
    NothingToTake,
    #[error("the flow ended before anything was taken")]
    FlowEnded,
    #[error(
        "in two slots the flow moved less than three quarters of what it had moved before, so no more was taken"
    )]
    Spared,
}
