//! What goes over a UDP data path besides payload: admission, which brings the two ends together, the sender's
//! probes, the receiver's feedback.
//!
//! To open a path the client shows the token until it is answered, and the agent waits for it.
//!
//! Nothing is sent to an address before it showed the token, and the answer is shorter than the question: who
//! forges a sender's address makes nobody flood it. Also when the agent is to send: it begins only after the
//! client's own `Ready` (`stream::udp_send`).
//!
//! Payload datagrams carry no header of our own, so that a block read from a disk can be cut into datagrams
//! where it lies (UDP_SEGMENT). Loss is still exact: after every burst a small *probe* says how much was sent
//! before it, and the answer how much had arrived. Both are told apart from payload by 16 bytes of the stream's
//! secret token. An answer is never larger than what it answers, so a forged sender gains nothing.

use super::progress::other_end_gone;
use linerate_system::clock;
use linerate_system::readiness::is_waiting;
use linerate_system::stop::{STOP_CHECK, Stop};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// First bytes of the admission datagram and of its answer.
const ADMISSION_MAGIC: [u8; 4] = *b"LRu1";
/// Length of the admission datagram: magic and token. Its answer is shorter.
const ADMISSION_BYTES: usize = 4 + 32;
/// Length of a probe and of a feedback datagram.
pub(crate) const PROBE_BYTES: usize = 64;

/// The one-time secret of a data stream.
pub type StreamToken = [u8; 32];

/// The admission datagram.
pub fn admission(token: &StreamToken) -> [u8; ADMISSION_BYTES] {
    let mut datagram = [0; ADMISSION_BYTES];
    datagram[..4].copy_from_slice(&ADMISSION_MAGIC);
    datagram[4..].copy_from_slice(token);
    datagram
}

/// The receiver's answer to an admission: magic, the token's first half, its buffer in bytes.
pub fn admitted(token: &StreamToken, buffer_bytes: u64) -> [u8; 28] {
    let mut datagram = [0; 28];
    datagram[..4].copy_from_slice(&ADMISSION_MAGIC);
    datagram[4..20].copy_from_slice(&token[..16]);
    datagram[20..].copy_from_slice(&buffer_bytes.to_be_bytes());
    datagram
}

/// Reads the answer to an admission: the receiver's buffer in bytes.
pub fn read_admitted(datagram: &[u8], token: &StreamToken) -> Option<u64> {
    let rest = datagram.strip_prefix(&ADMISSION_MAGIC)?.strip_prefix(&token[..16])?;
    Some(u64::from_be_bytes(rest.try_into().ok()?))
}

/// What the sender had sent before the probe, and its clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Probe {
    /// Payload bytes sent before it.
    pub sent_bytes: u64,
    /// The sender's clock, nanoseconds.
    pub nanos: u64,
}

/// The answer: the probe again, and what had arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Feedback {
    /// The probe that is answered.
    pub probe: Probe,
    /// Payload bytes received before the probe was.
    pub received_bytes: u64,
    /// Datagrams of payload received.
    pub datagrams: u64,
    /// Drops by the receiving socket's buffer, in the kernel's unit.
    pub socket_drops: u64,
    /// How long the probe lay in the receiver's socket buffer before the receiver came to it, nanoseconds.
    pub held_nanos: u64,
}

fn numbers_of<const N: usize>(datagram: &[u8], token: &StreamToken) -> Option<[u64; N]> {
    if datagram.len() != PROBE_BYTES {
        return None;
    }
    let rest = datagram.strip_prefix(&token[16..])?;
    let mut words = [0; N];
    for (word, bytes) in words.iter_mut().zip(rest.chunks_exact(8)) {
        *word = u64::from_be_bytes(bytes.try_into().ok()?);
    }
    Some(words)
}

fn with_words(token: &StreamToken, words: &[u64]) -> [u8; PROBE_BYTES] {
    let mut datagram = [0; PROBE_BYTES];
    datagram[..16].copy_from_slice(&token[16..]);
    for (bytes, word) in datagram[16..].chunks_exact_mut(8).zip(words) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
    datagram
}

impl Probe {
    /// As a datagram.
    pub fn datagram(&self, token: &StreamToken) -> [u8; PROBE_BYTES] {
        with_words(token, &[self.sent_bytes, self.nanos])
    }

    /// From a datagram, if it is one.
    pub fn read(datagram: &[u8], token: &StreamToken) -> Option<Self> {
        let [sent_bytes, nanos] = numbers_of(datagram, token)?;
        Some(Probe { sent_bytes, nanos })
    }
}

