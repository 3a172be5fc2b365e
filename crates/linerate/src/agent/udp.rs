//! The agent's end of a data stream over UDP: a socket and a thread for it, and whom it believes.

use super::lane::{Lane, Work};
use super::secret::Token;
use super::server::{Receivers, Shared, size_buffer};
use crate::flow::stream::{self as engine, StreamSocket};
use crate::flow::stream::{Role, StreamCounters, StreamSpec};
use socket2::{Domain, SockRef, Socket, Type};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A socket and a thread for it; gives its port.
pub fn start(lane: &Arc<Lane>, token: Token, local: SocketAddr, shared: &Shared) -> io::Result<u16> {
    let socket = Socket::new(Domain::for_address(local), Type::DGRAM, None)?;
    if let Work::Stream { spec, .. } = &lane.work {
        engine::prepare(spec, &socket)?;
    }
    let mut address = local;
    address.set_port(0);
    socket.bind(&address.into())?;
    let socket = UdpSocket::from(socket);
    if let Work::Receive(receive) = &lane.work {
        size_buffer(SockRef::from(&socket), receive)?;
    }
    let port = socket.local_addr()?.port();
    let (lane, receivers, allow) = (lane.clone(), shared.receivers, shared.settings.allow.clone());
    std::thread::Builder::new().name("udp stream".into()).spawn(move || {
        lane.run(None, |stop| match &lane.work {
            Work::Receive(receive) => (receivers.udp)(socket, token.bytes(), &receive.received, stop),
            Work::Stream { spec, counters } => {
                let admits = |from: SocketAddr| allow.admits(from.ip());
                serve(&lane, spec, counters, socket, &token, receivers, &admits, stop)
            }
        });
    })?;
    Ok(port)
}

/// Waits for who shows the token, then does what the stream is for.
///
/// A datagram's sender address is easily forged: whoever has a key could have this host flood somebody else. So bulk data goes to the
/// address only that proved itself by the handshake of its control connection.
#[allow(clippy::too_many_arguments)]
fn serve(
    lane: &Lane,
    spec: &StreamSpec,
    counters: &StreamCounters,
    socket: UdpSocket,
    token: &Token,
    receivers: Receivers,
    admits: &dyn Fn(SocketAddr) -> bool,
    stop: &AtomicBool,
) -> io::Result<()> {
    if !engine::accept_udp(&socket, token.bytes(), stop)? {
        return Ok(());
    }
    let from = socket.peer_addr()?;
    if !admits(from) {
        return Err(io::Error::other(format!("{} is not on the agent's --allow list", from.ip())));
    }
    if spec.role == Role::Send && from.ip().to_canonical() != lane.client {
        return Err(io::Error::other(format!(
            "its token came from {}, its control connection from {}: the agent sends datagrams to the latter only; use a session \
             from the address that shall receive",
            from.ip(),
            lane.client
        )));
    }
    lane.met();
    (receivers.stream)(spec, StreamSocket::Udp { socket, token: *token.bytes() }, counters, stop)
}
