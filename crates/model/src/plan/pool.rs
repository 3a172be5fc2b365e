//! The buffer pool: what all workers need, fitted to RLIMIT_MEMLOCK and to a tenth of the memory.
//!
//! Registered buffers are locked memory: io_uring accounts them to the user against RLIMIT_MEMLOCK unless the
//! process has CAP_IPC_LOCK (`io_uring_register(2)`); the probe reports such a process as unlimited. What
//! does not fit shrinks: first the reads in flight, down to 2 a worker, then the block, down to 128 KiB.
//! Where even that is too much, the buffers stay unregistered: slower, not wrong.

use super::product::WorkerPlan;
use super::workers::FEWEST_READS;
use linerate_facts::units::show_size;
use linerate_facts::wording::counted;
use linerate_machine::probe::Machine;

/// Spare blocks of a worker: at least the one that is being sent and the next, at most what bridges a pause of
/// the sink of some milliseconds.
const LEAST_SPARE: u32 = 2;
const MOST_SPARE: u32 = 8;
/// Blocks do not shrink below this.
const SMALLEST_BLOCK_BYTES: u64 = 128 << 10;
/// Blocks stay a multiple of this: O_DIRECT wants whole logical sectors of the device, at most one page
/// everywhere.
const ALIGNMENT_BYTES: u64 = 4096;
/// The pool takes at most this part of the memory.
const MEMORY_DIVISOR: u64 = 10;

/// The pool that fits.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Pool {
    pub bytes: u64,
    pub wished_bytes: u64,
    pub registered: bool,
    pub notes: Vec<String>,
}

/// Blocks of a worker besides its reads in flight: they wait for the sink while the source goes on.
pub fn spare_blocks(queue_depth: u32) -> u32 {
    queue_depth.clamp(LEAST_SPARE, MOST_SPARE)
}

/// Buffer memory of one worker, bytes: its reads in flight and its spare blocks.
pub(crate) fn worker_pool_bytes(worker: &WorkerPlan) -> u64 {
    pool_bytes(1, worker.queue_depth, worker.block_bytes)
}

/// Buffer memory of this many workers with this many reads in flight each.
pub(super) fn pool_bytes(workers: u32, reads: u32, block_bytes: u64) -> u64 {
    let blocks = u64::from(reads) + u64::from(spare_blocks(reads));
    u64::from(workers).saturating_mul(blocks).saturating_mul(block_bytes)
}

/// Shrinks the workers' depth and block until the pool fits, and says what was done.
pub(super) fn fit(machine: &Machine, workers: &mut [WorkerPlan]) -> Pool {
    let mut pool = Pool { wished_bytes: total(workers), registered: true, ..Pool::default() };
    let memory_bytes = machine.memory.total_bytes.known().map_or(u64::MAX, |bytes| bytes / MEMORY_DIVISOR);
    let memlock_bytes = machine.kernel.memlock_bytes.known().copied().unwrap_or(u64::MAX);
    if !shrink(workers, memory_bytes) {
        pool.notes.push(format!(
            "the smallest buffer pool of {}, {}, is more than a tenth of the memory ({})",
            counted(workers.len(), "worker"),
            show_size(total(workers)),
            show_size(memory_bytes)
        ));
    }
    let mut locked = workers.to_vec();
    if shrink(&mut locked, memlock_bytes) {
        workers.clone_from_slice(&locked);
    } else {
        pool.registered = false;
        pool.notes.push(format!(
            "buffers are not registered with the kernel: the smallest pool of {} is {}, and \
             RLIMIT_MEMLOCK allows {} (raise it with `ulimit -l {}`)",
            counted(workers.len(), "worker"),
            show_size(total(&locked)),
            show_size(memlock_bytes),
            pool.wished_bytes.div_ceil(1024)
        ));
    }
    pool.bytes = total(workers);
    if pool.bytes < pool.wished_bytes {
        let limit = if pool.registered && memlock_bytes < memory_bytes {
            format!(
                "RLIMIT_MEMLOCK, {} (raise it with `ulimit -l {}`)",
                show_size(memlock_bytes),
                pool.wished_bytes.div_ceil(1024)
            )
        } else {
            format!("a tenth of the memory, {}", show_size(memory_bytes))
        };
        let shape = workers.iter().max_by_key(|worker| worker_pool_bytes(worker));
        let shape = shape.map_or(String::new(), |worker| {
            format!(": {} x {} a worker", show_size(worker.block_bytes), worker.queue_depth)
        });
        pool.notes.push(format!(
            "the buffer pool shrank from {} to {}{shape}, to fit {limit}",
            show_size(pool.wished_bytes),
            show_size(pool.bytes)
        ));
    }
    pool
}

fn total(workers: &[WorkerPlan]) -> u64 {
    workers.iter().fold(0, |sum, worker| sum.saturating_add(worker_pool_bytes(worker)))
}

/// Shrinks depth, then block; false where the smallest is still too large (then the workers have the
/// smallest).
fn shrink(workers: &mut [WorkerPlan], bound_bytes: u64) -> bool {
    let mut depth = workers.iter().map(|worker| worker.queue_depth).max().unwrap_or(0);
    while total(workers) > bound_bytes && depth > FEWEST_READS {
        depth = (depth - 1).clamp(FEWEST_READS, depth);
        workers.iter_mut().for_each(|worker| worker.queue_depth = worker.queue_depth.min(depth));
    }
    while total(workers) > bound_bytes {
        let mut halved = false;
        for worker in workers.iter_mut() {
            let half = worker.block_bytes / 2;
            if half >= SMALLEST_BLOCK_BYTES && half.is_multiple_of(ALIGNMENT_BYTES) {
                worker.block_bytes = half;
                halved = true;
            }
        }
        if !halved {
            return false;
        }
    }
    true
}