impl Feedback {
    /// As a datagram.
    pub fn datagram(&self, token: &StreamToken) -> [u8; PROBE_BYTES] {
        let Probe { sent_bytes, nanos } = self.probe;
        let Feedback { received_bytes, datagrams, socket_drops, held_nanos, .. } = *self;
        with_words(token, &[sent_bytes, nanos, received_bytes, datagrams, socket_drops, held_nanos])
    }

    /// From a datagram, if it is one.
    pub fn read(datagram: &[u8], token: &StreamToken) -> Option<Self> {
        let [sent_bytes, nanos, received_bytes, datagrams, socket_drops, held_nanos] =
            numbers_of(datagram, token)?;
        let probe = Probe { sent_bytes, nanos };
        Some(Feedback { probe, received_bytes, datagrams, socket_drops, held_nanos })
    }
}

/// Showing the token is tried again after this long, and given up after so many tries.
const ADMISSION_WAIT: Duration = Duration::from_millis(100);
const ADMISSION_TRIES: u32 = 50;
/// A port that is closed is asked again after this.
const CLOSED_AGAIN: Duration = Duration::from_millis(10);
/// A token that nobody shows is forgotten.
const ADMISSION_PATIENCE: Duration = Duration::from_secs(10);

/// What is known of a path when it is opened.
#[derive(Clone, Copy, Debug)]
pub struct PathFacts {
    /// The receiver's buffer, bytes.
    pub receiver_buffer_bytes: u64,
    /// A round trip while nothing else is sent.
    pub trip: Duration,
}

/// Shows the token to the agent's port, which `socket` is connected to, until it is answered: with the receiver's buffer
/// and the round trip of an idle path. `stop` ends that with `Interrupted`.
pub fn open_udp(socket: &UdpSocket, token: &StreamToken, stop: &Stop) -> io::Result<PathFacts> {
    let mut answer = [0u8; 64];
    let before = clock::now();
    socket.set_nonblocking(true)?;
    for tried in 1..=ADMISSION_TRIES {
        if stop.is_ended() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        // A receiver that is not there yet answers with an ICMP error on the next call: try again all the
        // same.
        let _ = socket.send(&admission(token));
        let due = before + ADMISSION_WAIT * tried;
        while let Some(length) = receive_until(socket, &mut answer, due, stop)? {
            if let Some(receiver_buffer_bytes) = read_admitted(&answer[..length], token) {
                socket.set_nonblocking(false)?;
                // Whichever try is answered: too long a trip is corrected by the first feedback, too short a one
                // would never be.
                return Ok(PathFacts { receiver_buffer_bytes, trip: clock::since(before) });
            }
        }
    }
    Err(io::Error::new(
        io::ErrorKind::TimedOut,
        "no answer to the first datagram: a firewall between the hosts may drop UDP to the agent's data \
         ports",
    ))
}

/// The next datagram until a moment; none: none came, or `stop`. Of a socket that does not block.
pub(super) fn receive_until(
    socket: &UdpSocket,
    datagram: &mut [u8],
    until: Instant,
    stop: &Stop,
) -> io::Result<Option<usize>> {
    loop {
        let left = until.saturating_duration_since(clock::now());
        if left.is_zero() || stop.is_ended() {
            return Ok(None);
        }
        if !stop.wait_readable(socket, Some(left))? {
            continue;
        }
        match socket.recv(datagram) {
            Ok(length) => return Ok(Some(length)),
            Err(error) if is_waiting(&error) => {}
            // A port that is closed says so at once.
            Err(error) if other_end_gone(&error) => drop(stop.wait(left.min(CLOSED_AGAIN))),
            Err(error) => return Err(error),
        }
    }
}

/// Waits for the token, connects the socket to who showed it, and answers. False: nobody came within 10 s, or
/// `stop`.
pub fn accept_udp(socket: &UdpSocket, token: &StreamToken, stop: &Stop) -> io::Result<bool> {
    Ok(admit(socket, token, 0, &|_| Ok(()), stop)?.is_some())
}

