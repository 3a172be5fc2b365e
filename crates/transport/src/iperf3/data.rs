//! The data of a test, over TCP and over UDP; and one stream of it before it works: its socket, what it does, and what
//! tells it to end: the word of who leads the test, or that all bytes that were asked for are sent.
//!
//! Over TCP blocks from memory go out, and whatever comes is taken in.
//!
//! Blocks go out as pages of a file in memory (sendfile): between two cores that moves half as much again as
//! copying them (measured against Debian's server: 13 and 9 Gb/s on a busy machine, 15 with blocks of 256
//! KiB), and is what iperf3 does with `-Z`.
//!
//! Over UDP trains of datagrams with iperf3's header go out, and trains of them come in.
//!
//! Out, the datagrams of a train lie in one buffer, each with its own header, and cross the stack together
//! (UDP_SEGMENT): that is what makes small datagrams ten times as fast as one call for each.

use super::tally::{Header, Iperf3Tally, Sequence};
use crate::closed_port::ClosedPort;
use crate::flow::counters::IncomingCounts;
use crate::flow::rate_limit::Allowance;
use crate::flow::receive::{READ_BYTES, Terms, take};
use crate::flow::source::fill;
use crate::flow::stream::{
    Content, Hand, Position, SendAccount, SendMethod, StreamRole, StreamSpec, send_all,
};
use crate::pace::Pace;
use linerate_facts::protocol::Protocol;
use linerate_system::clock::{self, POLL_INTERVAL};
use linerate_system::readiness::is_waiting;
use linerate_system::segmentation::{MOST_TRAIN_BYTES, Segmentation, SendRefusal, TrainSender};
use linerate_system::stop::Stop;
use linerate_system::trains::TrainReceiver;
use std::io::{self, ErrorKind};
use std::net::{TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Less than a segment at once would only cost calls.
const LEAST_WRITE: usize = 1448;

/// Pages are handed over where a block is at least this large; below it, looking them up costs more than
/// copying.
const LEAST_PAGES: usize = 64 << 10;

/// Trains in one call of an unpaced sender: crossing into the kernel is a tenth of the cost of a train.
const TRAINS: usize = 8;
/// A closed port is tried again after this.
const CLOSED_AGAIN: Duration = Duration::from_millis(5);
/// After a refusal, room comes about this soon.
const AFTER_REFUSAL: Duration = Duration::from_micros(100);
/// The other end's port is closed: it may be that its stream is not open yet, so this long nothing else came
/// of it.
const REFUSED_FOR: Duration = Duration::from_secs(2);

/// Opens a stream: what a client sends, as a number on a little-endian host and on a big-endian one, now and
/// before 3.10.
const CONNECT: [[u8; 4]; 4] =
    [*b"6789", *b"9876", 123_456_789u32.to_le_bytes(), 123_456_789u32.to_be_bytes()];
/// What a server answers.
const REPLY: [[u8; 4]; 4] = [*b"9876", *b"6789", 987_654_321u32.to_le_bytes(), 987_654_321u32.to_be_bytes()];

/// What one stream of a test works with.
#[derive(Clone, Copy)]
pub(crate) struct StreamWork<'a> {
    pub spec: &'a Iperf3StreamSpec,
    pub flags: &'a Flags,
    pub tally: &'a Iperf3Tally,
}

