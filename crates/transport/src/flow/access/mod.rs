//! Reads and writes files as a benchmark asks: one worker is one pinned thread that keeps some requests in
//! flight over its areas.
//!
//! `walk` says where each request goes, `schedule` when, `stamp` what is in it; `tally` counts them with their
//! latencies, `work` is the loop, over any `Queue`; its thread with its engine is here. What is done with the
//! figures (windows, medians, self-checks) is `measure::access`.

pub(crate) mod schedule;
mod stamp;
mod tally;
mod walk;
mod work;

pub use tally::{AccessCounters, AccessTally, AnsweredRequests, SyncTally};
pub use walk::{AccessOrder, AccessRequest, Area, Walk};

use linerate_system::buffers::Pool;
use linerate_system::file::{grow_to, read_at_once_if_in_memory};
use linerate_system::queue::Queue;
use linerate_system::queue::ring::RingQueue;
use linerate_system::queue::sync::{MappedQueue, SyncQueue};
use linerate_system::queue::threads::ThreadQueue;
use linerate_system::{Errno, affinity};
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;
use work::{AccessWork, blocks};

/// What moves the bytes between file and buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// Requests in flight on one thread, without a system call each.
    #[default]
    IoUring,
    /// `pread` and `pwrite`: one request in flight a worker.
    Psync,
    /// Loads and stores in a mapping of the file.
    Mmap,
}

/// How what is written gets to the device while writes go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct WriteSync {
    pub method: SyncMethod,
    /// Writes of a worker for each sync, which follows the last of them; 1 for `Direct`.
    pub every: u32,
}

/// The call that a durable write ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SyncMethod {
    /// fdatasync: the data, and of the metadata what is needed to read it.
    Data,
    /// fsync: all metadata as well.
    Full,
    /// The file is open with O_DSYNC: each write is durable by itself.
    Direct,
}

impl SyncMethod {
    /// The call's name, or the flag's.
    pub fn word(self) -> &'static str {
        match self {
            SyncMethod::Data => "fdatasync",
            SyncMethod::Full => "fsync",
            SyncMethod::Direct => "O_DSYNC",
        }
    }
}

impl std::fmt::Display for WriteSync {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.every {
            0 | 1 => f.write_str(self.method.word()),
            every => write!(f, "{} every {every} writes", self.method.word()),
        }
    }
}

/// When the next request is sent. A latency counts from the moment at which a user asks: with a schedule the
/// intended one, else as soon as this user's last request has ended. A request that waits for a place in the
/// queue (or in the kernel's, which blocks the caller) has been asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// As soon as one of those in flight has ended.
    Closed,
    /// At this rate, at even distances, whatever the device does, so that a stall is paid by all requests that
    /// it held up (no coordinated omission; Gil Tene, "How NOT to measure latency").
    Open { requests_per_second: f64 },
    /// As soon as one has ended, but no faster than this, and even: no 100 ms window gets more than its
    /// share.
    Held { bytes_per_second: f64 },
}

/// One open file of a worker.
#[derive(Clone, Debug)]
pub struct AccessFile {
    pub file: Arc<File>,
    /// What it is called in an error.
    pub label: String,
}

/// Stamps what is written with its file and offset, and checks what is read against that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockStamp {
    /// Tells this data set from an older one.
    pub seed: u64,
}

/// Everything a worker needs to start.
#[derive(Debug)]
pub struct AccessStart {
    /// Processor to pin to; none: the kernel chooses.
    pub core: Option<u32>,
    pub files: Vec<AccessFile>,
    pub walk: Walk,
    /// Share of the requests that read: 1.0 only reads, 0.0 only writes.
    pub read_share: f64,
    /// Bytes a request.
    pub transfer_bytes: usize,
    /// Requests in flight (1 for `Psync` and `Mmap`).
    pub queue_depth: usize,
    pub engine: Engine,
    pub pace: Pace,
    /// Bytes after which the worker has done its part; none: until it is stopped.
    pub amount_bytes: Option<u64>,
    /// Flush to the device when the part is done or the worker was stopped, within the measured time; not
    /// when it was abandoned.
    pub fsync_at_end: bool,
    /// A write is over when the sync that follows it is; none: when the kernel has taken it.
    pub sync: Option<WriteSync>,
    /// Data is stamped and checked.
    pub stamp: Option<BlockStamp>,
    /// Of the random offsets, of the mix and of the data.
    pub seed: u64,
    /// io_uring may be used; where it may not or cannot, blocking calls on threads keep the queue depth.
    pub io_uring: bool,
    /// Common zero of all workers' clocks.
    pub begin: Instant,
}

/// What went wrong with one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessError {
    pub label: String,
    pub offset: u64,
    /// Read or write, and what the kernel said.
    pub why: String,
    /// The kernel's own word for it, where it was the kernel that said it.
    pub errno: Option<Errno>,
}

