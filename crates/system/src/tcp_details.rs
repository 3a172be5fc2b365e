//! TCP_INFO in the depth that a report of one connection shows: windows, round trips, rates.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd};

/// Beside `socket::TcpInfo`; fields that an older kernel does not fill are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpDetails {
    /// Payload of a full segment, bytes.
    pub segment_bytes: u32,
    /// Path MTU, bytes.
    pub path_mtu: u32,
    /// Smoothed round trip, its variation and the least one seen, microseconds.
    pub rtt_us: u32,
    pub rtt_variation_us: u32,
    pub min_rtt_us: u32,
    /// Congestion window, segments.
    pub congestion_window_segments: u32,
    /// What the receiver allows, bytes (since Linux 5.4).
    pub send_window_bytes: u32,
    /// Segments sent again, in all.
    pub retransmits: u32,
    /// The kernel's latest estimate, bytes per second.
    pub delivery_rate: u64,
    /// Bytes that the other side acknowledged.
    pub acknowledged_bytes: u64,
    /// Time with data to send, and the parts of it held by the receiver's window and by our send buffer, microseconds.
    pub busy_us: u64,
    pub receiver_limited_us: u64,
    pub send_buffer_limited_us: u64,
}

/// Reads them.
pub fn tcp_details(socket: &impl AsFd) -> io::Result<TcpDetails> {
    // Offsets of `struct tcp_info` in include/uapi/linux/tcp.h: the kernel only ever appends to it.
    let mut raw = [0u8; 256];
    let mut length = (raw.len() / size_of::<u8>()) as libc::socklen_t;
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
    if answer != 0 {
        return Err(io::Error::last_os_error());
    }
    let word =
        |at: usize| raw.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_ne_bytes);
    let long =
        |at: usize| raw.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_ne_bytes);
    Ok(TcpDetails {
        segment_bytes: word(16),
        path_mtu: word(60),
        rtt_us: word(68),
        rtt_variation_us: word(72),
        congestion_window_segments: word(80),
        retransmits: word(100),
        acknowledged_bytes: long(120),
        min_rtt_us: word(148),
        delivery_rate: long(160),
        busy_us: long(168),
        receiver_limited_us: long(176),
        send_buffer_limited_us: long(184),
        send_window_bytes: word(228),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_connection_has_windows_and_an_mtu() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let here = TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
        let details = tcp_details(&here).expect("tcp_info");
        assert!(details.segment_bytes >= 500 && details.path_mtu >= details.segment_bytes, "{details:?}");
        assert!(details.congestion_window_segments > 0 && details.rtt_us < 10_000_000, "{details:?}");
    }
}
