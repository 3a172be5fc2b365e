//! How long a slot must be, and whether a share can be known in time: from a few seconds in which nothing is taken. And
//! what is taken in which slot: pairs of a mask and its complement, next to each other in random order, so that what
//! drifts falls out of their difference and each slot informs every share.

use super::record::{LEAST_SLOTS, NoiseReport, ShareCounts, ShareRecord, TARGET_HALF_WIDTH, Timing};
use linerate_facts::random::Random;

/// Of a flow that shows a period, or whose CPUs are taken from (threads are moved to others first).
const LEAST_SETTLING_MS: u32 = 100;
/// Of any other: nothing holds bytes back for a while there.
const SHORT_SETTLING_MS: u32 = 40;
/// First what is best, then what will do where there is no time for that.
const LEAST_WINDOWS: [LeastWindow; 2] =
    [LeastWindow { ms: 400, periods: 4, steps: 10.0 }, LeastWindow { ms: 300, periods: 3, steps: 5.0 }];
/// Where the flow shows no period, a window is as short as this, for what a machine shared with others does varies alike
/// over 20 ms and over a second: many short slots tell more than a few long ones. What the flow still feels of the slot
/// before is tested, and makes slots longer.
const SHORT_WINDOW_MS: u32 = 60;
/// A short window holds so many steps of what is taken, and so many ticks; so many are not counted before it.
const TAKEN_STEPS: f64 = 4.0;
const SETTLING_TICKS: f64 = 2.0;
const WINDOW_TICKS: f64 = 3.0;
/// A window is a multiple of this where the flow has no period.
const WINDOW_STEP_MS: u32 = 20;
const LONGEST_WINDOW_MS: u32 = 2000;
/// A longer window is taken where it takes less than this part of the time.
const WORTH_IT: f64 = 0.8;
/// Longer windows are not worth less settling than this part of a disk's queue.
const MOST_OF_QUEUE: f64 = 0.8;
/// A share that is known no better than this says nothing: 1 could hardly be told apart from a half.
const HOPELESS_HALF_WIDTH: f64 = 0.4;
/// Ticks that say something of a flow.
const LEAST_TICKS: usize = 24;
/// A flow that varies less than this from tick to tick has no period that matters.
const LEAST_PERIODIC: f64 = 0.02;
/// A flow whose autocorrelation rises by this much to this much repeats itself.
const REPEATS: f64 = 0.6;
/// Ticks of the longest period that is looked for.
const LONGEST_LAG: usize = 40;
/// Bursts of one period.
const MOST_BURSTS: u32 = 6;
/// Averaging times of the curve.
const CURVE_MS: [u32; 10] = [50, 100, 150, 200, 300, 400, 500, 800, 1200, 2000];

/// Pairs of a cycle, at least.
const PAIRS: usize = 8;
/// A mask has 32 bits.
const MOST_COLUMNS: usize = 31;

/// What is known of a flow that is only observed.
#[derive(Clone, Debug, Default)]
pub struct ObservedFlow<'a> {
    /// 3 to 5 s of ticks of equal length.
    pub ticks: &'a [ShareCounts],
    /// A period that could be read (a control group's quota), which is better than one that is guessed.
    pub period_ms: Option<u32>,
    pub round_trip_seconds: Option<f64>,
    /// The longest that a read waits behind the flow's own in a disk's queue: what is taken arrives so much later.
    pub queue_seconds: f64,
    /// Time in which the bytes that are queued between the flow's begin and its end drain.
    pub drain_seconds: Option<f64>,
    /// Bytes that each of the flow's threads moves at once, and the threads.
    pub step_bytes: Option<u64>,
    pub threads: Option<u32>,
    /// CPU time is one of the things taken.
    pub takes_cpu: bool,
    /// Part of what the flow uses that is taken, e.g. 0.1.
    pub dose: f64,
    /// The longest time for taking.
    pub budget_seconds: f64,
}

