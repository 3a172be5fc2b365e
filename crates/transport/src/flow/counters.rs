//! What a worker counts while it works: bumped by its thread, read by the sampler.

use super::progress::Progress;
use super::stream::counters::StreamCounters;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// One worker's counters.
#[derive(Debug, Default)]
pub struct WorkerCounters {
    /// Bytes that reached the sink (for UDP: that left this host; of a flow that comes in: that its end took) and when
    /// the last did.
    pub progress: Progress,
    /// Nanoseconds in which the worker had nothing to send and waited for its source.
    pub waiting_source_nanos: AtomicU64,
    /// Nanoseconds in which the worker waited for its sink.
    pub waiting_sink_nanos: AtomicU64,
    /// CPU time of the worker's thread, and of those that do its blocking calls where there is no io_uring:
    /// nanoseconds, a few milliseconds old at most.
    pub cpu_nanos: AtomicU64,
    /// The fsync that ended what it stored, nanoseconds.
    pub sync_nanos: AtomicU64,
    /// UDP: bytes sent that the receiver did not get, as of its last feedback.
    pub lost_bytes: AtomicU64,
    /// UDP: nanoseconds in which the worker waited with a window as large as the receiver's buffer lets it be.
    pub full_window_nanos: AtomicU64,
    /// UDP: the latest round trip of the path, without what the hosts took, and the shortest: nanoseconds.
    pub trip_nanos: AtomicU64,
    pub least_trip_nanos: AtomicU64,
    /// Sends without a copy of which it is known what came of them, and those of them that the kernel copied all the
    /// same.
    pub zero_copy_sends: AtomicU64,
    pub zero_copy_copied: AtomicU64,
    /// Completions that belonged to no request under way, and were dropped.
    pub unexpected_completions: AtomicU64,
    /// It refused them, and the worker went on with copies.
    pub zero_copy_refused: AtomicBool,
    /// Checksum of all that was sent, or came (TCP with verification), valid when the worker has ended.
    pub checksum: AtomicU64,
    /// The worker has ended and nothing that it sent, or that came, is missing above; false where a send did not come
    /// back before the end.
    pub whole: AtomicBool,
}

impl WorkerCounters {
    /// Nothing done yet; `start` is common to all workers of a measurement.
    pub fn new(start: Instant) -> Self {
        WorkerCounters { progress: Progress::new(start), ..WorkerCounters::default() }
    }

    /// Adds time waited.
    pub fn waited(counter: &AtomicU64, time: Duration) {
        counter.store(counter.load(Ordering::Relaxed) + time.as_nanos() as u64, Ordering::Relaxed);
    }
}

/// Where a thread that takes a stream counts: in a stream, or in a worker of a run on this host.
#[derive(Clone, Copy)]
pub(crate) struct IncomingCounts<'a> {
    pub progress: &'a Progress,
    pub cpu_nanos: &'a AtomicU64,
    pub checksum: &'a AtomicU64,
    /// Nanoseconds; none: nobody asks for them.
    pub waiting_network: Option<&'a AtomicU64>,
    pub waiting_disk: Option<&'a AtomicU64>,
    /// The fsync at the end, nanoseconds.
    pub sync: Option<&'a AtomicU64>,
}

impl<'a> IncomingCounts<'a> {
    /// Of bytes that are not stored.
    pub(crate) fn of_stream(
        progress: &'a Progress,
        cpu_nanos: &'a AtomicU64,
        checksum: &'a AtomicU64,
    ) -> Self {
        IncomingCounts {
            progress,
            cpu_nanos,
            checksum,
            waiting_network: None,
            waiting_disk: None,
            sync: None,
        }
    }

    /// Of bytes that are stored.
    pub(super) fn of_store(counters: &'a StreamCounters) -> Self {
        IncomingCounts {
            waiting_network: Some(&counters.waiting_network_nanos),
            waiting_disk: Some(&counters.waiting_disk_nanos),
            sync: Some(&counters.sync_nanos),
            ..IncomingCounts::of_stream(&counters.progress, &counters.cpu_nanos, &counters.checksum)
        }
    }

    pub(super) fn of_worker(counters: &'a WorkerCounters) -> Self {
        IncomingCounts {
            progress: &counters.progress,
            cpu_nanos: &counters.cpu_nanos,
            checksum: &counters.checksum,
            waiting_network: Some(&counters.waiting_source_nanos),
            waiting_disk: Some(&counters.waiting_sink_nanos),
            sync: Some(&counters.sync_nanos),
        }
    }
}
