//! The agent's end of a data stream over TCP: admitted by its token, it is served on the thread of its connection.

use super::admission::Visit;
use super::lane::{Lane, Receive, Work};
use super::secret::SECRET_BYTES;
use super::server::Shared;
use super::wire::{ADMITTED, Timed};
use crate::flow::stream::{self as engine, StreamSocket};
use socket2::{SockRef, Socket};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// A data stream: its token admits it to its lane, and this thread becomes the lane's.
pub fn data(stream: Arc<TcpStream>, deadline: Instant, visit: Visit, shared: &Shared) {
    let mut token = [0; SECRET_BYTES];
    if Timed::until(&stream, deadline).read_exact(&mut token).is_err() || !visit.leave() {
        return;
    }
    let Some(lane) = shared.tokens.claim(&token) else { return };
    // The waiting room let go of it: nobody else holds it.
    let Ok(stream) = Arc::try_unwrap(stream) else { return };
    if let Err(error) = serve_tcp(stream, &lane, shared) {
        lane.finish(Some(format!("its connection failed at the start: {error}")));
    }
}

fn serve_tcp(stream: TcpStream, lane: &Lane, shared: &Shared) -> io::Result<()> {
    let stream = match &lane.work {
        Work::Receive(receive) => {
            size_buffer(SockRef::from(&stream), receive)?;
            stream
        }
        Work::Stream { spec, .. } => {
            let socket = Socket::from(stream);
            engine::prepare(spec, &socket)?;
            socket.into()
        }
    };
    let handle = stream.try_clone()?;
    Timed::new(&stream, shared.settings.limits.admission).write_all(&[ADMITTED])?;
    stream.set_read_timeout(None)?;
    stream.set_write_timeout(None)?;
    lane.run(Some(handle), |stop| match &lane.work {
        Work::Receive(receive) => (shared.receivers.tcp)(stream, &receive.terms, &receive.received, stop),
        Work::Stream { spec, counters } => {
            (shared.receivers.stream)(spec, StreamSocket::Tcp(stream), counters, stop)
        }
    });
    Ok(())
}

/// Asks for the receive buffer that the client wants, and notes what the kernel grants (at most twice `net.core.rmem_max`).
pub fn size_buffer(socket: SockRef<'_>, receive: &Receive) -> io::Result<()> {
    if let Some(bytes) = receive.receive_buffer_bytes {
        // The kernel takes a C int.
        socket.set_recv_buffer_size(bytes.clamp(1, 1 << 30) as usize)?;
    }
    receive.received.buffer_bytes.store(socket.recv_buffer_size()? as u64, Ordering::Relaxed);
    Ok(())
}
