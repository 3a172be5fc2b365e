//! A stream of `linerate network`: what a client wants of it, held to bounds before anything is done for it; and the
//! client's end: its socket, bound and prepared, admitted by its ticket.

use super::client::{AgentSession, STEP, unreachable_peer};
use super::protocol::{AgentRequest, OpenRequest, Reply, StreamTicket};
use super::secret::OneTimeToken;
use super::wire::{LocalBinding, bound, connect_within};
use crate::flow::stream as engine;
use crate::flow::stream::{SendMethod, StreamRole, StreamSocket, StreamSpec};
use linerate_facts::counters::NetworkCounters;
use linerate_facts::failure::Failure;
use linerate_facts::protocol::Protocol;
use linerate_facts::units::show_size;
use linerate_system::stop::Stop;
use socket2::{Socket, Type};
use std::io::ErrorKind;
use std::net::{TcpStream, UdpSocket};
use thiserror::Error;

/// Largest buffer of a socket and of a thread.
const LARGEST_BUFFER_BYTES: u64 = 1 << 30;
const LARGEST_WRITE_BYTES: u32 = 16 << 20;
/// The largest payload of a UDP datagram over IPv4 (RFC 768), and the smallest that holds a stream's header.
const DATAGRAM_BYTES: std::ops::RangeInclusive<u32> = 64..=65_507;
/// What a socket's buffer may grow to where the client leaves it to the kernel (tcp(7): tcp_rmem), or to
/// linerate (UDP).
const USUAL_BUFFER_BYTES: u64 = 6 << 20;
const UDP_BUFFER_BYTES: u64 = 16 << 20;
/// What a thread has besides: stack, records of datagrams.
const THREAD_BYTES: u64 = 1 << 20;
/// What TCP's buffer of a worker may grow to where nobody says (tcp(7): tcp_rmem), or may be asked for by the
/// client without being told so.
const TCP_WORKER_BYTES: u64 = 16 << 20;
/// What the receiving thread of a worker has besides: the blocks that it reads into, its stack.
const WORKER_THREAD_BYTES: u64 = 2 << 20;
/// A worker under a rate limit has a buffer for so much of a second: more would only hide from the sender
/// that it must wait.
const HELD_SECONDS: f64 = 0.05;
const LEAST_HELD_BYTES: u64 = 128 << 10;
/// Requests and answers are small: a hundredth of the rate limit is enough for them.
const SMALL_TALK: f64 = 0.01;

/// What of a wish cannot be.
#[derive(Clone, Debug, PartialEq, Error)]
pub(crate) enum StreamSpecError {
    #[error("datagrams of {bytes} bytes: they have {} to {}", DATAGRAM_BYTES.start(), DATAGRAM_BYTES.end())]
    Datagrams { bytes: u32 },
    #[error("{bytes} bytes a call: they are 1 to {}", show_size((*.largest).into()))]
    Write { bytes: u32, largest: u32 },
    #[error("a rate must be at least one byte a second")]
    Rate,
    #[error("a socket buffer of {bytes} bytes: it has 1 byte to {}", show_size(LARGEST_BUFFER_BYTES))]
    Buffer { bytes: u64 },
    #[error(
        "no congestion control “{}” is loaded there; there are: {loaded}",
        .name.chars().filter(char::is_ascii_graphic).take(16).collect::<String>()
    )]
    CongestionControl { name: String, loaded: String },
}

/// Checks a wish. `controls`: congestion controls that there are.
pub(crate) fn check_stream(spec: &StreamSpec, controls: &[String]) -> Result<(), StreamSpecError> {
    if spec.protocol == Protocol::Udp && !DATAGRAM_BYTES.contains(&spec.datagram_bytes) {
        return Err(StreamSpecError::Datagrams { bytes: spec.datagram_bytes });
    }
    let talk = matches!(spec.role, StreamRole::Ask | StreamRole::Echo);
    let largest =
        if talk && spec.protocol == Protocol::Udp { *DATAGRAM_BYTES.end() } else { LARGEST_WRITE_BYTES };
    if !(1..=largest).contains(&spec.write_bytes) {
        return Err(StreamSpecError::Write { bytes: spec.write_bytes, largest });
    }
    if spec.bytes_per_second.is_some_and(|rate| !(rate.is_finite() && rate >= 1.0)) {
        return Err(StreamSpecError::Rate);
    }
    for bytes in [spec.send_buffer_bytes, spec.receive_buffer_bytes].into_iter().flatten() {
        if !(1..=LARGEST_BUFFER_BYTES).contains(&bytes) {
            return Err(StreamSpecError::Buffer { bytes });
        }
    }
    match &spec.congestion_control {
        // Of a receiver it does nothing.
        Some(name)
            if spec.protocol == Protocol::Tcp
                && spec.role != StreamRole::Receive
                && !controls.contains(name) =>
        {
            Err(StreamSpecError::CongestionControl { name: name.clone(), loaded: controls.join(", ") })
        }
        _ => Ok(()),
    }
}

