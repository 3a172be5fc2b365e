//! Figures of a measurement in words that screens, pages and comparisons share.

use super::charts::{Quantity, with_unit};
use super::figure::{percent, rate};
use linerate_measure::measure::Measurement;

/// Of the repeats; a dash for one.
pub(super) fn spread(measurement: &Measurement) -> String {
    if measurement.samples.len() > 1 { percent(measurement.spread) } else { "–".into() }
}

/// `82 µs`, `1.25 ms`; a dash where nothing was timed.
pub(super) fn seconds_word(seconds: f64) -> String {
    if seconds.is_finite() && seconds > 0.0 { with_unit(Quantity::Seconds, seconds) } else { "–".into() }
}

/// `2000 IOPS`, `451 thousand IOPS`.
pub(super) fn operations_word(operations: f64) -> String {
    match rate(operations) {
        Some(operations) if operations >= 1e6 => format!("{:.2}M", operations / 1e6),
        Some(operations) if operations >= 1e4 => format!("{:.1}k", operations / 1e3),
        Some(operations) => format!("{operations:.0}"),
        None => "–".into(),
    }
}
