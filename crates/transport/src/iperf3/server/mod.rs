//! iperf3's server: `iperf3 -c` of any host finds a linerate here. One test at a time, as iperf3 does; others
//! are told that it is busy.
//!
//! The protocol knows no key: who can connect can test. What keeps that harmless: every wait and every number
//! is bounded ([`Limits`]); who showed no cookie yet is on a short list and none of the server's threads; UDP
//! goes only to the address that the client's own control connection comes from, so that a forged sender
//! gains nothing (iperf3 answers any address); and no answer is larger than its question until then. It
//! cannot be kept from sending as fast as it can to a client that asks for that: `Limits::bits_per_second`
//! bounds it.

mod acceptor;
mod admit;
mod session;

use super::control::Cookie;
use super::figures::{IntervalProgress, TestOutcome};
use super::parameters::{MOST_STREAMS, Parameters};
use crate::admission::{self, PENDING_CONNECTIONS};
use acceptor::Acceptor;
use linerate_facts::failure::Failure;
use linerate_system::lock;
use linerate_system::stop::Stop;
use session::ServerTest;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Data connections that wait for the session to take them.
const WAITING_STREAMS: usize = 256;

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

/// Who may have the port, and what to do then.
const IN_USE: &str = "does an iperf3 server already run here? Stop it, or leave out --iperf3";

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
