//! UDP data: trains of datagrams with iperf3's header out, trains of them in.
//!
//! Out, the datagrams of a train lie in one buffer, each with its own header, and cross the stack together (UDP_SEGMENT): that is what
//! makes small datagrams ten times as fast as one call for each.

use super::control::later;
use super::crew::Order;
use super::flags::Flags;
use super::pace::{Next, Pace, wait};
use super::sequence::{Header, Sequence};
use super::tally::Tally;
use linerate_system::batch::TrainSender;
use linerate_system::socket;
use linerate_system::trains::TrainReceiver;
use std::io;
use std::net::UdpSocket;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Linux takes at most 64 segments a call before 6.9 (UDP_MAX_SEGMENTS), 128 since.
const MOST_SEGMENTS: usize = 64;
/// The largest UDP payload of a call over IPv4.
const MOST_TRAIN_BYTES: usize = 65_507;
/// Trains in one call of an unpaced sender: crossing into the kernel is a tenth of the cost of a train.
const TRAINS: usize = 8;
/// A blocked call looks at its flag this often.
const LOOK: Duration = Duration::from_millis(50);
/// A paced sender sends what is due in this time as one train: shorter ones cost calls, longer ones overflow small buffers.
const BURST: Duration = Duration::from_micros(500);
/// After a refusal, room comes about this soon.
const REFUSED: Duration = Duration::from_micros(100);
/// The other end's port is closed: it may be that its stream is not open yet, so this long nothing else came of it.
const REFUSED_FOR: Duration = Duration::from_secs(2);

/// Opens a stream: what a client sends, as a number on a little-endian host and on a big-endian one, now and before 3.10.
const CONNECT: [[u8; 4]; 4] =
    [*b"6789", *b"9876", 123_456_789u32.to_le_bytes(), 123_456_789u32.to_be_bytes()];
/// What a server answers.
const REPLY: [[u8; 4]; 4] = [*b"9876", *b"6789", 987_654_321u32.to_le_bytes(), 987_654_321u32.to_be_bytes()];

/// The datagram that opens a stream.
pub fn connect_message() -> [u8; 4] {
    CONNECT[0]
}

/// Whether a datagram opens a stream; and what to answer.
pub fn answer(datagram: &[u8]) -> Option<[u8; 4]> {
    CONNECT.iter().position(|message| message == datagram).map(|which| REPLY[which])
}

/// Whether a datagram is a server's answer.
pub fn is_reply(datagram: &[u8]) -> bool {
    REPLY.iter().any(|reply| reply == datagram)
}

/// Bytes that no NIC or tunnel compresses.
pub fn payload(bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..bytes).map(|_| next()).collect()
}

fn since_epoch(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64)
}

/// How many datagrams go out in one call.
fn datagrams_a_train(socket: &UdpSocket, datagram_bytes: usize, pace: Option<&Pace>) -> usize {
    let Ok(size) = u16::try_from(datagram_bytes) else { return 1 };
    let most = (MOST_TRAIN_BYTES / datagram_bytes).clamp(1, MOST_SEGMENTS);
    let due = pace.map_or(most, |pace| pace.bytes_in(BURST) / datagram_bytes);
    let datagrams = due.clamp(1, most);
    if datagrams > 1 && socket::set_segment_bytes(socket, size).is_ok() { datagrams } else { 1 }
}

/// Trains with their payload, which stays; the headers are written for each call.
fn batch(trains: usize, train_bytes: usize) -> TrainSender {
    let mut batch = TrainSender::new(trains, train_bytes);
    let payload = payload(train_bytes);
    (0..trains).for_each(|index| batch.train_mut(index).copy_from_slice(&payload));
    batch
}

/// Numbers the datagrams of the first `bytes` of a batch, from the one of `first` on.
fn write_headers(trains: &mut TrainSender, bytes: usize, size: usize, first: Header, wide: bool) {
    let (mut header, mut left) = (first, bytes);
    for index in 0..trains.batch() {
        let train = trains.train_mut(index);
        let length = train.len().min(left);
        for datagram in train[..length].chunks_exact_mut(size) {
            header.write(datagram, wide);
            header.number += 1;
        }
        left -= length;
    }
}

