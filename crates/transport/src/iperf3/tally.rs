//! What one stream counts while it works: written by its thread, read by who takes the intervals.
//!
//! Of datagrams it counts which came, went missing and came late, as iperf3 counts them, so that two ends can
//! be compared.
//!
//! iperf3 keeps the highest number only: a gap is a loss, and whatever comes behind it takes one loss back. So
//! a datagram that came twice hides one that was lost. That is iperf3's figure; `linerate network` between two
//! linerates tells them apart.

use crate::flow::progress::Progress;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// One stream's counters.
#[derive(Debug, Default)]
pub(crate) struct Iperf3Tally {
    /// Payload bytes, and when the last of them moved.
    pub progress: Progress,
    packets: AtomicU64,
    lost: AtomicU64,
    reordered: AtomicU64,
    foreign: AtomicU64,
    refused: AtomicU64,
    jitter_bits: AtomicU64,
    ended: AtomicBool,
    error: Mutex<Option<String>>,
}

/// All of it at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counted {
    pub bytes: u64,
    /// Of the last byte, nanoseconds since the test began to run.
    pub nanos: u64,
    pub packets: u64,
    pub lost: u64,
    pub reordered: u64,
    pub foreign: u64,
    pub refused: u64,
    pub jitter_seconds: f64,
}

impl Iperf3Tally {
    pub(crate) fn new(start: Instant) -> Iperf3Tally {
        Iperf3Tally { progress: Progress::new(start), ..Iperf3Tally::default() }
    }

    /// Datagrams went out; `packets` in all.
    pub(crate) fn datagrams_sent(&self, bytes: u64, packets: u64) {
        self.packets.store(packets, Ordering::Relaxed);
        self.progress.add(bytes);
    }

    /// Datagrams came.
    pub(crate) fn datagrams_received(&self, bytes: u64, sequence: &Sequence, foreign: u64) {
        self.packets.store(sequence.highest, Ordering::Relaxed);
        self.lost.store(sequence.lost, Ordering::Relaxed);
        self.reordered.store(sequence.reordered, Ordering::Relaxed);
        self.foreign.store(sequence.foreign + foreign, Ordering::Relaxed);
        self.jitter_bits.store((sequence.jitter_nanos / 1e9).to_bits(), Ordering::Relaxed);
        if bytes > 0 {
            self.progress.add(bytes);
        }
    }

    /// The kernel would not take a send just now.
    pub(crate) fn refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// The stream's thread is done; why, where it was not told to.
    pub(crate) fn end(&self, error: Option<String>) {
        if let Ok(mut held) = self.error.lock() {
            *held = error;
        }
        self.ended.store(true, Ordering::Release);
    }

    pub(crate) fn ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    pub(crate) fn error(&self) -> Option<String> {
        self.error.lock().ok().and_then(|held| held.clone())
    }

    pub(crate) fn counted(&self) -> Counted {
        let mark = self.progress.mark();
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counted {
            bytes: mark.bytes,
            nanos: mark.nanos,
            packets: read(&self.packets),
            lost: read(&self.lost),
            reordered: read(&self.reordered),
            foreign: read(&self.foreign),
            refused: read(&self.refused),
            jitter_seconds: f64::from_bits(read(&self.jitter_bits)),
        }
    }
}

/// A number this far ahead is not a gap but somebody else's datagram: no path holds so many.
const MOST_AHEAD: u64 = 1 << 28;

/// One receiving stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sequence {
    /// Highest number so far: what was expected to have come.
    pub highest: u64,
    pub lost: u64,
    /// Came behind a higher number.
    pub reordered: u64,
    /// Not believed.
    pub foreign: u64,
    /// Nanoseconds, RFC 1889 6.3.1.
    pub jitter_nanos: f64,
    transit_nanos: Option<i64>,
}

/// The front of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// On the sender's clock, whatever that counts from.
    pub sent_nanos: i64,
    pub number: u64,
}

impl Header {
    /// Bytes of it.
    pub(crate) const fn bytes(wide: bool) -> usize {
        if wide { 16 } else { 12 }
    }

    /// None: too short.
    pub(crate) fn read(datagram: &[u8], wide: bool) -> Option<Header> {
        let word = |at: usize| Some(u32::from_be_bytes(*datagram.get(at..at + 4)?.first_chunk()?));
        let sent_nanos = i64::from(word(0)?) * 1_000_000_000 + i64::from(word(4)?) * 1000;
        let number = if wide { u64::from(word(8)?) << 32 | u64::from(word(12)?) } else { word(8)?.into() };
        Some(Header { sent_nanos, number })
    }

