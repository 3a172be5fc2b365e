//! The sending side of a UDP data path: admission, trains of equal datagrams, probes and feedback.

use super::counters::WorkerCounters;
use super::window::SendWindow;
pub use super::wire::PathFacts;
use super::wire::{Feedback, Probe, StreamToken, open_udp};
use linerate_system::segmentation::{MOST_SEGMENTS, Segmentation, SendRefusal, is_busy};
use linerate_system::stop::Stop;
use linerate_system::trains::TrainReceiver;
use linerate_system::{clock, socket};
use std::io;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// After the last payload its fate is asked for this long: within the second in which Ctrl-C ends.
const SETTLE_WAIT: Duration = Duration::from_millis(250);
/// No feedback for this long means that probe or answer was lost.
const SILENCE: Duration = Duration::from_millis(60);
/// Room for eight trains. What lies in the queue of our own NIC counts here until it has left (sock_wfree): a
/// sender whose buffer is larger than its part of that queue is not held back there, and the rest is dropped.
const SEND_BUFFER_BYTES: usize = 512 << 10;

/// On a long path this much of the window leaves together.
const BURST: Duration = Duration::from_millis(1);
/// A sender that could not send for longer than this does not catch up.
const LATEST: Duration = Duration::from_millis(3);

/// How long an answer waited for us. More than its whole trip is none: the clock of the day was set
/// meanwhile.
fn waited_since(arrived: SystemTime, now: SystemTime, trip: Duration) -> Duration {
    now.duration_since(arrived).ok().filter(|waited| *waited <= trip).unwrap_or_default()
}

/// An admitted UDP data path.
#[derive(Debug)]
pub struct UdpSender {
    socket: UdpSocket,
    token: StreamToken,
    window: SendWindow,
    answers: TrainReceiver,
    segmentation: Segmentation,
    start: Instant,
    unprobed_bytes: u64,
    /// On a long path: when what was sent so far should have left at the window's pace.
    paced_until: Instant,
    /// When the oldest probe that is not answered went out.
    asked: Option<Instant>,
    /// The latest round trip.
    trip: Duration,
    /// The same without what the hosts took of it.
    path_trip: Duration,
    /// The receiver's buffer as it reported it, bytes.
    pub receiver_buffer_bytes: u64,
}

impl UdpSender {
    /// Shows the token to the receiver that `socket` is connected to, and sets up datagrams of
    /// `datagram_bytes`; `stop` ends that.
    pub fn admit(
        socket: UdpSocket,
        token: StreamToken,
        datagram_bytes: usize,
        stop: &Stop,
    ) -> io::Result<Self> {
        let path = open_udp(&socket, &token, stop)?;
        let segmentation = Segmentation::new(&socket, datagram_bytes, MOST_SEGMENTS);
        // Where trains are given up, a datagram that is too large is to be refused, not sent in fragments.
        let _ = socket::forbid_fragments(&socket);
        let _ = socket::set_send_buffer(&socket, SEND_BUFFER_BYTES);
        let _ = socket::set_arrival_times(&socket);
        Ok(Self::over(socket, token, segmentation, path))
    }

    /// A path that was admitted and set up elsewhere.
    pub fn over(socket: UdpSocket, token: StreamToken, segmentation: Segmentation, path: PathFacts) -> Self {
        UdpSender {
            window: SendWindow::new(path.receiver_buffer_bytes, path.trip),
            answers: TrainReceiver::new(4),
            segmentation,
            start: clock::now(),
            unprobed_bytes: 0,
            paced_until: clock::now(),
            asked: None,
            trip: path.trip,
            path_trip: path.trip,
            receiver_buffer_bytes: path.receiver_buffer_bytes,
            socket,
            token,
        }
    }

    /// The socket, for the ring.
    pub fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Bytes of one send: whole datagrams, one system call or ring entry.
    pub fn train_bytes(&self) -> usize {
        self.segmentation.train_bytes()
    }

