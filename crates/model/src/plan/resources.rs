//! The resources of a run: the capacity graph that `linerate plan` solves, over the machine's parts, with the
//! run's own sources and paths at its ends. The ceiling is that graph's. For the measurements, which know one
//! memory and one CPU, the nodes are folded into one: disks → their links → memory → CPU → the NICs' links →
//! NICs → receivers.

use super::capacity::{Model, Solution};
use super::flow::figures::{Leaves, MemoryPassage};
use super::flow::{Flow, FlowEnd, Method, device_figure, graph_resources, open_ends};
use super::goal::{Goal, RunFlow};
use super::parts::{ByteDevice, DeviceKind, MachineParts, PartPlace, ProbedParts, disk_is_received_by_tcp};
use super::product::{Bound, Origin, PathPlan, Resource, ResourceKind, SourcePlan};
use linerate_facts::fact::Fact;
use linerate_facts::protocol::Protocol;
use linerate_machine::probe::{Disk, DiskKind, Machine};
use linerate_machine::rates::pcie::PayloadDirection;
use linerate_machine::topology::{DEEPEST_VOLUMES, line_rate};
use std::collections::{BTreeMap, BTreeSet};

/// What a run's bytes cross, and what that allows.
pub(super) struct RunGraph {
    /// All resources, sources first; `next` draws the graph. Nodes are folded.
    pub resources: Vec<Resource>,
    /// The likely flow of the graph before it was folded, in the ids of `resources`.
    pub solution: Solution,
    /// The ceiling: the same graph in the best case.
    pub ceiling: Bound,
}

/// The graph of a run.
pub(super) fn of_run(
    machine: &Machine,
    goal: &Goal,
    sources: &[SourcePlan],
    paths: &[PathPlan],
    loopback: bool,
) -> RunGraph {
    let protocol = goal.first_protocol();
    let (parts, names) = run_parts(machine, sources, paths, loopback);
    let ends = |word: &str| -> Vec<FlowEnd> {
        let of_kind = parts.devices.iter().filter(|device| device.what.word() == word);
        of_kind.map(|device| FlowEnd::Device(device.id())).collect()
    };
    let disks = if ends("disk").is_empty() { vec![FlowEnd::Memory] } else { ends("disk") };
    let receives = goal.flow.receives();
    let (from, to) = if receives { (ends("nic"), disks) } else { (disks, ends("nic")) };
    let flow = Flow { from, to, volumes: Vec::new(), protocol, method: Method::Direct };
    let touches = |copied| memory_touches(goal, sources, loopback, copied);
    let mut graph = graph_resources(&parts, &flow, touches(1.0));
    // The best case is that no byte is copied into a socket, where that may be.
    let copies = receives || protocol != Protocol::Tcp || goal.zero_copy == Some(false) || loopback;
    for memory in graph.iter_mut().filter(|part| !copies && part.kind == ResourceKind::Memory) {
        memory.best = memory.best.map(|best| best * touches(1.0) / touches(0.0));
    }
    let (exact, best) = (Model::new(&graph).solve(), Model::best(&graph).solve());
    let depends = !open_ends(&graph, exact.bytes_per_second.known().copied()).is_empty();
    let mut resources = folded(graph, &names);
    complete(&mut resources, machine, paths, receives);
    let solution = match exact.bytes_per_second {
        Fact::Known(_) => folded_solution(exact, &names),
        // The same way is unlimited in both; its words are those of the ids that users see.
        Fact::Unknown { .. } => Model::new(&resources).solve(),
    };
    let likely = solution.bound();
    let ceiling = match best.bytes_per_second {
        Fact::Known(_) if depends => folded_solution(best, &names).bound(),
        Fact::Known(_) => folded_solution(best, &names).bound().with_likely(&likely),
        Fact::Unknown { .. } => likely,
    };
    RunGraph { resources, solution, ceiling }
}

