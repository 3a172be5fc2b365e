//! What the tests of the agent share: an agent on a thread, receivers that only count, and patience.

pub use crate::support::process::until;
use linerate::agent::{
    Agent, AgentLimits, AgentSession, AgentSettings, Interface, InterfaceOf, Key, LocalBinding, OneTimeToken,
    OpenRequest, Receivers, StreamTicket, TestSample,
};
use linerate::failure::Failure;
use linerate::flow::receive::Terms;
use linerate::flow::store::store;
use linerate::flow::stream::{StreamCounters, StreamRole, StreamSocket, StreamSpec};
use linerate::protocol::Protocol;
use linerate_system::stop::Stop;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Generous: the machine that tests may be busy.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Opens a stream with its ticket, without an end to its patience.
pub fn connect_stream(
    session: &AgentSession,
    ticket: &StreamTicket,
    spec: &StreamSpec,
    local: Option<SocketAddr>,
    device: Option<&str>,
) -> Result<StreamSocket, Failure> {
    session.connect_stream_until(ticket, spec, LocalBinding { local, device }, &Stop::new())
}

/// Opens a worker over TCP with its ticket, to be used as a plain socket.
pub fn worker_stream(session: &AgentSession, ticket: &StreamTicket) -> Result<TcpStream, Failure> {
    connect_stream(session, ticket, &spec(Protocol::Tcp, StreamRole::Send), None, None)?.into_tcp()
}

fn granted(ticket: &StreamTicket) -> (&OneTimeToken, Option<u16>) {
    match ticket {
        StreamTicket::Granted { token, udp_port, .. } => (token, *udp_port),
        StreamTicket::Refused { why } => panic!("{why}"),
    }
}

pub fn token(ticket: &StreamTicket) -> &[u8; 32] {
    granted(ticket).0.bytes()
}

/// Where the agent awaits the datagrams of a worker.
pub fn udp_address(session: &AgentSession, ticket: &StreamTicket) -> SocketAddr {
    SocketAddr::new(session.address().ip(), granted(ticket).1.expect("a port"))
}

