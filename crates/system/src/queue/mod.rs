//! Requests to files and sockets: the one seam between what moves bytes and the kernel.
//!
//! A request takes a block of a pool along as a [`Lease`]; while it is under way the block is the kernel's,
//! and nobody can reach it. It comes back with [`Done`]. Nothing is allocated or locked per request.
//!
//! [`ring::RingQueue`] is io_uring; [`threads::ThreadQueue`] keeps the same depth with blocking calls on
//! threads ([`open`] chooses between them); [`sync::SyncQueue`] and [`sync::MappedQueue`] do one request at
//! a time; `fake::FakeQueue` is seeded, with faults, for tests (feature `testing`).

#[cfg(any(test, feature = "testing"))]
pub mod fake;
mod requests;
pub mod ring;
pub mod sync;
pub mod threads;

use crate::buffers::{Lease, Pool};
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// From the file into the block.
    Read,
    /// From the block into the file.
    Write,
    /// From the block to a connected socket. On TCP all of it where the kernel sees to that (io_uring since
    /// Linux 5.19), else as much as it took.
    Send {
        /// Bytes a system call, for datagram sockets with segmentation; 0: all at once.
        train_bytes: usize,
        /// On TCP from where it lies, where the queue can ([`Queue::zero_copy`]): the block comes back once the
        /// device has it no longer, which is after [`Queue::taken`] has reported the send.
        zero_copy: bool,
    },
    /// What was written goes to the device (fsync); offset and lengths mean nothing.
    Flush {
        /// Without metadata that reading the data does not need, such as times (fdatasync).
        data_only: bool,
    },
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    pub action: Action,
    /// Index of the file or socket given at set-up.
    pub file: usize,
    /// Byte offset in the file; a socket has none.
    pub offset: u64,
    /// First byte within the block.
    pub from: usize,
    /// Bytes.
    pub length: usize,
}

/// A request that is over; its block is yours again.
#[derive(Debug)]
pub struct Completion {
    pub lease: Lease,
    /// Bytes moved, or the error.
    pub result: io::Result<usize>,
}

/// A send without a copy that the kernel has taken: the next one may follow, and the block is still away.
#[derive(Debug)]
pub struct Taken {
    /// Its block's, in the pool.
    pub number: usize,
    /// Bytes that will go out.
    pub bytes: usize,
}

/// What came of sends without a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZeroCopySends {
    /// Of which it is known what came of them.
    pub sends: u64,
    /// Of these the kernel copied all the same (loopback, veth, a NIC that cannot gather).
    pub copied: u64,
    /// Completions that belonged to no request under way (a notification that came twice), and were dropped.
    pub unexpected: u64,
}

/// Submits requests and reaps them. One owner, one thread.
pub trait Queue {
    /// Queues a request on a block of the queue's pool. Never blocks, and there is room for all blocks; the
    /// queues that do one request at a time take one. Panics where the request is outside its block or the
    /// files: then the caller is at fault.
    fn submit(&mut self, lease: Lease, transfer: Transfer);

    /// Hands what is queued to the kernel and appends what is over. With `wait` it waits for that long at
    /// most until something is; with nothing under way it waits for just that long.
    fn turn(&mut self, wait: Option<Duration>, done: &mut Vec<Completion>) -> io::Result<()>;

    /// Whether a send may go out from where it lies; where not, it is copied.
    fn zero_copy(&self) -> bool {
        false
    }

    /// Appends the sends without a copy that were taken since the last call. One that fails is reported by its
    /// completion alone.
    fn taken(&mut self, _taken: &mut Vec<Taken>) {}

    /// What came of the sends without a copy so far.
    fn zero_copy_sends(&self) -> ZeroCopySends {
        ZeroCopySends::default()
    }

    /// Asks for the end of the request on this block, as of a send to a peer that takes nothing: it comes back soon,
    /// with the bytes that it has moved or ECANCELED. False where the queue cannot.
    fn cancel(&mut self, _number: usize) -> bool {
        false
    }

    /// Lets a turn that waits do so for this many completions rather than for the first, where that spares
    /// calls of the kernel.
    fn gather(&mut self, _completions: usize) {}

    /// Requests that were submitted and did not come back yet.
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

/// io_uring where it is wanted and allowed (it is off in many containers), else threads; and what moves the
/// bytes.
pub fn open(io_uring: bool, files: Vec<Arc<File>>, pool: &Pool) -> io::Result<(Box<dyn Queue>, String)> {
    let refused = match io_uring.then(|| ring::RingQueue::new(files.clone(), pool)) {
        Some(Ok(ring)) => {
            let method = ring.method();
            return Ok((Box::new(ring), method));
        }
        Some(Err(error)) => format!("; io_uring was refused: {error}"),
        None => String::new(),
    };
    let threads = threads::ThreadQueue::new(files, pool)?;
    let method = threads.method() + &refused;
    Ok((Box::new(threads), method))
}

/// The caller's mistakes end here, before any pointer is made of them.
fn check(transfer: &Transfer, files: usize, block_bytes: usize) {
    // Checked: a sum that wraps round would pass for small.
    let end = transfer.from.checked_add(transfer.length);
    assert!(end.is_some_and(|end| end <= block_bytes), "a request outside its block");
    assert!(transfer.file < files, "a request to a file that was not given");
}

#[cfg(test)]
mod tests {
    use super::fake::{FakeQueue, Faults};
    use super::*;
    use std::io::Read;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    const BLOCKS: usize = 8;
    const BLOCK: usize = 8192;

