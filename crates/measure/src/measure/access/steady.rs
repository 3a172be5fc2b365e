//! Steady state after SNIA's Solid State Storage Performance Test Specification: the last five rounds lie
//! within 20 % of their mean, and the straight line through them rises or falls by no more than 10 % of it.

use super::Steady;

/// Rounds of the measurement window.
pub(crate) const WINDOW_ROUNDS: usize = 5;
/// Rounds after which a device that is not steady is measured as it is.
pub(crate) const MOST_ROUNDS: u32 = 25;
const MOST_EXCURSION: f64 = 0.20;
const MOST_SLOPE: f64 = 0.10;

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
}
