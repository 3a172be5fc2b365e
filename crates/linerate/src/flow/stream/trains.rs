//! The datagrams that a UDP sender hands over in one call: how they are cut, and their numbers.

use super::super::udp::{MOST_SEGMENTS, MOST_TRAIN_BYTES};
use super::datagram::{Header, MESSAGE_BYTES, Tags};
use super::{SendMethod, StreamSpec, content, datagram};
use linerate_system::batch::TrainSender;
use linerate_system::socket;
use std::io;
use std::net::UdpSocket;

/// Trains a call: more are worth nothing (one a call moves 72 Gb/s where eight move 96).
const TRAINS: usize = 8;
/// Datagrams a call where the kernel does not cut trains.
const DATAGRAMS: usize = 64;

/// The buffers of a batch, and how they are cut.
pub(super) struct Trains {
    batch: TrainSender,
    /// Payload of each, bytes.
    pub(super) datagram_bytes: usize,
    /// The same where the kernel does not cut.
    pub(super) train_bytes: usize,
}

impl Trains {
    /// Trains where the kernel cuts them (UDP_SEGMENT) and the spec does not ask for single datagrams.
    pub(super) fn new(spec: &StreamSpec, socket: &UdpSocket, tags: &Tags) -> io::Result<Self> {
        let datagram_bytes = (spec.datagram_bytes as usize).clamp(MESSAGE_BYTES, MOST_TRAIN_BYTES);
        let segments = (MOST_TRAIN_BYTES / datagram_bytes).clamp(1, MOST_SEGMENTS);
        let cut = spec.method != SendMethod::Datagrams
            && segments > 1
            && socket::set_segment_bytes(socket, datagram_bytes as u16).is_ok();
        Ok(if cut {
            Trains::of(TRAINS, segments, datagram_bytes, tags)
        } else {
            let _ = socket::set_segment_bytes(socket, 0);
            Trains::single(datagram_bytes, tags)
        })
    }

    /// The kernel cuts them.
    pub(super) fn are_cut(&self) -> bool {
        self.train_bytes > self.datagram_bytes
    }

    /// Single datagrams.
    pub(super) fn single(datagram_bytes: usize, tags: &Tags) -> Self {
        let batch = (TRAINS * MOST_TRAIN_BYTES / datagram_bytes).clamp(1, DATAGRAMS);
        Trains::of(batch, 1, datagram_bytes, tags)
    }

    fn of(batch: usize, segments: usize, datagram_bytes: usize, tags: &Tags) -> Self {
        let train_bytes = segments * datagram_bytes;
        let mut batch = TrainSender::new(batch, train_bytes);
        for index in 0..batch.batch() {
            let train = batch.train_mut(index);
            content::fill(train);
            // The tags stay, only numbers and times change from call to call.
            for datagram in train.chunks_mut(datagram_bytes) {
                tags.write(Header { number: 0, sent_nanos: 0 }, datagram);
            }
        }
        Trains { batch, datagram_bytes, train_bytes }
    }

    /// The most bytes of a call.
    pub(super) fn most_bytes(&self) -> usize {
        self.batch.batch() * self.train_bytes
    }

    /// Numbers the datagrams of the first `bytes`.
    pub(super) fn number(&mut self, first: u64, sent_nanos: u64, bytes: usize) {
        let (mut number, mut left) = (first, bytes);
        for index in 0..bytes.div_ceil(self.train_bytes) {
            let length = left.min(self.train_bytes);
            for datagram in self.batch.train_mut(index)[..length].chunks_mut(self.datagram_bytes) {
                datagram::renumber(Header { number, sent_nanos }, datagram);
                number += 1;
            }
            left -= length;
        }
    }

    /// Hands over the first `bytes`; how many of them the kernel took.
    pub(super) fn send(&mut self, socket: &UdpSocket, bytes: usize) -> io::Result<usize> {
        self.batch.send(socket, bytes)
    }
}
