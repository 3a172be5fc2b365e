//! Whether a change helped: windows of one state held against those of the other, by the project's own
//! intervals.

use linerate_measure::measure::interval::{self, Interval};
use linerate_measure::measure::statistics::{median, spread};
use serde::Serialize;

/// A change that brings less than this is not worth a change, however sure it is.
pub(crate) const LEAST_SHARE: f64 = 0.02;

/// What a change did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// The intervals part, upwards, by 2 % and more.
    Helped,
    /// The intervals meet, or the medians are less than 2 % apart.
    NoDifference,
    /// The intervals part, downwards, by 2 % and more.
    Hurt,
}

/// Windows of one state.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StateWindows {
    /// Bytes per second, of each.
    pub samples: Vec<f64>,
    pub median: f64,
    /// (max − min) ÷ median.
    pub spread: f64,
    /// Where the true rate lies, with 95 %; none with fewer than three windows.
    pub interval: Option<Interval>,
}

impl StateWindows {
    pub fn of(samples: Vec<f64>) -> StateWindows {
        StateWindows {
            median: median(&samples),
            spread: spread(&samples),
            interval: Interval::of(&samples),
            samples,
        }
    }
}

/// What `wanted` did beside `before`, and by which share the median grew; no difference where they are too
/// few to tell.
pub fn judge(before: &StateWindows, wanted: &StateWindows) -> (Effect, f64) {
    let share = if before.median > 0.0 { wanted.median / before.median - 1.0 } else { 0.0 };
    let effect = match interval::verdict(before.interval, wanted.interval) {
        interval::SampleComparison::Higher if share >= LEAST_SHARE => Effect::Helped,
        interval::SampleComparison::Lower if share <= -LEAST_SHARE => Effect::Hurt,
        _ => Effect::NoDifference,
    };
    (effect, share)
}
