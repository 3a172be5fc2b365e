//! What one stream counts while it works: written by its thread, read by who takes the intervals.

use super::sequence::Sequence;
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
