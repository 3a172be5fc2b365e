//! Runs one job on prepared sources: workers, a warm-up, windows; or each worker's part once. The figure with
//! all that belongs to it.

use super::AccessJob;
use super::bench::AccessBench;
use super::figure::measurement;
use super::files::Prepared;
use super::meter::{AccessObservation, WorkerMeter};
use super::pinning;
use super::series::Series;
use super::worker_pool::{POLL_INTERVAL, WorkerPool};
use crate::event::{Event, Listener};
use crate::measure::window::{RateGlance, Watch, WindowObservation, WindowSpec};
use crate::measure::{Measurement, Stage};
use linerate_facts::failure::Failure;
use linerate_facts::host::HostSampler;
use linerate_system::clock;
use std::time::Duration;

/// Settling time before the first window, seconds.
pub use linerate_model::plan::schedule::WARM_UP_SECONDS;

/// Runs the job. What failed on the way is in the measurement's `access.errors`; a `Failure` means that there
/// is no figure at all.
pub fn conduct(
    bench: &mut AccessBench<'_>,
    job: &AccessJob,
    prepared: &Prepared,
) -> Result<Measurement, Failure> {
    if job.sync.is_some() {
        // A writer that waits for its sync sleeps most of the time, and wakes where there is room: as databases do.
        return conduct_unpinned(bench, job, prepared);
    }
    let trial = pinning::trial(bench, job, prepared)?;
    let pinned = trial.as_ref().is_none_or(|trial| trial.pinned);
    let mut measured = placed(bench, job, prepared, pinned)?;
    if !pinned {
        measured.flags.push("not-pinned".into());
    }
    measured.access.iter_mut().for_each(|access| access.pinning.clone_from(&trial));
    Ok(measured)
}

/// The same with workers that the kernel places.
pub(crate) fn conduct_unpinned(
    bench: &mut AccessBench<'_>,
    job: &AccessJob,
    prepared: &Prepared,
) -> Result<Measurement, Failure> {
    placed(bench, job, prepared, false)
}

fn placed(
    bench: &mut AccessBench<'_>,
    job: &AccessJob,
    prepared: &Prepared,
    pinned: bool,
) -> Result<Measurement, Failure> {
    let devices = prepared.devices_of(job);
    let pool = WorkerPool::start(bench, job, prepared, pinned)?;
    let expected =
        job.seconds.map_or(0.0, |seconds| bench.warm_up_seconds + seconds * f64::from(bench.windows));
    let name = super::figure::title(job);
    bench.listener.hear(&Event::Started { stage: Stage::Disk, name, seconds: expected });
    let mut watched = match job.seconds {
        Some(seconds) => in_windows(bench, &pool, job, seconds, devices),
        None => once(bench, &pool, devices),
    };
    watched.area_bytes = pool.area_bytes;
    watched.in_memory = prepared.in_memory(job);
    watched.asked_bytes = pool.asked_bytes;
    watched.cores.clone_from(&pool.cores);
    let ended = pool.finish(bench.stop);
    if ended.outcomes.is_empty() && !bench.stopped() {
        let why = ended.errors.first().cloned().unwrap_or_else(|| "no worker could start".into());
        return Err(Failure::Lacks(why));
    }
    Ok(measurement(bench, job, prepared, watched, ended))
}

fn in_windows(
    bench: &mut AccessBench<'_>,
    pool: &WorkerPool,
    job: &AccessJob,
    seconds: f64,
    devices: Vec<String>,
) -> AccessObservation {
    let (warm_up, window) =
        (Duration::from_secs_f64(bench.warm_up_seconds), Duration::from_secs_f64(seconds));
    let repeats = bench.windows.max(1);
    // At most as long again as the windows, where the queue is deep and the device slow.
    let windows = WindowSpec { warm_up: warm_up + window * repeats, window, repeats };
    let paced = job.requests_per_second.is_some() || job.limit_bytes_per_second.is_some();
    let users = u64::from(job.workers) * u64::from(job.queue_depth);
    let mut meter = WorkerMeter {
        counters: &pool.counters,
        begin: pool.begin,
        warm_up,
        users: if paced { 0 } else { users },
        transfer_bytes: job.transfer_bytes,
        queue_depth: u64::from(job.queue_depth),
        last: Vec::new(),
    };
    let mut glance = RateGlance::new(0);
    let mut series = Series::new();
    let listener = &mut *bench.listener;
    let mut tick = |_: f64| {
        show(pool, &mut glance, listener);
        series.look(clock::since(pool.begin), || pool.bytes());
        pool.alive()
    };
    let host = HostSampler::of_cpus(bench.sysroot).and_disks(devices);
    let watch = Watch::new(windows, bench.stop).beside(host);
    let Ok(mut observation) = watch.observe(&mut meter, &mut tick);
    let devices = std::mem::take(&mut observation.host.disks);
    AccessObservation {
        windows: observation,
        timed: true,
        devices,
        burst: series.burst(),
        ..AccessObservation::default()
    }
}

/// Each worker does its part once: as long as it takes.
fn once(bench: &mut AccessBench<'_>, pool: &WorkerPool, devices: Vec<String>) -> AccessObservation {
    let host = HostSampler::of_cpus(bench.sysroot).and_disks(devices);
    let before = host.begin();
    let mut glance = RateGlance::new(0);
    let mut watched = AccessObservation::default();
    while pool.alive() && !bench.stop.wait(POLL_INTERVAL) {
        show(pool, &mut glance, bench.listener);
        if watched.first_done.is_none() && pool.first_ended() {
            watched.first_done = Some((clock::since(pool.begin).as_secs_f64(), pool.bytes()));
        }
    }
    let (bytes, cut_short, mut now) = (pool.bytes(), bench.stopped(), host.sample());
    host.add_processes(&mut now);
    let host = now.since(&before);
    watched.windows = WindowObservation { bytes, cut_short, host, ..WindowObservation::default() };
    watched.windows.part_busy(None);
    watched.devices = std::mem::take(&mut watched.windows.host.disks);
    watched
}

/// Shows the rate to the user now and then.
fn show(pool: &WorkerPool, glance: &mut RateGlance, listener: &mut dyn Listener) {
    if let Some(bytes_per_second) = glance.look(pool.bytes()) {
        listener.hear(&Event::Progress { stage: Stage::Disk, bytes_per_second });
    }
}
