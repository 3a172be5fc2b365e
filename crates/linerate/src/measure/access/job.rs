//! What to read or write: one cell of a benchmark's matrix. Saved with its result, so that it can be done again.

pub use crate::flow::access::Engine;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// One measurement of `linerate disk` or one step of `linerate load`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Directories (files are made there), files or block devices; workers are dealt round them.
    pub sources: Vec<PathBuf>,
    pub workers: u32,
    pub access: Access,
    pub order: Order,
    pub layout: Layout,
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

/// Direction.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "kind")]
pub enum Access {
    Read,
    Write,
    /// This share of the requests reads, the others write.
    Mixed {
        read_share: f64,
    },
}

/// Order of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "kind")]
pub enum Order {
    Sequential,
    Random,
    /// The k-th most popular place is asked for in proportion to k^-theta.
    Zipf {
        theta: f64,
    },
    /// This share of the places gets this share of the requests.
    Hot {
        share: f64,
        hits: f64,
    },
}

/// Who has which part of which file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// A file for each worker.
    FilePerWorker,
    /// One file a source; each worker's blocks of a segment lie side by side: worker 0 has the first block of every segment (IOR's segments).
    Strided,
    /// One file a source; each worker has one contiguous part of it.
    Segmented,
}
