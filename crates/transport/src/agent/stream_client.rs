//! The client's end of a stream of `linerate network`: its socket, bound and prepared, admitted by its
//! ticket.

use super::bound::{LocalBinding, bound};
use super::client::{AgentSession, LOOK, STEP, unreachable_peer};
use super::protocol::{AgentRequest, Reply, StreamTicket};
use super::secret::OneTimeToken;
use crate::flow::stream::StreamSpec;
use crate::flow::stream::{self as engine, StreamSocket};
use linerate_facts::counters::NetworkCounters;
use linerate_facts::failure::Failure;
use linerate_facts::protocol::Protocol;
use linerate_system::Errno;
use socket2::{Socket, Type};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

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

    /// Opens a stream with its ticket. `spec` is what our end does; `way` binds its socket before it
    /// connects. Given up a tenth of a second after `stop`.
    ///
    /// Not more than 32 calls at once: the agent keeps 64 connections whose token it has not read yet.
    pub fn connect_stream_until(
        &self,
        ticket: &StreamTicket,
        spec: &StreamSpec,
        way: LocalBinding<'_>,
        stop: &AtomicBool,
    ) -> Result<StreamSocket, Failure> {
        let (token, udp_port) = match ticket {
            StreamTicket::Granted { token, udp_port, .. } => (token, udp_port),
            StreamTicket::Refused { why } => {
                return Err(Failure::Lacks(format!(
                    "the agent at {} refuses a stream: {why}",
                    self.address()
                )));
            }
        };
        let kind = if spec.protocol == Protocol::Udp { Type::DGRAM } else { Type::STREAM };
        let socket = bound(self.address(), kind, way, |socket| engine::prepare(spec, socket))?;
        match udp_port {
            None => self.admitted_tcp(socket, token, stop).map(StreamSocket::Tcp),
            Some(port) => self.admitted_udp(socket, token, *port, stop),
        }
    }

    pub(super) fn admitted_tcp(
        &self,
        socket: Socket,
        token: &OneTimeToken,
        stop: &AtomicBool,
    ) -> Result<TcpStream, Failure> {
        let address = self.address();
        connect(&socket, address, stop).map_err(|error| unreachable_peer(address, &error))?;
        let stream: TcpStream = socket.into();
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
        stop: &AtomicBool,
    ) -> Result<StreamSocket, Failure> {
        let mut address = self.address();
        address.set_port(port);
        let opened = socket.connect(&address.into()).and_then(|()| {
            let socket = UdpSocket::from(socket);
            engine::open_udp(&socket, token.bytes(), stop).map(|()| socket)
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

/// Connects within `STEP`, or until `stop`. With a send timeout connect(2) comes back after it (EINPROGRESS,
/// socket(7)), and goes on waiting when it is called again.
fn connect(socket: &Socket, address: SocketAddr, stop: &AtomicBool) -> io::Result<()> {
    let deadline = Instant::now() + STEP;
    socket.set_write_timeout(Some(LOOK))?;
    loop {
        match socket.connect(&address.into()) {
            Ok(()) => break,
            Err(error) if Errno::from_io_error(&error) == Some(Errno::ISCONN) => break,
            Err(error) if !still_connecting(&error) => return Err(error),
            Err(_) if stop.load(Ordering::Relaxed) => return Err(ErrorKind::Interrupted.into()),
            Err(_) if Instant::now() >= deadline => return Err(ErrorKind::TimedOut.into()),
            Err(_) => {}
        }
    }
    socket.set_write_timeout(None)
}

fn still_connecting(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::INTR | Errno::ALREADY | Errno::INPROGRESS))
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
