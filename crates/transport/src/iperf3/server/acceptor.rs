//! The acceptor: connections are pending here until they have shown a cookie, all in one thread.

use super::{AdmitsClient, Arrived, CookieShown, Iperf3Limits, Phase, SharedPhase};
use crate::admission::{Pending, PendingConnection, Turns};
use crate::iperf3::control::{COOKIE_BYTES, Cookie, Iperf3State};
use linerate_system::clock::{self, POLL_INTERVAL};
use linerate_system::lock;
use linerate_system::readiness::is_waiting;
use linerate_system::stop::Stop;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

/// A client that comes while the one before says good-bye is not yet turned away.
const GRACE: Duration = Duration::from_millis(300);
/// Who is turned away gets this long to read it: closing with its cookie unread would take the word back (RFC
/// 1122 4.2.2.13).
const FAREWELL: Duration = Duration::from_millis(500);
/// Accepted at once, so that a flood does not keep the waiting ones from being read.
const AT_ONCE: usize = 64;
/// No file descriptors are left: some are soon given back.
const EXHAUSTED: Duration = Duration::from_millis(50);

/// A connection whose cookie is read.
struct Opening {
    stream: TcpStream,
    from: SocketAddr,
    cookie: [u8; COOKIE_BYTES],
    filled: usize,
    denied: Option<Instant>,
}

/// What is done with one.
enum Decision {
    Wait,
    Close,
    Serve(Cookie),
    /// It is a stream of the test with this cookie.
    Join(Cookie),
}

pub(super) struct Acceptor<'a> {
    listeners: &'a [TcpListener],
    admits: &'a AdmitsClient,
    phase: &'a SharedPhase,
    controls: SyncSender<CookieShown>,
    streams: SyncSender<Arrived>,
    pending: Pending<Opening>,
    turns: Turns,
}

impl<'a> Acceptor<'a> {
    pub(crate) fn new(
        (listeners, admits): (&'a [TcpListener], &'a AdmitsClient),
        limits: &Iperf3Limits,
        phase: &'a SharedPhase,
        controls: SyncSender<CookieShown>,
        streams: SyncSender<Arrived>,
    ) -> Self {
        Acceptor {
            listeners,
            admits,
            phase,
            controls,
            streams,
            pending: Pending::new(limits.unknown_connections, limits.message),
            turns: Turns::default(),
        }
    }

    /// Until the server ends; without a pending connection it sleeps until a client connects.
    pub(crate) fn watch(mut self, stop: &Stop, over: &Stop) {
        while !stop.is_ended() && !over.is_ended() {
            let listening = self.listeners.iter().map(AsFd::as_fd);
            // A full cookie that waits for its answer is not read on: it would be ready all the time.
            let readable = |opening: &&Opening| opening.denied.is_some() || opening.filled < COOKIE_BYTES;
            let waiting = self.pending.iter().filter(readable).map(|opening| opening.stream.as_fd());
            let sockets: Vec<BorrowedFd<'_>> = listening.chain(waiting).chain(over.descriptor()).collect();
            let timeout = (!self.pending.is_empty() || over.descriptor().is_none()).then_some(POLL_INTERVAL);
            let Ok(ready) = stop.wait_any_readable(&sockets, timeout) else {
                stop.wait(EXHAUSTED);
                continue;
            };
            for (listener, ready) in self.listeners.iter().zip(ready) {
                if ready {
                    accept(listener, self.admits, &mut self.pending, stop);
                }
            }
            self.serve_pending();
        }
    }

    fn serve_pending(&mut self) {
        for mut entry in self.pending.take_all() {
            match self.decide(&mut entry) {
                Decision::Wait => self.pending.keep(entry),
                Decision::Close => {}
                // The session's deadlines end what is not taken.
                Decision::Join(cookie) => drop(self.streams.try_send((cookie, entry.connection.stream))),
                Decision::Serve(cookie) => {
                    let Opening { stream, from, .. } = entry.connection;
                    drop(self.controls.try_send(CookieShown { stream, client: from, cookie }));
                }
            }
        }
    }

    fn decide(&mut self, entry: &mut PendingConnection<Opening>) -> Decision {
        let opening = &mut entry.connection;
        if let Some(denied) = opening.denied {
            let mut rest = [0; 512];
            let gone = match opening.stream.read(&mut rest) {
                Ok(0) => true,
                Ok(_) => false,
                Err(error) => !is_waiting(&error),
            };
            return if gone || clock::since(denied) > FAREWELL { Decision::Close } else { Decision::Wait };
        }
        if opening.filled < COOKIE_BYTES {
            match opening.stream.read(&mut opening.cookie[opening.filled..]) {
                Ok(0) => return Decision::Close,
                Ok(count) => opening.filled += count,
                Err(error) if is_waiting(&error) => {}
                Err(_) => return Decision::Close,
            }
            if opening.filled < COOKIE_BYTES {
                return if clock::now() > entry.deadline { Decision::Close } else { Decision::Wait };
            }
        }
        let Some(cookie) = Cookie::parse(opening.cookie) else { return Decision::Close };
        self.place(entry, cookie)
    }

    /// A connection that showed its cookie.
    fn place(&mut self, entry: &mut PendingConnection<Opening>, cookie: Cookie) -> Decision {
        let now = clock::now();
        let mut phase = lock(self.phase);
        match *phase {
            Phase::Idle if self.turns.may(entry.origin, now) => {
                *phase = Phase::Busy;
                self.turns.serve(entry.origin);
                return Decision::Serve(cookie);
            }
            Phase::Opening(expected) if expected == cookie => return Decision::Join(cookie),
            _ => self.turns.came(entry.origin, now),
        }
        drop(phase);
        if clock::since(entry.since) > GRACE {
            let opening = &mut entry.connection;
            let _ = opening.stream.write(&[Iperf3State::AccessDenied.byte()]);
            let _ = opening.stream.shutdown(std::net::Shutdown::Write);
            tracing::info!(from = %opening.from, "iperf3 client turned away: a test is running");
            opening.denied = Some(now);
        }
        Decision::Wait
    }
}

/// Accepts what waits in the kernel. A client shows its cookie at once: who waited longest is not a client.
fn accept(listener: &TcpListener, admits: &AdmitsClient, pending: &mut Pending<Opening>, stop: &Stop) {
    for _ in 0..AT_ONCE {
        let (stream, from) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(error) if is_waiting(&error) => return,
            Err(error) => {
                // A connection that was reset while it waited costs nothing; without descriptors, all would
                // fail at once.
                if error.kind() != std::io::ErrorKind::ConnectionAborted {
                    stop.wait(EXHAUSTED);
                }
                return;
            }
        };
        tracing::debug!(%from, "iperf3 connection");
        if !admits(from.ip().to_canonical()) || stream.set_nonblocking(true).is_err() {
            continue;
        }
        drop(pending.make_room());
        let cookie = [0; COOKIE_BYTES];
        pending.add(from.ip(), Opening { stream, from, cookie, filled: 0, denied: None });
    }
}
