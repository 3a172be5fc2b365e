//! A receiver that stores: blocks are filled from the stream and written past the page cache at depth, round
//! and round a file of a fixed size. What is counted is what the disk took.
//!
//! The same loop without a stream writes blocks of its own: the sink's disk alone, written as the path
//! writes it.

use super::counters::{IncomingCounts, StreamCounters, WorkerCounters};
use super::progress::CpuClock;
use super::receive::{SentStream, Terms};
use linerate_facts::random::Random;
use linerate_system::buffers::{Lease, Pool};
use linerate_system::clock;
use linerate_system::queue::{self, Action, Completion, Queue, Transfer};
use linerate_system::readiness::is_waiting;
use linerate_system::stop::{STOP_CHECK, Stop};
use std::fs::File;
use std::io::{self, Read};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Bytes of a block, and of a write.
pub(crate) const BLOCK_BYTES: u64 = 1 << 20;
/// Writes in flight, and one block more that fills meanwhile.
pub(super) const DEPTH: usize = 8;
/// O_DIRECT takes whole multiples of this.
const ALIGNMENT: usize = 4096;
/// Without O_DIRECT the page cache is flushed after so many bytes, so that what counts is at the disk.
const FLUSH_BYTES: u64 = 16 << 20;
/// A disk that completes nothing for so long hangs.
const PATIENCE: Duration = Duration::from_secs(30);

/// Bytes that a storing receiver needs for its blocks.
pub const BUFFER_BYTES: u64 = (DEPTH as u64 + 1) * BLOCK_BYTES;

/// Where a receiver stores: a file without a name, of whole blocks, that ends with it.
#[derive(Debug)]
pub struct StoreFile {
    pub file: File,
    /// It is written round and round.
    pub length_bytes: u64,
    /// Past the page cache.
    pub direct: bool,
    /// What a sentence calls it.
    pub name: String,
    /// Set from outside: no more is taken, and the disk keeps what came. Bytes that are checked are taken to the
    /// end of their stream.
    pub settles: AtomicBool,
}

/// The disk of a sink did not answer in time.
#[derive(Debug, thiserror::Error)]
#[error(
    "{sink} {what} within {} s; does its disk hang? Look at the kernel's messages there",
    PATIENCE.as_secs()
)]
pub(super) struct SinkHangs {
    sink: String,
    what: String,
}

impl SinkHangs {
    /// That is why it failed; a peer that is silent times out, too.
    pub(super) fn is_why(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|inner| inner.is::<SinkHangs>())
    }
}

/// Receives a TCP stream (already admitted) into a file until its end, until the file settles or until `stop`,
/// then has the disk keep it. Without a stream it writes blocks of its own. Blocks; give it a thread.
pub fn store(
    stream: Option<TcpStream>,
    into: &StoreFile,
    terms: &Terms,
    counters: &StreamCounters,
    stop: &Stop,
) -> io::Result<()> {
    let mut stream = stream.map(SentStream::new).transpose()?;
    let stream = stream.as_mut().map(|stream| stream as &mut dyn Read);
    store_counted(stream, into, terms, IncomingCounts::of_store(counters), stop)
}

/// The same of any bytes, counted anywhere.
pub(super) fn store_counted<'a>(
    stream: Option<&'a mut dyn Read>,
    into: &'a StoreFile,
    terms: &'a Terms,
    counts: IncomingCounts<'a>,
    stop: &Stop,
) -> io::Result<()> {
    let mut clock = CpuClock::new();
    let result = Storing::begin(stream, into, terms, counts)
        .and_then(|mut storing| storing.run(stop, &mut clock).and(storing.settle(stop)));
    clock.store(counts.cpu_nanos);
    result
}

impl StoreFile {
    /// What its disk said to a write, or to the fsync at the end, in a sentence.
    fn explained(&self, what: &str, error: &io::Error) -> io::Error {
        let name = &self.name;
        let why = match error.kind() {
            io::ErrorKind::StorageFull => {
                format!("{name} became full while it was written; make room there, or name another --sink")
            }
            io::ErrorKind::QuotaExceeded => {
                format!(
                    "the disk quota of linerate's user in {name} is used up; raise it, or free room there"
                )
            }
            _ => format!(
                "the {what} of {name} failed ({error}); is its disk broken? Look at the kernel's messages there"
            ),
        };
        io::Error::new(error.kind(), why)
    }

