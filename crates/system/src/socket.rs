//! What the kernel's sockets can do beyond the standard library: segmentation offload, buffers as granted,
//! TCP_INFO.

use std::io;
use std::mem::size_of;
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd};

/// Bytes of the headers of IP and UDP.
pub const UDP_HEADERS_V4: u32 = 28;

/// The same by the version of IP.
pub fn udp_headers(v6: bool) -> u32 {
    if v6 { 48 } else { UDP_HEADERS_V4 }
}

/// From `linux/udp.h`; libc has them on glibc and musl alike.
const UDP_SEGMENT: i32 = 103;
const UDP_GRO: i32 = 104;

fn set_int(socket: &impl AsFd, level: i32, option: i32, value: i32) -> io::Result<()> {
    // SAFETY: the pointer and length describe one i32 that lives through the call.
    let answer = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(&value).cast(),
            size_of::<i32>() as libc::socklen_t,
        )
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn get_int(socket: &impl AsFd, level: i32, option: i32) -> io::Result<i32> {
    let mut value = 0i32;
    let mut length = size_of::<i32>() as libc::socklen_t;
    // SAFETY: as in `set_int`; the kernel writes at most `length` bytes.
    let answer = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            std::ptr::from_mut(&mut value).cast(),
            &mut length,
        )
    };
    if answer == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

/// Takes at most `most` bytes off a TCP socket's queue without copying them (MSG_TRUNC, `tcp(7)`): how many there
/// were, 0 at the end of the stream.
pub fn discard(socket: &TcpStream, most: usize) -> io::Result<usize> {
    // SAFETY: with MSG_TRUNC the kernel's TCP writes nothing through the pointer, which may then be null.
    let taken =
        unsafe { libc::recv(socket.as_fd().as_raw_fd(), std::ptr::null_mut(), most, libc::MSG_TRUNC) };
    usize::try_from(taken).map_err(|_| io::Error::last_os_error())
}

/// Cuts every send into datagrams of this size (UDP_SEGMENT, Linux 4.18, <https://lwn.net/Articles/752184/>);
/// 0 turns it off.
pub fn set_segment_bytes(socket: &impl AsFd, datagram_bytes: u16) -> io::Result<()> {
    set_int(socket, libc::SOL_UDP, UDP_SEGMENT, i32::from(datagram_bytes))
}

/// Receives trains of datagrams of one sender in one piece (UDP_GRO, Linux 5.0).
pub fn set_receive_trains(socket: &impl AsFd) -> io::Result<()> {
    set_int(socket, libc::SOL_UDP, UDP_GRO, 1)
}

/// Has the kernel tell with each datagram how many the socket's buffer has dropped (SO_RXQ_OVFL).
pub fn set_drop_reports(socket: &impl AsFd) -> io::Result<()> {
    set_int(socket, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1)
}

/// Asks the kernel when it took each datagram (SO_TIMESTAMPNS), to know how long it waited for us.
pub fn set_arrival_times(socket: &impl AsFd) -> io::Result<()> {
    set_int(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)
}

/// No datagram of this socket is cut into fragments, here or on the way, and sizes are not held to what the
/// kernel has learned of the path (IP_PMTUDISC_PROBE, ip(7)): a size that our own interface cannot carry is
/// refused, everything else is tried.
pub fn forbid_fragments(socket: &impl AsFd) -> io::Result<()> {
    // A socket of IPv6 may carry IPv4 (mapped addresses): both, as far as they apply.
    let v6 = set_int(socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE);
    set_int(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE).or(v6)
}

/// The MTU of the way to the peer as far as the kernel knows it (IP_MTU, ip(7)), bytes; of IPv4, and connected.
pub fn path_mtu_v4(socket: &impl AsFd) -> io::Result<u32> {
    get_int(socket, libc::IPPROTO_IP, libc::IP_MTU).map(|bytes| bytes as u32)
}

/// Nothing of this socket goes to a gateway: only hosts of connected networks are reached (SO_DONTROUTE).
pub fn send_on_link_only(socket: &impl AsFd) -> io::Result<()> {
    set_int(socket, libc::SOL_SOCKET, libc::SO_DONTROUTE, 1)
}

/// A reader sleeps until this many bytes are there (SO_RCVLOWAT), the stream ends, or its window is nearly
/// full.
pub fn set_receive_low_water(socket: &impl AsFd, bytes: usize) -> io::Result<()> {
    set_int(socket, libc::SOL_SOCKET, libc::SO_RCVLOWAT, i32::try_from(bytes).unwrap_or(i32::MAX))
}

/// Asks for a receive buffer, past `net.core.rmem_max` where root may; gives what the kernel granted.
///
/// The kernel doubles what is asked for its own bookkeeping (socket(7)); the figure here is halved again:
/// payload to expect.
pub fn set_receive_buffer(socket: &impl AsFd, bytes: usize) -> io::Result<usize> {
    let wish = i32::try_from(bytes).unwrap_or(i32::MAX / 2);
    if set_int(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, wish).is_err() {
        set_int(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, wish)?;
    }
    Ok(get_int(socket, libc::SOL_SOCKET, libc::SO_RCVBUF)? as usize / 2)
}

