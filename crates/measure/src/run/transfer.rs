//! What is special to a transfer of files (`linerate get`, `put`) and to a server of files (`serve`). How fast they
//! were is in the measurement, what limited them in the diagnosis.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The part of a run that only a transfer has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TransferResult {
    pub streams: u32,
    /// Bytes of files that crossed the network, those of failed attempts among them.
    pub moved_bytes: u64,
    /// Bytes that an earlier start had moved.
    pub kept_bytes: u64,
    /// Bytes that came twice because they differed from the server's.
    pub repeated_bytes: u64,
    /// By the NICs that were named; empty where none was.
    pub nics: Vec<TransferNic>,
    pub files: Vec<TransferFile>,
    /// Files beyond the most that a kept result lists.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub files_left_out: usize,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// What came by one NIC.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TransferNic {
    pub nic: String,
    pub bytes: u64,
    /// From its first byte to its last.
    pub bytes_per_second: f64,
    /// Why it was left out, a sentence; none: it was used to the end.
    pub left_out: Option<String>,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TransferFile {
    pub url: String,
    /// On this host.
    pub path: PathBuf,
    pub outcome: TransferOutcome,
    pub bytes: u64,
    /// Of them: there from an earlier start.
    pub kept_bytes: u64,
    /// Of these: as they were found, for neither the server nor the user has a sum of them.
    pub kept_not_compared_bytes: u64,
    pub seconds: f64,
    /// The sums that its whole content was compared by, such as `xxh3-64`.
    pub verified: Vec<String>,
    pub error: Option<String>,
}

impl TransferFile {
    /// Without bytes, sums and an error.
    pub fn new(url: String, path: PathBuf, outcome: TransferOutcome) -> Self {
        TransferFile {
            url,
            path,
            outcome,
            bytes: 0,
            kept_bytes: 0,
            kept_not_compared_bytes: 0,
            seconds: 0.0,
            verified: Vec::new(),
            error: None,
        }
    }
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TransferOutcome {
    /// At its place here, whole and on the disk.
    Fetched,
    /// The server says that it has it whole.
    Put,
    /// It was there already, as long and as old as the one to be moved.
    AlreadyThere,
    /// Not at its place; what came is beside it, and the same command goes on with it.
    Unfinished,
    /// Not at its place, and nothing of it was kept.
    Failed,
}

/// What a server served from its start to its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServedResult {
    pub seconds: f64,
    /// Connections that were admitted.
    pub connections: u64,
    /// Connections that were turned away because all permits were taken.
    pub refused_connections: u64,
    pub requests: u64,
    /// Requests that were answered with a status of 400 or more.
    pub failed_requests: u64,
    /// Files that were not sent, or not taken, to their end: the client left, took too little, or the file
    /// changed.
    pub cut_short: u64,
    /// Of files, without heads and lists.
    pub bytes: u64,
    /// Of them: from the page cache, by splice(2) or sendfile(2).
    pub bytes_from_page_cache: u64,
    /// Of them: read with O_DIRECT.
    pub bytes_past_cache: u64,
    /// Of them: under TLS, read through the page cache and encrypted in user space.
    pub bytes_encrypted: u64,
    /// Under TLS by the kernel, whichever of the other ways they went.
    pub bytes_encrypted_by_kernel: u64,
    /// Why records of TLS are encrypted in user space; none: the kernel does it.
    pub encrypts_here: Option<String>,
    /// How those past the cache were read and sent; none where there were none.
    pub direct_method: Option<String>,
    /// Bytes that clients put, those of files that did not come whole among them.
    pub taken_bytes: u64,
    /// Files that clients put, whole and at their places.
    pub taken_files: u64,
}
