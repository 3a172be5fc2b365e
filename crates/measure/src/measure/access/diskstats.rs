//! Block devices while a job ran: two readings of `/proc/diskstats`, one difference
//! (Documentation/admin-guide/iostats.rst).

use super::DeviceUse;
use linerate_facts::counters::rates::{Elapsed, Width};
use linerate_facts::counters::{DiskCounters, parse_diskstats};
use linerate_facts::sysroot::Sysroot;
use std::time::{Duration, Instant};

/// One reading.
#[derive(Clone, Debug)]
pub struct Diskstats {
    at: Instant,
    devices: Vec<DiskCounters>,
}

impl Diskstats {
    /// Reads the named devices; what is not there is left out.
    pub fn read(sysroot: &Sysroot, names: &[String]) -> Self {
        let text = sysroot.text("/proc/diskstats").unwrap_or_default();
        let mut devices = parse_diskstats(&text).unwrap_or_default();
        devices.retain(|device| names.contains(&device.name));
        Diskstats { at: Instant::now(), devices }
    }

    /// Of no device.
    pub(crate) fn none() -> Self {
        Diskstats { at: Instant::now(), devices: Vec::new() }
    }

    /// What each device did since an earlier reading. One whose counters began again is left out.
    pub fn since(&self, earlier: &Diskstats) -> Vec<DeviceUse> {
        let Some(span) = Elapsed::between(earlier.at, self.at) else { return Vec::new() };
        let with = |now: &DiskCounters| {
            let before = earlier.devices.iter().find(|other| other.name == now.name)?;
            used(before, now, span)
        };
        self.devices.iter().filter_map(with).collect()
    }
}

impl DeviceUse {
    /// What a device did between two readings, which lie so far apart.
    pub(crate) fn between(before: &DiskCounters, now: &DiskCounters, time: Duration) -> Option<Self> {
        let begin = Instant::now();
        used(before, now, Elapsed::between(begin, begin.checked_add(time)?)?)
    }
}

fn used(before: &DiskCounters, now: &DiskCounters, span: Elapsed) -> Option<DeviceUse> {
    let per_second = |count: fn(&DiskCounters) -> u64, width| {
        Some(span.counted(count(before), count(now), width)? as f64 / span.seconds())
    };
    let (bits64, milliseconds) = (Width::Bits64, Width::Bits32);
    Some(DeviceUse {
        name: now.name.clone(),
        utilisation: (per_second(|disk| disk.busy_ms, milliseconds)? / 1000.0).min(1.0),
        queue_depth: per_second(|disk| disk.weighted_ms, milliseconds)? / 1000.0,
        read_bytes_per_second: per_second(|disk| disk.read_bytes, bits64)?,
        written_bytes_per_second: per_second(|disk| disk.written_bytes, bits64)?,
        operations_per_second: per_second(|disk| disk.reads, bits64)?
            + per_second(|disk| disk.writes, bits64)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_testing::Tree;
    use std::time::Duration;

    #[test]
    fn two_readings_make_rates() {
        let names = ["loop0".to_string(), "gone".to_string()];
        let first = "   7       0 loop0 100 0 2000 50 10 0 80 5 0 1000 2000 0 0 0 0\n   7 1 loop1 1 1 1 1 1 \
                     1 1 1 1 1 1\n";
        let second = "   7       0 loop0 300 0 6000 50 20 0 180 5 3 1500 6000 0 0 0 0\n";
        let mut tree = Tree::new(&[("proc/diskstats", first)]);
        let mut before = Diskstats::read(&tree.sysroot(), &names);
        tree.put("proc/diskstats", second);
        let after = Diskstats::read(&tree.sysroot(), &names);
        before.at = after.at - Duration::from_secs(2);
        let [used] = &after.since(&before)[..] else { panic!("one device is there") };
        assert_eq!(used.name, "loop0");
        assert!((used.utilisation - 0.25).abs() < 1e-9 && (used.queue_depth - 2.0).abs() < 1e-9);
        assert!((used.read_bytes_per_second - 2000.0 * 512.0).abs() < 1e-6);
        assert!((used.written_bytes_per_second - 50.0 * 512.0).abs() < 1e-6);
        assert!((used.operations_per_second - 105.0).abs() < 1e-9);
    }

    /// Milliseconds are 32 bits wide in the kernel; a disk under the name of another counts from 0.
    #[test]
    fn wrapped_milliseconds_count_and_a_new_disk_is_left_out() {
        let names = ["sda".to_string(), "sdb".to_string()];
        let first = "8 0 sda 1 0 8 1 0 0 0 0 0 4294967000 4294966296\n8 16 sdb 9000 0 8 1 0 0 0 0 0 7 7\n";
        let second = "8 0 sda 2 0 16 1 0 0 0 0 0 704 1000\n8 16 sdb 1 0 8 1 0 0 0 0 0 1 1\n";
        let mut tree = Tree::new(&[("proc/diskstats", first)]);
        let mut before = Diskstats::read(&tree.sysroot(), &names);
        tree.put("proc/diskstats", second);
        let after = Diskstats::read(&tree.sysroot(), &names);
        before.at = after.at - Duration::from_secs(2);
        let [used] = &after.since(&before)[..] else { panic!("sda alone") };
        assert!((used.utilisation - 0.5).abs() < 1e-9 && (used.queue_depth - 1.0).abs() < 1e-9, "{used:?}");
    }
}
