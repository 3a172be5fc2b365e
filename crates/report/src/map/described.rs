//! The picture of a machine's parts as `linerate plan` has them, described in a file or changed by a what-if: hubs,
//! slots (free ones, too), cards, controllers, disks and ports, like figures 1, 2 and 7 of SARA's D1.1 and D1.3.

use super::parts::{Branch, Chip, Edge, EdgeStyle, Leaf, NodeBox, Part, Picture, joined};
use super::strip;
use super::tree::{folded, grouped};
use linerate_facts::grouping;
use linerate_facts::units::{show_bits_rate, show_bytes_rate};
use linerate_facts::wording::counted;
use linerate_machine::probe::{PciLink, cpu_list};
use linerate_machine::rates::pcie::{
    PayloadDirection, payload_bytes_per_second, raw_bytes_per_second, usual_max_payload_bytes,
};
use linerate_model::plan::parts::{
    ByteDevice, DeviceKind, Joint, JointKind, MachineParts, Node, PartPlace, Volume,
};
use std::collections::BTreeSet;

/// More nodes than these with nothing plugged in are not drawn one by one.
const MOST_BARE: usize = 4;

/// The picture of a machine's parts.
pub(super) fn picture(parts: &MachineParts) -> Picture {
    let mut drawn = Drawn { parts, met: BTreeSet::new() };
    let nodes: Vec<NodeBox> = parts.nodes.iter().map(|node| drawn.node(node)).collect();
    let (bare, mut nodes): (Vec<NodeBox>, Vec<NodeBox>) =
        nodes.into_iter().partition(|node| node.roots.is_empty());
    let mut strips = Vec::new();
    if nodes.is_empty() || bare.len() <= MOST_BARE {
        nodes.extend(bare);
        nodes.sort_by_key(|node| node.id);
    } else {
        strips.extend(strip("Nodes with nothing plugged in", alike(&bare)));
    }
    let lost = drawn.roots(&PartPlace::Unknown);
    if !lost.is_empty() {
        nodes.push(NodeBox { title: "On no known node".into(), roots: lost, ..NodeBox::default() });
    }
    let links: Vec<String> = parts.socket_links.iter().map(socket_link).collect();
    let between = match links.as_slice() {
        [] => "The link between the nodes is not described".to_string(),
        links => links.join(" · "),
    };
    strips.extend(strip("Volumes", parts.volumes.iter().map(volume).collect()));
    Picture {
        host: parts.name.clone(),
        about: parts.processors.clone(),
        between: (parts.nodes.len() > 1).then_some(between),
        nodes,
        strips,
        ..Picture::default()
    }
}

/// Nodes that differ in their numbers alone, as one chip.
fn alike(nodes: &[NodeBox]) -> Vec<Chip> {
    let groups = grouping::grouped(nodes, |a, b| (&a.cpu, &a.memory) == (&b.cpu, &b.memory));
    let chip = |group: &Vec<&NodeBox>| {
        let words = group[0].cpu.iter().chain(&group[0].memory).cloned();
        let ids: Vec<u32> = group.iter().filter_map(|node| node.id).collect();
        let title = format!("{} · {}", counted(group.len(), "node"), words.collect::<Vec<_>>().join(", "));
        let ids = format!("node {}", cpu_list::show(&ids));
        Chip { tip: format!("{title} · {ids}"), title, sub: ids, ..Chip::default() }
    };
    groups.iter().map(chip).collect()
}

fn socket_link(link: &linerate_model::plan::parts::SocketLink) -> String {
    let rate = link.bytes_per_second.known().map(|rate| format!("{} each way", show_bits_rate(*rate)));
    let between = format!("node {} to {}", link.between.0, link.between.1);
    joined([Some(format!("{between}: {}", link.words)), rate])
}

fn volume(volume: &Volume) -> Chip {
    let over = format!("over {}", counted(volume.disks.len(), "disk"));
    Chip {
        title: joined([Some(volume.name.clone()), Some(volume.words.clone())]),
        tip: joined([Some(volume.name.clone()), Some(volume.words.clone()), Some(volume.disks.join(", "))]),
        sub: over,
        id: Some(format!("volume:{}", volume.name)),
        used: None,
    }
}

/// Parts on their way into the picture. Each joint is drawn once, also where a damaged file has a ring.
struct Drawn<'a> {
    parts: &'a MachineParts,
    met: BTreeSet<&'a str>,
}

