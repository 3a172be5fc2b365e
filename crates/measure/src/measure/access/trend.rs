//! What figures show that were taken one after the other: whether the rounds on a device have become steady, and from
//! which number of devices on another brings nothing.
//!
//! Steady is what SNIA's Solid State Storage Performance Test Specification calls so: the last five rounds lie within
//! 20 % of their mean, and the straight line through them rises or falls by no more than 10 % of it.

use super::{ScalingCurve, ScalingStep, Steady};
use crate::measure::statistics::{median, spread};

/// Rounds of the measurement window.
pub(crate) const WINDOW_ROUNDS: usize = 5;
/// Rounds after which a device that is not steady is measured as it is.
pub(crate) const MOST_ROUNDS: u32 = 25;
const MOST_EXCURSION: f64 = 0.20;
const MOST_SLOPE: f64 = 0.10;

/// Another device that brings less than this share of one brings nothing.
const BRINGS: f64 = 0.1;

/// Whether the last rounds are steady; with fewer than five they are not.
pub fn steady(rounds: &[f64]) -> Steady {
    let steady = Steady { rounds: rounds.len() as u32, ..Steady::default() };
    let Some(window) = rounds.len().checked_sub(WINDOW_ROUNDS).map(|from| &rounds[from..]) else {
        return steady;
    };
    let mean = window.iter().sum::<f64>() / WINDOW_ROUNDS as f64;
    if mean <= 0.0 {
        return steady;
    }
    let least = window.iter().copied().fold(f64::MAX, f64::min);
    let most = window.iter().copied().fold(0.0, f64::max);
    let excursion = (most - least) / mean;
    let slope = rise(window).abs() / mean;
    Steady { reached: excursion <= MOST_EXCURSION && slope <= MOST_SLOPE, excursion, slope, ..steady }
}

/// How far the line of least squares rises from the first round to the last.
fn rise(window: &[f64]) -> f64 {
    let middle = (window.len() - 1) as f64 / 2.0;
    let mean = window.iter().sum::<f64>() / window.len() as f64;
    let (mut across, mut square) = (0.0, 0.0);
    for (round, rate) in window.iter().enumerate() {
        let distance = round as f64 - middle;
        across += distance * (rate - mean);
        square += distance * distance;
    }
    across / square * (window.len() - 1) as f64
}

/// What one number of devices reached in its repeats, bytes per second.
#[derive(Clone, Debug, Default)]
pub struct Reached {
    pub devices: u32,
    pub samples: Vec<f64>,
}

/// The curve. `alone` has the rate of each device by itself, in the order in which they join; steps are of
/// rising numbers.
pub fn curve(cell: String, alone: &[f64], reached: &[Reached]) -> ScalingCurve {
    let step = |reached: &Reached| {
        let sum: f64 = alone.iter().take(reached.devices as usize).sum();
        let bytes_per_second = median(&reached.samples);
        ScalingStep {
            devices: reached.devices,
            bytes_per_second,
            share: if sum > 0.0 { bytes_per_second / sum } else { 0.0 },
            spread: spread(&reached.samples),
        }
    };
    let steps: Vec<ScalingStep> = reached.iter().map(step).collect();
    let levels_off_at = levels_off(reached, median(alone));
    ScalingCurve { cell, steps, levels_off_at, held_by: None }
}

/// The first number of devices from which on each further one brings less than a tenth of one, in the median
/// of all that follow: one step that was lucky or disturbed decides nothing. By the best repeat of each,
/// since what else the machine does mostly slows one.
fn levels_off(steps: &[Reached], one: f64) -> Option<u32> {
    let best = |step: &Reached| step.samples.iter().copied().fold(0.0, f64::max);
    let brings_nothing = |at: usize| {
        let from = &steps[at];
        let each = |step: &Reached| (best(step) - best(from)) / f64::from(step.devices - from.devices);
        let brought: Vec<f64> = steps[at + 1..].iter().map(each).collect();
        !brought.is_empty() && median(&brought) < BRINGS * one
    };
    (0..steps.len()).find(|at| brings_nothing(*at)).map(|at| steps[at].devices)
}