/// Payload rate of a path by its NIC's data sheet, bytes per second: for planning the split, and to hold a figure
/// against.
pub fn path_rate(machine: &Machine, path: &PathPlan, protocol: Protocol, method: Method) -> Fact<f64> {
    if path.nic.is_none() {
        return Fact::unknown("no interface is known for the route");
    }
    let figure =
        device_figure(&nic_device(machine, path, false), PayloadDirection::FromMemory, protocol, method);
    match figure.origin {
        Origin::Unknown => Fact::unknown(figure.why.unwrap_or_default()),
        _ => Fact::Known(figure.capacity),
    }
}

/// Crossings of the memory bus by one payload byte of a run: through the page cache where one source cannot be
/// read past it; on loopback the receiver copies in place of the NIC. `copied`: the share of what is sent that is
/// copied into a socket, 0 to 1; zero copy copies none.
pub fn memory_touches(goal: &Goal, sources: &[SourcePlan], loopback: bool, copied: f64) -> f64 {
    let page_cache = !sources.iter().all(|source| source.direct);
    let passage = match goal.flow {
        // On loopback the sender's copy is in place of the NIC's.
        RunFlow::NetworkToDisk | RunFlow::NetworkToMemory => MemoryPassage {
            from_device: !loopback,
            received: true,
            page_cache,
            socket: loopback,
            leaves: if goal.flow.stores() { Leaves::ByDevice } else { Leaves::Stays },
            verify: goal.verify,
        },
        RunFlow::DiskToNetwork | RunFlow::DiskToDisk => MemoryPassage {
            from_device: true,
            received: sources.iter().any(|source| source.received_by_tcp),
            page_cache,
            socket: true,
            leaves: if loopback { Leaves::Copied } else { Leaves::ByDevice },
            verify: goal.verify,
        },
    };
    let least = MemoryPassage { socket: passage.socket && goal.flow.receives(), ..passage };
    least.touches() + copied * (passage.touches() - least.touches())
}

/// The machine's parts with the run's sources and paths as devices, and the resource that each device is of: a
/// volume is a device behind each of its members' functions.
fn run_parts(
    machine: &Machine,
    sources: &[SourcePlan],
    paths: &[PathPlan],
    loopback: bool,
) -> (MachineParts, BTreeMap<String, String>) {
    let mut parts = ProbedParts::new(machine);
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    let mut met: BTreeSet<&str> = BTreeSet::new();
    let disks = sources.iter().filter(|source| source.is_disk());
    for source in disks.filter(|source| met.insert(&source.resource)) {
        let members = members(machine, source.resource.trim_start_matches("disk:"), DEEPEST_VOLUMES);
        let places = if members.is_empty() { vec![None] } else { members.into_iter().map(Some).collect() };
        for disk in places {
            let name = names.len().to_string();
            names.insert(format!("disk:{name}"), source.resource.clone());
            parts.disk(name, disk, &source.node);
        }
    }
    for path in paths.iter().filter(|path| met.insert(&path.resource)) {
        let device = ByteDevice { name: names.len().to_string(), ..nic_device(machine, path, loopback) };
        names.insert(device.id(), path.resource.clone());
        let nic = path.nic.as_deref().and_then(|name| machine.nic(name));
        let node = nic.map_or(&path.node, |nic| &nic.node);
        parts.nic(device, nic.and_then(|nic| nic.pci.as_deref()), node);
    }
    (parts.done(), names)
}

/// The whole disks below a volume; none where it is none.
pub fn volume_members<'a>(machine: &'a Machine, name: &str) -> Vec<&'a str> {
    let below = members(machine, name, DEEPEST_VOLUMES);
    below.into_iter().map(|disk| disk.name.as_str()).filter(|disk| *disk != name).collect()
}

/// TCP of this host receives what some disk below a device reads, and copies it.
pub fn is_received_by_tcp(machine: &Machine, name: &str) -> bool {
    let below = members(machine, name, DEEPEST_VOLUMES);
    below.into_iter().any(|disk| disk_is_received_by_tcp(machine, disk))
}