/// The kernel takes no more than this before it is sent (TCP_NOTSENT_LOWAT, tcp(7)), and reports room only once half
/// of it is gone; 0: as much as the send buffer holds.
pub fn set_unsent_bytes(socket: &impl AsFd, bytes: u32) -> io::Result<()> {
    set_int(socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, bytes as i32)
}

/// Asks for a send buffer likewise.
pub fn set_send_buffer(socket: &impl AsFd, bytes: usize) -> io::Result<usize> {
    let wish = i32::try_from(bytes).unwrap_or(i32::MAX / 2);
    if set_int(socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, wish).is_err() {
        set_int(socket, libc::SOL_SOCKET, libc::SO_SNDBUF, wish)?;
    }
    Ok(get_int(socket, libc::SOL_SOCKET, libc::SO_SNDBUF)? as usize / 2)
}

/// What TCP knows of a connection (`tcp_info`, linux/tcp.h); fields that an older kernel does not fill are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Payload of a full segment, bytes.
    pub segment_bytes: u32,
    /// Smoothed round trip, microseconds.
    pub rtt_us: u32,
    /// Segments sent again, in all.
    pub retransmits: u32,
    /// Time with data to send, microseconds (the kernel counts this and the next two in jiffies).
    pub busy_us: u64,
    /// Part of it held by the receiver's window, microseconds.
    pub receiver_limited_us: u64,
    /// Part of it held by our own send buffer, microseconds.
    pub send_buffer_limited_us: u64,
    /// Bytes that the other side acknowledged.
    pub acknowledged_bytes: u64,
    /// Bytes received in order.
    pub received_bytes: u64,
}

/// Reads TCP_INFO.
pub fn tcp_info(socket: &impl AsFd) -> io::Result<TcpInfo> {
    Ok(RawTcpInfo::read(socket)?.info())
}

/// `struct tcp_info` of include/uapi/linux/tcp.h, to which the kernel only ever appends; what it did not
/// write is 0.
pub(crate) struct RawTcpInfo([u8; 256]);

impl RawTcpInfo {
    /// As another answer of the kernel's holds it.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut raw = [0u8; 256];
        let length = bytes.len().min(raw.len());
        raw[..length].copy_from_slice(&bytes[..length]);
        RawTcpInfo(raw)
    }

    pub(crate) fn read(socket: &impl AsFd) -> io::Result<Self> {
        let mut raw = [0u8; 256];
        let mut length = raw.len() as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes into `raw`.
        let answer = unsafe {
            libc::getsockopt(
                socket.as_fd().as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                raw.as_mut_ptr().cast(),
                &mut length,
            )
        };
        if answer == 0 { Ok(RawTcpInfo(raw)) } else { Err(io::Error::last_os_error()) }
    }

    /// The field of four bytes at this offset.
    pub(crate) fn word(&self, at: usize) -> u32 {
        self.0.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_ne_bytes)
    }

    /// The field of eight bytes at this offset.
    pub(crate) fn long(&self, at: usize) -> u64 {
        self.0.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_ne_bytes)
    }

    pub(crate) fn info(&self) -> TcpInfo {
        TcpInfo {
            segment_bytes: self.word(16),
            rtt_us: self.word(68),
            retransmits: self.word(100),
            acknowledged_bytes: self.long(120),
            received_bytes: self.long(128),
            busy_us: self.long(168),
            receiver_limited_us: self.long(176),
            send_buffer_limited_us: self.long(184),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, UdpSocket};

    /// Both ends of a connection over loopback.
    pub(crate) fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let near = TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
        (near, listener.accept().expect("accepted").0)
    }

    #[test]
    fn what_is_discarded_is_counted_and_gone() {
        let (mut near, mut far) = connected();
        near.write_all(&[7; 5000]).expect("sent");
        let mut gone = 0;
        while gone < 4000 {
            gone += discard(&far, 4000 - gone).expect("discarded");
        }
        near.write_all(b"tail").expect("sent");
        drop(near);
        let mut rest = Vec::new();
        far.read_to_end(&mut rest).expect("the rest");
        assert_eq!(rest, [&[7; 1000][..], b"tail"].concat());
        assert_eq!(discard(&far, 10).expect("the end"), 0);
    }

    #[test]
    fn buffers_are_reported_as_granted() {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let granted = set_receive_buffer(&socket, 128 << 10).expect("a buffer");
        assert!(granted >= 64 << 10, "{granted}");
    }

    #[test]
    fn tcp_info_counts_what_was_acknowledged() {
        let (mut sender, mut receiver) = connected();
        sender.write_all(&[1; 100_000]).expect("sent");
        receiver.read_exact(&mut [0; 100_000]).expect("received");
        let patience = std::time::Instant::now() + std::time::Duration::from_secs(5);
        loop {
            let info = tcp_info(&sender).expect("tcp_info");
            assert!(info.segment_bytes >= 500, "{info:?}");
            if info.acknowledged_bytes >= 100_000 {
                // The kernel counts busy time in jiffies, so a moment's work may show as none.
                assert!(info.busy_us < 5_000_000 && info.rtt_us < 1_000_000, "{info:?}");
                return;
            }
            assert!(std::time::Instant::now() < patience, "{info:?}");
        }
    }
}
