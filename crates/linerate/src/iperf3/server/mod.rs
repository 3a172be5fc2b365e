//! iperf3's server: `iperf3 -c` of any host finds a linerate here. One test at a time, as iperf3 does; others are told that it is busy.
//!
//! The protocol knows no key: who can connect can test. What keeps that harmless: every wait and every number is bounded ([`Limits`]);
//! strangers hold a place in a small room and none of the server's threads; UDP goes only to the address that the client's own control
//! connection comes from, so that a forged sender gains nothing (iperf3 answers any address); and no answer is larger than its question
//! until then. It cannot be kept from sending as fast as it can to a client that asks for that: `Limits::bits_per_second` bounds it.

mod admit;
mod buffers;
mod door;
mod session;
mod turns;

use super::figures::{Outcome, Progress};
use super::parameters::{MOST_STREAMS, Parameters};
use super::state::Cookie;
use crate::failure::Failure;
use door::Door;
use session::Session;
use socket2::{Domain, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A flag is looked at this often.
const LOOK: Duration = Duration::from_millis(100);
/// Data connections that wait for the session to take them.
const WAITING_STREAMS: usize = 256;
/// Connections that the kernel holds for us.
const BACKLOG: i32 = 128;

/// What a client may ask for, and how long anything is waited for.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Longest test, seconds; also of one that ends by bytes.
    pub seconds: f64,
    /// Most streams each way.
    pub streams: u32,
    /// Of all streams together; none: as fast as it goes. Over TCP the server reads no faster; a client that sends more datagrams is ended.
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

impl Default for Limits {
    fn default() -> Self {
        Limits {
            seconds: 3600.0,
            streams: MOST_STREAMS,
            bits_per_second: None,
            buffer_bytes: 256 << 20,
            unknown_connections: 64,
            message: Duration::from_secs(5),
            opening: Duration::from_secs(10),
            idle: Duration::from_secs(30),
        }
    }
}

/// What a listener hears.
#[derive(Debug)]
pub enum Event {
    /// A client's test begins.
    Started { client: SocketAddr, parameters: Box<Asked> },
    /// An interval is over.
    Progress(Progress),
    /// The test is over, wholly or in part: `Outcome::error` tells.
    Ended(Box<Outcome>),
    /// A client got no test.
    Refused { client: SocketAddr, why: String },
}

/// What a client asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    pub test: super::Test,
    pub client_version: Option<String>,
}

/// What the room at the door and the session know of each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    Busy,
    /// The client with this cookie opens its streams.
    Opening(Cookie),
}

type SharedPhase = Mutex<Phase>;

fn lock(phase: &SharedPhase) -> MutexGuard<'_, Phase> {
    phase.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A client that showed its cookie.
struct Newcomer {
    stream: TcpStream,
    client: SocketAddr,
    cookie: Cookie,
}

/// A data connection, and the test that it says it is of.
type Arrived = (Cookie, TcpStream);

/// Ends the room at the door with the server, be it by a panic.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Says whose connections are taken.
pub type Admits = Arc<dyn Fn(IpAddr) -> bool + Send + Sync>;

/// The server, listening.
pub struct Server {
    listeners: Vec<TcpListener>,
    admits: Admits,
}

impl Server {
    /// Listens on the addresses; none: on every address, port 5201.
    pub fn bind(addresses: &[SocketAddr]) -> Result<Server, Failure> {
        let every = [SocketAddr::from((Ipv6Addr::UNSPECIFIED, super::DEFAULT_PORT))];
        let every_v4 = [SocketAddr::from(([0, 0, 0, 0], super::DEFAULT_PORT))];
        if addresses.is_empty() {
            // A kernel without IPv6 has no such address.
            return Server::bind(&every).or_else(|_| Server::bind(&every_v4));
        }
        let listeners = addresses.iter().map(|address| {
            listen(*address, addresses).map_err(|error| {
                let cause = match error.kind() {
                    io::ErrorKind::AddrInUse => {
                        "the port is in use: does an iperf3 server already run here? Choose another"
                    }
                    io::ErrorKind::AddrNotAvailable => "no interface of this host has this address",
                    io::ErrorKind::PermissionDenied => "ports below 1024 need root",
                    _ => "the kernel refuses",
                };
                Failure::Lacks(format!("the iperf3 server cannot listen on {address}: {cause} ({error})"))
            })
        });
        Ok(Server { listeners: listeners.collect::<Result<_, _>>()?, admits: Arc::new(|_| true) })
    }

    /// Takes connections of these hosts only; others are closed without a word.
    pub fn admitting(mut self, admits: Admits) -> Server {
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
        stop: &AtomicBool,
        limits: &Limits,
        hear: &mut dyn FnMut(&Event),
    ) -> Result<(), Failure> {
        let phase = Mutex::new(Phase::Idle);
        let (controls, newcomers) = sync_channel(1);
        let (data, streams) = sync_channel(WAITING_STREAMS);
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _over = Over(&over);
            let door = Door::new((&self.listeners, &self.admits), limits, &phase, controls, data);
            let watched = std::thread::Builder::new()
                .name("iperf3-door".into())
                .spawn_scoped(scope, || door.watch(&over));
            watched.map_err(|error| Failure::Lacks(format!("the iperf3 server cannot start: {error}")))?;
            while !stop.load(Ordering::Relaxed) {
                let newcomer = match newcomers.recv_timeout(LOOK) {
                    Ok(newcomer) => newcomer,
                    Err(RecvTimeoutError::Timeout) => continue,
                    Err(RecvTimeoutError::Disconnected) => break,
                };
                Session::serve(newcomer, limits, &phase, &streams, stop, hear);
                *lock(&phase) = Phase::Idle;
                // Of a client that is gone.
                while streams.try_recv().is_ok() {}
            }
            Ok(())
        })
    }
}

/// `all`: where every address of both kinds is named, each listener takes its own kind, or the second would find its port in use.
fn listen(address: SocketAddr, all: &[SocketAddr]) -> io::Result<TcpListener> {
    let every = |ip: IpAddr| all.contains(&SocketAddr::new(ip, address.port()));
    let both = every(Ipv6Addr::UNSPECIFIED.into()) && every(Ipv4Addr::UNSPECIFIED.into());
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(both)?;
    }
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// What the client asked for as a test of ours, seen from the client.
fn asked(parameters: &Parameters) -> Asked {
    let test = super::Test {
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
        ..super::Test::default()
    };
    Asked { test, client_version: parameters.client_version.clone() }
}
