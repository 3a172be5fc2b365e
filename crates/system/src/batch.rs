//! Sending UDP in batches: sendmmsg(2) of trains that UDP_SEGMENT cuts into datagrams, or of single datagrams
//! where it is missing.

use crate::segmentation::{Segmentation, SendRefusal};
use std::io;
use std::mem::zeroed;
use std::os::fd::{AsFd, AsRawFd};

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

impl std::fmt::Debug for TrainSender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TrainSender").field("segmentation", &self.segmentation).finish_non_exhaustive()
    }
}

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
