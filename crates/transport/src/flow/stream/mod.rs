//! The streams of `linerate network`: bytes from memory or from a file over TCP or UDP, counted datagram by
//! datagram.
//!
//! A worker (`flow::worker`) is the short way from a disk to the wire, with nothing of our own in its
//! datagrams. A stream is the measuring instrument: it knows what was lost, doubled and late, how the kernel
//! treated it, and it runs in either direction. The client always opens it (so that it passes firewalls, and
//! so that nothing is sent to an address that did not ask); who sends is in `StreamSpec`. `blind` alone sends
//! without another end, for a switch that drops; who calls it has asked the user.
//!
//! `prepare` sets a socket up, `open_udp` and `accept_udp` bring the two ends of a UDP stream together (a TCP
//! connection is admitted by who accepts it), then each end is `run`, or `start`ed on a thread of its own.

pub mod account;
mod ahead;
mod blind;
mod content;
mod counters;
pub mod datagram;
mod delay;
mod file_sender;
mod hand;
mod open;
mod prepare;
mod request_pacer;
mod spec;
mod tcp_receive;
mod tcp_send;
mod tcp_view;
mod udp_receive;
mod udp_send;

#[cfg(test)]
mod tests;

pub use blind::send_blindly;
pub use content::Content;
pub use counters::{StreamCounters, StreamSample, TcpSample, ZeroCopyCounters};
pub use file_sender::FileSender;
pub use open::{accept_udp, open_udp};
pub use prepare::prepare;
pub use spec::{SendMethod, StreamRole, StreamSpec};
pub use udp_send::is_too_large;

use super::moments::CpuClock;
use super::wire::StreamToken;
use linerate_system::affinity;
use linerate_system::readiness::is_waiting;
use std::io;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long an end sleeps in the kernel before it looks whether it should stop.
const STOP_CHECK: Duration = Duration::from_millis(100);

/// An admitted socket, connected to the other end.
#[derive(Debug)]
pub enum StreamSocket {
    Tcp(TcpStream),
    Udp { socket: UdpSocket, token: StreamToken },
}

impl StreamSocket {
    /// This end and the other; none where the other has gone already.
    pub fn addresses(&self) -> Option<(SocketAddr, SocketAddr)> {
        let (own, other) = match self {
            StreamSocket::Tcp(stream) => (stream.local_addr(), stream.peer_addr()),
            StreamSocket::Udp { socket, .. } => (socket.local_addr(), socket.peer_addr()),
        };
        Some((own.ok()?, other.ok()?))
    }
}

/// Runs one end on the calling thread until its limit, until `stop`, or until the other end ends.
/// `counters.ended` is set last of all.
///
/// A sender that is told to stop ends the stream in order: the receiver gets all that was sent, then learns
/// of the end (UDP: and how much there was). A receiver that is told to stop just ends; stop the sender first
/// where every byte is to be counted. A sender whose receiver goes away ends with an error, unless it was
/// told to stop.
pub fn run(
    spec: &StreamSpec,
    socket: StreamSocket,
    content: Content,
    counters: &StreamCounters,
    stop: &AtomicBool,
) -> io::Result<()> {
    let mut clock = CpuClock::new();
    let result = match socket {
        StreamSocket::Tcp(stream) => run_tcp(spec, stream, content, counters, stop, &mut clock),
        StreamSocket::Udp { socket, token } => {
            run_udp(spec, socket, token, content, counters, stop, &mut clock)
        }
    };
    clock.store(&counters.cpu_nanos);
    counters.ended.store(true, Ordering::Release);
    result
}

fn run_tcp(
    spec: &StreamSpec,
    stream: TcpStream,
    content: Content,
    counters: &StreamCounters,
    stop: &AtomicBool,
    clock: &mut CpuClock,
) -> io::Result<()> {
    stream.set_read_timeout(Some(STOP_CHECK))?;
    stream.set_write_timeout(Some(STOP_CHECK))?;
    prepare::notice_a_lost_host(&stream);
    prepare::tell_buffers(&stream, counters);
    let result = match spec.role {
        StreamRole::Send => tcp_send::send(spec, &stream, content, counters, stop, clock),
        StreamRole::Receive => tcp_receive::receive(spec, &stream, counters, stop, clock),
        StreamRole::Ask => request_pacer::ask_tcp(spec, &stream, counters, stop, clock),
        StreamRole::Echo => request_pacer::echo_tcp(spec, &stream, counters, stop, clock),
    };
    prepare::tell_buffers(&stream, counters);
    result
}

fn run_udp(
    spec: &StreamSpec,
    socket: UdpSocket,
    token: StreamToken,
    content: Content,
    counters: &StreamCounters,
    stop: &AtomicBool,
    clock: &mut CpuClock,
) -> io::Result<()> {
    prepare::prepare_udp(spec, &socket)?;
    socket.set_read_timeout(Some(STOP_CHECK))?;
    socket.set_write_timeout(Some(STOP_CHECK))?;
    prepare::tell_buffers(&socket, counters);
    match spec.role {
        StreamRole::Send => udp_send::send(spec, socket, token, content, counters, stop, clock),
        StreamRole::Receive => udp_receive::receive(&socket, &token, counters, stop, clock),
        StreamRole::Ask => request_pacer::ask_udp(spec, &socket, &token, counters, stop, clock),
        StreamRole::Echo => request_pacer::echo_udp(&socket, &token, counters, stop, clock),
    }
}

/// Why a stream ended, where that was neither its limit nor a stop nor the other end.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("the stream's thread panicked: please report this")]
    Panicked,
}

/// A running stream.
#[derive(Debug)]
pub struct RunningStream {
    thread: JoinHandle<io::Result<()>>,
}

impl RunningStream {
    /// It has ended, by itself or because it was stopped.
    pub fn ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for its end.
    pub fn join(self) -> Result<(), StreamError> {
        Ok(self.thread.join().map_err(|_| StreamError::Panicked)??)
    }
}

/// The same as `run` on a thread of its own, pinned to `spec.core`.
pub fn start(
    spec: StreamSpec,
    socket: StreamSocket,
    content: Content,
    counters: Arc<StreamCounters>,
    stop: Arc<AtomicBool>,
) -> io::Result<RunningStream> {
    let thread = std::thread::Builder::new().name("stream".into()).spawn(move || {
        if let Some(core) = spec.core {
            // A core that went offline meanwhile: run anywhere rather than not at all.
            let _ = affinity::pin_to(core);
        }
        run(&spec, socket, content, &counters, &stop)
    })?;
    Ok(RunningStream { thread })
}

/// Adds to a counter that only this thread writes.
fn bump(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed) + by, Ordering::Relaxed);
}

/// The other end closed the connection, or its port.
fn other_end_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, NotConnected};
    matches!(
        error.kind(),
        BrokenPipe | ConnectionAborted | ConnectionRefused | ConnectionReset | NotConnected
    )
}
