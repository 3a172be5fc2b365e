//! The agent: listens, tells control from data, lets in who shows the key or a token, and bounds everything.

use super::admission::{Tokens, Visit, WaitingRoom};
use super::clients::Clients;
use super::host::InterfaceOf;
use super::janitor::{self, Watched};
use super::key::Key;
use super::limits::Settings;
use super::places::Places;
use super::protocol::Request;
use super::secret::{SECRET_BYTES, random, to_hex};
use super::wire::{CONTROL_MAGIC, DATA_MAGIC, Timed, prepare_control};
use super::{DEFAULT_PORT, noise, session, tcp};
use crate::failure::Failure;
use crate::flow::receive::{Received, Terms, receive_tcp, receive_udp};
use crate::flow::stream::{self as engine, Content, StreamCounters, StreamSocket, StreamSpec};
use socket2::{Domain, Socket, Type};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often a waiting thread looks whether it shall stop.
const TICK: Duration = Duration::from_millis(200);

/// All tests together may have so many times the streams of one.
const STREAMS_OF_ALL: usize = 4;

/// What to do with an admitted data stream; the default is what `flow` does.
#[derive(Clone, Copy)]
pub struct Receivers {
    /// Receives a TCP stream until its end or `stop`: stream, terms, counters, stop.
    pub tcp: fn(TcpStream, &Terms, &Received, &AtomicBool) -> io::Result<()>,
    /// Admits the sender that shows the token, then receives until `stop`: socket, token, terms, counters, stop.
    pub udp: fn(UdpSocket, &[u8; SECRET_BYTES], &Terms, &Received, &AtomicBool) -> io::Result<()>,
    /// This end of an admitted stream: what to do, its socket, counters, stop.
    pub stream: fn(&StreamSpec, StreamSocket, &StreamCounters, &AtomicBool) -> io::Result<()>,
}

impl Default for Receivers {
    fn default() -> Self {
        Receivers { tcp: receive_tcp, udp: receive_udp, stream }
    }
}

/// An agent sends what it makes in memory: never a file of its host.
fn stream(
    spec: &StreamSpec,
    socket: StreamSocket,
    counters: &StreamCounters,
    stop: &AtomicBool,
) -> io::Result<()> {
    if let Some(core) = spec.core {
        // A core that is not there, or not ours: run anywhere rather than not at all.
        let _ = linerate_system::affinity::pin_to(core);
    }
    engine::run(spec, socket, Content::Memory, counters, stop)
}

/// What all threads of an agent share.
pub(super) struct Shared {
    key: Key,
    pub receivers: Receivers,
    pub interface_of: InterfaceOf,
    /// Differs between any two starts.
    pub instance: String,
    pub settings: Settings,
    pub tokens: Tokens,
    pub sessions: Arc<Places>,
    pub tests: Arc<Places>,
    pub clients: Arc<Clients>,
    pub lanes: Arc<Places>,
    pub watched: Watched,
    room: Arc<WaitingRoom>,
    stopping: AtomicBool,
}

impl Shared {
    /// The agent ends: every thread shall.
    pub fn stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}

/// The server of `linerate agent`.
pub struct Agent {
    listeners: Vec<TcpListener>,
    shared: Arc<Shared>,
}

impl Agent {
    /// Listens on the addresses; none: on every address, port 7411.
    pub fn bind(
        listen: &[SocketAddr],
        key: Key,
        receivers: Receivers,
        interface_of: InterfaceOf,
    ) -> Result<Agent, Failure> {
        Agent::bind_with(listen, key, receivers, interface_of, Settings::default())
    }

    /// As [`Agent::bind`], with other bounds.
    pub fn bind_with(
        listen: &[SocketAddr],
        key: Key,
        receivers: Receivers,
        interface_of: InterfaceOf,
        settings: Settings,
    ) -> Result<Agent, Failure> {
        let every = [SocketAddr::from((Ipv6Addr::UNSPECIFIED, DEFAULT_PORT))];
        let wanted = if listen.is_empty() { &every } else { listen };
        let listeners = wanted.iter().map(|address| listen_on(*address, wanted)).collect::<Result<_, _>>()?;
        let instance = random::<8>().map_err(|error| {
            Failure::Lacks(format!("the agent cannot start: /dev/urandom cannot be read: {error}"))
        })?;
        let limits = settings.limits;
        let shared = Shared {
            key,
            receivers,
            interface_of,
            instance: to_hex(&instance),
            settings,
            tokens: Tokens::default(),
            sessions: Places::shared(limits.sessions),
            tests: Places::shared(limits.tests),
            clients: Clients::new(limits.client),
            // What one client takes of them is bounded by `ClientLimits::streams`.
            lanes: Places::open(limits.lanes.saturating_mul(STREAMS_OF_ALL)),
            watched: Watched::default(),
            room: Arc::new(WaitingRoom::new(limits.unknown_connections)),
            stopping: AtomicBool::new(false),
        };
        Ok(Agent { listeners, shared: Arc::new(shared) })
    }