/// What a worker did, once it has ended.
#[derive(Debug)]
pub struct AccessOutcome {
    pub reads: AccessTally,
    pub writes: AccessTally,
    /// Of writes that a sync followed; empty with `SyncMethod::Direct`, whose writes are the syncs.
    pub syncs: SyncTally,
    /// How late requests were sent after their intended moment, nanoseconds (open loop only).
    pub lateness: hdrhistogram::Histogram<u64>,
    /// Mean number of requests in flight while new ones were sent, and of those that waited to be.
    pub mean_depth: f64,
    pub mean_waiting: f64,
    /// What was answered in each window that was announced and has ended.
    pub windows: Vec<AnsweredRequests>,
    /// CPU time of the worker's thread and of those that work for it, seconds.
    pub cpu_seconds: f64,
    /// From its first request to its last completion (with the flush), seconds since `begin`.
    pub started_seconds: f64,
    pub ended_seconds: f64,
    /// It did its amount, or was stopped without an error.
    pub whole: bool,
    pub errors: Vec<AccessError>,
    /// Blocks that did not hold what was written there.
    pub corrupt: Vec<AccessError>,
    /// What moved the bytes, for the report.
    pub method: String,
}

/// A running worker.
#[derive(Debug)]
pub struct RunningAccess {
    result: Receiver<io::Result<AccessOutcome>>,
    counters: Arc<AccessCounters>,
}

/// Starts a worker's thread. An error of one request is in its outcome; an error here or of `join` is one of
/// setting it up.
pub fn start(
    start: AccessStart,
    counters: Arc<AccessCounters>,
    stop: Arc<AtomicBool>,
) -> io::Result<RunningAccess> {
    let (sender, result) = channel();
    let running = RunningAccess { result, counters: Arc::clone(&counters) };
    let phase = next_phase();
    std::thread::Builder::new().name("worker".into()).spawn(move || {
        if let Some(core) = start.core {
            // A core that went offline meanwhile: run anywhere rather than not at all.
            let _ = affinity::pin_to(core);
        }
        affinity::wake_on_time();
        let outcome = work(start, &counters, &stop, phase);
        counters.ended.store(true, Ordering::Release);
        // Nobody waits any more: then nobody needs it.
        let _ = sender.send(outcome);
    })?;
    Ok(running)
}

/// By which part of their interval the schedules of workers differ: multiples of the golden ratio, which lie
/// apart however many there are.
fn next_phase() -> f64 {
    static STARTED: AtomicU32 = AtomicU32::new(0);
    (f64::from(STARTED.fetch_add(1, Ordering::Relaxed)) * 0.618_033_988_749_895).fract()
}

impl RunningAccess {
    /// It has ended, by itself or because it was stopped.
    pub fn ended(&self) -> bool {
        self.counters.ended.load(Ordering::Acquire)
    }

    /// Waits for its end, which may be long in coming where the kernel holds a request: ask [`Self::ended`]
    /// before.
    pub fn join(self) -> io::Result<AccessOutcome> {
        let gone = |_| io::Error::other("a worker's thread panicked: please report this");
        self.result.recv().map_err(gone)?
    }
}

/// With the engine that was asked for, or the next best.
fn work(
    mut start: AccessStart,
    counters: &AccessCounters,
    stop: &AtomicBool,
    phase: f64,
) -> io::Result<AccessOutcome> {
    if start.engine != Engine::IoUring {
        start.queue_depth = 1;
    }
    let files: Vec<Arc<File>> = start.files.iter().map(|file| Arc::clone(&file.file)).collect();
    let pool = Pool::new(blocks(&start), start.transfer_bytes)?;
    match start.engine {
        Engine::Psync => run(SyncQueue::new(files), pool, start, counters, stop, phase),
        Engine::Mmap => {
            let writes = start.read_share < 1.0;
            if writes {
                make_room(&start)?;
            }
            run(MappedQueue::new(files, writes)?, pool, start, counters, stop, phase)
        }
        Engine::IoUring if start.io_uring => {
            files.iter().for_each(|file| read_at_once_if_in_memory(file));
            match RingQueue::new(files.clone(), &pool) {
                Ok(ring) => run(ring, pool, start, counters, stop, phase),
                Err(error) => {
                    tracing::warn!(%error, "io_uring is refused: threads do its work");
                    let threads = ThreadQueue::new(files, &pool)?;
                    let mut outcome = run(threads, pool, start, counters, stop, phase)?;
                    outcome.method = format!("{}; io_uring was refused: {error}", outcome.method);
                    Ok(outcome)
                }
            }
        }
        Engine::IoUring => run(ThreadQueue::new(files, &pool)?, pool, start, counters, stop, phase),
    }
}

/// A mapping does not make its file longer, and a hole that the disk has no room for would end the copy.
fn make_room(start: &AccessStart) -> io::Result<()> {
    for (index, file) in start.files.iter().enumerate() {
        grow_to(&file.file, start.walk.end_of(index)).map_err(|error| {
            io::Error::new(error.kind(), format!("{}: cannot be given its length: {error}", file.label))
        })?;
    }
    Ok(())
}

fn run(
    mut queue: impl Queue,
    mut pool: Pool,
    start: AccessStart,
    counters: &AccessCounters,
    stop: &AtomicBool,
    phase: f64,
) -> io::Result<AccessOutcome> {
    AccessWork::new(&mut queue, &mut pool, start, counters, stop, phase)?.run()
}

#[cfg(test)]
mod tests;
