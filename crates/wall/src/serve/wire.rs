//! A frame onto the wire: trains of equal datagrams, their pixels straight out of the frame's memory.
//!
//! One system call sends a train: its iovecs are, for each datagram, the header (written into a buffer that
//! is used again and again), the pixels where the disk has put them, and mostly no padding. The kernel cuts
//! it (UDP_SEGMENT, <https://lwn.net/Articles/752184/>).

use crate::rtp::{DatagramStamp, FrameLayout};
use linerate_system::clock;
use linerate_system::segmentation::{MOST_SEGMENTS, Segmentation, SendRefusal};
use linerate_system::{readiness, socket};
use std::io::{self, IoSlice};
use std::net::UdpSocket;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Header, pixels, padding.
const PARTS: usize = 3;
/// Room for a few trains (the kernel doubles it). Who gives a slow NIC's queueing discipline more than that
/// holds loses datagrams without a word, where a full buffer makes the worker wait and leave out whole
/// frames.
const SEND_BUFFER_BYTES: usize = 192 << 10;

/// What became of a train.
#[derive(Debug)]
pub(crate) enum SendOutcome {
    /// The kernel took it.
    All,
    /// There is no room for it now.
    Blocked,
    /// The screen's host has answered to an earlier one that nobody listens; this one may be sent again.
    Refused,
    /// It cannot be cut or sent like this; something was changed, so try again.
    Again,
    /// It is lost: the network is down, or the size is refused.
    Lost(io::Error),
}

/// Where trains go.
pub(crate) trait Wire {
    /// Datagrams of one train at most.
    fn most_datagrams(&self) -> usize;
    /// Trains at most that may follow one another at once.
    fn most_together(&self) -> usize {
        1
    }
    /// Sends one train; never waits.
    fn send(&mut self, train: &[IoSlice<'_>]) -> SendOutcome;
    /// Waits until there may be room again.
    fn wait_for_room(&mut self, time: Duration);
}

/// The header bytes of a train and their places, used again and again.
#[derive(Debug)]
pub(crate) struct Headers {
    bytes: Vec<u8>,
    ends: [usize; MOST_SEGMENTS],
}

impl Default for Headers {
    fn default() -> Self {
        Headers { bytes: Vec::with_capacity(MOST_SEGMENTS * 64), ends: [0; MOST_SEGMENTS] }
    }
}

/// Sends the datagrams `range` of a frame as one train; `range` is no longer than [`Wire::most_datagrams`].
pub(crate) fn send_train(
    wire: &mut impl Wire,
    layout: &FrameLayout,
    frame: &[u8],
    range: Range<usize>,
    first: DatagramStamp,
    headers: &mut Headers,
) -> SendOutcome {
    headers.bytes.clear();
    for (place, datagram) in range.clone().enumerate() {
        let sequence = first.sequence.wrapping_add(place as u32);
        layout.write_header(datagram, DatagramStamp { sequence, ..first }, &mut headers.bytes);
        headers.ends[place] = headers.bytes.len();
    }
    let mut parts = [IoSlice::new(&[]); PARTS * MOST_SEGMENTS];
    let (mut count, mut start) = (0, 0);
    for (place, datagram) in range.enumerate() {
        parts[count] = IoSlice::new(&headers.bytes[start..headers.ends[place]]);
        parts[count + 1] = IoSlice::new(&frame[layout.payload(datagram)]);
        count += 2;
        start = headers.ends[place];
        let padding = layout.padding(datagram);
        if !padding.is_empty() {
            parts[count] = IoSlice::new(padding);
            count += 1;
        }
    }
    wire.send(&parts[..count])
}

/// The way to a screen: a NIC's socket, and how frames are cut for it.
#[derive(Debug)]
pub(crate) struct Route {
    pub socket: UdpSocket,
    pub layout: Arc<FrameLayout>,
}

/// A connected UDP socket.
#[derive(Debug)]
pub(crate) struct UdpWire {
    socket: UdpSocket,
    segmentation: Segmentation,
    /// Trains that may follow one another at once.
    together: usize,
}

impl UdpWire {
    /// Trains of at most `burst` datagrams of `datagram_bytes`.
    pub(crate) fn new(socket: UdpSocket, datagram_bytes: usize, burst: usize) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        socket::forbid_fragments(&socket)?;
        let _ = socket::set_send_buffer(&socket, SEND_BUFFER_BYTES);
        // Eight whole trains are 512 datagrams at most: a wide sender of ST 2110-21 may let 720 follow one
        // another.
        let together = if burst < MOST_SEGMENTS { 1 } else { 8 };
        let segmentation = Segmentation::new(&socket, datagram_bytes, burst);
        Ok(UdpWire { socket, segmentation, together })
    }
}

impl Wire for UdpWire {
    fn most_datagrams(&self) -> usize {
        self.segmentation.segments()
    }

