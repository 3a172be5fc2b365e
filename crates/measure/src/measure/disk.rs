//! The disk stage: each source alone, and all together, read as the path reads them, into nothing.

use super::access::{Burst, SHORT_WINDOW_SECONDS, Series, burst};
use super::product::{Measurement, Stage, WorkerResult};
use super::read_again::{PAGE_CACHE, READ_AGAIN, READ_AMPLIFICATION, ReadPass, ReadPosition};
use super::running::{RunningWorkers, worker_results};
use super::window::{OwnMeter, WindowObservation, WindowSpec};
use super::{PATIENCE, Stages};
use linerate_facts::units::show_size;
use linerate_model::plan::schedule::alone_disks;
use linerate_model::plan::{SourcePlan, WorkerPlan, spare_blocks};
use linerate_system::file;
use linerate_transport::flow::source::{Cursor, Source};
use linerate_transport::flow::start::{Destination, WorkerStart};
use std::sync::Arc;
use std::time::Duration;

/// A stage in which no CPU looks at what was read.
pub(crate) const UNREAD: &str = "unread";
/// Devices that read less than this share of the bytes: a cache has the rest.
const FROM_DEVICES: f64 = 0.9;
/// Devices that read more than this share of the bytes: requests smaller than the device's blocks, or read ahead.
const MORE_FROM_DEVICES: f64 = 1.1;
/// A file of which the page cache keeps more than this share though it was dropped.
const CACHED_SHARE: f64 = 0.05;
/// A window in which less comes than this many times what is in flight says little of a device.
const TIMES_IN_FLIGHT: u64 = 2;
/// No window of a device alone is longer.
const LONGEST_ALONE: Duration = Duration::from_millis(400);

/// Sources that are read at once.
#[derive(Debug)]
pub(super) struct Readers {
    pub name: String,
    sources: Vec<usize>,
    /// What was read is read by the CPU, as a send does.
    reads: bool,
}

impl Readers {
    /// All of them; none where there is no source.
    pub(super) fn all(stages: &Stages<'_>) -> Option<Self> {
        let sources = &stages.plan.sources;
        let name = match several(sources) {
            true => "all disks".to_string(),
            false => stages.short_name(&sources.first()?.resource),
        };
        Some(Readers { name, sources: (0..sources.len()).collect(), reads: true })
    }
}

/// What was seen of them, with what is needed to describe it.
#[derive(Debug)]
pub(super) struct DiskObservation {
    pub windows: WindowObservation,
    engine: String,
    flags: Vec<String>,
    threads: Vec<ReadingThread>,
    /// Of each source, one for each observation.
    passes: Vec<Vec<ReadPass>>,
    /// Of short windows, bytes per second.
    rates: Vec<f64>,
}

/// A thread that reads a source.
#[derive(Clone, Copy, Debug)]
struct ReadingThread {
    source: usize,
    core: Option<u32>,
    /// Reads in flight.
    reads: u32,
}

impl DiskObservation {
    /// With a later one.
    pub(super) fn join(&mut self, later: DiskObservation) {
        self.windows.join(later.windows);
        self.rates.extend(later.rates);
        self.passes.iter_mut().zip(later.passes).for_each(|(passes, later)| passes.extend(later));
        for flag in later.flags {
            if !self.flags.contains(&flag) {
                self.flags.push(flag);
            }
        }
    }

    /// The disks were read fast at first, and slower from then on.
    fn burst(&self) -> Option<Burst> {
        burst(&self.rates, SHORT_WINDOW_SECONDS)
    }
}

/// Files on one device are one device.
fn several(sources: &[SourcePlan]) -> bool {
    sources.iter().any(|source| source.resource != sources[0].resource)
}