    /// The kernel cuts trains here.
    pub fn segmentation(&self) -> bool {
        self.segmentation.is_on()
    }

    /// What the error of a send of payload means.
    pub fn refused(&mut self, error: io::Error) -> SendRefusal {
        self.segmentation.refused(&self.socket, error)
    }

    /// Bytes of the `left` that may go out now: whole datagrams, or the end of a block; 0 when the window is
    /// closed, or the pace of a long path says later.
    pub(crate) fn may_send(&self, left: usize) -> usize {
        self.window_lets(left).min(self.pace_lets())
    }

    /// A train at a time, or half of a window that is smaller than two: sending each datagram as room for it
    /// comes would cost a pass through the stack for each (the silly window of RFC 813).
    fn window_lets(&self, left: usize) -> usize {
        let room = usize::try_from(self.window.room()).unwrap_or(usize::MAX);
        let half = usize::try_from(self.window.bytes() / 2).unwrap_or(usize::MAX);
        if room >= left {
            return left;
        }
        let datagram = self.segmentation.datagram_bytes();
        if self.window.settled() && room < datagram {
            return datagram.min(left); // a window that has shrunk below a datagram would stay closed for ever
        }
        if room < self.train_bytes().min(half) { 0 } else { room / datagram * datagram }
    }

    /// What is due at the pace of a long path, in whole datagrams: nothing before a burst is.
    fn pace_lets(&self) -> usize {
        let Some(pace) = self.window.pace() else { return usize::MAX };
        let late = clock::now().saturating_duration_since(self.paced_until).min(LATEST);
        let datagram = self.segmentation.datagram_bytes();
        match late >= BURST {
            true => ((late.as_secs_f64() * pace) as usize).max(datagram) / datagram * datagram,
            false => 0,
        }
    }

    /// Payload went out; a probe follows when it is due.
    pub fn sent(&mut self, bytes: usize) -> io::Result<()> {
        if let Some(pace) = self.window.pace() {
            // What a sleeper was late for it may catch up with, but not what it had nothing to send for.
            let oldest = clock::now().checked_sub(LATEST);
            let from = oldest.map_or(self.paced_until, |oldest| self.paced_until.max(oldest));
            self.paced_until = from + Duration::from_secs_f64(bytes as f64 / pace);
        }
        self.window.sent(bytes as u64);
        self.unprobed_bytes += bytes as u64;
        if self.unprobed_bytes >= self.window.probe_every_bytes() { self.probe() } else { Ok(()) }
    }

