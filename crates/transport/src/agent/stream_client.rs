//! The client's end of a stream of `linerate network`: its socket, bound and prepared, admitted by its
//! ticket.

use super::client::{AgentSession, STEP, unreachable_peer};
use super::protocol::{AgentRequest, OpenRequest, Reply, StreamTicket};
use super::secret::OneTimeToken;
use super::wire::{LocalBinding, bound, connect_within};
use crate::flow::stream as engine;
use crate::flow::stream::{StreamSocket, StreamSpec};
use linerate_facts::counters::NetworkCounters;
use linerate_facts::failure::Failure;
use linerate_facts::protocol::Protocol;
use linerate_system::stop::Stop;
use socket2::{Socket, Type};
use std::io::ErrorKind;
use std::net::{TcpStream, UdpSocket};

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
