//! What a tile's worker counts while it works: bumped by its thread, read by the sampler.

use crate::control::Preview;
use linerate_system::lock;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// What keeps a worker from its rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SenderStage {
    Disk,
    Network,
    Cpu,
}

/// One worker's counters; each is written by the worker alone. Aligned so that workers do not share lines of
/// the cache.
#[repr(align(128))]
#[derive(Debug, Default)]
pub(crate) struct TileCounters {
    /// UDP payload that the kernel took.
    pub bytes: AtomicU64,
    pub datagrams: AtomicU64,
    pub frames_sent: AtomicU64,
    pub dropped_by_disk: AtomicU64,
    pub dropped_by_network: AtomicU64,
    pub dropped_by_cpu: AtomicU64,
    /// Datagrams that were never taken, since the network was down or the size refused.
    pub datagrams_lost: AtomicU64,
    /// When the screen's host said last that nobody listens, nanoseconds since 1970; 0: never.
    pub refused_at: AtomicU64,
    /// Bytes that the disk brought, with what is read to fill up blocks.
    pub read_bytes: AtomicU64,
    /// Reads that failed or stayed short.
    pub read_errors: AtomicU64,
    /// CPU time of the worker and its helpers, nanoseconds, some milliseconds old at most.
    pub cpu_nanos: AtomicU64,
    /// Time in which a frame was due and the disk had not brought it.
    pub starved_nanos: AtomicU64,
    /// Time in which the network did not take what was due.
    pub blocked_nanos: AtomicU64,
    /// How long a read takes of late, nanoseconds.
    pub read_latency_nanos: AtomicU64,
    /// Frames that are read ahead.
    pub prefetched: AtomicU32,
    /// The worker has ended.
    pub ended: AtomicBool,
    /// The worker has its memory and its ring, and can begin.
    pub stands: AtomicBool,
    /// Nothing is left to be shown.
    pub over: AtomicBool,
    /// The tick that is being sent or was sent last.
    pub tick: AtomicU64,
    /// Until when somebody looks at previews, nanoseconds since 1970.
    pub preview_until: AtomicU64,
    /// When the newest was made.
    pub preview_at: AtomicU64,
    preview: Mutex<Option<Preview>>,
    problem: Mutex<Option<String>>,
    /// What the network said to what it did not take, and when, nanoseconds since 1970.
    network: Mutex<Option<(String, u64)>>,
}

/// Adds to a counter that only the calling thread writes.
pub(crate) fn bump(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
}

impl TileCounters {
    /// A frame was left out because of this stage.
    pub(crate) fn drop_frame(&self, stage: SenderStage) {
        bump(
            match stage {
                SenderStage::Disk => &self.dropped_by_disk,
                SenderStage::Network => &self.dropped_by_network,
                SenderStage::Cpu => &self.dropped_by_cpu,
            },
            1,
        );
    }

    /// Frames that were left out.
    pub(crate) fn dropped(&self) -> u64 {
        [&self.dropped_by_disk, &self.dropped_by_network, &self.dropped_by_cpu]
            .iter()
            .map(|counter| counter.load(Ordering::Relaxed))
            .sum()
    }

    /// Says what is wrong; the last word counts. Only where something fails: it takes a lock.
    pub(crate) fn tell_problem(&self, problem: String) {
        *lock(&self.problem) = Some(problem);
    }

    /// What is wrong.
    pub(crate) fn problem(&self) -> Option<String> {
        lock(&self.problem).clone()
    }

    /// Says that the network did not take something, and why; it may well take the next. Only where it fails:
    /// it takes a lock.
    pub(crate) fn tell_network(&self, why: String, at: u64) {
        *lock(&self.network) = Some((why, at));
    }

    /// What the network said last, and when, nanoseconds since 1970.
    pub(crate) fn network(&self) -> Option<(String, u64)> {
        lock(&self.network).clone()
    }

    /// Shows a small picture, if nobody is looking at the old one this very moment.
    pub(crate) fn show_preview(&self, paint: impl FnOnce(&mut Option<Preview>)) {
        if let Ok(mut held) = self.preview.try_lock() {
            paint(&mut held);
        }
    }

    /// The newest small picture.
    pub(crate) fn preview(&self) -> Option<Preview> {
        lock(&self.preview).clone()
    }
}
