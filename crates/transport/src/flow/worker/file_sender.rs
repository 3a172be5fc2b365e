//! The worker's loop a call at a time: ranges of one file, one after another, to a connection that stays open. For
//! senders that keep to a rate between two calls, or have to know at any moment what has gone out.

use super::{Block, Look, LoopState, MOST_SEND_BYTES, Sink, Worker, WorkerLoop};
use crate::flow::counters::WorkerCounters;
use crate::flow::source::{RangeCursor, Source};
use linerate_system::buffers::Pool;
use linerate_system::clock;
use linerate_system::queue::{self, Completion, Queue};
use std::fs::File;
use std::io;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Bytes a read.
const BLOCK_BYTES: usize = 1 << 20;
/// Reads in flight; and beside them the block that is being sent and the next.
const DEPTH: usize = 8;
const BLOCKS: usize = DEPTH + 2;
/// A send that moves nothing for so long may be called back.
const FULL_AFTER: Duration = Duration::from_millis(100);
/// A send that was called back ends within this, or its connection is lost.
const CALL_BACK_TIME: Duration = Duration::from_millis(500);

/// Reads a file past the page cache at depth and sends what it read.
pub struct FileSender {
    queue: Box<dyn Queue>,
    pool: Pool,
    source: Source,
    state: LoopState,
    /// Empty between two calls.
    done: Vec<Completion>,
    counters: WorkerCounters,
    /// Nobody sets it: it ends between two calls.
    stop: AtomicBool,
    send_began: Instant,
    /// Of the waits for the file those that were reported.
    reported_wait_nanos: u64,
}

impl FileSender {
    /// `file` was opened with O_DIRECT; `label` is what errors call it. Nothing is sent before [`FileSender::begin`].
    pub fn new(stream: &TcpStream, file: Arc<File>, label: String) -> io::Result<Self> {
        let pool = Pool::new(BLOCKS, BLOCK_BYTES)?;
        let socket = File::from(OwnedFd::from(stream.try_clone()?));
        let (queue, _) = queue::open(true, vec![Arc::clone(&file), Arc::new(socket)], &pool)?;
        let source = Source::Range { file, cursor: RangeCursor::new(0, 0, 0), label };
        let (counters, stop) = (WorkerCounters::new(clock::now()), AtomicBool::new(false));
        let state = LoopState::new(&worker(&source, &counters, &stop), &*queue, &pool);
        Ok(FileSender {
            queue,
            pool,
            source,
            state,
            done: Vec::with_capacity(BLOCKS),
            counters,
            stop,
            send_began: clock::now(),
            reported_wait_nanos: 0,
        })
    }

    /// A range that is sent from now on; the one before was sent to its end, or the connection is lost.
    pub fn begin(&mut self, offset: u64, length: u64) {
        self.begin_rounds(offset, length, length);
    }

    /// The same until `wanted` bytes were sent: the range is begun again at its end.
    pub(crate) fn begin_rounds(&mut self, offset: u64, length: u64, wanted: u64) {
        debug_assert!(self.state.blocks.is_empty(), "the last range is not at its end");
        if let Source::Range { cursor, .. } = &mut self.source {
            *cursor = RangeCursor::new(offset, length, wanted);
        }
    }

    /// Sends the next bytes; gives those that went out, none at the range's end and where nothing could be sent
    /// within a tenth of a second. `look` sees them.
    pub fn send(&mut self, most: usize, mut look: impl FnMut(&[u8])) -> io::Result<usize> {
        self.state.most_send_bytes = most.clamp(1, MOST_SEND_BYTES);
        let (before, was_sending) = (self.sent_bytes(), self.state.sending.is_some());
        let mut done = std::mem::take(&mut self.done);
        let mut work = self.work(Some(&mut look));
        work.ask_for_blocks();
        if !was_sending && matches!(work.state.blocks.front(), Some(Block::Reading { .. })) {
            work.turn(&mut done)?;
        }
        work.send_next();
        let began = clock::now();
        if work.state.sending.is_some() {
            work.turn(&mut done)?;
        }
        self.done = done;
        if !was_sending {
            self.send_began = began;
        }
        Ok((self.sent_bytes() - before) as usize)
    }

