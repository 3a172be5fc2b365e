//! How long to let datagrams gather: waking up for each burst costs a screen more than copying it.
//!
//! The same thought as in `flow::receive`, with longer naps: video is paced by its sender, who waits for no
//! answer. What comes during a nap must be a small part of the socket's buffer, also when a sender sends a
//! frame at once.

use std::time::Duration;

/// Fifteen screens on two cores wake up 3,750 times a second, not 100,000 times.
const LONGEST: Duration = Duration::from_millis(4);
/// A shorter nap is none: the timer's slack is as long.
const SHORTEST: Duration = Duration::from_micros(60);
/// Of the buffer: what may lie there after a nap, and what is too much.
const SMALL_PART: u64 = 32;
const LARGE_PART: u64 = 16;

/// The nap of one receiver.
#[derive(Debug)]
pub(crate) struct Nap {
    small_bytes: u64,
    large_bytes: u64,
    length: Duration,
}

impl Nap {
    /// For a socket whose buffer holds so much payload.
    pub(crate) fn new(buffer_bytes: u64) -> Nap {
        Nap {
            small_bytes: buffer_bytes / SMALL_PART,
            large_bytes: buffer_bytes / LARGE_PART,
            length: SHORTEST,
        }
    }

    /// So much was there after the last one: the next one; none where it had better wait in the kernel.
    pub(crate) fn after(&mut self, bytes: u64) -> Option<Duration> {
        if bytes >= self.large_bytes {
            self.length /= 2;
        } else if bytes < self.small_bytes {
            self.length = self.length * 3 / 2;
        }
        self.length = self.length.clamp(SHORTEST / 2, LONGEST);
        (self.length >= SHORTEST).then_some(self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_long_at_low_rates_and_none_where_the_buffer_fills() {
        let mut nap = Nap::new(16 << 20);
        let long = (0..50).fold(None, |_, _| nap.after(70_000));
        assert_eq!(long, Some(LONGEST));
        // A whole frame at once.
        let short = (0..50).fold(None, |_, _| nap.after(12_288_000));
        assert_eq!(short, None);
        assert!(nap.after(1000).is_none_or(|nap| nap < Duration::from_millis(1)));
    }
}
