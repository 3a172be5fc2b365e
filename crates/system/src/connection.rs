//! One TCP connection as the kernel sees it: TCP_INFO with its windows and rates, what was not acknowledged
//! yet, a pacing rate.

use crate::socket::{RawTcpInfo, TcpInfo};
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd};

/// What TCP_INFO has beyond `socket::TcpInfo`; fields that an older kernel does not fill are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpView {
    pub info: TcpInfo,
    /// Variation of the round trip, microseconds.
    pub rtt_variation_us: u32,
    /// The shortest round trip, microseconds.
    pub min_rtt_us: u32,
    /// Congestion window, segments.
    pub congestion_window_segments: u32,
    /// Window that the receiver allows, bytes (Linux 5.4).
    pub send_window_bytes: u32,
    /// Bytes per second that were delivered lately.
    pub delivery_rate: u64,
    /// Path MTU, bytes.
    pub path_mtu: u32,
    /// Sent and not acknowledged, segments.
    pub unacknowledged_segments: u32,
    /// In the send buffer and not sent yet, bytes (Linux 4.6, as the shortest round trip).
    pub unsent_bytes: u32,
}

/// Reads TCP_INFO whole.
pub fn view(connection: &impl AsFd) -> io::Result<TcpView> {
    let raw = RawTcpInfo::read(connection)?;
    Ok(TcpView {
        info: raw.info(),
        path_mtu: raw.word(60),
        unacknowledged_segments: raw.word(24),
        unsent_bytes: raw.word(144),
        rtt_variation_us: raw.word(72),
        congestion_window_segments: raw.word(80),
        min_rtt_us: raw.word(148),
        delivery_rate: raw.long(160),
        send_window_bytes: raw.word(228),
    })
}

/// Bytes handed to the kernel that the other side has not acknowledged (SIOCOUTQ, tcp(7)).
pub fn unacknowledged_bytes(connection: &impl AsFd) -> io::Result<usize> {
    let mut bytes = 0i32;
    // SAFETY: the kernel writes one int.
    let answer = unsafe { libc::ioctl(connection.as_fd().as_raw_fd(), libc::TIOCOUTQ, &mut bytes) };
    if answer != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(usize::try_from(bytes).unwrap_or(0))
}

/// Spreads the segments of a connection to this rate, bytes per second (SO_MAX_PACING_RATE, socket(7)). TCP
/// keeps it by itself since Linux 4.13; UDP does not without the fq queueing discipline.
pub fn set_pacing_rate(connection: &impl AsFd, bytes_per_second: u64) -> io::Result<()> {
    // SAFETY: the pointer and length describe one u64 that lives through the call.
    let answer = unsafe {
        libc::setsockopt(
            connection.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MAX_PACING_RATE,
            std::ptr::from_ref(&bytes_per_second).cast(),
            size_of::<u64>() as libc::socklen_t,
        )
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The rate that [`set_pacing_rate`] set, bytes per second; `u64::MAX` where none was.
pub fn pacing_rate(connection: &impl AsFd) -> io::Result<u64> {
    let mut rate = u64::MAX;
    let mut length = size_of::<u64>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, those of one u64 that lives through the call.
    let answer = unsafe {
        libc::getsockopt(
            connection.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MAX_PACING_RATE,
            std::ptr::from_mut(&mut rate).cast(),
            &mut length,
        )
    };
    if answer == 0 { Ok(rate) } else { Err(io::Error::last_os_error()) }
}

/// Send and receive buffer as the kernel has them now: what it charges, halved, as in
/// `socket::set_send_buffer`.
pub fn buffers(socket: &impl AsFd) -> io::Result<(usize, usize)> {
    let send = rustix::net::sockopt::socket_send_buffer_size(socket)?;
    let receive = rustix::net::sockopt::socket_recv_buffer_size(socket)?;
    Ok((send / 2, receive / 2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::tests::connected;
    use std::io::{Read, Write};

    #[test]
    fn a_connection_reports_of_its_path_and_windows() {
        let (mut sender, mut receiver) = connected();
        assert!(pacing_rate(&sender).expect("a rate") >= u64::from(u32::MAX), "none is set");
        set_pacing_rate(&sender, 1 << 30).expect("a pacing rate");
        assert_eq!(pacing_rate(&sender).expect("a rate"), 1 << 30);
        sender.write_all(&[1; 100_000]).expect("sent");
        receiver.read_exact(&mut [0; 100_000]).expect("received");
        let patience = std::time::Instant::now() + std::time::Duration::from_secs(5);
        while unacknowledged_bytes(&sender).expect("asked") > 0 && std::time::Instant::now() < patience {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let view = view(&sender).expect("tcp_info");
        assert!(view.path_mtu >= 576 && view.path_mtu as usize <= 1 << 16, "{view:?}");
        assert!(view.path_mtu > view.info.segment_bytes, "{view:?}");
        assert!(view.congestion_window_segments > 0 && view.min_rtt_us < 1_000_000, "{view:?}");
        // Before Linux 5.4 the kernel does not report.
        assert!(view.send_window_bytes == 0 || view.send_window_bytes > 1000, "{view:?}");
        let (send, receive) = buffers(&sender).expect("buffers");
        assert!(send > 1000 && receive > 1000, "{send} {receive}");
    }
}
