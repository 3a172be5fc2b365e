//! How datagrams of one size leave a UDP socket: in trains that the kernel or the NIC cuts (UDP_SEGMENT), or
//! one by one.
//!
//! Probed when a socket is set up and given up at the first refusal that asks for it, as quinn-udp does
//! (<https://docs.rs/quinn-udp>). All senders ask here what a refusal means, so that they go on alike.
//!
//! They are sent in batches: sendmmsg(2) of trains that UDP_SEGMENT cuts into datagrams, or of single
//! datagrams where it is missing.

use crate::readiness::is_waiting;
use crate::socket;
use rustix::io::Errno;
use std::io::{self, IoSlice};
use std::mem::zeroed;
use std::os::fd::{AsFd, AsRawFd};

/// Linux takes at most 64 segments a call before 6.9 (UDP_MAX_SEGMENTS), 128 since
/// (<https://git.kernel.org/torvalds/c/1382e3b6a350>).
pub const MOST_SEGMENTS: usize = 64;
/// The largest UDP payload of a call over IPv4.
pub const MOST_TRAIN_BYTES: usize = 65_507;

/// Why the kernel did not take a send, and what to do.
#[derive(Debug)]
pub enum SendRefusal {
    /// The socket's buffer or the device's queue is full, or a signal came: send it again in a moment.
    Busy,
    /// Trains cannot be cut on this route: from now on there are only single datagrams. Nothing was sent.
    SegmentationOff,
    /// An earlier datagram was answered: nobody listens on its port. The kernel reports each answer once, and
    /// the next send goes out.
    PortClosed(io::Error),
    /// A single datagram is larger than the MTU allows.
    TooLarge(io::Error),
    /// Anything else: the network is down, a firewall forbids it.
    Failed(io::Error),
}

/// Datagrams of one size on one socket, and how many of them go out as one train.
#[derive(Clone, Copy, Debug)]
pub struct Segmentation {
    datagram_bytes: usize,
    segments: usize,
}

impl Segmentation {
    /// Trains of at most `most` datagrams, where the kernel knows UDP_SEGMENT (Linux 4.18); 1 asks for single
    /// datagrams.
    pub fn new(socket: &impl AsFd, datagram_bytes: usize, most: usize) -> Self {
        let datagram_bytes = datagram_bytes.max(1);
        let segments = (MOST_TRAIN_BYTES / datagram_bytes).min(most).clamp(1, MOST_SEGMENTS);
        let size = if segments > 1 { datagram_bytes as u16 } else { 0 };
        let set = socket::set_segment_bytes(socket, size).is_ok();
        Segmentation { datagram_bytes, segments: if set { segments } else { 1 } }
    }

    /// Payload of each datagram, bytes.
    pub fn datagram_bytes(&self) -> usize {
        self.datagram_bytes
    }

    /// Datagrams of one train at most; 1 where they go one by one.
    pub fn segments(&self) -> usize {
        self.segments
    }

    /// Bytes of one train at most.
    pub fn train_bytes(&self) -> usize {
        self.segments * self.datagram_bytes
    }

    /// The kernel cuts trains.
    pub fn is_on(&self) -> bool {
        self.segments > 1
    }

