//! One flow to measure: who moves its bytes, and what is behind them. For its cached source a piece of each file is
//! brought into the page cache before, and out of it after.

use super::Stages;
use super::product::Stage;
use super::window::WindowSpec;
use linerate_facts::protocol::Protocol;
use linerate_model::plan::schedule::FlowTurn;
use linerate_model::plan::{Goal, RunFlow, SourcePlan, WorkerPlan};
use linerate_system::stop::Stop;
use linerate_system::{clock, file};
use linerate_transport::agent::SinkRequest;
use linerate_transport::flow::rate_limit::RateLimit;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// Bytes a send from memory: as large as a block of a file, so that the cost of a call is the same.
pub(super) const MEMORY_BLOCK_BYTES: u64 = 1 << 20;

/// The part of a file that is brought into the page cache; small, so that it stays there.
const CACHED_BYTES: u64 = 16 << 20;
/// Bringing the files there may take this long in all; a slow disk gives a block at least.
pub(crate) const CACHING_TIME: Duration = Duration::from_millis(400);

/// What stands behind the workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WorkerSource {
    /// Buffers.
    Memory,
    /// A piece of the source that the page cache holds.
    Cached,
    /// The source itself, past the page cache.
    Disk,
    /// The sink of the peer writes blocks of its own: nothing is sent.
    Sink,
    /// The peer's memory: the flow comes in.
    Peer,
    /// Disks of this host are written with blocks of their own: nothing comes.
    Written,
}

/// One flow to measure.
pub(super) struct Flow {
    pub stage: Stage,
    pub name: String,
    pub resource: String,
    pub workers: Vec<WorkerPlan>,
    pub protocol: Protocol,
    pub behind: WorkerSource,
    pub together: bool,
    pub windows: WindowSpec,
}

impl Flow {
    /// Its times in a round.
    pub(super) fn set_turn(&mut self, turn: FlowTurn) {
        self.windows.warm_up = Duration::from_secs_f64(turn.warm_up_seconds);
        self.windows.window = Duration::from_secs_f64(turn.window_seconds);
    }

    /// Its bytes end in workers of this host.
    pub(super) fn comes_in(&self) -> bool {
        matches!(self.behind, WorkerSource::Peer | WorkerSource::Written)
    }

    /// What a sentence about its failure begins with. Where a disk is written alone, what follows names the disk.
    pub(super) fn failing(&self) -> String {
        match self.behind {
            WorkerSource::Written | WorkerSource::Sink => format!("{} write", self.stage),
            _ => format!("{} {}", self.stage, self.name),
        }
    }

    /// A disk keeps what it moved, at whichever end.
    pub(super) fn stores(&self, goal: &Goal) -> bool {
        match self.behind {
            WorkerSource::Written | WorkerSource::Sink => true,
            _ => self.stage == Stage::Path && goal.flow.stores(),
        }
    }

    /// What the peer does with the bytes, where it has more to do than to throw them away.
    pub(super) fn sink(&self, goal: &Goal) -> Option<SinkRequest> {
        match (self.behind, self.stage) {
            (WorkerSource::Sink, _) => Some(SinkRequest::WriteAlone),
            (_, Stage::Path) if goal.flow == RunFlow::DiskToDisk => Some(SinkRequest::Receive),
            _ => None,
        }
    }
}

/// Both ends checksum what passes.
pub(super) fn verifies(stages: &Stages<'_>, flow: &Flow) -> bool {
    stages.goal.verify && flow.protocol == Protocol::Tcp && flow.behind != WorkerSource::Sink
}

/// Interface and peer of a worker, for a sentence.
pub(super) fn way(stages: &Stages<'_>, worker: &WorkerPlan) -> String {
    let path = &stages.plan.paths[worker.path];
    format!("on {} to {}", path.name, path.peer)
}

/// Reads the beginning of the file through the page cache; gives how much of it is there now. A block is the least, also
/// where the file cannot be read: a stream cannot have less, and its own read says why.
pub(crate) fn bring_into_cache(
    source: &SourcePlan,
    deadline: Instant,
    limit: Option<&RateLimit>,
    stop: &Stop,
) -> u64 {
    let Ok(file) = file::open_to_read(&source.path, false) else { return source.block_bytes };
    let mut buffer = vec![0; source.block_bytes as usize];
    let mut length = 0;
    while length < CACHED_BYTES.min(source.length_bytes) && (length == 0 || clock::now() < deadline) {
        if let Some(limit) = limit {
            limit.pay(source.block_bytes, |time| stop.wait(time));
        }
        if file.read_exact_at(&mut buffer, length).is_err() {
            break;
        }
        length += source.block_bytes;
    }
    length.max(source.block_bytes)
}

/// What was brought in goes out again, so that it answers no later read. Only clean pages of these very
/// files.
pub(crate) fn drop_from_cache(sources: &[SourcePlan]) {
    for source in sources {
        if let Ok(file) = file::open_to_read(&source.path, false) {
            let _ = file::drop_pages(&file);
        }
    }
}