    /// The next bytes, for who sends them himself; none where the file gave none within 50 ms. [`FileSender::took`] says
    /// how many are done with.
    pub fn next_bytes(&mut self, most: usize) -> io::Result<&[u8]> {
        let mut done = std::mem::take(&mut self.done);
        let mut work = self.work(None);
        work.ask_for_blocks();
        if matches!(work.state.blocks.front(), Some(Block::Reading { .. })) {
            work.turn(&mut done)?;
        }
        self.done = done;
        Ok(match self.state.blocks.front() {
            Some(Block::Ready { lease, length, sent }) => &lease.bytes()[*sent..*length.min(&(sent + most))],
            _ => &[],
        })
    }

    /// So many of the bytes that it gave are sent.
    pub fn took(&mut self, bytes: usize) {
        self.counters.progress.add(bytes as u64);
        let Some(Block::Ready { length, sent, .. }) = self.state.blocks.front_mut() else { return };
        *sent += bytes;
        if sent == length
            && let Some(Block::Ready { lease, .. }) = self.state.blocks.pop_front()
        {
            self.pool.give_back(lease);
        }
    }

    /// Nothing could be sent: calls back what is under way, so that this can be dropped. Gives the bytes that the socket
    /// has taken of it; none where it is the file that is waited for, or the kernel calls nothing back: then go on.
    pub fn call_back(&mut self) -> Option<io::Result<usize>> {
        let Some(sending) = self.state.sending else {
            // Without io_uring a send ends by itself.
            return matches!(self.state.blocks.front(), Some(Block::Ready { .. })).then_some(Ok(0));
        };
        // It may have begun a moment ago, after a wait for the file.
        if clock::since(self.send_began) < FULL_AFTER || !self.queue.cancel(sending.number) {
            return None;
        }
        let (before, patience) = (self.sent_bytes(), clock::now() + CALL_BACK_TIME);
        while self.state.sending.is_some() {
            if clock::now() >= patience {
                return Some(Err(io::ErrorKind::TimedOut.into()));
            }
            if let Err(error) = self.work(None).turn(&mut Vec::new()) {
                return Some(Err(error.into()));
            }
        }
        Some(Ok((self.sent_bytes() - before) as usize))
    }

    /// How long the file has kept it waiting since this was asked last.
    pub fn take_waited(&mut self) -> Duration {
        let all = self.counters.waiting_source_nanos.load(Ordering::Relaxed);
        Duration::from_nanos(all - std::mem::replace(&mut self.reported_wait_nanos, all))
    }

    /// What moves the bytes, for the report.
    pub fn method(&self) -> String {
        self.queue.method()
    }

    fn sent_bytes(&self) -> u64 {
        self.counters.progress.mark().bytes
    }

    fn work<'a>(&'a mut self, look: Option<Look<'a>>) -> WorkerLoop<'a, dyn Queue> {
        let worker = worker(&self.source, &self.counters, &self.stop);
        WorkerLoop { worker, queue: &mut *self.queue, pool: &mut self.pool, state: &mut self.state, look }
    }
}

