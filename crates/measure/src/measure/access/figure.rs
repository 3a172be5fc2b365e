//! The figure of one job: what the workers and the devices did, joined to a `Measurement` with its
//! `AccessResult`; and the one figure of several visits of that job, taken at different times.

use super::bench::AccessBench;
use super::checks::{self, Facts};
use super::files::Prepared;
use super::worker_pool::{AccessObservation, WorkersEnd};
use super::{
    Access, AccessJob, AccessOrder, AccessResult, Engine, FileLayout, JobRound, Latency, SideResult,
    SyncResult, middle_mean,
};
use crate::measure::statistics::{median, spread};
use crate::measure::trust::{self, RateLimits};
use crate::measure::{Measurement, Stage};
use linerate_facts::units::show_size;
use linerate_facts::wording::counted;
use linerate_system::Errno;
use linerate_transport::flow::access::{AccessError, AccessOutcome, AccessTally, SyncTally};

/// Errors of one file that are listed.
const MOST_ERRORS: usize = 3;

/// All of it in one product.
pub(crate) fn measurement(
    bench: &AccessBench<'_>,
    job: &AccessJob,
    prepared: &Prepared,
    mut watched: AccessObservation,
    end: WorkersEnd,
) -> Measurement {
    let WorkersEnd { outcomes, errors: mut failed } = end;
    let (mut reads, mut writes, mut syncs): (AccessTally, AccessTally, SyncTally) = Default::default();
    for outcome in &outcomes {
        syncs.join(&outcome.syncs);
        reads.join(&outcome.reads);
        writes.join(&outcome.writes);
    }
    let (first_done, last_done) = done_rates(&watched, &outcomes, reads.bytes + writes.bytes);
    if !watched.timed && !outcomes.is_empty() {
        watched.windows.samples = vec![last_done];
    }
    let resource = resource(job, prepared);
    let mut measurement = Measurement::of(Stage::Disk, title(job), resource, &watched.windows);
    measurement.together = job.sources.len() > 1;
    measurement.method = method(job, &outcomes);
    failed.extend(error_lines(prepared, outcomes.iter().flat_map(|outcome| &outcome.errors)));
    let corrupt = error_lines(prepared, outcomes.iter().flat_map(|outcome| &outcome.corrupt));
    let burst = watched.burst.take();
    if let Some(burst) = &burst {
        // A mean of both would be neither; what lasts is what counts.
        measurement.bytes_per_second = burst.sustained_bytes_per_second;
    }
    let rate = measurement.bytes_per_second;
    let first_window = burst.as_ref().zip(job.seconds).map_or(0, |(burst, seconds)| {
        ((burst.seconds - bench.warm_up_seconds).max(0.0) / seconds).ceil() as usize
    });
    let mean_correction = middle_of_windows(&outcomes, first_window, [&reads, &writes]);
    let side = |tally: &AccessTally| {
        let mut side = side(tally, rate, reads.bytes + writes.bytes);
        side.latency.mean *= mean_correction;
        side
    };
    let mut result = AccessResult {
        reads: (reads.operations > 0).then(|| side(&reads)),
        syncs: (syncs.alone.operations > 0).then(|| sync_result(&syncs, &writes, side(&writes))),
        writes: (writes.operations > 0).then(|| side(&writes)),
        first_done_bytes_per_second: if watched.timed { rate } else { first_done },
        last_done_bytes_per_second: last_done,
        devices: std::mem::take(&mut watched.devices),
        burst,
        corrupt: job.verify.then_some(corrupt),
        errors: failed,
        ..AccessResult::of(job.clone())
    };
    let facts = Facts { bench, job, watched: &watched, outcomes: &outcomes };
    let (made, flags) = checks::checks(&facts, &result);
    result.checks = made;
    measurement.held_by =
        trust::held_by(&measurement, RateLimits { own: job.limit_bytes_per_second, receiver: None });
    measurement.lower_bound = measurement.held_by.is_some();
    measurement.flags = flags;
    if result.burst.is_some() {
        measurement.flags.push("burst".into());
    }
    trust::flag(&mut measurement, &watched.windows, &watched.cores);
    measurement.access = Some(Box::new(result));
    measurement
}

/// While all were still at work, and until the last had ended; bytes per second.
fn done_rates(watched: &AccessObservation, outcomes: &[AccessOutcome], bytes: u64) -> (f64, f64) {
    let started = outcomes.iter().map(|outcome| outcome.started_seconds).fold(f64::MAX, f64::min);
    let ended = outcomes.iter().map(|outcome| outcome.ended_seconds).fold(0.0, f64::max);
    let rate = |bytes: u64, until: f64| {
        if until > started { bytes as f64 / (until - started) } else { 0.0 }
    };
    let last = rate(bytes, ended);
    // If no worker was seen to end first, all ended together.
    let first = watched.first_done.map_or(last, |(at, bytes)| rate(bytes, at));
    (first, last)
}

