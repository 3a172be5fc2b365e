//! What one end of a stream does: one value, made by the client and sent to the agent for the other end; and
//! its socket set up for that: buffers, congestion control, what the kernel is to tell with each datagram.

use super::super::udp_receive;
use super::StreamCounters;
use linerate_facts::protocol::Protocol;
use linerate_system::{connection, socket};
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Bytes of a small request and of its answer.
pub const REQUEST_BYTES: u32 = 64;

/// What this end does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StreamRole {
    /// Sends bulk data.
    Send,
    /// Takes bulk data.
    Receive,
    /// Takes what a worker of `linerate run` sends: bytes, or datagrams that have no numbers.
    Worker,
    /// Answers each request: the other end of `Ask`.
    Echo,
    /// Sends a small request, waits for its answer, and so on: latency beside the bulk.
    Ask,
}

impl StreamRole {
    /// What the other end does.
    pub fn other(self) -> StreamRole {
        match self {
            StreamRole::Send => StreamRole::Receive,
            StreamRole::Receive | StreamRole::Worker => StreamRole::Send,
            StreamRole::Echo => StreamRole::Ask,
            StreamRole::Ask => StreamRole::Echo,
        }
    }
}

/// How bytes are handed to the kernel. What the kernel then really did is in the sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SendMethod {
    /// `send` of a buffer in memory; from a file: `read`, then `send`.
    #[default]
    Write,
    /// `sendfile` of pages that the page cache holds: of the file, or of a memory file where the source is
    /// memory (TCP).
    Sendfile,
    /// `splice` through a pipe (TCP); from memory of pages that are kept and put into it by `tee`.
    Splice,
    /// MSG_ZEROCOPY or SEND_ZC (TCP); copied all the same on loopback and by NICs without scatter-gather.
    Zerocopy,
    /// UDP_SEGMENT: trains of datagrams, several a call.
    Trains,
    /// `sendmmsg` of single datagrams, where UDP_SEGMENT is missing.
    Datagrams,
}

impl SendMethod {
    /// By the call that it makes.
    pub fn word(self) -> &'static str {
        match self {
            SendMethod::Write => "send",
            SendMethod::Sendfile => "sendfile",
            SendMethod::Splice => "splice",
            SendMethod::Zerocopy => "MSG_ZEROCOPY",
            SendMethod::Trains => "trains",
            SendMethod::Datagrams => "datagrams",
        }
    }

    /// Whether it can be used for this protocol.
    pub fn is_for(self, protocol: Protocol) -> bool {
        let of_udp = matches!(self, SendMethod::Trains | SendMethod::Datagrams);
        of_udp == (protocol == Protocol::Udp)
    }
}

/// One end of a stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamSpec {
    pub protocol: Protocol,
    pub role: StreamRole,
    pub method: SendMethod,
    /// Bytes a call (TCP), or a request and its answer (`Ask`, `Echo`).
    pub write_bytes: u32,
    /// Payload of a datagram, bytes (UDP). At least 64.
    pub datagram_bytes: u32,
    /// Payload rate to keep, bytes per second; none: as fast as it goes (UDP: as fast as the receiver's
    /// answers allow).
    pub bytes_per_second: Option<f64>,
    /// The most that the kernel lets a TCP sender send at any moment, bytes per second (SO_MAX_PACING_RATE): below the
    /// bottleneck, so that no queue there overflows. None: as fast as it goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pacing_bytes_per_second: Option<f64>,
    /// Ends by itself after so many bytes of payload; none: runs until it is stopped.
    pub limit_bytes: Option<u64>,
    /// TCP congestion control of the sending end; none: the system's.
    pub congestion_control: Option<String>,
    /// SO_SNDBUF asked for, bytes; none: the kernel's (TCP sizes it by itself), for UDP what linerate finds
    /// right.
    pub send_buffer_bytes: Option<u64>,
    /// SO_RCVBUF asked for, bytes; none: as above.
    pub receive_buffer_bytes: Option<u64>,
    /// CPU of this end's thread; none: the kernel chooses.
    pub core: Option<u32>,
    /// Checksum what is sent and received (CRC-64/NVME of the stream).
    pub verify: bool,
    /// A receiver counts the bytes and leaves them in the kernel (TCP; MSG_TRUNC): what the network and the kernel
    /// carry, where a program's copy would be the limit. Not together with `verify`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub discard: bool,
}

impl StreamSpec {
    /// As fast as it goes, and as the system has it where nothing else is said: TCP in writes of 128 KiB, UDP in
    /// trains of datagrams that fit an MTU of 1500.
    pub fn new(protocol: Protocol, role: StreamRole) -> Self {
        StreamSpec {
            protocol,
            role,
            method: match protocol {
                Protocol::Tcp => SendMethod::Write,
                Protocol::Udp => SendMethod::Trains,
            },
            write_bytes: 128 << 10,
            datagram_bytes: 1472,
            bytes_per_second: None,
            pacing_bytes_per_second: None,
            limit_bytes: None,
            congestion_control: None,
            send_buffer_bytes: None,
            receive_buffer_bytes: None,
            core: None,
            verify: false,
            discard: false,
        }
    }

    /// So many small requests a second beside the bulk, on their timetable.
    pub fn asking(protocol: Protocol, requests_per_second: f64) -> Self {
        StreamSpec {
            write_bytes: REQUEST_BYTES,
            bytes_per_second: Some(requests_per_second * f64::from(REQUEST_BYTES)),
            ..StreamSpec::new(protocol, StreamRole::Ask)
        }
    }

    /// What the other end does: the same, the other way round. When it ends is this end's to say.
    pub fn other_end(&self) -> Self {
        StreamSpec { role: self.role.other(), limit_bytes: None, ..self.clone() }
    }
}

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
