//! What to read or write: one cell of a benchmark's matrix. Saved with its result, so that it can be done
//! again.

use linerate_facts::units::show_size;
pub use linerate_transport::flow::access::{AccessOrder, Engine, SyncMethod, WriteSync};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What is wrong with a job whatever the machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessJobError {
    #[error("a job needs a source, a worker, a transfer size and a queue depth of at least 1")]
    Nothing,
    #[error(
        "--block {}: no multiple of the transfer size of {}; give one, such as {}",
        show_size(*block_bytes),
        show_size(*transfer_bytes),
        show_size(transfer_bytes * 64)
    )]
    PartTransfers { block_bytes: u64, transfer_bytes: u64 },
    #[error(
        "--rate and --rate-limit: one of them at a time; --rate sends on schedule, --rate-limit holds back"
    )]
    RateAndLimit,
    #[error(
        "--queue-depth {queue_depth}: with --engine psync or mmap a worker has one request in flight; give \
         more --workers instead"
    )]
    DeepWithoutRing { queue_depth: u32 },
    #[error("--sync: only writes are synced; give --access write, or mixed")]
    SyncOfReads,
    #[error(
        "--every {every}: with --sync direct (O_DSYNC) each write is durable by itself; leave --every out, or \
         --sync data"
    )]
    EveryOfDirect { every: u32 },
    #[error("--sync direct: O_DSYNC is of writes, and --engine mmap only stores; give --sync data")]
    DirectSyncOfStores,
    #[error(
        "--verify: checked data consists of sectors of 512 bytes, and --transfer {transfer_bytes} is no \
         multiple of them"
    )]
    PartSectors { transfer_bytes: u64 },
    #[error(
        "--verify: reads and writes in flight over the same blocks at random cannot be told apart; use \
         --queue-depth 1"
    )]
    VerifyRandomMix,
}

/// One measurement of `linerate disk` or one step of `linerate load`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AccessJob {
    /// Directories (files are made there), files or block devices; workers are dealt round them.
    pub sources: Vec<PathBuf>,
    pub workers: u32,
    pub access: Access,
    pub order: AccessOrder,
    pub layout: FileLayout,
    /// Bytes a request.
    pub transfer_bytes: u64,
    /// Contiguous bytes of one worker within a segment.
    pub block_bytes: u64,
    /// Blocks of one worker in its file, or in the shared one.
    pub segments: u64,
    /// Requests in flight a worker.
    pub queue_depth: u32,
    pub engine: Engine,
    /// Past the page cache (O_DIRECT).
    pub direct: bool,
    /// Flush to the device at the end, within the measured time (writes).
    pub fsync: bool,
    /// When a write counts as done: once it is durable; none: once the kernel has taken it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync: Option<WriteSync>,
    /// No worker reads what it wrote.
    pub reorder: bool,
    /// Stamp what is written, check what is read.
    pub verify: bool,
    /// Length of one measurement; none: each worker does its part once.
    pub seconds: Option<f64>,
    /// Requests a second of all workers together, sent on schedule (open loop); none: as fast as they end.
    pub requests_per_second: Option<f64>,
    /// Bytes a second of all workers together at most, held evenly.
    pub limit_bytes_per_second: Option<f64>,
    pub seed: u64,
}

impl AccessJob {
    /// One request in flight past the page cache, of no worker and no size yet.
    pub fn plain(access: Access, order: AccessOrder) -> Self {
        AccessJob { access, order, segments: 1, queue_depth: 1, direct: true, ..AccessJob::default() }
    }
}

/// Direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "kind")]
pub enum Access {
    #[default]
    Read,
    Write,
    /// This share of the requests reads, the others write.
    Mixed {
        read_share: f64,
    },
}

/// Who has which part of which file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileLayout {
    /// A file for each worker.
    #[default]
    FilePerWorker,
    /// One file a source; each worker's blocks of a segment lie side by side: worker 0 has the first block of
    /// every segment (IOR's segments).
    Strided,
    /// One file a source; each worker has one contiguous part of it.
    Segmented,
}

impl AccessJob {
    /// It reads at all.
    pub fn reads(&self) -> bool {
        match self.access {
            Access::Read => true,
            Access::Write => false,
            Access::Mixed { read_share } => read_share > 0.0,
        }
    }

    /// It writes at all.
    pub fn writes(&self) -> bool {
        match self.access {
            Access::Read => false,
            Access::Write => true,
            Access::Mixed { read_share } => read_share < 1.0,
        }
    }

    /// Its files have to hold data before it begins. Timed writes go round: what they write over is there
    /// from the first window on.
    pub(super) fn needs_data(&self) -> bool {
        self.reads() || self.seconds.is_some() && !self.is_log() || self.engine == Engine::Mmap
    }

    /// It writes as the log of a database or of etcd is written: one after the other and synced, into room that is
    /// reserved and holds no data yet. What is durable there takes metadata along, which writing over data does not.
    pub(crate) fn is_log(&self) -> bool {
        self.sync.is_some()
            && self.access == Access::Write
            && self.order == AccessOrder::Sequential
            && self.engine != Engine::Mmap
    }

    /// Stamped data is cut into sectors of this size; none: it is not stamped.
    pub(super) fn stamp_sector_bytes(&self) -> Option<u64> {
        self.verify.then(|| if self.transfer_bytes.is_multiple_of(4096) { 4096 } else { 512 })
    }

    /// What is wrong with it whatever the machine.
    pub fn check(&self) -> Result<(), AccessJobError> {
        let AccessJob { transfer_bytes, block_bytes, queue_depth, .. } = *self;
        if self.sources.is_empty() || self.workers == 0 || transfer_bytes == 0 || queue_depth == 0 {
            return Err(AccessJobError::Nothing);
        }
        if block_bytes == 0 || !block_bytes.is_multiple_of(transfer_bytes) || self.segments == 0 {
            return Err(AccessJobError::PartTransfers { block_bytes, transfer_bytes });
        }
        if self.requests_per_second.is_some() && self.limit_bytes_per_second.is_some() {
            return Err(AccessJobError::RateAndLimit);
        }
        if self.engine != Engine::IoUring && queue_depth > 1 {
            return Err(AccessJobError::DeepWithoutRing { queue_depth });
        }
        if let Some(WriteSync { method, every }) = self.sync {
            let direct = method == SyncMethod::Direct;
            if !self.writes() {
                return Err(AccessJobError::SyncOfReads);
            }
            if direct && every > 1 {
                return Err(AccessJobError::EveryOfDirect { every });
            }
            if direct && self.engine == Engine::Mmap {
                return Err(AccessJobError::DirectSyncOfStores);
            }
        }
        if self.verify && !transfer_bytes.is_multiple_of(512) {
            return Err(AccessJobError::PartSectors { transfer_bytes });
        }
        if self.verify
            && matches!(self.access, Access::Mixed { .. })
            && self.order != AccessOrder::Sequential
            && queue_depth > 1
        {
            return Err(AccessJobError::VerifyRandomMix);
        }
        Ok(())
    }
}
