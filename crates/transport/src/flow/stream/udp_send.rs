//! The sending end of a UDP stream: numbered datagrams in trains, several trains a call; held by the
//! receiver's feedback, or by a rate.
//!
//! Datagrams may also go to where nobody receives, at a rate, without a word with the other end: for a switch
//! that drops them. Who is to receive is asked by all other senders first.

use super::super::source;
use super::super::udp::{PathFacts, UdpSender};
use super::super::wire::StreamToken;
use super::datagram::{self, DatagramMessage, HEADER_BYTES, Header, MESSAGE_BYTES, MOST_DATAGRAMS, Tags};
use super::{
    Content, CpuClock, RECEIVER_TIMEOUT, SendMethod, StreamCounters, StreamSpec, StreamThread, bump,
    other_end_gone, receiver_silent,
};
use crate::closed_port::ClosedPort;
use crate::flow::wire;
use crate::pace::Pace;
use linerate_system::segmentation::{
    MOST_SEGMENTS, MOST_TRAIN_BYTES, Segmentation, SendRefusal, TrainSender,
};
use linerate_system::socket::{UDP_HEADERS_V4, forbid_fragments, path_mtu_v4};
use linerate_system::stop::{STOP_CHECK, Stop};
use linerate_system::{Errno, affinity, clock};
use std::io;
use std::net::UdpSocket;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const TRAINS_A_CALL: usize = 8;
/// The other end is asked whether it is there this often, and given up after so many times: 5 s.
const HELLO_WAIT: Duration = Duration::from_millis(100);
const HELLO_TRIES: u32 = 50;
/// The end is said again this often, and this many times: within the second in which Ctrl-C ends.
const END_WAIT: Duration = Duration::from_millis(25);
const END_TRIES: u32 = 20;
/// A full queue is given this long.
const REFUSED_WAIT: Duration = Duration::from_micros(100);
/// A receiver whose port has answered with errors for so long is gone. The kernel tells of each once and lets
/// the next send pass.
const REFUSED_FOR: Duration = Duration::from_secs(1);
/// A sender whose next burst is further off than this says that it is still there.
const SIGN_OF_LIFE: Duration = Duration::from_secs(5);

/// Sends until the limit, or the stop.
pub(super) fn send(thread: &mut StreamThread<'_>, socket: UdpSocket, token: StreamToken) -> io::Result<()> {
    let StreamThread { spec, content, stop, .. } = *thread;
    if !matches!(content, Content::Memory) {
        let why = "files go over TCP in a stream; `linerate run` streams them over UDP";
        return Err(io::Error::new(io::ErrorKind::Unsupported, why));
    }
    let tags = Tags::of(&token);
    let start = clock::now();
    let Some(path) = say_hello(&socket, &token, &tags, stop)? else { return Ok(()) };
    if fits_the_path(&socket, spec.datagram_bytes) {
        forbid_fragments(&socket)?;
    }
    let trains = train_sender(spec, &socket, &tags);
    affinity::wake_on_time();
    let mut sender = Sender {
        thread,
        start,
        tags,
        trains,
        number: 0,
        left: spec.limit_bytes,
        port: ClosedPort::new(REFUSED_FOR),
    };
    let result = match spec.bytes_per_second {
        Some(rate) => sender.send_paced(&socket, rate),
        None => {
            let segmentation = sender.trains.segmentation();
            let mut path = UdpSender::over(socket.try_clone()?, token, segmentation, path);
            sender.send_by_window(&mut path)
        }
    };
    let sent = sender.number;
    say_the_end(&socket, &tags, sent)?;
    match result {
        Err(error) if other_end_gone(&error) && stop.is_ended() => Ok(()),
        Err(error) if other_end_gone(&error) => {
            let text = format!("the receiver's port was closed before the end: {error}; did its agent stop?");
            Err(io::Error::new(error.kind(), text))
        }
        // A router's answer is reported by whichever call comes next.
        Err(error) if Errno::from_io_error(&error) == Some(Errno::MSGSIZE) => {
            Err(io::Error::new(error.kind(), TooLarge { datagram_bytes: spec.datagram_bytes, error }))
        }
        result => result,
    }
}