    fn pool() -> Pool {
        Pool::new(BLOCKS, BLOCK).expect("a pool")
    }

    fn file() -> Arc<File> {
        let file = tempfile::tempfile().expect("a temporary file");
        file.set_len((BLOCKS * BLOCK) as u64).expect("a size");
        Arc::new(file)
    }

    fn all_done(queue: &mut dyn Queue) -> Vec<Completion> {
        let mut done = Vec::new();
        let patience = Instant::now() + Duration::from_secs(20);
        while queue.in_flight() > 0 {
            assert!(Instant::now() < patience, "{}: nothing comes back", queue.method());
            queue.turn(Some(Duration::from_millis(50)), &mut done).expect("a turn");
        }
        done
    }

    /// Each queue that this kernel has, with the pool that it was made for, over one file.
    fn each_queue(depth: usize, check: impl Fn(&mut dyn Queue, Pool, usize)) {
        let fake_file = vec![0; BLOCKS * BLOCK];
        check(&mut FakeQueue::new(7, vec![fake_file], Faults::default()), pool(), depth);
        let blocks = pool();
        check(&mut threads::ThreadQueue::new(vec![file()], &blocks).expect("threads"), blocks, depth);
        check(&mut sync::SyncQueue::new(vec![file()]), pool(), 1);
        check(&mut sync::MappedQueue::new(vec![file()], true).expect("a mapping"), pool(), 1);
        let blocks = pool();
        match ring::RingQueue::new(vec![file()], &blocks) {
            Ok(mut queue) => check(&mut queue, blocks, depth),
            Err(error) => eprintln!("skipped: no io_uring here: {error}"),
        }
    }

    fn one(queue: &mut dyn Queue, lease: Lease, transfer: Transfer) -> Completion {
        queue.submit(lease, transfer);
        let mut done = all_done(queue);
        assert_eq!(done.len(), 1);
        done.remove(0)
    }

    fn writes_come_back(queue: &mut dyn Queue, mut pool: Pool, depth: usize) {
        for round in 0..BLOCKS / depth {
            for place in round * depth..(round + 1) * depth {
                let mut lease = pool.take().expect("a free block");
                lease.bytes_mut().fill(place as u8 + 1);
                let offset = (place * BLOCK) as u64;
                queue.submit(
                    lease,
                    Transfer { action: Action::Write, file: 0, offset, from: 0, length: BLOCK },
                );
            }
            let done = all_done(queue);
            assert_eq!(done.len(), depth, "{}", queue.method());
            for done in done {
                assert!(matches!(done.result, Ok(BLOCK)), "{done:?}");
                pool.give_back(done.lease);
            }
        }
        let lease = pool.take().expect("a free block");
        let flush = |data_only| Transfer {
            action: Action::Flush { data_only },
            file: 0,
            offset: 0,
            from: 0,
            length: 0,
        };
        let Completion { lease, result } = one(queue, lease, flush(true));
        assert!(result.is_ok(), "{}: {result:?}", queue.method());
        let Completion { mut lease, result } = one(queue, lease, flush(false));
        assert!(result.is_ok(), "{}: {result:?}", queue.method());
        for place in (0..BLOCKS).rev() {
            // The second half only, into the second half of the block.
            let (from, length) = (BLOCK / 2, BLOCK / 2);
            lease.bytes_mut().fill(0);
            let offset = (place * BLOCK + from) as u64;
            lease = one(queue, lease, Transfer { action: Action::Read, file: 0, offset, from, length }).lease;
            assert!(lease.bytes()[..from].iter().all(|byte| *byte == 0));
            assert!(lease.bytes()[from..].iter().all(|byte| *byte == place as u8 + 1), "place {place}");
        }
        let past = Transfer { action: Action::Read, file: 0, offset: 1 << 30, from: 0, length: 4096 };
        let past = one(queue, lease, past);
        assert!(!matches!(past.result, Ok(1..)), "{}: read past the end: {past:?}", queue.method());
    }

    #[test]
    fn each_queue_reads_what_it_wrote() {
        each_queue(BLOCKS, writes_come_back);
    }