    /// Sends one train whose bytes lie in several places.
    pub fn send(&mut self, socket: &impl AsFd, train: &[IoSlice<'_>]) -> Result<(), SendRefusal> {
        let sent = socket2::SockRef::from(socket).send_vectored(train);
        sent.map(drop).map_err(|error| self.refused(socket, error))
    }

    /// What the error of a send means. Turns segmentation off where that may be the cause.
    pub fn refused(&mut self, socket: &impl AsFd, error: io::Error) -> SendRefusal {
        if is_busy(&error) {
            return SendRefusal::Busy;
        }
        if error.kind() == io::ErrorKind::ConnectionRefused {
            return SendRefusal::PortClosed(error);
        }
        match Errno::from_io_error(&error) {
            Some(errno) if self.is_on() && is_about_trains(errno) => {
                self.segments = 1;
                match socket::set_segment_bytes(socket, 0) {
                    Ok(()) => SendRefusal::SegmentationOff,
                    Err(error) => SendRefusal::Failed(error),
                }
            }
            Some(Errno::MSGSIZE) => SendRefusal::TooLarge(error),
            _ => SendRefusal::Failed(error),
        }
    }
}

/// All from `udp_send_skb` of net/ipv4/udp.c: EIO where the device has no checksum offload or the route goes
/// through IPsec; EINVAL, since 6.14 EMSGSIZE, where a datagram is larger than the MTU, since segments are
/// never fragmented.
fn is_about_trains(errno: Errno) -> bool {
    matches!(errno, Errno::IO | Errno::INVAL | Errno::MSGSIZE)
}

/// The socket's buffer is full, a signal came, or the queue of the device is full (ENOBUFS, send(2)): it
/// passes by itself.
pub fn is_busy(error: &io::Error) -> bool {
    is_waiting(error) || Errno::from_io_error(error) == Some(Errno::NOBUFS)
}

/// Trains, or single datagrams, of one call: more are worth nothing (one train a call moves 72 Gb/s where
/// eight move 96).
const MOST_MESSAGES: usize = 64;

/// Datagrams that go out in one call; the buffer is made once and used for every call.
pub struct TrainSender {
    segmentation: Segmentation,
    buffer: Vec<u8>,
    vectors: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
}

// SAFETY: the raw pointers in `vectors` and `headers` are set again before every call and mean nothing
// between calls.
unsafe impl Send for TrainSender {}

impl TrainSender {
    /// A buffer for `most_bytes` a call: whole trains, or whole datagrams where that is less than a train.
    /// Zeros at first.
    pub fn new(segmentation: Segmentation, most_bytes: usize) -> Self {
        let (train, datagram) = (segmentation.train_bytes(), segmentation.datagram_bytes());
        let unit = if most_bytes < train { datagram } else { train };
        let bytes = (most_bytes / unit * unit).clamp(datagram, MOST_MESSAGES * train);
        // SAFETY: iovec and mmsghdr are plain data for which all zeros is a valid value.
        let (vector, header): (libc::iovec, libc::mmsghdr) = unsafe { (zeroed(), zeroed()) };
        TrainSender {
            segmentation,
            buffer: vec![0; bytes],
            vectors: vec![vector; MOST_MESSAGES],
            headers: vec![header; MOST_MESSAGES],
        }
    }

    /// How they are cut.
    pub fn segmentation(&self) -> Segmentation {
        self.segmentation
    }

    /// The most bytes of a call: whole datagrams.
    pub fn most_bytes(&self) -> usize {
        self.buffer.len().min(MOST_MESSAGES * self.segmentation.train_bytes())
    }

    /// The payload of a call, to fill in. It stays from call to call.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.buffer
    }

    /// The datagrams of the first `bytes`; the last one may be shorter.
    pub fn datagrams_mut(&mut self, bytes: usize) -> impl Iterator<Item = &mut [u8]> {
        self.buffer[..bytes].chunks_mut(self.segmentation.datagram_bytes())
    }