    /// Writes it to the front of a datagram, which is long enough.
    pub(crate) fn write(&self, datagram: &mut [u8], wide: bool) {
        let mut bytes = [0; 16];
        let seconds = self.sent_nanos / 1_000_000_000;
        let micros = self.sent_nanos % 1_000_000_000 / 1000;
        bytes[..4].copy_from_slice(&(seconds as u32).to_be_bytes());
        bytes[4..8].copy_from_slice(&(micros as u32).to_be_bytes());
        if wide {
            bytes[8..].copy_from_slice(&self.number.to_be_bytes());
        } else {
            bytes[8..12].copy_from_slice(&(self.number as u32).to_be_bytes());
        }
        let length = Header::bytes(wide);
        datagram[..length].copy_from_slice(&bytes[..length]);
    }
}

impl Sequence {
    /// A datagram came. False: it is not of this stream.
    pub(crate) fn take(&mut self, header: Header, arrived_nanos: i64) -> bool {
        let Header { sent_nanos, number } = header;
        if number == 0 || number.saturating_sub(self.highest) > MOST_AHEAD {
            self.foreign += 1;
            return false;
        }
        if number > self.highest {
            self.lost += number - self.highest - 1;
            self.highest = number;
        } else {
            self.reordered += 1;
            self.lost = self.lost.saturating_sub(1);
        }
        // The clocks need not agree, nor even count from the same moment.
        let transit = arrived_nanos.wrapping_sub(sent_nanos);
        let change = transit.wrapping_sub(self.transit_nanos.unwrap_or(transit)).unsigned_abs() as f64;
        self.transit_nanos = Some(transit);
        self.jitter_nanos += (change - self.jitter_nanos) / 16.0;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counted(numbers: &[u64]) -> (u64, u64, u64) {
        let mut sequence = Sequence::default();
        for number in numbers {
            sequence.take(Header { sent_nanos: 0, number: *number }, 0);
        }
        (sequence.highest, sequence.lost, sequence.reordered)
    }

    #[test]
    fn gaps_are_losses_until_they_are_filled() {
        assert_eq!(counted(&[1, 2, 3]), (3, 0, 0));
        assert_eq!(counted(&[1, 2, 5]), (5, 2, 0));
        assert_eq!(counted(&[1, 2, 5, 3]), (5, 1, 1));
        assert_eq!(counted(&[2, 1, 3]), (3, 0, 1));
        assert_eq!(counted(&[1, 2, 2]), (2, 0, 1), "iperf3 takes a double for a late one");
    }

    #[test]
    fn what_cannot_be_is_not_believed() {
        let mut sequence = Sequence::default();
        assert!(sequence.take(Header { sent_nanos: 0, number: 1 }, 0));
        assert!(!sequence.take(Header { sent_nanos: 0, number: u64::MAX }, 0));
        assert!(!sequence.take(Header { sent_nanos: 0, number: 0 }, 0));
        assert_eq!((sequence.highest, sequence.lost, sequence.foreign), (1, 0, 2));
    }

    #[test]
    fn jitter_is_that_of_the_rfc() {
        let mut sequence = Sequence::default();
        // The first transit is the measure; then 16 µs more, which moves the estimate by a 16th.
        sequence.take(Header { sent_nanos: 0, number: 1 }, 500);
        sequence.take(Header { sent_nanos: 100_000, number: 2 }, 116_500);
        assert_eq!(sequence.jitter_nanos, 1000.0);
        sequence.take(Header { sent_nanos: 200_000, number: 3 }, 216_500);
        assert_eq!(sequence.jitter_nanos, 937.5);
    }

    proptest! {
        #[test]
        fn headers_are_read_back(seconds: u32, micros in 0u32..1_000_000, number: u64, wide: bool) {
            let number = if wide { number } else { number & 0xffff_ffff };
            let header = Header { sent_nanos: i64::from(seconds) * 1_000_000_000 + i64::from(micros) * 1000, number };
            let mut datagram = [0; 16];
            header.write(&mut datagram, wide);
            prop_assert_eq!(Header::read(&datagram, wide), Some(header));
            prop_assert_eq!(Header::read(&datagram[..Header::bytes(wide) - 1], wide), None);
        }

        #[test]
        fn any_datagrams_add_up(numbers: Vec<u64>, times: Vec<i64>) {
            let mut sequence = Sequence::default();
            for (number, time) in numbers.iter().zip(&times) {
                sequence.take(Header { sent_nanos: time.wrapping_mul(7), number: *number }, *time);
            }
            prop_assert!(sequence.lost <= sequence.highest);
            prop_assert!(sequence.jitter_nanos >= 0.0);
        }
    }
}