/// How many devices are measured together: each number up to eight, then ever larger ones, and all.
pub fn numbers(devices: u32) -> Vec<u32> {
    let mut numbers: Vec<u32> = (1..=devices.min(8)).collect();
    let mut next = 12;
    while next < devices {
        numbers.push(next);
        next = if next % 3 == 0 { next / 3 * 4 } else { next / 2 * 3 };
    }
    if devices > 8 {
        numbers.push(devices);
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_of_the_specification() {
        assert!(!steady(&[100.0; 4]).reached, "five rounds are wanted");
        assert!(steady(&[500.0, 300.0, 100.0, 101.0, 99.0, 100.0, 100.0]).reached, "the last five count");
        let wide = steady(&[100.0, 115.0, 94.0, 100.0, 100.0]);
        assert!(!wide.reached && wide.excursion > 0.2 && wide.slope < 0.1, "{wide:?}");
        let falling = steady(&[106.0, 103.0, 100.0, 97.0, 94.0]);
        assert!(!falling.reached && falling.excursion < 0.2, "{falling:?}");
        assert!((falling.slope - 0.12).abs() < 1e-9, "{falling:?}");
        assert!(!steady(&[0.0; 5]).reached);
    }

    fn of(rates: &[f64]) -> ScalingCurve {
        let step = |(index, rate): (usize, &f64)| Reached {
            devices: index as u32 + 1,
            samples: vec![*rate * 0.99, *rate, *rate * 1.01],
        };
        let steps: Vec<Reached> = rates.iter().enumerate().map(step).collect();
        curve(String::new(), &vec![100e6; rates.len()], &steps)
    }

    #[test]
    fn a_common_limit_is_where_the_curve_levels_off() {
        let found = of(&[100e6, 199e6, 298e6, 301e6, 299e6, 300e6, 302e6, 298e6]);
        assert_eq!(found.levels_off_at, Some(3));
        assert!((found.steps[1].share - 0.995).abs() < 1e-9);
        assert!((found.steps[7].share - 0.3725).abs() < 1e-9);
        assert!((found.steps[0].spread - 0.02).abs() < 1e-9);
    }

    #[test]
    fn one_lucky_step_does_not_move_the_level() {
        let found = of(&[100e6, 200e6, 301e6, 326e6, 300e6, 293e6, 296e6, 296e6]);
        assert_eq!(found.levels_off_at, Some(3));
    }

    #[test]
    fn a_straight_line_never_levels_off() {
        assert_eq!(of(&[100e6, 200e6, 300e6, 400e6]).levels_off_at, None);
        assert_eq!(of(&[100e6]).levels_off_at, None);
        // It bends, and still each brings a third of a device.
        assert_eq!(of(&[100e6, 150e6, 183e6, 216e6]).levels_off_at, None);
    }

    #[test]
    fn a_repeat_that_was_disturbed_is_no_level() {
        let reached = [(1, [100e6; 3]), (2, [199e6, 200e6, 120e6]), (3, [180e6, 190e6, 298e6])];
        let reached: Vec<Reached> = reached
            .iter()
            .map(|(devices, samples)| Reached { devices: *devices, samples: samples.to_vec() })
            .collect();
        assert_eq!(curve(String::new(), &[100e6; 3], &reached).levels_off_at, None);
    }

    #[test]
    fn what_falls_has_levelled_off_before() {
        assert_eq!(of(&[100e6, 200e6, 180e6, 150e6]).levels_off_at, Some(2));
    }

    #[test]
    fn many_devices_are_not_measured_in_each_number() {
        assert_eq!(numbers(3), [1, 2, 3]);
        assert_eq!(numbers(8), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(numbers(64), [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 48, 64]);
        assert_eq!(numbers(9), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    }
}
