//! What came of a transfer: one value, printed as text or as JSON.

use crate::TransferLimit;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A transfer from its start to its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GetReport {
    /// Of linerate.
    pub version: String,
    /// RFC 3339.
    pub started: String,
    pub seconds: f64,
    pub streams: u32,
    /// Bytes of files that came over the network.
    pub received_bytes: u64,
    /// Bytes that an earlier start had fetched.
    pub kept_bytes: u64,
    /// Bytes that came twice because they differed from the server's.
    pub repeated_bytes: u64,
    pub bytes_per_second: f64,
    /// CPU time of this process, user and system, for each 10^9 bytes that came.
    pub cpu_seconds_per_gb: f64,
    /// What wrote the files.
    pub method: String,
    pub limit: TransferLimit,
    /// By the NICs that were named; empty where none was.
    pub nics: Vec<NicReport>,
    pub files: Vec<FileReport>,
    pub errors: Vec<String>,
}

/// What came by one NIC.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NicReport {
    pub nic: String,
    pub bytes: u64,
    /// From the first byte that came by it to the last.
    pub bytes_per_second: f64,
    /// Why it was left out, a sentence; none: it was used to the end.
    pub left_out: Option<String>,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FileReport {
    pub url: String,
    pub path: PathBuf,
    pub outcome: FileOutcome,
    pub bytes: u64,
    /// Of them: from an earlier start.
    pub kept_bytes: u64,
    /// Of these: as they were found, for neither the server nor the user has a sum of them.
    pub kept_not_compared_bytes: u64,
    pub seconds: f64,
    /// What its content was compared by: `xxh3-64` of each block with the server's, `sha256` with what was given.
    pub verified: Vec<String>,
    pub error: Option<String>,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileOutcome {
    /// At its place, whole and on the disk.
    Fetched,
    /// It was there already, as long and as old as the server's.
    AlreadyThere,
    /// Not at its place; what came is beside it, and the same command goes on with it.
    Unfinished,
    /// Not at its place, and nothing of it was kept.
    Failed,
}

impl GetReport {
    /// The exit status of the contract; `lacks`: all that failed was not there to begin with.
    pub fn exit_status(&self, lacks: bool) -> u8 {
        let some = self.files.iter().any(|file| {
            matches!(file.outcome, FileOutcome::Fetched | FileOutcome::AlreadyThere | FileOutcome::Unfinished)
        });
        match self.errors.is_empty() {
            true => 0,
            false if lacks && !some => 3,
            false => 1,
        }
    }
}
