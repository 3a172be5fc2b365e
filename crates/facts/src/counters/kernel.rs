//! `/proc/stat`, `/proc/meminfo` and `/proc/pressure`.

use crate::usage::CpuTimes;

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
}
