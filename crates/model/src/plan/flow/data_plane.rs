//! What linerate itself would need for a flow to NICs: workers, CPUs, reads in flight, buffer memory.

use super::product::{DataPlane, Flow, Method, NicWorkers};
use crate::plan::cpu_cost;
use crate::plan::parts::MachineParts;
use crate::plan::pool::pool_bytes;
use crate::plan::worker_count::{WorkerCarries, reads_for};
use crate::plan::{DEFAULT_BLOCK_BYTES, DEFAULT_QUEUE_DEPTH};
use linerate_facts::fact::Fact;
use std::collections::BTreeMap;

/// Of a flow that ends at NICs and whose likely rate is known. `through`: bytes per second by resource.
pub(super) fn data_plane(
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
        cores: cores(parts),
        nodes: parts.nodes.len(),
        memory_touches: touches,
        reads_in_flight: reads,
        block_bytes: DEFAULT_BLOCK_BYTES,
        pool_bytes: pool_bytes(count, reads.div_ceil(count.max(1)), DEFAULT_BLOCK_BYTES),
        why,
    })
}

/// CPUs of the whole machine, as far as all nodes report them.
fn cores(parts: &MachineParts) -> Fact<f64> {
    let known: Option<Vec<f64>> = parts.nodes.iter().map(|node| node.cores.known().copied()).collect();
    Fact::from_option(known.map(|cores| cores.iter().sum()), "the cores of a node are not known")
}
