//! What is drawn: the nodes, and on each the tree of links down to ports and disks. Alike things become one; bridges that only pass a
//! link on are left out.

use super::edge::{Edge, above, bus, narrower};
use super::machine;
use crate::diagnose::topology::{Place, Topology, nic_rate, port_payload};
use crate::probe::{Disk, DiskKind, Machine, Nic, PciDevice};
use crate::units::{bytes_per_second, show_bits_rate, show_size};
use std::collections::BTreeSet;

/// Cards that are alike, without a port to the network, become one from this number on.
const ALIKE: usize = 3;
/// Network cards that are alike (virtual functions, mostly).
const ALIKE_NETWORK: usize = 5;
/// More ports or disks than these on a card become one.
const LEAVES: usize = 4;
/// Chips in a strip below the nodes.
const CHIPS: usize = 24;

/// All of the picture.
#[derive(Clone, Debug, Default)]
pub(super) struct Picture {
    pub host: String,
    pub about: String,
    pub nodes: Vec<NodeBox>,
    /// Nodes with memory only; arrays and volumes; interfaces and disks on no PCI function.
    pub strips: Vec<Strip>,
    /// What the bar between the nodes says, where there are several.
    pub between: Option<String>,
    /// PCI functions without a part in any flow.
    pub left_out: usize,
}

/// A node, or all of a machine that tells of none.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeBox {
    pub title: String,
    pub cpu: Vec<String>,
    pub memory: Vec<String>,
    /// Bandwidth of its memory, bytes per second; 0 where it is not known.
    pub memory_rate: f64,
    pub roots: Vec<Branch>,
}

/// What a box of the tree stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Root,
    Switch,
    Card,
}

/// A root, a switch or a card, with what hangs on it.
#[derive(Clone, Debug)]
pub(super) struct Branch {
    pub part: Part,
    pub title: String,
    pub sub: String,
    pub tip: String,
    /// How many it stands for.
    pub count: usize,
    /// The link above it.
    pub edge: Edge,
    pub below: Vec<Branch>,
    pub leaves: Vec<Leaf>,
    /// What makes it like another, and the network is behind it.
    alike: String,
    network: bool,
}

/// A port, a disk, or several.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Leaf {
    pub text: String,
    pub tip: String,
    /// Rate of the port, bytes per second; 0 where it is not known.
    pub rate: f64,
    /// It is up, or a disk.
    pub live: bool,
    names: Vec<String>,
    kind: String,
}

/// A row of chips with a title.
#[derive(Clone, Debug)]
pub(super) struct Strip {
    pub title: String,
    pub chips: Vec<Chip>,
}

/// Two lines in a frame.
#[derive(Clone, Debug)]
pub(super) struct Chip {
    pub title: String,
    pub sub: String,
    pub tip: String,
}

/// The picture of a machine.
pub(super) fn picture(machine: &Machine) -> Picture {
    let tree = Topology::new(machine);
    let mut builder = Builder { tree: &tree, met: BTreeSet::new(), drawn: BTreeSet::new() };
    let mut nodes = machine::nodes(machine);
    for (node, root) in builder.roots() {
        match machine::place(machine, &mut nodes, node) {
            Some(at) => nodes[at].1.roots.push(root),
            None => nodes.push((
                None,
                NodeBox { title: "On no known node".into(), roots: vec![root], ..Default::default() },
            )),
        }
    }
    let left_out = machine.pci.len().saturating_sub(builder.drawn.len());
    let mut strips: Vec<Strip> = machine::memory_only(machine).into_iter().collect();
    strips.extend(strip("Arrays, volumes and other block devices", volumes(machine, &tree)));
    strips.extend(strip("Interfaces on no PCI function", interfaces(machine, &tree)));
    Picture {
        host: machine.host.known().cloned().unwrap_or_else(|| "unnamed host".into()),
        about: machine::about(machine),
        between: machine::between(machine, nodes.iter().filter(|(id, _)| id.is_some()).count()),
        nodes: nodes.into_iter().map(|(_, node)| node).collect(),
        strips,
        left_out,
    }
}

struct Builder<'t, 'a> {
    tree: &'t Topology<'a>,
    /// Each function is looked at once, also where a damaged file has a ring.
    met: BTreeSet<&'a str>,
    /// Functions that have a part in the picture.
    drawn: BTreeSet<&'a str>,
}

