//! The streams of one test at work: the thread of each, what can be asked of its socket, and all of them
//! together, started, watched, ended in the right order.

use super::data::{DataSocket, DataStream, Flags, Iperf3StreamSpec, StreamWork};
use super::tally::{Counted, Iperf3Tally};
use crate::flow::stream::{TcpSample, congestion_control};
use linerate_system::connection::{unacknowledged_bytes, view};
use linerate_system::{affinity, clock};
use socket2::SockRef;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

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
            let work = StreamWork { spec: &spec, flags: &flags, tally: &counted };
            let answer = match (&*at_work, sender) {
                (DataSocket::Tcp(stream), true) => work.send_tcp(stream),
                (DataSocket::Tcp(stream), false) => work.receive_tcp(stream),
                (DataSocket::Udp(socket), true) => work.send_udp(socket),
                (DataSocket::Udp(socket), false) => work.receive_udp(socket),
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

/// iperf3's number of the stream at a place in the order of opening: 2 is left out.
pub(crate) fn stream_id(place: usize) -> u32 {
    let place = u32::try_from(place).unwrap_or(u32::MAX - 2);
    if place == 0 { 1 } else { place + 2 }
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Iperf3Workers {
    pub members: Vec<Member>,
    pub start: Instant,
    flags: Arc<Flags>,
}

impl Iperf3Workers {
    /// Starts a thread for each stream.
    pub(crate) fn start(streams: Vec<DataStream>, spec: &Iperf3StreamSpec) -> io::Result<Iperf3Workers> {
        let flags = Arc::new(Flags::new(spec.bytes));
        let mut workers =
            Iperf3Workers { members: Vec::with_capacity(streams.len()), start: clock::now(), flags };
        for (place, stream) in streams.into_iter().enumerate() {
            let core = spec.cores.get(place % spec.cores.len().max(1)).copied();
            let member = Member::start(stream, spec.clone(), core, Arc::clone(&workers.flags), workers.start);
            match member {
                Ok(member) => workers.members.push(member),
                Err(error) => {
                    workers.end();
                    return Err(error);
                }
            }
        }
        Ok(workers)
    }

    pub(crate) fn counted(&self) -> Vec<Counted> {
        self.members.iter().map(|member| member.tally.counted()).collect()
    }

    /// No stream moves anything any more.
    pub(crate) fn ended(&self) -> bool {
        self.members.iter().all(|member| member.tally.ended())
    }

    /// All streams that send have sent what they had to, or failed.
    pub(crate) fn senders_ended(&self) -> bool {
        self.members.iter().filter(|member| member.sender).all(|member| member.tally.ended())
    }

    /// When the last byte was handed to the kernel, since the start.
    pub(crate) fn last_sent(&self) -> Duration {
        let senders = self.members.iter().filter(|member| member.sender);
        Duration::from_nanos(senders.map(|member| member.tally.counted().nanos).max().unwrap_or(0))
    }

    /// Ends the sending, and gives what is on its way at most this long to arrive where the kernel can tell
    /// (TCP).
    pub(crate) fn stop_sending(&mut self, patience: Duration) {
        self.flags.sending.end();
        for member in self.members.iter_mut().filter(|member| member.sender) {
            member.join();
            // Nagle's algorithm holds back the last piece until the one before is acknowledged; this lets it
            // go (tcp(7)).
            if let DataSocket::Tcp(stream) = &*member.socket {
                let _ = stream.set_nodelay(true);
            }
        }
        let start = clock::now();
        let waiting = |workers: &Iperf3Workers| {
            workers.members.iter().any(|member| member.sender && !member.acknowledged())
        };
        while clock::since(start) < patience && waiting(self) {
            // The test has ended, by a stop perhaps: what was sent arrives all the same.
            clock::sleep(Duration::from_millis(1));
        }
    }

    /// Says on the sending connections that nothing more comes. iperf3's client reads whole blocks: it would
    /// wait for the rest of one.
    pub(crate) fn close_senders(&self) {
        for member in self.members.iter().filter(|member| member.sender) {
            if let DataSocket::Tcp(stream) = &*member.socket {
                let _ = stream.shutdown(Shutdown::Write);
            }
        }
    }

    /// Waits until nothing has come for `quiet`, at most `patience`.
    pub(crate) fn drain(&self, quiet: Duration, patience: Duration) {
        let receivers = || self.members.iter().filter(|member| !member.sender);
        let bytes = || receivers().map(|member| member.tally.counted().bytes).sum::<u64>();
        let (start, mut last, mut since) = (clock::now(), bytes(), clock::now());
        while clock::since(start) < patience && clock::since(since) < quiet {
            if receivers().all(|member| member.tally.ended()) {
                return;
            }
            // As above: what is on its way belongs to the figures.
            clock::sleep(Duration::from_millis(2));
            let now = bytes();
            if now != last {
                (last, since) = (now, clock::now());
            }
        }
    }

    /// Ends everything. The sockets stay open until the workers is dropped.
    pub(crate) fn end(&mut self) {
        self.flags.end_all();
        self.members.iter_mut().for_each(Member::join);
    }
}

impl Drop for Iperf3Workers {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_number_is_left_out() {
        assert_eq!([0, 1, 2, 3].map(stream_id), [1, 3, 4, 5]);
    }
}
