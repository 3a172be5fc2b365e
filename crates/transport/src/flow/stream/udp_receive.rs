//! The receiving end of a UDP stream: every datagram looked at and accounted for, feedback for the sender, an
//! exact end.

use super::super::receive::Naps;
use super::super::wire::{Feedback, PROBE_BYTES, Probe, StreamToken};
use super::account::{Account, Came};
use super::datagram::{DatagramMessage, Tags};
use super::delay::{Delays, arrival_nanos};
use super::open;
use super::{CpuClock, StreamCounters, bump, is_waiting, other_end_gone};
use linerate_system::connection;
use linerate_system::trains::TrainReceiver;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// Trains a call.
const BATCH: usize = 16;
/// After the end was told, what is still missing is waited for until nothing came for this long.
const LATE_WAIT: Duration = Duration::from_millis(60);
/// And at most this long: within the second in which Ctrl-C ends.
const MOST_LATE_WAIT: Duration = Duration::from_millis(400);
/// A sender that says nothing for this long is gone; one with a low rate says now and then that it is still
/// there (`udp_send`).
const PATIENCE: Duration = Duration::from_secs(30);

/// Receives until the sender's end, or `stop`.
pub(super) fn receive(
    socket: &UdpSocket,
    token: &StreamToken,
    counters: &StreamCounters,
    stop: &AtomicBool,
    clock: &mut CpuClock,
) -> io::Result<()> {
    let (_, buffer_bytes) = connection::buffers(socket)?;
    let mut batch = TrainReceiver::new(BATCH);
    let mut receiver = Receiver {
        socket,
        from: socket.peer_addr()?,
        token,
        tags: Tags::of(token),
        buffer_bytes: buffer_bytes as u64,
        counters,
        account: Account::new(),
        delays: Delays::default(),
        bytes: 0,
        start: Instant::now(),
        end: None,
    };
    let naps = Naps::for_buffer(buffer_bytes as u64);
    let mut nap = Naps::SHORTEST;
    let mut heard = Instant::now();
    while !stop.load(Ordering::Relaxed) && !receiver.settled(Instant::now()) {
        let taken = match batch.receive(socket) {
            Ok(taken) => taken,
            Err(error) if is_waiting(&error) => {
                let now = Instant::now();
                clock.tick(now, &counters.cpu_nanos);
                if now.duration_since(heard) > PATIENCE {
                    receiver.finish();
                    let why = "nothing came from the sender for 30 s: is its host up, the link plugged in \
                               and its agent running?";
                    return Err(io::Error::new(io::ErrorKind::TimedOut, why));
                }
                continue;
            }
            // The sender's port closed (ICMP): its last word came, or comes by the control channel.
            Err(error) if other_end_gone(&error) => continue,
            Err(error) => return Err(error),
        };
        let bytes = receiver.take(&mut batch)?;
        heard = Instant::now();
        clock.tick(heard, &counters.cpu_nanos);
        if bytes > 0 {
            nap = naps.after(taken, bytes, nap);
            if naps.is_small(taken, bytes) {
                std::thread::sleep(nap);
            }
        }
    }
    receiver.finish();
    Ok(())
}

/// What the sender said of its end.
#[derive(Clone, Copy)]
struct SenderEnd {
    sent: u64,
    heard: Instant,
    /// When the last payload came, or the end was heard.
    last: Instant,
}

struct Receiver<'a> {
    socket: &'a UdpSocket,
    from: SocketAddr,
    token: &'a StreamToken,
    tags: Tags,
    buffer_bytes: u64,
    counters: &'a StreamCounters,
    account: Account,
    delays: Delays,
    /// Payload that counts: without doubles.
    bytes: u64,
    start: Instant,
    end: Option<SenderEnd>,
}