impl<'a> Builder<'_, 'a> {
    /// The trees of all root buses, with the node that they are on.
    fn roots(&mut self) -> Vec<(Option<u32>, Branch)> {
        let tops = self.tree.machine.pci.iter().filter(|device| self.tree.parent(device).is_none());
        let mut roots: Vec<(&str, Option<u32>, Branch)> = Vec::new();
        for top in tops {
            let below = self.branches(top, 0);
            if below.is_empty() {
                continue;
            }
            let node = self.node(top);
            let name = bus(&top.address);
            match roots.iter_mut().find(|(other, on, _)| *other == name && *on == node) {
                Some((.., root)) => root.below.extend(below),
                None => roots.push((name, node, root(name, below))),
            }
        }
        roots
            .into_iter()
            .map(|(_, node, root)| (node, Branch { below: grouped(root.below), ..root }))
            .collect()
    }

    /// The node of a function, or the first that is known below it.
    fn node(&self, top: &'a PciDevice) -> Option<u32> {
        let below = || self.tree.cards_below(top).into_iter().find_map(|device| device.node.known().copied());
        top.node.known().copied().or_else(below)
    }

    /// What is drawn for a function: itself, or what hangs below it.
    fn branches(&mut self, device: &'a PciDevice, depth: usize) -> Vec<Branch> {
        if depth > DEEPEST || !self.met.insert(&device.address) {
            return Vec::new();
        }
        let tree = self.tree;
        if !tree.is_bridge(device) {
            return self.card(device).into_iter().collect();
        }
        let below = tree.children(&device.address).iter().flat_map(|child| self.branches(child, depth + 1));
        let mut below = grouped(below.collect());
        if !below.is_empty() {
            self.drawn.insert(&device.address);
        }
        if matches!(tree.place(device), Place::Root | Place::Downstream) || below.is_empty() {
            return below;
        }
        let edge = above(tree, device);
        if let [only] = below.as_slice()
            && only.count == 1
        {
            let mut only = below.remove(0);
            only.edge = narrower(edge, only.edge);
            return vec![only];
        }
        vec![switch(device, edge, below)]
    }

    /// A card with all its functions, once, if it carries bytes.
    fn card(&mut self, device: &'a PciDevice) -> Option<Branch> {
        let tree = self.tree;
        let functions = tree.functions(device);
        let lowest = functions.iter().find(|function| !tree.is_bridge(function))?;
        if lowest.address != device.address {
            return None;
        }
        let busy = |function: &&&PciDevice| {
            function.class.known().is_some_and(|class| machine::class_name(*class).is_some())
        };
        let main = *functions.iter().find(busy).unwrap_or(lowest);
        let mut leaves: Vec<Leaf> = tree.nics(device).into_iter().map(port).collect();
        leaves.extend(tree.disks(device).into_iter().map(|disk| medium(tree.machine, disk)));
        let class = main.class.known().and_then(|class| machine::class_name(*class));
        if leaves.is_empty() && class.is_none() {
            return None;
        }
        self.drawn.extend(functions.iter().map(|function| function.address.as_str()));
        let edge = above(tree, tree.find(&device.address)?);
        let ids = match (main.vendor.known(), main.device.known()) {
            (Some(vendor), Some(id)) => format!("{vendor:04x}:{id:04x}"),
            _ => String::new(),
        };
        let class = class.unwrap_or("device");
        let named = main.name.known().cloned().or_else(|| sole_model(tree, device));
        let title = [Some(class.to_string()), Some(named.unwrap_or(ids.clone()))];
        let driver = main.driver.known().filter(|driver| *driver != "pcieport").cloned();
        let port_rate = tree.port_rate(device).unwrap_or(0.0);
        let mut leaves = folded(leaves);
        // Disks behind one controller: its ports are what joins them to the card.
        if let [only] = leaves.as_mut_slice()
            && only.rate == 0.0
        {
            only.rate = port_rate;
        }
        let slot = edge.slot.map(|slot| format!("slot {slot}"));
        let sub = [slot, Some(short(&main.address).into()), driver.clone()];
        let ports = (port_rate > 0.0).then(|| format!("ports {}", show_bits_rate(port_rate)));
        let title = joined(title);
        let alike = format!(
            "{title} {ids} {driver:?} {:?} {} {:?}",
            edge.above,
            edge.below,
            leaves.iter().map(|leaf| &leaf.kind).collect::<Vec<_>>()
        );
        Some(Branch {
            part: Part::Card,
            tip: joined([
                Some(title.clone()),
                Some(main.address.clone()),
                (!ids.is_empty()).then_some(ids),
                Some(edge.tip.clone()),
                ports,
            ]),
            sub: joined(sub),
            title,
            count: 1,
            network: !tree.nics(device).is_empty(),
            edge,
            below: Vec::new(),
            leaves,
            alike,
        })
    }
}

