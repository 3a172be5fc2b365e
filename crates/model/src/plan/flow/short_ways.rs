//! Ways that are not those of each device to its own node's memory: links between nodes, each direction a resource; and
//! GPUDirect RDMA, where a NIC and a GPU below one switch exchange bytes over that switch alone, without its uplink and
//! without the host's memory.

use super::figures::rated;
use super::product::{Flow, FlowEnd, Method};
use crate::plan::parts::{ByteDevice, JointKind, MachineParts};
use crate::plan::{Resource, ResourceKind};
use std::collections::{BTreeMap, BTreeSet};

/// Links between nodes, each direction one resource.
pub(super) struct Links {
    pub all: Vec<SocketWay>,
}

/// One direction of a link.
pub(super) struct SocketWay {
    pub from: u32,
    pub to: Vec<u32>,
    pub resource: Resource,
}

impl Links {
    /// The links that the machine reports; where it reports none, what leaves each node, of unknown capacity.
    pub(crate) fn new(parts: &MachineParts) -> Self {
        let mut all = Vec::new();
        for link in &parts.socket_links {
            let (a, b) = link.between;
            for (from, to) in [(a, b), (b, a)] {
                let id = format!("socket-link:{from}>{to}");
                let mut resource =
                    rated(Resource::unknown(id, ResourceKind::SocketLink, ""), &link.bytes_per_second);
                if resource.rated.is_some() {
                    resource.why = Some(link.words.clone());
                }
                all.push(SocketWay { from, to: vec![to], resource });
            }
        }
        if all.is_empty() && parts.nodes.len() > 1 {
            let why = "no rate of the links between the sockets is known";
            for node in &parts.nodes {
                let id = format!("socket-link:{}", node.id);
                let resource = Resource::unknown(id, ResourceKind::SocketLink, why);
                let to = parts.nodes.iter().map(|other| other.id).filter(|id| *id != node.id).collect();
                all.push(SocketWay { from: node.id, to, resource });
            }
        }
        Links { all }
    }

    /// Ids of the links that leave a node.
    pub(crate) fn leaving(&self, node: u32) -> impl Iterator<Item = String> {
        self.all.iter().filter(move |link| link.from == node).map(|link| link.resource.id.clone())
    }

    /// Ids of the links that bytes take after this one at `node`; none where one link reaches every node.
    pub(crate) fn onward(&self, link: &SocketWay, node: u32) -> Vec<String> {
        let direct = link.to.len() > 1;
        let back = link.from;
        let on = self.all.iter().filter(|next| !direct && next.from == node && next.to != [back]);
        on.map(|next| next.resource.id.clone()).collect()
    }
}

/// Which NICs and GPUs of a flow exchange bytes by GPUDirect RDMA.
#[derive(Clone, Debug, Default)]
pub(super) struct GpuDirect {
    /// The switch that a NIC and a GPU are below, nearest to them.
    pairs: BTreeMap<(String, String), String>,
    /// NICs of a pair of which one end does not report it.
    taken: BTreeSet<String>,
    nics: usize,
    /// There is a pair below no common switch of which neither end reports that it cannot.
    is_anywhere: bool,
}

impl GpuDirect {
    /// Of a flow from NICs to GPUs by RDMA. Taken as working where neither end reports that it does not.
    pub(super) fn new(parts: &MachineParts, flow: &Flow) -> Self {
        let mut found = GpuDirect::default();
        if flow.method != Method::Rdma {
            return found;
        }
        let of = |ends: &[FlowEnd], word: &str| -> Vec<&ByteDevice> {
            let is_end = |device: &&ByteDevice| {
                device.what.word() == word && ends.contains(&FlowEnd::Device(device.id()))
            };
            parts.devices.iter().filter(is_end).collect()
        };
        let (nics, gpus) = (of(&flow.from, "nic"), of(&flow.to, "gpu"));
        found.nics = nics.len();
        for nic in nics {
            for gpu in gpus.iter().filter(|gpu| works(parts, nic) && works(parts, gpu)) {
                match common_switch(parts, nic, gpu) {
                    Some(switch) => {
                        if !(reports(parts, nic) && reports(parts, gpu)) {
                            found.taken.insert(nic.id());
                        }
                        found.pairs.insert((nic.id(), gpu.id()), switch);
                    }
                    None => found.is_anywhere = true,
                }
            }
        }
        found
    }

    /// It is taken as working with a NIC: neither its card nor that of a GPU below its switch reports it.
    pub(super) fn is_taken(&self, nic: &ByteDevice) -> bool {
        self.taken.contains(&nic.id())
    }

    /// The switch over which a NIC reaches a GPU, if it does so past memory.
    pub(super) fn switch(&self, nic: &ByteDevice, gpu: &ByteDevice) -> Option<&String> {
        self.pairs.get(&(nic.id(), gpu.id()))
    }

    /// Some do so below no common switch, or may.
    pub(super) fn may_be_anywhere(&self) -> bool {
        self.is_anywhere
    }

    /// Every NIC of the flow has such a GPU.
    pub(super) fn of_all_nics(&self) -> bool {
        let mut with: Vec<&String> = self.pairs.keys().map(|(nic, _)| nic).collect();
        with.dedup();
        self.nics > 0 && with.len() == self.nics
    }

    pub(super) fn of_some(&self) -> bool {
        !self.pairs.is_empty()
    }
}

/// Its card does not say that it does not.
fn works(parts: &MachineParts, device: &ByteDevice) -> bool {
    parts.above(&device.place).iter().all(|joint| joint.gpu_direct != Some(false))
}

fn reports(parts: &MachineParts, device: &ByteDevice) -> bool {
    parts.above(&device.place).iter().any(|joint| joint.gpu_direct.is_some())
}

fn common_switch(parts: &MachineParts, nic: &ByteDevice, gpu: &ByteDevice) -> Option<String> {
    let others = parts.above(&gpu.place);
    let is_common = |name: &str| others.iter().any(|other| other.name == name);
    let above = parts.above(&nic.place);
    let mut switches = above.iter().filter(|joint| joint.kind == JointKind::Switch && is_common(&joint.name));
    switches.next().map(|joint| joint.name.clone())
}
