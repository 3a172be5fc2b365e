//! The resources of a flow over parts, in the order of the bytes: (volume →) source → joints → (link between
//! sockets →) memory → CPU → (link between sockets →) joints → sink (→ volume).
//!
//! Buffers lie on the node of the NIC, where its worker runs, whether it sends or receives; without a NIC at
//! the sink, so that a byte crosses between nodes at most once, and each direction of a link is one resource.
//! What both directions of the flow use has a second resource with `/out` at its end; where both share the
//! rate (a parallel bus), each has half: every byte passes twice.

use super::figures::{self, USUAL_MTU, rated, stack, with_reason};
use super::product::{Flow, FlowEnd, Method};
use super::short_ways::{GpuDirect, Links};
use crate::plan::parts::{ByteDevice, DeviceKind, Joint, MachineParts, Node, PartPlace, Volume, crossings};
use crate::plan::{Origin, Resource, ResourceKind};
use linerate_facts::fact::Fact;
use linerate_facts::units::show_bits_rate;
use linerate_facts::wording;
use linerate_machine::rates::ethernet::payload_bytes;
use linerate_machine::rates::pcie::PayloadDirection;
use linerate_machine::topology::FRAME_HEADER_BYTES;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// All resources, sources first; each byte crosses the memory bus `touches` times.
pub(in crate::plan) fn resources(parts: &MachineParts, flow: &Flow, touches: f64) -> Vec<Resource> {
    Graph::new(parts, flow, touches).build()
}

struct Graph<'a> {
    parts: &'a MachineParts,
    flow: &'a Flow,
    /// Crossings of the memory bus by one byte.
    touches: f64,
    sources: Vec<&'a ByteDevice>,
    sinks: Vec<&'a ByteDevice>,
    /// Nodes whose memory holds buffers.
    buffers: BTreeSet<u32>,
    /// Bytes cross between nodes before memory, or after it.
    cross_in: bool,
    cross_out: bool,
    direct: GpuDirect,
    joints: HashMap<&'a str, &'a Joint>,
    found: Vec<Resource>,
    at: HashMap<String, usize>,
}

