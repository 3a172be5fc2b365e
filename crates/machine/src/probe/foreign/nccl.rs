//! NCCL's topology XML (`NCCL_TOPO_DUMP_FILE`, or written by hand by those who rent out GPU servers):
//! processors, PCI tree, NICs.
//!
//! Elements and attributes as in NCCL's `src/graph/xml.cc`. A `<pci>` is a device with the link above it; the
//! ports between a switch's two sides are left out. Its speed and width are the most that both ends can do,
//! not what runs now: NCCL reads `max_link_speed` of the device and of the port and takes the lower. Both of
//! the machine's links are filled with it.

use super::topology_xml::{self, TopologyError};
use crate::probe::{
    Cpu, Express, LogicalCpu, Machine, Memory, Nic, NumaNode, PciDevice, PciLink, PortKind, in_order,
};
use linerate_facts::fact::Fact;
use roxmltree::Node;
use std::collections::BTreeMap;

const ABSENT: &str = "NCCL does not report";

/// Reads a topology.
pub(crate) fn from_nccl(text: &str) -> Result<Machine, TopologyError> {
    let document = topology_xml::parse(text)?;
    let root = document.root_element();
    if root.tag_name().name() != "system" {
        let name = root.tag_name().name();
        let what = format!("a <{name}>, not the <system> of NCCL; make the file with NCCL_TOPO_DUMP_FILE");
        return Err(TopologyError::at(text, root, what));
    }
    let mut topology = Topology { text, ..Default::default() };
    for cpu in root.children().filter(|child| child.has_tag_name("cpu")) {
        topology.cpu(cpu)?;
    }
    match topology.nodes.is_empty() && topology.pci.is_empty() {
        true => Err(TopologyError::Empty("the <system> has no <cpu> with anything in it")),
        false => Ok(topology.machine()),
    }
}

#[derive(Default)]
struct Topology<'a> {
    text: &'a str,
    /// Processors of each node.
    nodes: BTreeMap<u32, Vec<u32>>,
    /// What NCCL says of the processor, where it says it.
    processor: Option<String>,
    pci: BTreeMap<(usize, String), PciDevice>,
    nics: Vec<Nic>,
}

impl Topology<'_> {
    fn cpu(&mut self, element: Node) -> Result<(), TopologyError> {
        let attribute = |name: &str| element.attribute(name).filter(|text| !text.is_empty());
        let node = attribute("numaid").and_then(|text| text.parse::<u32>().ok());
        if let Some(node) = node {
            let cpus = match attribute("affinity") {
                Some(mask) => topology_xml::parse_set(mask).ok_or_else(|| {
                    let what = format!("affinity “{mask:.40}” is not a mask of processors");
                    TopologyError::at(self.text, element, what)
                })?,
                None => Vec::new(),
            };
            self.nodes.entry(node).or_default().extend(cpus);
        }
        if let (Some(vendor), Some(family), Some(model)) =
            (attribute("vendor"), attribute("familyid"), attribute("modelid"))
        {
            self.processor.get_or_insert_with(|| format!("{vendor} family {family} model {model}"));
        }
        self.below(element, None, node)
    }

    fn below(&mut self, element: Node, parent: Option<&str>, node: Option<u32>) -> Result<(), TopologyError> {
        for child in element.children().filter(Node::is_element) {
            match child.tag_name().name() {
                "pci" => {
                    let Some(address) = child.attribute("busid").map(str::to_ascii_lowercase) else {
                        return Err(TopologyError::at(self.text, child, "this <pci> has no busid"));
                    };
                    let device = device(child, &address, parent, node);
                    self.pci.entry((address.len(), address.clone())).or_insert(device);
                    self.below(child, Some(&address), node)?;
                }
                "nic" => self.below(child, parent, node)?,
                "net" => {
                    self.port(nic(child, parent, node), child);
                    self.gpu_direct(child, parent);
                }
                "gpu" => self.gpu_direct(child, parent),
                _ => {}
            }
        }
        Ok(())
    }

    /// The ports of one device may have one name: each further one has its number as well.
    fn port(&mut self, nic: Option<Nic>, element: Node) {
        let Some(mut nic) = nic else { return };
        let number = element.attribute("port").and_then(|port| port.trim().parse::<u32>().ok());
        let same = self.nics.iter().any(|other| other.name == nic.name && other.pci == nic.pci);
        if let Some(number) = number.filter(|number| same && *number > 1) {
            nic.name = format!("{}/{number}", nic.name);
        }
        self.nics.push(nic);
    }

    /// What `gdr` says of the function that a GPU or a port is on: of two ports both must have it.
    fn gpu_direct(&mut self, element: Node, function: Option<&str>) {
        let Some(works) = element.attribute("gdr").map(|text| text.trim() != "0") else { return };
        let Some(address) = function else { return };
        if let Some(device) = self.pci.get_mut(&(address.len(), address.to_string())) {
            device.gpu_direct = Some(works && device.gpu_direct != Some(false));
        }
    }

    fn machine(mut self) -> Machine {
        let mut logical: BTreeMap<u32, LogicalCpu> = BTreeMap::new();
        for (node, cpus) in &mut self.nodes {
            cpus.sort_unstable();
            cpus.dedup();
            for id in cpus.iter() {
                logical.entry(*id).or_insert_with(|| LogicalCpu {
                    id: *id,
                    node: Fact::Known(*node),
                    online: true,
                    ..Default::default()
                });
            }
        }
        let nodes = self.nodes.into_iter().map(|(id, cpus)| NumaNode { id, cpus, ..Default::default() });
        self.nics.sort_by(|a, b| in_order(&a.name, &b.name));
        self.nics.dedup_by(|a, b| a.name == b.name);
        Machine {
            cpu: Cpu {
                model: match self.processor {
                    Some(processor) => Fact::unknown(format!("NCCL reports only {processor}")),
                    None => Fact::unknown(ABSENT),
                },
                logical: logical.into_values().collect(),
                ..Default::default()
            },
            memory: Memory { nodes: nodes.collect(), ..Default::default() },
            pci: self.pci.into_values().collect(),
            nics: self.nics,
            ..Default::default()
        }
    }
}