/// Why no share is worth trying.
#[derive(Clone, Debug, PartialEq)]
pub enum Hopeless {
    /// Nothing flowed, or too few ticks were counted.
    NoFlow,
    /// The flow varies by `noise` from one window to the next, whatever its length: even ± 0.4 would not be known
    /// within the budget, ± 0.15 after so many seconds.
    Noisy { noise: f64, seconds: f64, budget_seconds: f64 },
    /// The fewest slots that decide anything take longer, where one takes so long, also because the flow repeats itself
    /// every so often.
    TooLong { seconds: f64, budget_seconds: f64, slot_ms: u32, period_ms: Option<u32> },
    /// A slot would be longer than 2 s.
    Slow { window_ms: u32 },
}

/// What a window holds at least: periods of the flow, and steps of each of its threads.
#[derive(Clone, Copy)]
struct LeastWindow {
    ms: u32,
    periods: u32,
    steps: f64,
}

/// The times of slots for this flow, and its noise; or why there is no hope.
pub fn timing(flow: &ObservedFlow<'_>) -> (NoiseReport, Result<Timing, Hopeless>) {
    let Some(curve) = FlowCurve::of(flow.ticks) else {
        return (NoiseReport::default(), Err(Hopeless::NoFlow));
    };
    if let Some(period_ms) = flow.period_ms.filter(|period| *period > 0) {
        return timing_of(flow, &curve, Some(period_ms));
    }
    let period_ms = curve.period_ms();
    let of_period = timing_of(flow, &curve, period_ms);
    // The bursts of a throttle are uneven, and their pattern repeats itself more slowly than they come.
    let is_too_long = matches!(of_period.1, Err(Hopeless::TooLong { .. }));
    let bursts_ms = period_ms.filter(|_| is_too_long).and_then(|period| curve.bursts_ms(period));
    let of_bursts = bursts_ms.map(|bursts| timing_of(flow, &curve, Some(bursts)));
    of_bursts.filter(|(_, chosen)| chosen.is_ok()).unwrap_or(of_period)
}

/// The same, where the flow repeats itself every so often.
fn timing_of(
    flow: &ObservedFlow<'_>,
    curve: &FlowCurve,
    period_ms: Option<u32>,
) -> (NoiseReport, Result<Timing, Hopeless>) {
    let least_settling_ms = settling_ms(flow, period_ms, curve);
    let queue_ms = milliseconds(flow.queue_seconds);
    let [best, least] = LEAST_WINDOWS.map(|least| shortest_window_ms(flow, period_ms, curve, least));
    // The longest that leaves time for the fewest slots.
    let fitting_ms = |window_ms: u32| {
        let slot_ms = flow.budget_seconds.max(0.0) * 1e3 / LEAST_SLOTS as f64;
        (slot_ms - mean_slot_ms(&Timing { settling_ms: 0, window_ms, period_ms })).max(0.0) as u32
    };
    // Where a setting is raised, too (its reads drain), it is rather left out than measured in short windows.
    let settles = |fitting_ms: u32| f64::from(fitting_ms) >= MOST_OF_QUEUE * f64::from(queue_ms);
    let has_time = least_settling_ms <= fitting_ms(best) && settles(fitting_ms(best));
    let fits = has_time || flow.drain_seconds.is_some();
    let shortest = if fits { best } else { least };
    // A queue may be longer than that: what arrives late all the same is tested.
    let settling_ms = least_settling_ms.max(queue_ms.min(fitting_ms(shortest)));
    let slot_ms = |window_ms: u32| mean_slot_ms(&Timing { settling_ms, window_ms, period_ms });
    let fewest_slots = |window_ms: u32| LEAST_SLOTS as f64 * slot_ms(window_ms) / 1e3;
    let never = |why| (NoiseReport { allan: curve.allan_curve(), ..NoiseReport::default() }, Err(why));
    if shortest > LONGEST_WINDOW_MS {
        return never(Hopeless::Slow { window_ms: shortest });
    }
    let noise_of = |window_ms: u32| {
        let slope_ms = Timing { settling_ms, window_ms, period_ms }.slope_ms();
        curve.allan(window_ms, slope_ms)
    };
    let seconds_to = |half_width: f64, window_ms: u32| {
        slots_to(half_width, flow.dose, noise_of(window_ms)) * slot_ms(window_ms) / 1e3
    };
    let forecast = |window_ms: u32| seconds_to(TARGET_HALF_WIDTH, window_ms);
    if fewest_slots(shortest) > flow.budget_seconds {
        let (seconds, budget_seconds) = (fewest_slots(shortest), flow.budget_seconds);
        let slot_ms = slot_ms(shortest).ceil() as u32;
        return never(Hopeless::TooLong { seconds, budget_seconds, slot_ms, period_ms });
    }
    // A longer window must be worth it: its noise is known from fewer values.
    let windows = (1..=LONGEST_WINDOW_MS / shortest).map(|times| times * shortest);
    let windows = windows.filter(|window_ms| fewest_slots(*window_ms) <= flow.budget_seconds);
    let shorter =
        |best: u32, window: u32| if forecast(window) < WORTH_IT * forecast(best) { window } else { best };
    let window_ms = windows.fold(shortest, shorter);
    let (noise, seconds) = (noise_of(window_ms), forecast(window_ms));
    let report = NoiseReport { allan: curve.allan_curve(), at_window: noise, forecast_seconds: seconds };
    let timing = Timing { settling_ms, window_ms, period_ms };
    let in_time = seconds_to(HOPELESS_HALF_WIDTH, window_ms) <= flow.budget_seconds;
    let hopeless = Hopeless::Noisy { noise, seconds, budget_seconds: flow.budget_seconds };
    (report, if in_time { Ok(timing) } else { Err(hopeless) })
}

