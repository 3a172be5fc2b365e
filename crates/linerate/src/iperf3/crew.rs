//! The streams of one test at work: a thread each, their flags, their counters.

use super::tally::{Counted, Tally};
use super::{tcp, udp};
use crate::flow::stream::TcpSample;
use linerate_system::affinity;
use linerate_system::connection::{TcpView, unacknowledged_bytes, view};
use socket2::SockRef;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A stream's socket, open and admitted.
#[derive(Debug)]
pub enum DataSocket {
    Tcp(TcpStream),
    Udp(UdpSocket),
}

/// A stream before it works.
#[derive(Debug)]
pub struct DataStream {
    pub id: u32,
    pub sender: bool,
    pub socket: DataSocket,
}

/// What each stream of a test does.
#[derive(Clone, Debug)]
pub struct Order {
    pub block_bytes: usize,
    /// Of each stream; 0: unpaced.
    pub bits_per_second: u64,
    pub wide_counters: bool,
    /// Trains that one call may bring: each takes 64 KiB of memory.
    pub receive_batch: usize,
    pub cores: Vec<u32>,
    /// Ends after so many bytes, of all sending streams together.
    pub bytes: Option<u64>,
}

/// iperf3's number of the stream at a place in the order of opening: 2 is left out.
pub fn stream_id(place: usize) -> u32 {
    let place = u32::try_from(place).unwrap_or(u32::MAX - 2);
    if place == 0 { 1 } else { place + 2 }
}

/// What tells the threads to end.
#[derive(Debug)]
pub struct Flags {
    stop_sending: AtomicBool,
    stop_receiving: AtomicBool,
    /// Bytes that may still be sent.
    budget: AtomicU64,
    bounded: bool,
}

impl Flags {
    fn new(bytes: Option<u64>) -> Flags {
        Flags {
            stop_sending: AtomicBool::new(false),
            stop_receiving: AtomicBool::new(false),
            budget: AtomicU64::new(bytes.unwrap_or(0)),
            bounded: bytes.is_some(),
        }
    }

    pub fn stop_sending(&self) -> bool {
        self.stop_sending.load(Ordering::Relaxed)
    }

    pub fn stop_receiving(&self) -> bool {
        self.stop_receiving.load(Ordering::Relaxed)
    }

    /// The test is over, but for what is on its way.
    pub fn ending(&self) -> bool {
        self.stop_sending()
    }

    /// At most `wish` bytes of what may still be sent; 0: nothing.
    pub fn take(&self, wish: usize) -> usize {
        if !self.bounded {
            return wish;
        }
        let mut taken = 0;
        let _ = self.budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            taken = left.min(wish as u64);
            Some(left - taken)
        });
        taken as usize
    }

    /// The same in whole datagrams: the last one goes beyond the budget, as iperf3's does.
    pub fn take_whole(&self, wish: usize, size: usize) -> usize {
        self.take(wish).div_ceil(size) * size
    }

    /// What was taken and not sent.
    pub fn give_back(&self, bytes: usize) {
        if self.bounded && bytes > 0 {
            self.budget.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }
}

/// One stream at work.
#[derive(Debug)]
pub struct Member {
    pub id: u32,
    pub sender: bool,
    socket: Arc<DataSocket>,
    tally: Arc<Tally>,
    thread: Option<JoinHandle<()>>,
}

/// All of them.
#[derive(Debug)]
pub struct Crew {
    pub members: Vec<Member>,
    pub start: Instant,
    flags: Arc<Flags>,
}

impl Crew {
    /// Starts a thread for each stream.
    pub fn start(streams: Vec<DataStream>, order: &Order) -> io::Result<Crew> {
        let flags = Arc::new(Flags::new(order.bytes));
        let mut crew = Crew { members: Vec::with_capacity(streams.len()), start: Instant::now(), flags };
        for (place, stream) in streams.into_iter().enumerate() {
            let core = order.cores.get(place % order.cores.len().max(1)).copied();
            let member = start_one(stream, order.clone(), core, Arc::clone(&crew.flags), crew.start);
            match member {
                Ok(member) => crew.members.push(member),
                Err(error) => {
                    crew.end();
                    return Err(error);
                }
            }
        }
        Ok(crew)
    }

