//! How far a worker or a receiver is: bytes and the moment of the last completion, written by one thread, read
//! by the sampler. Beside it, every thread of a data path keeps its CPU time, and goes on after an error that
//! is none.
//!
//! A rate taken between two completions (Δbytes ÷ Δtime of the completions themselves) has no rounding to
//! whole blocks, which a sampler's own clock would add: on a 50 MB/s disk with 1 MiB blocks that is 2 % of a
//! one-second sample.

use linerate_system::clock;
use linerate_system::counters::thread_cpu;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

/// A single writer's progress; cache-padded so that workers do not share lines.
#[repr(align(128))]
#[derive(Debug)]
pub struct Progress {
    version: AtomicU64,
    bytes: AtomicU64,
    nanos: AtomicU64,
    start: Instant,
}

/// Bytes so far, and when the last of them completed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// Bytes completed.
    pub bytes: u64,
    /// Nanoseconds since the common start.
    pub nanos: u64,
}

impl Default for Progress {
    fn default() -> Self {
        Progress::new(clock::now())
    }
}

impl Progress {
    /// Nothing done yet; `start` is common to all that are summed.
    pub fn new(start: Instant) -> Self {
        Progress { version: AtomicU64::new(0), bytes: AtomicU64::new(0), nanos: AtomicU64::new(0), start }
    }

    /// Adds completed bytes, now. Only the owning thread calls this.
    pub fn add(&self, bytes: u64) {
        self.add_at(bytes, clock::since(self.start).as_nanos() as u64);
    }

    /// The same by a clock that was read already, nanoseconds since the common start.
    pub(crate) fn add_at(&self, bytes: u64, nanos: u64) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        self.bytes.store(self.bytes.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
        self.nanos.store(nanos, Ordering::Relaxed);
        self.version.store(version + 2, Ordering::Release);
    }

    /// A consistent pair.
    pub fn mark(&self) -> Mark {
        loop {
            let before = self.version.load(Ordering::Acquire);
            let mark =
                Mark { bytes: self.bytes.load(Ordering::Relaxed), nanos: self.nanos.load(Ordering::Relaxed) };
            fence(Ordering::Acquire);
            if before.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == before {
                return mark;
            }
            std::hint::spin_loop();
        }
    }
}

impl Mark {
    /// Bytes per second between two marks; 0 where nothing completed in between.
    pub fn rate_since(&self, earlier: &Mark) -> f64 {
        let nanos = self.nanos.saturating_sub(earlier.nanos);
        if nanos == 0 { 0.0 } else { self.bytes.saturating_sub(earlier.bytes) as f64 * 1e9 / nanos as f64 }
    }
}

/// The other end closed the connection, or its port.
pub(super) fn other_end_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, NotConnected};
    matches!(
        error.kind(),
        BrokenPipe | ConnectionAborted | ConnectionRefused | ConnectionReset | NotConnected
    )
}

/// Stores the thread's CPU time every few milliseconds: a system call per block would cost what it measures.
pub(super) struct CpuClock {
    start: Duration,
    last: Instant,
}

impl CpuClock {
    /// Of the calling thread, from now on.
    pub(crate) fn new() -> Self {
        CpuClock { start: thread_cpu(), last: clock::now() }
    }

    /// Stores it if that is due; `now` may be some microseconds old.
    pub(crate) fn tick(&mut self, now: Instant, counter: &AtomicU64) {
        if now.saturating_duration_since(self.last) >= Duration::from_millis(5) {
            self.store(counter);
        }
    }

    /// Stores it, nanoseconds.
    pub(crate) fn store(&mut self, counter: &AtomicU64) {
        self.last = clock::now();
        counter.store(thread_cpu().saturating_sub(self.start).as_nanos() as u64, Ordering::Relaxed);
    }
}
