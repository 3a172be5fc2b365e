//! The receiving end of TCP: takes the bytes, counts them, checksums them where that is wanted.

use super::counters::{IncomingCounts, StreamCounters, WorkerCounters};
use super::progress::CpuClock;
use super::rate_limit::{Allowance, CATCH_UP};
use linerate_system::buffers::Pool;
use linerate_system::readiness::is_waiting;
use linerate_system::stop::{STOP_CHECK, Stop};
use linerate_system::{clock, socket};
use std::io::{self, Read};
use std::net::{IpAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes a read of TCP, and what a sleeping receiver waits for: large enough that calls and waking up do not cost, small
/// enough that the blocks of a few streams stay in one core's second-level cache. Reads of 512 KiB, woken at 256 KiB too,
/// let one stream over a veth carry half of it, and cost an agent two fifths more CPU (bench/README.md): its sender's core
/// does TCP's work for a receiver that sleeps.
pub(crate) const READ_BYTES: usize = 256 << 10;
/// What a UDP receiver asks for: a burst of several milliseconds at 10 Gb/s.
pub(crate) const UDP_BUFFER_BYTES: u64 = 16 << 20;

/// Says whose datagrams are taken.
pub type AdmitsDatagram = Arc<dyn Fn(IpAddr) -> bool + Send + Sync>;

/// On what terms a data stream is received.
#[derive(Clone, Default)]
pub struct Terms {
    /// Checksum the bytes (TCP).
    pub verify: bool,
    /// UDP: SO_RCVBUF asked for, bytes; none: [`UDP_BUFFER_BYTES`].
    pub buffer_bytes: Option<u64>,
    /// Bytes are read no faster than this, which makes the sender wait: TCP by its window, UDP by ours.
    /// Shared by the workers of a client.
    pub pace: Option<Arc<Allowance>>,
    /// TCP: bytes are read into so many bytes of memory, round and round, as one that stores them does: what no longer
    /// lies in the cache costs more; 0: into as few as may be.
    pub memory_bytes: usize,
    /// UDP: senders that are taken, whether with the token; none: all.
    pub admits: Option<AdmitsDatagram>,
}

impl Terms {
    /// Read no faster than this, bytes per second, by all workers that share these terms.
    pub fn paced(verify: bool, bytes_per_second: Option<f64>) -> Terms {
        let pace = |rate| Arc::new(Allowance::new(rate, clock::now()).with_credit(CATCH_UP));
        Terms { verify, pace: bytes_per_second.map(pace), ..Terms::default() }
    }

    /// Pays for bytes that were read before more are.
    pub(super) fn pay(&self, bytes: u64, stop: &Stop) {
        if let Some(pace) = &self.pace {
            pace.charge(bytes, clock::now());
            pace.sleep_off(|time| stop.wait(time));
        }
    }
}

/// Receives a TCP data stream (already admitted: the token is read) until its end or until `stop`. Blocks;
/// give it a thread.
pub fn receive_tcp(
    stream: TcpStream,
    terms: &Terms,
    counters: &StreamCounters,
    stop: &Stop,
) -> io::Result<()> {
    let counts = IncomingCounts::of_stream(&counters.progress, &counters.cpu_nanos, &counters.checksum);
    let result =
        SentStream::new(stream).and_then(|mut stream| take_to_memory(&mut stream, terms, counts, stop));
    counters.ended.store(true, Ordering::Release);
    result
}

/// A data stream of a sender that was admitted.
#[derive(Debug)]
pub(super) struct SentStream(TcpStream);

impl SentStream {
    /// Made ready to be read in large pieces.
    pub(super) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_read_timeout(Some(STOP_CHECK))?;
        wake_seldom(&stream);
        Ok(SentStream(stream))
    }
}

impl Read for SentStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into).map_err(broken_stream)
    }
}

/// Waking up for each segment costs a receiver more than copying it (SO_RCVLOWAT, socket(7)).
pub(super) fn wake_seldom(stream: &TcpStream) {
    let _ = socket::set_receive_low_water(stream, READ_BYTES);
}

