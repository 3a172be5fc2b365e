//! The loop of a worker, and its start and end.

use super::{AccessCounters, AccessError, AccessStart, Outcome, Request, Tally, tally};
use linerate_system::affinity;
use linerate_system::buffers::{Lease, Pool};
use linerate_system::counters::thread_cpu;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

/// A running worker.
#[derive(Debug)]
pub struct RunningAccess {
    thread: JoinHandle<io::Result<Outcome>>,
}

impl RunningAccess {
    /// It has ended, by itself or because it was stopped.
    pub fn ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for its end.
    pub fn join(self) -> io::Result<Outcome> {
        let panicked = |_| Err(io::Error::other("a worker's thread panicked: please report this"));
        self.thread.join().unwrap_or_else(panicked)
    }
}

/// Starts a worker's thread. An error of one request is in its outcome; an error here or of `join` is one of setting it up.
pub fn start(
    start: AccessStart,
    counters: Arc<AccessCounters>,
    stop: Arc<AtomicBool>,
) -> io::Result<RunningAccess> {
    let thread = std::thread::Builder::new().name("worker".into()).spawn(move || {
        if let Some(core) = start.core {
            // A core that went offline meanwhile: run anywhere rather than not at all.
            let _ = affinity::pin_to(core);
        }
        let mut pool = Pool::new(1, start.transfer_bytes)?;
        let lease = pool.take().ok_or(io::ErrorKind::OutOfMemory)?;
        let outcome = blocking(start, lease, &counters, &stop);
        counters.ended.store(true, Ordering::Release);
        Ok(outcome)
    })?;
    Ok(RunningAccess { thread })
}

/// One request at a time, each a system call.
fn blocking(
    mut start: AccessStart,
    mut lease: Lease,
    counters: &AccessCounters,
    stop: &AtomicBool,
) -> Outcome {
    let (mut reads, mut writes) = (Tally::new(), Tally::new());
    let mut errors = Vec::new();
    let cpu = thread_cpu();
    let started = Instant::now();
    let mut moved = 0;
    while !stop.load(Ordering::Relaxed) && start.amount_bytes.is_none_or(|amount| moved < amount) {
        let request = start.walk.step();
        let before = Instant::now();
        let reading = start.read_share >= 1.0;
        let file = &start.files[request.file];
        let result = if reading {
            file.file.read_exact_at(lease.bytes_mut(), request.offset)
        } else {
            file.file.write_all_at(lease.bytes(), request.offset)
        };
        if let Err(error) = result {
            errors.push(told(&file.label, request, reading, &error));
            break;
        }
        let tally = if reading { &mut reads } else { &mut writes };
        tally.add(start.transfer_bytes as u64, before.elapsed());
        moved += start.transfer_bytes as u64;
        counters.progress.add(start.transfer_bytes as u64);
        counters.operations.store(reads.operations + writes.operations, Ordering::Relaxed);
    }
    let seconds = |at: Instant| at.saturating_duration_since(start.begin).as_secs_f64();
    Outcome {
        reads,
        writes,
        lateness: tally::histogram(),
        mean_depth: 1.0,
        cpu_seconds: thread_cpu().saturating_sub(cpu).as_secs_f64(),
        started_seconds: seconds(started),
        ended_seconds: seconds(Instant::now()),
        whole: errors.is_empty(),
        errors,
        corrupt: Vec::new(),
        method: "pread, pwrite".into(),
    }
}

fn told(label: &str, request: Request, reading: bool, error: &io::Error) -> AccessError {
    let verb = if reading { "read" } else { "write" };
    AccessError { label: label.into(), offset: request.offset, why: format!("{verb}: {error}") }
}
