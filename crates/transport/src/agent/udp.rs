//! The agent's end of a data stream over UDP: a socket and a thread for it, and whom it believes.

use super::allow::AllowList;
use super::secret::OneTimeToken;
use super::session_stream::{SessionStream, Work};
use super::shared::Shared;
use super::tcp::size_buffer;
use crate::flow::stream::{self as engine, StreamRole, StreamSocket};
use socket2::{Domain, SockRef, Socket, Type};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A socket and a thread for it; gives its port.
pub(crate) fn start(
    stream: &Arc<SessionStream>,
    token: OneTimeToken,
    local: SocketAddr,
    shared: &Shared,
) -> io::Result<u16> {
    let socket = Socket::new(Domain::for_address(local), Type::DGRAM, None)?;
    if let Work::Stream { spec, .. } = &stream.work {
        engine::prepare(spec, &socket)?;
    }
    let mut address = local;
    address.set_port(0);
    socket.bind(&address.into())?;
    let socket = UdpSocket::from(socket);
    if let Work::Receive(receive) = &stream.work {
        size_buffer(SockRef::from(&socket), receive)?;
    }
    let port = socket.local_addr()?.port();
    let (stream, receivers) = (stream.clone(), shared.receivers);
    let acceptor = UdpAcceptor { token, allow: shared.settings.allow.clone() };
    std::thread::Builder::new().name("udp stream".into()).spawn(move || {
        stream.run(None, |stop| match &stream.work {
            Work::Receive(receive) => {
                (receivers.udp)(socket, acceptor.token.bytes(), &receive.terms, &receive.received, stop)
            }
            Work::Stream { spec, counters } => {
                if !acceptor.admit(&stream, spec.role, &socket, stop)? {
                    return Ok(());
                }
                let socket = StreamSocket::Udp { socket, token: *acceptor.token.bytes() };
                (receivers.stream)(spec, socket, counters, stop)
            }
        });
    })?;
    Ok(port)
}

/// Who is let in to a stream.
struct UdpAcceptor {
    token: OneTimeToken,
    allow: AllowList,
}

impl UdpAcceptor {
    /// Waits for who shows the token; false: nobody came.
    ///
    /// A datagram's sender address is easily forged: anyone who has a key could have this host flood somebody
    /// else. So bulk data and requests go to the address only that proved itself by the handshake of its
    /// control connection.
    fn admit(
        &self,
        stream: &SessionStream,
        role: StreamRole,
        socket: &UdpSocket,
        stop: &AtomicBool,
    ) -> io::Result<bool> {
        if !engine::accept_udp(socket, self.token.bytes(), stop)? {
            return Ok(false);
        }
        let from = socket.peer_addr()?.ip().to_canonical();
        if !self.allow.admits(from) {
            return Err(io::Error::other(format!("{from} is not on the agent's --allow list")));
        }
        if role != StreamRole::Receive && from != stream.client {
            return Err(io::Error::other(format!(
                "its token came from {from}, its control connection from {}: the agent sends datagrams to \
                 the latter only; use a \
                 session from the address that shall receive",
                stream.client
            )));
        }
        stream.met();
        Ok(true)
    }
}