    /// Sends the first `bytes`. How many of them the kernel took: whole trains, at least one; a refusal is of
    /// the first train. Waits for room as long as the socket's send timeout says.
    pub fn send(&mut self, socket: &impl AsFd, bytes: usize) -> Result<usize, SendRefusal> {
        let bytes = bytes.min(self.most_bytes());
        let train_bytes = self.segmentation.train_bytes();
        let trains = self.buffer[..bytes].chunks(train_bytes);
        let count = trains.len();
        for ((header, vector), train) in self.headers.iter_mut().zip(&mut self.vectors).zip(trains) {
            *vector = libc::iovec { iov_base: train.as_ptr().cast_mut().cast(), iov_len: train.len() };
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: `count` headers point at vectors and trains owned by `self`, which the kernel only reads.
        let taken = unsafe {
            libc::sendmmsg(
                socket.as_fd().as_raw_fd(),
                self.headers.as_mut_ptr(),
                count as u32,
                libc::MSG_NOSIGNAL as _, // of another sign in musl
            )
        };
        if taken < 0 {
            return Err(self.segmentation.refused(socket, io::Error::last_os_error()));
        }
        Ok((taken as usize * train_bytes).min(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segmentation::MOST_SEGMENTS;
    use std::net::UdpSocket;
    use std::time::Duration;

    fn of(datagram_bytes: usize) -> (UdpSocket, Segmentation) {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let segmentation = Segmentation::new(&socket, datagram_bytes, MOST_SEGMENTS);
        (socket, segmentation)
    }

    #[test]
    fn a_train_fits_one_call() {
        for (datagram, segments) in [(1, 64), (1472, 44), (8972, 7), (32_753, 2), (32_754, 1), (65_507, 1)] {
            let (_, segmentation) = of(datagram);
            assert!(segmentation.segments() == segments || !segmentation.is_on(), "{segmentation:?}");
            assert!(segmentation.train_bytes() <= MOST_TRAIN_BYTES);
        }
        let (socket, _) = of(1000);
        assert!(!Segmentation::new(&socket, 1000, 1).is_on(), "single datagrams were asked for");
    }

    #[test]
    fn trains_are_given_up_once_and_the_next_refusal_says_why() {
        for errno in [Errno::IO, Errno::INVAL, Errno::MSGSIZE] {
            let (socket, mut segmentation) = of(1000);
            if !segmentation.is_on() {
                eprintln!("skipped: no UDP segmentation offload in this kernel");
                return;
            }
            let first = segmentation.refused(&socket, errno.into());
            assert!(matches!(first, SendRefusal::SegmentationOff), "{errno}: {first:?}");
            assert_eq!(segmentation.train_bytes(), 1000);
            match segmentation.refused(&socket, errno.into()) {
                SendRefusal::TooLarge(_) => assert_eq!(errno, Errno::MSGSIZE),
                SendRefusal::Failed(_) => assert_ne!(errno, Errno::MSGSIZE),
                other => panic!("{errno}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_full_queue_and_a_closed_port_change_nothing() {
        let (socket, mut segmentation) = of(1000);
        let before = segmentation.segments();
        for errno in [Errno::NOBUFS, Errno::AGAIN, Errno::INTR] {
            assert!(matches!(segmentation.refused(&socket, errno.into()), SendRefusal::Busy), "{errno}");
        }
        let closed = segmentation.refused(&socket, Errno::CONNREFUSED.into());
        assert!(matches!(closed, SendRefusal::PortClosed(_)), "{closed:?}");
        let down = segmentation.refused(&socket, Errno::NETDOWN.into());
        assert!(matches!(down, SendRefusal::Failed(_)), "{down:?}");
        assert_eq!(segmentation.segments(), before);
    }

    fn pair() -> (UdpSocket, UdpSocket) {
        let receiver = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        receiver.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
        let sender = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        sender.connect(receiver.local_addr().expect("an address")).expect("connected");
        (sender, receiver)
    }

    #[test]
    fn a_batch_is_what_was_filled_in_with_a_shorter_end() {
        let (socket, receiver) = pair();
        let segmentation = Segmentation::new(&socket, 1000, 3);
        if !segmentation.is_on() {
            eprintln!("skipped: no UDP segmentation offload in this kernel");
            return;
        }
        let mut sender = TrainSender::new(segmentation, 12_500);
        assert_eq!(sender.most_bytes(), 12_000);
        sender.datagrams_mut(12_000).enumerate().for_each(|(index, bytes)| bytes.fill(index as u8 / 3 + 1));
        assert_eq!(sender.send(&socket, 7500).expect("sent"), 7500);
        let mut datagram = [0; 2000];
        let sizes: Vec<(usize, u8)> =
            (0..8).map(|_| (receiver.recv(&mut datagram).expect("received"), datagram[0])).collect();
        let whole = |train| [(1000, train); 3];
        assert_eq!(sizes, [&whole(1)[..], &whole(2), &[(1000, 3), (500, 3)]].concat());
    }

    #[test]
    fn without_segmentation_a_train_is_a_datagram() {
        let (socket, receiver) = pair();
        let mut sender = TrainSender::new(Segmentation::new(&socket, 500, 1), 1500);
        assert_eq!(sender.send(&socket, 1200).expect("sent"), 1200);
        let mut datagram = [0; 2000];
        let sizes: Vec<usize> = (0..3).map(|_| receiver.recv(&mut datagram).expect("received")).collect();
        assert_eq!(sizes, [500, 500, 200]);
    }

    #[test]
    fn the_same_payload_goes_out_after_trains_were_given_up() {
        let (socket, receiver) = pair();
        let mut sender = TrainSender::new(Segmentation::new(&socket, 500, MOST_SEGMENTS), 3 * 32_000);
        sender.datagrams_mut(96_000).enumerate().for_each(|(index, bytes)| bytes.fill(index as u8));
        let refusal = sender.segmentation.refused(&socket, rustix::io::Errno::IO.into());
        assert!(matches!(refusal, SendRefusal::SegmentationOff | SendRefusal::Failed(_)), "{refusal:?}");
        assert_eq!(sender.most_bytes(), MOST_MESSAGES * 500);
        let sent = sender.send(&socket, 96_000).expect("sent");
        assert_eq!(sent, MOST_MESSAGES * 500);
        let mut datagram = [0; 2000];
        for index in 0..MOST_MESSAGES {
            assert_eq!(receiver.recv(&mut datagram).expect("received"), 500);
            assert!(datagram[..500].iter().all(|byte| usize::from(*byte) == index), "datagram {index}");
        }
    }
}
