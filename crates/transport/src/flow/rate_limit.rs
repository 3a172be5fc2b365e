//! The most that all workers of a flow move together, a limit that the user sets: beside a server's other work.
//!
//! What is read is paid when it is asked for, what is sent when it is handed to the kernel, each out of an
//! allowance that all workers share. The two are of the same rate, so that a flow goes at it and neither end is
//! ever flooded, at its start neither.

use super::allowance::{Allowance, CATCH_UP, SHORTEST_SLEEP};
use linerate_system::clock;
use std::time::{Duration, Instant};

/// A send lasts this long at the rate.
const PIECE: Duration = Duration::from_micros(500);
/// Smaller sends cost more than they smooth.
const LEAST_PIECE_BYTES: usize = 64 << 10;

/// The rate, and what was moved of it.
#[derive(Debug)]
pub struct RateLimit {
    reads: Allowance,
    sends: Allowance,
}

impl RateLimit {
    /// Bytes per second of each direction, from `start` on.
    pub fn new(bytes_per_second: f64, start: Instant) -> Self {
        let allowance = || Allowance::new(bytes_per_second, start).with_credit(CATCH_UP);
        RateLimit { reads: allowance(), sends: allowance() }
    }

    /// Nothing, but in the times that [`RateLimit::open`] names.
    pub fn closed(start: Instant) -> Self {
        RateLimit { reads: Allowance::closed(start), sends: Allowance::closed(start) }
    }

    /// This rate from `begin` to `end`, with what was missed since `begin`.
    pub fn open(&self, bytes_per_second: f64, begin: Instant, end: Instant) {
        self.reads.open(bytes_per_second, begin, end);
        self.sends.open(bytes_per_second, begin, end);
    }

    /// What is open closes at `end` instead.
    pub(crate) fn close_at(&self, end: Instant) {
        self.reads.close_at(end);
        self.sends.close_at(end);
    }

    /// Bytes per second.
    pub fn bytes_per_second(&self) -> f64 {
        self.reads.bytes_per_second()
    }

    /// Bytes of a send.
    pub(crate) fn piece_bytes(&self) -> usize {
        ((self.bytes_per_second() * PIECE.as_secs_f64()) as usize).max(LEAST_PIECE_BYTES)
    }

    /// How long until the next read may be asked for; none: now.
    pub(crate) fn next_read(&self, now: Instant) -> Option<Duration> {
        Some(self.reads.debt(now)).filter(|debt| *debt >= SHORTEST_SLEEP)
    }

    /// How long until the next send may go out; none: now.
    pub(crate) fn next_send(&self, now: Instant) -> Option<Duration> {
        Some(self.sends.debt(now)).filter(|debt| *debt >= SHORTEST_SLEEP)
    }

    /// So much was asked for.
    pub(crate) fn read(&self, bytes: usize, now: Instant) {
        self.reads.charge(bytes as u64, now);
    }

    /// So much was handed over.
    pub(crate) fn sent(&self, bytes: usize, now: Instant) {
        self.sends.charge(bytes as u64, now);
    }

    /// For bytes that others than the workers move. Waits until earlier bytes are paid, then charges these; `rest` sleeps
    /// for a while and says whether it is over.
    pub fn pay(&self, bytes: u64, rest: impl Fn(Duration) -> bool) {
        self.reads.sleep_off(rest);
        self.reads.charge(bytes, clock::now());
    }
}