impl Receiver<'_> {
    /// Takes a batch; payload bytes that it brought.
    fn take(&mut self, batch: &mut TrainReceiver) -> io::Result<u64> {
        let (now, clock) = (Instant::now(), SystemTime::now());
        let (before, mut foreign, mut trains, mut newest) = (self.bytes, 0u64, 0u64, None);
        for train in batch.trains() {
            if (train.from.ip(), train.from.port()) != (self.from.ip(), self.from.port()) {
                foreign += train.datagrams() as u64; // queued before the socket was connected
                continue;
            }
            let mut sent_nanos = None;
            for datagram in train.bytes.chunks(train.datagram_bytes) {
                if let Some(header) = self.tags.read(datagram) {
                    if self.account.take(header.number) != Came::Again {
                        self.bytes += datagram.len() as u64;
                    }
                    sent_nanos = Some(header.sent_nanos);
                } else if let Some(probe) = Probe::read(datagram, self.token) {
                    newest = Some(self.feedback(probe, clock, train.arrived));
                } else {
                    foreign += u64::from(!self.hear(datagram, now));
                }
            }
            if let Some(sent_nanos) = sent_nanos {
                self.delays.take(sent_nanos, arrival_nanos(self.start, now, clock, train.arrived));
            }
            trains += u64::from(train.bytes.len() > train.datagram_bytes);
        }
        let brought = self.bytes - before;
        bump(&self.counters.foreign, foreign);
        bump(&self.counters.trains, trains);
        bump(&self.counters.calls, 1);
        self.counters.socket_drops.store(u64::from(batch.drops()), Ordering::Relaxed);
        self.publish(brought);
        // What the newest probe tells holds for the older ones, too: one answer a batch.
        if let Some(feedback) = newest {
            self.answer(&feedback.datagram(self.token))?;
        }
        if let Some(end) = self.end.as_mut().filter(|_| brought > 0) {
            end.last = now;
        }
        Ok(brought)
    }

    fn feedback(&self, probe: Probe, clock: SystemTime, arrived: Option<SystemTime>) -> Feedback {
        let held = arrived.and_then(|arrived| clock.duration_since(arrived).ok()).unwrap_or_default();
        Feedback {
            probe,
            received_bytes: self.bytes,
            datagrams: self.account.received() - self.account.duplicated(),
            socket_drops: self.counters.socket_drops.load(Ordering::Relaxed),
            held_nanos: u64::try_from(held.as_nanos()).unwrap_or(u64::MAX),
        }
    }

    /// A datagram that is no payload; false: none of our own.
    fn hear(&mut self, datagram: &[u8], now: Instant) -> bool {
        match self.tags.read_message(datagram) {
            Some(DatagramMessage::Hello(_)) => {
                let _ = self.answer(&self.tags.message(DatagramMessage::Ready(self.buffer_bytes)));
            }
            Some(DatagramMessage::End(sent)) => {
                let _ = self.answer(&self.tags.message(DatagramMessage::Ended(self.account.lost())));
                self.end.get_or_insert(SenderEnd { sent, heard: now, last: now });
                let _ = self.socket.set_read_timeout(Some(LATE_WAIT / 3));
            }
            Some(_) => return false,
            None if open::is_admission(datagram, self.token) => open::answer(self.socket, self.token),
            None => return false,
        }
        true
    }

    /// The sender has ended, and nothing more will come.
    fn settled(&self, now: Instant) -> bool {
        self.end.is_some_and(|end| {
            let whole = self.account.next() >= end.sent && self.account.lost() == 0;
            whole
                || now.duration_since(end.last) > LATE_WAIT
                || now.duration_since(end.heard) > MOST_LATE_WAIT
        })
    }

    fn finish(&mut self) {
        if let Some(end) = self.end {
            self.account.finish(end.sent);
        }
        self.publish(0);
    }

    fn publish(&self, brought: u64) {
        let Receiver { counters, account, delays, .. } = self;
        if brought > 0 {
            counters.progress.add(brought);
        }
        counters.datagrams.store(account.received(), Ordering::Relaxed);
        counters.lost.store(account.lost(), Ordering::Relaxed);
        counters.reordered.store(account.reordered(), Ordering::Relaxed);
        counters.duplicated.store(account.duplicated(), Ordering::Relaxed);
        counters.jitter_nanos.store(delays.jitter_nanos(), Ordering::Relaxed);
        counters.delay_variation_nanos.store(delays.variation_nanos(), Ordering::Relaxed);
    }

    fn answer(&self, datagram: &[u8; PROBE_BYTES]) -> io::Result<()> {
        match self.socket.send(datagram) {
            Err(error) if !linerate_system::segmentation::is_busy(&error) && !other_end_gone(&error) => {
                Err(error)
            }
            _ => Ok(()),
        }
    }
}
