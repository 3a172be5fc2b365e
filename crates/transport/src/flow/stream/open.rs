//! Bringing the two ends of a UDP stream together: the client shows the token until it is answered, the agent
//! waits for it.
//!
//! Nothing is sent to an address before it showed the token, and the answer is shorter than the question: who
//! forges a sender's address makes nobody flood it. Also when the agent is to send: it begins only after the
//! client's own `Ready` (`udp_send`).

use super::super::wire::{self, ADMISSION_BYTES, StreamToken};
use super::{STOP_CHECK, is_waiting, other_end_gone};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Showing the token is tried again after this long, and given up after so many tries.
const ADMISSION_WAIT: Duration = Duration::from_millis(100);
const ADMISSION_TRIES: u32 = 50;
/// A token that nobody shows is forgotten.
const ADMISSION_PATIENCE: Duration = Duration::from_secs(10);

/// Shows the token to the agent's port, which `socket` is connected to, until it is answered. `stop` ends
/// that with `Interrupted`.
pub fn open_udp(socket: &UdpSocket, token: &StreamToken, stop: &AtomicBool) -> io::Result<()> {
    let mut answer = [0u8; 64];
    let before = Instant::now();
    socket.set_read_timeout(Some(ADMISSION_WAIT))?;
    for tried in 1..=ADMISSION_TRIES {
        if stop.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        // A receiver that is not there yet answers with an ICMP error on the next call: try again all the
        // same.
        let _ = socket.send(&wire::admission(token));
        let due = before + ADMISSION_WAIT * tried;
        loop {
            match socket.recv(&mut answer) {
                Ok(length) if wire::read_admitted(&answer[..length], token).is_some() => return Ok(()),
                Ok(_) => {}
                Err(error) if is_waiting(&error) || other_end_gone(&error) => break,
                Err(error) => return Err(error),
            }
            if Instant::now() >= due {
                break;
            }
        }
        // That error comes at once: the next try is due when a silent one would have been.
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    Err(io::Error::new(
        io::ErrorKind::TimedOut,
        "no answer to the first datagram: a firewall between the hosts may drop UDP to the agent's data \
         ports",
    ))
}

/// Waits for the token, connects the socket to who showed it, and answers. False: nobody came within 10 s, or
/// `stop`.
pub fn accept_udp(socket: &UdpSocket, token: &StreamToken, stop: &AtomicBool) -> io::Result<bool> {
    socket.set_read_timeout(Some(STOP_CHECK))?;
    let patience = Instant::now() + ADMISSION_PATIENCE;
    let mut datagram = [0u8; 2 * ADMISSION_BYTES];
    while !stop.load(Ordering::Relaxed) && Instant::now() < patience {
        let sender: SocketAddr = match socket.recv_from(&mut datagram) {
            Ok((length, sender)) if is_admission(&datagram[..length], token) => sender,
            Ok(_) => continue,
            Err(error) if is_waiting(&error) || other_end_gone(&error) => continue,
            Err(error) => return Err(error),
        };
        socket.connect(sender)?;
        answer(socket, token);
        return Ok(true);
    }
    Ok(false)
}

/// The admission datagram of this token; compared in a time that does not depend on where they differ.
pub(super) fn is_admission(datagram: &[u8], token: &StreamToken) -> bool {
    let wanted = wire::admission(token);
    datagram.len() == wanted.len() && datagram.iter().zip(&wanted).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}

/// Tells the other end that its token was seen; that may be lost, then it asks again (`udp_receive` and
/// `udp_send` answer, too).
pub(super) fn answer(socket: &UdpSocket, token: &StreamToken) {
    let _ = socket.send(&wire::admitted(token, 0));
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: StreamToken = [5; 32];

    #[test]
    fn who_shows_the_token_is_admitted_and_nobody_else_hears_a_word() {
        let agent = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let address = agent.local_addr().expect("an address");
        let [stranger, client] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").expect("a socket"));
        stranger.send_to(&wire::admission(&[6; 32]), address).expect("sent");
        stranger.send_to(&[0; 1000], address).expect("sent");
        client.connect(address).expect("connected");
        std::thread::scope(|scope| {
            let accepted = scope.spawn(|| accept_udp(&agent, &TOKEN, &AtomicBool::new(false)));
            open_udp(&client, &TOKEN, &AtomicBool::new(false)).expect("admitted");
            assert!(accepted.join().expect("no panic").expect("accepted"));
        });
        assert_eq!(agent.peer_addr().expect("connected"), client.local_addr().expect("an address"));
        stranger.set_nonblocking(true).expect("nonblocking");
        assert!(stranger.recv(&mut [0; 100]).is_err(), "a stranger was answered");
    }

    #[test]
    fn a_stop_ends_the_waiting() {
        let agent = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        assert!(!accept_udp(&agent, &TOKEN, &AtomicBool::new(true)).expect("stopped"));
    }

    #[test]
    fn a_stop_ends_the_asking() {
        let silent = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let client = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        client.connect(silent.local_addr().expect("an address")).expect("connected");
        let (stop, began) = (AtomicBool::new(false), Instant::now());
        std::thread::scope(|scope| {
            let asking = scope.spawn(|| open_udp(&client, &TOKEN, &stop));
            std::thread::sleep(Duration::from_millis(150));
            stop.store(true, Ordering::Relaxed);
            let error = asking.join().expect("no panic").expect_err("nobody answers");
            assert_eq!(error.kind(), io::ErrorKind::Interrupted);
        });
        assert!(began.elapsed() < ADMISSION_WAIT * ADMISSION_TRIES / 2, "{:?}", began.elapsed());
    }

    #[test]
    fn the_answer_is_shorter_than_the_question() {
        assert!(wire::admitted(&TOKEN, 0).len() < wire::admission(&TOKEN).len());
    }
}
