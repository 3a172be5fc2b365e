//! The host: shares of its CPUs' time, interrupts and softirqs by core, memory and pressure; and what of the
//! processes this user does not see, and why.

use super::Readings;
use crate::model::{Core, Cpus, Eight, MemoryUse, Pressure, Processes};
use crate::sources::{KernelReading, RESOURCES, TimedValue};
use linerate_facts::counters::rates::{Elapsed, Width, rounded};
use linerate_facts::counters::{Interrupts, IrqCounts, PressureCounters, PressureLine, Stat};
use std::collections::BTreeMap;

/// A tick of `/proc/stat`, seconds (USER_HZ is 100 on every architecture that linerate runs on).
const TICK_SECONDS: f64 = 0.01;

pub(crate) fn cpus(
    stat: &Readings<Stat>,
    softirqs: Option<&Readings<Interrupts>>,
    interrupts: Option<&Readings<Interrupts>>,
    nodes: &BTreeMap<u32, u32>,
) -> Cpus {
    let now = stat.now;
    let before = stat.before.as_ref().map(|(before, _)| now.cores.ticks_since(&before.cores));
    let spent: BTreeMap<u32, [u64; 8]> = before.into_iter().flatten().collect();
    let interrupts = interrupts.map(by_core).unwrap_or_default();
    let mut sum = [0u64; 8];
    let core = |(number, ticks): &(u32, [u64; 8])| {
        let spent = spent.get(number);
        for (sum, spent) in sum.iter_mut().zip(spent.into_iter().flatten()) {
            *sum += spent;
        }
        Core {
            number: *number,
            node: nodes.get(number).copied(),
            eight: spent.and_then(shares),
            seconds: eight(ticks, |ticks| ((ticks as f64 * TICK_SECONDS) * 100.0).round() / 100.0),
            interrupts_per_second: interrupts.get(number).copied(),
            softirqs: softirqs.map(|both| kinds(both, *number)).unwrap_or_default(),
        }
    };
    let each = now.cores.ticks().iter().map(core).collect();
    let rate = |count: fn(&Stat) -> u64| {
        let (before, span) = stat.before.as_ref()?;
        span.rate(count(before), count(now))
    };
    Cpus {
        total: shares(&sum),
        each,
        interrupts_per_second: rate(|stat| stat.interrupts),
        context_switches_per_second: rate(|stat| stat.context_switches),
        interrupts: now.interrupts,
        context_switches: now.context_switches,
        running: now.running,
        blocked: now.blocked,
        throttled_share: None,
    }
}

fn shares(delta: &[u64; 8]) -> Option<Eight> {
    let total: f64 = delta.iter().map(|ticks| *ticks as f64).sum();
    (total > 0.0).then(|| eight(delta, |ticks| ((ticks as f64 / total) * 1e5).round() / 1e5))
}

fn eight(ticks: &[u64; 8], value: impl Fn(u64) -> f64) -> Eight {
    let [user, nice, system, idle, iowait, irq, softirq, steal] = ticks.map(value);
    Eight { user, nice, system, idle, iowait, irq, softirq, steal }
}

/// Counts of a table since the reading before, by column of the newer one; none where the line is new or the
/// columns changed.
pub(crate) fn since(both: &Readings<Interrupts>, index: usize) -> Option<(Elapsed, Vec<Option<u64>>)> {
    let (before, span) = both.before.as_ref()?;
    let now = both.now.lines.get(index)?;
    let same = before.lines.get(index).filter(|line| line.number == now.number && line.name == now.name);
    let before_line = same.or_else(|| before.line(&now.number, &now.name))?;
    let unchanged = before.cores == both.now.cores;
    let one = |(column, core): (usize, &u32)| {
        let earlier = if unchanged { column } else { before.column(*core)? };
        span.counted(*before_line.counts.get(earlier)?, now.counts[column], Width::Bits32)
    };
    Some((*span, both.now.cores.iter().enumerate().map(one).collect()))
}

/// Interrupts of devices by core, per second.
fn by_core(both: &Readings<Interrupts>) -> BTreeMap<u32, f64> {
    let mut sums: BTreeMap<u32, (u64, f64)> = BTreeMap::new();
    for (index, line) in both.now.lines.iter().enumerate() {
        if !line.number.starts_with(|c: char| c.is_ascii_digit()) {
            continue;
        }
        let Some((span, counts)) = since(both, index) else { continue };
        for (core, count) in both.now.cores.iter().zip(counts) {
            let sum = sums.entry(*core).or_insert((0, span.seconds()));
            sum.0 = sum.0.saturating_add(count.unwrap_or(0));
        }
    }
    sums.into_iter().map(|(core, (count, seconds))| (core, rounded(count as f64 / seconds))).collect()
}

