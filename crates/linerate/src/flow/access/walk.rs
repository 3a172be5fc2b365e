//! Where each request goes: blocks of one or more files, in order or at random.

/// Equal blocks at equal distances in one file: a whole file, a segment of a shared one, or every n-th block of it.
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
        self.block_bytes / transfer_bytes.max(1) * self.blocks
    }

    /// The `index`-th of them: its offset in the file.
    pub fn offset_of(&self, index: u64, transfer_bytes: u64) -> u64 {
        let in_block = (self.block_bytes / transfer_bytes.max(1)).max(1);
        self.offset + index / in_block * self.stride_bytes + index % in_block * transfer_bytes
    }
}

/// In which order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Order {
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
pub struct Request {
    pub file: usize,
    pub offset: u64,
}

/// Gives out places, endlessly.
#[derive(Clone, Debug)]
pub struct Walk {
    areas: Vec<Area>,
    order: Order,
    transfer_bytes: u64,
    total: u64,
    next: u64,
    random: u64,
}

impl Walk {
    /// Over these areas; none if no request fits into them.
    pub fn new(areas: Vec<Area>, order: Order, transfer_bytes: u64, seed: u64) -> Option<Self> {
        let total = areas.iter().map(|area| area.requests(transfer_bytes)).sum();
        (total > 0).then_some(Walk { areas, order, transfer_bytes, total, next: 0, random: seed })
    }

    /// Requests in one pass.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The next place.
    pub fn step(&mut self) -> Request {
        let index = match self.order {
            Order::Sequential => self.next % self.total,
            _ => self.uniform(),
        };
        self.next += 1;
        self.place(index)
    }

    fn place(&self, mut index: u64) -> Request {
        for area in &self.areas {
            let here = area.requests(self.transfer_bytes);
            if index < here {
                return Request { file: area.file, offset: area.offset_of(index, self.transfer_bytes) };
            }
            index -= here;
        }
        let first = self.areas[0];
        Request { file: first.file, offset: first.offset }
    }

    /// SplitMix64 (Steele, Lea, Flood 2014), scaled by Lemire's multiplication.
    fn uniform(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.random;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(word ^ (word >> 31)) * u128::from(self.total)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strided_area_visits_its_own_blocks() {
        let area = Area { file: 0, offset: 100, block_bytes: 20, stride_bytes: 60, blocks: 2 };
        let mut walk = Walk::new(vec![area], Order::Sequential, 10, 0).expect("room");
        let offsets: Vec<u64> = (0..5).map(|_| walk.step().offset).collect();
        assert_eq!(offsets, [100, 110, 160, 170, 100]);
    }

    #[test]
    fn random_places_are_aligned_and_within() {
        let areas = vec![Area::whole(0, 0, 40), Area::whole(1, 1000, 40)];
        let mut walk = Walk::new(areas, Order::Random, 10, 7).expect("room");
        let mut seen = std::collections::HashSet::new();
        for _ in 0..1000 {
            let request = walk.step();
            assert!(request.offset.is_multiple_of(10) && request.offset % 1000 <= 30);
            seen.insert((request.file, request.offset));
        }
        assert_eq!(seen.len(), 8);
    }
}
