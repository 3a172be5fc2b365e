//! One worker's loop: keep the source busy at depth, send what has come in the order it was asked for,
//! account for the time.
//!
//! Generic over `Queue`, so that the same loop runs on io_uring, on threads and on the seeded fake with its
//! faults.

mod error;
mod file_sender;
mod send;

use super::counters::WorkerCounters;
use super::rate_limit::RateLimit;
use super::source::{Piece, ReadAhead, Source};
use super::udp::UdpSender;
pub use error::WorkerError;
use error::sink_error;
pub use file_sender::FileSender;
use linerate_system::buffers::{Lease, Pool};
use linerate_system::clock;
use linerate_system::counters::thread_cpu;
use linerate_system::queue::{Action, Completion, Queue, Transfer};
use linerate_system::segmentation::SendRefusal;
use send::{Lent, MOST_SEND_BYTES};
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The worker looks at `stop` at least this often.
const TURN_WAIT: Duration = Duration::from_millis(50);
/// Ctrl-C ends within a second: what is still in flight after this is cancelled by the ring's end.
const DRAIN_WAIT: Duration = Duration::from_millis(600);
/// Index of the first of the queue's files: the source's, or the socket where memory is sent.
pub const FILE: usize = 0;

/// Where a worker's bytes go.
#[derive(Debug)]
pub enum Sink {
    /// Nowhere: the disk stage. `reads`: each block is read once by the CPU, as a send would read it.
    Null { reads: bool },
    /// The queue's TCP socket.
    Tcp,
    /// The queue's UDP socket, held by this window.
    Udp(Box<UdpSender>),
}

impl Sink {
    /// A send that failed: the bytes that it moved, none, where it may be tried again.
    fn go_on_after(&mut self, error: io::Error) -> io::Result<usize> {
        let Sink::Udp(udp) = self else { return Err(error) };
        match udp.refused(error) {
            // A full device queue: a moment later it has room, at once it has none.
            SendRefusal::Busy => clock::sleep(Duration::from_micros(100)),
            SendRefusal::SegmentationOff => {}
            SendRefusal::PortClosed(error) | SendRefusal::TooLarge(error) | SendRefusal::Failed(error) => {
                return Err(error);
            }
        }
        Ok(0)
    }
}

/// What a worker does and for how long it is patient.
#[derive(Debug)]
pub struct Worker<'a> {
    pub source: &'a Source,
    pub sink: Sink,
    /// Bytes a read.
    pub block_bytes: usize,
    /// Reads in flight.
    pub depth: usize,
    /// Checksum what is sent.
    pub verify: bool,
    /// No completion for this long is a stall.
    pub patience: Duration,
    /// The most that all workers of the flow move together.
    pub rate_limit: Option<&'a RateLimit>,
    /// On TCP blocks go out from where they lie, where the queue can, until the kernel refuses it.
    pub zero_copy: bool,
    pub counters: &'a WorkerCounters,
    /// Set by somebody else: end soon.
    pub stop: &'a AtomicBool,
}

/// A block on its way through the worker, in the order of the file.
#[derive(Debug)]
enum Block {
    Reading { number: usize },
    Ready { lease: Lease, length: usize, sent: usize },
}

/// The block that is being sent, and the first byte of the send.
#[derive(Clone, Copy, Debug)]
struct Sending {
    number: usize,
    length: usize,
    from: usize,
    /// Bytes that were asked for.
    asked: usize,
    /// Of a send without a copy: the checksum with these bytes, which are out of reach once it is taken.
    digest: Option<linerate_sums::Crc>,
    zero_copy: bool,
}

/// Looks at what went out.
type Look<'a> = &'a mut dyn FnMut(&[u8]);

/// A worker with what its loop needs: the queue, the blocks, and how far it is.
struct WorkerLoop<'a, Q: Queue + ?Sized> {
    worker: Worker<'a>,
    queue: &'a mut Q,
    pool: &'a mut Pool,
    state: &'a mut LoopState,
    look: Option<Look<'a>>,
}

