//! Requests to files on numbered slots, for the storage benchmarks: leaner than [`crate::io`], whose leases travel with each request.
//!
//! Each slot has a block of memory of its own for as long as the queue lives. While its request is under way the block is the
//! kernel's, and [`Queue::block`] refuses it: that is the safety seam here. Nothing is allocated or locked per request.
//!
//! [`ring::RingQueue`] is io_uring; [`threads::ThreadQueue`] keeps the same depth with blocking calls on threads;
//! [`sync::SyncQueue`] and [`mapped::MappedQueue`] do one request at a time; [`fake::FakeQueue`] is seeded, with faults, for tests.

pub mod fake;
pub mod mapped;
pub mod ring;
mod single;
pub mod sync;
pub mod threads;

use std::io;
use std::time::{Duration, Instant};

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// From the file into the slot's block.
    Read,
    /// From the slot's block into the file.
    Write,
    /// What was written goes to the device (fsync); offset and lengths say nothing.
    Flush,
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    pub action: Action,
    /// Index of the file given at set-up.
    pub file: usize,
    /// Byte offset in the file.
    pub offset: u64,
    /// First byte within the slot's block.
    pub from: usize,
    /// Bytes.
    pub length: usize,
}

/// A request that is over; its block is yours again.
#[derive(Debug)]
pub struct Done {
    pub slot: usize,
    /// Bytes moved, or the error.
    pub result: io::Result<usize>,
}

/// Submits requests and reaps them. One owner, one thread.
pub trait Queue {
    /// How many blocks there are. As many requests may be under way, but for the queues that do one at a time.
    fn slots(&self) -> usize;

    /// The slot's memory; none while its request is under way.
    fn block(&mut self, slot: usize) -> Option<&mut [u8]>;

    /// Queues a request on a free slot. Never blocks. Panics where the slot is taken, or the request outside its block or the files:
    /// then the caller is at fault.
    fn submit(&mut self, slot: usize, transfer: Transfer);

    /// Hands what is queued to the kernel and appends what is over. With `wait` it waits for that long at most until something is;
    /// with nothing under way it waits for just that long.
    fn turn(&mut self, wait: Option<Duration>, done: &mut Vec<Done>) -> io::Result<()>;

    /// Lets a turn that waits do so for this many completions rather than for the first, where that spares calls of the kernel.
    fn gather(&mut self, _completions: usize) {}

    /// Requests that were submitted and whose end was not told yet.
    fn in_flight(&self) -> usize;

    /// CPU time of threads that work for the caller; what the caller's own thread spends is not in it.
    fn helpers_cpu(&self) -> Duration {
        Duration::ZERO
    }

    /// The clock that a request's times are read from. Only the fake has one of its own.
    fn now(&self) -> Instant {
        Instant::now()
    }

    /// What moves the bytes, for the report.
    fn method(&self) -> String;
}

/// The caller's mistakes end here, before any pointer is made of them.
fn check(transfer: &Transfer, files: usize, block_bytes: usize) {
    let end = transfer.from.checked_add(transfer.length);
    assert!(end.is_some_and(|end| end <= block_bytes), "a request outside its block");
    assert!(transfer.file < files, "a request to a file that was not given");
}

#[cfg(test)]
mod tests {
    use super::fake::{FakeQueue, Faults};
    use super::*;
    use std::fs::File;
    use std::sync::Arc;

    const SLOTS: usize = 8;
    const BLOCK: usize = 8192;

    fn file() -> Vec<Arc<File>> {
        let file = tempfile::tempfile().expect("a temporary file");
        file.set_len((SLOTS * BLOCK) as u64).expect("a size");
        vec![Arc::new(file)]
    }

    fn all_done(queue: &mut impl Queue) -> Vec<Done> {
        let mut done = Vec::new();
        let patience = Instant::now() + Duration::from_secs(20);
        while queue.in_flight() > 0 {
            assert!(Instant::now() < patience, "{}: nothing comes back", queue.method());
            queue.turn(Some(Duration::from_millis(50)), &mut done).expect("a turn");
        }
        done
    }

    fn writes_come_back(mut queue: impl Queue) {
        let slots = queue.slots();
        for round in 0..SLOTS / slots {
            for slot in 0..slots {
                let place = round * slots + slot;
                queue.block(slot).expect("a free block").fill(place as u8 + 1);
                let offset = (place * BLOCK) as u64;
                queue.submit(
                    slot,
                    Transfer { action: Action::Write, file: 0, offset, from: 0, length: BLOCK },
                );
                assert!(queue.block(slot).is_none(), "{}: the block is under way", queue.method());
            }
            let done = all_done(&mut queue);
            assert_eq!(done.len(), slots, "{}", queue.method());
            assert!(done.iter().all(|done| matches!(done.result, Ok(BLOCK))), "{done:?}");
        }
        queue.submit(0, Transfer { action: Action::Flush, file: 0, offset: 0, from: 0, length: 0 });
        let flushed = all_done(&mut queue);
        assert!(flushed[0].result.is_ok(), "{}: {flushed:?}", queue.method());
        for place in (0..SLOTS).rev() {
            // The second half only, into the second half of the block.
            let (from, length) = (BLOCK / 2, BLOCK / 2);
            queue.block(0).expect("a free block").fill(0);
            let offset = (place * BLOCK + from) as u64;
            queue.submit(0, Transfer { action: Action::Read, file: 0, offset, from, length });
            assert_eq!(all_done(&mut queue).len(), 1);
            let block = queue.block(0).expect("a free block");
            assert!(block[..from].iter().all(|byte| *byte == 0));
            assert!(block[from..].iter().all(|byte| *byte == place as u8 + 1), "place {place}");
        }
        queue.submit(0, Transfer { action: Action::Read, file: 0, offset: 1 << 30, from: 0, length: 4096 });
        let past = all_done(&mut queue);
        assert!(!matches!(past[0].result, Ok(1..)), "{}: read past the end: {past:?}", queue.method());
    }

    #[test]
    fn each_queue_reads_what_it_wrote() {
        writes_come_back(FakeQueue::new(7, SLOTS, BLOCK, vec![vec![0; SLOTS * BLOCK]], Faults::default()));
        writes_come_back(threads::ThreadQueue::new(SLOTS, BLOCK, file()).expect("threads"));
        writes_come_back(sync::SyncQueue::new(1, BLOCK, file()).expect("memory"));
        writes_come_back(mapped::MappedQueue::new(1, BLOCK, file(), true).expect("a mapping"));
        match ring::RingQueue::new(SLOTS, BLOCK, file()) {
            Ok(queue) => writes_come_back(queue),
            Err(error) => eprintln!("skipped: no io_uring here: {error}"),
        }
    }

    #[test]
    fn an_idle_turn_waits_its_time() {
        let start = Instant::now();
        let wait = Some(Duration::from_millis(20));
        sync::SyncQueue::new(1, BLOCK, file()).expect("memory").turn(wait, &mut Vec::new()).expect("nothing");
        if let Ok(mut ring) = ring::RingQueue::new(1, BLOCK, file()) {
            ring.turn(wait, &mut Vec::new()).expect("nothing");
            assert!(start.elapsed() >= Duration::from_millis(35));
        }
        assert!(start.elapsed() >= Duration::from_millis(15));
    }

    #[test]
    #[should_panic(expected = "a request outside its block")]
    fn a_request_whose_end_wraps_round_is_refused() {
        let mut queue = sync::SyncQueue::new(1, BLOCK, file()).expect("memory");
        queue.submit(0, Transfer { action: Action::Read, file: 0, offset: 0, from: usize::MAX, length: 2 });
    }
}
