//! The streams of `linerate network`: bytes from memory or from a file over TCP or UDP, counted datagram by
//! datagram.
//!
//! A worker (`flow::worker`) is the short way from a disk to the wire, with nothing of our own in its
//! datagrams. A stream is the measuring instrument: it knows what was lost, doubled and late, how the kernel
//! treated it, and it runs in either direction. The client always opens it (so that it passes firewalls, and
//! so that nothing is sent to an address that did not ask); who sends is in `StreamSpec`. `send_blindly` alone
//! sends without another end, for a switch that drops; who calls it has asked the user.
//!
//! `prepare` sets a socket up, `open_udp` and `accept_udp` bring the two ends of a UDP stream together (a TCP
//! connection is admitted by who accepts it), then each end is `run`, or `start`ed on a thread of its own.

pub mod account;
pub mod datagram;
mod hand;
mod request_pacer;
mod spec;
mod tcp_send;
mod udp_receive;
mod udp_send;

#[cfg(test)]
mod tests;

use super::counters::IncomingCounts;
pub use super::counters::{StreamCounters, StreamSample, TcpSample, ZeroCopyCounters};
use super::progress::{CpuClock, other_end_gone};
use super::receive::{self, Terms};
pub use super::start::RunningWorker as RunningStream;
use super::wire::StreamToken;
pub use super::wire::{accept_udp, open_udp};
pub use super::worker::FileSender;
use super::worker::WorkerError;
pub use hand::Content;
pub(crate) use hand::{Hand, Position};
use linerate_facts::failure::Failure;
use linerate_system::readiness::is_waiting;
use linerate_system::stop::{STOP_CHECK, Stop};
use linerate_system::{affinity, clock, socket};
pub(crate) use spec::set_congestion_control;
pub use spec::{REQUEST_BYTES, SendMethod, StreamRole, StreamSpec, prepare};
use std::io::{self, Read};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tcp_send::TcpView;
pub(crate) use tcp_send::{SendAccount, congestion_control, send_all};
pub use udp_send::{is_too_large, send_blindly};

/// A receiver that answers nothing for this long is gone (for TCP that is TCP_USER_TIMEOUT, tcp(7)).
const RECEIVER_TIMEOUT: Duration = Duration::from_secs(20);

/// `what` it has done for none of what was sent.
fn receiver_silent(what: &str) -> io::Error {
    let seconds = RECEIVER_TIMEOUT.as_secs();
    io::Error::new(
        io::ErrorKind::TimedOut,
        format!(
            "the receiver has {what} nothing for {seconds} s: is its host up, the link plugged in and its agent \
             running?"
        ),
    )
}

/// An admitted socket, connected to the other end.
#[derive(Debug)]
pub enum StreamSocket {
    Tcp(TcpStream),
    Udp { socket: UdpSocket, token: StreamToken },
}

impl StreamSocket {
    /// One that was opened over TCP.
    pub fn into_tcp(self) -> Result<TcpStream, Failure> {
        match self {
            StreamSocket::Tcp(stream) => Ok(stream),
            StreamSocket::Udp { .. } => Err(Failure::lacks("the agent answered with a stream of datagrams")),
        }
    }

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
    stop: &Stop,
) -> io::Result<()> {
    let mut thread = StreamThread { spec, content: &content, counters, stop, cpu: CpuClock::new() };
    let result = match socket {
        StreamSocket::Tcp(stream) => run_tcp(&mut thread, stream),
        StreamSocket::Udp { socket, token } => run_udp(&mut thread, socket, token),
    };
    thread.cpu.store(&counters.cpu_nanos);
    counters.ended.store(true, Ordering::Release);
    result
}

/// What runs one end.
struct StreamThread<'a> {
    spec: &'a StreamSpec,
    /// What a sender sends.
    content: &'a Content,
    counters: &'a StreamCounters,
    stop: &'a Stop,
    cpu: CpuClock,
}