/// How far the loop of a worker is.
#[derive(Debug)]
struct LoopState {
    blocks: VecDeque<Block>,
    ahead: ReadAhead,
    /// What each block of the pool was asked for, by its number.
    pieces: Vec<Piece>,
    sending: Option<Sending>,
    /// The most that one send on TCP takes.
    most_send_bytes: usize,
    lent: Lent,
    digest: Option<linerate_sums::Crc>,
    last_completion: Instant,
    cpu_stored: Instant,
    cpu_start: Duration,
}

impl<'a> Worker<'a> {
    /// Runs until `stop`, then lets what is in flight come home.
    pub fn run<Q: Queue + ?Sized>(self, queue: &mut Q, pool: &mut Pool) -> Result<(), WorkerError> {
        let mut state = LoopState::new(&self, queue, pool);
        let mut work = self.begin(queue, pool, &mut state);
        let result = work.turn_until_stopped();
        let drained = work.drain();
        let settled = match &mut work.worker.sink {
            Sink::Udp(udp) if result.is_ok() => udp.settle(),
            _ => Ok(()),
        };
        work.store_results();
        result.and(drained).and(settled.map_err(sink_error))
    }

    fn begin<'q, Q: Queue + ?Sized>(
        self,
        queue: &'q mut Q,
        pool: &'q mut Pool,
        state: &'q mut LoopState,
    ) -> WorkerLoop<'q, Q>
    where
        'a: 'q,
    {
        WorkerLoop { worker: self, queue, pool, state, look: None }
    }
}

impl LoopState {
    /// Nothing asked for yet.
    fn new<Q: Queue + ?Sized>(worker: &Worker<'_>, queue: &Q, pool: &Pool) -> Self {
        let blocks = pool.blocks();
        LoopState {
            digest: worker.verify.then(|| linerate_sums::Crc::new(linerate_sums::CrcAlgorithm::Crc64Nvme)),
            last_completion: queue.now(),
            pieces: vec![Piece::default(); blocks],
            lent: Lent::new(blocks),
            blocks: VecDeque::with_capacity(blocks),
            ahead: ReadAhead::new(worker.depth, blocks),
            sending: None,
            most_send_bytes: MOST_SEND_BYTES,
            cpu_stored: clock::now(),
            cpu_start: thread_cpu(),
        }
    }
}

