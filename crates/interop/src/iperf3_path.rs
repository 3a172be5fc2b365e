//! What the intervals of a test of iperf3 say of its path: whether it was full, lost packets by chance, or waited for a host.

use crate::iperf3_json::{Iperf3Side, Part, Test};
use crate::verdict::FullPath;
use linerate_measure::measure::SPREAD;
use linerate_measure::measure::statistics::{median, spread};
use linerate_model::verdict::thresholds::QUEUE_EMPTY_TIMES;

/// A round trip that swings by no more over the test has no queue that fills and empties in it.
const STEADY_ROUND_TRIP: f64 = 1.15;
/// TCP fills its windows where this part of them is in flight …
const FILLED: f64 = 0.6;
/// … and something else limits it where less than this is.
pub(crate) const UNFILLED: f64 = 0.5;
/// A process that uses less of a CPU is stopped by no usual quota, per cent.
const IDLE_HOST_PERCENT: f64 = 6.0;
/// Round trips of streams that are this often as far apart over time as from each other have one queue …
const TOGETHER_DEVIATIONS: f64 = 4.0;
/// … and then this is a swing.
const TOGETHER_TIMES: f64 = 1.1;
/// A sender of datagrams is held back where so many times what it sent was asked for …
const HELD_BACK_TIMES: f64 = 1.25;
/// … while its process used no more of a CPU than this …
const CPU_LEFT: f64 = 0.5;
/// … its intervals differ by no more than this, as what a shaper or a wire lets through does …
const CLOCKED_SPREAD: f64 = 0.03;
/// … and no more of them were lost.
const FEW_LOST: f64 = 0.02;
/// Shorter round trips swing by what the hosts do.
const LEAST_ROUND_TRIP_SECONDS: f64 = 2e-3;

/// Losses are those of the path, and not of a queue of the flow's own, nor of a flow that a host holds back.
pub(crate) fn loses_without_a_queue(test: &Test) -> bool {
    has_steady_round_trip(test) && !has_flat_rate(test) && in_flight(test).is_none_or(|share| share >= FILLED)
}

/// Losses of a path without a queue of the flow's own: before a full link its queue fills and empties, and the round trip
/// with it. The middle one of the intervals' counts, where there are some: a busy host makes one of them long.
fn has_steady_round_trip(test: &Test) -> bool {
    let is_steady = |(index, stream): (usize, &Iperf3Side)| {
        let Some(sent) = stream.ends().0 else { return false };
        let trips: Vec<f64> =
            later(test).filter_map(|part| part.streams.get(index)?.rtt.positive()).collect();
        let most = if trips.len() >= 3 { median(&trips) } else { sent.max_rtt.or_zero() };
        let least = sent.min_rtt.or_zero();
        least * 1e-6 >= LEAST_ROUND_TRIP_SECONDS && most <= STEADY_ROUND_TRIP * least
    };
    test.intervals.len() >= 3
        && !test.end.streams.is_empty()
        && test.end.streams.iter().enumerate().all(is_steady)
}

/// The intervals after the first, in which the send buffers are filled, without a last one that was cut short.
fn later(test: &Test) -> impl Iterator<Item = &Part> {
    let whole = test.intervals.iter().map(|part| part.sum.seconds.or_zero()).fold(0.0, f64::max);
    test.intervals
        .iter()
        .filter(move |part| part.counts() && part.sum.seconds.or_zero() >= whole / 2.0)
        .skip(1)
}

/// What is lost by chance makes the rate swing; a link that is full does not. An interval counts whole writes, so that each
/// stream may have one more or one less in the slowest, and in the fastest.
fn has_flat_rate(test: &Test) -> bool {
    let rates: Vec<f64> = later(test).map(Part::rate).collect();
    let start = &test.start.test_start;
    let writes = 2.0 * start.num_streams.or_zero() * start.blksize.or_zero();
    let seconds = median(&later(test).map(|part| part.sum.seconds.or_zero()).collect::<Vec<f64>>());
    let moved = median(&rates) * seconds;
    let by_writes = if moved > 0.0 { writes / moved } else { 0.0 };
    rates.len() >= 3 && spread(&rates) <= SPREAD + by_writes.min(SPREAD)
}

