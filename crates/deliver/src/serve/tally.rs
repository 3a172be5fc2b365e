//! What a server did: counted by its connections, reported at its end.

use linerate_measure::run::ServedResult;
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

    pub(super) fn summary(&self, time: Duration, method: Option<String>) -> ServedResult {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ServedResult {
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
        }
    }
}

/// How the bytes went, in words.
pub(super) fn method(served: &ServedResult) -> String {
    let ways = [
        (served.bytes_from_page_cache, "page cache"),
        (served.bytes_past_cache, served.direct_method.as_deref().unwrap_or("O_DIRECT")),
        (served.bytes_encrypted, "TLS in user space"),
        (served.bytes_encrypted_by_kernel, "TLS in the kernel"),
        (served.taken_bytes, "PUT of clients"),
    ];
    let used: Vec<&str> = ways.iter().filter(|(bytes, _)| *bytes > 0).map(|(_, way)| *way).collect();
    format!("HTTP/1.1 server, {}", used.join(", "))
}
