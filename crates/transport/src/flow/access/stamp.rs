//! Data that knows where it belongs: every sector of it can be made again from the file, the offset and the
//! seed, so that a flipped or a misplaced one is found and located.
//!
//! A sector begins with file, offset and seed, goes on with bytes made from those three, and ends with a
//! checksum of all that.

use super::BlockStamp;
use linerate_facts::random::{Random, mixed};
use linerate_sums::{CrcAlgorithm, crc};

const SMALL_SECTOR: usize = 512;
const LARGE_SECTOR: usize = 4096;
/// File, offset and seed, eight bytes each.
const HEAD: usize = 24;
/// The checksum.
const TAIL: usize = 8;

/// What is wrong with one sector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Damage {
    /// Of the sector in the file, bytes.
    pub offset: u64,
    pub why: String,
}

/// Bytes of a sector for requests of this size; none: it takes sectors of 512 bytes.
pub(crate) fn sector_bytes(transfer_bytes: usize) -> Option<usize> {
    [LARGE_SECTOR, SMALL_SECTOR]
        .into_iter()
        .find(|sector| transfer_bytes > 0 && transfer_bytes.is_multiple_of(*sector))
}

/// The number by which data knows its file: from what it is called, so that it is the same in each run and
/// for each worker.
pub(crate) fn file_number(label: &str) -> u64 {
    crc(CrcAlgorithm::Crc64Nvme, label.as_bytes())
}

/// Stamps and checks with one seed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamper {
    seed: u64,
    sector_bytes: usize,
}

impl Stamper {
    /// For requests of this size; none if they do not consist of sectors.
    pub(crate) fn new(stamp: BlockStamp, transfer_bytes: usize) -> Option<Self> {
        Some(Stamper { seed: stamp.seed, sector_bytes: sector_bytes(transfer_bytes)? })
    }

    /// Fills the block that goes to this place.
    pub(crate) fn fill(&self, file: u64, offset: u64, block: &mut [u8]) {
        for (sector, at) in
            block.chunks_exact_mut(self.sector_bytes).zip((offset..).step_by(self.sector_bytes))
        {
            self.make(file, at, sector);
        }
    }

    fn make(&self, file: u64, offset: u64, sector: &mut [u8]) {
        let (content, tail) = sector.split_at_mut(self.sector_bytes - TAIL);
        content[..8].copy_from_slice(&file.to_le_bytes());
        content[8..16].copy_from_slice(&offset.to_le_bytes());
        content[16..HEAD].copy_from_slice(&self.seed.to_le_bytes());
        Random::new(mixed(file ^ mixed(offset ^ mixed(self.seed)))).fill(&mut content[HEAD..]);
        tail.copy_from_slice(&crc(CrcAlgorithm::Crc64Nvme, content).to_le_bytes());
    }

    /// Calls `found` with each sector that is not what belongs there.
    pub(crate) fn check(&self, file: u64, offset: u64, block: &[u8], mut found: impl FnMut(Damage)) {
        for (sector, at) in block.chunks_exact(self.sector_bytes).zip((offset..).step_by(self.sector_bytes)) {
            let (content, tail) = sector.split_at(self.sector_bytes - TAIL);
            let whole = crc(CrcAlgorithm::Crc64Nvme, content) == word(tail);
            let (its_file, its_offset, its_seed) = (word(content), word(&content[8..]), word(&content[16..]));
            if !whole {
                found(Damage { offset: at, why: self.difference(file, at, sector) });
            } else if its_file != file {
                let why = format!("misplaced: the data of offset {its_offset} of another file");
                found(Damage { offset: at, why });
            } else if its_offset != at {
                found(Damage { offset: at, why: format!("misplaced: the data of offset {its_offset}") });
            } else if its_seed != self.seed {
                let why = "stale: the data of an earlier run (another seed)".to_string();
                found(Damage { offset: at, why });
            }
        }
    }

    /// Where a damaged sector differs from what belongs there.
    fn difference(&self, file: u64, offset: u64, sector: &[u8]) -> String {
        if sector.iter().all(|byte| *byte == 0) {
            return "only zeros: never written, or lost".into();
        }
        let mut right = vec![0; self.sector_bytes];
        self.make(file, offset, &mut right);
        let wrong = || sector.iter().zip(&right).enumerate().filter(|(_, (is, should))| is != should);
        let bits: u32 = wrong().map(|(_, (is, should))| (is ^ should).count_ones()).sum();
        let first = wrong().next().map_or(0, |(at, _)| at);
        match wrong().count() {
            count if count * 2 > self.sector_bytes => "not what was written: all of it differs".into(),
            count => format!(
                "{bits} flipped bits in {count} bytes, the first of them at byte {}",
                offset + first as u64
            ),
        }
    }
}

fn word(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn damages(stamper: &Stamper, file: u64, offset: u64, block: &[u8]) -> Vec<Damage> {
        let mut all = Vec::new();
        stamper.check(file, offset, block, |damage| all.push(damage));
        all
    }

    proptest! {
        #[test]
        fn any_flipped_bit_is_found_and_located(
            seed: u64, file: u64, place in 0u64..1 << 40, bit in 0usize..3 * 4096 * 8, small: bool,
        ) {
            let length = if small { 3 * 512 } else { 3 * 4096 };
            let (bit, offset) = (bit % (length * 8), place * 512);
            let stamper = Stamper::new(BlockStamp { seed }, length).expect("sectors");
            let mut block = vec![0; length];
            stamper.fill(file, offset, &mut block);
            prop_assert_eq!(damages(&stamper, file, offset, &block), vec![]);
            block[bit / 8] ^= 1 << (bit % 8);
            let found = damages(&stamper, file, offset, &block);
            prop_assert_eq!(found.len(), 1);
            let sector = length / 3;
            prop_assert_eq!(found[0].offset, offset + (bit / 8 / sector * sector) as u64);
            let byte = format!("at byte {}", offset + bit as u64 / 8);
            prop_assert!(found[0].why.ends_with(&byte) && found[0].why.starts_with("1 \
                flipped"), "{:?}", found);
        }
    }

    #[test]
    fn a_block_in_the_wrong_place_reports_where_it_belongs() {
        let stamper = Stamper::new(BlockStamp { seed: 5 }, 8192).expect("sectors");
        let mut block = vec![0; 8192];
        stamper.fill(1, 40_960, &mut block);
        let found = damages(&stamper, 1, 8192, &block);
        assert_eq!(found.len(), 2);
        assert!(found[1].offset == 12_288 && found[1].why.contains("offset 45056"), "{found:?}");
        assert!(damages(&stamper, 2, 40_960, &block)[0].why.contains("another file"));
        let later = Stamper::new(BlockStamp { seed: 6 }, 8192).expect("sectors");
        assert!(damages(&later, 1, 40_960, &block)[0].why.contains("earlier run"));
        assert!(damages(&stamper, 1, 0, &[0; 8192])[0].why.contains("zeros"));
        assert!(damages(&stamper, 1, 0, &[3; 8192])[0].why.contains("all of it"));
        assert!(Stamper::new(BlockStamp { seed: 5 }, 1000).is_none(), "no sectors");
    }
}