/// Deeper than any PCIe tree: the walk is over.
const DEEPEST: usize = 64;

fn joined(parts: impl IntoIterator<Item = Option<String>>) -> String {
    parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" · ")
}

/// An address without the domain that nearly all have.
fn short(address: &str) -> &str {
    address.strip_prefix("0000:").unwrap_or(address)
}

/// The model of the one disk that a card is (an NVMe drive).
fn sole_model(tree: &Topology, device: &PciDevice) -> Option<String> {
    match tree.disks(device).as_slice() {
        [disk] => disk.model.known().map(|model| model.trim().to_string()),
        _ => None,
    }
}

fn root(name: &str, below: Vec<Branch>) -> Branch {
    Branch {
        part: Part::Root,
        title: "PCIe root".into(),
        sub: short(&format!("{name}:")).trim_end_matches(':').into(),
        tip: format!("root bus {name}"),
        count: 1,
        edge: Edge::untold(""),
        below,
        leaves: Vec::new(),
        alike: String::new(),
        network: false,
    }
}

fn switch(device: &PciDevice, edge: Edge, below: Vec<Branch>) -> Branch {
    let ids = match (device.vendor.known(), device.device.known()) {
        (Some(vendor), Some(id)) => format!("{vendor:04x}:{id:04x}"),
        _ => String::new(),
    };
    Branch {
        part: Part::Switch,
        title: "switch".into(),
        sub: short(&device.address).into(),
        tip: joined([
            Some("switch".into()),
            device.name.known().cloned(),
            Some(ids),
            Some(device.address.clone()),
            Some(edge.tip.clone()),
        ]),
        count: 1,
        alike: String::new(),
        network: below.iter().any(|branch| branch.network),
        edge,
        below,
        leaves: Vec::new(),
    }
}

/// Cards of one parent that are alike as one.
fn grouped(branches: Vec<Branch>) -> Vec<Branch> {
    let count = |of: &Branch| {
        branches.iter().filter(|other| other.part == Part::Card && other.alike == of.alike).count()
    };
    let many: Vec<bool> = branches
        .iter()
        .map(|one| one.part == Part::Card && count(one) >= if one.network { ALIKE_NETWORK } else { ALIKE })
        .collect();
    let mut grouped: Vec<Branch> = Vec::new();
    for (branch, many) in branches.into_iter().zip(many) {
        let first =
            grouped.iter_mut().find(|first| many && first.part == Part::Card && first.alike == branch.alike);
        match first {
            Some(first) => {
                first.count += branch.count;
                first.tip += "\n";
                first.tip += &branch.tip;
                let mut leaves = std::mem::take(&mut first.leaves);
                leaves.extend(branch.leaves);
                first.leaves = folded(leaves);
                let from = first.sub.split(" – ").next().unwrap_or_default().to_string();
                let address = |sub: &str| {
                    sub.split(" · ").find(|part| part.contains(':')).unwrap_or_default().to_string()
                };
                first.sub = format!("{} – {}", address(&from), address(&branch.sub));
            }
            None => grouped.push(branch),
        }
    }
    grouped
}

/// A port to the network.
fn port(nic: &Nic) -> Leaf {
    let speed = nic.speed_bits_per_second.known().map(|bits| show_bits_rate(bytes_per_second(*bits)));
    let state = nic.state.known().filter(|state| *state != "unknown").cloned();
    let live = state.as_deref().is_none_or(|state| state == "up");
    let text = joined([Some(nic.name.clone()), speed.clone(), state.clone().filter(|_| !live)]);
    let mtu = nic.mtu.known().map(|mtu| format!("MTU {mtu}"));
    Leaf {
        tip: joined([Some(nic.name.clone()), state, speed.clone(), mtu]),
        kind: format!("{speed:?} {live}"),
        names: vec![nic.name.clone()],
        rate: nic_rate(nic).unwrap_or(0.0),
        live,
        text,
    }
}

