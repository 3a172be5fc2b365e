//! Memory and pressure.

use crate::kept::TimedValue;
use crate::model::{MemoryUse, Pressure};
use crate::sources::{KernelReading, RESOURCES};
use linerate_facts::counters::rates::{Elapsed, rounded};
use linerate_facts::counters::{PressureCounters, PressureLine};

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