/// Measures every device alone, where there are several (as many as the schedule allows), and all together
/// without looking at what was read: how fast the devices are where the memory or its caches limit the rounds.
pub(crate) fn measure_alone(stages: &mut Stages<'_>) {
    let schedule = stages.plan.schedule;
    let sources = &stages.plan.sources;
    let windows = WindowSpec {
        warm_up: Duration::from_secs_f64(schedule.warm_up_seconds),
        window: Duration::from_secs_f64(schedule.alone_seconds),
        repeats: schedule.repeats.max(1),
    };
    let alone = alone_disks(stages.plan).into_iter().filter(|_| several(sources));
    let mut all: Vec<Readers> = Vec::new();
    for resource in alone {
        let own = (0..sources.len()).filter(|index| sources[*index].resource == resource).collect();
        let name = format!("{} alone", stages.short_name(&resource));
        all.push(Readers { name, sources: own, reads: true });
    }
    let unread = |all: Readers| Readers { name: format!("{}, {UNREAD}", all.name), reads: false, ..all };
    all.extend(Readers::all(stages).map(unread));
    for readers in all {
        if !stages.has_time_for(windows) {
            stages.leave_out(&format!("disk {}", readers.name));
            continue;
        }
        stages.started(Stage::Disk, &readers.name, windows);
        let mut observed = observe(stages, &readers, windows);
        if let Some(longer) =
            observed.as_ref().ok().and_then(|watched| longer_windows(stages, &readers, watched, windows))
        {
            observed = observe(stages, &readers, longer);
        }
        match observed {
            Ok(watched) => stages.measured(describe(stages, &readers, &watched)),
            Err(why) => stages.failed(format!("disk: {why}")),
        }
        if stages.stopped() {
            return;
        }
    }
}

/// Longer windows, where hardly anything came in these: a limit that is enforced in slices (blk-throttle, the
/// volumes of clouds: 100 ms) lets nothing through in a shorter window.
fn longer_windows(
    stages: &Stages<'_>,
    readers: &Readers,
    observed: &DiskObservation,
    windows: WindowSpec,
) -> Option<WindowSpec> {
    let in_flight = |source: &usize| {
        let block = stages.plan.sources[*source].block_bytes;
        u64::from(stages.reads_of_source(*source)).saturating_mul(block)
    };
    let wanted =
        readers.sources.iter().map(in_flight).fold(0, u64::saturating_add).saturating_mul(TIMES_IN_FLIGHT);
    let window =
        longer_window(&observed.windows, windows.window, wanted).filter(|_| !observed.windows.cut_short)?;
    Some(WindowSpec { window, ..windows })
}

/// The window in which `wanted` bytes come at the rate that was seen; none where they came.
fn longer_window(observation: &WindowObservation, window: Duration, wanted: u64) -> Option<Duration> {
    let samples = observation.samples.len().max(1) as f64;
    let short = observation.bytes as f64 / samples < wanted as f64;
    let rate = observation.bytes as f64 / observation.host.seconds.max(1e-9);
    let needed = Duration::try_from_secs_f64(wanted as f64 / rate.max(1.0)).unwrap_or(LONGEST_ALONE);
    short.then(|| needed.min(LONGEST_ALONE)).filter(|longer| *longer > window)
}

/// Those that read these sources on the path, each with its core and its reads in flight; one for a source that
/// no worker has.
fn threads(stages: &Stages<'_>, sources: &[usize]) -> Vec<ReadingThread> {
    let of = |(position, source): (usize, &usize)| {
        let workers = stages.path_workers().iter().filter(|worker| worker.source == *source);
        let thread = |worker: &WorkerPlan| (Some(worker.core), stages.reads_of(worker));
        let mut threads: Vec<_> = workers.map(thread).collect();
        if threads.is_empty() {
            threads.push((stages.core_for(position), stages.plan.sources[*source].queue_depth));
        }
        let source = *source;
        threads.into_iter().map(move |(core, reads)| ReadingThread { source, core, reads })
    };
    sources.iter().enumerate().flat_map(of).collect()
}