/// Round trips of the intervals that are far apart at the same rate: a path that carries no more, however much is under
/// way, is full, and the rest waits in a queue. Only where TCP fills its windows, or neither host is busy: a sender that is
/// stopped at times, by a CPU quota, has one rate over such round trips, too.
pub(crate) fn round_trips_at_one_rate(test: &Test) -> Option<FullPath> {
    let of_streams = |part: &Part| part.streams.iter().filter_map(|stream| stream.rtt.positive()).collect();
    let trips: Vec<Vec<f64>> = later(test).map(of_streams).collect();
    let mean =
        |trips: &Vec<f64>| (!trips.is_empty()).then(|| trips.iter().sum::<f64>() / trips.len() as f64 * 1e-6);
    let means: Vec<f64> = trips.iter().map(mean).collect::<Option<_>>()?;
    let (least, most) = (means.iter().copied().reduce(f64::min)?, means.iter().copied().reduce(f64::max)?);
    let cpu = &test.end.cpu_utilization_percent;
    let is_idle = cpu.host_total.or_zero().max(cpu.remote_total.or_zero()) <= IDLE_HOST_PERCENT;
    let times = match in_flight(test).is_some_and(|share| share >= FILLED) {
        true if swing_together(&trips, &means) => TOGETHER_TIMES,
        true => QUEUE_EMPTY_TIMES,
        false if is_idle => QUEUE_EMPTY_TIMES,
        false => return None,
    };
    let swings = most >= LEAST_ROUND_TRIP_SECONDS && most > times * least;
    (swings && has_flat_rate(test)).then_some(FullPath::RoundTrips([least, most]))
}

/// The round trips of three streams and more are as long as each other at any time, and longer at some times than at others:
/// one queue, and no noise.
fn swing_together(trips: &[Vec<f64>], means: &[f64]) -> bool {
    let within: f64 = trips.iter().map(|trips| deviation(trips)).sum::<f64>() / trips.len() as f64;
    trips.iter().all(|trips| trips.len() >= 3)
        && means.len() >= 3
        && deviation(means) >= TOGETHER_DEVIATIONS * within
}

/// Standard deviation ÷ mean.
fn deviation(samples: &[f64]) -> f64 {
    let mean = samples.iter().sum::<f64>() / samples.len() as f64;
    let squares = samples.iter().map(|sample| (sample - mean) * (sample - mean)).sum::<f64>();
    (squares / samples.len() as f64).sqrt() / mean
}

/// What was in flight by Little's law, of what TCP's windows (its own and the receiver's) allowed: the median of intervals
/// and streams. Far below 1 a host limited it, and not the path.
pub(crate) fn in_flight(test: &Test) -> Option<f64> {
    let share = |stream: &Iperf3Side| {
        let window = stream.snd_cwnd.positive()?.min(stream.snd_wnd.positive()?);
        Some(stream.bits_per_second.positive()? / 8.0 * stream.rtt.positive()? * 1e-6 / window)
    };
    let shares: Vec<f64> = later(test).flat_map(|part| &part.streams).filter_map(share).collect();
    (shares.len() >= 3).then(|| median(&shares))
}

/// Datagrams of which far fewer went out than were asked for (bytes per second), though their sender had CPU left, at a rate
/// as a clock gives it. A CPU quota lets them out in bursts, which swing from interval to interval, and are lost.
pub(crate) fn datagrams_at_one_rate(test: &Test, asked: f64, loss: f64) -> Option<FullPath> {
    let sent =
        test.end.sum_sent.bits_per_second.positive().or(test.end.sum.bits_per_second.positive())? / 8.0;
    let cpu = &test.end.cpu_utilization_percent;
    let busy = if test.sends() { cpu.host_total } else { cpu.remote_total }.positive()? / 100.0;
    let rates: Vec<f64> = test.intervals.iter().filter(|part| part.counts()).map(Part::rate).collect();
    let is_held_back = sent * HELD_BACK_TIMES <= asked && busy <= CPU_LEFT && loss <= FEW_LOST;
    (is_held_back && rates.len() >= 3 && spread(&rates) <= CLOCKED_SPREAD)
        .then_some(FullPath::Datagrams { asked, sent })
}
