//! The server as a block diagram, like the figures of SARA's D1.3: nodes with their CPUs and memory side by
//! side, below each its PCIe roots, switches, cards, and at the end ports and disks; the edges say what the
//! links carry. A flow laid over it shows how much of each part is in use, and the bottleneck.
//!
//! Four steps: [`picture`] says what is drawn, [`usage`] lays the flow over it, [`layout`] says where,
//! [`draw`] how. A tree lies on its side: a root or a switch is a bar as tall as all that hangs on it, so that
//! each link is one straight line with its rates on it, and nothing crosses.

mod described;
mod draw;
mod layout;
mod machine;
mod parts;
mod tree;
mod usage;

pub(super) use draw::SHEET;

use crate::markup::{Markup, finished};
use crate::verdict::{RunVerdict, resources};
use linerate_facts::units::{show_bits_rate, show_bytes_rate};
use linerate_machine::probe::{Disk, DiskKind, Machine, Nic};
use linerate_machine::topology::Topology;
use linerate_measure::diagnose::{Finding, Severity, map_findings};
use linerate_measure::run::Run;
use linerate_model::plan::Resource;
use linerate_model::plan::flow::FlowPlan;
use linerate_model::plan::parts::MachineParts;
use linerate_model::plan::wording::in_words;
use parts::{Branch, Chip, EdgeStyle, NodeBox, Picture, Strip, joined};
use std::collections::BTreeSet;
use tree::{Builder, port};

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
    let picture = usage::overlaid(picture, usage::Flow::planned(&resources, &cut));
    finished(draw::draw(&picture, &layout::layout(&picture), Some(&draw::sheet_of_a_file()))) + "\n"
}

/// The picture of a run's machine with its flow, within a page that has [`SHEET`].
pub(super) fn of_run(run: &Run, verdict: &RunVerdict) -> Markup {
    let flow = usage::Flow::new(&resources(run), verdict);
    let picture = usage::overlaid(picture(&run.machine), flow);
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

/// Chips in a strip below the nodes.
const CHIPS: usize = 24;

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

#[cfg(test)]
mod tests;