/// Mean latency in the windows in the middle ÷ that of all requests: a rate is a median of windows, and only the
/// latency of the same windows goes with it.
fn middle_of_windows(outcomes: &[AccessOutcome], first: usize, sides: [&AccessTally; 2]) -> f64 {
    let count = outcomes.iter().map(|outcome| outcome.windows.len()).max().unwrap_or(0);
    let of_all = |window: usize| {
        outcomes
            .iter()
            .filter_map(move |outcome| outcome.windows.get(window))
            .fold((0, 0), |sum, answered| {
                (sum.0 + answered.operations, sum.1 + u128::from(answered.latency_nanos))
            })
    };
    let windows =
        (first.min(count.saturating_sub(1))..count).map(of_all).filter(|(operations, _)| *operations > 0);
    let middle = middle_mean(windows.map(|(operations, nanos)| nanos as f64 / operations as f64));
    let operations: u64 = sides.iter().map(|side| side.operations).sum();
    let nanos: f64 = sides.iter().map(|side| side.latency.mean() * side.operations as f64).sum();
    let mean = nanos / operations.max(1) as f64;
    if middle > 0.0 && mean > 0.0 { middle / mean } else { 1.0 }
}

fn side(tally: &AccessTally, bytes_per_second: f64, all_bytes: u64) -> SideResult {
    let share = tally.bytes as f64 / all_bytes.max(1) as f64;
    let own = bytes_per_second * share;
    let mean_bytes = tally.bytes as f64 / tally.operations.max(1) as f64;
    SideResult {
        operations: tally.operations,
        bytes: tally.bytes,
        operations_per_second: own / mean_bytes.max(1.0),
        bytes_per_second: own,
        latency: Latency::of(tally),
    }
}

/// Syncs go with the writes that they followed, whose rate is that of the windows.
fn sync_result(syncs: &SyncTally, writes: &AccessTally, side: SideResult) -> SyncResult {
    let SyncTally { alone, with_write } = syncs;
    SyncResult {
        operations: alone.operations,
        operations_per_second: side.operations_per_second * alone.operations as f64
            / writes.operations.max(1) as f64,
        latency: Latency::of(alone),
        with_write: Latency::of(with_write),
    }
}

/// The one resource that was used, or `all`.
fn resource(job: &AccessJob, prepared: &Prepared) -> String {
    let used = job.sources.len().min(job.workers as usize);
    let targets = (0..used).filter_map(|source| prepared.target_of(job, source).ok());
    let mut names: Vec<String> = targets.map(|target| prepared.resource(target)).collect();
    names.sort();
    names.dedup();
    if let [one] = &names[..] { one.clone() } else { "all".into() }
}

/// `sequential read, 1 MiB × 16, 4 workers`.
pub fn title(job: &AccessJob) -> String {
    let order = match job.order {
        AccessOrder::Sequential => "sequential".to_string(),
        AccessOrder::Random => "random".to_string(),
        AccessOrder::Zipf { theta } => format!("zipf {theta}"),
        AccessOrder::Hot { share, hits } => format!("hot {share}:{hits}"),
    };
    let access = match job.access {
        Access::Read => "read".to_string(),
        Access::Write => "write".to_string(),
        Access::Mixed { read_share } => format!("mixed {:.0} % read", read_share * 100.0),
    };
    let workers = counted(job.workers, "worker");
    let layout = match job.layout {
        FileLayout::FilePerWorker => "",
        FileLayout::Segmented => ", segmented",
        FileLayout::Strided => ", strided",
    };
    let engine = match job.engine {
        Engine::IoUring => "",
        Engine::Psync => ", psync",
        Engine::Mmap => ", mmap",
    };
    let cache = if job.direct || job.engine == Engine::Mmap { "" } else { ", buffered" };
    let size = show_transfer(job);
    let sync = job.sync.map_or_else(String::new, |sync| format!(", {sync}"));
    format!("{order} {access}, {size} × {}, {workers}{layout}{engine}{cache}{sync}", job.queue_depth)
}

/// Bytes a request: exact bytes when not a multiple of 512, as records of a log are.
pub fn show_transfer(job: &AccessJob) -> String {
    match job.transfer_bytes {
        bytes if bytes.is_multiple_of(512) => show_size(bytes),
        bytes => format!("{bytes} B"),
    }
}

fn method(job: &AccessJob, outcomes: &[AccessOutcome]) -> String {
    let engine = outcomes.first().map_or("no worker started", |outcome| outcome.method.as_str());
    let cache = match (job.engine, job.direct) {
        (Engine::Mmap, _) => "mapped",
        (_, true) => "O_DIRECT",
        (_, false) => "buffered",
    };
    let flush = if job.fsync && job.writes() { ", fsync" } else { "" };
    let sync = job.sync.map_or_else(String::new, |sync| format!(", {sync}"));
    format!("{engine}, {cache}{sync}{flush}")
}