/// Reads them for some windows, as the path does: the same threads, with as many blocks.
pub(super) fn observe(
    stages: &mut Stages<'_>,
    readers: &Readers,
    windows: WindowSpec,
) -> Result<DiskObservation, String> {
    let sources = &readers.sources;
    let mut running = RunningWorkers::new(stages.stop, stages.goal.idle);
    let rate_limit = stages.rate_limit();
    let mut flags = Vec::new();
    let threads = threads(stages, sources);
    let begins: Vec<ReadPosition> =
        sources.iter().map(|source| ReadPosition::now(&stages.reading[*source].cursor)).collect();
    for thread in &threads {
        let plan = &stages.plan.sources[thread.source];
        let source = open_with(plan, &mut flags, &stages.reading[thread.source].cursor)?;
        let worker = WorkerStart {
            core: thread.core,
            source,
            destination: Destination::Null { reads: readers.reads },
            block_bytes: plan.block_bytes as usize,
            depth: thread.reads as usize,
            extra_blocks: spare_blocks(thread.reads) as usize,
            verify: false,
            patience: PATIENCE,
            zero_copy: false,
            rate_limit: rate_limit.clone(),
            io_uring: stages.io_uring,
        };
        running.start(worker).map_err(|error| format!("{}: {error}", plan.path.display()))?;
    }
    let engine = running.method();
    let mut meter = OwnMeter(running.counters.clone());
    let mut series = Series::new();
    let Ok(watched) = stages.watch(&running, &mut meter, windows, Stage::Disk, &mut series);
    let read: Vec<usize> = threads.iter().map(|thread| thread.source).collect();
    stages.was_read(&read, &running);
    for (position, error) in running.finish() {
        stages.failed(format!("disk {}: {error}", stages.plan.sources[read[position]].resource));
    }
    let rate = |source: usize| -> f64 {
        let own = threads.iter().zip(&watched.workers).filter(|(thread, _)| thread.source == source);
        own.map(|(_, worker)| worker.bytes_per_second).sum()
    };
    let passes = sources
        .iter()
        .zip(begins)
        .map(|(source, begin)| vec![stages.reading[*source].pass_ended(begin, rate(*source))]);
    let passes = passes.collect();
    Ok(DiskObservation { windows: watched, engine, flags, threads, passes, rates: series.rates() })
}

/// The figure.
pub(super) fn describe(stages: &Stages<'_>, readers: &Readers, observed: &DiskObservation) -> Measurement {
    let DiskObservation { windows: watched, engine, flags, threads, .. } = observed;
    let sources = &readers.sources;
    let mut resources: Vec<&str> =
        sources.iter().map(|index| stages.plan.sources[*index].resource.as_str()).collect();
    resources.dedup();
    let resource = if let [one] = resources[..] { one.to_string() } else { "all".to_string() };
    let mut measurement = Measurement::of(Stage::Disk, readers.name.clone(), resource, watched);
    stages.part_members(&mut measurement);
    measurement.together = sources.len() == stages.plan.sources.len();
    measurement.workers =
        worker_results(watched, |at| (stages.plan.sources[threads[at].source].resource.clone(), None));
    let first = &stages.plan.sources[sources[0]];
    measurement.method = format!(
        "sequential reads, {}, {} × {}, {engine}",
        if first.direct { "O_DIRECT" } else { "buffered (no O_DIRECT here)" },
        show_size(first.block_bytes),
        stages.reads_of_source(sources[0]),
    );
    for (worker, thread) in measurement.workers.iter_mut().zip(threads) {
        (worker.queue_depth, worker.core) = (thread.reads, thread.core);
        worker.block_bytes = stages.plan.sources[thread.source].block_bytes;
    }
    if let Some(burst) = observed.burst() {
        measurement.set_burst(burst);
    }
    measurement.not_seen = stages.not_seen(&measurement);
    measurement.held_by = super::trust::held_by(&measurement, stages.rate_limits(None));
    measurement.lower_bound = measurement.held_by.is_some();
    measurement.flags.extend(flags.iter().cloned());
    if !readers.reads {
        measurement.flags.push(UNREAD.into());
    }
    if let Some(share) = from_devices(&measurement, watched) {
        if share < FROM_DEVICES {
            measurement.flags.push(PAGE_CACHE.into());
        } else if share > MORE_FROM_DEVICES {
            measurement.flags.push(READ_AMPLIFICATION.into());
        }
    }
    let read_again = sources.iter().zip(&observed.passes).map(|(index, passes)| {
        stages.reading[*index].read_again(&stages.plan.sources[*index].resource, passes)
    });
    measurement.read_again = read_again.filter(|read_again| read_again.bytes > 0).collect();
    if !measurement.read_again.is_empty() && measurement.distrust().is_some() {
        measurement.flags.push(READ_AGAIN.into());
    }
    let cores: Vec<u32> = threads.iter().filter_map(|thread| thread.core).collect();
    super::trust::flag(&mut measurement, watched, &cores);
    measurement
}