/// Larger datagrams go in fragments, as iperf3's do. One that fits goes in one piece or not at all: a train has no
/// don't-fragment bit (`__ip_make_skb` holds its whole length against the MTU), so that a router whose MTU shrinks would
/// cut its datagrams, and nobody here would see it. Routers of IPv6 cut nothing.
fn fits_the_path(socket: &UdpSocket, datagram_bytes: u32) -> bool {
    path_mtu_v4(socket).is_ok_and(|mtu| datagram_bytes.saturating_add(UDP_HEADERS_V4) <= mtu)
}

/// Asks until the receiver answers: what is sent before it is ready would fill its buffer. None: stopped.
fn say_hello(
    socket: &UdpSocket,
    token: &StreamToken,
    tags: &Tags,
    stop: &Stop,
) -> io::Result<Option<PathFacts>> {
    let mut answer = [0u8; 2 * MESSAGE_BYTES];
    socket.set_nonblocking(true)?;
    let began = clock::now();
    for _ in 0..HELLO_TRIES {
        if stop.is_ended() {
            return Ok(None);
        }
        let asked = clock::now();
        let _ = socket.send(&tags.message(DatagramMessage::Hello(0)));
        while let Some(length) = wire::receive_until(socket, &mut answer, asked + HELLO_WAIT, stop)? {
            let answer = &answer[..length];
            if let Some(DatagramMessage::Ready(receiver_buffer_bytes)) = tags.read_message(answer) {
                socket.set_nonblocking(false)?;
                // Whichever question is answered: too long a trip is corrected by the first feedback, too short
                // a one never is, and over a long path it is the first that is answered.
                return Ok(Some(PathFacts { receiver_buffer_bytes, trip: clock::since(began) }));
            }
            if wire::is_admission(answer, token) {
                wire::answer(socket, token, 0); // our first answer was lost
            }
        }
    }
    Err(io::Error::new(
        io::ErrorKind::TimedOut,
        "the receiver does not answer: a firewall between the hosts may drop UDP, or its agent has ended",
    ))
}

/// Says how much there was until the receiver has heard it, or it is gone.
fn say_the_end(socket: &UdpSocket, tags: &Tags, sent: u64) -> io::Result<()> {
    // The stop has come: a lost word is said again all the same.
    let (mut answer, never) = ([0u8; 2 * MESSAGE_BYTES], Stop::new());
    socket.set_nonblocking(true)?;
    for _ in 0..END_TRIES {
        if socket.send(&tags.message(DatagramMessage::End(sent))).is_err_and(|error| other_end_gone(&error)) {
            return Ok(());
        }
        let until = clock::now() + END_WAIT;
        while let Some(length) = wire::receive_until(socket, &mut answer, until, &never)? {
            if matches!(tags.read_message(&answer[..length]), Some(DatagramMessage::Ended)) {
                return Ok(());
            }
        }
    }
    Ok(())
}

struct Sender<'a, 'b> {
    thread: &'a mut StreamThread<'b>,
    start: Instant,
    tags: Tags,
    trains: TrainSender,
    /// Of the next datagram.
    number: u64,
    /// Payload bytes until the stream ends by itself.
    left: Option<u64>,
    port: ClosedPort,
}

impl Sender<'_, '_> {
    /// Bytes of the next call, of at most `most`: whole datagrams, but for the last of the stream, which is a
    /// header at least.
    fn next_bytes(&self, most: usize) -> usize {
        let datagram = self.datagram_bytes();
        let whole = most.min(self.trains.most_bytes()) / datagram * datagram;
        match self.left {
            Some(0) => 0,
            Some(left) if left < whole as u64 => {
                let (left, rest) = (left as usize, left as usize % datagram);
                if rest == 0 { left } else { left - rest + rest.max(HEADER_BYTES) }
            }
            _ => whole,
        }
    }

    fn over(&self) -> bool {
        self.thread.stop.is_ended() || self.left == Some(0) || self.number >= MOST_DATAGRAMS
    }

