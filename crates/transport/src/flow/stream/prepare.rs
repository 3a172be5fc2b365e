//! Setting up a stream's socket: buffers, congestion control, what the kernel is to tell with each datagram.

use super::super::udp_receive;
use super::{StreamCounters, StreamRole, StreamSpec};
use linerate_facts::protocol::Protocol;
use linerate_system::{connection, socket};
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What a UDP sender asks for: room for the trains of some calls.
const UDP_SEND_BUFFER_BYTES: u64 = 4 << 20;

/// Buffers, congestion control and the like on a socket before it connects (TCP: before it listens, at the
/// other end).
pub fn prepare(spec: &StreamSpec, socket: &socket2::Socket) -> io::Result<()> {
    match spec.protocol {
        Protocol::Tcp => prepare_tcp(spec, socket),
        Protocol::Udp => prepare_udp(spec, socket),
    }
}

fn prepare_tcp(spec: &StreamSpec, socket: &socket2::Socket) -> io::Result<()> {
    if let Some(bytes) = spec.send_buffer_bytes {
        socket::set_send_buffer(socket, bytes as usize)?;
    }
    if let Some(bytes) = spec.receive_buffer_bytes {
        socket::set_receive_buffer(socket, bytes as usize)?;
    }
    if let (Some(name), StreamRole::Send | StreamRole::Ask | StreamRole::Echo) =
        (&spec.congestion_control, spec.role)
    {
        set_congestion_control(socket, name)?;
    }
    if matches!(spec.role, StreamRole::Ask | StreamRole::Echo) {
        socket.set_tcp_nodelay(true)?;
    }
    Ok(())
}

/// Sets a TCP congestion control by name.
pub(crate) fn set_congestion_control(socket: &socket2::Socket, name: &str) -> io::Result<()> {
    socket.set_tcp_congestion(name.as_bytes()).map_err(|error| {
        let text = format!(
            "congestion control `{name}`: {error}; this host has those of \
             net.ipv4.tcp_available_congestion_control, \
             and without root one may use those of tcp_allowed_congestion_control"
        );
        io::Error::new(error.kind(), text)
    })
}

/// The same for UDP; again harmless on a socket that it was done to before.
pub(super) fn prepare_udp(spec: &StreamSpec, socket: &impl AsFd) -> io::Result<()> {
    if let Some(bytes) =
        spec.send_buffer_bytes.or((spec.role == StreamRole::Send).then_some(UDP_SEND_BUFFER_BYTES))
    {
        socket::set_send_buffer(socket, bytes as usize)?;
    }
    if spec.role == StreamRole::Receive {
        udp_receive::prepare(socket, spec.receive_buffer_bytes)?;
    } else if let Some(bytes) = spec.receive_buffer_bytes {
        socket::set_receive_buffer(socket, bytes as usize)?;
    }
    let _ = socket::set_arrival_times(socket);
    Ok(())
}

/// Who waits for a host that is gone hears of it within half a minute (tcp(7): keepalive).
pub(super) fn notice_a_lost_host(stream: &std::net::TcpStream) {
    let keepalive = socket2::TcpKeepalive::new()
        .with_time(Duration::from_secs(10))
        .with_interval(Duration::from_secs(5))
        .with_retries(3);
    let _ = socket2::SockRef::from(stream).set_tcp_keepalive(&keepalive);
}

/// Stores the buffers as granted.
pub(super) fn tell_buffers(socket: &impl AsFd, counters: &StreamCounters) {
    if let Ok((send, receive)) = connection::buffers(socket) {
        counters.send_buffer_bytes.store(send as u64, Ordering::Relaxed);
        counters.receive_buffer_bytes.store(receive as u64, Ordering::Relaxed);
    }
}
