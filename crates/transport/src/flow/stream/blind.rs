//! Datagrams to where nobody receives: at a rate, without a word with the other end. For a switch that drops
//! them; who is to receive is asked by all other senders first.

use super::super::moments::CpuClock;
use super::super::source;
use super::{SendMethod, StreamCounters, StreamSpec, bump};
use crate::pace::Pace;
use linerate_system::affinity;
use linerate_system::batch::TrainSender;
use linerate_system::clock;
use linerate_system::segmentation::{MOST_SEGMENTS, MOST_TRAIN_BYTES, Segmentation, SendRefusal};
use linerate_system::stop::{STOP_CHECK, Stop};
use std::io;
use std::net::UdpSocket;
use std::time::Duration;

/// Trains a call.
const TRAINS: usize = 8;
/// A full queue is given this long.
const REFUSED_WAIT: Duration = Duration::from_micros(100);

/// Sends over a connected socket at the spec's rate until `stop`; how many answers said that nobody listens
/// on the port (ICMP), which is no fault here.
pub fn send_blindly(
    socket: &UdpSocket,
    spec: &StreamSpec,
    counters: &StreamCounters,
    stop: &Stop,
) -> io::Result<u64> {
    let Some(rate) = spec.bytes_per_second else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "without a receiver a rate is needed"));
    };
    socket.set_write_timeout(Some(STOP_CHECK))?;
    let most = if spec.method == SendMethod::Datagrams { 1 } else { MOST_SEGMENTS };
    let segmentation = Segmentation::new(socket, spec.datagram_bytes as usize, most);
    let mut trains = TrainSender::new(segmentation, TRAINS * MOST_TRAIN_BYTES);
    source::fill(trains.payload_mut());
    affinity::wake_on_time();
    let (mut clock, mut pace, mut unreachable) = (CpuClock::new(), Pace::new(rate, clock::now()), 0);
    while !stop.is_ended() {
        if pace.slept(stop) {
            clock.tick(clock::now(), &counters.cpu_nanos);
            continue;
        }
        let datagram_bytes = trains.segmentation().datagram_bytes();
        let bytes = pace.burst_bytes(datagram_bytes, trains.most_bytes()) / datagram_bytes * datagram_bytes;
        match trains.send(socket, bytes) {
            Ok(taken) => {
                pace.sent(taken, clock::now());
                count(counters, taken, trains.segmentation());
            }
            Err(SendRefusal::Busy) => {
                bump(&counters.refused_sends, 1);
                stop.wait(REFUSED_WAIT);
            }
            Err(SendRefusal::SegmentationOff) => {}
            Err(SendRefusal::PortClosed(_)) => unreachable += 1,
            Err(SendRefusal::TooLarge(error) | SendRefusal::Failed(error)) => return Err(error),
        }
    }
    clock.store(&counters.cpu_nanos);
    Ok(unreachable)
}

fn count(counters: &StreamCounters, taken: usize, segmentation: Segmentation) {
    counters.progress.add(taken as u64);
    bump(&counters.datagrams, taken.div_ceil(segmentation.datagram_bytes()) as u64);
    bump(&counters.calls, 1);
    if segmentation.is_on() {
        bump(&counters.trains, taken.div_ceil(segmentation.train_bytes()) as u64);
    }
}
