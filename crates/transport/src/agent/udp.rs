//! The agent's end of a data stream over UDP: a socket and a thread for it, and whom it believes.

use super::allow::AllowList;
use super::secret::OneTimeToken;
use super::session_stream::SessionStream;
use super::shared::Shared;
use super::tcp::prepare;
use crate::flow::stream::{self as engine, StreamRole, StreamSocket};
use linerate_system::stop::Stop;
use socket2::{Domain, Socket, Type};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

/// A socket and a thread for it; gives its port.
pub(crate) fn start(
    stream: &Arc<SessionStream>,
    token: OneTimeToken,
    local: SocketAddr,
    shared: &Shared,
) -> io::Result<u16> {
    let socket = Socket::new(Domain::for_address(local), Type::DGRAM, None)?;
    prepare(&socket, stream)?;
    let mut address = local;
    address.set_port(0);
    socket.bind(&address.into())?;
    let socket = UdpSocket::from(socket);
    let port = socket.local_addr()?.port();
    let (stream, receivers) = (stream.clone(), shared.receivers);
    let acceptor = UdpAcceptor { token, allow: shared.settings.allow.clone() };
    std::thread::Builder::new().name("udp stream".into()).spawn(move || {
        stream.run(None, |stop| {
            // A worker's receiver admits its sender itself: it answers with the size of its buffer.
            if !stream.is_worker() && !acceptor.admit(&stream, &socket, stop)? {
                return Ok(());
            }
            let socket = StreamSocket::Udp { socket, token: *acceptor.token.bytes() };
            stream.work(socket, receivers, &acceptor.allow, stop)
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
    fn admit(&self, stream: &SessionStream, socket: &UdpSocket, stop: &Stop) -> io::Result<bool> {
        if !engine::accept_udp(socket, self.token.bytes(), stop)? {
            return Ok(false);
        }
        let from = socket.peer_addr()?.ip().to_canonical();
        if !self.allow.admits(from) {
            return Err(io::Error::other(format!("{from} is not on the agent's --allow list")));
        }
        if stream.spec.role != StreamRole::Receive && from != stream.client {
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