impl<'a> Drawn<'a> {
    fn node(&mut self, node: &Node) -> NodeBox {
        let cores = node.cores.known().map(|cores| counted(*cores as u64, "core"));
        let clock = node.mt_per_second.known().map(|clock| format!("{clock} MT/s"));
        let channels = node.channels.known().map(|channels| counted(*channels, "channel"));
        NodeBox {
            id: Some(node.id),
            title: format!("Node {}", node.id),
            cpu: std::iter::once("CPU".to_string()).chain(cores).collect(),
            memory: std::iter::once("Memory".to_string()).chain(channels).chain(clock).collect(),
            memory_rate: node.memory_bytes_per_second.known().copied().unwrap_or(0.0),
            roots: self.roots(&PartPlace::Node(node.id)),
            ..NodeBox::default()
        }
    }

    /// Hubs at a node, and one root for all that is at the processor itself.
    fn roots(&mut self, place: &PartPlace) -> Vec<Branch> {
        let parts = self.parts;
        let hubs = parts.joints.iter().filter(|joint| joint.up == *place && joint.kind == JointKind::Hub);
        let mut roots: Vec<Branch> = hubs.map(|hub| self.root(hub.name.clone(), &hub.words, hub)).collect();
        let own = self.below(place);
        if !own.is_empty() {
            roots.push(bar(Part::Root, "PCIe root", "", own, Edge::unknown("")));
        }
        roots.retain(|root| !root.below.is_empty());
        roots
    }

    fn root(&mut self, name: String, words: &str, hub: &'a Joint) -> Branch {
        self.met.insert(&hub.name);
        let below = self.below(&PartPlace::Joint(hub.name.clone()));
        bar(Part::Root, &name, words, below, Edge::unknown(""))
    }

    /// What is plugged in at a place, free slots after cards.
    fn below(&mut self, place: &PartPlace) -> Vec<Branch> {
        let parts = self.parts;
        let mut found = Vec::new();
        let mut free = Vec::new();
        for joint in parts.joints.iter().filter(|joint| joint.up == *place && joint.kind != JointKind::Hub) {
            if !self.met.insert(&joint.name) {
                continue;
            }
            let here = PartPlace::Joint(joint.name.clone());
            match joint.kind {
                JointKind::Slot => match parts.joints.iter().find(|card| card.up == here) {
                    Some(card) => found.extend(self.plugged(card, Some(joint))),
                    None => free.push(free_slot(joint)),
                },
                _ => found.extend(self.plugged(joint, None)),
            }
        }
        let leaves: Vec<Leaf> =
            parts.devices.iter().filter(|device| device.place == *place).map(leaf).collect();
        if !leaves.is_empty() {
            found.push(card(
                "on the board",
                String::new(),
                "",
                Vec::new(),
                leaves,
                Edge::unknown("no link of its own"),
            ));
        }
        grouped(found.into_iter().chain(free).collect())
    }

    /// A card with all devices behind it, or what stands before several cards.
    fn plugged(&mut self, joint: &'a Joint, slot: Option<&Joint>) -> Option<Branch> {
        self.met.insert(&joint.name);
        let slot = slot.map(|slot| slot.name.clone());
        let sub = joined([Some(joint.name.clone()), slot]);
        let link = edge(self.parts, joint);
        if !matches!(joint.kind, JointKind::Card | JointKind::Controller) {
            let below = self.below(&PartPlace::Joint(joint.name.clone()));
            return (!below.is_empty()).then(|| bar(Part::Switch, &joint.name, &joint.words, below, link));
        }
        let behind = |device: &&ByteDevice| {
            self.parts.above(&device.place).iter().any(|above| above.name == joint.name)
        };
        let devices: Vec<&ByteDevice> = self.parts.devices.iter().filter(behind).collect();
        let title = match devices.first().map(|device| &device.what) {
            _ if joint.kind == JointKind::Controller => "controller",
            Some(DeviceKind::Nic { .. }) => "network card",
            Some(DeviceKind::Gpu) => "GPU",
            Some(DeviceKind::Disk { .. }) => "drive",
            None => "card",
        };
        let title = joined([Some(title.to_string()), Some(joint.words.clone())]);
        let leaves = devices.into_iter().map(leaf).collect();
        Some(card(&title, sub, &joint.name, vec![joint.name.clone()], leaves, link))
    }
}

fn bar(part: Part, title: &str, sub: &str, below: Vec<Branch>, edge: Edge) -> Branch {
    Branch {
        part,
        title: title.into(),
        sub: sub.into(),
        tip: joined([Some(title.to_string()), Some(sub.to_string()), Some(edge.tip.clone())]),
        count: 1,
        addresses: if part == Part::Switch { vec![title.into()] } else { Vec::new() },
        network: below.iter().any(|branch| branch.network),
        edge,
        below,
        leaves: Vec::new(),
        alike: String::new(),
    }
}

