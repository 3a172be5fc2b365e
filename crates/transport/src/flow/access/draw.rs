//! Random places of the benchmarks: Zipf's, and scattered ones; each draw takes the same short time whatever the number
//! of places.

use linerate_facts::random::Random;

/// Ranks 0 … n−1 with probabilities in proportion to (rank + 1)^-theta, by rejection-inversion (Hörmann and
/// Derflinger 1996, "Rejection- inversion to generate variates from monotone discrete distributions"):
/// constant time, no table, any theta ≥ 0, also 1.
#[derive(Clone, Debug)]
pub(crate) struct Zipf {
    places: f64,
    theta: f64,
    /// The integral of the hat at 1.5 less 1, and at n + 0.5: between them a point is drawn.
    from: f64,
    to: f64,
    /// A point that is this near its integer needs no further look.
    near: f64,
}

impl Zipf {
    /// Of so many ranks.
    pub(crate) fn new(places: u64, theta: f64) -> Self {
        let theta = if theta.is_finite() { theta.max(0.0) } else { 0.0 };
        let mut zipf = Zipf { places: places.max(1) as f64, theta, from: 0.0, to: 0.0, near: 0.0 };
        zipf.from = zipf.integral(1.5) - 1.0;
        zipf.to = zipf.integral(zipf.places + 0.5);
        zipf.near = 2.0 - zipf.inverse(zipf.integral(2.5) - 2f64.powf(-theta));
        zipf
    }

    /// ∫ x^-theta from 1, that is (x^(1−theta) − 1) ÷ (1 − theta), and ln x for theta = 1; by `exp_m1`, so
    /// that it is exact near 1.
    fn integral(&self, x: f64) -> f64 {
        let (log, power) = (x.ln(), 1.0 - self.theta);
        if (power * log).abs() < 1e-12 { log } else { (power * log).exp_m1() / power }
    }

    fn inverse(&self, area: f64) -> f64 {
        let power = 1.0 - self.theta;
        // Rounding may bring it past the pole.
        let scaled = (area * power).max(-1.0);
        if scaled.abs() < 1e-12 { area.exp() } else { (scaled.ln_1p() / power).exp() }
    }

    /// The next rank, 0 the most popular.
    pub(crate) fn draw(&self, random: &mut Random) -> u64 {
        loop {
            let point = self.to + random.unit() * (self.from - self.to);
            let x = self.inverse(point);
            let rank = (x + 0.5).floor().clamp(1.0, self.places);
            if rank - x <= self.near || point >= self.integral(rank + 0.5) - rank.powf(-self.theta) {
                return rank as u64 - 1;
            }
        }
    }
}

/// The step of a permutation of 0 … n−1 that puts neighbours far apart: n over the golden ratio, moved to
/// where it shares no divisor with n.
pub(crate) fn scatter_step(places: u64) -> u64 {
    let golden = (places as f64 * 0.618_033_988_749_895) as u64;
    let next = (golden.max(1)..).find(|step| greatest_common_divisor(*step, places) == 1);
    next.unwrap_or(1)
}

/// The `index`-th of that permutation.
pub(crate) fn scattered(index: u64, step: u64, places: u64) -> u64 {
    (u128::from(index) * u128::from(step) % u128::from(places)) as u64
}

fn greatest_common_divisor(one: u64, other: u64) -> u64 {
    if other == 0 { one } else { greatest_common_divisor(other, one % other) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn zipf_draws_in_proportion() {
        const DRAWS: u32 = 400_000;
        for (places, theta) in
            [(1u64, 0.9), (10, 0.0), (1000, 0.5), (1000, 0.99), (1000, 1.0), (1 << 40, 1.2)]
        {
            let zipf = Zipf::new(places, theta);
            let mut random = Random::new(11);
            let mut counts = [0u32; 8];
            for _ in 0..DRAWS {
                let rank = zipf.draw(&mut random);
                assert!(rank < places);
                if let Some(count) = counts.get_mut(rank as usize) {
                    *count += 1;
                }
            }
            // The rest of a long tail by its integral.
            let exact = places.min(100_000);
            let sum: f64 = (1..=exact).map(|k| (k as f64).powf(-theta)).sum();
            let tail = if places > exact {
                ((places as f64).powf(1.0 - theta) - (exact as f64).powf(1.0 - theta)) / (1.0 - theta)
            } else {
                0.0
            };
            for (rank, count) in counts.iter().enumerate().take(places.min(8) as usize) {
                let expected = ((rank + 1) as f64).powf(-theta) / (sum + tail) * f64::from(DRAWS);
                let allowed = 6.0 * expected.sqrt() + 1.0;
                let off = (f64::from(*count) - expected).abs();
                assert!(
                    off <= allowed,
                    "{places} places, theta {theta}, rank {rank}: {count}, not {expected:.0}"
                );
            }
        }
    }

    proptest! {
        #[test]
        fn the_permutation_reaches_each_place_once(places in 1u64..3000) {
            let step = scatter_step(places);
            let mut seen: Vec<u64> = (0..places).map(|index| scattered(index, step, places)).collect();
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..places).collect::<Vec<_>>());
        }

        #[test]
        fn zipf_stays_within_its_ranks(places in 1u64.., theta in 0.0..5.0f64, seed: u64) {
            let (zipf, mut random) = (Zipf::new(places, theta), Random::new(seed));
            for _ in 0..100 {
                prop_assert!(zipf.draw(&mut random) < places);
            }
        }
    }
}
