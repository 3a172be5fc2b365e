//! Measured capacities in place of those of data sheets, as far as a flow does what was measured: disks that
//! are read, NICs that send, the CPU from disk to network. A measurement overrules links, too: that is one answer for
//! the plan of a flow over measured parts and for the diagnosis of a run.

use super::cpu_cost;
use super::flow::product::{Flow, FlowEnd, Method};
use super::parts::{MachineParts, MeasuredDevice};
use super::product::{Origin, Resource, ResourceKind};
use linerate_facts::units::show_bytes_rate;
use std::collections::BTreeMap;

/// A measurement overrules a declared figure: a link or port through which more was measured than it claims never
/// binds.
pub fn overrule_links(resources: &mut [Resource]) {
    let mut through: BTreeMap<String, f64> = BTreeMap::new();
    for device in resources.iter() {
        let Some(rate) = device.measured else { continue };
        let path = match device.kind {
            ResourceKind::Disk => only_path(device, resources, false),
            ResourceKind::Nic => only_path(device, resources, true),
            _ => continue,
        };
        for id in path {
            let most = through.entry(id).or_insert(rate);
            *most = most.max(rate);
        }
    }
    for link in resources.iter_mut() {
        let Some(most) = through.get(&link.id).copied().filter(|most| *most > link.capacity) else {
            continue;
        };
        let claims = show_bytes_rate(link.capacity);
        let why = format!("claims {claims}, but {} was measured through it", show_bytes_rate(most));
        (link.capacity, link.measured, link.interval) = (most, Some(most), None);
        (link.origin, link.lower_bound, link.why) = (Origin::Measured, true, Some(why));
    }
}

/// The declared links and ports that all bytes of a device cross on its side of memory, the nearest first;
/// `upwards`: against the bytes, as from a NIC that sends.
fn only_path(device: &Resource, resources: &[Resource], upwards: bool) -> Vec<String> {
    let mut path: Vec<String> = Vec::new();
    let mut at = device;
    loop {
        let is_next = |other: &&Resource| {
            if upwards { other.next.contains(&at.id) } else { at.next.contains(&other.id) }
        };
        let mut next = resources.iter().filter(is_next);
        let (Some(one), None) = (next.next(), next.next()) else { return path };
        let declared = matches!(one.origin, Origin::Rated | Origin::Effective)
            && matches!(one.kind, ResourceKind::Pcie | ResourceKind::Controller);
        if !declared || path.contains(&one.id) {
            return path;
        }
        path.push(one.id.clone());
        at = one;
    }
}

/// Sets what the parts' run has measured; each byte crosses the memory bus `touches` times.
pub(crate) fn overrule(resources: &mut [Resource], parts: &MachineParts, flow: &Flow, touches: f64) {
    let measured = &parts.measured;
    let disks = of_ends(&measured.disks, &flow.from, measured.disks_together);
    let nics = of_ends(&measured.nics, &flow.to, measured.nics_together);
    for device in disks.iter().chain(&nics) {
        if let Some(resource) = resources.iter_mut().find(|resource| resource.id == device.id) {
            set_device(resource, device);
        }
    }
    overrule_links(resources);
    let from_disk_to_network = flow.method == Method::Direct
        && flow.from.iter().all(|end| end.is("disk:"))
        && flow.to.iter().all(|end| end.is("nic:"));
    for resource in resources.iter_mut() {
        match resource.kind {
            ResourceKind::Memory => set_memory(resource, parts, touches),
            ResourceKind::Cpu if measured.cpu_seconds_per_gb.is_some() => {
                set_cpu(resource, from_disk_to_network);
            }
            _ => {}
        }
    }
    if measured.cpu_seconds_per_gb.is_some() && !from_disk_to_network {
        cpu_cost::fill_default(resources, parts, flow);
    }
}

/// The measured devices at one end of the flow. Where that is all of them at once, what they reached together
/// is the better figure: they may share something that no link shows.
fn of_ends(measured: &[MeasuredDevice], flow_ends: &[FlowEnd], together: Option<f64>) -> Vec<MeasuredDevice> {
    let used = |device: &&MeasuredDevice| flow_ends.contains(&FlowEnd::Device(device.id.clone()));
    let mut found: Vec<MeasuredDevice> = measured.iter().filter(used).cloned().collect();
    let all = found.len() > 1 && found.len() == measured.len() && found.iter().all(|device| !device.at_least);
    let sum: f64 = found.iter().map(|device| device.bytes_per_second).sum();
    if let Some(together) = together.filter(|together| all && *together < sum) {
        found.iter_mut().for_each(|device| device.bytes_per_second *= together / sum);
    }
    found
}

fn set_device(resource: &mut Resource, device: &MeasuredDevice) {
    let rate = device.bytes_per_second;
    resource.measured = Some(rate);
    if !device.at_least {
        (resource.capacity, resource.origin) = (rate, Origin::Measured);
        resource.why = Some("measured".into());
        return;
    }
    let at_least = format!("measured ≥ {}, something else was the limit", show_bytes_rate(rate));
    if resource.origin == Origin::Unknown || resource.capacity < rate {
        (resource.capacity, resource.origin, resource.lower_bound) = (rate, Origin::Measured, true);
    }
    resource.why = Some(at_least);
}

/// The bus of all nodes was measured at once: each has the same part of it.
fn set_memory(memory: &mut Resource, parts: &MachineParts, touches: f64) {
    let Some(bus) = parts.measured.memory_bytes_per_second.filter(|_| touches > 0.0) else { return };
    let own = bus / parts.nodes.len().max(1) as f64;
    (memory.capacity, memory.origin) = (own / touches, Origin::Measured);
    memory.measured = Some(memory.capacity);
    memory.why = Some(format!("measured: {} of the bus ÷ {touches} crossings", show_bytes_rate(own)));
}

/// The cost of a byte was measured from disk to network; of another flow it is not known.
fn set_cpu(cpu: &mut Resource, from_disk_to_network: bool) {
    if from_disk_to_network && cpu.capacity > 0.0 {
        cpu.origin = Origin::Measured;
        cpu.measured = Some(cpu.capacity);
        cpu.why = cpu.why.as_ref().map(|why| format!("measured: {why}"));
        return;
    }
    if !from_disk_to_network {
        let why = "its cost of a byte was measured from disk to network only";
        let next = std::mem::take(&mut cpu.next);
        *cpu = Resource { next, ..Resource::unknown(cpu.id.clone(), cpu.kind, why) };
    }
}