fn card(
    title: &str,
    sub: String,
    name: &str,
    addresses: Vec<String>,
    leaves: Vec<Leaf>,
    edge: Edge,
) -> Branch {
    let kinds: Vec<&String> = leaves.iter().map(|leaf| &leaf.kind).collect();
    let alike = format!("{title} {} {} {kinds:?}", edge.above, edge.below);
    Branch {
        part: Part::Card,
        title: title.into(),
        tip: joined([Some(title.to_string()), Some(name.to_string()), Some(edge.tip.clone())]),
        sub,
        count: 1,
        addresses,
        network: leaves.iter().any(|leaf| leaf.kind.starts_with("nic")),
        edge,
        below: Vec::new(),
        leaves: folded(leaves),
        alike,
    }
}

fn free_slot(slot: &Joint) -> Branch {
    let edge =
        slot.link.map_or_else(|| Edge::unknown("its width is not known"), |link| edge_of(link, None, slot));
    let words = joined([Some(slot.name.clone()), Some(slot.words.clone())]);
    let mut free = card("free slot", words, &slot.name, Vec::new(), Vec::new(), edge);
    free.edge.look = EdgeStyle::Unknown;
    free
}

/// A port or a disk by its data sheet.
fn leaf(device: &ByteDevice) -> Leaf {
    let known = |rate: &linerate_facts::fact::Fact<f64>| rate.known().copied();
    let (words, rate, live) = match &device.what {
        DeviceKind::Nic { rate, mtu, down, .. } => {
            let mtu = mtu.known().map(|mtu| format!("MTU {mtu}"));
            let state = down.then(|| "down".to_string());
            (joined([known(rate).map(show_bits_rate), mtu, state]), known(rate), !down)
        }
        DeviceKind::Disk { read, write } => {
            let read = known(read);
            let words = [read.map(|rate| format!("read {}", show_bytes_rate(rate)))];
            let write = known(write).map(|rate| format!("write {}", show_bytes_rate(rate)));
            (joined(words.into_iter().chain([write])), read, true)
        }
        DeviceKind::Gpu => (String::new(), None, true),
    };
    let text = joined([Some(device.name.clone()), Some(words.clone())]);
    Leaf {
        tip: text.clone(),
        text,
        rate: rate.unwrap_or(0.0),
        live,
        names: vec![device.name.clone()],
        used: None,
        kind: format!("{} {words}", device.what.word()),
    }
}

/// The link above a card, or what it carries without one.
fn edge(parts: &MachineParts, joint: &Joint) -> Edge {
    if let Some(why) = joint.formality.as_ref().or(joint.unknown_link.as_ref()) {
        return Edge::unknown(why);
    }
    match (parts.link_of(joint), joint.bytes_per_second.known()) {
        (Some(link), _) => edge_of(link, joint.link, joint),
        (None, Some(rate)) => Edge {
            above: joint.words.clone(),
            below: show_bytes_rate(*rate),
            rate: *rate,
            look: EdgeStyle::Full,
            ..Edge::unknown("")
        },
        (None, None) => Edge::unknown("no PCIe link of its own is described"),
    }
}

/// A link that carries this, of a card that could do `able`.
fn edge_of(link: PciLink, able: Option<PciLink>, joint: &Joint) -> Edge {
    let raw = |link: PciLink| raw_bytes_per_second(link.gt_per_second, link.width);
    let packet = joint.max_payload_bytes.unwrap_or(usual_max_payload_bytes(link.gt_per_second));
    let rate =
        payload_bytes_per_second(link.gt_per_second, link.width, Some(packet), PayloadDirection::ToMemory);
    let payload = rate.map_or(String::new(), |rate| format!("payload {}", show_bits_rate(rate)));
    let wider = able.filter(|able| raw(*able) > raw(link));
    let below = wider.map_or_else(|| payload.clone(), |able| format!("card can {able}"));
    let line = raw(link).map(show_bits_rate).unwrap_or_default();
    Edge {
        above: format!("{link} · {line}"),
        tip: joined([Some(format!("{link} ({line})")), Some(payload), wider.map(|_| below.clone())]),
        below,
        rate: rate.unwrap_or(0.0),
        look: if wider.is_some() { EdgeStyle::Below } else { EdgeStyle::Full },
        ..Edge::unknown("")
    }
}
