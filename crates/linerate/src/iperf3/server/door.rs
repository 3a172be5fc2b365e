//! The room at the door: connections wait here until they have shown a cookie, in one thread, few at a time and not for long.

use super::turns::Turns;
use super::{Admits, Arrived, Limits, Newcomer, Phase, SharedPhase, lock};
use crate::flow::origin::{most_crowding, origin};
use crate::iperf3::control::later;
use crate::iperf3::state::{COOKIE_BYTES, Cookie, State};
use linerate_system::readiness::wait_readable;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

/// A flag is looked at this often; who waits for its answer, too.
const LOOK: Duration = Duration::from_millis(50);
/// A client that comes while the one before says good-bye is not yet turned away.
const GRACE: Duration = Duration::from_millis(300);
/// Who is turned away gets this long to read it: closing with its cookie unread would take the word back (RFC 1122 4.2.2.13).
const FAREWELL: Duration = Duration::from_millis(500);
/// Accepted at once, so that a flood does not keep the waiting ones from being read.
const AT_ONCE: usize = 64;
/// No file descriptors are left: some are soon given back.
const EXHAUSTED: Duration = Duration::from_millis(50);

/// One connection that waits.
struct Stranger {
    stream: TcpStream,
    from: SocketAddr,
    origin: IpAddr,
    since: Instant,
    cookie: [u8; COOKIE_BYTES],
    filled: usize,
    denied: Option<Instant>,
}

/// What becomes of one.
enum Fate {
    Waits,
    Gone,
    Client(Cookie),
    Stream(Cookie),
}

pub(super) struct Door<'a> {
    listeners: &'a [TcpListener],
    admits: &'a Admits,
    limits: &'a Limits,
    phase: &'a SharedPhase,
    controls: SyncSender<Newcomer>,
    streams: SyncSender<Arrived>,
    room: Vec<Stranger>,
    turns: Turns,
}

impl<'a> Door<'a> {
    pub fn new(
        (listeners, admits): (&'a [TcpListener], &'a Admits),
        limits: &'a Limits,
        phase: &'a SharedPhase,
        controls: SyncSender<Newcomer>,
        streams: SyncSender<Arrived>,
    ) -> Self {
        Door {
            listeners,
            admits,
            limits,
            phase,
            controls,
            streams,
            room: Vec::new(),
            turns: Turns::default(),
        }
    }

    /// Until the server ends.
    pub fn watch(mut self, over: &AtomicBool) {
        while !over.load(Ordering::Relaxed) {
            let listening = self.listeners.iter().map(AsFd::as_fd);
            // A full cookie that waits for its answer is not read on: it would be ready all the time.
            let readable = |stranger: &&Stranger| stranger.denied.is_some() || stranger.filled < COOKIE_BYTES;
            let waiting = self.room.iter().filter(readable).map(|stranger| stranger.stream.as_fd());
            let sockets: Vec<BorrowedFd<'_>> = listening.chain(waiting).collect();
            let Ok(ready) = wait_readable(&sockets, LOOK) else {
                std::thread::sleep(EXHAUSTED);
                continue;
            };
            for (listener, ready) in self.listeners.iter().zip(ready) {
                if ready {
                    accept(listener, self.admits, &mut self.room, self.limits.unknown_connections.max(1));
                }
            }
            self.serve_room();
        }
    }

    fn serve_room(&mut self) {
        let room = std::mem::take(&mut self.room);
        for mut stranger in room {
            match self.fate(&mut stranger) {
                Fate::Waits => self.room.push(stranger),
                Fate::Gone => {}
                // The session's deadlines end what is not taken.
                Fate::Stream(cookie) => drop(self.streams.try_send((cookie, stranger.stream))),
                Fate::Client(cookie) => {
                    let newcomer = Newcomer { stream: stranger.stream, client: stranger.from, cookie };
                    drop(self.controls.try_send(newcomer));
                }
            }
        }
    }

    fn fate(&mut self, stranger: &mut Stranger) -> Fate {
        if let Some(denied) = stranger.denied {
            let mut rest = [0; 512];
            let gone = match stranger.stream.read(&mut rest) {
                Ok(0) => true,
                Ok(_) => false,
                Err(error) => !later(&error),
            };
            return if gone || denied.elapsed() > FAREWELL { Fate::Gone } else { Fate::Waits };
        }
        if stranger.filled < COOKIE_BYTES {
            match stranger.stream.read(&mut stranger.cookie[stranger.filled..]) {
                Ok(0) => return Fate::Gone,
                Ok(count) => stranger.filled += count,
                Err(error) if later(&error) => {}
                Err(_) => return Fate::Gone,
            }
            if stranger.filled < COOKIE_BYTES {
                let late = stranger.since.elapsed() > self.limits.message;
                return if late { Fate::Gone } else { Fate::Waits };
            }
        }
        let Some(cookie) = Cookie::parse(stranger.cookie) else { return Fate::Gone };
        self.place(stranger, cookie)
    }

    /// A connection that showed its cookie.
    fn place(&mut self, stranger: &mut Stranger, cookie: Cookie) -> Fate {
        let now = Instant::now();
        let mut phase = lock(self.phase);
        match *phase {
            Phase::Idle if self.turns.may(stranger.origin, now) => {
                *phase = Phase::Busy;
                self.turns.serve(stranger.origin);
                return Fate::Client(cookie);
            }
            Phase::Opening(expected) if expected == cookie => return Fate::Stream(cookie),
            _ => self.turns.came(stranger.origin, now),
        }
        drop(phase);
        if stranger.since.elapsed() > GRACE {
            let _ = stranger.stream.write(&[State::AccessDenied.byte()]);
            let _ = stranger.stream.shutdown(std::net::Shutdown::Write);
            stranger.denied = Some(now);
        }
        Fate::Waits
    }
}

/// Takes in who knocks. Where the room is full, who has waited longest of the largest crowd goes: a client shows its
/// cookie at once, and a flood from one network drives out itself.
fn accept(listener: &TcpListener, admits: &Admits, room: &mut Vec<Stranger>, most: usize) {
    for _ in 0..AT_ONCE {
        let (stream, from) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(error) if later(&error) => return,
            Err(error) => {
                // A connection that was reset while it waited costs nothing; without descriptors, all would fail at once.
                if error.kind() != std::io::ErrorKind::ConnectionAborted {
                    std::thread::sleep(EXHAUSTED);
                }
                return;
            }
        };
        if !admits(from.ip().to_canonical()) || stream.set_nonblocking(true).is_err() {
            continue;
        }
        if room.len() >= most {
            let origins: Vec<IpAddr> = room.iter().map(|stranger| stranger.origin).collect();
            room.remove(most_crowding(&origins).unwrap_or(0));
        }
        let (since, cookie) = (Instant::now(), [0; COOKIE_BYTES]);
        room.push(Stranger {
            stream,
            from,
            origin: origin(from.ip()),
            since,
            cookie,
            filled: 0,
            denied: None,
        });
    }
}
