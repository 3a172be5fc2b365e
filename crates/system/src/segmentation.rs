//! How datagrams of one size leave a UDP socket: in trains that the kernel or the NIC cuts (UDP_SEGMENT), or
//! one by one.
//!
//! Probed when a socket is set up and given up at the first refusal that asks for it, as quinn-udp does
//! (<https://docs.rs/quinn-udp>). All senders ask here what a refusal means, so that they go on alike.

use crate::readiness::is_waiting;
use crate::socket;
use rustix::io::Errno;
use std::io::{self, IoSlice};
use std::os::fd::AsFd;

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

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

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
}