impl<Q: Queue + ?Sized> WorkerLoop<'_, Q> {
    fn turn_until_stopped(&mut self) -> Result<(), WorkerError> {
        let mut done = Vec::with_capacity(self.pool.blocks());
        while !self.worker.stop.load(Ordering::Relaxed) {
            self.ask_for_blocks();
            let window_closed = self.send_next();
            if window_closed && self.state.sending.is_none() {
                self.wait_for_window()?;
            } else {
                self.turn(&mut done)?;
            }
            self.account_cpu();
        }
        Ok(())
    }

    /// Keeps `depth` reads in flight, as far as that many blocks are held for the sink.
    fn ask_for_blocks(&mut self) {
        while self.next_read().is_none() && self.may_hold_more() {
            let Some(lease) = self.pool.take() else { return };
            let length = self.worker.block_bytes.min(lease.len());
            if matches!(self.worker.source, Source::Memory) {
                self.state.blocks.push_back(Block::Ready { lease, length, sent: 0 });
                continue;
            }
            let Some(piece) = self.worker.source.next_piece(length) else {
                return self.pool.give_back(lease);
            };
            let (number, Piece { offset, length, .. }) = (lease.number(), piece);
            self.state.pieces[number] = piece;
            if let Some(limit) = self.worker.rate_limit {
                limit.charge_read(length, self.queue.now());
            }
            self.queue.submit(lease, Transfer { action: Action::Read, file: FILE, offset, from: 0, length });
            if !matches!(self.worker.sink, Sink::Null { .. }) {
                self.state.blocks.push_back(Block::Reading { number });
            }
        }
    }

    fn may_hold_more(&self) -> bool {
        matches!(self.worker.source, Source::Memory)
            || self.reading() < self.worker.depth && self.state.blocks.len() < self.state.ahead.blocks()
    }

    /// Blocks that are being read.
    fn reading(&self) -> usize {
        self.queue.in_flight() - usize::from(self.state.sending.is_some()) - self.state.lent.count()
    }

    /// The part of a wait that begins now which counts as waiting for the sink, 0 to 1; the rest is for the source. All of
    /// it while something is being sent or could be. Else, while sends without a copy hold so many blocks that fewer are
    /// read than could be, the share of the reads that is missing: the source is slow only at what it was asked for.
    fn part_of_sink(&self) -> f64 {
        if self.state.sending.is_some() || matches!(self.state.blocks.front(), Some(Block::Ready { .. })) {
            return 1.0;
        }
        if self.state.lent.count() == 0 || self.pool.free() > 0 {
            return 0.0;
        }
        let could_be = match self.worker.source {
            Source::Memory => 1,
            _ => self.worker.depth.min(self.state.ahead.blocks()).max(1),
        };
        1.0 - self.reading().min(could_be) as f64 / could_be as f64
    }

    /// How long the rate limit holds the next read back.
    fn next_read(&self) -> Option<Duration> {
        let limit = self.worker.rate_limit.filter(|_| !matches!(self.worker.source, Source::Memory))?;
        limit.next_read(self.queue.now())
    }

    /// How long it holds the next send back, where there is something to send.
    fn next_send(&self) -> Option<Duration> {
        let ready =
            self.state.sending.is_none() && matches!(self.state.blocks.front(), Some(Block::Ready { .. }));
        self.worker.rate_limit.filter(|_| ready)?.next_send(self.queue.now())
    }

    /// How long the rate limit is what the worker waits for; none: it is not.
    fn held_back(&self) -> Option<Duration> {
        let read = self.next_read().filter(|_| self.pool.free() > 0 && self.may_hold_more());
        match (read, self.next_send()) {
            (Some(read), Some(send)) => Some(read.min(send)),
            (read, send) => read.or(send),
        }
    }

    fn turn(&mut self, done: &mut Vec<Completion>) -> Result<(), WorkerError> {
        let before = self.queue.now();
        let held_back = self.held_back();
        let part_of_sink = self.part_of_sink();
        let held_by_sink = part_of_sink >= 0.5;
        self.queue.turn(Some(held_back.map_or(TURN_WAIT, |time| time.min(TURN_WAIT))), done)?;
        let now = self.queue.now();
        if held_back.is_some() && self.queue.in_flight() == 0 {
            self.state.last_completion = now;
        }
        let counters = self.worker.counters;
        // A wait of its own wish is for neither end.
        if held_back.is_none() {
            let waited = now - before;
            let at_sink = waited.mul_f64(part_of_sink);
            WorkerCounters::waited(&counters.waiting_sink_nanos, at_sink);
            WorkerCounters::waited(&counters.waiting_source_nanos, waited.saturating_sub(at_sink));
            if !held_by_sink {
                self.state.ahead.ran_dry();
            }
        }
        let taken = self.count_taken();
        if done.is_empty() && !taken {
            if now - self.state.last_completion > self.worker.patience {
                return Err(self.stalled(if held_by_sink {
                    "the peer: is its host up, the link plugged in and its agent running?"
                } else {
                    self.source_label()
                }));
            }
            return Ok(());
        }
        self.state.last_completion = now;
        // All of them, also after the first error: each brings a block home.
        let mut result = Ok(());
        for done in done.drain(..) {
            result = result.and(self.complete(done));
        }
        result
    }

    fn complete(&mut self, done: Completion) -> Result<(), WorkerError> {
        let Completion { lease, result } = done;
        if self.state.lent.is_back(lease.number()) {
            self.pool.give_back(lease);
            return Ok(());
        }
        if let Some(sending) = self.state.sending.take_if(|sending| sending.number == lease.number()) {
            return self.sent(sending, lease, result);
        }
        let piece = self.state.pieces[lease.number()];
        let why = match result {
            Ok(length) if length >= piece.least => {
                self.arrived(lease, piece.from, length.min(piece.to));
                return Ok(());
            }
            Ok(length) => {
                format!("nothing at offset {}: was it cut short meanwhile?", piece.offset + length as u64)
            }
            Err(error) => format!("{error} at offset {}", piece.offset),
        };
        self.pool.give_back(lease);
        Err(self.source_error(why))
    }

    /// Bytes `from .. to` of the block are there.
    fn arrived(&mut self, lease: Lease, from: usize, to: usize) {
        if let Sink::Null { reads } = self.worker.sink {
            if reads {
                read_lines(&lease.bytes()[from..to]);
            }
            self.worker.counters.progress.add((to - from) as u64);
            self.pool.give_back(lease);
            return;
        }
        let is_it =
            |block: &&mut Block| matches!(block, Block::Reading { number } if *number == lease.number());
        let place = self.state.blocks.iter_mut().find(is_it);
        match place {
            Some(block) => *block = Block::Ready { lease, length: to, sent: from },
            None => self.pool.give_back(lease),
        }
    }

    /// After the stop: everything in flight comes home, for `DRAIN_WAIT` at most.
    fn drain(&mut self) -> Result<(), WorkerError> {
        let patience = self.queue.now() + DRAIN_WAIT;
        let mut done = Vec::new();
        let mut result = Ok(());
        while self.queue.in_flight() > 0 && self.queue.now() < patience {
            self.queue.turn(Some(TURN_WAIT), &mut done)?;
            self.count_taken();
            for done in done.drain(..) {
                result = result.and(self.complete(done));
            }
        }
        result
    }

    fn account_cpu(&mut self) {
        if clock::since(self.state.cpu_stored) >= Duration::from_millis(5) {
            self.state.cpu_stored = clock::now();
            self.store_cpu();
        }
    }

    fn store_cpu(&self) {
        let used = thread_cpu().saturating_sub(self.state.cpu_start) + self.queue.helpers_cpu();
        let counters = self.worker.counters;
        counters.cpu_nanos.store(used.as_nanos() as u64, Ordering::Relaxed);
        let sends = self.queue.zero_copy_sends();
        counters.zero_copy_sends.store(sends.sends, Ordering::Relaxed);
        counters.zero_copy_copied.store(sends.copied, Ordering::Relaxed);
        counters.unexpected_completions.store(sends.unexpected, Ordering::Relaxed);
    }

    fn store_results(&mut self) {
        self.store_cpu();
        // What is lent is counted.
        self.worker
            .counters
            .whole
            .store(self.queue.in_flight() == self.state.lent.count(), Ordering::Relaxed);
        if let Some(digest) = self.state.digest.take() {
            self.worker.counters.checksum.store(digest.finalize(), Ordering::Relaxed);
        }
        if let Sink::Udp(udp) = &self.worker.sink {
            self.worker.counters.lost_bytes.store(udp.lost_bytes(), Ordering::Relaxed);
        }
    }

    fn source_label(&self) -> &str {
        match self.worker.source {
            Source::File { label, .. } | Source::Range { label, .. } => label,
            Source::Memory => "memory",
        }
    }

    fn source_error(&self, why: String) -> WorkerError {
        WorkerError::Source { what: self.source_label().to_string(), why }
    }

    fn stalled(&self, what: &str) -> WorkerError {
        WorkerError::Stalled { what: what.to_string(), seconds: self.worker.patience.as_secs() }
    }
}

/// Reads a word of each cache line.
fn read_lines(bytes: &[u8]) {
    // Where nothing is optimised, an iterator takes four calls for each line.
    let (mut at, mut all) = (0, 0);
    while at < bytes.len() {
        all ^= bytes[at];
        at += 64;
    }
    std::hint::black_box(all);
}

#[cfg(test)]
mod tests;