fn settling_ms(flow: &ObservedFlow<'_>, period_ms: Option<u32>, curve: &FlowCurve) -> u32 {
    let round_trips = flow.round_trip_seconds.map(|seconds| milliseconds(10.0 * seconds));
    let drain = flow.drain_seconds.map(milliseconds);
    let cpu = flow.takes_cpu.then_some(LEAST_SETTLING_MS);
    let short = SHORT_SETTLING_MS.max(milliseconds(SETTLING_TICKS * curve.tick_seconds));
    let least = period_ms.map_or(short, |period| period.max(LEAST_SETTLING_MS));
    [round_trips, drain, cpu].into_iter().flatten().fold(least, u32::max)
}

/// A whole number of periods that holds enough of them, of steps and of round trips.
fn shortest_window_ms(
    flow: &ObservedFlow<'_>,
    period_ms: Option<u32>,
    curve: &FlowCurve,
    least: LeastWindow,
) -> u32 {
    let bytes_per_second = curve.mean();
    let at_once = flow.step_bytes.zip(flow.threads).map(|(step, threads)| step as f64 * f64::from(threads));
    let steps = at_once.map(|bytes| milliseconds(least.steps * bytes / bytes_per_second));
    let round_trips = flow.round_trip_seconds.map(|seconds| milliseconds(20.0 * seconds));
    let shortest = period_ms.map_or_else(
        || {
            let taken = flow
                .step_bytes
                .map_or(0.0, |step| TAKEN_STEPS * step as f64 / (flow.dose * bytes_per_second));
            milliseconds(taken.max(WINDOW_TICKS * curve.tick_seconds)).clamp(SHORT_WINDOW_MS, least.ms)
        },
        // Periods that are nearly as long as that need no further one.
        |period| period.saturating_mul(least.periods).max(least.ms - least.ms / 20),
    );
    let least = [steps, round_trips].into_iter().flatten().fold(shortest, u32::max);
    let unit = period_ms.unwrap_or(WINDOW_STEP_MS);
    least.div_ceil(unit).saturating_mul(unit)
}

/// Until each share is known so well: its standard error is twice the noise of a slot ÷ what is taken ÷ the root of the
/// slots.
fn slots_to(half_width: f64, dose: f64, noise: f64) -> f64 {
    let needed = (1.96 * 2.0 * noise / (half_width * dose.max(f64::MIN_POSITIVE))).powi(2);
    needed.max(LEAST_SLOTS as f64)
}

