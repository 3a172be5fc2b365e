//! One lane's loop: keep the source busy at depth, send what has come in the order it was asked for, account for the time.
//!
//! Generic over `Io`, so that the same loop runs on io_uring, on threads and on the seeded fake with its faults.

use super::counters::LaneCounters;
use super::source::Source;
use super::udp::UdpSender;
use linerate_system::buffers::{Lease, Pool};
use linerate_system::counters::thread_cpu;
use linerate_system::io::{Completion, Io, Operation};
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The lane looks at `stop` at least this often.
const REAP_WAIT: Duration = Duration::from_millis(50);
/// Ctrl-C ends within a second: what is still in flight after this is cancelled by the ring's end.
const DRAIN_WAIT: Duration = Duration::from_millis(600);
/// The most that one send on TCP takes: a larger block goes out in pieces, so that a slow peer shows progress and a stop is quick.
const MOST_SEND_BYTES: usize = 1 << 20;
/// Index of the file and of the socket among the ring's files.
pub const FILE: usize = 0;
/// A lane that reads memory has no file: then the socket is the first.
const SOCKET_AFTER_FILE: usize = 1;

/// Where a lane's bytes go.
#[derive(Debug)]
pub enum Sink {
    /// Nowhere: the disk stage.
    Null,
    /// The ring's TCP socket.
    Tcp,
    /// The ring's UDP socket, held by this window.
    Udp(Box<UdpSender>),
}

/// Why a lane ended before it was told to.
#[derive(Debug, thiserror::Error)]
pub enum LaneError {
    /// The source failed.
    #[error("reading {what}: {why}")]
    Source { what: String, why: String },
    /// The sink failed.
    #[error("sending to the peer: {why}")]
    Sink { why: String },
    /// Nothing moved for long.
    #[error("no progress for {seconds} s while waiting for {what}")]
    Stalled { what: String, seconds: u64 },
    /// io_uring or the threads failed.
    #[error("input/output: {0}")]
    Io(#[from] io::Error),
}

/// What a lane does and for how long it is patient.
#[derive(Debug)]
pub struct Lane<'a> {
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
    pub counters: &'a LaneCounters,
    /// Set by somebody else: end soon.
    pub stop: &'a AtomicBool,
}

/// A block on its way through the lane, in the order of the file.
#[derive(Debug)]
enum Block {
    Reading { tag: u64 },
    Ready { lease: Lease, length: usize, sent: usize },
}

/// The working state of `Lane::run`.
struct Work<'a, I: Io> {
    lane: Lane<'a>,
    io: &'a mut I,
    pool: &'a mut Pool,
    blocks: VecDeque<Block>,
    next_tag: u64,
    sending: bool,
    digest: Option<crc_fast::Digest>,
    last_completion: Instant,
    cpu_stored: Instant,
    cpu_start: Duration,
}

impl<'a> Lane<'a> {
    /// Runs until `stop`, then lets what is in flight come home.
    pub fn run<I: Io>(self, io: &mut I, pool: &mut Pool) -> Result<(), LaneError> {
        let digest = self.verify.then(|| crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc64Nvme));
        let now = Instant::now();
        let (blocks, cpu_start) = (VecDeque::with_capacity(self.depth + 2), thread_cpu());
        let mut work = Work {
            lane: self,
            io,
            pool,
            blocks,
            next_tag: 0,
            sending: false,
            digest,
            last_completion: now,
            cpu_stored: now,
            cpu_start,
        };
        let result = work.turn_until_stopped();
        let drained = work.drain();
        let settled = match &mut work.lane.sink {
            Sink::Udp(udp) if result.is_ok() => udp.settle(),
            _ => Ok(()),
        };
        work.store_results();
        result.and(drained).and(settled.map_err(|error| sink_error(&error)))
    }
}

