//! iperf3's server: `iperf3 -c` of any host finds a linerate here. One test at a time, as iperf3 does; others
//! are told that it is busy. Connections are pending at the acceptor until they have shown a cookie, all in one thread.
//!
//! The protocol knows no key: who can connect can test. What keeps that harmless: every wait and every number
//! is bounded ([`Iperf3Limits`]); who showed no cookie yet is on a short list and none of the server's threads; UDP
//! goes only to the address that the client's own control connection comes from, so that a forged sender
//! gains nothing (iperf3 answers any address); and no answer is larger than its question until then. It
//! cannot be kept from sending as fast as it can to a client that asks for that:
//! `Iperf3Limits::bits_per_second` bounds it.

mod admit;
mod session;

use super::control::{COOKIE_BYTES, Cookie, Iperf3State};
use super::figures::{IntervalProgress, TestOutcome};
use super::parameters::{MOST_STREAMS, Parameters};
use crate::admission::{self, PENDING_CONNECTIONS, Pending, PendingConnection, Turns};
use linerate_facts::failure::Failure;
use linerate_system::clock::{self, POLL_INTERVAL};
use linerate_system::lock;
use linerate_system::readiness::is_waiting;
use linerate_system::stop::Stop;
use session::ServerTest;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Data connections that wait for the session to take them.
const WAITING_STREAMS: usize = 256;

/// Who may have the port, and what to do then.
const IN_USE: &str = "does an iperf3 server already run here? Stop it, or leave out --iperf3";

/// A client that comes while the one before says good-bye is not yet turned away.
const GRACE: Duration = Duration::from_millis(300);
/// Who is turned away gets this long to read it: closing with its cookie unread would take the word back (RFC
/// 1122 4.2.2.13).
const FAREWELL: Duration = Duration::from_millis(500);
/// Accepted at once, so that a flood does not keep the waiting ones from being read.
const AT_ONCE: usize = 64;
/// No file descriptors are left: some are soon given back.
const EXHAUSTED: Duration = Duration::from_millis(50);

/// What a client may ask for, and how long anything is waited for.
#[derive(Clone, Copy, Debug)]
pub struct Iperf3Limits {
    /// Longest test, seconds; also of one that ends by bytes.
    pub seconds: f64,
    /// Most streams each way.
    pub streams: u32,
    /// Of all streams together; none: as fast as it goes. Over TCP the server reads no faster; a client that
    /// sends more datagrams is ended.
    pub bits_per_second: Option<u64>,
    /// Socket buffers of all streams together.
    pub buffer_bytes: u64,
    /// Connections that did not yet say who they are.
    pub unknown_connections: usize,
    /// For a cookie, and for each message.
    pub message: Duration,
    /// For a client to open all of its streams.
    pub opening: Duration,
    /// For streams that move nothing.
    pub idle: Duration,
}

impl Default for Iperf3Limits {
    fn default() -> Self {
        Iperf3Limits {
            seconds: 3600.0,
            streams: MOST_STREAMS,
            bits_per_second: None,
            buffer_bytes: 256 << 20,
            unknown_connections: PENDING_CONNECTIONS,
            message: Duration::from_secs(5),
            opening: Duration::from_secs(10),
            idle: Duration::from_secs(30),
        }
    }
}

/// What a listener hears.
#[derive(Debug)]
pub enum ServerEvent {
    /// A client's test begins.
    Started { client: SocketAddr, parameters: Box<TestRequest> },
    /// An interval is over.
    Progress(IntervalProgress),
    /// The test is over, wholly or in part: `Outcome::error` tells.
    Ended(Box<TestOutcome>),
    /// A client got no test.
    Refused { client: SocketAddr, why: String },
}

/// What a client asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct TestRequest {
    pub test: super::Iperf3Test,
    pub client_version: Option<String>,
}

/// What acceptor and session know of each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    Busy,
    /// The client with this cookie opens its streams.
    Opening(Cookie),
}

type SharedPhase = Mutex<Phase>;

/// A client that showed its cookie.
struct CookieShown {
    stream: TcpStream,
    client: SocketAddr,
    cookie: Cookie,
}

/// A data connection, and the test that it says it is of.
type Arrived = (Cookie, TcpStream);

fn cannot_start(error: io::Error) -> Failure {
    Failure::Lacks(format!("the iperf3 server cannot start: {error}"))
}

/// Says whose connections are taken.
pub type AdmitsClient = Arc<dyn Fn(IpAddr) -> bool + Send + Sync>;

/// The server, listening.
pub struct Iperf3Server {
    listeners: Vec<TcpListener>,
    admits: AdmitsClient,
}

impl Iperf3Server {
    /// Listens on the addresses; none: on every address, port 5201.
    pub fn bind(addresses: &[SocketAddr]) -> Result<Iperf3Server, Failure> {
        let listeners = admission::listen_or_at(addresses, super::DEFAULT_PORT);
        let listeners = listeners.map_err(|error| error.advise("--listen", IN_USE))?;
        Ok(Iperf3Server { listeners, admits: Arc::new(|_| true) })
    }

    /// Takes connections of these hosts only; others are closed without a word.
    pub fn admitting(mut self, admits: AdmitsClient) -> Iperf3Server {
        self.admits = admits;
        self
    }

    /// Where it listens, with the ports that the kernel chose for port 0.
    pub fn local_addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect()
    }

    /// Serves clients, one after the other, until `stop`.
    pub fn serve(
        &self,
        stop: &Stop,
        limits: &Iperf3Limits,
        hear: &mut dyn FnMut(&ServerEvent),
    ) -> Result<(), Failure> {
        let phase = Mutex::new(Phase::Idle);
        let (controls, clients) = sync_channel(1);
        let (data, streams) = sync_channel(WAITING_STREAMS);
        let over = Stop::new();
        std::thread::scope(|scope| {
            // Ends the acceptor with the server, even by a panic.
            let _over = over.ends_at_drop();
            let acceptor = Acceptor::new((&self.listeners, &self.admits), limits, &phase, controls, data);
            let watched = std::thread::Builder::new()
                .name("iperf3-acceptor".into())
                .spawn_scoped(scope, || acceptor.watch(stop, &over));
            watched.map_err(cannot_start)?;
            // Until the acceptor has ended, which it does with `stop`.
            for client in clients {
                if stop.is_ended() {
                    break;
                }
                ServerTest::serve(client, limits, &phase, &streams, stop, hear);
                *lock(&phase) = Phase::Idle;
                // Of a client that is gone.
                while streams.try_recv().is_ok() {}
            }
            Ok(())
        })
    }
}

/// What the client asked for as a test of our own, seen from the client.
fn test_request(parameters: &Parameters) -> TestRequest {
    let test = super::Iperf3Test {
        protocol: parameters.protocol,
        direction: parameters.direction,
        parallel: parameters.parallel,
        seconds: parameters.seconds,
        omit_seconds: parameters.omit_seconds,
        bytes: (parameters.bytes > 0).then_some(parameters.bytes),
        block_bytes: parameters.block_bytes,
        window_bytes: parameters.window_bytes,
        bits_per_second: (parameters.bits_per_second > 0).then_some(parameters.bits_per_second),
        congestion_control: parameters.congestion_control.clone(),
        ..super::Iperf3Test::default()
    };
    TestRequest { test, client_version: parameters.client_version.clone() }
}

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

struct Acceptor<'a> {
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
