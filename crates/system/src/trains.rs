//! Receiving UDP in batches: recvmmsg(2) with UDP_GRO, so that one call brings many trains of datagrams.

use std::io;
use std::mem::{MaybeUninit, size_of, zeroed};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, SystemTime};

/// The largest datagram, hence the largest train.
const TRAIN_BYTES: usize = 65_536;
/// Room for the three control messages that we ask for.
const CONTROL_BYTES: usize = 128;
const UDP_GRO: i32 = 104;

/// One train: datagrams of one size (the last may be shorter) of one sender.
#[derive(Debug)]
pub struct Train<'a> {
    /// Payload of all of its datagrams.
    pub bytes: &'a [u8],
    /// Size of each datagram but the last.
    pub datagram_bytes: usize,
    /// The sender.
    pub from: SocketAddr,
    /// When the kernel took it off the wire, where the socket reports it (`socket::set_arrival_times`).
    pub arrived: Option<SystemTime>,
}

impl Train<'_> {
    /// Number of datagrams.
    pub fn datagrams(&self) -> usize {
        self.bytes.len().div_ceil(self.datagram_bytes.max(1)).max(1)
    }
}

/// Buffers for a batch; made once, used for every call.
pub struct TrainReceiver {
    buffers: Vec<u8>,
    control: Vec<[u64; CONTROL_BYTES / 8]>,
    names: Vec<MaybeUninit<libc::sockaddr_storage>>,
    vectors: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
    received: usize,
    drops: u32,
}

// SAFETY: the raw pointers in `vectors` and `headers` are set again before every call and mean nothing
// between calls.
unsafe impl Send for TrainReceiver {}

impl std::fmt::Debug for TrainReceiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TrainReceiver").field("batch", &self.headers.len()).finish()
    }
}

impl TrainReceiver {
    /// Buffers for `batch` trains a call.
    pub fn new(batch: usize) -> Self {
        let batch = batch.clamp(1, 64);
        // SAFETY: iovec and mmsghdr are plain data for which all zeros is a valid value.
        let (vector, header): (libc::iovec, libc::mmsghdr) = unsafe { (zeroed(), zeroed()) };
        TrainReceiver {
            buffers: vec![0; batch * TRAIN_BYTES],
            control: vec![[0; CONTROL_BYTES / 8]; batch],
            names: (0..batch).map(|_| MaybeUninit::zeroed()).collect(),
            vectors: vec![vector; batch],
            headers: vec![header; batch],
            received: 0,
            drops: 0,
        }
    }

    /// Points the headers at the buffers. Anew for every call: since the last one the buffers were looked at,
    /// and the struct may have moved.
    fn point_headers(&mut self) {
        let buffers = self.buffers.chunks_exact_mut(TRAIN_BYTES);
        let (names, control) = (self.names.iter_mut(), self.control.iter_mut());
        let places = buffers.zip(names).zip(control).zip(&mut self.vectors);
        for (header, (((buffer, name), control), vector)) in self.headers.iter_mut().zip(places) {
            *vector = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: TRAIN_BYTES };
            let header = &mut header.msg_hdr;
            header.msg_name = name.as_mut_ptr().cast();
            header.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
            header.msg_iov = vector;
            header.msg_iovlen = 1;
            header.msg_control = control.as_mut_ptr().cast();
            header.msg_controllen = CONTROL_BYTES as _;
            header.msg_flags = 0;
        }
    }

    /// Waits for at least one train (as long as the socket's read timeout says) and takes what else is there.
    pub fn receive(&mut self, socket: &impl AsFd) -> io::Result<usize> {
        self.received = 0;
        self.point_headers();
        // SAFETY: every header points at a buffer, a name and a control area of the stated lengths, all owned
        // by `self`.
        let count = unsafe {
            libc::recvmmsg(
                socket.as_fd().as_raw_fd(),
                self.headers.as_mut_ptr(),
                self.headers.len() as u32,
                libc::MSG_WAITFORONE as _, // of another sign in musl
                std::ptr::null_mut(),
            )
        };
        if count < 0 {
            return Err(io::Error::last_os_error());
        }
        self.received = count as usize;
        Ok(self.received)
    }

    /// Datagrams that the socket's buffer had dropped before the newest train, in the kernel's unit (trains
    /// with UDP_GRO).
    pub fn drops(&self) -> u32 {
        self.drops
    }

    /// What the last call brought.
    pub fn trains(&mut self) -> impl Iterator<Item = Train<'_>> {
        let mut controls = [TrainControl::default(); 64];
        for (control, header) in controls.iter_mut().zip(&self.headers[..self.received]) {
            *control = read_control(&header.msg_hdr);
            self.drops = control.drops.unwrap_or(self.drops);
        }
        let this: &Self = self;
        (0..this.received).filter_map(move |index| {
            let length = this.headers[index].msg_len as usize;
            let start = index * TRAIN_BYTES;
            let bytes = &this.buffers[start..start + length.min(TRAIN_BYTES)];
            let TrainControl { datagram_bytes, arrived, .. } = controls[index];
            let datagram_bytes = if datagram_bytes == 0 { bytes.len().max(1) } else { datagram_bytes };
            // SAFETY: zeros at first, then what the kernel wrote: every bit pattern is a sockaddr_storage.
            let name = unsafe { this.names[index].assume_init_ref() };
            Some(Train { bytes, datagram_bytes, from: address(name)?, arrived })
        })
    }
}

