//! Repeatable chance for the tests of what is decided about noisy figures.

use linerate_facts::random::Random;

/// A stream of numbers from a seed.
pub struct Dice(Random);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Dice(Random::new(seed))
    }

    /// From 0 to 1.
    pub fn uniform(&mut self) -> f64 {
        self.0.unit()
    }

    /// Normally distributed about 0, with a standard deviation of 1.
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }
}