impl StreamWork<'_> {
    /// Sends until it is told to stop, or the bytes asked for are sent. An error says what ended it before.
    pub(crate) fn send_tcp(self, stream: &TcpStream) -> io::Result<()> {
        stream.set_write_timeout(Some(POLL_INTERVAL))?;
        let block_bytes = self.spec.block_bytes;
        let of = |method| {
            let write_bytes = u32::try_from(block_bytes).unwrap_or(u32::MAX);
            let spec = StreamSpec { method, write_bytes, ..StreamSpec::new(Protocol::Tcp, StreamRole::Send) };
            let (hand, round_bytes) = Hand::new(&spec, stream, &Content::Memory)?;
            Ok((hand, Position::new(&spec, &Content::Memory, round_bytes)?))
        };
        let pages = if block_bytes >= LEAST_PAGES { SendMethod::Sendfile } else { SendMethod::Write };
        // A host may refuse files in memory.
        let (mut hand, position) = of(pages).or_else(|_: io::Error| of(SendMethod::Write))?;
        let mut account = TestAccount { flags: self.flags, tally: self.tally, position, block_bytes };
        send_all(&mut hand, &mut account, self.spec.pace(), LEAST_WRITE, None)
    }

    /// Takes until it is told to stop, or the other end has sent all.
    pub(crate) fn receive_tcp(self, mut stream: &TcpStream) -> io::Result<()> {
        let StreamWork { spec, flags, tally } = self;
        stream.set_read_timeout(Some(POLL_INTERVAL))?;
        let terms = Terms { pace: spec.receive_pace.clone(), ..Terms::default() };
        let unread = AtomicU64::new(0);
        let counts = IncomingCounts::of_stream(&tally.progress, &unread, &unread);
        let mut block = vec![0; spec.block_bytes.min(READ_BYTES)];
        match take(&mut stream, &mut block, &terms, counts, &flags.receiving) {
            // The other end closed while something of our own was on its way: it has sent what it had.
            Err(error) if error.kind() == ErrorKind::ConnectionReset && flags.sending.is_ended() => Ok(()),
            taken => taken,
        }
    }

    /// Sends until it is told to stop, or the bytes asked for are sent.
    pub(crate) fn send_udp(self, socket: &UdpSocket) -> io::Result<()> {
        let StreamWork { spec, flags, tally } = self;
        socket.set_write_timeout(Some(POLL_INTERVAL))?;
        let size = spec.block_bytes;
        let mut pace = spec.pace();
        let mut trains = train_sender(socket, size, pace.as_ref());
        let (mut packets, mut port) = (0, ClosedPort::new(REFUSED_FOR));
        while !flags.sending.is_ended() {
            let wait = pace.as_ref().map_or(Duration::ZERO, |pace| pace.wait(clock::now()));
            if !wait.is_zero() {
                flags.sending.wait(wait);
                continue;
            }
            let wish = flags.take_whole(trains.most_bytes(), size);
            if wish == 0 {
                break;
            }
            let mut header = Header { sent_nanos: since_epoch(clock::date()), number: packets + 1 };
            for datagram in trains.datagrams_mut(wish) {
                header.write(datagram, spec.wide_counters);
                header.number += 1;
            }
            match trains.send(socket, wish) {
                Ok(sent) => {
                    flags.give_back(wish - sent);
                    packets += sent.div_ceil(size) as u64;
                    tally.datagrams_sent(sent as u64, packets);
                    if let Some(pace) = &mut pace {
                        pace.sent(sent, clock::now());
                    }
                }
                Err(refusal) => {
                    flags.give_back(wish);
                    self.go_on_after(refusal, &mut port)?;
                }
            }
        }
        Ok(())
    }

    /// Waits for what passes; what does not is the error.
    fn go_on_after(self, refusal: SendRefusal, port: &mut ClosedPort) -> io::Result<()> {
        let StreamWork { flags, tally, .. } = self;
        match refusal {
            SendRefusal::Busy => {
                tally.refused();
                flags.sending.wait(AFTER_REFUSAL);
            }
            // Datagrams larger than the path's MTU go out in fragments then, as iperf3's do.
            SendRefusal::SegmentationOff => {}
            SendRefusal::PortClosed(_) if !port.reported(clock::now()) => {
                flags.sending.wait(CLOSED_AGAIN);
            }
            SendRefusal::PortClosed(error) | SendRefusal::TooLarge(error) | SendRefusal::Failed(error) => {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Takes until it is told to stop. What is not this stream's is counted and not believed.
    pub(crate) fn receive_udp(self, socket: &UdpSocket) -> io::Result<()> {
        let StreamWork { spec, flags, tally } = self;
        socket.set_read_timeout(Some(POLL_INTERVAL))?;
        let peer = socket.peer_addr()?;
        let mut batch = TrainReceiver::new(spec.receive_batch);
        let (mut sequence, mut strangers) = (Sequence::default(), 0);
        while !flags.receiving.is_ended() {
            match batch.receive(socket) {
                Ok(_) => {}
                // The other end closed its port: nothing more comes.
                Err(error) if is_waiting(&error) || error.kind() == ErrorKind::ConnectionRefused => continue,
                Err(error) => return Err(error),
            }
            let mut bytes = 0;
            for train in batch.trains() {
                // Queued before the socket was connected.
                if train.from != peer {
                    strangers += train.datagrams() as u64;
                    continue;
                }
                let arrived = since_epoch(train.arrived.unwrap_or_else(clock::date));
                for datagram in train.bytes.chunks(train.datagram_bytes.max(1)) {
                    match Header::read(datagram, spec.wide_counters) {
                        Some(header) if sequence.take(header, arrived) => bytes += datagram.len() as u64,
                        Some(_) => {}
                        None if answer(datagram).is_some() || is_reply(datagram) => {}
                        None => strangers += 1,
                    }
                }
            }
            tally.datagrams_received(bytes, &sequence, strangers);
        }
        Ok(())
    }
}

/// All streams of a test share the bytes that may be sent.
struct TestAccount<'a> {
    flags: &'a Flags,
    tally: &'a Iperf3Tally,
    position: Position,
    block_bytes: usize,
}

impl SendAccount for TestAccount<'_> {
    fn next(&mut self, most: usize) -> Option<(u64, usize)> {
        let (at, bytes) = self.position.next(most.min(self.block_bytes))?;
        Some((at, self.flags.take(bytes))).filter(|(_, bytes)| *bytes > 0)
    }

    fn sent(&mut self, next: usize, sent: usize) {
        self.flags.give_back(next - sent);
        if sent > 0 {
            self.position.sent(sent);
            self.tally.progress.add(sent as u64);
        }
    }

    fn stop(&self) -> &Stop {
        &self.flags.sending
    }
}

