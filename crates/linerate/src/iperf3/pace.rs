//! Keeping a rate by our own clock: each send has a moment at which it is due, counted from the start, so that no error adds up.
//!
//! The kernel's pacing of UDP needs the `fq` qdisc, and is accepted and ignored without it.

use std::time::{Duration, Instant};

/// Who is later than this (a host short of CPU) has lost that time: catching up would be a burst at full speed.
const MOST_LATE: Duration = Duration::from_millis(100);
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
        (bits_per_second > 0).then(|| Pace {
            start,
            bytes_per_second: bits_per_second as f64 / 8.0,
            sent: 0.0,
        })
    }

    /// Bytes that this rate moves in so long.
    pub fn bytes_in(&self, time: Duration) -> usize {
        (self.bytes_per_second * time.as_secs_f64()) as usize
    }

    /// Whether the next send is due.
    pub fn next(&mut self, now: Instant) -> Next {
        let due = self.start + Duration::from_secs_f64((self.sent / self.bytes_per_second).min(1e9));
        match due.checked_duration_since(now) {
            Some(wait) if !wait.is_zero() => Next::Wait(wait),
            _ => {
                let late = now.saturating_duration_since(due);
                if late > MOST_LATE {
                    self.start += late;
                }
                Next::Send
            }
        }
    }

    pub fn sent(&mut self, bytes: usize) {
        self.sent += bytes as f64;
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
                    pace.sent(1000);
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
        let mut sent = 0;
        let late = start + Duration::from_secs(10);
        while pace.next(late) == Next::Send {
            pace.sent(1000);
            sent += 1000;
        }
        assert!(sent <= 101_000, "a burst of {sent} bytes");
        assert!(Pace::new(0, start).is_none());
    }
}
