//! Runs one job on prepared sources: workers, a warm-up, windows; or each worker's part once. The figure with
//! all that belongs to it.

use super::AccessJob;
use super::bench::AccessBench;
use super::figure::measurement;
use super::files::Prepared;
use super::meter::{Boundary, WorkerMeter};
use super::pinning;
use super::series::Series;
use super::watched::Watched;
use super::worker_pool::WorkerPool;
use crate::event::{Event, Listener};
use crate::measure::window::{
    ProcessWatch, Reading, Surroundings, WindowObservation, WindowSpec, fill_between, watch,
};
use crate::measure::{Measurement, Stage};
use linerate_facts::failure::Failure;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Settling time before the first window, seconds.
pub use linerate_model::plan::schedule::WARM_UP_SECONDS;
/// A worker that completes less in a window has no rate of its own: then all are counted as one.
const LEAST_COMPLETIONS: f64 = 8.0;
/// Pause between two looks at workers that do their part once.
const LOOK: Duration = Duration::from_millis(2);
/// Time between two rates that the user sees.
const GLANCE: Duration = Duration::from_millis(250);

/// Runs the job. What failed on the way is in the measurement's `access.errors`; a `Failure` means that there
/// is no figure at all.
pub fn conduct(
    bench: &mut AccessBench<'_>,
    job: &AccessJob,
    prepared: &Prepared,
) -> Result<Measurement, Failure> {
    let devices = prepared.devices_of(job);
    let trial = pinning::trial(bench, job, prepared)?;
    let pinned = trial.as_ref().is_none_or(|trial| trial.pinned);
    let pool = WorkerPool::start(bench, job, prepared, pinned)?;
    let expected =
        job.seconds.map_or(0.0, |seconds| bench.warm_up_seconds + seconds * f64::from(bench.windows));
    let name = super::figure::title(job);
    bench.listener.hear(&Event::Started { stage: Stage::Disk, name, seconds: expected });
    let mut watched = match job.seconds {
        Some(seconds) => in_windows(bench, &pool, job, seconds, &devices)?,
        None => once(bench, &pool, &devices),
    };
    watched.area_bytes = pool.area_bytes;
    watched.asked_bytes = pool.asked_bytes;
    watched.cores.clone_from(&pool.cores);
    let ended = pool.finish(bench.stop);
    if ended.outcomes.is_empty() && !bench.stopped() {
        let why = ended.errors.first().cloned().unwrap_or_else(|| "no worker could start".into());
        return Err(Failure::Lacks(why));
    }
    let mut measured = measurement(bench, job, prepared, watched, ended);
    if !pinned {
        measured.flags.push("not-pinned".into());
    }
    measured.access.iter_mut().for_each(|access| access.pinning.clone_from(&trial));
    Ok(measured)
}

fn in_windows(
    bench: &mut AccessBench<'_>,
    pool: &WorkerPool,
    job: &AccessJob,
    seconds: f64,
    devices: &[String],
) -> Result<Watched, Failure> {
    let (warm_up, window) =
        (Duration::from_secs_f64(bench.warm_up_seconds), Duration::from_secs_f64(seconds));
    let repeats = bench.windows.max(1);
    // At most as long again as the windows, where the queue is deep and the device slow.
    let windows = WindowSpec { warm_up: warm_up + window * repeats, window, repeats };
    let paced = job.requests_per_second.is_some() || job.limit_bytes_per_second.is_some();
    let users = u64::from(job.workers) * u64::from(job.queue_depth);
    let mut meter = WorkerMeter {
        counters: &pool.counters,
        sysroot: bench.sysroot,
        devices,
        begin: pool.begin,
        warm_up,
        users: if paced { 0 } else { users },
        transfer_bytes: job.transfer_bytes,
        queue_depth: u64::from(job.queue_depth),
        totals: Vec::new(),
        first: Vec::new(),
        last: Vec::new(),
        boundaries: Vec::new(),
    };
    let mut glance = RateSnapshot::new();
    let mut series = Series::new();
    let listener = &mut *bench.listener;
    let mut tick = |_: f64| {
        glance.look(pool, listener);
        series.look(pool.begin.elapsed(), || pool.bytes());
        pool.alive()
    };
    let seen =
        watch(bench.sysroot, &[], &mut meter, windows, &Surroundings::default(), bench.stop, &mut tick);
    let mut seen = seen.map_err(Failure::Lacks)?;
    let WorkerMeter { totals, first, boundaries, .. } = meter;
    let completions = seldom(pool, &first, seen.samples.len());
    if completions < LEAST_COMPLETIONS {
        seen.samples = totals.windows(2).map(|pair| pair[1].rate_since(&pair[0])).collect();
    }
    let mut watched = Watched { seen, timed: true, burst: series.burst(), ..Watched::default() };
    if let [begin, .., end] = &boundaries[..] {
        watched.between(begin, end);
    }
    Ok(watched)
}

/// Completions of the slowest worker in a window.
fn seldom(pool: &WorkerPool, first: &[linerate_transport::flow::progress::Mark], windows: usize) -> f64 {
    let moved = pool.counters.iter().zip(first).map(|(counters, first)| {
        let operations = counters.operations.load(Ordering::Relaxed).max(1);
        let now = counters.progress.mark().bytes.max(1);
        now.saturating_sub(first.bytes) as f64 * operations as f64 / now as f64
    });
    moved.fold(f64::MAX, f64::min) / windows.max(1) as f64
}

/// Each worker does its part once: as long as it takes.
fn once(bench: &mut AccessBench<'_>, pool: &WorkerPool, devices: &[String]) -> Watched {
    let processes = ProcessWatch::begin(bench.sysroot);
    let before = Reading::now(bench.sysroot, &[]);
    let begin = Boundary::now(bench.sysroot, devices, &pool.counters);
    let mut glance = RateSnapshot::new();
    let mut watched = Watched::default();
    while pool.alive() && !bench.stopped() {
        glance.look(pool, bench.listener);
        if watched.first_done.is_none() && pool.first_ended() {
            watched.first_done = Some((pool.begin.elapsed().as_secs_f64(), pool.bytes()));
        }
        std::thread::sleep(LOOK);
    }
    let mut seen =
        WindowObservation { bytes: pool.bytes(), cut_short: bench.stopped(), ..WindowObservation::default() };
    fill_between(&mut seen, &before, &Reading::now(bench.sysroot, &[]));
    processes.end(&mut seen, &Surroundings::default());
    watched.seen = seen;
    watched.between(&begin, &Boundary::now(bench.sysroot, devices, &pool.counters));
    watched
}

/// The rate as the user sees it while it works.
struct RateSnapshot {
    at: Instant,
    bytes: u64,
}

impl RateSnapshot {
    fn new() -> Self {
        RateSnapshot { at: Instant::now(), bytes: 0 }
    }

    fn look(&mut self, pool: &WorkerPool, listener: &mut dyn Listener) {
        let passed = self.at.elapsed();
        if passed < GLANCE {
            return;
        }
        let bytes = pool.bytes();
        let bytes_per_second = bytes.saturating_sub(self.bytes) as f64 / passed.as_secs_f64();
        *self = RateSnapshot { at: Instant::now(), bytes };
        listener.hear(&Event::Progress { stage: Stage::Disk, bytes_per_second });
    }
}
