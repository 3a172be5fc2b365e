//! What linerate itself needs for a flow to NICs: workers, CPUs, reads in flight, buffer memory; and the buffer pool of a
//! run: what all workers need, fitted to RLIMIT_MEMLOCK and to a tenth of the memory.
//!
//! Registered buffers are locked memory: io_uring accounts them to the user against RLIMIT_MEMLOCK unless the
//! process has CAP_IPC_LOCK (`io_uring_register(2)`); the probe reports such a process as unlimited. What
//! does not fit shrinks: first the reads in flight, down to 2 a worker, then the block, down to 128 KiB.
//! Where even that is too much, the buffers stay unregistered: slower, not wrong.

use super::flow::product::{DataPlane, Flow, Method, NicWorkers};
use super::parts::MachineParts;
use super::product::WorkerPlan;
use super::worker_count::{WorkerCarries, reads_for};
use super::workers::FEWEST_READS;
use super::{DEFAULT_BLOCK_BYTES, DEFAULT_QUEUE_DEPTH, cpu_cost};
use linerate_facts::fact::Fact;
use linerate_facts::units::show_size;
use linerate_facts::wording::counted;
use linerate_machine::probe::Machine;
use std::collections::BTreeMap;

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

/// Of a flow that ends at NICs and whose likely rate is known. `through`: bytes per second by resource.
pub(crate) fn data_plane(
    parts: &MachineParts,
    flow: &Flow,
    through: &BTreeMap<String, f64>,
    touches: f64,
) -> Option<DataPlane> {
    if flow.to.is_empty() || !flow.to.iter().all(|end| end.is("nic:")) {
        return None;
    }
    let reads_disks = flow.comes_from("disk:");
    let default = |mtu: Option<u32>| {
        cpu_cost::default_of(parts, flow)?;
        cpu_cost::sending(parts.memory_kind.as_deref(), reads_disks, flow.protocol, mtu)
    };
    let whole_cost = parts.cpu_seconds_per_gb.known();
    let was_measured = flow.method == Method::Direct && reads_disks;
    let carries = |nic: &str, mtu: Option<u32>| match (parts.measured.workers.get(nic), default(mtu)) {
        (Some(cost), Some(default)) if was_measured => Some(WorkerCarries::measured_or(default, Some(cost))),
        (_, default) => whole_cost
            .map(|cost| WorkerCarries::at_cost(*cost))
            .or_else(|| default.map(WorkerCarries::likely)),
    };
    // The plan says whose default that is, once for all.
    let carries = |nic: &str, mtu: Option<u32>| {
        let found = carries(nic, mtu)?;
        let is_default = default(mtu).is_some_and(|cost| found == WorkerCarries::likely(cost));
        let why = if is_default { "likely, at the default cost".into() } else { found.why.clone() };
        Some(WorkerCarries { why, ..found })
    };
    let mut workers = Vec::new();
    let (mut total, mut cpus, mut why) = (0.0, 0.0, String::new());
    for device in flow.to.iter().filter_map(|end| end.device(parts)) {
        let id = device.id();
        let rate = through.get(&id).copied().filter(|rate| *rate > 0.0)?;
        let carries = carries(&id, device.mtu())?;
        total += rate;
        // Of the whole host where that was measured, interrupts and kernel threads with it.
        cpus += whole_cost.map_or(rate / carries.bytes_per_second, |cost| rate * cost * 1e-9);
        why = carries.division(rate);
        workers.push(NicWorkers {
            nic: id,
            node: parts.node_of(&device.place),
            workers: carries.workers(rate),
            bytes_per_second: rate,
        });
    }
    let count: u32 = workers.iter().map(|nic| nic.workers).sum();
    // Two a worker at least: one is read while one is sent.
    let reads = match reads_disks {
        true => reads_for(total, DEFAULT_BLOCK_BYTES).max(DEFAULT_QUEUE_DEPTH).max(2 * count),
        false => 0,
    };
    Some(DataPlane {
        workers,
        cpus,
        cores: cores_of(parts),
        nodes: parts.nodes.len(),
        memory_touches: touches,
        reads_in_flight: reads,
        block_bytes: DEFAULT_BLOCK_BYTES,
        pool_bytes: pool_bytes(count, reads.div_ceil(count.max(1)), DEFAULT_BLOCK_BYTES),
        why,
    })
}

/// CPUs of the whole machine, as far as all nodes report them.
fn cores_of(parts: &MachineParts) -> Fact<f64> {
    let known: Option<Vec<f64>> = parts.nodes.iter().map(|node| node.cores.known().copied()).collect();
    Fact::from_option(known.map(|cores| cores.iter().sum()), "the cores of a node are not known")
}

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
fn worker_pool_bytes(worker: &WorkerPlan) -> u64 {
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
