//! The receiving end: takes the bytes, counts them, optionally checksums them, and gives nothing back but feedback to the sender.

use super::progress::Progress;
use std::io;
use std::net::{TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Instant;

/// Counters of one receiving lane: written by its thread, read by the control channel.
#[derive(Debug)]
pub struct Received {
    /// Payload bytes and when the last came.
    pub progress: Progress,
    /// Datagrams (UDP).
    pub datagrams: AtomicU64,
    /// Drops by the socket's buffer (SO_RXQ_OVFL).
    pub socket_drops: AtomicU64,
    /// CPU time of the receiving thread, nanoseconds.
    pub cpu_nanos: AtomicU64,
    /// CRC-64/NVME of the stream so far, where it is verified (TCP).
    pub checksum: AtomicU64,
    /// Receive buffer granted, bytes.
    pub buffer_bytes: AtomicU64,
    /// The stream has ended and everything above is final.
    pub ended: AtomicBool,
}

impl Received {
    /// Nothing received yet.
    pub fn new(start: Instant) -> Self {
        Received {
            progress: Progress::new(start),
            datagrams: AtomicU64::new(0),
            socket_drops: AtomicU64::new(0),
            cpu_nanos: AtomicU64::new(0),
            checksum: AtomicU64::new(0),
            buffer_bytes: AtomicU64::new(0),
            ended: AtomicBool::new(false),
        }
    }
}

/// Receives a TCP data stream (already admitted: the token is read) until its end or until `stop`. Blocks; give it a thread.
pub fn receive_tcp(
    _stream: TcpStream,
    _verify: bool,
    _received: &Received,
    _stop: &AtomicBool,
) -> io::Result<()> {
    todo!()
}

/// Admits the sender that shows `token`, then receives its datagrams until `stop`. Blocks; give it a thread.
///
/// Nothing is sent before the token was shown, then only small feedback to the address that showed it.
pub fn receive_udp(
    _socket: UdpSocket,
    _token: &[u8; 32],
    _received: &Received,
    _stop: &AtomicBool,
) -> io::Result<()> {
    todo!()
}
