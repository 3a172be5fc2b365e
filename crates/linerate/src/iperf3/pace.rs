//! Keeping a rate by our own clock: each send has a moment at which it is due, counted from the start, so that no error adds up.
//!
//! The kernel's pacing of UDP needs the `fq` qdisc, and is accepted and ignored without it.

use std::time::{Duration, Instant};

/// Who is later than this (a host short of CPU) has lost the time beyond it, and shows a lower rate.
const MOST_LATE: Duration = Duration::from_millis(500);
/// Who is a little late catches up at so many times the rate: faster would overflow buffers that hold the rate well.
const CATCH_UP: f64 = 2.0;
/// Of that rate, so much time's worth may go at once: a sleeper wakes up a fraction of a millisecond late each time.
const AT_ONCE: Duration = Duration::from_millis(1);
/// Shorter waits are spun: to sleep takes about as long.
const SPIN: Duration = Duration::from_micros(30);
/// A sleeper looks at its flag this often.
const LONGEST_SLEEP: Duration = Duration::from_millis(50);

/// The schedule of one sender.
#[derive(Debug)]
pub struct Pace {
    start: Instant,
    bytes_per_second: f64,
    sent: f64,
    /// Not before this, however late we are.
    earliest: Instant,
}

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Send,
    Wait(Duration),
}

impl Pace {
    /// None: unpaced.
    pub fn new(bits_per_second: u64, start: Instant) -> Option<Pace> {
        let bytes_per_second = bits_per_second as f64 / 8.0;
        (bits_per_second > 0).then_some(Pace { start, bytes_per_second, sent: 0.0, earliest: start })
    }

    /// Bytes that this rate moves in so long.
    pub fn bytes_in(&self, time: Duration) -> usize {
        (self.bytes_per_second * time.as_secs_f64()) as usize
    }

    /// Whether the next send is due.
    pub fn next(&mut self, now: Instant) -> Next {
        let due = self.start + Duration::from_secs_f64((self.sent / self.bytes_per_second).min(1e9));
        match due.max(self.earliest).checked_duration_since(now) {
            Some(wait) if !wait.is_zero() => Next::Wait(wait),
            _ => {
                let late = now.saturating_duration_since(due);
                if late > MOST_LATE {
                    self.start += late - MOST_LATE;
                }
                Next::Send
            }
        }
    }

    /// So much was sent now.
    pub fn sent(&mut self, bytes: usize, now: Instant) {
        self.sent += bytes as f64;
        let gap = bytes as f64 / self.bytes_per_second / CATCH_UP;
        let since = now.checked_sub(AT_ONCE).unwrap_or(now);
        self.earliest = self.earliest.max(since) + Duration::from_secs_f64(gap.min(1e9));
    }
}

/// Waits, at most as long as a flag may go unseen.
pub fn wait(time: Duration) {
    if time > SPIN {
        std::thread::sleep(time.min(LONGEST_SLEEP));
    } else {
        let start = Instant::now();
        while start.elapsed() < time {
            std::hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_kept_exactly_on_any_clock() {
        let start = Instant::now();
        let mut pace = Pace::new(8_000_000, start).expect("paced");
        let (mut now, mut sent) = (start, 0);
        while now < start + Duration::from_secs(1) {
            match pace.next(now) {
                // A sleeper wakes up late, each time by another while.
                Next::Wait(time) => now += time + Duration::from_micros(sent % 900),
                Next::Send => {
                    pace.sent(1000, now);
                    sent += 1000;
                }
            }
        }
        assert!((1_000_000..=1_002_000).contains(&sent), "{sent}");
    }

    #[test]
    fn a_long_stall_is_lost_and_not_made_up_for() {
        let start = Instant::now();
        let mut pace = Pace::new(8_000_000, start).expect("paced");
        let (late, mut now, mut sent) = (start + Duration::from_secs(10), start + Duration::from_secs(10), 0);
        while now < late + Duration::from_secs(1) {
            match pace.next(now) {
                Next::Wait(time) => now += time,
                Next::Send => {
                    pace.sent(1000, now);
                    sent += 1000;
                }
            }
            let most = 2_000_000 * (now - late + AT_ONCE).as_micros() / 1_000_000;
            assert!(sent <= most + 1000, "{sent} bytes after {:?}", now - late);
        }
        // Half a second of the stall is made up for.
        assert!((1_500_000..=1_502_000).contains(&sent), "{sent}");
        assert!(Pace::new(0, start).is_none());
    }
}