/// The whole disks that a block device lies on: itself, or what its members lie on.
fn members<'a>(machine: &'a Machine, name: &str, depth: usize) -> Vec<&'a Disk> {
    let Some(disk) = machine.disk(name) else { return Vec::new() };
    if disk.pci.is_some() || disk.members.is_empty() || depth == 0 {
        return vec![disk];
    }
    let mut found: Vec<&Disk> =
        disk.members.iter().flat_map(|member| members(machine, member, depth - 1)).collect();
    found.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    found.dedup_by(|a, b| a.name == b.name);
    found
}

/// The port of a path with the path's own MTU; its place is set later.
fn nic_device(machine: &Machine, path: &PathPlan, loopback: bool) -> ByteDevice {
    let name = path.nic.as_deref().unwrap_or_else(|| path.resource.trim_start_matches("nic:"));
    let nic = machine.nic(name);
    let rate = match nic {
        _ if loopback => Fact::unknown("the host's own stack"),
        Some(nic) => line_rate(nic),
        None => Fact::unknown(format!("no interface {name} was read")),
    };
    let mtu = path.mtu.known().or(nic.and_then(|nic| nic.mtu.known())).copied();
    let what = DeviceKind::Nic {
        rate,
        mtu: Fact::from_option(mtu, "the MTU could not be read"),
        tagged: name.contains('.'),
        ipv6: path.peer.is_ipv6(),
        down: false,
    };
    ByteDevice { name: name.into(), group: name.into(), place: PartPlace::Unknown, what }
}

/// The id of a resource once the nodes are folded; none of a link between nodes.
fn folded_id(id: &str, names: &BTreeMap<String, String>) -> Option<String> {
    let (word, name) = id.split_once(':').unwrap_or((id, ""));
    match word {
        "socket-link" => None,
        "memory" | "cpu" => Some(word.to_string()),
        _ => Some(names.get(id).cloned().unwrap_or_else(|| format!("{word}:{name}"))),
    }
}

/// The graph with one memory and one CPU, the devices of a volume as one, and no links between nodes: a probed
/// machine reports no rate of those.
fn folded(graph: Vec<Resource>, names: &BTreeMap<String, String>) -> Vec<Resource> {
    let by_id: BTreeMap<&str, &Resource> =
        graph.iter().map(|resource| (resource.id.as_str(), resource)).collect();
    let mut folded: Vec<Resource> = Vec::new();
    for resource in &graph {
        let Some(id) = folded_id(&resource.id, names) else { continue };
        let next = onward(resource, &by_id, names);
        match folded.iter_mut().find(|other| other.id == id) {
            Some(other) => add(other, resource, next),
            None => folded.push(Resource { id, next, ..resource.clone() }),
        }
    }
    folded
}

/// Where bytes go from a resource, past links between nodes.
fn onward(
    resource: &Resource,
    by_id: &BTreeMap<&str, &Resource>,
    names: &BTreeMap<String, String>,
) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut met: BTreeSet<&str> = BTreeSet::new();
    let mut pending: Vec<&str> = resource.next.iter().rev().map(String::as_str).collect();
    while let Some(id) = pending.pop() {
        match folded_id(id, names) {
            _ if !met.insert(id) => {}
            Some(id) if !found.contains(&id) => found.push(id),
            Some(_) => {}
            None => pending.extend(by_id.get(id).into_iter().flat_map(|link| &link.next).map(String::as_str)),
        }
    }
    found
}

/// Two nodes' memory is their sum; unknown where one is.
fn add(sum: &mut Resource, one: &Resource, next: Vec<String>) {
    let new: Vec<String> = next.into_iter().filter(|id| !sum.next.contains(id)).collect();
    sum.next.extend(new);
    if sum.origin == Origin::Unknown || one.origin == Origin::Unknown {
        let why = if sum.origin == Origin::Unknown { sum.why.take() } else { one.why.clone() };
        let (id, next) = (std::mem::take(&mut sum.id), std::mem::take(&mut sum.next));
        *sum = Resource { next, ..Resource::unknown(id, sum.kind, why.unwrap_or_default()) };
        return;
    }
    let both = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| a + b);
    sum.best = both(Some(sum.best.unwrap_or(sum.capacity)), Some(one.best.unwrap_or(one.capacity)));
    sum.capacity += one.capacity;
    (sum.rated, sum.effective) = (both(sum.rated, one.rated), both(sum.effective, one.effective));
}

