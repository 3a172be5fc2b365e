//! The server as a block diagram, like the figures of SARA's D1.3: nodes with their CPUs and memory side by
//! side, below each its PCIe roots, switches, cards, and at the end ports and disks; the edges say what the
//! links carry. A flow laid over it shows how much of each part is in use, and the bottleneck.
//!
//! Four steps: [`picture`] says what is drawn, [`overlaid`] lays the flow over it, [`layout`] says where,
//! [`draw`] how. A tree lies on its side: a root or a switch is a bar as tall as all that hangs on it, so that
//! each link is one straight line with its rates on it, and nothing crosses.

mod described;
mod draw;
mod layout;
mod machine;
mod parts;
#[cfg(test)]
mod tests;
mod tree;

use crate::figure::{Figure, Unit, percent, rate, share};
use crate::markup::{Markup, finished};
use crate::verdict::{RunVerdict, device, plural, resources};
pub(super) use draw::SHEET;
use linerate_facts::printable::shortened;
use linerate_facts::units::{show_bits_rate, show_bytes_rate};
use linerate_facts::wording::in_order;
use linerate_machine::probe::{Disk, DiskKind, Machine, Nic};
use linerate_machine::topology::Topology;
use linerate_measure::diagnose::{Finding, Severity, map_findings};
use linerate_measure::run::Run;
use linerate_model::plan::flow::FlowPlan;
use linerate_model::plan::parts::MachineParts;
use linerate_model::plan::wording::in_words;
use linerate_model::plan::{Resource, ResourceKind};
use parts::{Branch, Chip, EdgeStyle, LimitSign, NodeBox, Picture, Strip, Use, joined};
use std::collections::{BTreeMap, BTreeSet};
use tree::{Builder, port};

/// Chips in a strip below the nodes.
const CHIPS: usize = 24;

/// Parts of one kind that are in no box of the machine: more than these are put together.
const ALONE: usize = 8;
/// A part below this share of its kind's median is named.
const ODD_SHARE: f64 = 0.8;
/// Names in a tip take at most this much.
const NAMES: usize = 600;

/// The machine as a block diagram in SVG that needs nothing else: nodes side by side, what hangs on them over which links,
/// with rates on the edges. Light or dark as the reader prefers; no script.
pub fn svg(machine: &Machine) -> String {
    let picture = picture(machine);
    finished(draw::draw(&picture, &layout::layout(&picture), Some(&draw::sheet_of_a_file()))) + "\n"
}

/// The parts of a machine as a plan has them, with its flow: how much of each link, port and disk it uses, and what
/// limits it.
pub fn plan_svg(parts: &MachineParts, plan: &FlowPlan) -> String {
    let resources: Vec<&Resource> = plan.resources.iter().collect();
    let cut: BTreeSet<String> = plan.likely.cut.iter().cloned().collect();
    let mut picture = described::picture(parts);
    picture.about = parts::joined([Some(picture.about), Some(plan.flow.clone())]);
    let ids: Vec<&str> = plan.likely.cut.iter().map(String::as_str).collect();
    picture.limit = plan.ceiling.likely_bytes_per_second.filter(|_| !ids.is_empty()).map(|rate| {
        format!("Likely {} ({}), limited by {}.", show_bits_rate(rate), show_bytes_rate(rate), in_words(&ids))
    });
    let picture = overlaid(picture, PictureFlow::planned(&resources, &cut));
    finished(draw::draw(&picture, &layout::layout(&picture), Some(&draw::sheet_of_a_file()))) + "\n"
}

/// The picture of a run's machine with its flow, within a page that has [`SHEET`].
pub(super) fn of_run(run: &Run, verdict: &RunVerdict) -> Markup {
    let flow = PictureFlow::new(&resources(run), verdict);
    let picture = overlaid(picture(&run.machine), flow);
    draw::draw(&picture, &layout::layout(&picture), None)
}

/// The rate of the link above a function as it is drawn, and whether it is drawn as too slow.
#[cfg(test)]
pub(super) fn link_of_picture(tree: &linerate_machine::topology::Topology, address: &str) -> (f64, bool) {
    fn find(branch: &parts::Branch, address: &str) -> Option<(f64, bool)> {
        let is_here = branch.addresses.iter().any(|one| one == address);
        let here = is_here.then_some((branch.edge.rate, branch.edge.look == parts::EdgeStyle::Below));
        here.or_else(|| branch.below.iter().find_map(|below| find(below, address)))
    }
    let drawn = picture(tree.machine);
    drawn.nodes.iter().flat_map(|node| &node.roots).find_map(|root| find(root, address)).unwrap_or_default()
}

/// The picture of a machine.
fn picture(machine: &Machine) -> Picture {
    let tree = Topology::new(machine);
    let mut builder = Builder::new(&tree);
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
    let slow = slow_links(machine);
    for root in nodes.iter_mut().flat_map(|(_, node)| &mut node.roots) {
        mark_slow(root, &slow);
    }
    let left_out = machine.pci.len().saturating_sub(builder.drawn());
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
        loaded: false,
        limit: None,
    }
}

