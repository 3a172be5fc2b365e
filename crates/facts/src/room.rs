//! What may be written on a file system that others use too.

use crate::units::show_size;
use linerate_system::file::space_at;
use std::io;
use std::path::Path;

/// What stays free of each file system: a tenth of it, and of a large one this much, bytes.
const MOST_LEFT_ALONE: u64 = 16 << 30;

/// Free bytes of the file system of a directory that may be written there, one of so many who share it, its
/// size, and what of it is left alone.
pub fn space_in(directory: &Path, sharing: u64) -> io::Result<FreeSpace> {
    let (free, total) = space_at(directory)?;
    Ok(FreeSpace::of(free, total, sharing))
}

/// What may be written in a directory.
#[derive(Clone, Copy, Debug)]
pub struct FreeSpace {
    pub bytes: u64,
    pub free: u64,
    pub total: u64,
    pub left_alone: u64,
}

impl FreeSpace {
    fn of(free: u64, total: u64, sharing: u64) -> Self {
        let left_alone = (total / 10).min(MOST_LEFT_ALONE);
        FreeSpace { bytes: free.saturating_sub(left_alone) / sharing.max(1), free, total, left_alone }
    }

    /// Why it is not enough.
    pub fn too_little(&self, least: u64) -> String {
        format!(
            "the disk is nearly full ({} free of {}; {} are left alone, and {} are the least that is of use)",
            show_size(self.free),
            show_size(self.total),
            show_size(self.left_alone),
            show_size(least)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_stays_free_and_of_a_large_disk_16_gib() {
        const TIB: u64 = 1 << 40;
        assert_eq!(FreeSpace::of(50 << 20, 100 << 20, 1).bytes, 40 << 20);
        assert_eq!(FreeSpace::of(50 << 20, 100 << 20, 2).bytes, 20 << 20);
        assert_eq!(FreeSpace::of(5 << 20, 100 << 20, 1).bytes, 0);
        // 95 % full, and yet 4 TiB are free.
        assert_eq!(FreeSpace::of(4 * TIB, 80 * TIB, 1).bytes, 4 * TIB - (16 << 30));
    }
}