    fn most_together(&self) -> usize {
        self.together
    }

    fn send(&mut self, train: &[IoSlice<'_>]) -> SendOutcome {
        match self.segmentation.send(&self.socket, train) {
            Ok(()) => SendOutcome::All,
            // A full queue of the device tells nobody to wait, so a moment must do.
            Err(SendRefusal::Busy) => SendOutcome::Blocked,
            Err(SendRefusal::SegmentationOff) => SendOutcome::Again,
            Err(SendRefusal::PortClosed(_)) => SendOutcome::Refused,
            Err(SendRefusal::TooLarge(error)) => SendOutcome::Lost(io::Error::new(
                error.kind(),
                format!(
                    "a datagram of {} bytes is larger than the path's MTU; give --mtu",
                    self.segmentation.datagram_bytes()
                ),
            )),
            Err(SendRefusal::Failed(error)) => SendOutcome::Lost(error),
        }
    }

    fn wait_for_room(&mut self, time: Duration) {
        if !matches!(readiness::wait_writable(&self.socket, time), Ok(false)) {
            // Writable, or unable to tell: ENOBUFS leaves the socket writable, so do not spin.
            clock::sleep(Duration::from_micros(50).min(time));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::Size;
    use crate::rtp::parse;

    #[test]
    fn a_frame_arrives_pixel_by_pixel() {
        let receiver = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        receiver.set_read_timeout(Some(Duration::from_secs(5))).expect("a time-out");
        let size = Size { width: 101, height: 33 };
        let frame: Vec<u8> = (0..size.frame_bytes()).map(|index| (index * 7 % 253) as u8).collect();
        let layout = FrameLayout::new(size, 500).expect("a layout");
        for burst in [1, 8, 64] {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
            socket.connect(receiver.local_addr().expect("an address")).expect("connected");
            let mut wire = UdpWire::new(socket, layout.datagram_bytes(), burst).expect("a wire");
            let (mut headers, mut next) = (Headers::default(), 0);
            while next < layout.datagrams() {
                let end = layout.datagrams().min(next + wire.most_datagrams());
                let stamp = DatagramStamp { sequence: next as u32, timestamp: 5, ssrc: 9 };
                let sent = send_train(&mut wire, &layout, &frame, next..end, stamp, &mut headers);
                assert!(matches!(sent, SendOutcome::All), "{sent:?}");
                next = end;
            }
            let mut arrived = vec![0; frame.len()];
            let mut datagram = [0; 2000];
            for number in 0..layout.datagrams() {
                let length = receiver.recv(&mut datagram).expect("a datagram");
                let packet = parse(&datagram[..length]).expect("ours");
                assert_eq!(packet.sequence, number as u32);
                for line in packet.lines() {
                    let start = usize::from(line.number) * size.line_bytes() + usize::from(line.offset) * 3;
                    arrived[start..start + line.bytes.len()].copy_from_slice(line.bytes);
                }
            }
            assert!(arrived == frame, "burst {burst}");
        }
    }

    #[test]
    fn a_port_that_nobody_listens_on_is_refused_and_the_next_goes_out() {
        let port =
            UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a free port");
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket.connect(port).expect("connected");
        let mut wire = UdpWire::new(socket, 1000, 8).expect("a wire");
        let bytes = [0; 2000];
        let sent: Vec<bool> =
            (0..4).map(|_| matches!(wire.send(&[IoSlice::new(&bytes)]), SendOutcome::Refused)).collect();
        assert!(sent.contains(&true), "{sent:?}");
    }
}
