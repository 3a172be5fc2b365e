//! The agent's end of a data stream over TCP: admitted by its token, it is served on the thread of its
//! connection.

use super::pending::PendingEntry;
use super::secret::SECRET_BYTES;
use super::session_stream::SessionStream;
use super::shared::Shared;
use super::wire::{ADMITTED, DeadlineStream};
use crate::flow::stream::{self as engine, StreamSocket};
use socket2::{SockRef, Socket};
use std::io::{self, Read, Write};
use std::net::TcpStream;
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
    let (receivers, allow) = (shared.receivers, &shared.settings.allow);
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
