//! A worker's thread: its engine, its start and its end.

use super::work::{AccessWork, blocks};
use super::{AccessCounters, AccessOutcome, AccessStart, Engine};
use linerate_system::affinity;
use linerate_system::buffers::Pool;
use linerate_system::file::{grow_to, read_at_once_if_in_memory};
use linerate_system::queue::Queue;
use linerate_system::queue::mapped::MappedQueue;
use linerate_system::queue::ring::RingQueue;
use linerate_system::queue::sync::SyncQueue;
use linerate_system::queue::threads::ThreadQueue;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};

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