/// Functions whose links a finding calls too slow.
fn slow_links(machine: &Machine) -> BTreeSet<String> {
    let of_link = |finding: &Finding| finding.severity != Severity::Note && finding.id.starts_with("pcie-");
    let findings = map_findings(machine).into_iter().filter(of_link);
    let devices =
        findings.flat_map(|finding| finding.evidence["devices"].as_array().cloned().unwrap_or_default());
    devices.filter_map(|device| device.as_str().map(str::to_string)).collect()
}

/// The picture has the finding's colour, whatever both ends of the link can do.
fn mark_slow(branch: &mut Branch, slow: &BTreeSet<String>) {
    if branch.edge.look == EdgeStyle::Full && branch.addresses.iter().any(|address| slow.contains(address)) {
        branch.edge.look = EdgeStyle::Below;
    }
    branch.below.iter_mut().for_each(|below| mark_slow(below, slow));
}

fn strip(title: &str, mut chips: Vec<Chip>) -> Option<Strip> {
    if chips.len() > CHIPS {
        let rest = chips.split_off(CHIPS - 1);
        let names: Vec<&str> = rest.iter().map(|chip| chip.title.as_str()).collect();
        chips.push(Chip {
            title: format!("and {} more", rest.len()),
            tip: names.join(", "),
            ..Chip::default()
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
        Chip {
            title: leaf.text,
            sub: joined([driver, mtu]),
            tip: leaf.tip,
            id: Some(format!("nic:{}", nic.name)),
            used: None,
        }
    };
    drawn.map(chip).collect()
}

/// The resources of a flow, and which of them the picture has shown.
#[derive(Debug)]
struct PictureFlow<'a> {
    known: BTreeMap<&'a str, &'a Resource>,
    cut: &'a BTreeSet<String>,
    sign: LimitSign,
    shown: BTreeSet<&'a str>,
}

impl<'a> PictureFlow<'a> {
    fn new(resources: &[&'a Resource], verdict: &'a RunVerdict) -> Self {
        let sign = if verdict.confirmed { LimitSign::Bottleneck } else { LimitSign::Predicted };
        PictureFlow { sign, ..PictureFlow::planned(resources, &verdict.cut) }
    }

    /// A flow that was only planned.
    fn planned(resources: &[&'a Resource], cut: &'a BTreeSet<String>) -> Self {
        let known = resources.iter().map(|resource| (resource.id.as_str(), *resource)).collect();
        PictureFlow { known, cut, sign: LimitSign::Predicted, shown: BTreeSet::new() }
    }

    /// The use of the parts with these ids; none where the flow knows none of them.
    fn of(&mut self, ids: impl IntoIterator<Item = String>) -> Option<Use> {
        let parts: Vec<&Resource> =
            ids.into_iter().filter_map(|id| self.known.get(id.as_str()).copied()).collect();
        self.shown.extend(parts.iter().map(|part| part.id.as_str()));
        if parts.is_empty() { None } else { Some(self.used(&parts)) }
    }

    fn used(&self, parts: &[&Resource]) -> Use {
        let unit = unit(parts[0].kind);
        let each: Vec<Figure> = parts.iter().map(|part| Figure::capacity(part)).collect();
        let total = Figure::sum(each.clone());
        // The use of a group is that of its bytes, not the mean of its members' shares.
        let moved: f64 =
            parts.iter().filter_map(|part| Some(rate(part.capacity)? * share(part.utilisation))).sum();
        let used = total.value.filter(|total| *total > 0.0).map_or(0.0, |total| share(moved / total));
        let values = each.iter().filter_map(|figure| figure.value);
        let (low, high) = (values.clone().reduce(f64::min), values.reduce(f64::max));
        let capacity = match (total.value, low.zip(high)) {
            (None, _) => "capacity unknown".to_string(),
            (Some(_), Some((low, high))) if parts.len() > 1 => format!("{} each", unit.show_range(low, high)),
            _ => format!("{}, {}", total.show(unit), <&str>::from(total.origin)),
        };
        let words = if used > 0.0 { format!("{} of {capacity}", percent(used)) } else { capacity };
        let odd = slowest(parts).map(|slow| format!("; slowest {slow}"));
        Use {
            words: words + &odd.unwrap_or_default(),
            share: used,
            limit: parts.iter().any(|part| self.cut.contains(&part.id)).then_some(self.sign),
        }
    }
}

/// Links in bits, the rest in bytes.
fn unit(kind: ResourceKind) -> Unit {
    match kind {
        ResourceKind::Nic | ResourceKind::Receiver | ResourceKind::Sender => Unit::Bits,
        _ => Unit::Bytes,
    }
}

/// The slowest of several, where it is far slower than its like.
fn slowest(parts: &[&Resource]) -> Option<String> {
    let mut rates: Vec<(f64, &Resource)> =
        parts.iter().filter_map(|part| Some((Figure::capacity(part).value?, *part))).collect();
    rates.sort_by(|a, b| a.0.total_cmp(&b.0));
    let median = rates.get(rates.len() / 2)?.0;
    let (least, part) = *rates.first()?;
    (least < median * ODD_SHARE).then(|| format!("{} {}", device(&part.id), unit(part.kind).show(least)))
}

/// Lays the flow over the picture. What has no box in the machine (a source, a receiver) has one in a strip of its own.
fn overlaid(mut picture: Picture, mut flow: PictureFlow) -> Picture {
    let single = picture.nodes.iter().filter(|node| !node.cpu.is_empty()).count() == 1;
    for node in picture.nodes.iter_mut().filter(|node| !node.cpu.is_empty()) {
        let ids = |kinds: &[&str]| -> Vec<String> {
            let own = kinds.iter().flat_map(|kind| node.id.map(|id| format!("{kind}:{id}")));
            let whole = kinds
                .iter()
                .flat_map(|kind| [kind.to_string(), format!("{kind}:lanes"), format!("{kind}:workers")]);
            own.chain(whole.filter(|_| single)).collect()
        };
        (node.cpu_used, node.memory_used) = (flow.of(ids(&["cpu"])), flow.of(ids(&["memory"])));
        node.cpu.extend(node.cpu_used.iter().map(|used| used.words.clone()));
        node.memory.extend(node.memory_used.iter().map(|used| used.words.clone()));
    }
    for node in &mut picture.nodes {
        node.roots.iter_mut().for_each(|root| overlay_branch(root, &mut flow));
    }
    for chip in picture.strips.iter_mut().flat_map(|strip| &mut strip.chips) {
        chip.used = flow.of(chip.id.clone());
    }
    let loaded = !flow.known.is_empty();
    let mut strips = other_strips(&flow);
    // What the flow has beside the machine comes before what the machine has beside the flow.
    strips.append(&mut picture.strips);
    Picture { strips, loaded, ..picture }
}

fn overlay_branch(branch: &mut Branch, flow: &mut PictureFlow) {
    branch.edge.used = flow.of(branch.addresses.iter().map(|address| format!("pcie:{address}")));
    for leaf in &mut branch.leaves {
        leaf.used = flow.of(leaf
            .names
            .iter()
            .flat_map(|name| ["nic", "disk", "gpu"].map(|kind| format!("{kind}:{name}"))));
        leaf.tip += &leaf.used.iter().map(|used| format!("\n{}", used.words)).collect::<String>();
    }
    branch.below.iter_mut().for_each(|below| overlay_branch(below, flow));
}

/// Parts of the flow that are in no box of the machine, from the source to the receiver.
fn other_strips(flow: &PictureFlow) -> Vec<Strip> {
    use ResourceKind::{Controller, Cpu, Disk, Memory, Nic, Pcie, Receiver, SocketLink};
    let strip = |(title, kinds): (&str, &[ResourceKind])| {
        let chips: Vec<Chip> = kinds.iter().flat_map(|kind| chips(flow, *kind)).collect();
        (!chips.is_empty()).then(|| Strip { title: title.into(), chips })
    };
    let strips: [(&str, &[ResourceKind]); 3] = [
        ("Sources of the flow", &[Disk]),
        ("On its way", &[Controller, Pcie, SocketLink, Memory, Cpu, Nic]),
        ("Receivers", &[Receiver]),
    ];
    strips.into_iter().filter_map(strip).collect()
}

/// A box for each part of a kind; where there are many, one for those in the bottleneck and one for the rest.
fn chips(flow: &PictureFlow, kind: ResourceKind) -> Vec<Chip> {
    let open = flow.known.values().filter(|part| part.kind == kind && !flow.shown.contains(part.id.as_str()));
    let mut parts: Vec<&Resource> = open.copied().collect();
    parts.sort_by(|one, other| in_order(&one.id, &other.id));
    let groups: Vec<Vec<&Resource>> = if parts.len() <= ALONE {
        parts.into_iter().map(|part| vec![part]).collect()
    } else {
        let (tight, rest): (Vec<_>, Vec<_>) = parts.into_iter().partition(|part| flow.cut.contains(&part.id));
        [tight, rest].into_iter().filter(|group| !group.is_empty()).collect()
    };
    groups.iter().map(|group| chip(flow, group)).collect()
}

fn chip(flow: &PictureFlow, group: &[&Resource]) -> Chip {
    let names: Vec<String> = group.iter().map(|part| device(&part.id)).collect();
    let used = flow.used(group);
    let (title, sub) = match names.as_slice() {
        [one] => (title_of_part(group[0], one), group[0].why.clone().unwrap_or_default()),
        [first, .., last] => {
            (format!("{} {}", names.len(), plural(group[0].kind)), format!("{first} … {last}"))
        }
        [] => Default::default(),
    };
    let tip =
        joined([Some(title.clone()), Some(used.words.clone()), Some(shortened(&names.join(", "), NAMES))]);
    Chip { title, sub, tip, id: None, used: Some(used) }
}

fn title_of_part(part: &Resource, name: &str) -> String {
    match part.kind {
        ResourceKind::Cpu => "CPU of the workers".into(),
        ResourceKind::SocketLink => format!("socket link {name}"),
        ResourceKind::Pcie => format!("PCIe link {name}"),
        _ => name.to_string(),
    }
}