    /// Sends up to `bytes` now; how many the kernel took: none where it refused for a moment.
    fn send_now(&mut self, socket: &UdpSocket, bytes: usize) -> io::Result<usize> {
        let now = clock::now();
        let nanos = now.duration_since(self.start).as_nanos() as u64;
        let mut header = Header { number: self.number, sent_nanos: nanos };
        for datagram in self.trains.datagrams_mut(bytes) {
            datagram::renumber(header, datagram);
            header.number += 1;
        }
        let taken = match self.trains.send(socket, bytes) {
            Ok(taken) => taken,
            Err(refusal) => return self.go_on_after(refusal).map(|()| 0),
        };
        let segmentation = self.trains.segmentation();
        self.number += taken.div_ceil(segmentation.datagram_bytes()) as u64;
        self.left = self.left.map(|left| left.saturating_sub(taken as u64));
        let counters = self.thread.counters;
        counters.progress.add(taken as u64);
        counters.datagrams.store(self.number, Ordering::Relaxed);
        bump(&counters.calls, 1);
        if segmentation.is_on() {
            bump(&counters.trains, taken.div_ceil(segmentation.train_bytes()) as u64);
        }
        self.thread.tick(now);
        Ok(taken)
    }

    fn datagram_bytes(&self) -> usize {
        self.trains.segmentation().datagram_bytes()
    }

    /// Waits for what passes; what does not is the error.
    fn go_on_after(&mut self, refusal: SendRefusal) -> io::Result<()> {
        match refusal {
            SendRefusal::Busy => {
                bump(&self.thread.counters.refused_sends, 1);
                self.thread.stop.wait(REFUSED_WAIT);
                Ok(())
            }
            SendRefusal::SegmentationOff => Ok(()),
            SendRefusal::PortClosed(error) => self.heard_refusal(error),
            SendRefusal::TooLarge(error) => Err(error),
            SendRefusal::Failed(error) => Err(firewall_named(error)),
        }
    }

    /// Without a rate: as fast as the receiver's answers allow.
    fn send_by_window(&mut self, path: &mut UdpSender) -> io::Result<()> {
        while !self.over() {
            let allowed = path.may_send(self.trains.most_bytes());
            let bytes = self.next_bytes(allowed);
            if bytes == 0 {
                path.wait_for_room().or_else(|error| self.heard_refusal(error))?;
                if path.silent_for() > RECEIVER_TIMEOUT {
                    return Err(receiver_silent("answered"));
                }
                self.thread.tick(clock::now());
                continue;
            }
            let taken = self.send_now(path.socket(), bytes)?;
            if taken > 0 {
                path.sent(taken).or_else(|error| self.heard_refusal(error))?;
            }
        }
        Ok(())
    }

    /// The ICMP error of an earlier datagram; one may be a passing trouble of the path.
    fn heard_refusal(&mut self, error: io::Error) -> io::Result<()> {
        if !other_end_gone(&error) || self.port.reported(clock::now()) {
            return Err(error);
        }
        self.thread.stop.wait(Duration::from_millis(1));
        Ok(())
    }

    /// At a rate, whatever the receiver makes of it: bursts of half a millisecond.
    fn send_paced(&mut self, socket: &UdpSocket, rate: f64) -> io::Result<()> {
        let mut pace = Pace::new(rate, clock::now());
        let mut spoke = clock::now();
        while !self.over() {
            let now = clock::now();
            let wait = pace.wait(now);
            if !wait.is_zero() {
                if now.duration_since(spoke) > SIGN_OF_LIFE {
                    let _ = socket.send(&self.tags.message(DatagramMessage::Hello(0)));
                    spoke = now;
                }
                self.thread.stop.wait(wait.min(SIGN_OF_LIFE));
                self.thread.tick(clock::now());
                continue;
            }
            spoke = now;
            let burst = pace.burst_bytes(self.datagram_bytes(), self.trains.most_bytes());
            let taken = self.send_now(socket, self.next_bytes(burst))?;
            if taken > 0 {
                pace.sent(taken, clock::now());
            }
        }
        Ok(())
    }
}

