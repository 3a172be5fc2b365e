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
/// Longer trials, each at a lower rate.
const MOST_BACK: u32 = 7;
/// More trials than bisection from any start needs.
const MOST_TRIALS: usize = 20;
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
    let mut search = RateSearch::default();
    let windows = bench.windows;
    // As fast as the receiver's answers allow: most links end within some percent of it.
    let open = measure_quietly(bench, &StreamsJob { bytes_per_second: None, ..job.clone() });
    let Some(reached) = open.measurement else { return (search, None, open.failures) };
    let (mut low, mut high) = (0.0, f64::INFINITY);
    let mut failures = Vec::new();
    bench.windows = TRIAL;
    let mut next = reached.bytes_per_second;
    while search.trials.len() < MOST_TRIALS && !bench.stopped() {
        let (trial, _, failed) = attempt(bench, job, next);
        failures.extend(failed);
        let Some(trial) = trial else { break };
        *(if trial.passed { &mut low } else { &mut high }) = next;
        search.trials.push(trial);
        if high - low <= RESOLUTION * high && high.is_finite() {
            break;
        }
        // A small receive buffer holds the window, and so where the search begins, far below what the path
        // carries at a rate.
        next = if high.is_finite() { (low + high) / 2.0 } else { low * RISE };
    }
    bench.windows = windows;
    let confirmed = confirm(bench, job, &mut search, &mut failures);
    (search, confirmed, failures)
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
        search.trials.push(trial);
        last = measurement;
        if trial.passed {
            search.highest = Some(rate);
            break;
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
