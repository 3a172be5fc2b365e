//! The workers of one job: started together, watched together (their progress for the windows, by marks between
//! completions), ended together.

use super::bench::AccessBench;
use super::files::{Prepared, check_memory};
use super::parts::{place, reads_part_of};
use super::{Access, AccessJob, Burst, DeviceUse};
use crate::measure::started;
use crate::measure::window::{Meter, WindowObservation};
use linerate_facts::failure::Failure;
use linerate_system::clock;
use linerate_system::stop::Stop;
use linerate_transport::flow::access::{
    self, AccessCounters, AccessOutcome, AccessStart, BlockStamp, Pace, RunningAccess, Walk,
};
use linerate_transport::flow::progress::Mark;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// After Ctrl-C, workers whose requests hang in the kernel are left behind after this.
const LAST_REQUESTS: Duration = Duration::from_millis(600);
/// Pause between two looks at workers that end.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// So many times the mean distance of completions, beyond those in flight, is no chance any more.
const LONG_GAPS: u64 = 8;
/// A pause shorter than this part of a window changes no figure.
const SHORT_PART: u64 = 20;

/// Workers at work. Dropping it stops them.
#[derive(Debug)]
pub(crate) struct WorkerPool {
    pub counters: Vec<Arc<AccessCounters>>,
    pub begin: Instant,
    /// Bytes that all parts hold together, and those that the job asks for.
    pub area_bytes: u64,
    pub asked_bytes: u64,
    /// Processors that the workers are pinned to; empty: none.
    pub cores: Vec<u32>,
    running: Vec<(RunningAccess, String)>,
    stop: Arc<AtomicBool>,
}

/// What the pool did.
#[derive(Debug, Default)]
pub(crate) struct WorkersEnd {
    pub outcomes: Vec<AccessOutcome>,
    /// What could not even begin, or hangs.
    pub errors: Vec<String>,
}

impl WorkerPool {
    /// Opens each worker's part, then starts all. `pinned`: where there are CPUs enough.
    pub(crate) fn start(
        bench: &AccessBench<'_>,
        job: &AccessJob,
        prepared: &Prepared,
        pinned: bool,
    ) -> Result<Self, Failure> {
        check_memory(bench.sysroot, job)?;
        let cores = if pinned { cores_for(bench, job) } else { Vec::new() };
        let mut parts = Vec::with_capacity(job.workers as usize);
        for worker in 0..job.workers {
            let whose = if job.reads() { reads_part_of(job, worker) } else { worker };
            parts.push(prepared.open_part(job, place(job, whose), job.writes())?);
        }
        let begin = clock::now();
        let mut pool = WorkerPool {
            counters: Vec::new(),
            begin,
            area_bytes: parts.iter().map(|part| part.area.block_bytes * part.area.blocks).sum(),
            asked_bytes: parts.iter().map(|part| part.asked).sum(),
            cores,
            running: Vec::new(),
            stop: Arc::new(AtomicBool::new(false)),
        };
        for (worker, part) in parts.into_iter().enumerate() {
            let label = part.file.label.clone();
            let seed = job.seed.wrapping_add((worker as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let amount = part.area.block_bytes * part.area.blocks;
            let walk = Walk::new(vec![part.area], job.order, job.transfer_bytes, seed)
                .ok_or_else(|| Failure::Lacks(format!("{label}: no request fits into it")))?;
            let start = AccessStart {
                core: pool.cores.get(worker).copied(),
                files: vec![part.file],
                walk,
                read_share: read_share(job.access),
                transfer_bytes: job.transfer_bytes as usize,
                queue_depth: job.queue_depth as usize,
                engine: job.engine,
                pace: pace(job),
                amount_bytes: job.seconds.is_none().then_some(amount),
                fsync_at_end: job.fsync && job.writes(),
                sync: job.sync,
                // All data of a bench has one stamp, whichever worker wrote it.
                stamp: job.verify.then_some(BlockStamp { seed: job.seed }),
                seed,
                io_uring: bench.io_uring,
                begin,
            };
            let counters = Arc::new(AccessCounters::new(begin));
            let (own, stop) = (Arc::clone(&counters), Arc::clone(&pool.stop));
            let running = started(bench.idle, || access::start(start, own, stop)).map_err(|error| {
                Failure::Lacks(format!("worker {worker} of {}: {error}; fewer --workers", job.workers))
            })?;
            pool.counters.push(counters);
            pool.running.push((running, label));
        }
        Ok(pool)
    }

    /// There is something left to watch.
    pub(crate) fn alive(&self) -> bool {
        !self.running.iter().all(|(worker, _)| worker.ended())
    }

    /// At least one has done its part.
    pub(crate) fn first_ended(&self) -> bool {
        self.running.iter().any(|(worker, _)| worker.ended())
    }

    /// Bytes of all so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.counters.iter().map(|counters| counters.progress.mark().bytes).sum()
    }

    /// Stops all and waits for them; after Ctrl-C no longer than a user does.
    pub(crate) fn finish(mut self, interrupted: &Stop) -> WorkersEnd {
        self.stop.store(true, Ordering::Relaxed);
        let mut ended = WorkersEnd::default();
        let mut since = None;
        while self.alive() {
            if interrupted.is_ended() {
                self.counters.iter().for_each(|counters| counters.abandon.store(true, Ordering::Relaxed));
                if clock::since(*since.get_or_insert_with(clock::now)) > LAST_REQUESTS {
                    break;
                }
            }
            clock::sleep(POLL_INTERVAL);
        }
        for (worker, label) in std::mem::take(&mut self.running) {
            if !worker.ended() {
                ended
                    .errors
                    .push(format!("{label}: a request still hangs in the kernel; its worker was left"));
                continue;
            }
            match worker.join() {
                Ok(outcome) => ended.outcomes.push(outcome),
                Err(error) => ended.errors.push(format!("{label}: {error}")),
            }
        }
        ended
    }
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn read_share(access: Access) -> f64 {
    match access {
        Access::Read => 1.0,
        Access::Write => 0.0,
        Access::Mixed { read_share } => read_share,
    }
}

/// Each worker's share of what all together do.
fn pace(job: &AccessJob) -> Pace {
    let share = f64::from(job.workers.max(1));
    match (job.requests_per_second, job.limit_bytes_per_second) {
        (Some(rate), _) => Pace::Open { requests_per_second: rate / share },
        (None, Some(limit)) => Pace::Held { bytes_per_second: limit / share },
        (None, None) => Pace::Closed,
    }
}

/// A core for each worker where there are enough; else the kernel spreads them better than we could.
fn cores_for(bench: &AccessBench<'_>, job: &AccessJob) -> Vec<u32> {
    let cores = bench.machine.cpu.usable();
    if job.workers as usize > cores.len() { Vec::new() } else { cores[..job.workers as usize].to_vec() }
}

/// Windows or one window, with what the devices did meanwhile.
#[derive(Debug, Default)]
pub(crate) struct AccessObservation {
    pub windows: WindowObservation,
    pub timed: bool,
    pub devices: Vec<DeviceUse>,
    /// When the first worker had done its part (seconds since the common zero), and the bytes of all until
    /// then.
    pub first_done: Option<(f64, u64)>,
    /// A change of level in the series of short windows.
    pub burst: Option<Burst>,
    /// A source lies in memory.
    pub in_memory: bool,
    pub area_bytes: u64,
    pub asked_bytes: u64,
    pub cores: Vec<u32>,
}

/// Reads the workers' progress.
#[derive(Debug)]
pub(crate) struct WorkerMeter<'a> {
    pub counters: &'a [Arc<AccessCounters>],
    /// Common zero of the workers' clocks.
    pub begin: Instant,
    /// The shortest warm-up, and requests in flight of all workers after whose number of answers it is over;
    /// 0: where a pace leaves users without a request.
    pub warm_up: Duration,
    pub users: u64,
    pub transfer_bytes: u64,
    pub queue_depth: u64,
    /// Each worker at the last mark.
    pub last: Vec<Mark>,
}

impl Meter for WorkerMeter<'_> {
    type Error = Infallible;

