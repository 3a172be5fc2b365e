//! Where each request goes: blocks of one or more files, in order or at random. Random places are Zipf's or
//! scattered ones; each draw takes the same short time whatever the number of places.

use linerate_facts::random::Random;

/// Equal blocks at equal distances in one file: a whole file, a segment of a shared one, or every n-th block
/// of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// Index into the worker's files.
    pub file: usize,
    /// Of the first block, bytes.
    pub offset: u64,
    /// Contiguous bytes; a multiple of the transfer size.
    pub block_bytes: u64,
    /// From the start of one block to the start of the next, bytes.
    pub stride_bytes: u64,
    pub blocks: u64,
}

impl Area {
    /// One contiguous stretch.
    pub fn whole(file: usize, offset: u64, length: u64) -> Self {
        Area { file, offset, block_bytes: length, stride_bytes: length, blocks: 1 }
    }

    /// Requests of `transfer_bytes` that fit.
    pub fn requests(&self, transfer_bytes: u64) -> u64 {
        (self.block_bytes / transfer_bytes.max(1)).saturating_mul(self.blocks)
    }

    /// The `index`-th of them: its offset in the file.
    pub fn offset_of(&self, index: u64, transfer_bytes: u64) -> u64 {
        let in_block = (self.block_bytes / transfer_bytes.max(1)).max(1);
        self.offset + index / in_block * self.stride_bytes + index % in_block * transfer_bytes
    }

    /// The first byte after its last request.
    fn end(&self, transfer_bytes: u64) -> u64 {
        match self.requests(transfer_bytes) {
            0 => 0,
            requests => self.offset_of(requests - 1, transfer_bytes) + transfer_bytes,
        }
    }
}

/// In which order.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase", tag = "kind")]
pub enum AccessOrder {
    #[default]
    Sequential,
    /// Each place equally likely.
    Random,
    /// A few places often: the k-th most popular is asked for in proportion to k^-theta.
    Zipf { theta: f64 },
    /// This share of the places gets this share of the requests.
    Hot { share: f64, hits: f64 },
}

/// One place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessRequest {
    pub file: usize,
    pub offset: u64,
}

/// How the next place is chosen: the order with what follows from the number of places.
#[derive(Clone, Debug)]
enum OffsetChoice {
    Sequential { next: u64 },
    Uniform,
    Zipf { zipf: Zipf, step: u64 },
    Hot { hot: u64, hits: f64, step: u64 },
}

/// Gives out places, endlessly. Which places are the popular ones depends on their number alone, so that
/// workers of a shared file agree.
#[derive(Clone, Debug)]
pub struct Walk {
    areas: Vec<Area>,
    /// Places before each area.
    before: Vec<u64>,
    choice: OffsetChoice,
    transfer_bytes: u64,
    total: u64,
    random: Random,
}

impl Walk {
    /// Over these areas; none if no request fits into them.
    pub fn new(areas: Vec<Area>, order: AccessOrder, transfer_bytes: u64, seed: u64) -> Option<Self> {
        let mut total = 0u64;
        let mut before = Vec::with_capacity(areas.len());
        for area in &areas {
            before.push(total);
            total = total.checked_add(area.requests(transfer_bytes))?;
        }
        if total == 0 {
            return None;
        }
        let choice = match order {
            AccessOrder::Sequential => OffsetChoice::Sequential { next: 0 },
            AccessOrder::Random => OffsetChoice::Uniform,
            AccessOrder::Zipf { theta } => {
                OffsetChoice::Zipf { zipf: Zipf::new(total, theta), step: scatter_step(total) }
            }
            AccessOrder::Hot { share, hits } => {
                let hot = (total as f64 * share.clamp(0.0, 1.0)).round() as u64;
                OffsetChoice::Hot {
                    hot: hot.clamp(1, total),
                    hits: hits.clamp(0.0, 1.0),
                    step: scatter_step(total),
                }
            }
        };
        Some(Walk { areas, before, choice, transfer_bytes, total, random: Random::new(seed) })
    }

    /// Requests in one pass.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The first byte of a file after the last request that may go there; 0: none does.
    pub(crate) fn end_of(&self, file: usize) -> u64 {
        let of_file = self.areas.iter().filter(|area| area.file == file);
        of_file.map(|area| area.end(self.transfer_bytes)).max().unwrap_or(0)
    }