    /// What its disk did not do in time.
    fn late(&self, what: &str) -> io::Error {
        let (sink, what) = (self.name.clone(), what.to_string());
        io::Error::new(io::ErrorKind::TimedOut, SinkHangs { sink, what })
    }
}

struct Storing<'a> {
    stream: Option<&'a mut dyn Read>,
    /// It has one, also while a block is filled from it.
    stream_given: bool,
    into: &'a StoreFile,
    terms: &'a Terms,
    counts: IncomingCounts<'a>,
    pool: Pool,
    queue: Box<dyn Queue>,
    /// Payload of each block that is being written, by its number.
    under_way: Vec<usize>,
    done: Vec<Completion>,
    digest: Option<linerate_sums::Crc>,
    offset: u64,
    /// Written since the page cache was flushed last.
    unflushed: u64,
    failed: Option<io::Error>,
    /// Its disk was waited for long enough.
    hangs: bool,
}

impl<'a> Storing<'a> {
    fn begin(
        stream: Option<&'a mut dyn Read>,
        into: &'a StoreFile,
        terms: &'a Terms,
        counts: IncomingCounts<'a>,
    ) -> io::Result<Self> {
        let mut pool = Pool::new(DEPTH + 1, BLOCK_BYTES as usize)?;
        fill(&mut pool);
        let (queue, method) = queue::open(true, vec![Arc::new(into.file.try_clone()?)], &pool)?;
        tracing::debug!(%method, direct = into.direct, "a receiver stores");
        Ok(Storing {
            stream_given: stream.is_some(),
            stream,
            into,
            terms,
            counts,
            under_way: vec![0; pool.blocks()],
            done: Vec::with_capacity(pool.blocks()),
            pool,
            queue,
            digest: terms.verify.then(|| linerate_sums::Crc::new(linerate_sums::CrcAlgorithm::Crc64Nvme)),
            offset: 0,
            unflushed: 0,
            failed: None,
            hangs: false,
        })
    }

    fn run(&mut self, stop: &Stop, clock: &mut CpuClock) -> io::Result<()> {
        while !self.is_over(stop) {
            let Some(mut lease) = self.free_block(stop)? else { break };
            let filled = match self.fill_block(&mut lease, stop) {
                Ok(filled) => filled,
                Err(error) => {
                    self.pool.give_back(lease);
                    return Err(error);
                }
            };
            self.write(lease, filled);
            self.flush(stop)?;
            clock.tick(clock::now(), self.counts.cpu_nanos);
            if filled < BLOCK_BYTES as usize {
                break;
            }
        }
        Ok(())
    }

    /// No more is to be taken.
    fn is_over(&self, stop: &Stop) -> bool {
        let checked = self.terms.verify && self.stream_given;
        stop.is_ended() || self.into.settles.load(Ordering::Relaxed) && !checked
    }

    /// A block that is free, waiting for the disk where none is; none: stopped.
    fn free_block(&mut self, stop: &Stop) -> io::Result<Option<Lease>> {
        self.collect(Some(Duration::ZERO))?;
        let begun = clock::now();
        loop {
            if let Some(lease) = self.pool.take() {
                self.waited(begun);
                return Ok(Some(lease));
            }
            if stop.is_ended() {
                return Ok(None);
            }
            if clock::since(begun) > PATIENCE {
                self.hangs = true;
                return Err(self.into.late("took nothing"));
            }
            self.collect(Some(STOP_CHECK))?;
        }
    }

    fn waited(&self, begun: Instant) {
        add(self.counts.waiting_disk, clock::since(begun));
    }

    /// Fills a block from the stream; less than all of it: the stream has ended, or `stop`.
    fn fill_block(&mut self, lease: &mut Lease, stop: &Stop) -> io::Result<usize> {
        let Some(stream) = self.stream.take() else {
            self.terms.pay(BLOCK_BYTES, stop);
            return Ok(lease.len());
        };
        let mut filled = 0;
        let result = loop {
            if filled == lease.len() || self.is_over(stop) {
                break Ok(filled);
            }
            let begun = clock::now();
            let read = stream.read(&mut lease.bytes_mut()[filled..]);
            add(self.counts.waiting_network, clock::since(begun));
            match read {
                Ok(0) => break Ok(filled),
                Ok(length) => {
                    if let Some(digest) = &mut self.digest {
                        digest.update(&lease.bytes()[filled..filled + length]);
                    }
                    filled += length;
                    self.terms.pay(length as u64, stop);
                }
                Err(error) if is_waiting(&error) => {}
                Err(error) => break Err(error),
            }
            // What the disk took meanwhile counts when it took it.
            if let Err(error) = self.collect(Some(Duration::ZERO)) {
                break Err(error);
            }
        };
        self.stream = Some(stream);
        result
    }