/// Errors with the device in front: of one file the first few, and how many more.
fn error_lines<'a>(prepared: &Prepared, errors: impl Iterator<Item = &'a AccessError>) -> Vec<String> {
    let mut by_label: Vec<(&str, Vec<&AccessError>)> = Vec::new();
    for error in errors {
        match by_label.iter_mut().find(|(label, _)| *label == error.label) {
            Some((_, known)) => known.push(error),
            None => by_label.push((&error.label, vec![error])),
        }
    }
    let mut lines = Vec::new();
    for (label, errors) in by_label {
        let device = prepared.device_of(label);
        lines.extend(
            errors.iter().take(MOST_ERRORS).map(|error| {
                format!("{device}: {label} at offset {}: {}", error.offset, explain_error(error))
            }),
        );
        if errors.len() > MOST_ERRORS {
            lines.push(format!("{device}: {label}: and {} more", errors.len() - MOST_ERRORS));
        }
    }
    lines
}

/// What the kernel said, with what it mostly means.
fn explain_error(error: &AccessError) -> String {
    let why = &error.why;
    let meaning = match error.errno {
        Some(Errno::NOSPC) => "the disk became full; make room, or fewer --workers, a smaller --block",
        Some(Errno::IO) => "the device or what lies below it is damaged or full; see dmesg",
        Some(Errno::ROFS) => "the file system went read-only; see dmesg",
        _ => return why.clone(),
    };
    format!("{why}: {meaning}")
}

/// The median of the visits with all samples. What has no median (latencies, devices, CPU) is that of the
/// visit in the middle; flags and errors are those of all. `None` without a visit.
pub fn merged(visits: &[Measurement]) -> Option<Measurement> {
    let mut order: Vec<&Measurement> = visits.iter().collect();
    order.sort_by(|a, b| a.bytes_per_second.total_cmp(&b.bytes_per_second));
    // Of an even number the upper one: of two visits one may have seen nothing at all.
    let mut whole = (*order.get(order.len() / 2)?).clone();
    let rates: Vec<f64> = visits.iter().map(|visit| visit.bytes_per_second).collect();
    let of_the_middle = whole.bytes_per_second;
    whole.bytes_per_second = median(&rates);
    whole.samples = visits.iter().flat_map(|visit| visit.samples.iter().copied()).collect();
    whole.spread = spread(&whole.samples);
    whole.seconds = visits.iter().map(|visit| visit.seconds).sum();
    for flag in visits.iter().flat_map(|visit| &visit.flags) {
        if !whole.flags.contains(flag) {
            whole.flags.push(flag.clone());
        }
    }
    if whole.spread > trust::SPREAD && !whole.flags.iter().any(|flag| flag == "spread") {
        whole.flags.push("spread".into());
    }
    whole.lower_bound = visits.iter().any(|visit| visit.lower_bound);
    whole.held_by = whole.held_by.or_else(|| visits.iter().find_map(|visit| visit.held_by));
    let ratio = if of_the_middle > 0.0 { whole.bytes_per_second / of_the_middle } else { 1.0 };
    join_access(&mut whole, visits, ratio);
    Some(whole)
}

fn join_access(whole: &mut Measurement, visits: &[Measurement], ratio: f64) {
    let Some(access) = &mut whole.access else { return };
    let scale = |side: &mut SideResult| {
        side.bytes_per_second *= ratio;
        side.operations_per_second *= ratio;
    };
    access.reads.as_mut().map(scale);
    access.writes.as_mut().map(scale);
    access.syncs.iter_mut().for_each(|syncs| syncs.operations_per_second *= ratio);
    for other in visits.iter().filter_map(|visit| visit.access.as_ref()) {
        join(&mut access.errors, &other.errors);
        if let (Some(known), Some(new)) = (&mut access.corrupt, &other.corrupt) {
            join(known, new);
        }
    }
    let side_means = |side: fn(&AccessResult) -> &Option<SideResult>| {
        let sides = visits.iter().filter_map(move |visit| side(visit.access.as_ref()?).as_ref());
        middle_mean(sides.map(|side| side.latency.mean))
    };
    if let Some(side) = &mut access.reads {
        side.latency.mean = side_means(|access| &access.reads);
    }
    if let Some(side) = &mut access.writes {
        side.latency.mean = side_means(|access| &access.writes);
    }
    access.checks.little_depth = access.little_depth();
    access.visits = visits.iter().flat_map(rounds_of).collect();
    // A bucket is full at the first visit only.
    access.burst = visits.iter().find_map(|visit| visit.access.as_ref()?.burst.clone());
}

/// What each visit told by itself; one that was merged before has those of its own.
fn rounds_of(visit: &Measurement) -> Vec<JobRound> {
    let Some(access) = &visit.access else { return Vec::new() };
    if !access.visits.is_empty() {
        return access.visits.clone();
    }
    let sides = access.reads.iter().chain(&access.writes).map(|side| &side.latency);
    let Some(slower) = sides.max_by(|one, other| one.p99.total_cmp(&other.p99)) else { return Vec::new() };
    vec![JobRound {
        p50_seconds: slower.p50,
        p99_seconds: slower.p99,
        cpu_seconds_per_gb: visit.cpu_seconds_per_gb,
    }]
}

fn join(known: &mut Vec<String>, new: &[String]) {
    for text in new {
        if !known.contains(text) {
            known.push(text.clone());
        }
    }
}