    /// `turn` appends to what the caller has not looked at yet, and `in_flight` stays exact.
    fn completions_can_pile_up(queue: &mut dyn Queue, mut pool: Pool, depth: usize) {
        for block in 0..depth {
            let lease = pool.take().expect("a block");
            let offset = (block * BLOCK) as u64;
            queue.submit(lease, Transfer { action: Action::Read, file: 0, offset, from: 0, length: BLOCK });
        }
        let mut piled = Vec::new();
        for turns in 0.. {
            assert_eq!(queue.in_flight(), depth - piled.len(), "{}", queue.method());
            if piled.len() == depth {
                break;
            }
            assert!(turns < 100, "{}: turns bring nothing", queue.method());
            queue.turn(Some(Duration::from_secs(5)), &mut piled).expect("completions");
        }
        let mut numbers: Vec<usize> = piled.iter().map(|done| done.lease.number()).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..depth).collect::<Vec<_>>());
    }

    #[test]
    fn each_queue_appends() {
        each_queue(BLOCKS, completions_can_pile_up);
    }

    #[test]
    fn each_queue_sends_what_it_read() {
        for io_uring in [true, false] {
            let content: Vec<u8> = (0..BLOCKS * BLOCK).map(|index| (index % 251) as u8).collect();
            let source = file();
            std::os::unix::fs::FileExt::write_all_at(&*source, &content, 0).expect("written");
            let (local, mut remote) = UnixStream::pair().expect("a pair");
            let mut pool = pool();
            let files = vec![source, Arc::new(File::from(OwnedFd::from(local)))];
            let (mut queue, method) = open(io_uring, files, &pool).expect("a queue");
            let reader = std::thread::spawn(move || {
                let mut received = vec![0; BLOCKS * BLOCK];
                remote.read_exact(&mut received).map(|()| received)
            });
            for block in 0..BLOCKS {
                let offset = (block * BLOCK) as u64;
                let read = Transfer { action: Action::Read, file: 0, offset, from: 0, length: BLOCK };
                let read = one(&mut *queue, pool.take().expect("a block"), read);
                assert!(matches!(read.result, Ok(BLOCK)), "{method}: {read:?}");
                let action = Action::Send { train_bytes: 0, zero_copy: false };
                let send = Transfer { action, file: 1, offset: 0, from: 0, length: BLOCK };
                let sent = one(&mut *queue, read.lease, send);
                assert!(matches!(sent.result, Ok(BLOCK)), "{method}: {sent:?}");
                pool.give_back(sent.lease);
            }
            assert!(reader.join().expect("the reader").expect("received") == content, "{method}");
        }
    }

    /// More trains than a small ring has entries: they are one request, and each is a datagram.
    #[test]
    fn each_queue_sends_trains() {
        for io_uring in [true, false] {
            let receiver = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
            receiver.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
            let sender = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
            sender.connect(receiver.local_addr().expect("an address")).expect("connected");
            let mut pool = Pool::new(1, BLOCK).expect("a pool");
            let files = vec![Arc::new(File::from(OwnedFd::from(sender)))];
            let (mut queue, method) = open(io_uring, files, &pool).expect("a queue");
            let mut lease = pool.take().expect("a block");
            lease.bytes_mut().chunks_mut(100).zip(0..).for_each(|(bytes, index)| bytes.fill(index));
            let action = Action::Send { train_bytes: 100, zero_copy: false };
            let send = Transfer { action, file: 0, offset: 0, from: 500, length: 3950 };
            let sent = one(&mut *queue, lease, send);
            assert!(matches!(sent.result, Ok(3950)), "{method}: {sent:?}");
            let mut datagram = [0; 200];
            for index in 5..45 {
                let length = if index < 44 { 100 } else { 50 };
                assert_eq!(receiver.recv(&mut datagram).expect("received"), length, "{method}");
                assert_eq!(datagram[0], index, "{method}");
            }
        }
    }

    #[test]
    fn an_idle_turn_waits_its_time() {
        let start = Instant::now();
        let wait = Some(Duration::from_millis(20));
        sync::SyncQueue::new(vec![file()]).turn(wait, &mut Vec::new()).expect("nothing");
        if let Ok(mut ring) = ring::RingQueue::new(vec![file()], &pool()) {
            ring.turn(wait, &mut Vec::new()).expect("nothing");
            assert!(start.elapsed() >= Duration::from_millis(35));
        }
        assert!(start.elapsed() >= Duration::from_millis(15));
    }

    /// Whether each queue refuses the request before the kernel sees it.
    fn is_refused(pool_of_another: bool, transfer: Transfer) {
        let (mut own, mut other) = (pool(), pool());
        let sender = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let files = vec![file(), Arc::new(File::from(OwnedFd::from(sender)))];
        for io_uring in [true, false] {
            let (mut queue, method) = open(io_uring, files.clone(), &own).expect("a queue");
            let lease = if pool_of_another { other.take() } else { own.take() }.expect("a block");
            let submitted = std::panic::AssertUnwindSafe(|| queue.submit(lease, transfer));
            assert!(std::panic::catch_unwind(submitted).is_err(), "{method}: {transfer:?}");
            assert_eq!(queue.in_flight(), 0, "{method}");
        }
    }

    #[test]
    fn a_request_outside_its_block_is_refused() {
        let read = Transfer { action: Action::Read, file: 0, offset: 0, from: 0, length: BLOCK };
        is_refused(false, Transfer { from: usize::MAX, length: 2, ..read });
        is_refused(false, Transfer { from: 1, ..read });
        is_refused(false, Transfer { file: 2, ..read });
        let send = Transfer { action: Action::Send { train_bytes: 100, zero_copy: false }, file: 1, ..read };
        is_refused(false, Transfer { from: usize::MAX, length: 2, ..send });
        is_refused(true, read);
    }
}