/// At most a minute, which is longer than anything here may be.
fn milliseconds(seconds: f64) -> u32 {
    (seconds * 1e3).ceil().clamp(0.0, 60_000.0) as u32
}

/// The bytes that have flowed, by tick.
struct FlowCurve {
    tick_seconds: f64,
    /// Before the first tick, after it, …
    sums: Vec<f64>,
}

impl FlowCurve {
    fn of(ticks: &[ShareCounts]) -> Option<FlowCurve> {
        let nanos: f64 = ticks.iter().map(|tick| tick.nanos as f64).sum();
        let tick_seconds = nanos / ticks.len() as f64 / 1e9;
        let mut sums = vec![0.0];
        for tick in ticks {
            let bytes: f64 = tick.flow.iter().map(|bytes| *bytes as f64).sum();
            // A tick that came late holds more of the flow; as a rate it is like the others.
            let by_rate = bytes * tick_seconds * 1e9 / (tick.nanos as f64).max(1.0);
            sums.push(sums[sums.len() - 1] + by_rate);
        }
        let flows = sums.last().is_some_and(|sum| *sum > 0.0) && tick_seconds > 0.0;
        (flows && ticks.len() >= LEAST_TICKS).then_some(FlowCurve { tick_seconds, sums })
    }

    fn count(&self) -> usize {
        self.sums.len() - 1
    }

    fn mean(&self) -> f64 {
        self.sums[self.count()] / (self.count() as f64 * self.tick_seconds)
    }

    /// Bytes until so many ticks, which need not be whole.
    fn until(&self, ticks: f64) -> f64 {
        let whole = (ticks.max(0.0) as usize).min(self.count() - 1);
        self.sums[whole] + (self.sums[whole + 1] - self.sums[whole]) * (ticks - whole as f64)
    }

    /// Allan deviation of windows of this length, as a part of the flow; of the longest that is known, where this one
    /// is too long for what was observed. Windows with slopes at both ends are the mean of shorter ones that begin later
    /// and later for the length of a slope.
    fn allan(&self, window_ms: u32, slope_ms: u32) -> f64 {
        let longest = self.count() as f64 / 3.0;
        let ticks = (f64::from(window_ms) / 1e3 / self.tick_seconds).clamp(1.0, longest);
        let starts = (self.count() as f64 - 2.0 * ticks) as usize;
        let part = f64::from(slope_ms) / f64::from(window_ms.max(1)) * ticks;
        let (shorter, shifts) = (ticks - part, part.round().max(1.0));
        let difference = |start: usize| {
            let window = |begin: f64| self.until(begin + shorter) - self.until(begin);
            let begins = (0..shifts as usize).map(|shift| start as f64 + shift as f64 * part / shifts);
            begins.map(|begin| window(begin + ticks) - window(begin)).sum::<f64>() / shifts
        };
        let squares: f64 = (0..=starts).map(|start| difference(start).powi(2)).sum();
        (squares / (2 * (starts + 1)) as f64).sqrt() / (self.mean() * self.tick_seconds * shorter)
    }

    fn allan_curve(&self) -> Vec<(u32, f64)> {
        let observed_ms = self.count() as f64 * self.tick_seconds * 1e3;
        let known = CURVE_MS.into_iter().filter(|window| 3.0 * f64::from(*window) <= observed_ms);
        known.map(|window| (window, self.allan(window, 0))).collect()
    }

