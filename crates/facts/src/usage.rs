//! CPU use by core in the eight classes of `/proc/stat`, and throttling by a control group's CPU quota: two
//! readings, one difference.

use crate::sysroot::Sysroot;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// CPU use of one core over some time: shares that add up to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CoreUse {
    /// CPU.
    pub core: u32,
    pub user: f64,
    pub nice: f64,
    pub system: f64,
    pub idle: f64,
    pub iowait: f64,
    pub irq: f64,
    pub softirq: f64,
    pub steal: f64,
}

impl CoreUse {
    /// The mean of two looks at the same core, by their lengths.
    pub fn mean(&self, length: f64, other: &CoreUse, other_length: f64) -> CoreUse {
        let of = |a: f64, b: f64| (a * length + b * other_length) / (length + other_length);
        CoreUse {
            core: self.core,
            user: of(self.user, other.user),
            nice: of(self.nice, other.nice),
            system: of(self.system, other.system),
            idle: of(self.idle, other.idle),
            iowait: of(self.iowait, other.iowait),
            irq: of(self.irq, other.irq),
            softirq: of(self.softirq, other.softirq),
            steal: of(self.steal, other.steal),
        }
    }

    /// Share of the time in which the core did something.
    pub fn busy(&self) -> f64 {
        (1.0 - self.idle - self.iowait).clamp(0.0, 1.0)
    }
}

/// One reading of `/proc/stat`, ticks by core. An agent sends it as it is: the difference is taken where the
/// interval is known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CpuTimes(Vec<(u32, [u64; 8])>);

impl CpuTimes {
    /// Reads now; empty where `/proc/stat` cannot be read.
    pub fn read(sysroot: &Sysroot) -> Self {
        CpuTimes(sysroot.text("/proc/stat").map(|text| parse_stat(&text)).unwrap_or_default())
    }

    /// The cores' lines of a text of `/proc/stat`.
    pub fn parse(text: &str) -> Self {
        CpuTimes(parse_stat(text))
    }

    /// Ticks by core, in the order of the file: user, nice, system, idle, iowait, irq, softirq, steal. A tick
    /// is 10 ms (USER_HZ).
    pub fn ticks(&self) -> &[(u32, [u64; 8])] {
        &self.0
    }

    /// Number of cores in the reading.
    pub fn cores(&self) -> usize {
        self.0.len()
    }

    /// Ticks of each core since an earlier reading, in the order of [`CpuTimes::ticks`]. A core that came or went in
    /// between is left out.
    pub fn ticks_since(&self, earlier: &CpuTimes) -> Vec<(u32, [u64; 8])> {
        // A map: a peer may tell of as many cores as its message holds.
        let mut known: HashMap<u32, &[u64; 8]> = HashMap::with_capacity(earlier.0.len());
        for (core, ticks) in &earlier.0 {
            known.entry(*core).or_insert(ticks);
        }
        let spent = |(core, now): &(u32, [u64; 8])| {
            let before = known.get(core)?;
            // Idle and iowait may step back on a tickless kernel (Documentation/filesystems/proc.rst): that counts as
            // nothing.
            Some((*core, std::array::from_fn(|class| now[class].saturating_sub(before[class]))))
        };
        self.0.iter().filter_map(spent).collect()
    }

    /// What each core did since an earlier reading. A core without a tick in between is left out as well.
    pub fn since(&self, earlier: &CpuTimes) -> Vec<CoreUse> {
        let shares = |(core, ticks): (u32, [u64; 8])| {
            let ticks = ticks.map(|ticks| ticks as f64);
            let total: f64 = ticks.iter().sum();
            let [user, nice, system, idle, iowait, irq, softirq, steal] = ticks.map(|ticks| ticks / total);
            (total > 0.0).then_some(CoreUse { core, user, nice, system, idle, iowait, irq, softirq, steal })
        };
        self.ticks_since(earlier).into_iter().filter_map(shares).collect()
    }
}

fn parse_stat(text: &str) -> Vec<(u32, [u64; 8])> {
    text.lines()
        .filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            let core = words.next()?.strip_prefix("cpu")?.parse().ok()?;
            let mut ticks = [0u64; 8];
            for tick in &mut ticks {
                *tick = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
            }
            Some((core, ticks))
        })
        .collect()
}

/// One reading of the CPU quota of this process's control group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Throttle {
    /// CPU time granted, in cores; 0 for no quota. The tightest of the group and its ancestors.
    pub quota_cores: f64,
    /// Periods in which the group was throttled.
    pub throttled_periods: u64,
    /// Periods that passed.
    pub periods: u64,
}

impl Throttle {
    /// Reads the groups of the calling process: v1 `cpu.cfs_*` and `cpu.stat`, v2 `cpu.max` and `cpu.stat`.
    pub fn read(sysroot: &Sysroot) -> Self {
        Throttle::of(sysroot, "self")
    }

    /// The same of another process, by the name of its folder in `/proc`.
    pub fn of(sysroot: &Sysroot, process: &str) -> Self {
        let mut tightest = Throttle::default();
        for group in groups(sysroot, process, "cpu") {
            let here = read_group(sysroot, &group);
            if here.quota_cores > 0.0
                && (tightest.quota_cores == 0.0 || here.quota_cores < tightest.quota_cores)
            {
                tightest = here;
            }
        }
        tightest
    }

    /// Share of the periods since an earlier reading in which the group was held.
    pub fn share_since(&self, earlier: &Throttle) -> f64 {
        let periods = self.periods.saturating_sub(earlier.periods);
        let throttled = self.throttled_periods.saturating_sub(earlier.throttled_periods);
        if periods == 0 { 0.0 } else { throttled as f64 / periods as f64 }
    }
}