/// Memory that it may take, bytes. The kernel doubles what is asked for a socket's buffer (socket(7)).
pub(crate) fn memory_of_stream(spec: &StreamSpec) -> u64 {
    let granted = |bytes: u64| 2 * bytes.min(LARGEST_BUFFER_BYTES);
    if spec.role == StreamRole::Worker {
        return spec.receive_buffer_bytes.map_or(TCP_WORKER_BYTES, granted) + WORKER_THREAD_BYTES;
    }
    let usual = if spec.protocol == Protocol::Udp { UDP_BUFFER_BYTES } else { USUAL_BUFFER_BYTES };
    let asked = match spec.role {
        StreamRole::Send => spec.send_buffer_bytes,
        StreamRole::Receive | StreamRole::Worker => spec.receive_buffer_bytes,
        StreamRole::Ask | StreamRole::Echo => Some(0),
    };
    // The other direction's buffer only where it is asked for: the kernel fills it with what comes, and
    // nothing does.
    let other = match spec.role {
        StreamRole::Send => spec.receive_buffer_bytes,
        StreamRole::Receive | StreamRole::Worker => spec.send_buffer_bytes,
        StreamRole::Ask | StreamRole::Echo => spec.send_buffer_bytes.max(spec.receive_buffer_bytes),
    };
    // A block and the pattern that it is filled with; zerocopy has as many under way as `flow::stream::hand`
    // says.
    let blocks = if spec.method == SendMethod::Zerocopy { 17 } else { 2 };
    asked.map_or(usual, granted)
        + other.map_or(0, granted)
        + blocks * u64::from(spec.write_bytes)
        + THREAD_BYTES
}

/// The rate that it would take of a limit, bytes per second; none of its own where it is a worker's, which reads by its
/// client's pace.
pub(crate) fn rate_of_stream(spec: &StreamSpec, limit: f64) -> f64 {
    let most = match spec.role {
        StreamRole::Send | StreamRole::Receive => f64::INFINITY,
        StreamRole::Ask | StreamRole::Echo => limit * SMALL_TALK,
        StreamRole::Worker => 0.0,
    };
    spec.bytes_per_second.map_or(most, |rate| rate.min(most))
}

/// What the receiver of a worker asks for as its socket's buffer, bytes; none: TCP's sizes itself. Never more
/// than the kernel's C int.
pub(crate) fn worker_buffer(
    protocol: Protocol,
    asked: Option<u64>,
    limit: Option<f64>,
    workers: usize,
) -> Option<u64> {
    let free = match protocol {
        Protocol::Tcp => asked,
        Protocol::Udp => Some(asked.unwrap_or(0).max(UDP_BUFFER_BYTES)),
    };
    let Some(limit) = limit else { return free.map(|bytes| bytes.min(LARGEST_BUFFER_BYTES)) };
    let held = (limit / workers.max(1) as f64 * HELD_SECONDS) as u64;
    Some(free.unwrap_or(LARGEST_BUFFER_BYTES).min(held.max(LEAST_HELD_BYTES)).min(LARGEST_BUFFER_BYTES))
}

/// Both ends of a stream that is to be.
#[derive(Clone, Debug)]
pub struct StreamEnds {
    pub own: StreamSpec,
    pub theirs: StreamSpec,
}

/// Our end of a stream, connected.
#[derive(Debug)]
pub struct OpenedStream {
    pub spec: StreamSpec,
    pub socket: StreamSocket,
}

impl AgentSession {
    /// What the agent's host has counted on its network since it was started: all of it, and the interface
    /// that this session leads to (all of them where that is not known).
    pub fn counters(&self) -> Result<NetworkCounters, Failure> {
        let interfaces = self.hello().interface.iter().cloned().collect();
        match self.ask(&AgentRequest::Counters { interfaces })? {
            Reply::Counters { counters } => Ok(*counters),
            _ => Err(self.out_of_turn()),
        }
    }

    /// Opens a test of these streams and connects our end of each, in their order, each held to the rate that the agent
    /// allows it. One that cannot be opened does not keep the others from it. There are fewer than were asked for after
    /// `stop`, and after one over UDP that had no answer: each would wait for seconds, while the tickets of the others
    /// expire.
    pub fn open_streams(
        &self,
        ends: Vec<StreamEnds>,
        binding: LocalBinding<'_>,
        stop: &Stop,
    ) -> Result<Vec<Result<OpenedStream, Failure>>, Failure> {
        let streams = ends.iter().map(|ends| ends.theirs.clone()).collect();
        let tickets = self.open(OpenRequest { streams, ..OpenRequest::default() })?;
        let mut connected = Vec::new();
        for (StreamEnds { own, .. }, ticket) in ends.into_iter().zip(&tickets) {
            if stop.is_ended() {
                break;
            }
            let spec = ticket.held(own);
            let socket = self.connect_stream_until(ticket, &spec, binding, stop);
            let is_last = socket.is_err() && spec.protocol == Protocol::Udp;
            connected.push(socket.map(|socket| OpenedStream { spec, socket }));
            if is_last {
                break;
            }
        }
        Ok(connected)
    }

