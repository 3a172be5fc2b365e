//! The second step: which workers, which measurements, within which time; and the ceiling that the parts
//! allow.

pub mod capacity;
pub mod cpu_cost;
pub mod demand;
pub mod flow;
mod goal;
pub mod long_path;
pub mod machine_file;
mod overruled;
pub mod parts;
mod pool;
mod product;
pub mod raid;
mod resources;
pub mod schedule;
pub mod sizing;
mod streams;
pub mod whatif;
pub mod wording;
mod worker_count;
mod workers;

pub use goal::*;
use linerate_machine::probe::Machine;
pub use overruled::overrule_links;
pub use pool::spare_blocks;
pub use product::*;
pub use resources::{is_received_by_tcp, memory_touches, path_rate, volume_members};
pub use streams::{Pin, StreamPlacement, place_streams};
pub use worker_count::WorkerCost;
pub use workers::spare_cores;

/// Bytes a read where neither the user nor the source says.
pub const DEFAULT_BLOCK_BYTES: u64 = 1 << 20;
/// Reads in flight over all workers of a source where neither the user nor the source says.
pub(crate) const DEFAULT_QUEUE_DEPTH: u32 = 8;

/// Decides how the flow is moved and measured. Pure: files were opened and routes resolved by the caller, who
/// gives them as `sources` and `paths` (a block size or depth of 0, and a rate that is unknown, are filled in
/// here). `loopback`: the receiver is a process of our own on this machine.
pub fn plan(
    machine: &Machine,
    goal: &Goal,
    mut sources: Vec<SourcePlan>,
    mut paths: Vec<PathPlan>,
    loopback: bool,
) -> Plan {
    let source_count = sources.len().max(1) as f64;
    for source in &mut sources {
        let or = |given: u64, default| if given > 0 { given } else { default };
        source.block_bytes = goal.read_bytes().unwrap_or(or(source.block_bytes, DEFAULT_BLOCK_BYTES)).max(1);
        source.queue_depth = or(u64::from(source.queue_depth), u64::from(DEFAULT_QUEUE_DEPTH)) as u32;
    }
    let protocol = goal.first_protocol();
    for path in &mut paths {
        if path.rate.known().is_none() {
            path.rate = resources::path_rate(machine, path, protocol, flow::Method::Direct);
        }
    }
    let resources::RunGraph { mut resources, solution, ceiling } =
        resources::of_run(machine, goal, &sources, &paths, loopback);
    if let Some(rate) = solution.bytes_per_second.known() {
        // What the parts are likely to carry must be under way: more than the usual depth on a fast machine.
        for source in &mut sources {
            let reads = worker_count::reads_for(rate / source_count, source.block_bytes);
            source.queue_depth = source.queue_depth.max(reads);
        }
    }
    let placed = workers::place(machine, goal, &sources, &paths, loopback);
    let mut workers = placed.workers;
    // Without a path there is no worker: the disk stage reads all the same, and its buffers must fit, too.
    let mut readers = if workers.is_empty() { workers::readers(&sources) } else { Vec::new() };
    let pool = pool::fit(machine, if workers.is_empty() { &mut readers } else { &mut workers });
    for (index, source) in sources.iter_mut().enumerate() {
        let own = || workers.iter().chain(&readers).filter(|worker| worker.source == index);
        source.block_bytes = own().map(|worker| worker.block_bytes).min().unwrap_or(source.block_bytes);
        source.queue_depth = own().map(|worker| worker.queue_depth).sum();
    }
    let (schedule, schedule_notes) = schedule::fit(&sources, &paths, goal);
    for resource in resources.iter_mut().filter(|resource| resource.capacity > 0.0) {
        let through = solution.through.get(&resource.id).copied().unwrap_or(0.0);
        resource.utilisation = (through / resource.capacity).clamp(0.0, 1.0);
    }
    Plan {
        ceiling,
        resources,
        sources,
        paths,
        workers,
        schedule,
        pool_bytes: pool.bytes,
        pool_wished_bytes: pool.wished_bytes,
        registered: pool.registered,
        loopback,
        notes: placed.notes.into_iter().chain(pool.notes).chain(schedule_notes).collect(),
    }
}

#[cfg(test)]
pub mod tests;