    /// The next place.
    pub fn step(&mut self) -> AccessRequest {
        let index = match &mut self.choice {
            OffsetChoice::Sequential { next } => {
                let index = *next;
                *next = if index + 1 == self.total { 0 } else { index + 1 };
                index
            }
            OffsetChoice::Uniform => self.random.below(self.total),
            OffsetChoice::Zipf { zipf, step } => {
                let rank = zipf.draw(&mut self.random);
                scattered(rank, *step, self.total)
            }
            OffsetChoice::Hot { hot, hits, step } => {
                let popular = *hot == self.total || self.random.chance(*hits);
                let rank = if popular {
                    self.random.below(*hot)
                } else {
                    *hot + self.random.below(self.total - *hot)
                };
                scattered(rank, *step, self.total)
            }
        };
        self.place(index)
    }

    fn place(&self, index: u64) -> AccessRequest {
        let number = match self.areas.len() {
            1 => 0,
            _ => self.before.partition_point(|before| *before <= index).saturating_sub(1),
        };
        let area = &self.areas[number];
        AccessRequest {
            file: area.file,
            offset: area.offset_of(index - self.before[number], self.transfer_bytes),
        }
    }
}

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
    fn draw(&self, random: &mut Random) -> u64 {
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
fn scatter_step(places: u64) -> u64 {
    let golden = (places as f64 * 0.618_033_988_749_895) as u64;
    let next = (golden.max(1)..).find(|step| greatest_common_divisor(*step, places) == 1);
    next.unwrap_or(1)
}

/// The `index`-th of that permutation.
fn scattered(index: u64, step: u64, places: u64) -> u64 {
    (u128::from(index) * u128::from(step) % u128::from(places)) as u64
}

fn greatest_common_divisor(one: u64, other: u64) -> u64 {
    if other == 0 { one } else { greatest_common_divisor(other, one % other) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[test]
    fn a_strided_area_visits_its_own_blocks() {
        let area = Area { file: 0, offset: 100, block_bytes: 20, stride_bytes: 60, blocks: 2 };
        let mut walk = Walk::new(vec![area], AccessOrder::Sequential, 10, 0).expect("room");
        let offsets: Vec<u64> = (0..5).map(|_| walk.step().offset).collect();
        assert_eq!(offsets, [100, 110, 160, 170, 100]);
        assert_eq!((walk.end_of(0), walk.end_of(1)), (180, 0));
    }

    #[test]
    fn random_places_are_aligned_and_within() {
        let areas = vec![Area::whole(0, 0, 40), Area::whole(2, 0, 5), Area::whole(1, 1000, 40)];
        let mut walk = Walk::new(areas, AccessOrder::Random, 10, 7).expect("room");
        let mut seen = std::collections::HashSet::new();
        for _ in 0..1000 {
            let request = walk.step();
            assert!(request.offset.is_multiple_of(10) && request.offset % 1000 <= 30);
            seen.insert((request.file, request.offset));
        }
        assert_eq!(seen.len(), 8);
        assert!(Walk::new(vec![Area::whole(0, 0, 5)], AccessOrder::Random, 10, 7).is_none(), "nothing fits");
    }

    fn frequencies(order: AccessOrder, places: u64, draws: u32) -> Vec<f64> {
        let mut walk = Walk::new(vec![Area::whole(0, 0, places * 10)], order, 10, 3).expect("room");
        let mut counts: HashMap<u64, u32> = HashMap::new();
        (0..draws).for_each(|_| *counts.entry(walk.step().offset).or_default() += 1);
        let mut shares: Vec<f64> =
            counts.values().map(|count| f64::from(*count) / f64::from(draws)).collect();
        shares.sort_by(|one, other| other.total_cmp(one));
        shares
    }

    #[test]
    fn popular_places_lie_apart_and_are_the_same_for_all() {
        let most = |seed| {
            let whole = vec![Area::whole(0, 0, 100_000)];
            let mut walk = Walk::new(whole, AccessOrder::Zipf { theta: 1.2 }, 10, seed).expect("room");
            let mut counts: HashMap<u64, u32> = HashMap::new();
            (0..50_000).for_each(|_| *counts.entry(walk.step().offset).or_default() += 1);
            let mut counts: Vec<(u32, u64)> = counts.into_iter().map(|(at, count)| (count, at)).collect();
            counts.sort_unstable_by(|one, other| other.cmp(one));
            counts.truncate(3);
            counts.into_iter().map(|(_, at)| at).collect::<Vec<u64>>()
        };
        let (one, other) = (most(1), most(2));
        assert_eq!(one, other);
        assert!(one.windows(2).all(|pair| pair[0].abs_diff(pair[1]) > 10_000), "{one:?}");
    }

    #[test]
    fn a_hot_share_gets_its_hits() {
        let shares = frequencies(AccessOrder::Hot { share: 0.1, hits: 0.9 }, 1000, 200_000);
        let hot: f64 = shares[..100].iter().sum();
        assert!((hot - 0.9).abs() < 0.01, "{hot}");
        assert!(shares.len() > 990, "the others are not left out: {}", shares.len());
    }

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
