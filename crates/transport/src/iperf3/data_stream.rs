//! One stream of a test before it works: its socket, what it does, and what tells it to end: the word of who
//! leads the test, or that all bytes that were asked for are sent.

use crate::flow::rate_limit::Allowance;
use crate::pace::Pace;
use linerate_system::clock;
use linerate_system::stop::Stop;
use std::net::{TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A stream's socket, open and admitted.
#[derive(Debug)]
pub(crate) enum DataSocket {
    Tcp(TcpStream),
    Udp(UdpSocket),
}

/// A stream before it works.
#[derive(Debug)]
pub(crate) struct DataStream {
    pub id: u32,
    pub sender: bool,
    pub socket: DataSocket,
}

/// What each stream of a test does.
#[derive(Clone, Debug)]
pub(crate) struct Iperf3StreamSpec {
    pub block_bytes: usize,
    /// Of each stream that sends; 0: unpaced.
    pub bits_per_second: u64,
    /// What all receiving connections together are read by, which makes their senders wait; none: as fast as
    /// it comes.
    pub receive_pace: Option<Arc<Allowance>>,
    pub wide_counters: bool,
    /// Trains that one call may bring: each takes 64 KiB of memory.
    pub receive_batch: usize,
    pub cores: Vec<u32>,
    /// Ends after so many bytes, of all sending streams together.
    pub bytes: Option<u64>,
}

impl Iperf3StreamSpec {
    /// The timetable of a stream that sends, from now on; none: unpaced.
    pub(crate) fn pace(&self) -> Option<Pace> {
        let rate = self.bits_per_second as f64 / 8.0;
        (self.bits_per_second > 0).then(|| Pace::new(rate, clock::now()))
    }
}

/// What tells the threads to end.
#[derive(Debug)]
pub(crate) struct Flags {
    /// Nothing more is sent.
    pub sending: Stop,
    /// Nothing moves any more. Receivers that keep to a rate rest on it.
    pub receiving: Stop,
    /// Bytes that may still be sent.
    budget: AtomicU64,
    bounded: bool,
}

impl Flags {
    /// Nothing has ended; with `bytes` so many may be sent, by all streams together.
    pub(crate) fn new(bytes: Option<u64>) -> Flags {
        Flags {
            sending: Stop::new(),
            receiving: Stop::new(),
            budget: AtomicU64::new(bytes.unwrap_or(0)),
            bounded: bytes.is_some(),
        }
    }

    /// Nothing moves any more from now on.
    pub(crate) fn end_all(&self) {
        self.sending.end();
        self.receiving.end();
    }

    /// At most `wish` bytes of what may still be sent; 0: nothing.
    pub(crate) fn take(&self, wish: usize) -> usize {
        if !self.bounded {
            return wish;
        }
        let mut taken = 0;
        let _ = self.budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            taken = left.min(wish as u64);
            Some(left - taken)
        });
        taken as usize
    }

    /// The same in whole datagrams: the last one goes beyond the budget, as iperf3's does.
    pub(crate) fn take_whole(&self, wish: usize, size: usize) -> usize {
        self.take(wish).div_ceil(size) * size
    }

    /// What was taken and not sent.
    pub(crate) fn give_back(&self, bytes: usize) {
        if self.bounded && bytes > 0 {
            self.budget.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_spent_once_and_in_whole_datagrams() {
        let flags = Flags::new(Some(1000));
        assert_eq!(flags.take(600), 600);
        flags.give_back(100);
        assert_eq!(flags.take_whole(400, 150), 450);
        assert_eq!((flags.take(600), flags.take(1)), (100, 0));
        assert_eq!(Flags::new(None).take(7), 7);
    }
}
