//! The workers of one job: started together, watched together, ended together.

use super::bench::AccessBench;
use super::buffer_room::check_memory;
use super::files::Prepared;
use super::parts::{place, reads_part_of};
use super::{Access, AccessJob};
use crate::measure::started;
use linerate_facts::failure::Failure;
use linerate_system::clock;
use linerate_system::stop::Stop;
use linerate_transport::flow::access::{
    self, AccessCounters, AccessOutcome, AccessStart, BlockStamp, Pace, RunningAccess, Walk,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// After Ctrl-C, workers whose requests hang in the kernel are left behind after this.
const LAST_REQUESTS: Duration = Duration::from_millis(600);
/// Pause between two looks at workers that end.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(2);

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
