//! The highest rate of UDP without loss, by trials as in RFC 2544, section 26.1: a rate passes if every
//! datagram arrives.
//!
//! A queue on the way hides a rate that is too high until it is full. So a trial fails, too, where less
//! arrived in the windows than was sent in them: what waits in a queue does not arrive. The last word has a
//! longer trial.

use super::job::StreamsJob;
use super::{StreamBench, measure_quietly};
use crate::measure::product::Measurement;
use crate::measure::window::WindowSpec;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Of a trial; a tenth of a second first, in which buckets of shapers run dry.
const TRIAL: WindowSpec =
    WindowSpec { warm_up: Duration::from_millis(300), window: Duration::from_millis(400), repeats: 2 };
/// The search ends when its bounds are this close.
const RESOLUTION: f64 = 0.004;
/// Up from a rate that passed, where none has failed yet.
const RISE: f64 = 1.1;
/// Longer trials, each at a lower rate or once more.
const MOST_BACK: u32 = 10;
/// More trials than bisection from any start needs.
const MOST_TRIALS: usize = 24;
/// A trial that lost no more than this, or whose queue grew, is made again before it is believed: one moment
/// of another program's loses some datagrams at any rate ("binary search with loss verification", ETSI GS
/// NFV-TST 009, section 12.3.3).
const LITTLE_LOSS: f64 = 0.02;
/// Arrived ÷ sent in the windows: less means that a queue grows. Clocks and the ends of windows leave this
/// much doubt.
const KEEPS_UP: f64 = 0.995;

/// One trial.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RateTrial {
    /// Asked for, bytes of payload per second.
    pub offered: f64,
    pub bytes_per_second: f64,
    /// Share of the datagrams that did not arrive.
    pub loss: f64,
    pub passed: bool,
}

/// The search.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RateSearch {
    pub trials: Vec<RateTrial>,
    /// The highest rate that passed, bytes of payload per second.
    pub highest: Option<f64>,
}

/// Searches, and gives the search with the trial that confirmed its result.
pub fn find_rate(
    bench: &mut StreamBench<'_>,
    job: &StreamsJob,
) -> (RateSearch, Option<Measurement>, Vec<String>) {
    let windows = bench.windows;
    // As fast as the receiver's answers allow: most links end within some percent of it.
    let open = measure_quietly(bench, &StreamsJob { bytes_per_second: None, ..job.clone() });
    let Some(reached) = open.measurement else { return (RateSearch::default(), None, open.failures) };
    let mut failures = Vec::new();
    bench.windows = TRIAL;
    let trials = narrow(reached.bytes_per_second, |rate| {
        if bench.stopped() {
            return None;
        }
        let (trial, _, failed) = attempt(bench, job, rate);
        failures.extend(failed);
        trial
    });
    bench.windows = windows;
    let mut search = RateSearch { trials, highest: None };
    let confirmed = confirm(bench, job, &mut search, &mut failures);
    (search, confirmed, failures)
}

/// Trials from this rate on until the highest that passes is known, or there is no further one.
fn narrow(first: f64, mut attempt: impl FnMut(f64) -> Option<RateTrial>) -> Vec<RateTrial> {
    let (mut low, mut high, mut next) = (0.0, f64::INFINITY, first);
    let mut trials: Vec<RateTrial> = Vec::new();
    while trials.len() < MOST_TRIALS {
        let Some(trial) = attempt(next) else { break };
        let again = trials.last().is_some_and(|before| before.offered == next);
        trials.push(trial);
        if trial.passed {
            low = next;
        } else if again || trial.loss > LITTLE_LOSS {
            high = next;
        } else {
            continue; // at the same rate
        }
        if high - low <= RESOLUTION * high && high.is_finite() {
            break;
        }
        // A small receive buffer holds the window, and so where the search begins, far below what the path
        // carries at a rate.
        next = if high.is_finite() { (low + high) / 2.0 } else { low * RISE };
    }
    trials
}

/// The full length at the highest rate that passed; where that is too long for it, less each time.
fn confirm(
    bench: &mut StreamBench<'_>,
    job: &StreamsJob,
    search: &mut RateSearch,
    failures: &mut Vec<String>,
) -> Option<Measurement> {
    let passed = search.trials.iter().filter(|trial| trial.passed).map(|trial| trial.offered);
    let (mut rate, mut step) = (passed.fold(0.0, f64::max), RESOLUTION);
    let mut last = None;
    for _ in 0..MOST_BACK {
        if rate <= 0.0 || bench.stopped() {
            break;
        }
        let (trial, measurement, failed) = attempt(bench, job, rate);
        failures.extend(failed);
        let trial = trial?;
        let again = last.is_some() && search.trials.last().is_some_and(|before| before.offered == rate);
        search.trials.push(trial);
        last = measurement;
        if trial.passed {
            search.highest = Some(rate);
            break;
        }
        if !again && trial.loss <= LITTLE_LOSS {
            continue;
        }
        // 0.4 %, 0.8 %, 1.6 %, … at last a fourth.
        rate *= 1.0 - step;
        step *= 2.0;
    }
    last
}

fn attempt(
    bench: &mut StreamBench<'_>,
    job: &StreamsJob,
    offered: f64,
) -> (Option<RateTrial>, Option<Measurement>, Vec<String>) {
    let measured = measure_quietly(bench, &StreamsJob { bytes_per_second: Some(offered), ..job.clone() });
    let trial = measured.measurement.as_ref().map(|measurement| {
        let (bytes_per_second, loss) = (measurement.bytes_per_second, measurement.loss);
        RateTrial {
            offered,
            bytes_per_second,
            loss,
            passed: loss == 0.0 && bytes_per_second > KEEPS_UP * offered,
        }
    });
    (trial, measured.measurement, measured.failures)
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_testing::Dice;

    /// What a link of this rate makes of a trial; something else spoils this share of them.
    fn link(rate: f64, spoilt: f64, mut dice: Dice) -> impl FnMut(f64) -> Option<RateTrial> {
        move |offered| {
            let spoilt = dice.uniform() < spoilt;
            let loss = if spoilt { 0.001 } else { (1.0 - rate / offered).max(0.0) };
            Some(RateTrial { offered, bytes_per_second: offered * (1.0 - loss), loss, passed: loss == 0.0 })
        }
    }

    fn highest(trials: &[RateTrial]) -> f64 {
        trials.iter().filter(|trial| trial.passed).map(|trial| trial.offered).fold(0.0, f64::max)
    }

    #[test]
    fn the_highest_rate_is_found_from_above_and_from_far_below() {
        for first in [60.0, 99.0, 101.0, 130.0] {
            let trials = narrow(first, link(100.0, 0.0, Dice::new(1)));
            assert!((99.5..=100.0).contains(&highest(&trials)), "from {first}: {trials:?}");
        }
    }

    #[test]
    fn a_trial_that_something_else_spoilt_does_not_end_the_search_below() {
        let right = |seed: u64| {
            let trials = narrow(104.0, link(100.0, 0.1, Dice::new(seed)));
            (99.0..=100.0).contains(&highest(&trials))
        };
        // Two spoilt ones in a row still mislead it: once in a hundred trials that would pass.
        assert!((0..200).filter(|seed| right(*seed)).count() >= 180);
    }
}