    fn marks(&mut self) -> Result<Option<Vec<Mark>>, Infallible> {
        let now = clock::since(self.begin).as_nanos() as u64;
        let mut marks: Vec<Mark> = self.counters.iter().map(|counters| counters.progress.mark()).collect();
        let in_flight = self.queue_depth;
        for (mark, before) in marks.iter_mut().zip(&self.last) {
            *mark = with_stall(*mark, before, now, self.transfer_bytes, in_flight);
        }
        self.last.clone_from(&marks);
        self.counters.iter().for_each(|counters| counters.next_window());
        Ok(Some(marks))
    }

    fn has_one_clock(&self) -> bool {
        true
    }

    /// Before each user was answered once, latencies still grow: those who ask behind a queue of thousands wait
    /// for seconds.
    fn is_settled(&mut self) -> bool {
        let answered = |counters: &Arc<AccessCounters>| counters.operations.load(Ordering::Relaxed);
        clock::since(self.begin) >= self.warm_up
            && self.counters.iter().map(answered).sum::<u64>() >= self.users
    }
}

/// A mark ends with the last completion, so that no rate is rounded to whole requests. Where nothing was
/// completed for much longer than usual, the pause is time that the figure has to bear: the mark ends now.
fn with_stall(mark: Mark, before: &Mark, now: u64, transfer_bytes: u64, in_flight: u64) -> Mark {
    let requests = mark.bytes.saturating_sub(before.bytes) / transfer_bytes.max(1);
    let busy = mark.nanos.saturating_sub(before.nanos);
    let idle = now.saturating_sub(mark.nanos);
    let Some(gap) = busy.checked_div(requests) else { return mark };
    let unusual = idle > gap.saturating_mul(in_flight + LONG_GAPS);
    let counts = idle > now.saturating_sub(before.nanos) / SHORT_PART;
    if unusual && counts { Mark { nanos: now, ..mark } } else { mark }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_pause_at_the_end_of_a_window_counts_and_the_usual_distance_does_not() {
        let before = Mark { bytes: 0, nanos: 0 };
        let mark = Mark { bytes: 100 * 4096, nanos: 100 * MS };
        let usual = with_stall(mark, &before, 101 * MS, 4096, 1);
        assert_eq!(usual, mark);
        let stalled = with_stall(mark, &before, 1000 * MS, 4096, 1);
        assert!((stalled.rate_since(&before) / 409_600.0 - 1.0).abs() < 1e-9, "all of the second counts");
        // Two slow requests, the third on its way; a whole queue that completes at once.
        let slow = Mark { bytes: 2 * 4096, nanos: 600 * MS };
        assert_eq!(with_stall(slow, &before, 1000 * MS, 4096, 1), slow);
        let at_once = Mark { bytes: 32 * 4096, nanos: 640 * MS };
        assert_eq!(with_stall(at_once, &before, 1000 * MS, 4096, 32), at_once);
        assert_eq!(with_stall(before, &before, 1000 * MS, 4096, 1), before, "nothing at all is not a rate");
    }
}