impl<'a> Graph<'a> {
    fn new(parts: &'a MachineParts, flow: &'a Flow, touches: f64) -> Self {
        let by_id: HashMap<String, &ByteDevice> =
            parts.devices.iter().map(|device| (device.id(), device)).collect();
        let devices = |ends: &[FlowEnd]| -> Vec<&'a ByteDevice> {
            let device = |end: &FlowEnd| match end {
                FlowEnd::Device(id) => by_id.get(id).copied(),
                FlowEnd::Memory => None,
            };
            ends.iter().filter_map(device).collect()
        };
        let (sources, sinks) = (devices(&flow.from), devices(&flow.to));
        let joints = parts.joints.iter().map(|joint| (joint.name.as_str(), joint)).collect();
        let mut graph = Graph {
            parts,
            flow,
            touches,
            buffers: BTreeSet::new(),
            cross_in: false,
            cross_out: false,
            direct: GpuDirect::new(parts, flow),
            joints,
            found: Vec::new(),
            at: HashMap::new(),
            sources,
            sinks,
        };
        let receives = graph.sources.iter().any(|device| matches!(device.what, DeviceKind::Nic { .. }));
        let at_source = !graph.sources.is_empty() && (receives || graph.sinks.is_empty());
        let deciding = if at_source { &graph.sources } else { &graph.sinks };
        graph.buffers = graph.nodes_of(deciding);
        graph.cross_in = !graph.sources.is_empty() && !at_source;
        graph.cross_out = at_source && !graph.sinks.is_empty();
        graph
    }

    /// Joints above a place, nearest first.
    fn above(&self, place: &PartPlace) -> Vec<&'a Joint> {
        let mut found: Vec<&'a Joint> = Vec::new();
        let mut at = place;
        while let PartPlace::Joint(name) = at {
            let Some(joint) = self.joints.get(name.as_str()) else { break };
            if found.len() >= linerate_machine::topology::DEEPEST {
                break;
            }
            found.push(joint);
            at = &joint.up;
        }
        found
    }

    fn node_of(&self, place: &PartPlace) -> Option<u32> {
        let above = self.above(place);
        match above.last().map_or(place, |joint| &joint.up) {
            PartPlace::Node(id) => Some(*id),
            _ => None,
        }
    }

    /// Nodes of these devices; all nodes where one does not report its own.
    fn nodes_of(&self, devices: &[&ByteDevice]) -> BTreeSet<u32> {
        let own: Option<BTreeSet<u32>> = devices.iter().map(|device| self.node_of(&device.place)).collect();
        let all = || self.parts.nodes.iter().map(|node| node.id).collect();
        own.filter(|nodes| !nodes.is_empty()).unwrap_or_else(all)
    }

    fn build(mut self) -> Vec<Resource> {
        let (sources, sinks) = (self.sources.clone(), self.sinks.clone());
        let used = |graph: &Self, devices: &[&ByteDevice]| -> BTreeSet<String> {
            devices
                .iter()
                .flat_map(|device| graph.above(&device.place))
                .map(|joint| joint.name.clone())
                .collect()
        };
        let both: BTreeSet<String> =
            used(&self, &sources).intersection(&used(&self, &sinks)).cloned().collect();
        let links = Links::new(self.parts);
        for device in &sources {
            self.source(device, &both, &links);
        }
        if self.cross_in {
            self.put_links(&links, |graph, node| graph.memory_id(node).into_iter().collect());
        }
        let exits = self.exits(&sinks, &both);
        for id in self.buffers.clone() {
            self.memory(id, &exits, &links);
        }
        if self.cross_out {
            self.put_links(&links, |_, node| exits.get(&Some(node)).cloned().unwrap_or_default());
        }
        for device in &sinks {
            self.sink(device, &both);
        }
        self.drop_what_no_source_reaches();
        self.found
    }

    /// A resource that nothing leads to would be a source of its own to the model: a link from a node without
    /// a device.
    fn drop_what_no_source_reaches(&mut self) {
        let mut reached: BTreeSet<String> = self.sources.iter().map(|device| device.id()).collect();
        reached.extend(self.sources.iter().filter_map(|device| Some(self.volume(device)?.id())));
        if self.sources.is_empty() {
            reached.extend(self.buffers.iter().filter_map(|node| self.memory_id(*node)));
        }
        let mut pending: Vec<String> = reached.iter().cloned().collect();
        while let Some(id) = pending.pop() {
            let next = self.at.get(&id).map(|at| self.found[*at].next.clone()).unwrap_or_default();
            pending.extend(next.into_iter().filter(|id| reached.insert(id.clone())));
        }
        self.found.retain(|resource| reached.contains(&resource.id));
    }

    /// Adds a resource, or what it leads to where it is there already.
    fn put(&mut self, resource: Resource) {
        match self.at.get(&resource.id) {
            Some(at) => {
                let next = &mut self.found[*at].next;
                for id in resource.next {
                    if !next.contains(&id) {
                        next.push(id);
                    }
                }
            }
            None => {
                self.at.insert(resource.id.clone(), self.found.len());
                self.found.push(resource);
            }
        }
    }

    fn memory_id(&self, node: u32) -> Option<String> {
        self.buffers.contains(&node).then(|| self.node_id("memory", node))
    }

    fn node_id(&self, word: &str, node: u32) -> String {
        if self.parts.nodes.len() == 1 { word.to_string() } else { format!("{word}:{node}") }
    }

    fn source(&mut self, device: &ByteDevice, both: &BTreeSet<String>, links: &Links) {
        let mut own = self.end(device, PayloadDirection::ToMemory);
        let mut chain = self.chain(device, PayloadDirection::ToMemory, both, &BTreeSet::new());
        take_its_link(&mut own, chain.first());
        let entrance = match self.node_of(&device.place) {
            Some(node) => {
                let mut to: Vec<String> = self.memory_id(node).into_iter().collect();
                to.extend(links.leaving(node).filter(|_| self.cross_in));
                to
            }
            None => self.buffers.iter().filter_map(|node| self.memory_id(*node)).collect(),
        };
        let firsts: Vec<String> = chain.iter().map(|resource| resource.id.clone()).collect();
        own.next = firsts.first().cloned().map_or_else(|| entrance.clone(), |id| vec![id]);
        for (index, resource) in chain.iter_mut().enumerate() {
            resource.next = firsts.get(index + 1).cloned().map_or_else(|| entrance.clone(), |id| vec![id]);
        }
        self.past_memory(device, &mut own, &mut chain, both);
        if let Some(volume) = self.volume(device) {
            let resource = volume.resource(self.parts, PayloadDirection::ToMemory);
            self.put(Resource { next: vec![own.id.clone()], ..resource });
        }
        self.put(own);
        chain.into_iter().for_each(|resource| self.put(resource));
    }

    /// To the GPUs below a switch that this NIC is below, too: past its uplink and past memory.
    fn past_memory(
        &self,
        nic: &ByteDevice,
        own: &mut Resource,
        chain: &mut [Resource],
        both: &BTreeSet<String>,
    ) {
        if self.direct.is_taken(nic) {
            own.why = Some(with_reason(&own.why, "GPUDirect to the GPUs below its switch taken as working"));
        }
        for gpu in &self.sinks {
            let Some(switch) = self.direct.switch(nic, gpu) else { continue };
            let below = |device: &ByteDevice, direction, suffixed: &BTreeSet<String>| -> Vec<String> {
                let joints = self.above(&device.place).into_iter().take_while(|joint| joint.name != *switch);
                let crossed = joints.flat_map(|joint| self.crossed(joint, direction, both, suffixed));
                crossed.map(|resource| resource.id).collect()
            };
            let up = below(nic, PayloadDirection::ToMemory, &BTreeSet::new()).len();
            let down = below(gpu, PayloadDirection::FromMemory, both).pop().unwrap_or_else(|| gpu.id());
            let last = if up == 0 { &mut *own } else { &mut chain[up - 1] };
            if !last.next.contains(&down) {
                last.next.push(down);
            }
        }
    }

    /// The volume of this flow that a disk is in.
    fn volume(&self, device: &ByteDevice) -> Option<&'a Volume> {
        let mut volumes = self.flow.volumes.iter().filter_map(|name| self.parts.volume(name));
        volumes.find(|volume| volume.has(device))
    }

    fn end(&self, device: &ByteDevice, direction: PayloadDirection) -> Resource {
        figures::device(device, direction, self.flow.protocol, self.flow.method)
    }

    fn sink(&mut self, device: &ByteDevice, both: &BTreeSet<String>) {
        let mut own = self.end(device, PayloadDirection::FromMemory);
        let volume =
            self.volume(device).map(|volume| volume.resource(self.parts, PayloadDirection::FromMemory));
        own.next = volume.iter().map(|volume| volume.id.clone()).collect();
        let mut chain = self.chain(device, PayloadDirection::FromMemory, both, both);
        chain.reverse();
        let mut below = Some(own.id.clone());
        for resource in chain.iter_mut().rev() {
            resource.next = below.replace(resource.id.clone()).into_iter().collect();
        }
        chain.into_iter().for_each(|resource| self.put(resource));
        self.put(own);
        volume.into_iter().for_each(|resource| self.put(resource));
    }

    /// Where bytes go from a node's memory: the sinks' sides of it, and the links to other nodes. Those of
    /// sinks whose node is not known stand under none.
    fn exits(&self, sinks: &[&ByteDevice], both: &BTreeSet<String>) -> BTreeMap<Option<u32>, Vec<String>> {
        let mut exits: BTreeMap<Option<u32>, Vec<String>> = BTreeMap::new();
        for device in sinks {
            let chain = self.chain(device, PayloadDirection::FromMemory, both, both);
            let first = chain.last().map_or_else(|| device.id(), |resource| resource.id.clone());
            let here = exits.entry(self.node_of(&device.place)).or_default();
            if !here.contains(&first) {
                here.push(first);
            }
        }
        exits
    }

    /// Joints of a device as resources, nearest first.
    fn chain(
        &self,
        device: &ByteDevice,
        direction: PayloadDirection,
        both: &BTreeSet<String>,
        suffixed: &BTreeSet<String>,
    ) -> Vec<Resource> {
        let joints = self.above(&device.place).into_iter();
        joints.flat_map(|joint| self.crossed(joint, direction, both, suffixed)).collect()
    }

    /// What bytes cross at one joint.
    fn crossed(
        &self,
        joint: &Joint,
        direction: PayloadDirection,
        both: &BTreeSet<String>,
        suffixed: &BTreeSet<String>,
    ) -> Vec<Resource> {
        let devices = if direction == PayloadDirection::ToMemory { &self.sources } else { &self.sinks };
        let mut chain = Vec::new();
        for crossing in crossings(self.parts, joint, direction) {
            let mut resource = crossing.resource;
            if crossing.half_duplex && both.contains(&joint.name) {
                resource.capacity /= 2.0;
                resource.best = resource.best.map(|best| best / 2.0);
                resource.effective = resource.rated.map(|rate| rate / 2.0);
                resource.why = Some(with_reason(&resource.why, "every byte passes twice"));
            }
            if let Some(share) = self.frame_share(joint, devices).filter(|_| resource.capacity > 0.0) {
                // The headers of the best case are fewer: they are not taken off. What the link carries, frames'
                // headers and all, stays beside it.
                resource.best = resource.best.or(Some(resource.capacity));
                let carries = format!("{} with frame headers", show_bits_rate(resource.capacity));
                resource.why = Some(with_reason(&resource.why, &carries));
                resource.capacity *= share;
            }
            if suffixed.contains(&joint.name) {
                resource.id.push_str("/out");
            }
            chain.push(resource);
        }
        chain
    }

    /// Payload ÷ bytes of a frame, where all that the flow has behind a joint are NICs. With RDMA the NIC packs
    /// and unpacks: only payload crosses.
    fn frame_share(&self, joint: &Joint, devices: &[&ByteDevice]) -> Option<f64> {
        if self.flow.method == Method::Rdma {
            return None;
        }
        let mut least: Option<f64> = None;
        for device in devices {
            if !self.above(&device.place).iter().any(|above| above.name == joint.name) {
                continue;
            }
            let DeviceKind::Nic { mtu, ipv6, .. } = &device.what else { return None };
            let mtu = mtu.known().copied().unwrap_or(USUAL_MTU);
            let payload = f64::from(payload_bytes(mtu, stack(self.flow.protocol, *ipv6))?);
            let share = payload / (f64::from(mtu) + FRAME_HEADER_BYTES);
            least = Some(least.map_or(share, |least| least.min(share)));
        }
        least
    }

    fn memory(&mut self, id: u32, exits: &BTreeMap<Option<u32>, Vec<String>>, links: &Links) {
        let Some(node) = self.parts.node(id).cloned() else { return };
        let touches = self.touches;
        let mut memory = rated(
            Resource::unknown(self.node_id("memory", id), ResourceKind::Memory, ""),
            &node.memory_bytes_per_second,
        );
        if memory.rated.is_some() {
            // A GPU and a NIC of which that is not reported may exchange bytes past memory.
            let best = if self.direct.may_be_anywhere() { f64::INFINITY } else { memory.capacity / touches };
            memory.best = Some(best);
            memory.capacity = memory.capacity / touches * node.memory_efficiency.unwrap_or(1.0);
            memory.effective = Some(memory.capacity);
            memory.origin = Origin::Effective;
            let reached = node.memory_efficiency.map_or(String::new(), |share| {
                format!("{:.0} % of the rated, which is what such memory reaches; ", 100.0 * share)
            });
            memory.why = Some(format!("{reached}each byte crosses the memory bus {touches} times"));
        }
        let mut onward: Vec<String> =
            [Some(id), None].iter().filter_map(|at| exits.get(at)).flatten().cloned().collect();
        if self.cross_out {
            onward.extend(links.leaving(id));
        }
        let nics = self.sources.iter().chain(&self.sinks);
        if nics.clone().any(|device| matches!(device.what, DeviceKind::Nic { .. })) && !self.sinks.is_empty()
        {
            let cpu = self.cpu(&node, onward);
            memory.next = vec![cpu.id.clone()];
            self.put(memory);
            self.put(cpu);
        } else {
            memory.next = onward;
            self.put(memory);
        }
    }

    fn cpu(&self, node: &Node, next: Vec<String>) -> Resource {
        let mut cpu = Resource::unknown(self.node_id("cpu", node.id), ResourceKind::Cpu, "");
        match (&node.cores, &self.parts.cpu_seconds_per_gb) {
            (Fact::Known(cores), Fact::Known(cost)) if *cores > 0.0 && *cost > 0.0 => {
                cpu.capacity = cores / cost * 1e9;
                cpu.origin = Origin::Effective;
                cpu.effective = Some(cpu.capacity);
                cpu.why = Some(format!("{} at {cost} CPU seconds per GB", wording::cores(*cores)));
            }
            (_, Fact::Unknown { why }) | (Fact::Unknown { why }, _) => cpu.why = Some(why.clone()),
            _ => cpu.why = Some("the node has no cores of its own".into()),
        }
        cpu.next = next;
        cpu
    }

    /// Adds the links; `ends` is where bytes leave them at a node. A link that leads nowhere is left out.
    fn put_links(&mut self, links: &Links, ends: impl Fn(&Self, u32) -> Vec<String>) {
        let mut kept: Vec<Resource> = links
            .all
            .iter()
            .map(|link| {
                let mut resource = link.resource.clone();
                for node in &link.to {
                    resource.next.extend(ends(self, *node));
                    resource.next.extend(links.onward(link, *node));
                }
                resource.next.sort();
                resource.next.dedup();
                resource
            })
            .collect();
        let links_only: BTreeSet<String> = links.all.iter().map(|link| link.resource.id.clone()).collect();
        loop {
            let there: BTreeSet<String> = kept.iter().map(|resource| resource.id.clone()).collect();
            kept.iter_mut().for_each(|resource| {
                resource.next.retain(|id| !links_only.contains(id) || there.contains(id))
            });
            let before = kept.len();
            kept.retain(|resource| !resource.next.is_empty());
            if kept.len() == before {
                break;
            }
        }
        kept.into_iter().for_each(|resource| self.put(resource));
        let there: BTreeSet<String> = self.found.iter().map(|resource| resource.id.clone()).collect();
        for resource in &mut self.found {
            resource.next.retain(|id| !links_only.contains(id) || there.contains(id));
        }
    }
}

/// A drive of unknown rate reads about what its own link carries: that is the usual case, and said.
fn take_its_link(disk: &mut Resource, link: Option<&Resource>) {
    let has_link = link.is_some_and(|link| link.kind == ResourceKind::Pcie && link.capacity > 0.0);
    if disk.kind == ResourceKind::Disk && disk.origin == Origin::Unknown && has_link {
        disk.why = Some(with_reason(&disk.why, "taken as what its link carries"));
        disk.never_binds = true;
    }
}