/// The datagram that opens a stream.
pub(crate) fn connect_message() -> [u8; 4] {
    CONNECT[0]
}

/// Whether a datagram opens a stream; and what to answer.
pub(crate) fn answer(datagram: &[u8]) -> Option<[u8; 4]> {
    CONNECT.iter().position(|message| message == datagram).map(|which| REPLY[which])
}

/// Whether a datagram is a server's answer.
pub(crate) fn is_reply(datagram: &[u8]) -> bool {
    REPLY.iter().any(|reply| reply == datagram)
}

fn since_epoch(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64)
}

/// Datagrams with their payload, which stays; the headers are written for each call. A paced sender's call is
/// what is due in one burst.
fn train_sender(socket: &UdpSocket, size: usize, pace: Option<&Pace>) -> TrainSender {
    let burst = |pace: &Pace| pace.burst_bytes(size, MOST_TRAIN_BYTES);
    let most_bytes = pace.map_or(TRAINS * MOST_TRAIN_BYTES, burst);
    let mut trains = TrainSender::new(Segmentation::new(socket, size, most_bytes / size), most_bytes);
    fill(trains.payload_mut());
    trains
}

/// A stream's socket, open and admitted.
#[derive(Debug)]
pub(crate) enum DataSocket {
    Tcp(TcpStream),
    Udp(UdpSocket),
}

/// A stream before it works.
#[derive(Debug)]
pub(crate) struct DataStream {
    pub id: u32,
    pub sender: bool,
    pub socket: DataSocket,
}

/// What each stream of a test does.
#[derive(Clone, Debug)]
pub(crate) struct Iperf3StreamSpec {
    pub block_bytes: usize,
    /// Of each stream that sends; 0: unpaced.
    pub bits_per_second: u64,
    /// What all receiving connections together are read by, which makes their senders wait; none: as fast as
    /// it comes.
    pub receive_pace: Option<Arc<Allowance>>,
    pub wide_counters: bool,
    /// Trains that one call may bring: each takes 64 KiB of memory.
    pub receive_batch: usize,
    pub cores: Vec<u32>,
    /// Ends after so many bytes, of all sending streams together.
    pub bytes: Option<u64>,
}

impl Iperf3StreamSpec {
    /// The timetable of a stream that sends, from now on; none: unpaced.
    pub(crate) fn pace(&self) -> Option<Pace> {
        let rate = self.bits_per_second as f64 / 8.0;
        (self.bits_per_second > 0).then(|| Pace::new(rate, clock::now()))
    }
}

/// What tells the threads to end.
#[derive(Debug)]
pub(crate) struct Flags {
    /// Nothing more is sent.
    pub sending: Stop,
    /// Nothing moves any more. Receivers that keep to a rate rest on it.
    pub receiving: Stop,
    /// Bytes that may still be sent.
    budget: AtomicU64,
    bounded: bool,
}

impl Flags {
    /// Nothing has ended; with `bytes` so many may be sent, by all streams together.
    pub(crate) fn new(bytes: Option<u64>) -> Flags {
        Flags {
            sending: Stop::new(),
            receiving: Stop::new(),
            budget: AtomicU64::new(bytes.unwrap_or(0)),
            bounded: bytes.is_some(),
        }
    }

    /// Nothing moves any more from now on.
    pub(crate) fn end_all(&self) {
        self.sending.end();
        self.receiving.end();
    }

    /// At most `wish` bytes of what may still be sent; 0: nothing.
    pub(crate) fn take(&self, wish: usize) -> usize {
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
    pub(crate) fn take_whole(&self, wish: usize, size: usize) -> usize {
        self.take(wish).div_ceil(size) * size
    }

    /// What was taken and not sent.
    pub(crate) fn give_back(&self, bytes: usize) {
        if self.bounded && bytes > 0 {
            self.budget.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_every_age_are_known() {
        assert_eq!(0x3938_3736u32.to_le_bytes(), connect_message());
        assert_eq!(answer(b"6789"), Some(*b"9876"));
        assert_eq!(answer(&123_456_789u32.to_le_bytes()), Some(987_654_321u32.to_le_bytes()));
        assert!(is_reply(&0x3637_3839u32.to_le_bytes()) && is_reply(&987_654_321u32.to_le_bytes()));
        assert_eq!(answer(b"67890"), None);
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
