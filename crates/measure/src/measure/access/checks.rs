//! Whether a figure holds together: Little's law, the depth reached, the schedule kept, the generator's own
//! CPU, the page cache.

use super::conduct::AccessBench;
use super::figure::Watched;
use super::{AccessJob, AccessResult, Checks, Engine};
use linerate_model::verdict::thresholds::OWN_CPU_FULL;
use linerate_transport::flow::access::AccessOutcome;

/// Rate × latency may differ from the counted depth by this share: latencies include the warm-up, rates do
/// not.
const LITTLE: f64 = 0.25;
/// Less of the depth asked for than this means that the generator did not keep it up.
const REACHED: f64 = 0.8;
/// Of an open loop's schedule this much must be kept.
const OFFERED: f64 = 0.95;
/// Less of the bytes at the devices than this, and the page cache had a part in it.
const AT_DEVICES: f64 = 0.9;
/// A source that is read through in less than this may be answered by caches below O_DIRECT, seconds.
const SHORT_SECONDS: f64 = 0.5;

/// What the checks look at.
pub(crate) struct Facts<'a, 'b> {
    pub bench: &'a AccessBench<'b>,
    pub job: &'a AccessJob,
    pub watched: &'a Watched,
    pub outcomes: &'a [AccessOutcome],
}

/// The checks, and the flags that follow from them.
pub(crate) fn checks(facts: &Facts<'_, '_>, result: &AccessResult) -> (Checks, Vec<String>) {
    let mut checks = Checks {
        asked_depth: f64::from(facts.job.workers) * f64::from(facts.job.queue_depth),
        reached_depth: facts.outcomes.iter().map(|outcome| outcome.mean_depth).sum(),
        ..Checks::default()
    };
    let sides = result.reads.iter().chain(&result.writes);
    checks.little_depth = sides.map(|side| side.operations_per_second * side.latency.mean).sum();
    let cores = facts.bench.cores().len().max(1) as f64;
    let seen = &facts.watched.seen;
    checks.generator_cpu = if seen.seconds > 0.0 { seen.cpu_seconds / seen.seconds / cores } else { 0.0 };
    lateness(&mut checks, facts.outcomes);
    let paced = facts.job.requests_per_second.is_some() || facts.job.limit_bytes_per_second.is_some();
    let worked =
        !facts.outcomes.iter().all(|outcome| outcome.reads.operations + outcome.writes.operations == 0);
    if worked && facts.outcomes.iter().all(|outcome| outcome.errors.is_empty()) {
        depth(&mut checks, paced, facts.watched.timed);
        offered(&mut checks, facts.job, result);
    }
    if checks.generator_cpu >= OWN_CPU_FULL {
        checks.failed.push(format!(
            "linerate itself used {:.0} % of the processors' time: the figure is theirs, not the devices'",
            checks.generator_cpu * 100.0
        ));
    }
    let mut flags = Vec::new();
    if let Some(why) = page_cache(facts, result) {
        flags.push("page-cache".into());
        checks.failed.push(why);
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
    let mut all = linerate_transport::flow::access::Tally::new().latency;
    for outcome in outcomes {
        all += &outcome.lateness;
    }
    if !all.is_empty() {
        checks.lateness_p99 = all.value_at_quantile(0.99) as f64 * 1e-9;
        checks.lateness_maximum = all.max() as f64 * 1e-9;
    }
}

/// Only where requests follow each other at once: otherwise the depth is what the pace leaves.
fn depth(checks: &mut Checks, paced: bool, timed: bool) {
    if paced || !timed {
        return;
    }
    let Checks { little_depth, reached_depth, asked_depth, .. } = *checks;
    if (little_depth - reached_depth).abs() > LITTLE * reached_depth {
        checks.failed.push(format!(
            "rate × latency gives {little_depth:.1} requests in flight, counted were {reached_depth:.1}: the \
             workers were busy with something else, or rate and latencies are of different times"
        ));
    }
    if reached_depth < REACHED * asked_depth {
        checks
            .failed
            .push(format!("{reached_depth:.1} requests were in flight of the {asked_depth:.0} asked for"));
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

/// Why the page cache had a part in the figure; none: it had not.
fn page_cache(facts: &Facts<'_, '_>, result: &AccessResult) -> Option<String> {
    let rate = |side: &Option<super::SideResult>| side.as_ref().map_or(0.0, |side| side.bytes_per_second);
    let (reads, writes) = (rate(&result.reads), rate(&result.writes));
    let cached = !facts.job.direct || facts.job.engine == Engine::Mmap;
    if result.devices.is_empty() {
        let memory = facts.bench.machine.memory.total_bytes.known().copied().unwrap_or(u64::MAX);
        let fits = facts.watched.area_bytes < memory.saturating_mul(2);
        return (cached && fits).then(|| {
            "no block device is seen behind the sources, and they are smaller than twice the memory: the \
             page cache may have answered"
                .into()
        });
    }
    let read: f64 = result.devices.iter().map(|device| device.read_bytes_per_second).sum();
    let written: f64 = result.devices.iter().map(|device| device.written_bytes_per_second).sum();
    if reads > 0.0 && read < AT_DEVICES * reads {
        return Some(format!(
            "{:.0} % of the bytes read came from the devices: a cache above them answered the others; files \
             of twice the memory, no --buffered, or --drop-caches",
            100.0 * read / reads
        ));
    }
    if writes > 0.0 && written < AT_DEVICES * writes && cached {
        return Some(format!(
            "{:.0} % of the bytes written reached the devices in that time: the page cache holds the others; \
             --fsync waits for them",
            100.0 * written / writes
        ));
    }
    None
}