/// Sends until it is told to stop, or the bytes asked for are sent.
pub fn send(socket: &UdpSocket, order: &Order, flags: &Flags, tally: &Tally) -> io::Result<()> {
    socket.set_write_timeout(Some(LOOK))?;
    let size = order.block_bytes;
    let mut pace = Pace::new(order.bits_per_second, Instant::now());
    let mut datagrams = datagrams_a_train(socket, size, pace.as_ref());
    let most_trains = if pace.is_some() { 1 } else { TRAINS };
    let mut trains = batch(most_trains, size * datagrams);
    let (mut packets, mut refused_since) = (0, None::<Refusals>);
    while !flags.stop_sending() {
        if let Some(pace) = &mut pace
            && let Next::Wait(time) = pace.next(Instant::now())
        {
            wait(time);
            continue;
        }
        let wish = flags.take_whole(trains.batch() * datagrams * size, size);
        if wish == 0 {
            break;
        }
        let sent_nanos = since_epoch(SystemTime::now());
        write_headers(
            &mut trains,
            wish,
            size,
            Header { sent_nanos, number: packets + 1 },
            order.wide_counters,
        );
        match trains.send(socket, wish) {
            Ok(sent) => {
                flags.give_back(wish - sent);
                packets += sent.div_ceil(size) as u64;
                tally.datagrams_sent(sent as u64, packets);
                if let Some(pace) = &mut pace {
                    pace.sent(sent, Instant::now());
                }
            }
            Err(error) => {
                flags.give_back(wish);
                match refused(&error) {
                    Refused::ForAMoment => {
                        tally.refused();
                        std::thread::sleep(REFUSED);
                    }
                    // Each ICMP error is told once, and the next send succeeds: what counts is that they go on.
                    Refused::NotOpen if Refusals::passing(&mut refused_since) => {
                        std::thread::sleep(LOOK / 10)
                    }
                    // Datagrams larger than the path's MTU go out in fragments, which segmentation does not make (udp_send_skb,
                    // net/ipv4/udp.c); nor do devices without checksum offload take trains.
                    Refused::Never if datagrams > 1 => {
                        socket::set_segment_bytes(socket, 0)?;
                        datagrams = 1;
                        trains = batch(TRAINS, size);
                    }
                    _ => return Err(error),
                }
            }
        }
    }
    Ok(())
}

/// The first and the last of refusals that follow one another.
#[derive(Clone, Copy)]
struct Refusals {
    first: Instant,
    last: Instant,
}

impl Refusals {
    /// One more; false where they have gone on for too long.
    fn passing(now_and_before: &mut Option<Refusals>) -> bool {
        let now = Instant::now();
        let before = now_and_before.filter(|before| now.duration_since(before.last) < REFUSED_FOR);
        let first = before.map_or(now, |before| before.first);
        *now_and_before = Some(Refusals { first, last: now });
        now.duration_since(first) < REFUSED_FOR
    }
}

/// What an error of a send means.
enum Refused {
    ForAMoment,
    NotOpen,
    Never,
}

fn refused(error: &io::Error) -> Refused {
    /// ENOBUFS of Linux: the device's queue is full.
    const NO_BUFFERS: i32 = 105;
    match error.kind() {
        _ if later(error) || error.raw_os_error() == Some(NO_BUFFERS) => Refused::ForAMoment,
        io::ErrorKind::ConnectionRefused => Refused::NotOpen,
        _ => Refused::Never,
    }
}

/// Takes until it is told to stop. What is not this stream's is counted and not believed.
pub fn receive(socket: &UdpSocket, order: &Order, flags: &Flags, tally: &Tally) -> io::Result<()> {
    socket.set_read_timeout(Some(LOOK))?;
    let peer = socket.peer_addr()?;
    let mut batch = TrainReceiver::new(order.receive_batch);
    let (mut sequence, mut strangers) = (Sequence::default(), 0);
    while !flags.stop_receiving() {
        match batch.receive(socket) {
            Ok(_) => {}
            // The other end closed its port: nothing more comes.
            Err(error) if later(&error) || error.kind() == io::ErrorKind::ConnectionRefused => continue,
            Err(error) => return Err(error),
        }
        let mut bytes = 0;
        for train in batch.trains() {
            // Queued before the socket was connected.
            if train.from != peer {
                strangers += train.datagrams() as u64;
                continue;
            }
            let arrived = since_epoch(train.arrived.unwrap_or_else(SystemTime::now));
            for datagram in train.bytes.chunks(train.datagram_bytes.max(1)) {
                match Header::read(datagram, order.wide_counters) {
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
    fn payload_does_not_compress() {
        let bytes = payload(1 << 16);
        let mut counts = [0u32; 256];
        bytes.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
        assert!(counts.iter().all(|count| (128..=400).contains(count)), "{counts:?}");
    }
}
