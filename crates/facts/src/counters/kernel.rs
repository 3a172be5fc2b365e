//! `/proc/stat`, `/proc/meminfo`, `/proc/pressure` and `/proc/diskstats`
//! (Documentation/admin-guide/iostats.rst).

use crate::usage::CpuTimes;
use serde::{Deserialize, Serialize};

/// `/proc/stat`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stat {
    pub cores: CpuTimes,
    /// Interrupts of all kinds since boot.
    pub interrupts: u64,
    pub context_switches: u64,
    /// Threads that run or could, now.
    pub running: u64,
    /// Threads that wait for a disk, now.
    pub blocked: u64,
}

/// Reads `/proc/stat`; none where it has no core.
pub fn parse_stat(text: &str) -> Option<Stat> {
    let cores = CpuTimes::parse(text);
    let mut stat = Stat { cores, ..Stat::default() };
    for line in text.lines().filter(|line| !line.starts_with("cpu")) {
        let mut words = line.split_ascii_whitespace();
        let (Some(name), Some(Ok(value))) = (words.next(), words.next().map(str::parse)) else { continue };
        match name {
            "intr" => stat.interrupts = value,
            "ctxt" => stat.context_switches = value,
            "procs_running" => stat.running = value,
            "procs_blocked" => stat.blocked = value,
            _ => {}
        }
    }
    (stat.cores.cores() > 0).then_some(stat)
}

/// More than any kernel has.
const MOST_LINES: usize = 256;

/// Reads `/proc/meminfo`: names and bytes, or numbers of pages where no unit stands. None where no line is of
/// its form.
pub fn parse_meminfo(text: &str) -> Option<Vec<(String, u64)>> {
    let one = |line: &str| {
        let (name, rest) = line.split_once(':')?;
        // Those of a NUMA node: `Node 0 MemTotal:`.
        let name =
            name.strip_prefix("Node ").and_then(|name| name.split_once(' ')).map_or(name, |(_, name)| name);
        let mut words = rest.split_ascii_whitespace();
        let value: u64 = words.next()?.parse().ok()?;
        let unit = if words.next() == Some("kB") { 1024 } else { 1 };
        super::plain(name).then_some((name.to_string(), value.checked_mul(unit)?))
    };
    let found: Vec<_> = text.lines().filter_map(one).take(MOST_LINES).collect();
    (!found.is_empty()).then_some(found)
}

/// One figure of `/proc/meminfo`, or of a NUMA node's `meminfo`.
pub fn of_meminfo(text: &str, name: &str) -> Option<u64> {
    parse_meminfo(text)?.into_iter().find(|(other, _)| other == name).map(|(_, bytes)| bytes)
}

/// One file of `/proc/pressure`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PressureCounters {
    pub some: Option<PressureLine>,
    pub full: Option<PressureLine>,
}

/// One line of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PressureLine {
    /// Share of the last ten seconds, 0 to 1.
    pub last_10s: f64,
    /// Microseconds since boot.
    pub total_us: u64,
}

/// Reads `some avg10=0.00 avg60=0.00 avg300=0.00 total=0`, and `full …`.
pub fn parse_pressure(text: &str) -> Option<PressureCounters> {
    let line = |kind: &str| {
        let rest = text.lines().find_map(|line| line.strip_prefix(kind)?.strip_prefix(' '))?;
        let word = |key: &str| rest.split_ascii_whitespace().find_map(|word| word.strip_prefix(key));
        let percent: f64 = word("avg10=")?.parse().ok()?;
        Some(PressureLine {
            last_10s: percent.is_finite().then(|| (percent / 100.0).clamp(0.0, 1.0))?,
            total_us: word("total=")?.parse().ok()?,
        })
    };
    let read = PressureCounters { some: line("some"), full: line("full") };
    (read.some.is_some() || read.full.is_some()).then_some(read)
}

/// More than any machine has, with partitions.
const MOST_DISKS: usize = 16_384;
/// Sectors of `/proc/diskstats` are of 512 bytes, whatever the disk's are.
const SECTOR_BYTES: u64 = 512;

/// One line. Times are 32 bits of milliseconds in the kernel and wrap; the rest is as wide as its words.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskCounters {
    pub name: String,
    pub reads: u64,
    pub reads_merged: u64,
    pub read_bytes: u64,
    pub read_ms: u64,
    pub writes: u64,
    pub writes_merged: u64,
    pub written_bytes: u64,
    pub write_ms: u64,
    /// Requests in the disk now: a state.
    pub in_flight: u64,
    /// Time with at least one request in the disk.
    pub busy_ms: u64,
    /// Time of all requests together.
    pub weighted_ms: u64,
    /// Told since Linux 4.18.
    pub discards: u64,
    pub discards_merged: u64,
    pub discarded_bytes: u64,
    pub discard_ms: u64,
    /// Told since Linux 5.5.
    pub flushes: u64,
    pub flush_ms: u64,
}

/// Reads the table in its order; lines that are none are left out.
pub fn parse_diskstats(text: &str) -> Option<Vec<DiskCounters>> {
    let found: Vec<DiskCounters> = text.lines().filter_map(parse_line).take(MOST_DISKS).collect();
    (!found.is_empty()).then_some(found)
}

