//! The receiving end of datagrams: the one loop that takes them in trains and lets some gather, and the answers to the
//! sender's probes. What a datagram is, its taker knows: a worker's, here, has no number; those of a stream
//! (`stream::udp_receive`) have.

use super::counters::StreamCounters;
use super::progress::{CpuClock, other_end_gone};
use super::receive::{Terms, UDP_BUFFER_BYTES};
use super::wire::{self, Feedback, PROBE_BYTES, Probe, StreamToken, admit, is_admission};
use linerate_system::readiness::is_waiting;
use linerate_system::segmentation::is_busy;
use linerate_system::stop::Stop;
use linerate_system::trains::TrainReceiver;
use linerate_system::{clock, socket};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

/// Trains a call.
pub(super) const BATCH: usize = 16;
/// After small batches the receiver lets more come, at most for so long: waking up for each train costs as
/// much as copying it.
const LONGEST_NAP: Duration = Duration::from_millis(1);
/// A shorter nap is none: the timer's slack is as long.
const SHORTEST_NAP: Duration = Duration::from_micros(50);

/// Sets a receiver's socket up; its buffer as granted, bytes.
pub(super) fn prepare(socket: &impl AsFd, buffer_bytes: Option<u64>) -> io::Result<u64> {
    // The kernel takes a C int.
    let asked = buffer_bytes.unwrap_or(UDP_BUFFER_BYTES).clamp(1, 1 << 30);
    let granted = socket::set_receive_buffer(socket, asked as usize)?;
    // Without UDP_GRO (before Linux 5.0) the same loop receives datagram by datagram.
    let _ = socket::set_receive_trains(socket);
    let _ = socket::set_drop_reports(socket);
    let _ = socket::set_arrival_times(socket);
    Ok(granted as u64)
}

/// What becomes of the trains.
pub(super) trait TrainTaker {
    /// Takes a batch. Payload bytes that it brought, more of which may gather; 0: the next is wanted at once.
    fn take(&mut self, batch: &mut TrainReceiver) -> io::Result<u64>;

    /// Before each call: whether there is one more. `came`: the last one brought something.
    fn goes_on(&mut self, came: bool) -> io::Result<bool>;
}