    /// Opens a stream with its ticket. `spec` is what our end does; `binding` is of its socket before it
    /// connects. Given up at `stop`.
    ///
    /// Not more than 32 calls at once: the agent keeps 64 connections whose token it has not read yet.
    pub fn connect_stream_until(
        &self,
        ticket: &StreamTicket,
        spec: &StreamSpec,
        binding: LocalBinding<'_>,
        stop: &Stop,
    ) -> Result<StreamSocket, Failure> {
        let (token, udp_port) = self.granted(ticket)?;
        let kind = if spec.protocol == Protocol::Udp { Type::DGRAM } else { Type::STREAM };
        let socket = bound(self.address(), kind, binding, |socket| engine::prepare(spec, socket))?;
        match udp_port {
            None => self.admitted_tcp(socket, token, stop).map(StreamSocket::Tcp),
            Some(port) => self.admitted_udp(socket, token, port, stop),
        }
    }

    /// The token of a stream that the agent grants, and over UDP its port there.
    pub fn granted<'t>(&self, ticket: &'t StreamTicket) -> Result<(&'t OneTimeToken, Option<u16>), Failure> {
        match ticket {
            StreamTicket::Granted { token, udp_port, .. } => Ok((token, *udp_port)),
            StreamTicket::Refused { why } => {
                Err(Failure::Lacks(format!("the agent at {} refuses a stream: {why}", self.address())))
            }
        }
    }

    fn admitted_tcp(&self, socket: Socket, token: &OneTimeToken, stop: &Stop) -> Result<TcpStream, Failure> {
        let address = self.address();
        let stream = connect_within(socket, address, STEP, stop);
        let stream = stream.map_err(|error| unreachable_peer(address, &error))?;
        self.show_token(&stream, token, stop).map_err(|error| {
            Failure::Lacks(match error.kind() {
                ErrorKind::TimedOut => format!(
                    "the agent at {address} did not admit a data stream within {} s: it is overloaded or \
                     lost",
                    STEP.as_secs()
                ),
                _ => format!(
                    "the agent at {address} refused a data stream: its token was used before, or came later \
                     than ten seconds ({error})"
                ),
            })
        })?;
        Ok(stream)
    }

    fn admitted_udp(
        &self,
        socket: Socket,
        token: &OneTimeToken,
        port: u16,
        stop: &Stop,
    ) -> Result<StreamSocket, Failure> {
        let mut address = self.address();
        address.set_port(port);
        let opened = socket.connect(&address.into()).and_then(|()| {
            let socket = UdpSocket::from(socket);
            engine::open_udp(&socket, token.bytes(), stop).map(|_| socket)
        });
        let socket = opened.map_err(|error| {
            Failure::Lacks(match error.kind() {
                ErrorKind::TimedOut | ErrorKind::WouldBlock => format!(
                    "no answer to datagrams from UDP port {port} of {}: does a firewall between the hosts \
                     drop them? The agent \
                     takes UDP at ports that its kernel picks",
                    address.ip()
                ),
                ErrorKind::ConnectionRefused => format!(
                    "UDP port {port} of {} is closed: the agent has ended the stream, or something answers \
                     in its place",
                    address.ip()
                ),
                _ => format!("no UDP stream to {address}: {error}"),
            })
        })?;
        Ok(StreamSocket::Udp { socket, token: *token.bytes() })
    }
}

impl StreamTicket {
    /// Our end of a stream, held to the rate that the agent allows where we are the one who sends.
    pub fn held(&self, mut spec: StreamSpec) -> StreamSpec {
        if let StreamTicket::Granted { bytes_per_second: Some(limit), .. } = self
            && spec.role == crate::flow::stream::StreamRole::Send
        {
            spec.bytes_per_second = Some(spec.bytes_per_second.map_or(*limit, |rate| rate.min(*limit)));
        }
        spec
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buffer_of_a_worker_is_what_will_be_asked_for() {
        let buffer = worker_buffer;
        assert_eq!(buffer(Protocol::Tcp, None, None, 1), None);
        assert_eq!(buffer(Protocol::Tcp, Some(1 << 20), None, 1), Some(1 << 20));
        assert_eq!(buffer(Protocol::Udp, Some(1 << 20), None, 1), Some(UDP_BUFFER_BYTES));
        assert_eq!(buffer(Protocol::Udp, Some(u64::MAX), None, 1), Some(1 << 30));
        // 50 ms of a quarter of 8 Gb/s, and no less than a few trains.
        assert_eq!(buffer(Protocol::Udp, None, Some(1e9), 4), Some(12_500_000));
        assert_eq!(buffer(Protocol::Tcp, None, Some(1e6), 1), Some(LEAST_HELD_BYTES));
        assert_eq!(buffer(Protocol::Tcp, Some(4096), Some(1e9), 1), Some(4096));
    }
}
