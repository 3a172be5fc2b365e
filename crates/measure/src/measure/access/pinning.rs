//! Whether the workers of a job are pinned: where few requests are in flight, by a short trial.
//!
//! With one request at a time the CPU that takes the device's interrupt must wake the one that waits; where those
//! are two, each request pays for it. On a virtual machine with the disk's interrupt at CPU 1 a reader pinned to CPU
//! 0 had 8,000 requests of 4 KiB a second, one at CPU 1 15,000, and one that the kernel placed 13,000 to 16,000. No
//! CPU number says that beforehand: interrupts move. With many in flight it does not matter, and pinned workers
//! repeat better.

use super::bench::{AccessBench, PinningTrial};
use super::files::Prepared;
use super::worker_pool::WorkerPool;
use super::{Access, AccessJob, AccessOrder};
use crate::event::Event;
use linerate_facts::failure::Failure;
use linerate_facts::units::show_size;
use linerate_system::clock;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// With more in flight a worker finds completions without being woken for each.
const MOST_IN_FLIGHT: u32 = 2;
/// Not pinned must be so much faster: pinned workers repeat better.
const GAIN: f64 = 1.1;
/// One look, after the first half of it; at most this share of the job's window.
const PROBE_TIME: Duration = Duration::from_millis(150);
const SHARE_OF_WINDOW: f64 = 0.25;
/// Pinned or not, in an order in which a drift favours neither.
const TURNS: [bool; 4] = [true, false, false, true];

impl PinningTrial {
    /// Every look without pinning was faster than every one with it, and clearly.
    fn free_wins(&self) -> bool {
        let slowest = self.free_per_second.iter().copied().fold(f64::INFINITY, f64::min);
        let fastest = self.pinned_per_second.iter().copied().fold(0.0, f64::max);
        slowest.is_finite() && slowest > fastest * GAIN
    }
}

/// The trial of a job; none where it has more in flight, or does something that a trial would change.
pub(super) fn trial(
    bench: &mut AccessBench<'_>,
    job: &AccessJob,
    prepared: &Prepared,
) -> Result<Option<PinningTrial>, Failure> {
    let Some(seconds) = job.seconds.filter(|_| is_worth_it(bench, job)) else { return Ok(None) };
    let key = (job.sources.clone(), job.workers, job.queue_depth, job.transfer_bytes);
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