/// What the kernel reports beside a train.
#[derive(Clone, Copy, Default)]
struct TrainControl {
    /// The segment size of UDP_GRO; 0: a single datagram.
    datagram_bytes: usize,
    /// The drop counter of SO_RXQ_OVFL.
    drops: Option<u32>,
    /// The time of SO_TIMESTAMPNS.
    arrived: Option<SystemTime>,
}

fn read_control(header: &libc::msghdr) -> TrainControl {
    let mut control = TrainControl::default();
    // SAFETY: the header's control area was filled by the kernel, which keeps the chain of messages within
    // msg_controllen.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(header);
        while !message.is_null() {
            let data = libc::CMSG_DATA(message);
            match ((*message).cmsg_level, (*message).cmsg_type) {
                (libc::SOL_UDP, UDP_GRO) => {
                    control.datagram_bytes = data.cast::<i32>().read_unaligned().max(0) as usize;
                }
                (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => {
                    control.drops = Some(data.cast::<u32>().read_unaligned());
                }
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                    control.arrived = since_epoch(data.cast::<libc::timespec>().read_unaligned());
                }
                _ => {}
            }
            message = libc::CMSG_NXTHDR(header, message);
        }
    }
    control
}

fn since_epoch(time: libc::timespec) -> Option<SystemTime> {
    let whole = Duration::from_secs(u64::try_from(time.tv_sec).ok()?);
    SystemTime::UNIX_EPOCH.checked_add(whole + Duration::from_nanos(u64::try_from(time.tv_nsec).ok()?))
}

fn address(name: &libc::sockaddr_storage) -> Option<SocketAddr> {
    let start = std::ptr::from_ref(name);
    match i32::from(name.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says that it is a sockaddr_in, which is smaller than the storage.
            let v4 = unsafe { start.cast::<libc::sockaddr_in>().read() };
            let ip = std::net::Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Some(SocketAddr::from((ip, u16::from_be(v4.sin_port))))
        }
        libc::AF_INET6 => {
            // SAFETY: the family says that it is a sockaddr_in6, which is smaller than the storage.
            let v6 = unsafe { start.cast::<libc::sockaddr_in6>().read() };
            let ip = std::net::Ipv6Addr::from(v6.sin6_addr.s6_addr);
            let port = u16::from_be(v6.sin6_port);
            Some(SocketAddr::V6(std::net::SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket;
    use std::net::UdpSocket;
    use std::time::Duration;

    #[test]
    fn a_train_out_is_a_train_in() {
        let receiver = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        receiver.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
        let sender = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        sender.connect(receiver.local_addr().expect("an address")).expect("connected");
        let (Ok(()), Ok(())) =
            (socket::set_receive_trains(&receiver), socket::set_segment_bytes(&sender, 1000))
        else {
            eprintln!("skipped: no UDP segmentation offload in this kernel");
            return;
        };
        socket::set_arrival_times(&receiver).expect("times");
        sender.send(&vec![7; 9_500]).expect("sent");
        let mut batch = TrainReceiver::new(8);
        let (mut bytes, mut datagrams) = (0, 0);
        while bytes < 9_500 {
            batch.receive(&receiver).expect("received");
            for train in batch.trains() {
                assert!(train.bytes.iter().all(|byte| *byte == 7));
                assert_eq!(train.from, sender.local_addr().expect("an address"));
                let waited = train.arrived.expect("a time").elapsed().expect("in the past");
                assert!(waited < Duration::from_secs(5), "{waited:?}");
                bytes += train.bytes.len();
                datagrams += train.datagrams();
            }
        }
        assert_eq!((bytes, datagrams), (9_500, 10));
    }
}