/// Folders of the control groups that a process is in for a controller, each with those above it. `process`: the name
/// of its folder in `/proc`, such as `self`.
pub fn groups(sysroot: &Sysroot, process: &str, controller: &str) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for line in sysroot.text(Path::new("/proc").join(process).join("cgroup")).unwrap_or_default().lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, group) = (fields.next().unwrap_or(""), fields.next().unwrap_or("/"));
        let mounts = match controllers {
            "" => vec!["".to_string(), "unified".into()],
            list if list.split(',').any(|name| name == controller) => vec![controller.into(), list.into()],
            _ => continue,
        };
        for mount in mounts {
            for ancestor in Path::new(group).ancestors() {
                let inside = ancestor.strip_prefix("/").unwrap_or(ancestor);
                folders.push(Path::new("/sys/fs/cgroup").join(&mount).join(inside));
            }
        }
    }
    folders
}

fn read_group(sysroot: &Sysroot, group: &Path) -> Throttle {
    let mut throttle = Throttle::default();
    let v1 = (
        sysroot.parse::<i64>(group.join("cpu.cfs_quota_us")).known().copied(),
        sysroot.parse::<i64>(group.join("cpu.cfs_period_us")).known().copied(),
    );
    if let (Some(quota), Some(period)) = v1
        && quota > 0
        && period > 0
    {
        throttle.quota_cores = quota as f64 / period as f64;
    }
    if let Ok(text) = sysroot.text(group.join("cpu.max"))
        && let Some((quota, period)) = text.split_once(' ')
        // Whole microseconds, or `max`: as floating point, a damaged file could say `inf` or `NaN`, which no
        // JSON can hold.
        && let (Ok(quota), Ok(period)) = (quota.parse::<u64>(), period.trim().parse::<u64>())
        && period > 0
    {
        throttle.quota_cores = quota as f64 / period as f64;
    }
    for line in sysroot.text(group.join("cpu.stat")).unwrap_or_default().lines() {
        match line.split_once(' ') {
            Some(("nr_periods", value)) => throttle.periods = value.parse().unwrap_or(0),
            Some(("nr_throttled", value)) => throttle.throttled_periods = value.parse().unwrap_or(0),
            _ => {}
        }
    }
    throttle
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_the_eight_classes() {
        let before =
            CpuTimes(parse_stat("cpu  1 1 1 1 1 1 1 1 0 0\ncpu0 100 0 100 700 50 10 30 10 0 0\nintr 5"));
        let after = CpuTimes(parse_stat("cpu0 150 0 120 715 50 10 45 10 0 0"));
        let shares = after.since(&before);
        assert_eq!(shares.len(), 1);
        assert!((shares[0].user - 0.5).abs() < 1e-9, "{shares:?}");
        assert!((shares[0].softirq - 0.15).abs() < 1e-9);
        assert!((shares[0].busy() - 0.85).abs() < 1e-9);
    }

    #[test]
    fn the_tightest_quota_of_the_ancestors_counts() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let put = |path: &str, text: &str| {
            let file = root.path().join(path);
            std::fs::create_dir_all(file.parent().expect("a parent")).expect("directories");
            std::fs::write(file, text).expect("a file");
        };
        put("proc/self/cgroup", "2:cpuacct:/\n1:cpu:/lab/server\n0::/\n");
        put("sys/fs/cgroup/cpu/lab/cpu.cfs_quota_us", "-1");
        put("sys/fs/cgroup/cpu/lab/cpu.cfs_period_us", "100000");
        put("sys/fs/cgroup/cpu/lab/server/cpu.cfs_quota_us", "40000");
        put("sys/fs/cgroup/cpu/lab/server/cpu.cfs_period_us", "100000");
        put("sys/fs/cgroup/cpu/lab/server/cpu.stat", "nr_periods 10\nnr_throttled 4\nthrottled_time 5");
        let throttle = Throttle::read(&Sysroot::recorded(root.path()));
        assert_eq!(throttle, Throttle { quota_cores: 0.4, throttled_periods: 4, periods: 10 });
    }

    #[test]
    fn a_quota_that_is_no_number_is_no_quota() {
        let root = tempfile::tempdir().expect("a temporary directory");
        std::fs::create_dir_all(root.path().join("proc/self")).expect("directories");
        std::fs::create_dir_all(root.path().join("sys/fs/cgroup")).expect("directories");
        std::fs::write(root.path().join("proc/self/cgroup"), "0::/\n").expect("a file");
        let of = |text: &str| {
            std::fs::write(root.path().join("sys/fs/cgroup/cpu.max"), text).expect("a file");
            Throttle::read(&Sysroot::recorded(root.path())).quota_cores
        };
        for text in ["max 100000", "inf 100000", "1e308 1e-5", "NaN 1", "-5 1", "5 0", "5"] {
            assert_eq!(of(text), 0.0, "{text}");
        }
        assert_eq!(of("50000 100000"), 0.5);
    }

    #[test]
    fn as_many_cores_as_a_message_holds_take_no_time() {
        let many = |ticks: u64| CpuTimes((0..200_000).map(|core| (core, [ticks; 8])).collect());
        let (before, after) = (many(1), many(2));
        let began = std::time::Instant::now();
        assert_eq!(after.since(&before).len(), 200_000);
        // One by one it took minutes in a debug build.
        assert!(began.elapsed().as_secs() < 5, "{:?}", began.elapsed());
    }
}
