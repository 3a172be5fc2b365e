//! The receiving end: takes the bytes, counts them, optionally checksums them, and gives nothing back but
//! feedback to the sender.

use super::allowance::{Allowance, CATCH_UP};
pub use super::counters::Received;
use super::counters::{IncomingCounts, WorkerCounters};
use super::moments::CpuClock;
use super::wire::{self, ADMISSION_BYTES, Feedback, PROBE_BYTES, Probe, StreamToken};
use linerate_system::readiness::is_waiting;
use linerate_system::socket;
use linerate_system::trains::TrainReceiver;
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// How long a receiver sleeps in the kernel before it looks whether it should stop.
const STOP_CHECK: Duration = Duration::from_millis(100);
/// Bytes a read: large enough that calls do not cost, small enough to stay in the second-level cache.
const TCP_READ_BYTES: usize = 512 << 10;
/// What a UDP receiver asks for: a burst of several milliseconds at 10 Gb/s.
pub(crate) const UDP_BUFFER_BYTES: u64 = 16 << 20;
/// Trains a call.
const BATCH: usize = 16;
/// After small batches the receiver lets more come, at most for so long: waking up for each train costs as
/// much as copying it.
const LONGEST_NAP: Duration = Duration::from_millis(1);
/// A shorter nap is none: the timer's slack is as long.
const SHORTEST_NAP: Duration = Duration::from_micros(50);
/// A token that nobody shows is forgotten.
const ADMISSION_PATIENCE: Duration = Duration::from_secs(10);

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
        let pace = |rate| Arc::new(Allowance::new(rate, Instant::now()).with_credit(CATCH_UP));
        Terms { verify, pace: bytes_per_second.map(pace), ..Terms::default() }
    }

    /// Pays for bytes that were read before more are.
    pub(super) fn pay(&self, bytes: u64, stop: &AtomicBool) {
        if let Some(pace) = &self.pace {
            pace.charge(bytes, Instant::now());
            pace.sleep_off(|| stop.load(Ordering::Relaxed));
        }
    }
}

impl std::fmt::Debug for Terms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let pace = self.pace.as_ref().map(|pace| pace.bytes_per_second());
        f.debug_struct("Terms").field("verify", &self.verify).field("pace", &pace).finish_non_exhaustive()
    }
}

/// Receives a TCP data stream (already admitted: the token is read) until its end or until `stop`. Blocks;
/// give it a thread.
pub fn receive_tcp(
    stream: TcpStream,
    terms: &Terms,
    received: &Received,
    stop: &AtomicBool,
) -> io::Result<()> {
    let counts = IncomingCounts::of_agent(received, None);
    let result = SentStream::new(stream).and_then(|mut stream| take(&mut stream, terms, counts, stop));
    received.ended.store(true, Ordering::Release);
    result
}

/// A data stream of a sender that was admitted.
#[derive(Debug)]
pub(super) struct SentStream(TcpStream);

impl SentStream {
    /// Made ready to be read in large pieces.
    pub(super) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_read_timeout(Some(STOP_CHECK))?;
        // Waking up for each segment costs a receiver more than copying it.
        let _ = socket::set_receive_low_water(&stream, TCP_READ_BYTES / 2);
        Ok(SentStream(stream))
    }
}

impl Read for SentStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into).map_err(|error| if is_waiting(&error) { error } else { broken_stream(error) })
    }
}

/// The same of any bytes, counted anywhere.
pub(super) fn take(
    stream: &mut dyn Read,
    terms: &Terms,
    counts: IncomingCounts<'_>,
    stop: &AtomicBool,
) -> io::Result<()> {
    // What is read at once is a burst: a thousandth of a second of a slow pace.
    let paced_read = |pace: &Arc<Allowance>| (pace.bytes_per_second() / 1e3) as usize;
    let read_bytes = terms.pace.as_ref().map_or(TCP_READ_BYTES, paced_read).clamp(4 << 10, TCP_READ_BYTES);
    let mut memory = vec![0u8; read_bytes.max(terms.memory_bytes)];
    let mut at = 0;
    let mut digest = terms.verify.then(|| crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc64Nvme));
    let mut clock = CpuClock::new();
    let result = loop {
        if stop.load(Ordering::Relaxed) {
            break Ok(());
        }
        let begun = Instant::now();
        let buffer = &mut memory[at..at + read_bytes];
        let read = stream.read(buffer);
        if let Some(waiting) = counts.waiting_network {
            WorkerCounters::waited(waiting, begun.elapsed());
        }
        match read {
            Ok(0) => break Ok(()),
            Ok(length) => {
                if let Some(digest) = &mut digest {
                    digest.update(&buffer[..length]);
                }
                at = if at + length + read_bytes <= memory.len() { at + length } else { 0 };
                counts.progress.add(length as u64);
                clock.tick(Instant::now(), counts.cpu_nanos);
                terms.pay(length as u64, stop);
            }
            Err(error) if is_waiting(&error) => {}
            Err(error) => break Err(error),
        }
    };
    if let Some(digest) = digest {
        counts.checksum.store(digest.finalize(), Ordering::Relaxed);
    }
    clock.store(counts.cpu_nanos);
    result
}

