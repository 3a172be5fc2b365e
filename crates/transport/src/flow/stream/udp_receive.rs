//! The receiving end of a UDP stream: every datagram looked at and accounted for, feedback for the sender, an
//! exact end.

use super::super::udp_receive::{BATCH, TrainTaker, answer, held_nanos, receive_trains};
use super::super::wire::{Feedback, Probe, StreamToken};
use super::account::{Account, Came, Delays, arrival_nanos};
use super::datagram::{DatagramMessage, Tags};
use super::{StreamThread, bump};
use crate::flow::wire;
use linerate_system::trains::TrainReceiver;
use linerate_system::{clock, connection};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

/// After the sender's end, what is still missing is waited for until nothing came for this long.
const LATE_WAIT: Duration = Duration::from_millis(60);
/// And at most this long: within the second in which Ctrl-C ends.
const MOST_LATE_WAIT: Duration = Duration::from_millis(400);
/// A sender that says nothing for this long is gone; one with a low rate says now and then that it is still
/// there (`udp_send`).
const PATIENCE: Duration = Duration::from_secs(30);

/// Receives until the sender's end, or `stop`.
pub(super) fn receive(
    thread: &mut StreamThread<'_>,
    socket: &UdpSocket,
    token: &StreamToken,
) -> io::Result<()> {
    let buffer_bytes = connection::buffers(socket)?.1 as u64;
    let start = clock::now();
    let mut receiver = Receiver {
        socket,
        from: socket.peer_addr()?,
        token,
        tags: Tags::of(token),
        buffer_bytes,
        thread,
        account: Account::default(),
        delays: Delays::default(),
        bytes: 0,
        start,
        last_arrival: start,
        end: None,
    };
    let result = receive_trains(socket, &mut TrainReceiver::new(BATCH), buffer_bytes, &mut receiver);
    receiver.finish();
    result
}

/// What the sender said of its end.
#[derive(Clone, Copy)]
struct SenderEnd {
    sent: u64,
    end_arrived: Instant,
    /// When the last payload came, or the end.
    last: Instant,
}

struct Receiver<'a, 'b> {
    socket: &'a UdpSocket,
    from: SocketAddr,
    token: &'a StreamToken,
    tags: Tags,
    buffer_bytes: u64,
    thread: &'a mut StreamThread<'b>,
    account: Account,
    delays: Delays,
    /// Payload that counts: without duplicates.
    bytes: u64,
    start: Instant,
    /// When anything came last.
    last_arrival: Instant,
    end: Option<SenderEnd>,
}

impl TrainTaker for Receiver<'_, '_> {
    fn take(&mut self, batch: &mut TrainReceiver) -> io::Result<u64> {
        let (now, clock) = (clock::now(), clock::date());
        let (before, mut foreign, mut trains, mut newest) = (self.bytes, 0u64, 0u64, None);
        for train in batch.trains() {
            if (train.from.ip(), train.from.port()) != (self.from.ip(), self.from.port()) {
                foreign += train.datagrams() as u64; // queued before the socket was connected
                continue;
            }
            let mut sent_nanos = None;
            for datagram in train.bytes.chunks(train.datagram_bytes) {
                if let Some(header) = self.tags.read(datagram) {
                    if self.account.take(header.number) != Came::Duplicate {
                        self.bytes += datagram.len() as u64;
                    }
                    sent_nanos = Some(header.sent_nanos);
                } else if let Some(probe) = Probe::read(datagram, self.token) {
                    newest = Some(self.feedback(probe, train.arrived));
                } else {
                    foreign += u64::from(!self.take_control_message(datagram, now));
                }
            }
            if let Some(sent_nanos) = sent_nanos {
                self.delays.take(sent_nanos, arrival_nanos(self.start, now, clock, train.arrived));
            }
            trains += u64::from(train.bytes.len() > train.datagram_bytes);
        }
        let brought = self.bytes - before;
        bump(&self.thread.counters.foreign, foreign);
        bump(&self.thread.counters.trains, trains);
        bump(&self.thread.counters.calls, 1);
        self.thread.counters.socket_drops.store(u64::from(batch.drops()), Ordering::Relaxed);
        self.publish(brought);
        // What the newest probe reports holds for the older ones, too: one answer a batch.
        if let Some(feedback) = newest {
            answer(self.socket, &feedback.datagram(self.token))?;
        }
        if let Some(end) = self.end.as_mut().filter(|_| brought > 0) {
            end.last = now;
        }
        self.last_arrival = clock::now();
        self.thread.tick(self.last_arrival);
        Ok(brought)
    }

    fn goes_on(&mut self, came: bool) -> io::Result<bool> {
        let now = clock::now();
        if !came {
            self.thread.tick(now);
            if now.saturating_duration_since(self.last_arrival) > PATIENCE {
                let why = format!(
                    "nothing came from the sender for {} s: is its host up, the link plugged in and its agent running?",
                    PATIENCE.as_secs()
                );
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
        }
        Ok(!self.thread.stop.is_ended() && !self.settled(now))
    }
}

impl Receiver<'_, '_> {
    fn feedback(&self, probe: Probe, arrived: Option<SystemTime>) -> Feedback {
        Feedback {
            probe,
            received_bytes: self.bytes,
            datagrams: self.account.received() - self.account.duplicated(),
            socket_drops: self.thread.counters.socket_drops.load(Ordering::Relaxed),
            held_nanos: held_nanos(arrived),
        }
    }

    /// Takes a datagram that is not payload; false: not one of this stream.
    fn take_control_message(&mut self, datagram: &[u8], now: Instant) -> bool {
        match self.tags.read_message(datagram) {
            Some(DatagramMessage::Hello(_)) => {
                let _ = answer(self.socket, &self.tags.message(DatagramMessage::Ready(self.buffer_bytes)));
            }
            Some(DatagramMessage::End(sent)) => {
                let _ = answer(self.socket, &self.tags.message(DatagramMessage::Ended));
                self.end.get_or_insert(SenderEnd { sent, end_arrived: now, last: now });
                let _ = self.socket.set_read_timeout(Some(LATE_WAIT / 3));
            }
            Some(_) => return false,
            None if wire::is_admission(datagram, self.token) => wire::answer(self.socket, self.token, 0),
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
                || now.duration_since(end.end_arrived) > MOST_LATE_WAIT
        })
    }

    fn finish(&mut self) {
        if let Some(end) = self.end {
            self.account.finish(end.sent);
        }
        self.publish(0);
    }

    fn publish(&self, brought: u64) {
        let Receiver { thread: StreamThread { counters, .. }, account, delays, .. } = self;
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
}
