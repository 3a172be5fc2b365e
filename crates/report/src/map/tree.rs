//! The tree of links as boxes: roots, switches, cards, and at its ends ports to the network and disks. Cards
//! that are alike become one; a bridge that only passes a link on is left out.

use super::machine;
use super::parts::{Branch, Edge, Leaf, Part, above, bus, joined, narrower};
use linerate_facts::units::{bytes_per_second, show_bits_rate, show_size};
use linerate_machine::probe::{Disk, Machine, Nic, PciDevice, PortKind};
use linerate_machine::topology::{DEEPEST, Topology, carries_bytes, class_name, disk_port_rate, frame_rate};
use std::collections::BTreeSet;

/// Cards that are alike, without a port to the network, become one from this number on.
const ALIKE: usize = 3;
/// Network cards that are alike (virtual functions, mostly).
const ALIKE_NETWORK: usize = 5;
/// Makes the boxes of a tree.
pub(super) struct Builder<'t, 'a> {
    tree: &'t Topology<'a>,
    /// Each function is looked at once, also where a damaged file has a ring.
    met: BTreeSet<&'a str>,
    /// Functions that have a part in the picture.
    drawn: BTreeSet<&'a str>,
}

impl<'t, 'a> Builder<'t, 'a> {
    pub(crate) fn new(tree: &'t Topology<'a>) -> Self {
        Builder { tree, met: BTreeSet::new(), drawn: BTreeSet::new() }
    }

    /// How many functions have a part in the picture.
    pub(crate) fn drawn(&self) -> usize {
        self.drawn.len()
    }

    /// The trees of all root buses, with the node that they are on.
    pub(crate) fn roots(&mut self) -> Vec<(Option<u32>, Branch)> {
        let tops = self.tree.roots();
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
        let roots = roots.into_iter();
        alike_roots(roots.map(|(_, node, root)| (node, Branch { below: grouped(root.below), ..root })))
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
        // The upper end of a link, or a bridge without one.
        let passes =
            matches!(tree.kind(device), None | Some(PortKind::RootPort | PortKind::SwitchDownstream));
        if passes || below.is_empty() {
            return below;
        }
        let edge = above(tree, device);
        if let [only] = below.as_slice()
            && only.count == 1
        {
            let mut only = below.remove(0);
            only.edge = narrower(edge, only.edge);
            only.addresses.push(device.address.clone());
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
        let busy = |function: &&&PciDevice| function.class.known().is_some_and(|class| carries_bytes(*class));
        let main = *functions.iter().find(busy).unwrap_or(lowest);
        let mut leaves: Vec<Leaf> = tree.nics(device).into_iter().map(port).collect();
        leaves.extend(tree.disks(device).into_iter().map(|disk| medium(tree.machine, disk)));
        let class =
            main.class.known().filter(|class| carries_bytes(**class)).and_then(|class| class_name(*class));
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
            addresses: vec![device.address.clone()],
            network: !tree.nics(device).is_empty(),
            edge,
            below: Vec::new(),
            leaves,
            alike,
        })
    }
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
        addresses: Vec::new(),
        edge: Edge::unknown(""),
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
        addresses: vec![device.address.clone()],
        alike: String::new(),
        network: below.iter().any(|branch| branch.network),
        edge,
        below,
        leaves: Vec::new(),
    }
}

