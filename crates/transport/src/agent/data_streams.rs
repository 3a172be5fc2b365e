//! The agent's end of a data stream. Over TCP it is admitted by its token and served on the thread of its
//! connection; over UDP it has a socket and a thread of its own, and believes who showed the token.

use super::allow::AllowList;
use super::secret::{OneTimeToken, SECRET_BYTES};
use super::session_stream::SessionStream;
use super::shared::{PendingEntry, Shared};
use super::wire::{ADMITTED, DeadlineStream};
use crate::flow::stream as engine;
use crate::flow::stream::{StreamRole, StreamSocket};
use linerate_system::stop::Stop;
use socket2::{Domain, SockRef, Socket, Type};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A data stream: its token admits it to its worker, and this thread becomes the worker's.
pub(crate) fn data(connection: Arc<TcpStream>, entry: PendingEntry, shared: &Shared) {
    let mut token = [0; SECRET_BYTES];
    if DeadlineStream::until(&connection, entry.deadline()).read_exact(&mut token).is_err() || !entry.admit()
    {
        return;
    }
    let peer = connection.peer_addr().ok();
    let Some(stream) = shared.claim(&token) else {
        tracing::info!(?peer, "data connection refused: no such token");
        return;
    };
    tracing::debug!(?peer, "data connection admitted");
    // The list of the pending let go of it: nobody else holds it.
    let Ok(connection) = Arc::try_unwrap(connection) else { return };
    if let Err(error) = serve_tcp(connection, &stream, shared) {
        tracing::warn!(?peer, %error, "data connection lost");
        stream.finish(Some(format!("its connection failed at the start: {error}")));
    }
}

fn serve_tcp(connection: TcpStream, stream: &SessionStream, shared: &Shared) -> io::Result<()> {
    prepare(&SockRef::from(&connection), stream)?;
    let handle = connection.try_clone()?;
    DeadlineStream::new(&connection, shared.settings.limits.admission).write_all(&[ADMITTED])?;
    connection.set_read_timeout(None)?;
    connection.set_write_timeout(None)?;
    let (receivers, allow) = (shared.settings.receivers, &shared.settings.allow);
    stream.run(Some(handle), |stop| stream.work(StreamSocket::Tcp(connection), receivers, allow, stop));
    Ok(())
}

/// Sets a socket up. For a worker it asks for the receive buffer that the client wants, and notes what the kernel grants
/// (at most twice `net.core.rmem_max`).
pub(crate) fn prepare(socket: &Socket, stream: &SessionStream) -> io::Result<()> {
    if !stream.is_worker() {
        return engine::prepare(&stream.spec, socket);
    }
    if let Some(bytes) = stream.spec.receive_buffer_bytes {
        socket.set_recv_buffer_size(bytes as usize)?;
    }
    stream.counters.receive_buffer_bytes.store(socket.recv_buffer_size()? as u64, Ordering::Relaxed);
    Ok(())
}

/// A socket and a thread for it; gives its port.
pub(crate) fn start_udp(
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
    let (stream, receivers) = (stream.clone(), shared.settings.receivers);
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