/// Reads `/sys/block/NAME/stat`, the same columns of one device. None before Linux 4.18, which counts no discards.
pub fn parse_device_stat(text: &str) -> Option<DiskCounters> {
    (text.split_ascii_whitespace().count() >= 15).then(|| parse_line(&format!("0 0 device {text}")))?
}

fn parse_line(line: &str) -> Option<DiskCounters> {
    let mut words = line.split_ascii_whitespace().skip(2);
    let name = words.next().filter(|name| super::plain(name))?;
    let mut counts = [0u64; 17];
    let mut columns = 0;
    for (count, word) in counts.iter_mut().zip(words) {
        *count = word.parse().ok()?;
        columns += 1;
    }
    let sectors = |sectors: u64| sectors.saturating_mul(SECTOR_BYTES);
    // Linux 2.6 had lines of four for partitions.
    (columns >= 11).then(|| DiskCounters {
        name: name.to_string(),
        reads: counts[0],
        reads_merged: counts[1],
        read_bytes: sectors(counts[2]),
        read_ms: counts[3],
        writes: counts[4],
        writes_merged: counts[5],
        written_bytes: sectors(counts[6]),
        write_ms: counts[7],
        in_flight: counts[8],
        busy_ms: counts[9],
        weighted_ms: counts[10],
        discards: counts[11],
        discards_merged: counts[12],
        discarded_bytes: sectors(counts[13]),
        discard_ms: counts[14],
        flushes: counts[15],
        flush_ms: counts[16],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_kernel_s_lines() {
        let stat = parse_stat(
            "cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1 2 3 4 5 6 7 8 9 10\nintr 99 1 2\nctxt 7\nbtime \
             5\nprocs_running 3\nprocs_blocked 1\nsoftirq 5 1",
        );
        let stat = stat.expect("a reading");
        assert_eq!((stat.interrupts, stat.context_switches, stat.running, stat.blocked), (99, 7, 3, 1));
        assert_eq!(stat.cores.ticks(), [(0, [1, 2, 3, 4, 5, 6, 7, 8])]);
        let memory = parse_meminfo("MemTotal:  16 kB\nHugePages_Total:  5\nx\n: 1 kB\n").expect("a reading");
        assert_eq!(memory, [("MemTotal".to_string(), 16384), ("HugePages_Total".to_string(), 5)]);
        assert_eq!(of_meminfo("Node 3 HugePages_Free:  2\nNode 3 MemTotal: 5 kB\n", "MemTotal"), Some(5120));
        assert_eq!(
            (of_meminfo("MemTotal: 5 kB", "MemFree"), of_meminfo("MemTotal: x", "MemTotal")),
            (None, None)
        );
        let pressure =
            parse_pressure("some avg10=12.50 avg60=0.00 avg300=0.00 total=77\nfull avg10=nan total=1\n");
        let some = Some(PressureLine { last_10s: 0.125, total_us: 77 });
        assert_eq!(pressure, Some(PressureCounters { some, full: None }));
        assert_eq!((parse_stat(""), parse_meminfo("\n"), parse_pressure("some")), (None, None, None));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "((cpu[0-9]{0,2}|intr|some|full|Mem:|avg10=|total=|[0-9é.-]{1,22}) ?\n?){0,30}") {
            prop_assert!(parse_stat(&text).is_none_or(|stat| stat.cores.cores() > 0));
            prop_assert!(parse_meminfo(&text).is_none_or(|lines| !lines.is_empty()));
            if let Some(read) = parse_pressure(&text) {
                prop_assert!(read.some.into_iter().chain(read.full).all(|line| (0.0..=1.0).contains(&line.last_10s)));
            }
        }
    }

    #[test]
    fn lines_of_old_and_new_kernels() {
        let text = "   8  0 sda 25354637 34367663 1003346126 18492372 28444756 11134226 505697032 63877960 0 \
                    9653880 82621804\n\
                    259  0 nvme0n1 47114 4 4643973 21650 1078320 43950 39451633 1011053 2 222766 1032546 1 2 \
                    3 4 5 6 77\n\
                    8 1 sda1 5 6 7 8\n8 2 sdb 1 2 3 x 5 6 7 8 9 10 11\nno\n";
        let disks = parse_diskstats(text).expect("disks");
        assert_eq!(disks.len(), 2);
        assert_eq!((disks[0].reads, disks[0].read_bytes, disks[0].flushes), (25_354_637, 513_713_216_512, 0));
        assert_eq!((disks[1].in_flight, disks[1].discarded_bytes, disks[1].flush_ms), (2, 1536, 6));
        assert_eq!(parse_diskstats("\n"), None);
    }

    proptest! {
        #[test]
        fn any_text_of_diskstats_is_read_or_refused(text in "(([0-9]{1,22}|sd[a-é]) ?\n?){0,60}") {
            prop_assert!(parse_diskstats(&text).is_none_or(|disks| disks.iter().all(|disk| !disk.name.is_empty())));
        }
    }
}