impl<I: Io> Work<'_, I> {
    fn turn_until_stopped(&mut self) -> Result<(), LaneError> {
        let mut completions = Vec::with_capacity(self.lane.depth + 2);
        while !self.lane.stop.load(Ordering::Relaxed) {
            self.ask_for_blocks()?;
            let window_closed = self.send_next()?;
            if window_closed && !self.sending {
                self.wait_for_window()?;
            } else {
                self.reap(&mut completions)?;
            }
            self.account_cpu();
        }
        Ok(())
    }

    /// Keeps `depth` reads in flight, as far as blocks of the pool are free.
    fn ask_for_blocks(&mut self) -> Result<(), LaneError> {
        while let Some(lease) = self.pool.take() {
            let length = self.lane.block_bytes.min(lease.len());
            match self.lane.source {
                Source::Memory => self.blocks.push_back(Block::Ready { lease, length, sent: 0 }),
                Source::File { cursor, .. } => {
                    let tag = self.next_tag;
                    let read = Operation::Read { file: FILE, offset: cursor.next_offset(), length };
                    if let Err(lease) = self.io.submit(read, lease, tag) {
                        self.pool.give_back(lease);
                        return Ok(());
                    }
                    self.next_tag += 1;
                    if !matches!(self.lane.sink, Sink::Null) {
                        self.blocks.push_back(Block::Reading { tag });
                    }
                }
            }
        }
        Ok(())
    }

    /// Sends the front block if it is here and nothing is being sent; true if a UDP window forbids it.
    fn send_next(&mut self) -> Result<bool, LaneError> {
        if self.sending {
            return Ok(false);
        }
        let Some(Block::Ready { length, sent, .. }) = self.blocks.front() else { return Ok(false) };
        let (from, left) = (*sent, length - sent);
        let (allowed, train_bytes) = match &self.lane.sink {
            Sink::Null => return Ok(false),
            Sink::Tcp => (left.min(MOST_SEND_BYTES), 0),
            Sink::Udp(udp) => (udp.may_send(left).min(8 * udp.train_bytes()), udp.train_bytes()),
        };
        if allowed == 0 {
            return Ok(true);
        }
        let Some(Block::Ready { lease, length, sent }) = self.blocks.pop_front() else { return Ok(false) };
        let socket = if matches!(self.lane.source, Source::Memory) { FILE } else { SOCKET_AFTER_FILE };
        let send = Operation::Send { socket, from, length: allowed, train_bytes };
        match self.io.submit(send, lease, length as u64) {
            Ok(()) => self.sending = true,
            Err(lease) => self.blocks.push_front(Block::Ready { lease, length, sent }),
        }
        Ok(false)
    }

    fn wait_for_window(&mut self) -> Result<(), LaneError> {
        let Sink::Udp(udp) = &mut self.lane.sink else { return Ok(()) };
        let before = Instant::now();
        udp.wait_for_room().map_err(|error| sink_error(&error))?;
        self.lane.counters.lost_bytes.store(udp.lost_bytes(), Ordering::Relaxed);
        let silent = udp.silent_for();
        LaneCounters::waited(&self.lane.counters.waiting_sink_nanos, before.elapsed());
        if silent > self.lane.patience {
            return Err(self
                .stalled("the peer's feedback: is its host up, the link plugged in and its agent running?"));
        }
        Ok(())
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) -> Result<(), LaneError> {
        let before = Instant::now();
        self.io.reap(REAP_WAIT, completions)?;
        let waited = before.elapsed();
        let counters = self.lane.counters;
        // With something to send, or being sent, it is the sink that holds the lane.
        let held_by_sink = self.sending || matches!(self.blocks.front(), Some(Block::Ready { .. }));
        let counter =
            if held_by_sink { &counters.waiting_sink_nanos } else { &counters.waiting_source_nanos };
        LaneCounters::waited(counter, waited);
        if completions.is_empty() {
            if self.last_completion.elapsed() > self.lane.patience {
                return Err(self.stalled(if held_by_sink {
                    "the peer: is its host up, the link plugged in and its agent running?"
                } else {
                    self.source_label()
                }));
            }
            return Ok(());
        }
        self.last_completion = before + waited;
        // All of them, also after the first error: each brings a block home.
        let mut result = Ok(());
        for completion in completions.drain(..) {
            result = result.and(self.complete(completion));
        }
        result
    }

    fn complete(&mut self, completion: Completion) -> Result<(), LaneError> {
        let Completion { tag, operation, lease, result } = completion;
        match operation {
            Operation::Read { offset, .. } => match result {
                Ok(0) => {
                    self.pool.give_back(lease);
                    Err(self.source_error(format!("nothing at offset {offset}: was it cut short meanwhile?")))
                }
                Ok(length) => {
                    self.arrived(tag, lease, length);
                    Ok(())
                }
                Err(error) => {
                    self.pool.give_back(lease);
                    Err(self.source_error(format!("{error} at offset {offset}")))
                }
            },
            Operation::Send { from, .. } => self.sent(tag as usize, lease, from, result),
        }
    }

    fn arrived(&mut self, tag: u64, lease: Lease, length: usize) {
        if matches!(self.lane.sink, Sink::Null) {
            self.lane.counters.progress.add(length as u64);
            self.pool.give_back(lease);
            return;
        }
        let place =
            self.blocks.iter_mut().find(|block| matches!(block, Block::Reading { tag: t } if *t == tag));
        match place {
            Some(block) => *block = Block::Ready { lease, length, sent: 0 },
            None => self.pool.give_back(lease),
        }
    }

    /// A send of the front block's bytes from `from` on is over. What the kernel did not take goes out next: before Linux 5.19
    /// io_uring's sends on TCP are often short.
    fn sent(
        &mut self,
        block_length: usize,
        lease: Lease,
        from: usize,
        result: io::Result<usize>,
    ) -> Result<(), LaneError> {
        self.sending = false;
        let moved = match result {
            Ok(moved) => moved,
            Err(error) if matches!(self.lane.sink, Sink::Udp(_)) && super::udp::passing(&error) => {
                // A full device queue: a moment later it has room, at once it has none.
                std::thread::sleep(Duration::from_micros(100));
                0
            }
            Err(error) => {
                self.pool.give_back(lease);
                return Err(sink_error(&error));
            }
        };
        self.lane.counters.progress.add(moved as u64);
        if let Some(digest) = &mut self.digest {
            digest.update(&lease.bytes()[from..from + moved]);
        }
        if let Sink::Udp(udp) = &mut self.lane.sink {
            udp.sent(moved).map_err(|error| sink_error(&error))?;
            udp.listen(Duration::ZERO).map_err(|error| sink_error(&error))?;
            self.lane.counters.lost_bytes.store(udp.lost_bytes(), Ordering::Relaxed);
        } else if moved == 0 {
            self.pool.give_back(lease);
            return Err(LaneError::Sink {
                why: "the peer closed the connection within a block: did its agent end?".into(),
            });
        }
        let sent = from + moved;
        if sent < block_length {
            self.blocks.push_front(Block::Ready { lease, length: block_length, sent });
        } else {
            self.pool.give_back(lease);
        }
        Ok(())
    }

    /// After the stop: everything in flight comes home, for `DRAIN_WAIT` at most.
    fn drain(&mut self) -> Result<(), LaneError> {
        let patience = Instant::now() + DRAIN_WAIT;
        let mut completions = Vec::new();
        let mut result = Ok(());
        while self.io.in_flight() > 0 && Instant::now() < patience {
            self.io.reap(REAP_WAIT, &mut completions)?;
            for completion in completions.drain(..) {
                result = result.and(self.complete(completion));
            }
        }
        result
    }

    fn account_cpu(&mut self) {
        if self.cpu_stored.elapsed() >= Duration::from_millis(5) {
            self.cpu_stored = Instant::now();
            self.store_cpu();
        }
    }

    fn store_cpu(&self) {
        let used = thread_cpu().saturating_sub(self.cpu_start) + self.io.helpers_cpu();
        self.lane.counters.cpu_nanos.store(used.as_nanos() as u64, Ordering::Relaxed);
    }

    fn store_results(&mut self) {
        self.store_cpu();
        self.lane.counters.whole.store(self.io.in_flight() == 0, Ordering::Relaxed);
        if let Some(digest) = self.digest.take() {
            self.lane.counters.checksum.store(digest.finalize(), Ordering::Relaxed);
        }
        if let Sink::Udp(udp) = &self.lane.sink {
            self.lane.counters.lost_bytes.store(udp.lost_bytes(), Ordering::Relaxed);
        }
    }

    fn source_label(&self) -> &str {
        match self.lane.source {
            Source::File { label, .. } => label,
            Source::Memory => "memory",
        }
    }

    fn source_error(&self, why: String) -> LaneError {
        LaneError::Source { what: self.source_label().to_string(), why }
    }

    fn stalled(&self, what: &str) -> LaneError {
        LaneError::Stalled { what: what.to_string(), seconds: self.lane.patience.as_secs() }
    }
}

/// The errors that a user meets, in words.
fn sink_error(error: &io::Error) -> LaneError {
    let why = match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
            format!("the peer closed the connection ({error}): did its agent end?")
        }
        // UDP: the other host answered that nobody listens on the port.
        io::ErrorKind::ConnectionRefused => {
            format!("the peer's receiver is gone ({error}): did its agent end?")
        }
        io::ErrorKind::NetworkDown | io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable => {
            format!("{error}: did the interface go down?")
        }
        _ if matches!(error.raw_os_error(), Some(EMSGSIZE | EINVAL)) => {
            format!(
                "{error}: is a datagram larger than the path's MTU carries? Name a smaller one with --datagram"
            )
        }
        _ => error.to_string(),
    };
    LaneError::Sink { why }
}

/// A datagram that does not fit, and, with segmentation offload, one that does not fit the MTU (`udp_send_skb`, net/ipv4/udp.c).
const EMSGSIZE: i32 = 90;
const EINVAL: i32 = 22;

#[cfg(test)]
mod tests;
