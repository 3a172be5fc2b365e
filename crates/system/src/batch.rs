//! Sending UDP in batches: sendmmsg(2) of trains that UDP_SEGMENT cuts into datagrams, or of single datagrams where it is missing.

use std::io;
use std::mem::zeroed;
use std::os::fd::{AsFd, AsRawFd};

/// Buffers for a batch of trains; made once, used for every call.
pub struct TrainSender {
    buffers: Vec<u8>,
    train_bytes: usize,
    vectors: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
}

// SAFETY: the raw pointers in `vectors` and `headers` are set anew before every call and mean nothing between calls.
unsafe impl Send for TrainSender {}

impl std::fmt::Debug for TrainSender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TrainSender")
            .field("batch", &self.headers.len())
            .field("train_bytes", &self.train_bytes)
            .finish()
    }
}

impl TrainSender {
    /// Buffers for `batch` trains a call, of at most `train_bytes` each; zeros at first.
    pub fn new(batch: usize, train_bytes: usize) -> Self {
        let (batch, train_bytes) = (batch.clamp(1, 1024), train_bytes.max(1));
        // SAFETY: iovec and mmsghdr are plain data for which all zeros is a valid value.
        let (vector, header): (libc::iovec, libc::mmsghdr) = unsafe { (zeroed(), zeroed()) };
        TrainSender {
            buffers: vec![0; batch * train_bytes],
            train_bytes,
            vectors: vec![vector; batch],
            headers: vec![header; batch],
        }
    }

    /// Trains a call.
    pub fn batch(&self) -> usize {
        self.headers.len()
    }

    /// The payload of one train, to fill in.
    pub fn train_mut(&mut self, index: usize) -> &mut [u8] {
        let start = index * self.train_bytes;
        &mut self.buffers[start..start + self.train_bytes]
    }

    /// Sends the first `bytes` of the buffers, a train after the other, the last of them shorter. How many bytes the kernel took: whole
    /// trains, at least one; the error is of the first train. Waits for room as long as the socket's send timeout says.
    pub fn send(&mut self, socket: &impl AsFd, bytes: usize) -> io::Result<usize> {
        let bytes = bytes.min(self.buffers.len());
        let trains = self.buffers[..bytes].chunks(self.train_bytes);
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
                libc::MSG_NOSIGNAL,
            )
        };
        if taken < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((taken as usize * self.train_bytes).min(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket;
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
        let (sender, receiver) = pair();
        let mut trains = TrainSender::new(4, 3000);
        (0..4).for_each(|index| trains.train_mut(index).fill(index as u8 + 1));
        if socket::set_segment_bytes(&sender, 1000).is_err() {
            eprintln!("skipped: no UDP segmentation offload in this kernel");
            return;
        }
        assert_eq!(trains.send(&sender, 7500).expect("sent"), 7500);
        let mut datagram = [0; 2000];
        let sizes: Vec<(usize, u8)> =
            (0..8).map(|_| (receiver.recv(&mut datagram).expect("received"), datagram[0])).collect();
        let whole = |train| [(1000, train); 3];
        assert_eq!(sizes, [&whole(1)[..], &whole(2), &[(1000, 3), (500, 3)]].concat());
    }

    #[test]
    fn without_segmentation_a_train_is_a_datagram() {
        let (sender, receiver) = pair();
        let mut trains = TrainSender::new(3, 500);
        assert_eq!(trains.send(&sender, 1200).expect("sent"), 1200);
        let mut datagram = [0; 2000];
        let sizes: Vec<usize> = (0..3).map(|_| receiver.recv(&mut datagram).expect("received")).collect();
        assert_eq!(sizes, [500, 500, 200]);
    }
}
