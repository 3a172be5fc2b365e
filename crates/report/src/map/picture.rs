//! What is drawn: the nodes, and on each the tree of links down to ports and disks. Alike things become one;
//! bridges that only pass a link on are left out.

use super::leaf::port;
use super::machine;
use super::parts::EdgeStyle;
use super::parts::{Branch, Chip, NodeBox, Picture, Strip, joined};
use super::tree::Builder;
use linerate_machine::probe::{Disk, DiskKind, Machine, Nic};
use linerate_machine::topology::Topology;
use linerate_measure::diagnose::{Finding, Severity, map_findings};
use std::collections::BTreeSet;

/// Chips in a strip below the nodes.
const CHIPS: usize = 24;

/// The picture of a machine.
pub(super) fn picture(machine: &Machine) -> Picture {
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

pub(super) fn strip(title: &str, mut chips: Vec<Chip>) -> Option<Strip> {
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
