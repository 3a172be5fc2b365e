//! The client's side of an agent: one session, its tests, and data streams that open with their tickets.
//! Every call ends in time.

use super::noise::{self, Broken, Channel, REPLY_LIMIT_BYTES};
use super::protocol::{AgentRequest, Hello, OpenRequest, PROTOCOL, Reply, StreamTicket, TestSample};
use super::secret::{Key, OneTimeToken};
use super::taking::{TakeRequest, TakenSample};
use super::wire::{ADMITTED, CONTROL_MAGIC, DATA_MAGIC, DeadlineStream, LocalBinding, await_news, bound};
use crate::admission::prepare_control;
use linerate_facts::failure::Failure;
use linerate_system::stop::Stop;
use linerate_system::{clock, lock};
use socket2::Type;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Connecting, the handshake, the admission of a data stream: each ends within this.
pub(super) const STEP: Duration = Duration::from_secs(3);
/// Of the control connection in both directions: what every path carries (1280 bytes less the headers of IPv6
/// and TCP, RFC 8200), so that a black hole for larger packets can still be talked about.
const CONTROL_SEGMENT_BYTES: u32 = 1220;
/// Between two looks whether the workers have ended.
const LOOK: Duration = Duration::from_millis(50);
/// A request is answered within this; a host whose cores are all busy answers in some milliseconds.
const CALL: Duration = Duration::from_secs(3);
/// To end a test may take the agent two seconds.
const CLOSE: Duration = Duration::from_secs(4);

/// A session with an agent. Ask for a sample at least every minute, and every ten seconds while the agent
/// sends datagrams: a session that says nothing is dropped. Dropping this and all its clones ends it and its test.
#[derive(Clone)]
pub struct AgentSession {
    address: SocketAddr,
    hello: Hello,
    line: Arc<Mutex<ControlLine>>,
}

struct ControlLine {
    stream: TcpStream,
    channel: Channel,
    /// After a failure request and reply no longer pair: nothing is asked any more.
    broken: bool,
}

impl AgentSession {
    /// Connects, shows the key, and learns who the agent is.
    pub fn connect(address: SocketAddr, key: &Key) -> Result<AgentSession, Failure> {
        AgentSession::connect_by(address, key, LocalBinding::default())
    }

    /// As [`Session::connect`], from an address or over an interface of this host: the one that its streams
    /// take. An agent sends datagrams only to the address that its session came from.
    pub fn connect_by(
        address: SocketAddr,
        key: &Key,
        way: LocalBinding<'_>,
    ) -> Result<AgentSession, Failure> {
        tracing::debug!(%address, "connecting to the agent");
        let socket = bound(address, Type::STREAM, way, |socket| socket.set_tcp_mss(CONTROL_SEGMENT_BYTES))?;
        socket.connect_timeout(&address.into(), STEP).map_err(|error| unreachable_peer(address, &error))?;
        let stream: TcpStream = socket.into();
        prepare_control(&stream).map_err(|error| lost(address, &Broken::Io(error), STEP))?;
        let channel = noise::initiate(DeadlineStream::new(&stream, STEP), key)
            .map_err(|broken| refused(address, &broken))?;
        let mut line = ControlLine { stream, channel, broken: false };
        let hello = AgentRequest::Hello { protocol: PROTOCOL, version: env!("CARGO_PKG_VERSION").into() };
        match line.ask(address, &hello, STEP)? {
            Reply::Hello(hello) if hello.protocol != PROTOCOL => Err(older(address, &hello)),
            Reply::Hello(hello) => {
                tracing::info!(%address, version = hello.version, "session begins");
                Ok(AgentSession { address, hello: *hello, line: Arc::new(Mutex::new(line)) })
            }
            _ => Err(out_of_turn(address)),
        }
    }

    /// The agent's address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Our address on the way to it.
    pub fn local_address(&self) -> Option<SocketAddr> {
        lock(&self.line).stream.local_addr().ok()
    }

    /// A way to end this session from another thread, also while a question waits for its answer.
    pub fn cutter(&self) -> Option<SessionBreaker> {
        lock(&self.line).stream.try_clone().ok().map(SessionBreaker)
    }

