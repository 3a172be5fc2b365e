//! What memory could be had now, and what may be written on a file system that others use too.

use crate::counters::of_meminfo;
use crate::sysroot::Sysroot;
use crate::units::show_size;
use crate::usage::groups;
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

/// Bytes that could be had now without swapping: of the machine (`MemAvailable`), or of the control groups
/// that this process is in (v2, `memory.max`), whichever are fewer. None where the machine does not report.
pub fn available_bytes(sysroot: &Sysroot) -> Option<u64> {
    let machine = of_meminfo(&sysroot.text("/proc/meminfo").ok()?, "MemAvailable")?;
    let left = groups(sysroot, "self", "memory").into_iter().filter_map(|group| left_in(sysroot, &group));
    Some(left.fold(machine, u64::min))
}

/// What a group may still take: what it has of files that it does not use could be dropped at once.
fn left_in(sysroot: &Sysroot, group: &Path) -> Option<u64> {
    let number = |name: &str| sysroot.text(group.join(name)).ok()?.trim().parse::<u64>().ok();
    // `max` is not a number: no limit.
    let limit = number("memory.max")?;
    let droppable = sysroot.text(group.join("memory.stat")).ok().and_then(|text| {
        text.lines().find_map(|line| line.strip_prefix("inactive_file "))?.trim().parse::<u64>().ok()
    });
    let used = number("memory.current")?.saturating_sub(droppable.unwrap_or(0));
    Some(limit.saturating_sub(used))
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

    #[test]
    fn the_machine_reports_and_the_tightest_group_bounds_it() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
            std::fs::write(path, text).expect("a file");
        };
        let available = || available_bytes(&Sysroot::recorded(root.path()));
        assert_eq!(available(), None);
        put("proc/meminfo", "MemTotal:  9000 kB\nMemFree: 1 kB\nMemAvailable:   4000 kB\n");
        assert_eq!(available(), Some(4000 << 10));
        put("proc/self/cgroup", "0::/pod/agent\n");
        put("sys/fs/cgroup/pod/agent/memory.max", "max\n");
        put("sys/fs/cgroup/pod/agent/memory.current", "5\n");
        assert_eq!(available(), Some(4000 << 10));
        put("sys/fs/cgroup/pod/memory.max", "1000000\n");
        put("sys/fs/cgroup/pod/memory.current", "700000\n");
        assert_eq!(available(), Some(300_000));
        put("sys/fs/cgroup/pod/memory.stat", "anon 600000\ninactive_file 100000\nactive_file 0\n");
        assert_eq!(available(), Some(400_000));
        put("proc/meminfo", "MemAvailable: 99999999999999999999 kB\n");
        assert_eq!(available(), None);
    }
}