fn folded_solution(solution: Solution, names: &BTreeMap<String, String>) -> Solution {
    let mut cut: Vec<String> = Vec::new();
    for id in solution.cut.iter().filter_map(|id| folded_id(id, names)) {
        if !cut.contains(&id) {
            cut.push(id);
        }
    }
    let mut through: BTreeMap<String, f64> = BTreeMap::new();
    for (id, bytes) in &solution.through {
        if let Some(id) = folded_id(id, names) {
            *through.entry(id).or_default() += bytes;
        }
    }
    Solution { bytes_per_second: solution.bytes_per_second, cut, through }
}

/// What the parts do not know: why a disk has no rate, what the CPU costs, who receives.
fn complete(resources: &mut Vec<Resource>, machine: &Machine, paths: &[PathPlan], receives: bool) {
    if receives {
        end_in_cpu(resources);
    }
    for resource in resources.iter_mut() {
        match resource.kind {
            ResourceKind::Cpu => resource.why = Some("known once the CPU cost of a byte is measured".into()),
            ResourceKind::Disk => {
                let name = resource.id.strip_prefix("disk:").unwrap_or(&resource.id);
                let disk = machine.disk(name);
                resource.why = Some(why_unrated(machine, disk).into());
            }
            ResourceKind::Nic if !receives => {
                let own = paths.iter().filter(|path| path.resource == resource.id);
                resource.next = own.map(|path| path.receiver.clone()).collect();
                resource.next.dedup();
            }
            _ => {}
        }
    }
    for path in paths {
        match resources.iter_mut().find(|resource| resource.id == path.receiver) {
            Some(other) if receives && !other.next.contains(&path.resource) => {
                other.next.push(path.resource.clone());
            }
            Some(_) => {}
            None => resources.push(other_host(path, receives)),
        }
    }
    resources.sort_by_key(|resource| {
        let outward = match resource.kind {
            ResourceKind::Disk => 0,
            ResourceKind::Nic => 2,
            ResourceKind::Receiver | ResourceKind::Sender => 3,
            _ => 1,
        };
        if receives { 3 - outward } else { outward }
    });
}

/// The host at the other end of a path.
fn other_host(path: &PathPlan, receives: bool) -> Resource {
    if receives {
        let why = "what the sender gives is known once it is measured";
        let sender = Resource::unknown(&path.receiver, ResourceKind::Sender, why);
        return Resource { next: vec![path.resource.clone()], ..sender };
    }
    let why = "what the receiver takes is known once it is measured";
    Resource::unknown(&path.receiver, ResourceKind::Receiver, why)
}

/// What comes in and ends in memory is copied there by a CPU, which the graph of the parts leaves out.
fn end_in_cpu(resources: &mut Vec<Resource>) {
    if resources.iter().any(|resource| resource.kind == ResourceKind::Cpu) {
        return;
    }
    let Some(memory) = resources.iter_mut().find(|resource| resource.kind == ResourceKind::Memory) else {
        return;
    };
    memory.next = vec!["cpu".into()];
    resources.push(Resource::unknown("cpu", ResourceKind::Cpu, ""));
}

fn why_unrated(machine: &Machine, device: Option<&Disk>) -> &'static str {
    let virtual_machine = machine.virtualisation.known().is_some_and(|name| name != "none");
    match device.map(|disk| disk.kind) {
        None => "no block device of this machine: it is as fast as it is measured",
        Some(DiskKind::Loop) => "a loop device is as fast as the file behind it",
        Some(DiskKind::Dm | DiskKind::Md) => "a volume is as fast as its members",
        Some(_) if virtual_machine => "a virtual machine's disk has no data sheet",
        Some(_) => "no data sheet of the disk can be read from the system",
    }
}
