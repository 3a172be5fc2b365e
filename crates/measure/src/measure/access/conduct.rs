//! Runs one job on prepared sources: workers, a warm-up, windows; or each worker's part once. The figure with
//! all that belongs to it.
//!
//! Whether its workers are pinned is decided by a short trial, where few requests are in flight.
//! With one request at a time the CPU that takes the device's interrupt must wake the one that waits; where those
//! are two, each request pays for it. On a virtual machine with the disk's interrupt at CPU 1 a reader pinned to CPU
//! 0 had 8,000 requests of 4 KiB a second, one at CPU 1 15,000, and one that the kernel placed 13,000 to 16,000. No
//! CPU number says that beforehand: interrupts move. With many in flight it does not matter, and pinned workers
//! repeat better.

use super::bench::{AccessBench, PinningTrial, TrialKey};
use super::burst::Series;
use super::figure::measurement;
use super::files::Prepared;
use super::worker_pool::{AccessObservation, POLL_INTERVAL, WorkerMeter, WorkerPool};
use super::{Access, AccessJob, AccessOrder};
use crate::event::{Event, Listener};
use crate::measure::window::{RateGlance, Watch, WindowObservation, WindowSpec};
use crate::measure::{Measurement, Stage};
use linerate_facts::failure::Failure;
use linerate_facts::host::HostSampler;
use linerate_facts::units::show_size;
/// Settling time before the first window, seconds.
pub use linerate_model::plan::schedule::WARM_UP_SECONDS;
use linerate_system::clock;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A job with more in flight has no trial of pinning: a worker finds completions without being woken for each.
const MOST_IN_FLIGHT: u32 = 2;
/// Not pinned must be so much faster: pinned workers repeat better.
const GAIN: f64 = 1.1;
/// One look of the trial, after the first half of it; at most this share of the job's window.
const PROBE_TIME: Duration = Duration::from_millis(150);
const SHARE_OF_WINDOW: f64 = 0.25;
/// Pinned or not, in an order in which a drift favours neither.
const TURNS: [bool; 4] = [true, false, false, true];

/// Runs the job. What failed on the way is in the measurement's `access.errors`; a `Failure` means that there
/// is not a figure at all.
pub fn conduct(
    bench: &mut AccessBench<'_>,
    job: &AccessJob,
    prepared: &Prepared,
) -> Result<Measurement, Failure> {
    if job.sync.is_some() {
        // A writer that waits for its sync sleeps most of the time, and wakes where there is room: as databases do.
        return conduct_unpinned(bench, job, prepared);
    }
    let trial = pinning_trial(bench, job, prepared)?;
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

impl PinningTrial {
    /// Every look without pinning was faster than every one with it, and clearly.
    fn free_wins(&self) -> bool {
        let slowest = self.free_per_second.iter().copied().fold(f64::INFINITY, f64::min);
        let fastest = self.pinned_per_second.iter().copied().fold(0.0, f64::max);
        slowest.is_finite() && slowest > fastest * GAIN
    }
}

/// The trial of a job; none where it has more in flight, or does something that a trial would change.
fn pinning_trial(
    bench: &mut AccessBench<'_>,
    job: &AccessJob,
    prepared: &Prepared,
) -> Result<Option<PinningTrial>, Failure> {
    let Some(seconds) = job.seconds.filter(|_| is_worth_it(bench, job)) else { return Ok(None) };
    let AccessJob { workers, queue_depth, transfer_bytes, .. } = *job;
    let key = TrialKey { sources: job.sources.clone(), workers, queue_depth, transfer_bytes };
    if let Some((_, known)) = bench.pinning.0.iter().find(|(other, _)| *other == key) {
        return Ok(Some(known.clone()));
    }
    let look = PROBE_TIME.min(Duration::from_secs_f64(seconds * SHARE_OF_WINDOW));
    let mut trial = PinningTrial { pinned: true, ..PinningTrial::default() };
    for pinned in TURNS {
        let pool = WorkerPool::start(bench, job, prepared, pinned)?;
        let operations =
            || pool.counters.iter().map(|one| one.operations.load(Ordering::Relaxed)).sum::<u64>();
        bench.stop.wait(look / 2);
        let (before, begin) = (operations(), clock::now());
        let is_stopped = bench.stop.wait(look);
        let rate = (operations() - before) as f64 / clock::since(begin).as_secs_f64();
        pool.finish(bench.stop);
        if is_stopped {
            return Ok(None);
        }
        let samples = if pinned { &mut trial.pinned_per_second } else { &mut trial.free_per_second };
        samples.push(rate);
    }
    trial.pinned = !trial.free_wins();
    if !trial.pinned {
        bench.listener.hear(&Event::Note(sentence(job, &trial)));
    }
    bench.pinning.0.push((key, trial.clone()));
    Ok(Some(trial))
}

/// Random reads as fast as they end, few at a time, with CPUs to choose from. Others would be read ahead, written
/// or sent on schedule by a trial.
fn is_worth_it(bench: &AccessBench<'_>, job: &AccessJob) -> bool {
    let random = !matches!(job.order, AccessOrder::Sequential);
    let free = job.requests_per_second.is_none() && job.limit_bytes_per_second.is_none();
    let cores = bench.machine.cpu.usable().len();
    job.access == Access::Read
        && random
        && free
        && job.queue_depth <= MOST_IN_FLIGHT
        && cores > 1
        && job.workers as usize <= cores
}

fn sentence(job: &AccessJob, trial: &PinningTrial) -> String {
    let mean = |samples: &[f64]| samples.iter().sum::<f64>() / samples.len().max(1) as f64;
    format!(
        "reads of {} one after another: {:.0} a second pinned, {:.0} where the kernel places the workers, so they are \
         not pinned; likely, the device's interrupts come to another CPU, and programs that pin themselves lose as \
         much",
        show_size(job.transfer_bytes),
        mean(&trial.pinned_per_second),
        mean(&trial.free_per_second)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pinned: [f64; 2], free: [f64; 2]) -> bool {
        let trial =
            PinningTrial { pinned_per_second: pinned.to_vec(), free_per_second: free.to_vec(), pinned: true };
        trial.free_wins()
    }

    #[test]
    fn only_what_is_clearly_faster_each_time_is_not_pinned() {
        assert!(of([8000.0, 8600.0], [13_000.0, 15_000.0]));
        assert!(!of([8000.0, 12_500.0], [13_000.0, 15_000.0]), "one look of each is nearly alike");
        assert!(!of([14_000.0, 15_000.0], [14_500.0, 15_500.0]));
        assert!(!of([15_000.0, 15_000.0], [8000.0, 8000.0]));
        assert!(!PinningTrial::default().free_wins(), "nothing was tried");
    }
}
