//! What may be written on a file system that others use too.

use crate::units::show_size;
use linerate_system::file::space_at;
use std::io;
use std::path::Path;

/// What stays free of each file system: a tenth of it, and of a large one this much, bytes.
const MOST_LEFT_ALONE: u64 = 16 << 30;

/// Free bytes of the file system of a directory that may be written there, one of several that share it, its
/// size, and what of it is left alone.
pub fn space_in(directory: &Path, sharing: u64) -> io::Result<FreeSpace> {
    let (free, total) = space_at(directory)?;
    Ok(FreeSpace::of(free, total, sharing))
}

/// What of a file system others may fill in a directory, as its owner says; bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StorageLimits {
    /// What stays free of the file system; none: a tenth of it, 16 GiB at most.
    pub keep_bytes: Option<u64>,
    /// All files together; none: what is free.
    pub limit_bytes: Option<u64>,
}

impl StorageLimits {
    /// What may be written in the directory now beside what stays free.
    pub fn space_in(&self, directory: &Path) -> io::Result<FreeSpace> {
        let space = space_in(directory, 1)?;
        let left_alone = self.keep_bytes.unwrap_or(space.left_alone);
        Ok(FreeSpace { left_alone, bytes: space.free.saturating_sub(left_alone), ..space })
    }

    /// What is left of the limit where the files have this many bytes.
    pub fn left(&self, taken: u64) -> u64 {
        self.limit_bytes.map_or(u64::MAX, |limit| limit.saturating_sub(taken))
    }
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

    #[test]
    fn the_owner_says_what_stays_free_and_how_much_is_stored() {
        let here = |keep_bytes| StorageLimits { keep_bytes, limit_bytes: None }.space_in(Path::new("/"));
        let (usual, all) = (here(None).expect("statvfs"), here(Some(0)).expect("statvfs"));
        assert_eq!(usual.left_alone, (usual.total / 10).min(MOST_LEFT_ALONE));
        assert_eq!((all.left_alone, all.bytes), (0, all.free));
        assert_eq!(here(Some(u64::MAX)).expect("statvfs").bytes, 0);
        let limits = StorageLimits { limit_bytes: Some(10), ..StorageLimits::default() };
        assert_eq!((limits.left(3), limits.left(11)), (7, 0));
        assert_eq!(StorageLimits::default().left(u64::MAX), u64::MAX);
    }
}
