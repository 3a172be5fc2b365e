//! What linerate itself would need for a flow to NICs: workers, CPUs, reads in flight, buffer memory.

use super::product::{DataPlane, Flow, FlowEnd, Method, NicWorkers};
use crate::plan::cpu_cost;
use crate::plan::parts::{DeviceKind, MachineParts, PartPlace};
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
    let nics: Vec<&String> = flow.to.iter().filter_map(nic_of).collect();
    if nics.is_empty() || nics.len() != flow.to.len() {
        return None;
    }
    let default = |mtu: Option<u32>| {
        cpu_cost::default_of(parts, flow).and_then(|_| cpu_cost::sending(flow.protocol, mtu))
    };
    let whole_cost = parts.cpu_seconds_per_gb.known();
    let was_measured = flow.method == Method::Direct && !flow.from.contains(&FlowEnd::Memory);
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
    for id in nics {
        let rate = through.get(id).copied().filter(|rate| *rate > 0.0)?;
        let device = parts.device(id)?;
        let mtu = match &device.what {
            DeviceKind::Nic { mtu, .. } => mtu.known().copied(),
            _ => None,
        };
        let carries = carries(id, mtu)?;
        total += rate;
        // Of the whole host where that was measured, interrupts and kernel threads with it.
        cpus += whole_cost.map_or(rate / carries.bytes_per_second, |cost| rate * cost * 1e-9);
        why = carries.division(rate);
        workers.push(NicWorkers {
            nic: id.clone(),
            node: node_of(parts, &device.place),
            workers: carries.workers(rate),
            bytes_per_second: rate,
        });
    }
    let count: u32 = workers.iter().map(|nic| nic.workers).sum();
    // Two a worker at least: one is read while one is sent.
    let reads = match flow.from.contains(&FlowEnd::Memory) {
        true => 0,
        false => reads_for(total, DEFAULT_BLOCK_BYTES).max(DEFAULT_QUEUE_DEPTH).max(2 * count),
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

fn nic_of(end: &FlowEnd) -> Option<&String> {
    match end {
        FlowEnd::Device(id) if id.starts_with("nic:") => Some(id),
        _ => None,
    }
}

fn node_of(parts: &MachineParts, place: &PartPlace) -> Option<u32> {
    match place {
        PartPlace::Node(node) => Some(*node),
        PartPlace::Joint(_) => parts.above(place).last().and_then(|joint| match joint.up {
            PartPlace::Node(node) => Some(node),
            _ => None,
        }),
        PartPlace::Unknown => None,
    }
}