/// The sender went away in the middle.
pub(super) fn broken_stream(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("the sender's connection broke before its end: {error}"))
}

/// Admits the sender that shows `token`, then receives its datagrams until `stop`. Blocks; give it a thread.
///
/// Nothing is sent before the token was shown, then only small feedback to the address that showed it.
pub fn receive_udp(
    socket: UdpSocket,
    token: &StreamToken,
    terms: &Terms,
    received: &Received,
    stop: &AtomicBool,
) -> io::Result<()> {
    let mut clock = CpuClock::new();
    let result = admit_and_receive(&socket, token, terms, received, stop, &mut clock);
    clock.store(&received.cpu_nanos);
    received.ended.store(true, Ordering::Release);
    result
}

fn admit_and_receive(
    socket: &UdpSocket,
    token: &StreamToken,
    terms: &Terms,
    received: &Received,
    stop: &AtomicBool,
    clock: &mut CpuClock,
) -> io::Result<()> {
    socket.set_read_timeout(Some(STOP_CHECK))?;
    let asked = terms.buffer_bytes.unwrap_or(UDP_BUFFER_BYTES);
    // The kernel takes a C int.
    let buffer_bytes = socket::set_receive_buffer(socket, asked.clamp(1, 1 << 30) as usize)?;
    received.buffer_bytes.store(buffer_bytes as u64, Ordering::Relaxed);
    // Without UDP_GRO (before Linux 5.0) the same loop receives datagram by datagram.
    let _ = socket::set_receive_trains(socket);
    let _ = socket::set_drop_reports(socket);
    let _ = socket::set_arrival_times(socket);
    let Some(sender) = await_token(socket, token, stop)? else { return Ok(()) };
    // The token's way is not the control connection's: whose data is taken is asked of its own address.
    if terms.admits.as_ref().is_some_and(|admits| !admits(sender.ip().to_canonical())) {
        let why = format!("{} is not on the agent's --allow list", sender.ip().to_canonical());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    socket.connect(sender)?;
    let answer = wire::admitted(token, buffer_bytes as u64);
    socket.send(&answer)?;
    let mut batch = TrainReceiver::new(if terms.pace.is_some() { 1 } else { BATCH });
    let naps = Naps::for_buffer(buffer_bytes as u64);
    let mut nap = SHORTEST_NAP;
    while !stop.load(Ordering::Relaxed) {
        let taken = match batch.receive(socket) {
            Ok(taken) => taken,
            Err(error) if is_waiting(&error) => continue,
            // The sender's port closed (ICMP): its last word came by the control channel.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
            Err(error) => return Err(error),
        };
        let before = received.progress.mark().bytes;
        take_batch(socket, &mut batch, sender, token, received, &answer)?;
        clock.tick(Instant::now(), &received.cpu_nanos);
        let bytes = received.progress.mark().bytes - before;
        if terms.pace.is_some() {
            terms.pay(bytes, stop);
            continue;
        }
        nap = naps.after(taken, bytes, nap);
        if naps.is_small(taken, bytes) {
            std::thread::sleep(nap);
        }
    }
    Ok(())
}

/// How long to let trains gather after a batch, as a NIC does with its interrupts: twice as long after a
/// small one, half as long after a large one.
///
/// Small is few trains and a small part of the socket's buffer. The sender keeps at most half a buffer on the
/// way: a receiver that sleeps while that much lies there makes it wait. (With the usual `net.core.rmem_max`
/// of 208 KiB that held UDP at 80 MB/s.)
pub(super) struct Naps {
    small_bytes: u64,
}

impl Naps {
    /// The nap to begin with.
    pub(super) const SHORTEST: Duration = SHORTEST_NAP;

    /// For a socket whose buffer holds so much payload.
    pub(super) fn for_buffer(buffer_bytes: u64) -> Self {
        Naps { small_bytes: buffer_bytes / 32 }
    }

    /// A batch after which to nap.
    pub(super) fn is_small(&self, taken: usize, bytes: u64) -> bool {
        taken < BATCH / 2 && bytes < self.small_bytes
    }

    /// The next nap, after one of `nap`.
    pub(super) fn after(&self, taken: usize, bytes: u64, nap: Duration) -> Duration {
        let next = if taken >= BATCH || bytes >= 2 * self.small_bytes {
            nap / 2
        } else if self.is_small(taken, bytes) {
            nap * 2
        } else {
            nap
        };
        next.clamp(SHORTEST_NAP, LONGEST_NAP)
    }
}

fn await_token(socket: &UdpSocket, token: &StreamToken, stop: &AtomicBool) -> io::Result<Option<SocketAddr>> {
    let patience = Instant::now() + ADMISSION_PATIENCE;
    let mut datagram = [0u8; 2 * ADMISSION_BYTES];
    while !stop.load(Ordering::Relaxed) && Instant::now() < patience {
        match socket.recv_from(&mut datagram) {
            Ok((length, sender)) if same(&datagram[..length], &wire::admission(token)) => {
                return Ok(Some(sender));
            }
            Ok(_) => {}
            Err(error) if is_waiting(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Compares in a time that does not depend on where they differ.
fn same(left: &[u8], right: &[u8]) -> bool {
    left.len() == right.len() && left.iter().zip(right).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}

fn take_batch(
    socket: &UdpSocket,
    batch: &mut TrainReceiver,
    sender: SocketAddr,
    token: &StreamToken,
    received: &Received,
    admitted: &[u8],
) -> io::Result<()> {
    let (mut bytes, mut datagrams) = (0u64, 0u64);
    let mut newest = None;
    for train in batch.trains() {
        if train.from != sender {
            continue; // queued before the socket was connected: somebody else's
        }
        for part in parts(train.bytes, train.datagram_bytes) {
            if let Some(probe) = Probe::read(part, token) {
                flush(received, &mut bytes, &mut datagrams);
                newest = Some(Feedback {
                    probe,
                    received_bytes: received.progress.mark().bytes,
                    datagrams: received.datagrams.load(Ordering::Relaxed),
                    socket_drops: received.socket_drops.load(Ordering::Relaxed),
                    held_nanos: held_nanos(train.arrived),
                });
            } else if part.len() == ADMISSION_BYTES && same(part, &wire::admission(token)) {
                answer(socket, admitted)?; // our first answer was lost
            } else {
                bytes += part.len() as u64;
                datagrams += part.len().div_ceil(train.datagram_bytes) as u64;
            }
        }
    }
    flush(received, &mut bytes, &mut datagrams);
    // What the newest probe tells holds for the older ones, too: one answer a batch.
    if let Some(feedback) = newest {
        answer(socket, &feedback.datagram(token))?;
    }
    received.socket_drops.store(u64::from(batch.drops()), Ordering::Relaxed);
    Ok(())
}

/// How long a train has waited for us; 0 where the kernel does not report, or where the clock was set back
/// meanwhile.
fn held_nanos(arrived: Option<SystemTime>) -> u64 {
    let waited = arrived.and_then(|arrived| arrived.elapsed().ok()).unwrap_or_default();
    u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX)
}

/// A train in the parts that may be something else than payload. A NIC's or the kernel's receive offload may
/// append a probe to the train before it, of which it is then the last datagram; and it may join probes to
/// one another, or to payload of their size.
fn parts(train: &[u8], datagram_bytes: usize) -> impl Iterator<Item = &[u8]> {
    let all_but_the_last = train.len().saturating_sub(1) / datagram_bytes * datagram_bytes;
    let step = if datagram_bytes <= PROBE_BYTES { datagram_bytes } else { all_but_the_last };
    train.chunks(if step == 0 { train.len().max(1) } else { step })
}

fn flush(received: &Received, bytes: &mut u64, datagrams: &mut u64) {
    if *bytes > 0 {
        received.progress.add(*bytes);
        received.datagrams.store(received.datagrams.load(Ordering::Relaxed) + *datagrams, Ordering::Relaxed);
    }
    (*bytes, *datagrams) = (0, 0);
}

fn answer(socket: &UdpSocket, datagram: &[u8]) -> io::Result<()> {
    match socket.send(datagram) {
        Ok(_) => Ok(()),
        Err(error)
            if linerate_system::segmentation::is_busy(&error)
                || error.kind() == io::ErrorKind::ConnectionRefused =>
        {
            Ok(())
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