/// Softirqs of one core by kind.
fn kinds(both: &Readings<Interrupts>, core: u32) -> BTreeMap<String, f64> {
    let Some((before, span)) = &both.before else { return BTreeMap::new() };
    // `/proc/softirqs` has a column for each possible CPU, in order.
    let (Some(column), Some(earlier)) = (both.now.column(core), before.column(core)) else {
        return BTreeMap::new();
    };
    let one = |(now, before): (&IrqCounts, &IrqCounts)| {
        let same = now.number == before.number;
        let rate = span.rate_of(*before.counts.get(earlier)?, *now.counts.get(column)?, Width::Bits32)?;
        (same && rate > 0.0).then(|| (now.number.clone(), rate))
    };
    both.now.lines.iter().zip(&before.lines).filter_map(one).collect()
}

pub(crate) fn memory(lines: &[(String, u64)]) -> MemoryUse {
    let of = |name: &str| lines.iter().find(|(other, _)| other == name).map_or(0, |(_, bytes)| *bytes);
    let page = of("Hugepagesize");
    MemoryUse {
        total: of("MemTotal"),
        free: of("MemFree"),
        available: of("MemAvailable"),
        cached: of("Cached"),
        buffers: of("Buffers"),
        dirty: of("Dirty"),
        writeback: of("Writeback"),
        shared: of("Shmem"),
        slab: of("Slab"),
        swap_total: of("SwapTotal"),
        swap_free: of("SwapFree"),
        locked: of("Mlocked"),
        // Pages of the usual size; those of other sizes are in sysfs only.
        huge_total: of("HugePages_Total").saturating_mul(page),
        huge_free: of("HugePages_Free").saturating_mul(page),
        huge_transparent: of("AnonHugePages"),
        huge_page_bytes: page,
    }
}

pub(crate) fn pressure(before: Option<&KernelReading>, now: &KernelReading) -> Vec<Pressure> {
    let one = |(index, resource): (usize, &&str)| {
        let now = now.pressure.get(index)?.as_ref().ok()?;
        let before = before.and_then(|before| before.pressure.get(index)?.as_ref().ok());
        Some(of(resource, before, now))
    };
    RESOURCES.iter().enumerate().filter_map(one).collect()
}

fn of(
    resource: &str,
    before: Option<&TimedValue<PressureCounters>>,
    now: &TimedValue<PressureCounters>,
) -> Pressure {
    let span = before.and_then(|before| Elapsed::between(before.at, now.at));
    let share = |line: fn(&PressureCounters) -> Option<PressureLine>| {
        let (before, now) = (line(&before?.value)?, line(&now.value)?);
        let waited = span?.rate(before.total_us, now.total_us)? / 1e6;
        // The kernel adds up by CPU and now and then: a short interval may get more than it had.
        Some(rounded(waited.min(1.0)))
    };
    let (some, full) = (now.value.some, now.value.full);
    Pressure {
        resource: resource.to_string(),
        some_10s: some.map(|line| rounded(line.last_10s)),
        full_10s: full.map(|line| rounded(line.last_10s)),
        some_share: share(|counters| counters.some),
        full_share: share(|counters| counters.full),
        some_total_us: some.map(|line| line.total_us),
        full_total_us: full.map(|line| line.total_us),
    }
}

const UNCOUNTED: &str = "this kernel does not count what a process reads and writes: /proc/PID/io is not there; it takes \
                         one with CONFIG_TASK_IO_ACCOUNTING";

/// By source, as phrases. Nobody looked: nothing is missing.
pub(crate) fn unknown(processes: &Processes) -> impl Iterator<Item = (&'static str, String)> {
    let forbidden = processes.unreadable;
    let uncounted = processes.uncounted.then(|| ("storage by process", UNCOUNTED.to_string()));
    // What root may not read of a process nobody may: to say it would help nobody.
    let curable = forbidden > 0 && !processes.asked_by_root;
    let storage = processes.count.filter(|_| curable).map(|count| {
        let why = format!(
            "what {forbidden} of {count} processes read and write is for root alone (/proc/PID/io: permission \
             denied); run this as root, or with CAP_SYS_PTRACE"
        );
        ("storage by process", why)
    });
    let others = processes.others_are_hidden.then(|| {
        let why = "/proc lists the processes of this user only (hidepid, or ProtectProc of a service)";
        ("processes of others", why.to_string())
    });
    let looked = processes.count.is_some_and(|count| count > 0);
    let tcp = processes.connections.why().filter(|_| looked).map(|why| ("TCP by process", why.to_string()));
    uncounted.or(storage).into_iter().chain(others).chain(tcp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_counts_nothing_is_the_reason_and_not_the_user() {
        let processes = Processes { count: Some(9), unreadable: 3, ..Processes::default() };
        let reasons = |processes: &Processes| unknown(processes).collect::<Vec<_>>();
        assert!(
            reasons(&processes)[0].1.starts_with("what 3 of 9 processes read and write is for root alone")
        );
        let of_root = Processes { asked_by_root: true, ..processes.clone() };
        assert!(reasons(&of_root).iter().all(|(source, _)| *source != "storage by process"));
        let uncounted = reasons(&Processes { uncounted: true, ..processes });
        assert_eq!(uncounted[0], ("storage by process", UNCOUNTED.to_string()));
    }
}
