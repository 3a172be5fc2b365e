//! Where each request goes: blocks of one or more files, in order or at random.

use super::draw::{Zipf, scatter_step, scattered};
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
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase", tag = "kind")]
pub enum AccessOrder {
    Sequential,
    /// Each place equally likely.
    Random,
    /// A few places often: the k-th most popular is asked for in proportion to k^-theta.
    Zipf {
        theta: f64,
    },
    /// This share of the places gets this share of the requests.
    Hot {
        share: f64,
        hits: f64,
    },
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

#[cfg(test)]
mod tests {
    use super::*;
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
}
