//! What a server did: counted by its connections, told at its end.

use crate::TransferLimit;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counters that the connections share.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) connections: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) requests: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) from_cache: AtomicU64,
    pub(super) from_disk: AtomicU64,
    pub(super) encrypted: AtomicU64,
    pub(super) encrypted_by_kernel: AtomicU64,
    pub(super) cut_short: AtomicU64,
    pub(super) taken: AtomicU64,
    pub(super) files_taken: AtomicU64,
}

impl Tally {
    pub(super) fn add(counter: &AtomicU64, by: u64) {
        counter.fetch_add(by, Ordering::Relaxed);
    }

    pub(super) fn summary(&self, time: Duration, method: Option<String>) -> ServeSummary {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ServeSummary {
            seconds: time.as_secs_f64(),
            connections: read(&self.connections),
            refused_connections: read(&self.refused),
            requests: read(&self.requests),
            failed_requests: read(&self.failed),
            cut_short: read(&self.cut_short),
            bytes: read(&self.from_cache) + read(&self.from_disk) + read(&self.encrypted),
            bytes_from_page_cache: read(&self.from_cache),
            bytes_past_cache: read(&self.from_disk),
            bytes_encrypted: read(&self.encrypted),
            bytes_encrypted_by_kernel: read(&self.encrypted_by_kernel),
            encrypts_here: None,
            direct_method: method,
            taken_bytes: read(&self.taken),
            taken_files: read(&self.files_taken),
            busy_seconds: 0.0,
            limit: None,
        }
    }
}

/// What a server served from its start to its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServeSummary {
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
    /// In which files were moved, as far as it was looked.
    pub busy_seconds: f64,
    /// What limited them, as far as this host shows it; none: nothing was moved.
    pub limit: Option<TransferLimit>,
}

impl ServeSummary {
    /// How the bytes went, in words.
    pub(super) fn method(&self) -> String {
        let ways = [
            (self.bytes_from_page_cache, "page cache"),
            (self.bytes_past_cache, self.direct_method.as_deref().unwrap_or("O_DIRECT")),
            (self.bytes_encrypted, "TLS in user space"),
            (self.bytes_encrypted_by_kernel, "TLS in the kernel"),
            (self.taken_bytes, "PUT of clients"),
        ];
        let used: Vec<&str> = ways.iter().filter(|(bytes, _)| *bytes > 0).map(|(_, way)| *way).collect();
        format!("HTTP/1.1 server, {}", used.join(", "))
    }
}