/// Bytes that the devices read ÷ bytes that were read; none where one of them has no counters. A cache below
/// O_DIRECT (compression, ZFS, a RAID card) shows only so.
fn from_devices(figure: &Measurement, observation: &WindowObservation) -> Option<f64> {
    let counted = |worker: &WorkerResult| {
        figure.devices.iter().any(|device| worker.source.strip_prefix("disk:") == Some(&device.name))
    };
    let read: f64 = figure.devices.iter().map(|device| device.read_bytes_per_second).sum();
    let all = !figure.workers.is_empty() && figure.workers.iter().all(counted);
    let asked = observation.bytes as f64 / observation.host.seconds.max(1e-9);
    (all && asked > 0.0).then(|| read / asked)
}

/// Opens a source as its plan says, for a worker that shares the cursor.
pub(crate) fn open_with(
    plan: &SourcePlan,
    flags: &mut Vec<String>,
    cursor: &Arc<Cursor>,
) -> Result<Source, String> {
    tracing::debug!(path = ?plan.path, direct = plan.direct, "source opened");
    let opened = file::open_to_read(&plan.path, plan.direct)
        .map_err(|error| format!("{}: {error}", plan.path.display()))?;
    if !plan.direct {
        // Without O_DIRECT the page cache answers: drop what it holds of this file, and say so if it stays.
        let _ = file::drop_pages(&opened);
        let cached = file::cached_share(&opened, plan.length_bytes).unwrap_or(0.0);
        if cached > CACHED_SHARE && !flags.iter().any(|flag| flag == PAGE_CACHE) {
            flags.push(PAGE_CACHE.into());
        }
    }
    Ok(Source::File { file: opened, cursor: Arc::clone(cursor), label: plan.path.display().to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_facts::host::HostUse;

    const WINDOW: Duration = Duration::from_millis(60);

    fn longer(bytes: u64, wanted: u64) -> Option<Duration> {
        longer_window(&seen(bytes, 0.18), WINDOW, wanted)
    }

    fn seen(bytes: u64, seconds: f64) -> WindowObservation {
        let host = HostUse { seconds, ..HostUse::default() };
        WindowObservation { bytes, host, samples: vec![0.0; 3], ..WindowObservation::default() }
    }

    #[test]
    fn a_slow_device_gets_a_longer_window_and_a_fast_one_none() {
        // 50 MB/s: 9 MB in three windows, 8 MB wanted in each.
        assert_eq!(longer(9_000_000, 8_000_000), Some(Duration::from_millis(160)));
        assert_eq!(longer(24_000_000, 8_000_000), None);
        assert_eq!(longer(9_000_000, 1_000_000), None);
        // Nothing at all, and a device of 1 MB/s: no longer than the longest.
        assert_eq!(longer(0, 8_000_000), Some(LONGEST_ALONE));
        assert_eq!(longer(180_000, 8_000_000), Some(LONGEST_ALONE));
    }

    #[test]
    fn a_window_that_is_long_already_stays() {
        assert_eq!(longer_window(&seen(0, 3.0), Duration::from_secs(1), 1 << 20), None);
    }
}
