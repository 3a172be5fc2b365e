//! Block devices while a job ran: two readings of `/proc/diskstats`, one difference (Documentation/admin-guide/iostats.rst).

use super::DeviceUse;
use crate::sysroot::Sysroot;
use std::time::Instant;

/// Sectors of diskstats, whatever the device's own are.
const SECTOR_BYTES: f64 = 512.0;

/// One reading.
#[derive(Clone, Debug)]
pub struct Diskstats {
    at: Instant,
    /// By kernel name: the first eleven numbers after it.
    devices: Vec<(String, [u64; 11])>,
}

impl Diskstats {
    /// Reads the named devices; what is not there is left out.
    pub fn read(sysroot: &Sysroot, names: &[String]) -> Self {
        let text = sysroot.text("/proc/diskstats").unwrap_or_default();
        Diskstats { at: Instant::now(), devices: parse(&text, names) }
    }

    /// What each device did since an earlier reading.
    pub fn since(&self, earlier: &Diskstats) -> Vec<DeviceUse> {
        let seconds = self.at.duration_since(earlier.at).as_secs_f64().max(1e-9);
        let with = |(name, now): &(String, [u64; 11])| {
            let (_, before) = earlier.devices.iter().find(|(other, _)| other == name)?;
            Some(used(name, before, now, seconds))
        };
        self.devices.iter().filter_map(with).collect()
    }
}

fn used(name: &str, before: &[u64; 11], now: &[u64; 11], seconds: f64) -> DeviceUse {
    // The counters are unsigned long and wrap on 32-bit machines.
    let per_second = |field: usize| now[field].wrapping_sub(before[field]) as f64 / seconds;
    DeviceUse {
        name: name.to_string(),
        utilisation: (per_second(9) / 1000.0).min(1.0),
        queue_depth: per_second(10) / 1000.0,
        read_bytes_per_second: per_second(2) * SECTOR_BYTES,
        written_bytes_per_second: per_second(6) * SECTOR_BYTES,
        operations_per_second: per_second(0) + per_second(4),
    }
}

fn parse(text: &str, names: &[String]) -> Vec<(String, [u64; 11])> {
    let line = |line: &str| {
        let mut words = line.split_ascii_whitespace().skip(2);
        let name = words.next()?;
        if !names.iter().any(|wanted| wanted == name) {
            return None;
        }
        let mut numbers = [0; 11];
        for number in &mut numbers {
            *number = words.next()?.parse().ok()?;
        }
        Some((name.to_string(), numbers))
    };
    text.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::tests::Tree;
    use std::time::Duration;

    #[test]
    fn two_readings_make_rates() {
        let names = ["loop0".to_string(), "gone".to_string()];
        let first = "   7       0 loop0 100 0 2000 50 10 0 80 5 0 1000 2000 0 0 0 0\n   7 1 loop1 1 1 1 1 1 1 1 1 1 1 1\n";
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

    #[test]
    fn lines_that_are_no_lines_are_left_out() {
        let names = ["sda".to_string()];
        assert!(parse("8 0 sda 1 2 3\nnonsense\n8 0 sda x 1 1 1 1 1 1 1 1 1 1\n", &names).is_empty());
    }
}
