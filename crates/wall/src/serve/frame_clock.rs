//! When a tile's frames are due, in nanoseconds since 1970.

use crate::geometry::FrameRate;
use linerate_system::clock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The hosts' clock now.
pub(crate) fn nanos_now() -> u64 {
    nanos(clock::date())
}

/// A time of that clock.
pub(crate) fn nanos(time: SystemTime) -> u64 {
    u64::try_from(time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()).unwrap_or(u64::MAX)
}

/// The clock of one tile: the ticks of the movie, a little later by its place in the order of the tiles.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameClock {
    pub rate: FrameRate,
    /// Nanoseconds after the tick's start at which this tile's frame begins.
    pub stagger: u64,
    /// Length of a tick.
    pub period: u64,
}

impl FrameClock {
    /// The tile that begins `stagger` nanoseconds after each tick.
    pub(crate) fn new(rate: FrameRate, stagger: u64) -> Self {
        FrameClock { rate, stagger, period: rate.frame_nanos().max(1) }
    }

    /// When the frame of a tick shall begin.
    pub(crate) fn due(&self, tick: u64) -> u64 {
        nanos(self.rate.start_of(tick)).saturating_add(self.stagger)
    }

    /// A frame that begins later than this after it was due is left out: the next one needs the time.
    pub(crate) fn grace(&self) -> u64 {
        self.period / 2
    }

    /// The first tick whose frame may still begin.
    pub(crate) fn first_in_time(&self, now: u64) -> u64 {
        let latest = now.saturating_sub(self.stagger).saturating_sub(self.grace());
        let tick = self.rate.tick_at(UNIX_EPOCH + Duration::from_nanos(latest));
        if self.due(tick).saturating_add(self.grace()) < now { tick + 1 } else { tick }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_in_time_is_in_time_and_the_one_before_is_not(
            now in 1_600_000_000_000_000_000u64..1_900_000_000_000_000_000, share in 0.0f64..1.0, rate in 1u32..1000,
        ) {
            let rate = FrameRate { numerator: rate, denominator: 1 };
            let clock = FrameClock::new(rate, (share * rate.frame_nanos() as f64) as u64);
            let first = clock.first_in_time(now);
            prop_assert!(clock.due(first) + clock.grace() >= now);
            prop_assert!(clock.due(first - 1) + clock.grace() < now);
        }
    }
}