    /// Sends a probe now.
    pub fn probe(&mut self) -> io::Result<()> {
        self.unprobed_bytes = 0;
        self.asked.get_or_insert_with(clock::now);
        let nanos = clock::since(self.start).as_nanos() as u64;
        let probe = Probe { sent_bytes: self.window.sent_bytes(), nanos };
        match self.socket.send(&probe.datagram(&self.token)) {
            Ok(_) => Ok(()),
            Err(error) if is_busy(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Takes all feedback that is there; waits for the first up to `patience` (zero: does not wait).
    pub fn listen(&mut self, patience: Duration) -> io::Result<()> {
        self.socket.set_nonblocking(patience.is_zero())?;
        if !patience.is_zero() {
            self.socket.set_read_timeout(Some(patience.max(Duration::from_micros(100))))?;
        }
        let mut heard_any = false;
        loop {
            match self.answers.receive(&self.socket) {
                Ok(_) => {
                    self.hear();
                    if !heard_any {
                        self.socket.set_nonblocking(true)?;
                        heard_any = true;
                    }
                }
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    break;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.socket.set_nonblocking(false)?;
                    return Err(error);
                }
            }
        }
        self.socket.set_nonblocking(false)
    }

    /// Takes the answers that were received.
    fn hear(&mut self) {
        let (now, clock) = (clock::since(self.start), clock::date());
        for answer in self.answers.trains() {
            let Some(feedback) = Feedback::read(answer.bytes, &self.token) else { continue };
            self.trip = now.saturating_sub(Duration::from_nanos(feedback.probe.nanos));
            // What waits in the receiver's buffer has room there, and what waited for us is not a queue, either:
            // only what the path itself holds back says that it is full. A host that is short of CPU makes
            // both wait for milliseconds.
            let for_us =
                answer.arrived.map_or(Duration::ZERO, |arrived| waited_since(arrived, clock, self.trip));
            let waited = for_us.saturating_add(Duration::from_nanos(feedback.held_nanos));
            self.path_trip = self.trip.saturating_sub(waited);
            self.window.hear(&feedback, self.path_trip);
            self.asked = None;
        }
    }

    /// The window is closed: asks the receiver where it is and waits for its answer. On a long path whose pace
    /// alone holds it back it waits for that.
    pub fn wait_for_room(&mut self) -> io::Result<()> {
        if self.pace_lets() == 0 && self.window_lets(usize::MAX) > 0 {
            // A timeout of a socket counts in ticks of the kernel's clock, up to 10 ms.
            clock::sleep(BURST);
            return self.listen(Duration::ZERO);
        }
        if self.unprobed_bytes > 0 {
            self.probe()?;
        }
        self.listen(SILENCE / 3)?;
        // Across an ocean every answer takes longer than what is silence in one room.
        let silence = SILENCE.max(self.trip * 4);
        let answer_may_come = self.asked.is_some() && self.silent_for() <= silence;
        if answer_may_come || self.may_send(usize::MAX) > 0 {
            return Ok(());
        }
        self.probe()?;
        self.listen(SILENCE / 3)?;
        if self.silent_for() > silence * 2 {
            self.window.silence();
        }
        Ok(())
    }

    /// A probe waits for its answer this long.
    pub(crate) fn silent_for(&self) -> Duration {
        self.asked.map_or(Duration::ZERO, clock::since)
    }

    /// Counts time that it waited for room.
    pub(crate) fn tell(&self, counters: &WorkerCounters, waited: Duration) {
        counters.lost_bytes.store(self.lost_bytes(), Ordering::Relaxed);
        WorkerCounters::waited(&counters.waiting_sink_nanos, waited);
        if self.window.is_largest() {
            WorkerCounters::waited(&counters.full_window_nanos, waited);
        }
        let store = |to: &AtomicU64, trip: Duration| to.store(trip.as_nanos() as u64, Ordering::Relaxed);
        store(&counters.trip_nanos, self.path_trip);
        store(&counters.least_trip_nanos, self.window.shortest_trip());
    }

    /// Payload lost, as far as the receiver has reported.
    pub fn lost_bytes(&self) -> u64 {
        self.window.lost_bytes()
    }

    /// After the last payload: learns what became of it, for `SETTLE_WAIT` at most.
    pub fn settle(&mut self) -> io::Result<()> {
        let patience = clock::now() + SETTLE_WAIT;
        while !self.window.settled() && clock::now() < patience {
            self.probe()?;
            self.listen(Duration::from_millis(20))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire;
    use super::*;
    use std::collections::VecDeque;

    const TOKEN: StreamToken = [9; 32];

    /// Admits and answers as a receiver does, but each answer leaves `delay` later: a long path.
    fn answer_late(socket: &UdpSocket, delay: Duration, stop: &Stop) {
        socket.set_read_timeout(Some(Duration::from_millis(1))).expect("a timeout");
        let (mut late, mut received) = (VecDeque::new(), 0u64);
        let mut datagram = vec![0; 1 << 16];
        while !stop.is_ended() {
            if let Ok((length, from)) = socket.recv_from(&mut datagram) {
                let datagram = &datagram[..length];
                if datagram == wire::admission(&TOKEN) {
                    late.push_back((Instant::now() + delay, from, wire::admitted(&TOKEN, 8 << 20).to_vec()));
                } else if let Some(probe) = Probe::read(datagram, &TOKEN) {
                    let feedback = Feedback { probe, received_bytes: received, ..Feedback::default() };
                    late.push_back((Instant::now() + delay, from, feedback.datagram(&TOKEN).to_vec()));
                } else {
                    received += length as u64;
                }
            }
            while late.front().is_some_and(|(due, ..)| Instant::now() >= *due) {
                let Some((_, from, answer)) = late.pop_front() else { break };
                socket.send_to(&answer, from).expect("answered");
            }
        }
    }

    #[test]
    fn a_long_way_is_no_silence() {
        let far = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket::set_receive_buffer(&far, 8 << 20).expect("a buffer");
        let near = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        near.connect(far.local_addr().expect("an address")).expect("connected");
        let stop = Stop::new();
        std::thread::scope(|scope| {
            scope.spawn(|| answer_late(&far, Duration::from_millis(150), &stop));
            let mut udp = UdpSender::admit(near, TOKEN, 1000, &Stop::new()).expect("admitted");
            assert!(udp.trip >= Duration::from_millis(150), "{:?}: the answer to the first try", udp.trip);
            socket::set_segment_bytes(udp.socket(), 1000).expect("segmentation");
            // Some round trips: on an idle machine the window grows by half in each, from 128 KiB; on a busy
            // one it may shrink a little. Given up for silence it would be halved each time, down to 16 KiB.
            let start = Instant::now();
            let payload = vec![1; 1 << 20];
            while udp.window.sent_bytes() <= 4 * (128 << 10) && start.elapsed() < Duration::from_secs(8) {
                let allowed = udp.may_send(payload.len()).min(udp.train_bytes());
                if allowed > 0 {
                    udp.socket().send(&payload[..allowed]).expect("sent");
                    udp.sent(allowed).expect("probed");
                } else {
                    udp.wait_for_room().expect("heard");
                }
            }
            stop.end();
            assert!(udp.window.sent_bytes() > 4 * (128 << 10), "{:?}", udp.window);
            assert!(udp.window.bytes() > 32 << 10, "{:?}", udp.window);
        });
    }

    #[test]
    fn a_window_smaller_than_a_datagram_is_not_closed_for_ever() {
        let far = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let near = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        near.connect(far.local_addr().expect("an address")).expect("connected");
        let stop = Stop::new();
        std::thread::scope(|scope| {
            scope.spawn(|| answer_late(&far, Duration::ZERO, &stop));
            let mut udp = UdpSender::admit(near, TOKEN, 60_000, &Stop::new()).expect("admitted");
            stop.end();
            (0..20).for_each(|_| udp.window.silence());
            // On a busy machine the way here is a long one, and has its pace.
            std::thread::sleep(BURST);
            assert_eq!(udp.may_send(1 << 20), 60_000);
            udp.window.sent(60_000);
            assert_eq!(udp.may_send(1 << 20), 0);
        });
    }

    /// The clock of the day may be set at any moment; round trips are of the other one.
    #[test]
    fn a_clock_that_jumps_is_no_wait() {
        let (trip, arrived) = (Duration::from_millis(3), SystemTime::now());
        let waited = |later: Duration| waited_since(arrived, arrived + later, trip);
        assert_eq!(waited(Duration::from_millis(2)), Duration::from_millis(2));
        assert_eq!(waited(Duration::from_secs(3600)), Duration::ZERO, "it was set forward");
        assert_eq!(waited_since(arrived, arrived - Duration::from_secs(3600), trip), Duration::ZERO);
    }

    #[test]
    fn a_receiver_that_comes_a_moment_later_is_found() {
        let place = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let address = place.local_addr().expect("an address");
        drop(place);
        let near = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        near.connect(address).expect("connected");
        let stop = Stop::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(250));
                let far = UdpSocket::bind(address).expect("the same port");
                answer_late(&far, Duration::ZERO, &stop);
            });
            let admitted = UdpSender::admit(near, TOKEN, 1000, &Stop::new());
            stop.end();
            assert!(admitted.is_ok(), "{admitted:?}");
        });
    }
}
