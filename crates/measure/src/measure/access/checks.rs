//! Whether a figure holds together: Little's law, the depth reached, the schedule kept, the generator's own
//! CPU, the page cache.

use super::bench::AccessBench;
use super::worker_pool::AccessObservation;
use super::{AccessJob, AccessResult, Checks, Engine};
use crate::measure::PAGE_CACHE;
use linerate_model::verdict::thresholds::OWN_CPU_FULL;
use linerate_transport::flow::access::AccessOutcome;

/// Rate × latency may differ from the requests that were counted by this share …
const LITTLE: f64 = 0.05;
/// … and where each user was answered less often than this, by this share: what began before the first window and what
/// ended after the last is not little.
const OFTEN: f64 = 40.0;
const LITTLE_OF_FEW: f64 = 0.25;
/// Of an open loop's schedule this much must be kept.
const OFFERED: f64 = 0.95;
/// Less of the bytes at the devices than this, and the page cache had a part in it.
const AT_DEVICES: f64 = 0.9;
/// With O_DIRECT: less than this of what was read.
const BELOW_DIRECT: f64 = 0.5;
/// A source that is read through in less than this may be answered by caches below O_DIRECT, seconds.
const SHORT_SECONDS: f64 = 0.5;

/// What the checks look at.
pub(crate) struct Facts<'a, 'b> {
    pub bench: &'a AccessBench<'b>,
    pub job: &'a AccessJob,
    pub watched: &'a AccessObservation,
    pub outcomes: &'a [AccessOutcome],
}

/// The checks, and the flags that follow from them.
pub(crate) fn checks(facts: &Facts<'_, '_>, result: &AccessResult) -> (Checks, Vec<String>) {
    let mut checks = Checks {
        asked_depth: f64::from(facts.job.workers) * f64::from(facts.job.queue_depth),
        reached_depth: facts.outcomes.iter().map(|outcome| outcome.mean_depth).sum(),
        waiting_depth: facts.outcomes.iter().map(|outcome| outcome.mean_waiting).sum(),
        little_depth: result.little_depth(),
        ..Checks::default()
    };
    let sides = || result.reads.iter().chain(&result.writes);
    let rate: f64 = sides().map(|side| side.operations_per_second).sum();
    checks.wait_seconds = if rate > 0.0 { checks.waiting_depth / rate } else { 0.0 };
    let cores = facts.bench.machine.cpu.usable().len().max(1) as f64;
    let host = &facts.watched.windows.host;
    checks.generator_cpu = if host.seconds > 0.0 { host.cpu_seconds / host.seconds / cores } else { 0.0 };
    lateness(&mut checks, facts.outcomes);
    let paced = facts.job.requests_per_second.is_some() || facts.job.limit_bytes_per_second.is_some();
    let worked =
        !facts.outcomes.iter().all(|outcome| outcome.reads.operations + outcome.writes.operations == 0);
    if worked && facts.outcomes.iter().all(|outcome| outcome.errors.is_empty()) {
        let answers = sides().map(|side| side.operations).sum::<u64>() as f64 / checks.asked_depth.max(1.0);
        depth(&mut checks, paced, facts.watched.timed, answers);
        offered(&mut checks, facts.job, result);
    }
    if checks.generator_cpu >= OWN_CPU_FULL {
        checks.failed.push(format!(
            "linerate itself used {:.0} % of the processors' time: the figure is theirs, not the devices'",
            checks.generator_cpu * 100.0
        ));
    }
    let mut flags = Vec::new();
    let memory = facts.bench.machine.memory.total_bytes.known().copied();
    if let Some(why) = page_cache(facts.job, facts.watched.area_bytes, memory, result) {
        flags.push(PAGE_CACHE.into());
        checks.failed.push(why);
    }
    if facts.job.sync.is_some() && facts.watched.in_memory {
        flags.push("in-memory".into());
        checks.failed.push(
            "the files are in memory (tmpfs), where a sync brings nothing to a disk; name a directory on one"
                .into(),
        );
    }
    let rate = result.last_done_bytes_per_second;
    let read_through = facts.watched.area_bytes as f64 / rate.max(1.0);
    let short = facts.watched.timed && facts.job.reads() && read_through < SHORT_SECONDS;
    if short || facts.watched.area_bytes < facts.watched.asked_bytes && !facts.watched.timed {
        flags.push("short-file".into());
    }
    (checks, flags)
}

fn lateness(checks: &mut Checks, outcomes: &[AccessOutcome]) {
    let mut all = linerate_transport::flow::access::AccessTally::default().latency;
    for outcome in outcomes {
        all += &outcome.lateness;
    }
    if !all.is_empty() {
        checks.lateness_p99 = all.value_at_quantile(0.99) as f64 * 1e-9;
        checks.lateness_maximum = all.max() as f64 * 1e-9;
    }
}

