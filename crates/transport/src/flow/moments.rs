//! What every thread of a data path does beside moving bytes: it keeps its CPU time, and goes on after an
//! error that is none.

use linerate_system::clock;
use linerate_system::counters::thread_cpu;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

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