/// The same of any bytes, counted anywhere.
pub(super) fn take_to_memory(
    stream: &mut dyn Read,
    terms: &Terms,
    counts: IncomingCounts<'_>,
    stop: &Stop,
) -> io::Result<()> {
    let mut pool = Pool::new(1, READ_BYTES.max(terms.memory_bytes))?;
    let Some(mut memory) = pool.take() else { return Err(io::ErrorKind::OutOfMemory.into()) };
    take(stream, memory.bytes_mut(), terms, counts, stop)
}

/// The one loop that takes a stream of bytes: into this memory, round and round, until its end or until `stop`.
pub(crate) fn take(
    stream: &mut dyn Read,
    memory: &mut [u8],
    terms: &Terms,
    counts: IncomingCounts<'_>,
    stop: &Stop,
) -> io::Result<()> {
    let most_bytes = READ_BYTES.min(memory.len());
    // What is read at once is a burst: a thousandth of a second of a slow pace.
    let paced_read = |pace: &Arc<Allowance>| ((pace.bytes_per_second() / 1e3) as usize).max(4 << 10);
    let read_bytes = terms.pace.as_ref().map_or(most_bytes, paced_read).min(most_bytes);
    let mut at = 0;
    let mut digest = terms.verify.then(|| linerate_sums::Crc::new(linerate_sums::CrcAlgorithm::Crc64Nvme));
    let mut cpu = CpuClock::new();
    let result = loop {
        if stop.is_ended() {
            break Ok(());
        }
        let begun = counts.waiting_network.map(|counter| (counter, clock::now()));
        let buffer = &mut memory[at..at + read_bytes];
        let read = stream.read(buffer);
        let now = clock::now();
        if let Some((waiting, begun)) = begun {
            WorkerCounters::waited(waiting, now.saturating_duration_since(begun));
        }
        match read {
            Ok(0) => break Ok(()),
            Ok(length) => {
                if let Some(digest) = &mut digest {
                    digest.update(&buffer[..length]);
                }
                at = if at + length + read_bytes <= memory.len() { at + length } else { 0 };
                counts.progress.add(length as u64);
                terms.pay(length as u64, stop);
            }
            Err(error) if is_waiting(&error) => {}
            Err(error) => break Err(error),
        }
        cpu.tick(now, counts.cpu_nanos);
    };
    if let Some(digest) = digest {
        counts.checksum.store(digest.finalize(), Ordering::Relaxed);
    }
    cpu.store(counts.cpu_nanos);
    result
}

/// Unless it only waits, the sender went away in the middle.
pub(super) fn broken_stream(error: io::Error) -> io::Error {
    if is_waiting(&error) {
        return error;
    }
    io::Error::new(error.kind(), format!("the sender's connection broke before its end: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpListener;

    /// The same bytes whatever memory they are read into.
    #[test]
    fn bytes_are_read_round_and_round_the_memory_of_one_that_stores() {
        let bytes: Vec<u8> = (0..(5 << 20) + 123u32).map(|at| (at * 31 + (at >> 9)) as u8).collect();
        let sum = linerate_sums::crc(linerate_sums::CrcAlgorithm::Crc64Nvme, &bytes);
        for memory_bytes in [0, 600 << 10, 2 << 20] {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
            let to = listener.local_addr().expect("its address");
            let received = StreamCounters::default();
            std::thread::scope(|scope| {
                scope.spawn(|| TcpStream::connect(to).expect("connected").write_all(&bytes).expect("sent"));
                let (stream, _) = listener.accept().expect("accepted");
                let terms = Terms { verify: true, memory_bytes, ..Terms::default() };
                receive_tcp(stream, &terms, &received, &Stop::new()).expect("received");
            });
            assert_eq!(received.progress.mark().bytes, bytes.len() as u64, "{memory_bytes}");
            assert_eq!(received.checksum.load(Ordering::Relaxed), sum, "{memory_bytes}");
        }
    }
}