/// The buffer of a batch: trains where the kernel cuts them and the spec does not ask for single datagrams.
fn train_sender(spec: &StreamSpec, socket: &UdpSocket, tags: &Tags) -> TrainSender {
    let datagram_bytes = (spec.datagram_bytes as usize).clamp(MESSAGE_BYTES, MOST_TRAIN_BYTES);
    let most = if spec.method == SendMethod::Datagrams { 1 } else { MOST_SEGMENTS };
    let segmentation = Segmentation::new(socket, datagram_bytes, most);
    let mut trains = TrainSender::new(segmentation, TRAINS_A_CALL * MOST_TRAIN_BYTES);
    source::fill(trains.payload_mut());
    // The tags stay, only numbers and times change from call to call.
    for datagram in trains.datagrams_mut(trains.most_bytes()) {
        tags.write(Header { number: 0, sent_nanos: 0 }, datagram);
    }
    trains
}

/// EMSGSIZE in words: a datagram is longer than what our interface, or a router on the way, takes without
/// cutting it.
#[derive(Debug, thiserror::Error)]
#[error(
    "datagrams of {datagram_bytes} bytes are too large for this path: {error}; name a smaller size with --datagram"
)]
struct TooLarge {
    datagram_bytes: u32,
    error: io::Error,
}

/// Whether a stream ended since its datagrams are too large for its path.
pub fn is_too_large(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::MSGSIZE)
        || error.get_ref().is_some_and(|inner| inner.is::<TooLarge>())
}

fn firewall_named(error: io::Error) -> io::Error {
    if Errno::from_io_error(&error) != Some(Errno::PERM) {
        return error;
    }
    let text = format!("sending was forbidden: {error}; a firewall of this host may refuse it");
    io::Error::new(error.kind(), text)
}

/// Trains a call.
const TRAINS: usize = 8;

/// Sends over a connected socket at the spec's rate until `stop`; how many answers said that nobody listens
/// on the port (ICMP), which is not a fault here.
pub fn send_blindly(
    socket: &UdpSocket,
    spec: &StreamSpec,
    counters: &StreamCounters,
    stop: &Stop,
) -> io::Result<u64> {
    let Some(rate) = spec.bytes_per_second else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "without a receiver a rate is needed"));
    };
    socket.set_write_timeout(Some(STOP_CHECK))?;
    let most = if spec.method == SendMethod::Datagrams { 1 } else { MOST_SEGMENTS };
    let segmentation = Segmentation::new(socket, spec.datagram_bytes as usize, most);
    let mut trains = TrainSender::new(segmentation, TRAINS * MOST_TRAIN_BYTES);
    source::fill(trains.payload_mut());
    affinity::wake_on_time();
    let (mut clock, mut pace, mut unreachable) = (CpuClock::new(), Pace::new(rate, clock::now()), 0);
    while !stop.is_ended() {
        if pace.slept(stop) {
            clock.tick(clock::now(), &counters.cpu_nanos);
            continue;
        }
        let datagram_bytes = trains.segmentation().datagram_bytes();
        let bytes = pace.burst_bytes(datagram_bytes, trains.most_bytes()) / datagram_bytes * datagram_bytes;
        match trains.send(socket, bytes) {
            Ok(taken) => {
                pace.sent(taken, clock::now());
                count(counters, taken, trains.segmentation());
            }
            Err(SendRefusal::Busy) => {
                bump(&counters.refused_sends, 1);
                stop.wait(REFUSED_WAIT);
            }
            Err(SendRefusal::SegmentationOff) => {}
            Err(SendRefusal::PortClosed(_)) => unreachable += 1,
            Err(SendRefusal::TooLarge(error) | SendRefusal::Failed(error)) => return Err(error),
        }
    }
    clock.store(&counters.cpu_nanos);
    Ok(unreachable)
}

fn count(counters: &StreamCounters, taken: usize, segmentation: Segmentation) {
    counters.progress.add(taken as u64);
    bump(&counters.datagrams, taken.div_ceil(segmentation.datagram_bytes()) as u64);
    bump(&counters.calls, 1);
    if segmentation.is_on() {
        bump(&counters.trains, taken.div_ceil(segmentation.train_bytes()) as u64);
    }
}
