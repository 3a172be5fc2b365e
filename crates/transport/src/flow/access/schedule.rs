//! When the next request is due. Times are nanoseconds on the worker's clock.

use super::Pace;

/// A held rate makes up for no more than this after a delay: a twentieth of the window that has to be even.
const MOST_CREDIT_NANOS: f64 = 5e6;

/// Gives out the intended starts of requests, one after another.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    pace: Pace,
    /// Between two requests, nanoseconds; 0: none is held back.
    interval: f64,
    first: f64,
    sent: u64,
    /// Of a held rate: the earliest start of the next.
    next: f64,
}

impl Schedule {
    /// For requests of `transfer_bytes` from `now` on. `phase`, in [0, 1), is the part of an interval by
    /// which this worker's requests come after another's.
    pub(crate) fn new(pace: Pace, transfer_bytes: usize, now: u64, phase: f64) -> Self {
        let interval = match pace {
            Pace::Closed => 0.0,
            Pace::Open { requests_per_second } => 1e9 / requests_per_second,
            Pace::Held { bytes_per_second } => transfer_bytes as f64 * 1e9 / bytes_per_second,
        };
        // No rate, or none that makes sense: nothing is ever due.
        let interval = if interval >= 0.0 { interval } else { f64::INFINITY };
        let first = now as f64 + if interval.is_finite() { phase * interval } else { 0.0 };
        let first = if interval == f64::INFINITY { f64::INFINITY } else { first };
        Schedule { pace, interval, first, sent: 0, next: first }
    }

    /// When the next was or is to start; 0 where it is free to.
    fn next_start(&self) -> f64 {
        match self.pace {
            Pace::Closed => 0.0,
            // A product, not a sum: no error adds up over hours.
            Pace::Open { .. } => self.first + self.sent as f64 * self.interval,
            Pace::Held { .. } => self.next,
        }
    }

    /// The moment from which the next may be sent, once it has come.
    pub(crate) fn due(&self, now: u64) -> Option<u64> {
        let start = self.next_start();
        (start <= now as f64).then_some(start as u64)
    }

    /// One was sent.
    pub(crate) fn sent(&mut self, now: u64) {
        self.sent += 1;
        if matches!(self.pace, Pace::Held { .. }) {
            self.next = self.next.max(now as f64 - MOST_CREDIT_NANOS) + self.interval;
        }
    }

    /// Nanoseconds until the next is due.
    pub(crate) fn wait(&self, now: u64) -> u64 {
        (self.next_start() - now as f64).max(0.0).ceil() as u64
    }

    /// How late each is that was due by now and not sent, the latest first (open loop); at most so many of
    /// them.
    pub(crate) fn overdue(&self, now: u64, most: usize) -> impl Iterator<Item = u64> {
        let first = self.next_start();
        let count = if matches!(self.pace, Pace::Open { .. }) { most } else { 0 };
        let interval = self.interval;
        (0..count)
            .map(move |index| now as f64 - (first + index as f64 * interval))
            .take_while(|late| *late > 0.0)
            .map(|late| late as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_loop_keeps_its_even_starts_however_late_it_is() {
        let pace = Pace::Open { requests_per_second: 1000.0 };
        let mut schedule = Schedule::new(pace, 4096, 5_000_000, 0.5);
        assert_eq!((schedule.due(5_499_999), schedule.wait(5_000_000)), (None, 500_000));
        let now = 2_005_500_000;
        let starts: Vec<u64> = std::iter::from_fn(|| {
            let start = schedule.due(now);
            schedule.sent(now);
            start
        })
        .collect();
        assert_eq!(starts.len(), 2001);
        assert!(starts.windows(2).all(|pair| pair[1] - pair[0] == 1_000_000));
        assert_eq!(starts[0], 5_500_000);
    }

    #[test]
    fn a_held_rate_does_not_catch_up() {
        let mut schedule = Schedule::new(Pace::Held { bytes_per_second: 4_096_000.0 }, 4096, 0, 0.0);
        let mut sends = Vec::new();
        let mut now = 0u64;
        while now < 3_000_000_000 {
            // Away from 1.0 s to 1.5 s.
            if !(1_000_000_000..1_500_000_000).contains(&now) && schedule.due(now).is_some() {
                schedule.sent(now);
                sends.push(now);
            }
            now += 100_000;
        }
        for (index, from) in sends.iter().enumerate() {
            let within = sends[index..].iter().take_while(|at| **at < from + 100_000_000).count();
            assert!(within <= 106, "{within} in the 100 ms from {from}");
        }
        assert!((2490..=2510).contains(&sends.len()), "{}", sends.len());
    }

    #[test]
    fn no_rate_is_never_due() {
        for requests_per_second in [0.0, -1.0, f64::NAN] {
            let schedule = Schedule::new(Pace::Open { requests_per_second }, 4096, 7, 0.3);
            assert_eq!(schedule.due(u64::MAX / 2), None);
        }
        assert_eq!(Schedule::new(Pace::Closed, 4096, 7, 0.3).due(9), Some(0));
    }

    #[test]
    fn what_was_not_sent_was_late_too() {
        let schedule = Schedule::new(Pace::Open { requests_per_second: 10.0 }, 4096, 0, 0.0);
        let late: Vec<u64> = schedule.overdue(350_000_000, 100).collect();
        assert_eq!(late, [350_000_000, 250_000_000, 150_000_000, 50_000_000]);
    }
}
