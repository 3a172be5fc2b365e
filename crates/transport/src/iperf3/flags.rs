//! What tells the threads of a test to end: by the word of who leads them, or because all bytes that were
//! asked for are sent.

use linerate_system::stop::Stop;
use std::sync::atomic::{AtomicU64, Ordering};

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