fn nothing_came(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

fn count_worker(
    socket: StreamSocket,
    terms: &Terms,
    received: &StreamCounters,
    stop: &Stop,
) -> io::Result<()> {
    let mut stream = match socket {
        StreamSocket::Tcp(stream) => stream,
        StreamSocket::Udp { socket, token } => return count_udp(socket, &token, received, stop),
    };
    stream.set_read_timeout(Some(Duration::from_millis(50)))?;
    let mut buffer = [0; 64 << 10];
    while !stop.is_ended() {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(bytes) => {
                if terms.verify {
                    let sum: u64 = buffer[..bytes].iter().map(|byte| u64::from(*byte)).sum();
                    received.checksum.fetch_add(sum, Ordering::Relaxed);
                }
                received.progress.add(bytes as u64);
            }
            Err(error) if nothing_came(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Admits the address that shows the token, and answers only there.
fn count_udp(socket: UdpSocket, token: &[u8; 32], received: &StreamCounters, stop: &Stop) -> io::Result<()> {
    socket.set_read_timeout(Some(Duration::from_millis(50)))?;
    let mut buffer = [0; 2048];
    let mut sender = None;
    while !stop.is_ended() {
        match socket.recv_from(&mut buffer) {
            Ok((bytes, from)) if sender.is_none() && buffer[..bytes] == *token => {
                sender = Some(from);
                socket.send_to(b"in", from)?;
            }
            Ok((bytes, from)) if sender == Some(from) => {
                received.datagrams.fetch_add(1, Ordering::Relaxed);
                received.progress.add(bytes as u64);
            }
            Ok(_) => {}
            Err(error) if nothing_came(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A stream over TCP that goes as fast as it can, whatever it was asked for. Its spec can be read from its
/// counters: the core (plus one) from the calls, the rate from the trains.
pub fn careless_stream(
    spec: &StreamSpec,
    socket: StreamSocket,
    counters: &StreamCounters,
    stop: &Stop,
) -> io::Result<()> {
    counters.calls.store(spec.core.map_or(0, |core| u64::from(core) + 1), Ordering::Relaxed);
    counters.trains.store(spec.bytes_per_second.map_or(0, |rate| rate as u64), Ordering::Relaxed);
    let StreamSocket::Tcp(mut stream) = socket else {
        return Err(io::Error::other("who streams over UDP in these tests has the real engine"));
    };
    stream.set_read_timeout(Some(Duration::from_millis(50)))?;
    stream.set_write_timeout(Some(Duration::from_millis(50)))?;
    let mut buffer = [7; 64 << 10];
    while !stop.is_ended() {
        let moved = match spec.role {
            StreamRole::Send => stream.write(&buffer),
            _ => stream.read(&mut buffer),
        };
        match moved {
            Ok(0) => break,
            Ok(bytes) => counters.progress.add(bytes as u64),
            Err(error) if nothing_came(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

pub const COUNTING: Receivers = Receivers { worker: count_worker, store, stream: careless_stream };

/// An agent on a thread of this process.
pub struct RunningAgent {
    pub agent: Arc<Agent>,
    pub address: SocketAddr,
    pub key: Key,
    stop: Arc<Stop>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl RunningAgent {
    pub fn start() -> RunningAgent {
        RunningAgent::with(AgentLimits::default(), COUNTING, "127.0.0.1:0")
    }

    pub fn with(settings: impl Into<AgentSettings>, receivers: Receivers, listen: &str) -> RunningAgent {
        let key = Key::random().expect("a key");
        let loopback = || Interface { name: "lo".into(), mtu: Some(65_536), cores: vec![0, 1] };
        let interface_of: InterfaceOf = Arc::new(move |ip| ip.is_loopback().then(loopback));
        let listen = [listen.parse().expect("an address")];
        let settings = AgentSettings { receivers, interface_of, ..settings.into() };
        let agent = Agent::bind(&listen, key.clone(), settings);
        let agent = Arc::new(agent.expect("an agent"));
        let stop = Arc::new(Stop::new());
        let (serving, ended) = (agent.clone(), stop.clone());
        let thread = std::thread::spawn(move || serving.serve(&ended));
        let address = agent.local_addresses()[0];
        RunningAgent { agent, address, key, stop, thread: Some(thread) }
    }

    pub fn connect(&self) -> AgentSession {
        AgentSession::connect(self.address, &self.key).expect("a session")
    }

    pub fn awaits_load(&self, load: (usize, usize, usize)) {
        until("the load", || self.agent.load() == load);
    }
}

impl Drop for RunningAgent {
    fn drop(&mut self) {
        self.stop.end();
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the agent ends without a panic");
        }
    }
}

pub fn workers(protocols: &[Protocol]) -> OpenRequest {
    streams(protocols.iter().map(|protocol| worker(*protocol)).collect())
}

pub fn worker(protocol: Protocol) -> StreamSpec {
    StreamSpec {
        verify: true,
        receive_buffer_bytes: Some(128 << 10),
        ..StreamSpec::new(protocol, StreamRole::Worker)
    }
}

/// The agent's end of a stream.
pub fn spec(protocol: Protocol, role: StreamRole) -> StreamSpec {
    StreamSpec { write_bytes: 64 << 10, datagram_bytes: 1400, ..StreamSpec::new(protocol, role) }
}

pub fn streams(streams: Vec<StreamSpec>) -> OpenRequest {
    OpenRequest { streams, ..OpenRequest::default() }
}

pub fn sample_when(session: &AgentSession, reached: impl Fn(&TestSample) -> bool) -> TestSample {
    let began = Instant::now();
    loop {
        let sample = session.sample().expect("a sample");
        if reached(&sample) {
            return sample;
        }
        assert!(began.elapsed() < PATIENCE, "{sample:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What a stranger's connection gets: the bytes until it is closed.
pub fn heard(stream: &mut TcpStream) -> Vec<u8> {
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "closed, not left open"),
    }
    bytes
}

pub fn refusal(result: Result<AgentSession, Failure>) -> String {
    match result {
        Ok(_) => panic!("it was let in"),
        Err(failure) => {
            assert_eq!(failure.exit_status(), 3);
            failure.to_string()
        }
    }
}