/// Receives trains for as long as their taker goes on.
pub(super) fn receive_trains(
    socket: &UdpSocket,
    batch: &mut TrainReceiver,
    buffer_bytes: u64,
    taker: &mut impl TrainTaker,
) -> io::Result<()> {
    let naps = Naps::for_buffer(buffer_bytes);
    let (mut nap, mut came) = (SHORTEST_NAP, true);
    while taker.goes_on(came)? {
        let taken = batch.receive(socket);
        came = taken.is_ok();
        let taken = match taken {
            Ok(taken) => taken,
            // The sender's port closed (ICMP): its last word came, or comes by the control channel.
            Err(error) if is_waiting(&error) || other_end_gone(&error) => continue,
            Err(error) => return Err(error),
        };
        let bytes = taker.take(batch)?;
        if bytes > 0 {
            nap = naps.after(taken, bytes, nap);
            if naps.is_small(taken, bytes) {
                clock::sleep(nap);
            }
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
struct Naps {
    small_bytes: u64,
}

impl Naps {
    /// For a socket whose buffer holds so much payload.
    fn for_buffer(buffer_bytes: u64) -> Self {
        Naps { small_bytes: buffer_bytes / 32 }
    }

    /// A batch after which to nap.
    fn is_small(&self, taken: usize, bytes: u64) -> bool {
        taken < BATCH / 2 && bytes < self.small_bytes
    }

    /// The next nap, after one of `nap`.
    fn after(&self, taken: usize, bytes: u64, nap: Duration) -> Duration {
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

/// How long a train has waited for us; 0 where the kernel does not report, or where the clock was set back
/// meanwhile.
pub(super) fn held_nanos(arrived: Option<SystemTime>) -> u64 {
    let waited = arrived.and_then(|arrived| clock::date().duration_since(arrived).ok()).unwrap_or_default();
    u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX)
}

/// An answer to the sender; one that cannot be sent now is followed by others.
pub(super) fn answer(socket: &UdpSocket, datagram: &[u8]) -> io::Result<()> {
    match socket.send(datagram) {
        Err(error) if !is_busy(&error) && !other_end_gone(&error) => Err(error),
        _ => Ok(()),
    }
}

/// Admits the sender that shows `token`, then receives its datagrams until `stop`. Blocks; give it a thread.
///
/// Nothing is sent before the token was shown, then only small feedback to the address that showed it.
pub fn receive_udp(
    socket: UdpSocket,
    token: &StreamToken,
    terms: &Terms,
    received: &StreamCounters,
    stop: &Stop,
) -> io::Result<()> {
    let mut cpu = CpuClock::new();
    let result = admit_and_receive(&socket, token, terms, received, stop, &mut cpu);
    cpu.store(&received.cpu_nanos);
    received.ended.store(true, Ordering::Release);
    result
}

fn admit_and_receive(
    socket: &UdpSocket,
    token: &StreamToken,
    terms: &Terms,
    received: &StreamCounters,
    stop: &Stop,
    cpu: &mut CpuClock,
) -> io::Result<()> {
    let buffer_bytes = prepare(socket, terms.buffer_bytes)?;
    received.receive_buffer_bytes.store(buffer_bytes, Ordering::Relaxed);
    // The token's path is not the control connection's: whose data is taken is asked of its own address.
    let may_come = |address: IpAddr| match &terms.admits {
        Some(admits) if !admits(address) => {
            let why = format!("{address} is not on the agent's --allow list");
            Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
        }
        _ => Ok(()),
    };
    let Some(sender) = admit(socket, token, buffer_bytes, &may_come, stop)? else { return Ok(()) };
    let mut batch = TrainReceiver::new(if terms.pace.is_some() { 1 } else { BATCH });
    let mut taker = WorkerReceiver { socket, sender, token, buffer_bytes, terms, received, stop, cpu };
    receive_trains(socket, &mut batch, buffer_bytes, &mut taker)
}

/// Takes the datagrams of a worker.
struct WorkerReceiver<'a> {
    socket: &'a UdpSocket,
    sender: SocketAddr,
    token: &'a StreamToken,
    buffer_bytes: u64,
    terms: &'a Terms,
    received: &'a StreamCounters,
    stop: &'a Stop,
    cpu: &'a mut CpuClock,
}

impl TrainTaker for WorkerReceiver<'_> {
    fn take(&mut self, batch: &mut TrainReceiver) -> io::Result<u64> {
        let before = self.received.progress.mark().bytes;
        self.take_all(batch)?;
        self.cpu.tick(clock::now(), &self.received.cpu_nanos);
        let bytes = self.received.progress.mark().bytes - before;
        if self.terms.pace.is_some() {
            self.terms.pay(bytes, self.stop);
            return Ok(0);
        }
        Ok(bytes)
    }

    fn goes_on(&mut self, _: bool) -> io::Result<bool> {
        Ok(!self.stop.is_ended())
    }
}

impl WorkerReceiver<'_> {
    fn take_all(&self, batch: &mut TrainReceiver) -> io::Result<()> {
        let WorkerReceiver { received, token, .. } = self;
        let (mut bytes, mut datagrams) = (0u64, 0u64);
        let mut newest = None;
        for train in batch.trains() {
            if train.from != self.sender {
                continue; // queued before the socket was connected: somebody else's
            }
            for part in datagrams_of(train.bytes, train.datagram_bytes) {
                if let Some(probe) = Probe::read(part, token) {
                    flush(received, &mut bytes, &mut datagrams);
                    newest = Some(Feedback {
                        probe,
                        received_bytes: received.progress.mark().bytes,
                        datagrams: received.datagrams.load(Ordering::Relaxed),
                        socket_drops: received.socket_drops.load(Ordering::Relaxed),
                        held_nanos: held_nanos(train.arrived),
                    });
                } else if is_admission(part, token) {
                    // Our first answer was lost.
                    wire::answer(self.socket, token, self.buffer_bytes);
                } else {
                    bytes += part.len() as u64;
                    datagrams += part.len().div_ceil(train.datagram_bytes) as u64;
                }
            }
        }
        flush(received, &mut bytes, &mut datagrams);
        // What the newest probe tells holds for the older ones, too: one answer a batch.
        if let Some(feedback) = newest {
            answer(self.socket, &feedback.datagram(token))?;
        }
        received.socket_drops.store(u64::from(batch.drops()), Ordering::Relaxed);
        Ok(())
    }
}

/// A train in the parts that may be something else than payload. A NIC's or the kernel's receive offload may
/// append a probe to the train before it, of which it is then the last datagram; and it may join probes to
/// one another, or to payload of their size.
fn datagrams_of(train: &[u8], datagram_bytes: usize) -> impl Iterator<Item = &[u8]> {
    let all_but_the_last = train.len().saturating_sub(1) / datagram_bytes * datagram_bytes;
    let step = if datagram_bytes <= PROBE_BYTES { datagram_bytes } else { all_but_the_last };
    train.chunks(if step == 0 { train.len().max(1) } else { step })
}

fn flush(received: &StreamCounters, bytes: &mut u64, datagrams: &mut u64) {
    if *bytes > 0 {
        received.progress.add(*bytes);
        received.datagrams.store(received.datagrams.load(Ordering::Relaxed) + *datagrams, Ordering::Relaxed);
    }
    (*bytes, *datagrams) = (0, 0);
}

#[cfg(test)]
mod tests;