    /// Where it listens, with the ports that the kernel chose for port 0.
    pub fn local_addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect()
    }

    /// Sessions, receiving lanes and unknown connections that there are now.
    pub fn load(&self) -> (usize, usize, usize) {
        (self.shared.sessions.taken(), self.shared.lanes.taken(), self.shared.room.len())
    }

    /// Serves until `stop`; then ends every session and lane within about three seconds.
    pub fn serve(&self, stop: &AtomicBool) {
        self.shared.stopping.store(false, Ordering::Release);
        std::thread::scope(|scope| {
            for listener in &self.listeners {
                scope.spawn(|| accept(listener, &self.shared, stop));
            }
            scope.spawn(|| janitor::watch(&self.shared, stop));
        });
        self.shared.stopping.store(true, Ordering::Release);
        self.shared.room.clear();
        let deadline = Instant::now() + Duration::from_secs(3);
        while self.load() != (0, 0, 0) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// A listener; where every IPv6 address is meant and the host has no IPv6, every IPv4 address is.
fn listen_on(address: SocketAddr, all: &[SocketAddr]) -> Result<TcpListener, Failure> {
    let every = |ip: IpAddr| all.contains(&SocketAddr::new(ip, address.port()));
    let dual = !(every(Ipv6Addr::UNSPECIFIED.into()) && every(Ipv4Addr::UNSPECIFIED.into()));
    let first = open_listener(address, dual);
    let opened = match first {
        Err(error)
            if address.ip() == Ipv6Addr::UNSPECIFIED && dual && error.kind() != ErrorKind::AddrInUse =>
        {
            open_listener((Ipv4Addr::UNSPECIFIED, address.port()).into(), dual).map_err(|_| error)
        }
        other => other,
    };
    opened.map_err(|error| {
        let port = address.port();
        Failure::Lacks(match error.kind() {
            ErrorKind::AddrInUse => format!(
                "port {port} is in use on {}: is another agent running? Stop it, or choose another port with --listen \
                 ADDRESS:PORT and name the same port in --peer",
                address.ip()
            ),
            ErrorKind::AddrNotAvailable => format!(
                "no interface of this host has the address {}: give --listen one that `ip address` shows",
                address.ip()
            ),
            ErrorKind::PermissionDenied => {
                format!("port {port} needs root (it is below 1024): choose a higher one with --listen ADDRESS:PORT")
            }
            _ => format!("cannot listen on {address}: {error}; choose another address with --listen"),
        })
    })
}

fn open_listener(address: SocketAddr, dual: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    if address.is_ipv6() {
        socket.set_only_v6(!dual)?;
    }
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(1024)?;
    // On Linux SO_RCVTIMEO bounds accept(2), too (socket(7)): so `stop` is seen.
    socket.set_read_timeout(Some(TICK))?;
    Ok(socket.into())
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>, stop: &AtomicBool) {
    while !stop.load(Ordering::Acquire) {
        match listener.accept() {
            // Before a thread is spent on it, and told nothing: closed.
            Ok((_, address)) if !shared.settings.allow.admits(address.ip()) => {}
            Ok((stream, _)) if is_garbage(&stream) => {}
            Ok((stream, address)) => {
                let theirs = shared.clone();
                let serve = move |stream, visit| visited(stream, visit, &theirs);
                // No thread to be had: the connection is dropped, the next one may have more luck.
                let _ = shared.room.receive(stream, address.ip(), serve);
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            // No file descriptor to be had, or a connection that died in the queue (accept(2)): wait instead of spinning.
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

/// What has come of it already is no opening of ours: a flood of other services' words costs no thread.
fn is_garbage(stream: &TcpStream) -> bool {
    let mut opening = [0; 4];
    let peeked = stream.set_nonblocking(true).and_then(|()| stream.peek(&mut opening));
    let garbage = match peeked {
        Ok(0) => true,
        // Of the control channel's magic the last byte is a version, which is told to who has another.
        Ok(length) => {
            let known = [&CONTROL_MAGIC[..3], &DATA_MAGIC[..]];
            !known
                .iter()
                .any(|magic| magic.iter().zip(&opening[..length]).all(|(ours, theirs)| ours == theirs))
        }
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    };
    garbage || stream.set_nonblocking(false).is_err()
}

/// A connection that nobody vouches for: it has `admission` to show the key or a token, and gets no byte before.
fn visited(stream: Arc<TcpStream>, visit: Visit, shared: &Shared) {
    let deadline = Instant::now() + shared.settings.limits.admission;
    let mut wire = Timed::until(&stream, deadline);
    let mut magic = [0; 4];
    if wire.read_exact(&mut magic).is_err() {
        return;
    }
    match magic {
        CONTROL_MAGIC => control(&stream, wire, visit, shared),
        DATA_MAGIC => tcp::data(stream, deadline, visit, shared),
        // Another version of linerate is told which one this is.
        [a, b, c, _] if [a, b, c] == CONTROL_MAGIC[..3] => {
            let _ = wire.write_all(&CONTROL_MAGIC);
        }
        _ => {}
    }
}

/// Handshake and first message; then the session, on this thread.
fn control(stream: &TcpStream, mut wire: Timed<'_>, visit: Visit, shared: &Shared) {
    let admitted = noise::respond(&mut wire, &shared.key).and_then(|mut channel| {
        // The handshake's first message may be a replay; who can encrypt this one holds the key.
        let hello: Request = channel.receive(&mut wire, noise::HELLO_LIMIT_BYTES)?;
        Ok((channel, hello))
    });
    if let Ok((channel, hello)) = admitted
        && visit.leave()
        && prepare_control(stream).is_ok()
    {
        session::serve(stream, channel, &hello, shared);
    }
}