/// The same with the size of the receiver's buffer as the answer, where who showed it may be admitted; who that is.
pub(super) fn admit(
    socket: &UdpSocket,
    token: &StreamToken,
    buffer_bytes: u64,
    may_come: &dyn Fn(IpAddr) -> io::Result<()>,
    stop: &Stop,
) -> io::Result<Option<SocketAddr>> {
    socket.set_read_timeout(Some(STOP_CHECK))?;
    let patience = clock::now() + ADMISSION_PATIENCE;
    let mut datagram = [0u8; 2 * ADMISSION_BYTES];
    while !stop.is_ended() && clock::now() < patience {
        if !stop.wait_readable(socket, Some(patience.saturating_duration_since(clock::now())))? {
            continue;
        }
        let sender = match socket.recv_from(&mut datagram) {
            Ok((length, sender)) if is_admission(&datagram[..length], token) => sender,
            Ok(_) => continue,
            Err(error) if is_waiting(&error) || other_end_gone(&error) => continue,
            Err(error) => return Err(error),
        };
        may_come(sender.ip().to_canonical())?;
        socket.connect(sender)?;
        answer(socket, token, buffer_bytes);
        return Ok(Some(sender));
    }
    Ok(None)
}

/// The admission datagram of this token; compared in a time that does not depend on where they differ.
pub(super) fn is_admission(datagram: &[u8], token: &StreamToken) -> bool {
    let wanted = admission(token);
    datagram.len() == wanted.len() && datagram.iter().zip(&wanted).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}

/// Tells the other end that its token was seen. That may be lost: then it asks again, and whoever receives answers, too.
pub(super) fn answer(socket: &UdpSocket, token: &StreamToken, buffer_bytes: u64) {
    let _ = socket.send(&admitted(token, buffer_bytes));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn feedback_survives_the_wire(token: [u8; 32], sent: u64, nanos: u64, received: u64, datagrams: u64, drops: u64, held: u64) {
            let probe = Probe { sent_bytes: sent, nanos };
            prop_assert_eq!(Probe::read(&probe.datagram(&token), &token), Some(probe));
            let feedback = Feedback { probe, received_bytes: received, datagrams, socket_drops: drops, held_nanos: held };
            prop_assert_eq!(Feedback::read(&feedback.datagram(&token), &token), Some(feedback));
            prop_assert_eq!(read_admitted(&admitted(&token, received), &token), Some(received));
        }

        #[test]
        fn anything_else_is_payload(token: [u8; 32], other: [u8; 32], bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = (Feedback::read(&bytes, &token), read_admitted(&bytes, &token));
            prop_assume!(token != other);
            prop_assert_eq!(Probe::read(&Probe::default().datagram(&other), &token), None);
        }
    }

    const TOKEN: StreamToken = [5; 32];

    #[test]
    fn who_shows_the_token_is_admitted_and_nobody_else_hears_a_word() {
        let agent = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let address = agent.local_addr().expect("an address");
        let [stranger, client] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").expect("a socket"));
        stranger.send_to(&admission(&[6; 32]), address).expect("sent");
        stranger.send_to(&[0; 1000], address).expect("sent");
        client.connect(address).expect("connected");
        std::thread::scope(|scope| {
            let accepted = scope.spawn(|| accept_udp(&agent, &TOKEN, &Stop::new()));
            open_udp(&client, &TOKEN, &Stop::new()).expect("admitted");
            assert!(accepted.join().expect("no panic").expect("accepted"));
        });
        assert_eq!(agent.peer_addr().expect("connected"), client.local_addr().expect("an address"));
        stranger.set_nonblocking(true).expect("nonblocking");
        assert!(stranger.recv(&mut [0; 100]).is_err(), "a stranger was answered");
    }

    #[test]
    fn a_stop_ends_the_waiting() {
        let agent = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let stop = Stop::new();
        stop.end();
        assert!(!accept_udp(&agent, &TOKEN, &stop).expect("stopped"));
    }

    #[test]
    fn a_stop_ends_the_asking() {
        let silent = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let client = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        client.connect(silent.local_addr().expect("an address")).expect("connected");
        let (stop, began) = (Stop::new(), clock::now());
        std::thread::scope(|scope| {
            let asking = scope.spawn(|| open_udp(&client, &TOKEN, &stop));
            std::thread::sleep(Duration::from_millis(150));
            stop.end();
            let error = asking.join().expect("no panic").expect_err("nobody answers");
            assert_eq!(error.kind(), io::ErrorKind::Interrupted);
        });
        assert!(clock::since(began) < ADMISSION_WAIT * ADMISSION_TRIES / 2);
    }

    #[test]
    fn the_answer_is_shorter_than_the_question() {
        assert!(admitted(&TOKEN, 0).len() < admission(&TOKEN).len());
    }
}