/// Its worker, for one call. Whoever calls has the patience.
fn worker<'a>(source: &'a Source, counters: &'a WorkerCounters, stop: &'a AtomicBool) -> Worker<'a> {
    Worker {
        source,
        sink: Sink::Tcp,
        block_bytes: BLOCK_BYTES,
        depth: DEPTH,
        verify: false,
        patience: Duration::MAX,
        rate_limit: None,
        zero_copy: false,
        counters,
        stop,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;

    /// So many bytes, and a file of them that is read past the page cache; none, with a message, where that cannot be.
    fn direct_file(bytes: u32) -> Option<(Vec<u8>, File)> {
        let content: Vec<u8> = (0..bytes).map(|i| ((i * 7) >> 3) as u8).collect();
        let place = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(place.path(), &content).expect("written");
        let Ok(file) = linerate_system::file::open_to_read(place.path(), true) else {
            eprintln!("skipped: no O_DIRECT here");
            return None;
        };
        Some((content, file))
    }

    /// A peer that takes nothing: the bytes that the socket has are known, and the rest can be sent by another.
    #[test]
    fn a_send_that_waits_for_the_peer_is_called_back() {
        let Some((content, file)) = direct_file(48_000_000) else { return };
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let near = TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
        near.set_write_timeout(Some(std::time::Duration::from_millis(100))).expect("a timeout");
        let (mut far, _) = listener.accept().expect("accepted");
        let file = Arc::new(file);
        let mut sender = FileSender::new(&near, Arc::clone(&file), "f".into()).expect("a sender");
        sender.begin(0, content.len() as u64);
        let mut sent = 0;
        let patience = std::time::Instant::now() + std::time::Duration::from_secs(20);
        loop {
            let went = sender.send(1 << 20, |_| {}).expect("sent");
            sent += went;
            if went == 0
                && let Some(called_back) = sender.call_back()
            {
                sent += called_back.expect("called back");
                break;
            }
            assert!(std::time::Instant::now() < patience && sent < content.len(), "{sent}");
        }
        drop(sender);
        let reader = std::thread::spawn(move || {
            let mut received = Vec::new();
            far.read_to_end(&mut received).map(|_| received)
        });
        let mut next = FileSender::new(&near, file, "f".into()).expect("another sender");
        next.begin(sent as u64, (content.len() - sent) as u64);
        while sent < content.len() {
            sent += next.send(1 << 20, |_| {}).expect("sent");
        }
        near.shutdown(std::net::Shutdown::Write).expect("shut");
        assert!(reader.join().expect("the reader").expect("received") == content);
    }

    #[test]
    fn ranges_come_one_after_another_over_one_connection() {
        let Some((content, file)) = direct_file(5_000_000) else { return };
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let near = TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
        let (mut far, _) = listener.accept().expect("accepted");
        let ranges = [(0u64, 5_000_000u64), (4_999_999, 1), (1, 2_000_003), (3_000_000, 1_000_000)];
        let reader = std::thread::spawn(move || {
            let mut received = Vec::new();
            far.read_to_end(&mut received).map(|_| received)
        });
        let mut sender = FileSender::new(&near, Arc::new(file), "f".into()).expect("a sender");
        let (mut expected, mut seen) = (Vec::new(), 0);
        for (offset, length) in ranges {
            sender.begin(offset, length);
            let mut left = length;
            while left > 0 {
                left -= sender.send(1 << 20, |bytes| seen += bytes.len()).expect("sent") as u64;
            }
            expected.extend_from_slice(&content[offset as usize..(offset + length) as usize]);
        }
        near.shutdown(std::net::Shutdown::Write).expect("shut");
        assert!(reader.join().expect("the reader").expect("received") == expected);
        assert_eq!(seen, expected.len());
    }

    /// For who sends them himself: in any amounts, ranges one after another.
    #[test]
    fn bytes_are_given_in_the_order_of_the_file() {
        let Some((content, file)) = direct_file(5_000_000) else { return };
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let near = TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
        let mut sender = FileSender::new(&near, Arc::new(file), "f".into()).expect("a sender");
        let (mut expected, mut given) = (Vec::new(), Vec::new());
        for (offset, length, most) in [(0, 5_000_000, 1 << 20), (4_999_999, 1, 9), (1, 2_000_003, 70_001)] {
            sender.begin(offset, length);
            let mut left = length;
            while left > 0 {
                let bytes = sender.next_bytes(most).expect("read");
                assert!(bytes.len() <= most);
                // Not always all of what it gave.
                let taken = bytes.len() - bytes.len() / 3;
                given.extend_from_slice(&bytes[..taken]);
                sender.took(taken);
                left -= taken as u64;
            }
            expected.extend_from_slice(&content[offset as usize..(offset + length) as usize]);
        }
        assert!(given == expected);
    }
}
