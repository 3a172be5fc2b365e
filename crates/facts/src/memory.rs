//! What memory could be had now.

use crate::counters::of_meminfo;
use crate::sysroot::Sysroot;
use crate::usage::groups;
use std::path::Path;

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
    // `max` is no number: no limit.
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