    /// Who the agent is.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// Begins a test; its tickets, one for each stream, must be used within ten seconds. One test at a time.
    pub fn open(&self, request: OpenRequest) -> Result<Vec<StreamTicket>, Failure> {
        let wanted = request.streams.len();
        match self.ask(&AgentRequest::Open(request))? {
            Reply::Opened { tickets } if tickets.len() == wanted => Ok(tickets),
            _ => Err(out_of_turn(self.address)),
        }
    }

    /// How far the test is.
    pub fn sample(&self) -> Result<TestSample, Failure> {
        let Reply::Sample(sample) = self.ask(&AgentRequest::Sample)? else { return Err(self.out_of_turn()) };
        Ok(sample)
    }

    /// Has the agent take a little of the CPUs that the test's streams are on; what it has got of them until now.
    pub fn take(&self, request: TakeRequest) -> Result<TakenSample, Failure> {
        let Reply::Taken(taken) = self.ask(&AgentRequest::Take(request))? else {
            return Err(self.out_of_turn());
        };
        Ok(taken)
    }

    /// Has the workers that store take no more and their disk keep what came, and waits for that, so long at most; for a
    /// worker that does not store it waits all of it. The last sample tells who has ended, and why.
    pub fn settle(&self, patience: Duration) -> Result<TestSample, Failure> {
        let deadline = clock::now() + patience;
        let mut request = AgentRequest::Settle;
        loop {
            let Reply::Sample(sample) = self.ask(&request)? else { return Err(self.out_of_turn()) };
            if sample.streams.iter().all(|stream| stream.ended) || clock::now() >= deadline {
                return Ok(sample);
            }
            // A session that is cut at a stop ends with the next question.
            clock::sleep(LOOK);
            request = AgentRequest::Sample;
        }
    }

    /// Ends the test and gives its last sample; bytes that are still on their way are lost, so wait until the
    /// workers have ended.
    pub fn close(&self) -> Result<TestSample, Failure> {
        let reply = self.ask_within(&AgentRequest::Close, CLOSE)?;
        let Reply::Closed(sample) = reply else { return Err(self.out_of_turn()) };
        Ok(sample)
    }

    pub(super) fn show_token(&self, stream: &TcpStream, token: &OneTimeToken, stop: &Stop) -> io::Result<()> {
        let deadline = clock::now() + STEP;
        let mut opening = DATA_MAGIC.to_vec();
        opening.extend(token.bytes());
        DeadlineStream::until(stream, deadline).write_all(&opening)?;
        await_news(deadline, stop, |left| stop.wait_readable(stream, left))?;
        let mut answer = [0];
        DeadlineStream::until(stream, deadline).read_exact(&mut answer)?;
        if answer[0] != ADMITTED {
            return Err(io::Error::new(ErrorKind::InvalidData, "an answer that is none"));
        }
        stream.set_read_timeout(None)?;
        stream.set_write_timeout(None)
    }

    pub(super) fn out_of_turn(&self) -> Failure {
        out_of_turn(self.address)
    }

    pub(super) fn ask(&self, request: &AgentRequest) -> Result<Reply, Failure> {
        self.ask_within(request, CALL)
    }

    pub(super) fn ask_within(&self, request: &AgentRequest, time: Duration) -> Result<Reply, Failure> {
        lock(&self.line).ask(self.address, request, time)
    }
}

/// Cuts a session off.
#[derive(Debug)]
pub struct SessionBreaker(TcpStream);

impl SessionBreaker {
    /// The connection ends now: what waits on it fails at once, and so does all that is asked later.
    pub fn cut(&self) {
        // It may have ended by itself.
        let _ = self.0.shutdown(std::net::Shutdown::Both);
    }
}