fn device(element: Node, address: &str, parent: Option<&str>, node: Option<u32>) -> PciDevice {
    let hexadecimal = |name: &str| {
        let text = element.attribute(name).map(|text| text.trim().trim_start_matches("0x"));
        Fact::from_option(text.and_then(|text| u32::from_str_radix(text, 16).ok()), ABSENT)
    };
    // Topologies written by hand have 0x0000 and 0xffff for what their author did not know.
    let identity = |name: &str| match hexadecimal(name) {
        Fact::Known(0 | 0xffff) => Fact::unknown(ABSENT),
        other => other,
    };
    let link = link(element);
    PciDevice {
        address: address.to_string(),
        parent: parent.map(str::to_string),
        class: hexadecimal("class"),
        vendor: identity("vendor"),
        device: identity("device"),
        node: Fact::from_option(node, ABSENT),
        express: Express { port: port_kind(hexadecimal("class").known().copied()), ..Default::default() },
        link_max: link.clone(),
        link,
        ..Default::default()
    }
}

/// A bridge is the upper side of a switch, all else a card: root ports and the lower sides of switches are left out.
fn port_kind(class: Option<u32>) -> Fact<PortKind> {
    let kind = |class: u32| match class >> 8 {
        0x0604 => PortKind::SwitchUpstream,
        _ => PortKind::Endpoint,
    };
    Fact::from_option(class.map(kind), ABSENT)
}

/// `link_speed="32.0 GT/s PCIe" link_width="16"`; empty and 0 in virtual machines.
fn link(element: Node) -> Fact<PciLink> {
    let speed = element.attribute("link_speed").and_then(|speed| speed.split_once("GT/s"));
    let speed = speed.and_then(|(number, _)| number.trim().parse::<f64>().ok());
    let speed = speed.filter(|speed| [2.5, 5.0, 8.0, 16.0, 32.0, 64.0, 128.0].contains(speed));
    let width = element.attribute("link_width").and_then(|width| width.trim().parse::<u32>().ok());
    match (speed, width) {
        (Some(gt_per_second), Some(width @ 1..=32)) => Fact::Known(PciLink { gt_per_second, width }),
        _ => Fact::unknown("NCCL reports no link: a virtual machine hides it"),
    }
}

/// `<net name="mlx5_0" speed="200000" port="1" …/>`: Mb/s of one port. The name is that of the RDMA device,
/// or of the interface.
fn nic(element: Node, parent: Option<&str>, node: Option<u32>) -> Option<Nic> {
    let speed = element.attribute("speed").and_then(|speed| speed.trim().parse::<u64>().ok());
    let speed = speed.filter(|megabits| *megabits > 0).and_then(|megabits| megabits.checked_mul(1_000_000));
    let name = element.attribute("name").filter(|name| !name.is_empty())?;
    Some(Nic {
        name: name.to_string(),
        speed_bits_per_second: Fact::from_option(speed, ABSENT),
        node: Fact::from_option(node, ABSENT),
        pci: parent.map(str::to_string),
        ..Default::default()
    })
}

#[cfg(test)]
mod tests;