/// Roots of one node with one card each, all alike, as one: a server with a root for each of its drives stays
/// readable.
fn alike_roots(roots: impl Iterator<Item = (Option<u32>, Branch)>) -> Vec<(Option<u32>, Branch)> {
    fn card(root: &Branch) -> Option<&Branch> {
        root.below.first().filter(|card| root.below.len() == 1 && card.part == Part::Card)
    }
    let alike = |a: &Branch, b: &Branch| card(a).zip(card(b)).is_some_and(|(a, b)| a.alike == b.alike);
    let mut groups: Vec<(Option<u32>, Vec<Branch>)> = Vec::new();
    for (node, root) in roots {
        match groups.iter_mut().find(|(on, group)| *on == node && alike(&group[0], &root)) {
            Some((_, group)) => group.push(root),
            None => groups.push((node, vec![root])),
        }
    }
    let together = |(node, group): (Option<u32>, Vec<Branch>)| {
        let network = group[0].below.iter().any(|card| card.network);
        if group.len() < if network { ALIKE_NETWORK } else { ALIKE } {
            return group.into_iter().map(|root| (node, root)).collect();
        }
        let (first, last, count) = (group[0].clone(), group[group.len() - 1].sub.clone(), group.len());
        let sub = format!("{} – {last}", first.sub);
        let below = grouped(group.into_iter().flat_map(|root| root.below).collect());
        vec![(node, Branch { count, sub, below, ..first })]
    };
    groups.into_iter().flat_map(together).collect()
}

/// Cards of one parent that are alike as one.
pub(super) fn grouped(branches: Vec<Branch>) -> Vec<Branch> {
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
                first.addresses.extend(branch.addresses);
                first.tip += "\n";
                first.tip += &branch.tip;
                first.leaves.extend(branch.leaves);
                let from = first.sub.split(" – ").next().unwrap_or_default().to_string();
                let address = |sub: &str| {
                    let mut parts = sub.split(" · ");
                    let first = parts.clone().next().unwrap_or_default();
                    parts.find(|part| part.contains(':')).unwrap_or(first).to_string()
                };
                first.sub = format!("{} – {}", address(&from), address(&branch.sub));
            }
            None => grouped.push(branch),
        }
    }
    // Once all are there: folded one by one, the last few would stay apart.
    for card in grouped.iter_mut().filter(|card| card.count > 1) {
        card.leaves = folded(std::mem::take(&mut card.leaves));
    }
    grouped
}

/// More ports or disks than these on a card become one.
const LEAVES: usize = 4;
/// A port to the network.
pub(super) fn port(nic: &Nic) -> Leaf {
    let speed = nic.speed_bits_per_second.known().map(|bits| show_bits_rate(bytes_per_second(*bits)));
    let state = nic.state.known().filter(|state| *state != "unknown").cloned();
    let live = state.as_deref().is_none_or(|state| state == "up");
    // A port without an interface has the address of its card, which stands beside it.
    let name = Some(if nic.by_class { "port".into() } else { nic.name.clone() });
    let text = joined([name, speed.clone(), state.clone().filter(|_| !live)]);
    let mtu = nic.mtu.known().map(|mtu| format!("MTU {mtu}"));
    Leaf {
        tip: joined([Some(nic.name.clone()), state, speed.clone(), mtu]),
        kind: format!("{speed:?} {live}"),
        names: vec![nic.name.clone()],
        used: None,
        rate: frame_rate(nic).unwrap_or(0.0),
        live,
        text,
    }
}

/// A disk, with what is mounted from it or its partitions.
pub(super) fn medium(machine: &Machine, disk: &Disk) -> Leaf {
    let size = disk.size_bytes.known().map(|bytes| show_size(*bytes));
    let model = disk.model.known().map(|model| model.trim().to_string());
    let port =
        machine.controllers.iter().find(|controller| Some(&controller.name) == disk.controller.as_ref());
    let alone = port.filter(|port| port.disks.len() == 1);
    let rate = alone.and_then(disk_port_rate);
    let mounted = machine::mounted(machine, disk);
    Leaf {
        text: joined([Some(disk.name.clone()), size.clone(), rate.map(show_bits_rate), mounted.clone()]),
        tip: joined([Some(disk.name.clone()), size.clone(), model.clone(), mounted]),
        rate: rate.unwrap_or(0.0),
        live: true,
        names: vec![disk.name.clone()],
        used: None,
        kind: format!("{size:?} {model:?} {:?}", rate.map(show_bits_rate)),
    }
}

/// Many ports or disks of one kind as one.
pub(super) fn folded(leaves: Vec<Leaf>) -> Vec<Leaf> {
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