/// Only where requests follow each other at once: otherwise the depth is what the pace leaves.
fn depth(checks: &mut Checks, paced: bool, timed: bool, answers_of_a_user: f64) {
    if paced || !timed {
        return;
    }
    let Checks { little_depth, reached_depth, waiting_depth, asked_depth, .. } = *checks;
    let counted = reached_depth + waiting_depth;
    let tolerated = if answers_of_a_user < OFTEN { LITTLE_OF_FEW } else { LITTLE };
    if (little_depth - counted).abs() > tolerated * counted {
        checks.failed.push(format!(
            "rate × latency gives {little_depth:.1} requests under way, counted were {counted:.1}: the workers were \
             busy with something else, or the rate changed within a window"
        ));
    }
    if !checks.depth_is_reached() {
        let waited = match checks.wait_seconds * 1e3 {
            ms if waiting_depth >= 1.0 => {
                format!("; {waiting_depth:.1} waited for the queue, {ms:.3} ms each")
            }
            _ => String::new(),
        };
        checks.failed.push(format!(
            "{reached_depth:.1} requests were in flight of the {asked_depth:.0} asked for{waited}"
        ));
    }
}

fn offered(checks: &mut Checks, job: &AccessJob, result: &AccessResult) {
    let Some(offered) = job.requests_per_second else { return };
    let sides = result.reads.iter().chain(&result.writes);
    let done: f64 = sides.map(|side| side.operations_per_second).sum();
    if done < OFFERED * offered {
        checks.failed.push(format!(
            "{done:.0} requests a second were done of the {offered:.0} offered: more than the devices take"
        ));
    }
}

/// Why a cache had a part in the figure; none: it had not. The page cache answers nothing that passes it by; what
/// lies below O_DIRECT (compression, ZFS, a RAID card) shows only where devices read far less: a short time and a
/// deep queue alone make the counters of devices and workers part ways.
fn page_cache(
    job: &AccessJob,
    area_bytes: u64,
    memory_bytes: Option<u64>,
    result: &AccessResult,
) -> Option<String> {
    let cached = !job.direct || job.engine == Engine::Mmap;
    // Each write was seen to be on the device.
    if job.sync.is_some() && !job.reads() {
        return None;
    }
    let rate = |side: &Option<super::SideResult>| side.as_ref().map_or(0.0, |side| side.bytes_per_second);
    let (reads, writes) = (rate(&result.reads), rate(&result.writes));
    if result.devices.is_empty() && !cached {
        return None;
    }
    if result.devices.is_empty() {
        let fits = memory_bytes.is_none_or(|memory| area_bytes < memory.saturating_mul(2));
        return fits.then(|| {
            "no block device is seen behind the sources, and they are smaller than twice the memory: the \
             page cache may have answered"
                .into()
        });
    }
    let read: f64 = result.devices.iter().map(|device| device.read_bytes_per_second).sum();
    let written: f64 = result.devices.iter().map(|device| device.written_bytes_per_second).sum();
    let (least, what) = match cached {
        true => (AT_DEVICES, "the page cache"),
        false => (BELOW_DIRECT, "compression or a cache below O_DIRECT"),
    };
    if reads > 0.0 && read < least * reads {
        let share = 100.0 * read / reads;
        return Some(format!(
            "{share:.0} % of the bytes read came from the devices: {what} answered the others"
        ));
    }
    if cached && writes > 0.0 && written < AT_DEVICES * writes {
        return Some(format!(
            "{:.0} % of the bytes written reached the devices in that time: the page cache holds the others",
            100.0 * written / writes
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::parts::tests::job;
    use super::super::{Access, DeviceUse, FileLayout, SideResult};
    use super::*;

    fn plain() -> AccessJob {
        job(1, 1, FileLayout::Segmented)
    }

    /// Half of the bytes are seen at the device.
    fn result() -> AccessResult {
        let side = || Some(SideResult { bytes_per_second: 100e6, ..SideResult::default() });
        let device =
            DeviceUse { read_bytes_per_second: 50e6, written_bytes_per_second: 50e6, ..DeviceUse::default() };
        AccessResult {
            reads: side(),
            writes: side(),
            first_done_bytes_per_second: 200e6,
            last_done_bytes_per_second: 200e6,
            devices: vec![device],
            ..AccessResult::of(plain())
        }
    }

    #[test]
    fn the_page_cache_answers_nothing_that_passes_it_by() {
        let note_of = |direct, engine, result: &AccessResult| {
            page_cache(&AccessJob { direct, engine, ..plain() }, 1 << 20, None, result)
        };
        let none = AccessResult { devices: Vec::new(), ..result() };
        for result in [result(), none] {
            assert_eq!(note_of(true, Engine::IoUring, &result), None);
            assert_eq!(note_of(true, Engine::Psync, &result), None);
            assert!(note_of(false, Engine::IoUring, &result).is_some());
            assert!(
                note_of(true, Engine::Mmap, &result).is_some(),
                "memory that is mapped is the page cache"
            );
        }
        let mut compressed = result();
        compressed.devices[0].read_bytes_per_second = 10e6;
        let why = note_of(true, Engine::IoUring, &compressed).expect("compression");
        assert!(why.starts_with("10 % of the bytes read") && why.contains("below O_DIRECT"), "{why}");
        let whole = AccessResult { reads: None, ..result() };
        let writes = AccessJob { access: Access::Write, ..plain() };
        let why = page_cache(&writes, 1 << 20, None, &whole).expect("buffered writes");
        assert!(why.starts_with("50 % of the bytes written"), "{why}");
    }
}
