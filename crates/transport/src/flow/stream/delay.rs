//! How evenly datagrams come: interarrival jitter (RFC 3550) and the spread of their one-way delay (RFC
//! 5481).
//!
//! The two hosts' clocks need not agree: only differences of (arrival − sending) are used. A train of
//! datagrams is handed to the kernel at once and comes at once, so it is one sample: its datagrams would show
//! each other no delay at all and hide that between trains.

use std::time::{Duration, Instant, SystemTime};

/// A datagram that waited longer than this for its receiver was not: the clock was set meanwhile.
const LONGEST_HOLD: Duration = Duration::from_secs(10);

/// The account of one stream.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Delays {
    last_transit: Option<i128>,
    jitter: f64,
    shortest: i128,
    longest: i128,
}

impl Delays {
    /// A train that was sent and came at these times, nanoseconds, each on its own host's clock.
    pub(crate) fn take(&mut self, sent_nanos: u64, arrived_nanos: u64) {
        let transit = i128::from(arrived_nanos) - i128::from(sent_nanos);
        match self.last_transit {
            None => (self.shortest, self.longest) = (transit, transit),
            Some(last) => {
                // RFC 3550, 6.4.1: J += (|D| − J) / 16.
                self.jitter += ((transit - last).unsigned_abs() as f64 - self.jitter) / 16.0;
                self.shortest = self.shortest.min(transit);
                self.longest = self.longest.max(transit);
            }
        }
        self.last_transit = Some(transit);
    }

    /// Interarrival jitter, nanoseconds.
    pub(crate) fn jitter_nanos(&self) -> u64 {
        self.jitter as u64
    }

    /// The longest delay less the shortest, nanoseconds.
    pub(crate) fn variation_nanos(&self) -> u64 {
        u64::try_from(self.longest - self.shortest).unwrap_or(u64::MAX)
    }
}

/// When a train that the kernel took at `arrived` came, on the steady clock that began at `start`,
/// nanoseconds. The kernel stamps by the clock of the day, which may be set at any time; so only how long the
/// train has waited is taken from it.
pub(crate) fn arrival_nanos(
    start: Instant,
    now: Instant,
    clock: SystemTime,
    arrived: Option<SystemTime>,
) -> u64 {
    let hold_time = arrived.and_then(|arrived| clock.duration_since(arrived).ok()).unwrap_or_default();
    let hold_time = if hold_time > LONGEST_HOLD { Duration::ZERO } else { hold_time };
    u64::try_from(now.saturating_duration_since(start).saturating_sub(hold_time).as_nanos())
        .unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_even_stream_has_no_jitter_whatever_the_clocks() {
        let mut delays = Delays::default();
        for step in 0..1000u64 {
            delays.take(step * 1000, (1 << 60) + step * 1000);
        }
        assert_eq!((delays.jitter_nanos(), delays.variation_nanos()), (0, 0));
    }

    #[test]
    fn every_other_one_late_by_a_millisecond_is_a_jitter_of_one() {
        let mut delays = Delays::default();
        for step in 0..1000u64 {
            delays.take(step * 10_000_000, step * 10_000_000 + (step % 2) * 1_000_000);
        }
        assert!((990_000..=1_000_000).contains(&delays.jitter_nanos()), "{delays:?}");
        assert_eq!(delays.variation_nanos(), 1_000_000);
    }

    #[test]
    fn a_clock_that_jumps_is_no_delay() {
        let (start, clock) = (Instant::now(), SystemTime::now());
        let now = start + Duration::from_millis(5);
        let at = |arrived| arrival_nanos(start, now, clock, Some(arrived));
        assert_eq!(at(clock - Duration::from_millis(2)), 3_000_000);
        assert_eq!(at(clock + Duration::from_secs(3600)), 5_000_000);
        assert_eq!(at(clock - Duration::from_secs(3600)), 5_000_000);
    }

    proptest! {
        #[test]
        fn any_times_will_do(times in proptest::collection::vec(any::<(u64, u64)>(), 0..50)) {
            let mut delays = Delays::default();
            times.iter().for_each(|(sent, arrived)| delays.take(*sent, *arrived));
            let spread = times.iter().map(|(sent, arrived)| i128::from(*arrived) - i128::from(*sent));
            let widest = spread.clone().max().unwrap_or(0) - spread.min().unwrap_or(0);
            prop_assert_eq!(delays.variation_nanos(), u64::try_from(widest).unwrap_or(u64::MAX));
            prop_assert!(u128::from(delays.jitter_nanos()) <= widest.unsigned_abs() + 1);
        }
    }
}