    /// The period in which the flow repeats itself, if it does.
    fn period_ms(&self) -> Option<u32> {
        let off = self.off();
        let variance = off.iter().map(|value| value * value).sum::<f64>() / off.len() as f64;
        if variance < LEAST_PERIODIC.powi(2) {
            return None;
        }
        let longest = (off.len() / 4).min(LONGEST_LAG);
        let at = |lag: usize| {
            let products = off.iter().zip(&off[lag..]).map(|(a, b)| a * b);
            products.sum::<f64>() / (off.len() - lag) as f64 / variance
        };
        let alike: Vec<f64> = (0..=longest + 1).map(at).collect();
        let mut lowest = 1.0f64;
        let lag = (2..=longest).find(|lag| {
            lowest = lowest.min(alike[lag - 1]);
            let is_peak = alike[*lag] >= alike[lag - 1] && alike[*lag] >= alike[lag + 1];
            is_peak && alike[*lag] >= REPEATS && alike[*lag] - lowest >= REPEATS
        })?;
        let tick_ms = self.tick_seconds * 1e3;
        // Of all periods about so many ticks: one that is not a whole number of ticks drifts against them. A wave of less
        // than two ticks looks like one of more.
        let (from, to) = ((lag as f64 - 0.5).max(2.0) * tick_ms, (lag as f64 + 0.5) * tick_ms);
        let periods = (from.ceil() as u32).max(1)..=to.floor() as u32;
        Some(self.strongest_of(periods).unwrap_or((lag as f64 * tick_ms).round() as u32))
    }

    /// The strongest wave of which the period is a whole number.
    fn bursts_ms(&self, period_ms: u32) -> Option<u32> {
        let shortest_ms = (3.0 * self.tick_seconds * 1e3) as u32;
        let parts = (2..=MOST_BURSTS).map(|parts| (f64::from(period_ms) / f64::from(parts)).round() as u32);
        self.strongest_of(parts.filter(|bursts| *bursts >= shortest_ms))
    }

    /// The period whose wave is the strongest.
    fn strongest_of(&self, periods: impl Iterator<Item = u32>) -> Option<u32> {
        let (off, tick_ms) = (self.off(), self.tick_seconds * 1e3);
        let strength = |period: &u32| {
            let angle = |tick: usize| std::f64::consts::TAU * tick as f64 * tick_ms / f64::from(*period);
            let (mut even, mut odd) = (0.0, 0.0);
            for (tick, value) in off.iter().enumerate() {
                even += value * angle(tick).cos();
                odd += value * angle(tick).sin();
            }
            even.hypot(odd)
        };
        periods.max_by(|a, b| strength(a).total_cmp(&strength(b)))
    }

    /// How far each tick is off the mean, as a part of it.
    fn off(&self) -> Vec<f64> {
        let mean = self.sums[self.count()] / self.count() as f64;
        self.sums.windows(2).map(|sums| (sums[1] - sums[0]) / mean - 1.0).collect()
    }
}

/// A slot that is to come: it settles, is counted for the window, and then waits for a random time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotPlan {
    /// Who takes, and what is raised: bits in the order of the record's `taken`, then `raised`.
    pub mask: u32,
    /// Not counted, so that slots cannot lock to a shaper's period.
    pub unused_ms: u32,
}

/// An endless sequence of cycles.
#[derive(Clone, Debug)]
pub struct SlotSchedule {
    timing: Timing,
    columns: usize,
    /// Columns of like parts, which every second cycle takes from together: what they have together is known better by that
    /// than by the sum of what each has, with as many errors.
    pools: Vec<u32>,
    joins: bool,
    random: Random,
}

impl SlotSchedule {
    /// For so many takers and raised settings together, at most 31. The same seed gives the same sequence.
    pub fn new(timing: Timing, columns: usize, seed: u64) -> Self {
        let (columns, random) = (columns.min(MOST_COLUMNS), Random::new(seed));
        SlotSchedule { timing, columns, pools: Vec::new(), joins: false, random }
    }

    /// For what this record takes from and raises.
    pub fn of(record: &ShareRecord, seed: u64) -> Self {
        let mut schedule = SlotSchedule::new(record.timing, record.taken.len() + record.raised.len(), seed);
        let name = |column: usize| record.taken.get(column).and_then(|taken| taken.pool.as_ref());
        let alike = |column: usize| (0..schedule.columns).filter(move |other| name(*other) == name(column));
        let is_first = |column: &usize| name(*column).is_some() && alike(*column).next() == Some(*column);
        let pools = (0..schedule.columns).filter(is_first);
        schedule.pools = pools.map(|first| alike(first).map(|column| 1 << column).sum()).collect();
        schedule
    }