    fn write(&mut self, lease: Lease, filled: usize) {
        if filled == 0 {
            self.pool.give_back(lease);
            return;
        }
        self.under_way[lease.number()] = filled;
        let length = filled.next_multiple_of(ALIGNMENT).min(lease.len());
        let transfer = Transfer { action: Action::Write, file: 0, offset: self.offset, from: 0, length };
        self.queue.submit(lease, transfer);
        self.unflushed += length as u64;
        self.offset = (self.offset + BLOCK_BYTES) % self.into.length_bytes.max(BLOCK_BYTES);
    }

    /// Takes home what was written.
    fn collect(&mut self, wait: Option<Duration>) -> io::Result<()> {
        if self.queue.in_flight() == 0 {
            return Ok(());
        }
        let mut done = std::mem::take(&mut self.done);
        let turned = self.queue.turn(wait, &mut done);
        for Completion { lease, result } in done.drain(..) {
            let payload = self.under_way[lease.number()];
            match result {
                Ok(written) if written >= payload => self.counts.progress.add(payload as u64),
                Ok(written) => {
                    let why = format!("{} took {written} of {payload} bytes of a write", self.into.name);
                    self.failed.get_or_insert_with(|| io::Error::new(io::ErrorKind::WriteZero, why));
                }
                Err(error) => {
                    self.failed.get_or_insert_with(|| self.into.explained("writing", &error));
                }
            }
            self.pool.give_back(lease);
        }
        self.done = done;
        turned?;
        self.failed.take().map_or(Ok(()), Err)
    }

    /// Where the page cache takes the writes, it must not take all of them: what is stored goes to the disk.
    fn flush(&mut self, stop: &Stop) -> io::Result<()> {
        if self.into.direct || self.unflushed < FLUSH_BYTES {
            return Ok(());
        }
        let begun = clock::now();
        self.drain(stop)?;
        self.into.file.sync_data().map_err(|error| self.into.explained("flushing", &error))?;
        self.unflushed = 0;
        self.waited(begun);
        Ok(())
    }

    /// Waits for what is under way. After `stop` nobody does: the queue leaves what it has to the kernel.
    fn drain(&mut self, stop: &Stop) -> io::Result<()> {
        let begun = clock::now();
        while self.queue.in_flight() > 0 && !self.hangs && !stop.is_ended() {
            self.collect(Some(STOP_CHECK))?;
            self.hangs = clock::since(begun) > PATIENCE;
        }
        match self.queue.in_flight() {
            count if count > 0 && self.hangs => {
                Err(self.into.late(&format!("did not answer {count} writes")))
            }
            _ => Ok(()),
        }
    }

    /// What is under way comes home, and the disk keeps it. After `stop` nobody wants that any more: a test
    /// that its client ended is over, and the file goes. A disk that hangs is not asked for more.
    fn settle(&mut self, stop: &Stop) -> io::Result<()> {
        let mut whole = self.drain(stop);
        if !self.hangs && !stop.is_ended() {
            let begun = clock::now();
            let synced = self.into.file.sync_all().map_err(|error| self.into.explained("fsync", &error));
            add(self.counts.sync, clock::since(begun));
            whole = whole.and(synced);
        }
        if let Some(digest) = self.digest.take() {
            self.counts.checksum.store(digest.finalize(), Ordering::Relaxed);
        }
        if stop.is_ended() { Ok(()) } else { whole }
    }
}

/// Adds time to a counter that somebody reads.
fn add(counter: Option<&AtomicU64>, time: Duration) {
    if let Some(counter) = counter {
        WorkerCounters::waited(counter, time);
    }
}

/// Content that does not compress to nothing; also maps the pages before they are measured.
fn fill(pool: &mut Pool) {
    let mut random = Random::new(0);
    let leases: Vec<Lease> = std::iter::from_fn(|| pool.take()).collect();
    for mut lease in leases {
        random.fill(lease.bytes_mut());
        pool.give_back(lease);
    }
}

#[cfg(test)]
mod tests;
