//! One stream of a test at work: its thread, and what can be asked of its socket.

use super::data_stream::{DataSocket, DataStream, Iperf3StreamSpec};
use super::flags::Flags;
use super::tally::Iperf3Tally;
use super::{tcp, udp};
use crate::flow::stream::{TcpSample, congestion_control};
use linerate_system::affinity;
use linerate_system::connection::{unacknowledged_bytes, view};
use socket2::SockRef;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

/// One stream at work.
#[derive(Debug)]
pub(crate) struct Member {
    pub id: u32,
    pub sender: bool,
    pub socket: Arc<DataSocket>,
    pub tally: Arc<Iperf3Tally>,
    thread: Option<JoinHandle<()>>,
}

impl Member {
    /// Starts its thread.
    pub(crate) fn start(
        stream: DataStream,
        spec: Iperf3StreamSpec,
        core: Option<u32>,
        flags: Arc<Flags>,
        start: Instant,
    ) -> io::Result<Member> {
        let DataStream { id, sender, socket } = stream;
        let (socket, tally) = (Arc::new(socket), Arc::new(Iperf3Tally::new(start)));
        let (at_work, counted) = (Arc::clone(&socket), Arc::clone(&tally));
        let thread = std::thread::Builder::new().name(format!("iperf3-{id}")).spawn(move || {
            if let Some(core) = core {
                // A core that is not there: the kernel's choice will do, and the plan's word for it is not
                // ours to judge.
                let _ = affinity::pin_to(core);
            }
            affinity::wake_on_time();
            let answer = match (&*at_work, sender) {
                (DataSocket::Tcp(stream), true) => tcp::send(stream, &spec, &flags, &counted),
                (DataSocket::Tcp(stream), false) => tcp::receive(stream, &spec, &flags, &counted),
                (DataSocket::Udp(socket), true) => udp::send(socket, &spec, &flags, &counted),
                (DataSocket::Udp(socket), false) => udp::receive(socket, &spec, &flags, &counted),
            };
            counted.end(answer.err().map(|error| error.to_string()));
        })?;
        Ok(Member { id, sender, socket, tally, thread: Some(thread) })
    }

    /// Waits for its end.
    pub(crate) fn join(&mut self) {
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            self.tally.end(Some("its thread failed".into()));
        }
    }

    pub(crate) fn error(&self) -> Option<String> {
        self.tally.error()
    }

    /// This end and the other.
    pub(crate) fn addresses(&self) -> Option<(SocketAddr, SocketAddr)> {
        let (local, peer) = match &*self.socket {
            DataSocket::Tcp(stream) => (stream.local_addr(), stream.peer_addr()),
            DataSocket::Udp(socket) => (socket.local_addr(), socket.peer_addr()),
        };
        Some((local.ok()?, peer.ok()?))
    }

    /// SO_SNDBUF and SO_RCVBUF as granted, in the kernel's count, which is twice what was asked for.
    pub(crate) fn buffer_bytes(&self) -> Option<(u64, u64)> {
        let socket = match &*self.socket {
            DataSocket::Tcp(stream) => SockRef::from(stream),
            DataSocket::Udp(socket) => SockRef::from(socket),
        };
        Some((socket.send_buffer_size().ok()? as u64, socket.recv_buffer_size().ok()? as u64))
    }

    /// The kernel's view of a connection.
    pub(crate) fn tcp(&self) -> Option<TcpSample> {
        let DataSocket::Tcp(stream) = &*self.socket else { return None };
        TcpSample::of(stream, &congestion_control(stream))
    }

    /// Bytes of the stream that the other end's kernel has; none where the kernel does not report.
    pub(crate) fn acknowledged_bytes(&self) -> Option<u64> {
        let DataSocket::Tcp(stream) = &*self.socket else { return None };
        view(stream).ok().map(|view| view.info.acknowledged_bytes)
    }

    /// Whether that is all that was sent, or so little is missing that it is only the acknowledgement:
    /// receivers put off that of less than two segments, by 40 ms (RFC 1122 4.2.3.2), which would count as
    /// time of the test.
    pub(crate) fn acknowledged(&self) -> bool {
        let DataSocket::Tcp(stream) = &*self.socket else { return true };
        let Ok(missing) = unacknowledged_bytes(stream) else { return true };
        let segment = view(stream).map_or(0, |view| view.info.segment_bytes as usize);
        self.tally.error().is_some() || missing <= 2 * segment
    }
}
