//! What came of files that were put: one value, printed as text or as JSON.

use super::error::PutError;
use super::source_file::SourceFile;
use crate::TransferLimit;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A transfer to a server from its start to its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PutReport {
    /// Of linerate.
    pub version: String,
    /// RFC 3339.
    pub started: String,
    pub seconds: f64,
    pub streams: u32,
    /// Bytes of files that went out, those of tries that failed among them.
    pub sent_bytes: u64,
    pub bytes_per_second: f64,
    /// CPU time of this process, user and system, for each 10^9 bytes that went out.
    pub cpu_seconds_per_gb: f64,
    pub limit: TransferLimit,
    pub files: Vec<PutFile>,
    pub errors: Vec<String>,
    /// All that failed was not there to begin with.
    #[serde(skip)]
    pub lacks: bool,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PutFile {
    pub path: PathBuf,
    pub url: String,
    pub outcome: PutOutcome,
    pub bytes: u64,
    /// Of these the server had so many of an earlier start.
    pub kept_bytes: u64,
    pub seconds: f64,
    /// What its content was compared by: `xxh3-64`, the server's sum of what it wrote with that of what was
    /// sent.
    pub verified: Vec<String>,
    pub error: Option<String>,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PutOutcome {
    /// The server says that it has it whole.
    Put,
    /// It was there already, as long and as old as this one.
    AlreadyThere,
    Failed,
}

impl PutFile {
    pub(crate) fn failed(file: &SourceFile, error: &PutError) -> Self {
        PutFile {
            path: file.path.clone(),
            url: file.url.to_string(),
            outcome: PutOutcome::Failed,
            bytes: 0,
            kept_bytes: 0,
            seconds: 0.0,
            verified: Vec::new(),
            error: Some(error.to_string()),
        }
    }
}

impl PutReport {
    /// The exit status of the contract.
    pub fn exit_status(&self) -> u8 {
        let some = self.files.iter().any(|file| file.outcome != PutOutcome::Failed);
        match self.errors.is_empty() {
            true => 0,
            false if self.lacks && !some => 3,
            false => 1,
        }
    }
}
