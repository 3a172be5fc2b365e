//! One stream of a test before it works: its socket, and what it does.

use crate::flow::allowance::Allowance;
use crate::pace::Pace;
use linerate_system::clock;
use std::net::{TcpStream, UdpSocket};
use std::sync::Arc;

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