impl ControlLine {
    /// One request, one reply; an error of the agent's becomes ours.
    fn ask(&mut self, address: SocketAddr, request: &AgentRequest, time: Duration) -> Result<Reply, Failure> {
        if self.broken {
            return Err(lost(address, &Broken::Closed, time));
        }
        let mut wire = DeadlineStream::new(&self.stream, time);
        let asked = self.channel.sender.send(&mut wire, request);
        match asked.and_then(|()| self.channel.receiver.receive(&mut wire, REPLY_LIMIT_BYTES)) {
            Ok(Reply::Error { text }) => Err(Failure::Lacks(format!("the agent at {address} says: {text}"))),
            Ok(reply) => Ok(reply),
            Err(broken) => {
                self.broken = true;
                Err(lost(address, &broken, time))
            }
        }
    }
}

/// Why there is no connection to a port, after so long.
pub fn no_connection(port: u16, error: &io::Error, patience: Duration) -> String {
    match error.kind() {
        ErrorKind::ConnectionRefused => format!("nothing listens on port {port} there"),
        ErrorKind::TimedOut | ErrorKind::WouldBlock => {
            format!(
                "no answer within {} s: the host is down, or a firewall drops what comes to port {port}",
                patience.as_secs_f64()
            )
        }
        ErrorKind::NetworkUnreachable | ErrorKind::HostUnreachable => "no route leads there".into(),
        // IPv6 without an address of our own: connect(2) finds no source address before it looks for a route.
        ErrorKind::AddrNotAvailable => "no route leads there, this host has no address of that kind".into(),
        _ => error.to_string(),
    }
}

pub(super) fn unreachable_peer(address: SocketAddr, error: &io::Error) -> Failure {
    // As in a network namespace of its own, where nobody has set it up.
    if address.ip().is_loopback() && error.kind() == ErrorKind::NetworkUnreachable {
        return Failure::Lacks(format!(
            "the loopback interface is down, so {address} is not reached: bring it up with `ip link set lo up`, \
             or name another host with --peer"
        ));
    }
    let (port, cause) = (address.port(), no_connection(address.port(), error, STEP));
    Failure::Lacks(format!(
        "no agent at {address}: {cause}; start `linerate agent` there; is port {port} open?"
    ))
}

/// The handshake failed.
fn refused(address: SocketAddr, broken: &Broken) -> Failure {
    Failure::Lacks(match broken {
        Broken::Closed => format!(
            "the agent at {address} refused the key: it has another one (give the one that `linerate agent` \
             printed there, with \
             --key-file FILE or LINERATE_KEY), or its --allow list does not have this host"
        ),
        Broken::OtherVersion(digit) => format!(
            "the agent at {address} speaks version {digit} of the control channel, this linerate {} speaks \
             version {}; install the \
             same version on both hosts",
            env!("CARGO_PKG_VERSION"),
            char::from(CONTROL_MAGIC[3])
        ),
        Broken::Late => format!(
            "{address} took the connection but did not answer within {} s: is it an agent, and not another \
             service?",
            STEP.as_secs()
        ),
        Broken::Foreign => format!(
            "what answers at {address} is not an agent of linerate; start `linerate agent` there, or name its \
             port with --peer HOST:PORT"
        ),
        other => format!("the agent at {address} cannot be talked to: {other}"),
    })
}

/// An agent that did not refuse us by itself.
fn older(address: SocketAddr, hello: &Hello) -> Failure {
    Failure::Lacks(format!(
        "the agent at {address} runs linerate {} (agent protocol {}), this is linerate {} (agent protocol \
         {PROTOCOL}); install the \
         same version on both hosts",
        hello.version,
        hello.protocol,
        env!("CARGO_PKG_VERSION")
    ))
}

/// The agent went away in the middle.
fn lost(address: SocketAddr, broken: &Broken, time: Duration) -> Failure {
    Failure::Lacks(match broken {
        Broken::Closed => format!(
            "the agent at {address} is gone: it closed the connection; was it stopped? Start `linerate \
             agent` there again"
        ),
        Broken::Late => format!(
            "the agent at {address} is gone: no answer within {} s; is the host down, the cable out or the \
             CPU overloaded?",
            time.as_secs()
        ),
        other => format!("the agent at {address} is lost: {other}"),
    })
}

fn out_of_turn(address: SocketAddr) -> Failure {
    Failure::Lacks(format!(
        "the agent at {address} gave an answer to another question; install the same version of linerate on \
         both hosts"
    ))
}