    /// The slots until shares may be looked at next: whole pairs, 16 slots for up to 7 columns.
    pub fn next_cycle(&mut self) -> Vec<SlotPlan> {
        let masks = self.hadamard();
        let all = (1u32 << self.columns) - 1;
        let asked = |mask| if self.joins { self.together(mask) } else { mask };
        let mut pairs: Vec<[u32; 2]> = masks.into_iter().map(asked).map(|mask| [mask, all & !mask]).collect();
        self.joins = !self.joins;
        self.shuffle(&mut pairs);
        let mut slots = Vec::with_capacity(2 * pairs.len());
        for mut pair in pairs {
            self.shuffle(&mut pair);
            let mut unused_ms = || self.random.below(u64::from(most_unused_ms(&self.timing)) + 1) as u32;
            slots.extend(pair.map(|mask| SlotPlan { mask, unused_ms: unused_ms() }));
        }
        slots
    }

    /// Like parts are all taken from, or none of them, as the first is.
    fn together(&self, mask: u32) -> u32 {
        let join = |mask: u32, pool: &u32| match mask & pool & pool.wrapping_neg() {
            0 => mask & !pool,
            _ => mask | pool,
        };
        self.pools.iter().fold(mask, join)
    }

    /// Masks by the rows of Sylvester's matrix: each column is on in half of the rows, each two columns are both on in
    /// a quarter of them. Which of the matrix's columns is whose changes with every cycle.
    fn hadamard(&mut self) -> Vec<u32> {
        let size = (self.columns as u32 + 1).next_power_of_two().max(PAIRS as u32);
        let mut columns: Vec<u32> = (1..size).collect();
        self.shuffle(&mut columns);
        let bit = |row: u32, index: usize| ((row & columns[index]).count_ones() & 1) << index;
        (0..size).map(|row| (0..self.columns).map(|index| bit(row, index)).sum()).collect()
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.random.below(last as u64 + 1) as usize);
        }
    }
}

/// The longest random wait at the end of a slot.
fn most_unused_ms(timing: &Timing) -> u32 {
    timing.window_ms / 4
}

/// A slot's length in the mean, with what is not counted.
fn mean_slot_ms(timing: &Timing) -> f64 {
    f64::from(timing.settling_ms.saturating_add(timing.window_ms)) + f64::from(most_unused_ms(timing)) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Timing = Timing { settling_ms: 40, window_ms: 60, period_ms: None };

    #[test]
    fn pairs_are_complements_and_columns_are_balanced() {
        for columns in 1..=15 {
            let mut schedule = SlotSchedule::new(SHORT, columns, columns as u64);
            for _ in 0..3 {
                let slots = schedule.next_cycle();
                assert_eq!(slots.len(), if columns <= 7 { 16 } else { 32 });
                assert!(slots.chunks(2).all(|pair| pair[0].mask ^ pair[1].mask == (1 << columns) - 1));
                assert!(slots.iter().all(|slot| slot.unused_ms <= 15));
                let sign = |slot: &SlotPlan, column: usize| 1 - 2 * (slot.mask >> column & 1) as i32;
                for (a, b) in (0..columns).flat_map(|a| (0..a).map(move |b| (a, b))) {
                    assert_eq!(slots.iter().map(|slot| sign(slot, a) * sign(slot, b)).sum::<i32>(), 0);
                }
            }
        }
    }

    #[test]
    fn a_seed_repeats_itself() {
        let cycles = |seed| {
            let mut schedule = SlotSchedule::new(SHORT, 5, seed);
            [schedule.next_cycle(), schedule.next_cycle()]
        };
        let [first, second] = cycles(7);
        assert_eq!(cycles(7), [first.clone(), second.clone()]);
        assert!(first != second && cycles(8)[0] != first);
        assert_eq!(SlotSchedule::new(SHORT, 99, 1).next_cycle().len(), 64);
    }
}
