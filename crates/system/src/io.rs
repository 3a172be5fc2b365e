//! The I/O seam: what a lane may ask of the kernel, and how it hears back.
//!
//! Three implementations: [`crate::ring::Ring`] (io_uring), [`crate::blocking::Threads`] (no io_uring: blocking calls on threads)
//! and [`crate::fake::Fake`] (seeded, with faults, for tests).

use crate::buffers::Lease;
use std::io;
use std::time::Duration;

/// What to do with a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Read into the lease's first `length` bytes from `offset` of a registered file.
    Read {
        /// Index of the file given at set-up.
        file: usize,
        /// Byte offset in the file.
        offset: u64,
        /// Bytes to read.
        length: usize,
    },
    /// Send the lease's bytes `from .. from + length` on a registered socket; on TCP all of them before
    /// completion where the kernel sees to it (io_uring since Linux 5.19), else as many as it took.
    Send {
        /// Index of the socket given at set-up.
        socket: usize,
        /// First byte within the lease.
        from: usize,
        /// Bytes to send.
        length: usize,
        /// Bytes a system call, for datagram sockets with segmentation offload; 0: all at once.
        train_bytes: usize,
    },
}

/// An operation that is over; the lease is yours again.
#[derive(Debug)]
pub struct Completion {
    /// The number that was given at submission.
    pub tag: u64,
    /// What was asked.
    pub operation: Operation,
    /// The block.
    pub lease: Lease,
    /// Bytes moved, or the error.
    pub result: io::Result<usize>,
}

/// Submits operations and reaps completions. One owner, one thread.
pub trait Io {
    /// Queues an operation. Never blocks; fails only if more are in flight than the set-up allowed, and then gives the lease back.
    fn submit(&mut self, operation: Operation, lease: Lease, tag: u64) -> Result<(), Lease>;

    /// Hands queued operations to the kernel, waits until at least one is over or the time is up, and appends what is over.
    fn reap(&mut self, timeout: Duration, completions: &mut Vec<Completion>) -> io::Result<()>;

    /// Operations whose completion was not reaped yet.
    fn in_flight(&self) -> usize;

    /// CPU time of threads that work for the caller, as of their last operations; what the caller's own thread spends is not in it.
    fn helpers_cpu(&self) -> Duration {
        Duration::ZERO
    }

    /// What moves the bytes, for the report (`io_uring, registered buffers`).
    fn method(&self) -> String;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocking::Threads;
    use crate::buffers::Pool;
    use crate::fake::{Fake, Faults};
    use crate::ring::Ring;
    use std::os::fd::OwnedFd;

    const BLOCKS: usize = 8;

    /// `reap` appends to what the caller has not looked at yet, and `in_flight` stays exact.
    fn completions_can_pile_up(io: &mut impl Io, mut pool: Pool) {
        for block in 0..BLOCKS {
            let lease = pool.take().expect("a block");
            let read = Operation::Read { file: 0, offset: block as u64 * 4096, length: 4096 };
            io.submit(read, lease, block as u64).expect("room");
        }
        let mut piled = Vec::new();
        let mut reaps = 0;
        while piled.len() < BLOCKS {
            assert_eq!(io.in_flight(), BLOCKS - piled.len(), "{}", io.method());
            io.reap(Duration::from_secs(5), &mut piled).expect("completions");
            reaps += 1;
            assert!(reaps <= BLOCKS, "{}: a reap brought nothing", io.method());
        }
        assert_eq!(io.in_flight(), 0, "{}", io.method());
        let mut tags: Vec<u64> = piled.iter().map(|completion| completion.tag).collect();
        tags.sort_unstable();
        assert_eq!(tags, (0..BLOCKS as u64).collect::<Vec<_>>());
    }

    #[test]
    fn each_implementation_appends() {
        let pool = || Pool::new(BLOCKS, 4096).expect("a pool");
        let files = || -> Vec<OwnedFd> {
            let file = tempfile::tempfile().expect("a temporary file");
            file.set_len(BLOCKS as u64 * 4096).expect("a size");
            vec![file.into()]
        };
        completions_can_pile_up(&mut Fake::new(7, BLOCKS, Faults::default()), pool());
        completions_can_pile_up(&mut Threads::new(BLOCKS, files()).expect("threads"), pool());
        let blocks = pool();
        if let Ok(mut ring) = Ring::new(BLOCKS, files(), &blocks) {
            completions_can_pile_up(&mut ring, blocks);
        }
    }
}