/// A disk, with what is mounted from it or its partitions.
fn medium(machine: &Machine, disk: &Disk) -> Leaf {
    let size = disk.size_bytes.known().map(|bytes| show_size(*bytes));
    let model = disk.model.known().map(|model| model.trim().to_string());
    let port =
        machine.controllers.iter().find(|controller| Some(&controller.name) == disk.controller.as_ref());
    let alone = port.filter(|port| port.disks.len() == 1);
    let rate = alone.and_then(port_payload);
    let mounted = machine::mounted(machine, disk);
    Leaf {
        text: joined([Some(disk.name.clone()), size.clone(), rate.map(show_bits_rate), mounted.clone()]),
        tip: joined([Some(disk.name.clone()), size.clone(), model.clone(), mounted]),
        rate: rate.unwrap_or(0.0),
        live: true,
        names: vec![disk.name.clone()],
        kind: format!("{size:?} {model:?} {:?}", rate.map(show_bits_rate)),
    }
}

/// Many ports or disks of one kind as one.
fn folded(leaves: Vec<Leaf>) -> Vec<Leaf> {
    if leaves.len() <= LEAVES {
        return leaves;
    }
    let mut folded: Vec<Leaf> = Vec::new();
    for leaf in leaves {
        match folded.iter_mut().find(|other| other.kind == leaf.kind) {
            Some(first) => {
                first.rate += leaf.rate;
                first.tip += "\n";
                first.tip += &leaf.tip;
                first.names.extend(leaf.names);
            }
            None => folded.push(leaf),
        }
    }
    for leaf in folded.iter_mut().filter(|leaf| leaf.names.len() > 1) {
        let (first, last) =
            (leaf.names.first().cloned().unwrap_or_default(), leaf.names.last().cloned().unwrap_or_default());
        leaf.text = format!("{} × {first} – {last}", leaf.names.len());
        let rest =
            leaf.tip.lines().next().and_then(|line| line.split_once(" · ")).map(|(_, rest)| rest.to_string());
        if let Some(rest) = rest {
            leaf.text += &format!(" · {rest}");
        }
    }
    folded
}

fn strip(title: &str, mut chips: Vec<Chip>) -> Option<Strip> {
    if chips.len() > CHIPS {
        let rest = chips.split_off(CHIPS - 1);
        let names: Vec<&str> = rest.iter().map(|chip| chip.title.as_str()).collect();
        chips.push(Chip {
            title: format!("and {} more", rest.len()),
            sub: String::new(),
            tip: names.join(", "),
        });
    }
    (!chips.is_empty()).then(|| Strip { title: title.into(), chips })
}

/// Arrays, volumes, loop devices, and disks on no PCI function that is drawn.
fn volumes(machine: &Machine, tree: &Topology) -> Vec<Chip> {
    let hangs = |disk: &&Disk| disk.pci.as_deref().is_some_and(|pci| tree.find(pci).is_some());
    let empty = |disk: &&Disk| {
        disk.size_bytes.known() == Some(&0)
            || disk.size_bytes.known().is_none() && matches!(disk.kind, DiskKind::Loop | DiskKind::Other)
    };
    let drawn =
        machine.disks.iter().filter(|disk| disk.kind != DiskKind::Partition && !hangs(disk) && !empty(disk));
    drawn.map(|disk| machine::volume(machine, disk)).collect()
}

fn interfaces(machine: &Machine, tree: &Topology) -> Vec<Chip> {
    let hangs = |nic: &&Nic| nic.pci.as_deref().is_some_and(|pci| tree.find(pci).is_some());
    let drawn = machine.nics.iter().filter(|nic| !hangs(nic));
    let chip = |nic: &Nic| {
        let leaf = port(nic);
        let driver = nic.driver.known().filter(|driver| **driver != nic.name && !nic.loopback).cloned();
        let mtu = nic.mtu.known().map(|mtu| format!("MTU {mtu}"));
        Chip { title: leaf.text, sub: joined([driver, mtu]), tip: leaf.tip }
    };
    drawn.map(chip).collect()
}