    pub fn counted(&self) -> Vec<Counted> {
        self.members.iter().map(|member| member.tally.counted()).collect()
    }

    /// No stream moves anything any more.
    pub fn ended(&self) -> bool {
        self.members.iter().all(|member| member.tally.ended())
    }

    /// All streams that send have sent what they had to, or failed.
    pub fn senders_ended(&self) -> bool {
        self.members.iter().filter(|member| member.sender).all(|member| member.tally.ended())
    }

    /// When the last byte was handed to the kernel, since the start.
    pub fn last_sent(&self) -> Duration {
        let senders = self.members.iter().filter(|member| member.sender);
        Duration::from_nanos(senders.map(|member| member.tally.counted().nanos).max().unwrap_or(0))
    }

    /// Ends the sending, and gives what is on its way at most this long to arrive where the kernel can tell (TCP).
    pub fn stop_sending(&mut self, patience: Duration) {
        self.flags.stop_sending.store(true, Ordering::Relaxed);
        for member in self.members.iter_mut().filter(|member| member.sender) {
            member.join();
            // Nagle's algorithm holds back the last piece until the one before is acknowledged; this lets it go (tcp(7)).
            if let DataSocket::Tcp(stream) = &*member.socket {
                let _ = stream.set_nodelay(true);
            }
        }
        let start = Instant::now();
        let waiting = |crew: &Crew| crew.members.iter().any(|member| member.sender && !member.acknowledged());
        while start.elapsed() < patience && waiting(self) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Says on the sending connections that nothing more comes. iperf3's client reads whole blocks: it would wait for the rest of one.
    pub fn close_senders(&self) {
        for member in self.members.iter().filter(|member| member.sender) {
            if let DataSocket::Tcp(stream) = &*member.socket {
                let _ = stream.shutdown(Shutdown::Write);
            }
        }
    }

    /// Waits until nothing has come for `quiet`, at most `patience`.
    pub fn drain(&self, quiet: Duration, patience: Duration) {
        let receivers = || self.members.iter().filter(|member| !member.sender);
        let bytes = || receivers().map(|member| member.tally.counted().bytes).sum::<u64>();
        let (start, mut last, mut since) = (Instant::now(), bytes(), Instant::now());
        while start.elapsed() < patience && since.elapsed() < quiet {
            if receivers().all(|member| member.tally.ended()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
            let now = bytes();
            if now != last {
                (last, since) = (now, Instant::now());
            }
        }
    }

    /// Ends everything. The sockets stay open until the crew is dropped.
    pub fn end(&mut self) {
        self.flags.stop_sending.store(true, Ordering::Relaxed);
        self.flags.stop_receiving.store(true, Ordering::Relaxed);
        self.members.iter_mut().for_each(Member::join);
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.end();
    }
}

fn start_one(
    stream: DataStream,
    order: Order,
    core: Option<u32>,
    flags: Arc<Flags>,
    start: Instant,
) -> io::Result<Member> {
    let DataStream { id, sender, socket } = stream;
    let (socket, tally) = (Arc::new(socket), Arc::new(Tally::new(start)));
    let (at_work, counted) = (Arc::clone(&socket), Arc::clone(&tally));
    let thread = std::thread::Builder::new().name(format!("iperf3-{id}")).spawn(move || {
        if let Some(core) = core {
            // A core that is not there: the kernel's choice will do, and the plan's word for it is not ours to judge.
            let _ = affinity::pin_to(core);
        }
        affinity::wake_on_time();
        let answer = match (&*at_work, sender) {
            (DataSocket::Tcp(stream), true) => tcp::send(stream, &order, &flags, &counted),
            (DataSocket::Tcp(stream), false) => tcp::receive(stream, &order, &flags, &counted),
            (DataSocket::Udp(socket), true) => udp::send(socket, &order, &flags, &counted),
            (DataSocket::Udp(socket), false) => udp::receive(socket, &order, &flags, &counted),
        };
        counted.end(answer.err().map(|error| error.to_string()));
    })?;
    Ok(Member { id, sender, socket, tally, thread: Some(thread) })
}

impl Member {
    fn join(&mut self) {
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            self.tally.end(Some("its thread failed".into()));
        }
    }

    pub fn error(&self) -> Option<String> {
        self.tally.error()
    }

    /// This end and the other.
    pub fn addresses(&self) -> Option<(SocketAddr, SocketAddr)> {
        let (local, peer) = match &*self.socket {
            DataSocket::Tcp(stream) => (stream.local_addr(), stream.peer_addr()),
            DataSocket::Udp(socket) => (socket.local_addr(), socket.peer_addr()),
        };
        Some((local.ok()?, peer.ok()?))
    }

    /// SO_SNDBUF and SO_RCVBUF as granted, in the kernel's count, which is twice what was asked for.
    pub fn buffer_bytes(&self) -> Option<(u64, u64)> {
        let socket = match &*self.socket {
            DataSocket::Tcp(stream) => SockRef::from(stream),
            DataSocket::Udp(socket) => SockRef::from(socket),
        };
        Some((socket.send_buffer_size().ok()? as u64, socket.recv_buffer_size().ok()? as u64))
    }

    /// The kernel's view of a connection.
    pub fn tcp(&self) -> Option<TcpSample> {
        let DataSocket::Tcp(stream) = &*self.socket else { return None };
        Some(sample(&view(stream).ok()?, congestion_control(stream)))
    }

    /// Bytes of the stream that the other end's kernel has; none where the kernel does not tell.
    pub fn acknowledged_bytes(&self) -> Option<u64> {
        let DataSocket::Tcp(stream) = &*self.socket else { return None };
        view(stream).ok().map(|view| view.info.acknowledged_bytes)
    }

    /// Whether that is all that was sent, or so little is missing that it is only the acknowledgement: receivers put off that of less than
    /// two segments, by 40 ms (RFC 1122 4.2.3.2), which would count as time of the test.
    fn acknowledged(&self) -> bool {
        let DataSocket::Tcp(stream) = &*self.socket else { return true };
        let Ok(missing) = unacknowledged_bytes(stream) else { return true };
        let segment = view(stream).map_or(0, |view| view.info.segment_bytes as usize);
        self.tally.error().is_some() || missing <= 2 * segment
    }
}

/// Its congestion control; empty where the kernel does not tell.
fn congestion_control(stream: &TcpStream) -> String {
    let name = SockRef::from(stream).tcp_congestion().unwrap_or_default();
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}

fn sample(view: &TcpView, congestion_control: String) -> TcpSample {
    let info = &view.info;
    TcpSample {
        retransmits: info.retransmits.into(),
        rtt_micros: info.rtt_us,
        rtt_variation_micros: view.rtt_variation_us,
        // Unmeasured: all ones (struct minmax, include/linux/win_minmax.h).
        min_rtt_micros: if view.min_rtt_us == u32::MAX { 0 } else { view.min_rtt_us },
        congestion_window_bytes: u64::from(view.congestion_window_segments) * u64::from(info.segment_bytes),
        send_window_bytes: view.send_window_bytes.into(),
        delivery_rate: view.delivery_rate,
        busy_micros: info.busy_us,
        receiver_limited_micros: info.receiver_limited_us,
        send_buffer_limited_micros: info.send_buffer_limited_us,
        segment_bytes: info.segment_bytes,
        path_mtu: view.path_mtu,
        congestion_control,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_number_is_left_out() {
        assert_eq!([0, 1, 2, 3].map(stream_id), [1, 3, 4, 5]);
    }

    #[test]
    fn a_budget_is_spent_once_and_in_whole_datagrams() {
        let flags = Flags::new(Some(1000));
        assert_eq!(flags.take(600), 600);
        flags.give_back(100);
        assert_eq!(flags.take_whole(400, 150), 450);
        assert_eq!((flags.take(600), flags.take(1)), (100, 0));
        assert_eq!(Flags::new(None).take(7), 7);
    }
}