impl StreamThread<'_> {
    /// Stores its CPU time if that is due.
    fn tick(&mut self, now: Instant) {
        self.cpu.tick(now, &self.counters.cpu_nanos);
    }
}

fn run_tcp(thread: &mut StreamThread<'_>, stream: TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(STOP_CHECK))?;
    stream.set_write_timeout(Some(STOP_CHECK))?;
    spec::notice_a_lost_host(&stream);
    let counters = thread.counters;
    spec::tell_buffers(&stream, counters);
    let result = match thread.spec.role {
        StreamRole::Send => tcp_send::send(thread, &stream),
        StreamRole::Receive | StreamRole::Worker => receive_tcp(thread, &stream),
        StreamRole::Ask => request_pacer::ask_tcp(thread, &stream),
        StreamRole::Echo => request_pacer::echo_tcp(thread, &stream),
    };
    spec::tell_buffers(&stream, counters);
    result
}

/// Receives until the other end's end, or the stop.
fn receive_tcp(thread: &StreamThread<'_>, stream: &TcpStream) -> io::Result<()> {
    let StreamThread { spec, counters, stop, .. } = *thread;
    let discards = spec.discard && !spec.verify;
    // Nothing is copied, so that waking up costs little, and while a receiver sleeps the sender's core may have to do TCP's
    // work for it: a tenth of the rate on loopback.
    if !discards {
        receive::wake_seldom(stream);
    }
    let mut input =
        ViewedStream { stream, discards, calls: &counters.calls, view: TcpView::new(stream, counters) };
    let counts = IncomingCounts::of_stream(&counters.progress, &counters.cpu_nanos, &counters.checksum);
    let terms = Terms { verify: spec.verify, ..Terms::default() };
    let result = receive::take_to_memory(&mut input, &terms, counts, stop);
    input.view.store();
    result
}

/// A connection of which the kernel's view is looked at meanwhile.
struct ViewedStream<'a> {
    stream: &'a TcpStream,
    /// What is read stays in the kernel.
    discards: bool,
    calls: &'a AtomicU64,
    view: TcpView<'a>,
}

impl Read for ViewedStream<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let taken = match self.discards {
            true => socket::discard(self.stream, into.len()),
            false => self.stream.read(into),
        };
        bump(self.calls, u64::from(taken.as_ref().is_ok_and(|bytes| *bytes > 0)));
        self.view.tick(clock::now());
        taken.map_err(receive::broken_stream)
    }
}

fn run_udp(thread: &mut StreamThread<'_>, socket: UdpSocket, token: StreamToken) -> io::Result<()> {
    spec::prepare_udp(thread.spec, &socket)?;
    socket.set_read_timeout(Some(STOP_CHECK))?;
    socket.set_write_timeout(Some(STOP_CHECK))?;
    spec::tell_buffers(&socket, thread.counters);
    match thread.spec.role {
        StreamRole::Send => udp_send::send(thread, socket, token),
        StreamRole::Receive | StreamRole::Worker => udp_receive::receive(thread, &socket, &token),
        StreamRole::Ask => request_pacer::ask_udp(thread, &socket, &token),
        StreamRole::Echo => request_pacer::echo_udp(thread, &socket, &token),
    }
}

/// The same as `run` on a thread of its own, pinned to `spec.core`.
pub fn start(
    spec: StreamSpec,
    socket: StreamSocket,
    content: Content,
    counters: Arc<StreamCounters>,
    stop: Arc<Stop>,
) -> io::Result<RunningStream> {
    RunningStream::spawn("stream", move |_| {
        if let Some(core) = spec.core {
            // A core that went offline meanwhile: run anywhere rather than not at all.
            let _ = affinity::pin_to(core);
        }
        run(&spec, socket, content, &counters, &stop).map_err(WorkerError::Stream)
    })
}

/// Adds to a counter that only this thread writes.
fn bump(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed) + by, Ordering::Relaxed);
}
