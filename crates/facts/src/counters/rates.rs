//! Rates from two readings. A counter that went back has wrapped where that explains it, else it began again
//! and has no rate: never a negative one, never a huge one.

use std::time::Instant;

/// How wide the kernel keeps a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    Bits32,
    Bits64,
}

/// A wrap is believed only where it means less than this per second: what wraps at 32 bits are counts of
/// interrupts, packets of one core and milliseconds, and none of them comes near.
const MOST_32_PER_SECOND: f64 = 1e8;
/// … 1 TB/s.
const MOST_64_PER_SECOND: f64 = 1e12;

/// The time between two readings, seconds; more than 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Elapsed(f64);

impl Elapsed {
    /// None for less than a millisecond: too short for a rate.
    pub fn between(before: Instant, now: Instant) -> Option<Elapsed> {
        Elapsed::of_seconds(now.checked_duration_since(before)?.as_secs_f64())
    }

    /// The same, of seconds.
    pub fn of_seconds(seconds: f64) -> Option<Elapsed> {
        (seconds.is_finite() && seconds >= 1e-3).then_some(Elapsed(seconds))
    }

    /// Seconds.
    pub fn seconds(self) -> f64 {
        self.0
    }

    /// What was counted in between; none where the counter began again.
    pub fn counted(self, before: u64, now: u64, width: Width) -> Option<u64> {
        if let Some(counted) = now.checked_sub(before) {
            return Some(counted);
        }
        let (counted, most) = match width {
            Width::Bits32 if before <= u64::from(u32::MAX) => {
                ((1u64 << 32) - before + now, MOST_32_PER_SECOND)
            }
            // Wider than it should be: it can not have wrapped there.
            Width::Bits32 => return None,
            Width::Bits64 => (now.wrapping_sub(before), MOST_64_PER_SECOND),
        };
        (counted as f64 <= most * self.0).then_some(counted)
    }

    /// Per second, of a counter of 64 bits.
    pub fn rate(self, before: u64, now: u64) -> Option<f64> {
        self.rate_of(before, now, Width::Bits64)
    }

    /// Per second.
    pub fn rate_of(self, before: u64, now: u64, width: Width) -> Option<f64> {
        self.counted(before, now, width).map(|counted| rounded(counted as f64 / self.0))
    }

    /// Per second, where both are known.
    pub fn rate_known(self, before: Option<u64>, now: Option<u64>) -> Option<f64> {
        self.rate(before?, now?)
    }
}

/// Six digits that count: more are noise, and cost bytes in each recorded line. What is no number becomes 0.
pub fn rounded(value: f64) -> f64 {
    if !value.is_finite() || value == 0.0 {
        return 0.0;
    }
    let digits = 5 - value.abs().log10().floor() as i32;
    // Beyond what a power of ten can be; nothing that is counted is.
    if digits.abs() > 300 {
        return value;
    }
    let scale = 10f64.powi(digits);
    let rounded = (value * scale).round() / scale;
    if rounded.is_finite() { rounded } else { value }
}

/// A sum of what is known; none where nothing is.
pub fn sum(parts: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    parts.into_iter().flatten().reduce(|a, b| a + b).map(rounded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn second() -> Elapsed {
        Elapsed::of_seconds(1.0).expect("a second")
    }

    #[test]
    fn wraps_and_resets() {
        assert_eq!(second().counted(10, 25, Width::Bits64), Some(15));
        assert_eq!(second().counted(u64::from(u32::MAX) - 4, 10, Width::Bits32), Some(15));
        assert_eq!(second().counted(u64::MAX - 4, 10, Width::Bits64), Some(15));
        assert_eq!(second().counted(3_000_000_000, 5, Width::Bits32), None, "a driver was loaded again");
        assert_eq!(second().counted(1000, 5, Width::Bits64), None);
        assert_eq!(second().counted(1 << 40, 5, Width::Bits32), None);
        assert_eq!(Elapsed::of_seconds(0.0).or(Elapsed::of_seconds(f64::NAN)), None);
    }

    #[test]
    fn six_digits() {
        assert_eq!(rounded(1_234_567_890.0), 1_234_570_000.0);
        assert_eq!(rounded(0.000_123_456_789), 0.000_123_457);
        assert_eq!((rounded(f64::NAN), rounded(-0.0), rounded(f64::INFINITY)), (0.0, 0.0, 0.0));
        assert_eq!(rounded(f64::MIN_POSITIVE), f64::MIN_POSITIVE);
    }

    proptest! {
        #[test]
        fn a_rate_is_never_negative_and_never_beyond_what_is_plausible(
            before in any::<u64>(), now in any::<u64>(), seconds in 0.001f64..10_000.0, wide in any::<bool>()
        ) {
            let span = Elapsed::of_seconds(seconds).expect("a span");
            let (width, most) = match wide {
                true => (Width::Bits64, MOST_64_PER_SECOND),
                false => (Width::Bits32, MOST_32_PER_SECOND),
            };
            match span.rate_of(before, now, width) {
                Some(rate) if now < before => prop_assert!((0.0..=most * 1.001).contains(&rate), "{rate}"),
                Some(rate) => prop_assert!(rate >= 0.0),
                None => prop_assert!(now < before),
            }
        }

        #[test]
        fn a_wrap_counts_as_if_there_were_none(start in any::<u32>(), counted in 0u64..100_000_000) {
            let now = (u64::from(start) + counted) & u64::from(u32::MAX);
            prop_assert_eq!(second().counted(u64::from(start), now, Width::Bits32), Some(counted));
            let start = u64::MAX - u64::from(start);
            prop_assert_eq!(second().counted(start, start.wrapping_add(counted), Width::Bits64), Some(counted));
        }

        #[test]
        fn rounding_keeps_the_value(value in -1e18f64..1e18) {
            prop_assert!((rounded(value) - value).abs() <= value.abs() * 1e-5);
        }
    }
}
