//! What the block diagram shows: the resources as blocks in columns from disk to receiver, alike ones put together where there
//! are too many to read, and the pipes between them.

use super::probed::{About, probed};
use crate::plan::{Resource, ResourceKind};
use crate::report::figure::{Figure, Unit, rate, share};
use crate::report::stages::device;
use crate::report::verdict::{natural, plural, resources};
use crate::run::Run;
use std::collections::{BTreeMap, BTreeSet};

/// A column with more blocks than this puts alike ones together.
const READABLE_BLOCKS: usize = 8;

/// A device below this share of its kind's median is shown by itself.
const ODD_SHARE: f64 = 0.8;

/// Columns, in the order of the path; empty ones are not drawn.
pub(super) const COLUMNS: [&str; 6] =
    ["Sources", "Disks", "Controllers, PCIe", "Memory, CPU", "PCIe", "NICs"];

/// The last column.
pub(super) const RECEIVERS: &str = "Receivers";

/// Where the packages and the memory stand.
pub(super) const CENTRE: usize = 3;

/// One or several resources as a box.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub(super) kind: ResourceKind,
    pub(super) column: usize,
    /// Names of the members, in natural order; one for a single device.
    pub(super) names: Vec<String>,
    /// `NVMe`, `mlx5_core`, link speed …
    pub(super) about: String,
    pub(super) node: Option<u32>,
    /// Sum over the members.
    pub(super) capacity: Figure,
    /// Each member's capacity, lowest and highest.
    pub(super) range: Option<(f64, f64)>,
    /// Share of the capacity in use, 0 to 1.
    pub(super) utilisation: f64,
    pub(super) cut: bool,
}

/// Bytes go from one block to another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pipe {
    pub(super) from: usize,
    pub(super) to: usize,
}

/// The whole picture.
#[derive(Clone, Debug)]
pub(super) struct Picture {
    pub(super) blocks: Vec<Block>,
    pub(super) pipes: Vec<Pipe>,
}

impl Block {
    /// Links in bits, the rest in bytes.
    pub(super) fn unit(&self) -> Unit {
        match self.kind {
            ResourceKind::Nic | ResourceKind::Receiver => Unit::Bits,
            _ => Unit::Bytes,
        }
    }

    /// Bytes per second that flow through, where capacity and use are known.
    pub(super) fn flow(&self) -> Option<f64> {
        self.capacity.value.map(|capacity| capacity * self.utilisation).filter(|flow| *flow > 0.0)
    }

    /// `loop0`, or `16 disks, node 0`.
    pub(super) fn title(&self) -> String {
        match self.names.as_slice() {
            [one] if one == "lanes" => "CPU of the lanes".into(),
            [one] if self.kind == ResourceKind::SocketLink => format!("link {one}"),
            [one] => one.clone(),
            many => {
                let node = self.node.map(|node| format!(", node {node}")).unwrap_or_default();
                format!("{} {}{node}", many.len(), plural(self.kind))
            }
        }
    }
}

/// The picture of a run: its resources, or where nothing was planned, the devices that the probe saw.
pub(super) fn picture(run: &Run, cut: &BTreeSet<String>) -> Picture {
    let mut all: Vec<Resource> = resources(run).into_iter().cloned().collect();
    if all.is_empty() {
        all = probed(run);
    }
    let columns = columns(&all);
    let about = About::of(run);
    let mut blocks: Vec<Block> = Vec::new();
    let mut home: BTreeMap<&str, usize> = BTreeMap::new();
    for column in 0..=COLUMNS.len() {
        let members: Vec<&Resource> =
            all.iter().filter(|resource| columns.get(resource.id.as_str()) == Some(&column)).collect();
        for group in together(&members, &about, cut) {
            for resource in &group {
                home.insert(&resource.id, blocks.len());
            }
            blocks.push(block(&group, column, &about, cut));
        }
    }
    let pairs: BTreeSet<(usize, usize)> = all
        .iter()
        .flat_map(|resource| resource.next.iter().map(move |next| (resource.id.as_str(), next.as_str())))
        .filter_map(|(from, to)| Some((*home.get(from)?, *home.get(to)?)))
        .filter(|(from, to)| from != to)
        .collect();
    Picture { blocks, pipes: pairs.into_iter().map(|(from, to)| Pipe { from, to }).collect() }
}

/// Column of each resource. PCIe links and controllers stand on the side that they serve: before memory and CPU, or after.
fn columns(all: &[Resource]) -> BTreeMap<&str, usize> {
    let by_id: BTreeMap<&str, &Resource> =
        all.iter().map(|resource| (resource.id.as_str(), resource)).collect();
    all.iter()
        .map(|resource| {
            let column = match resource.kind {
                ResourceKind::Source => 0,
                ResourceKind::Disk => 1,
                ResourceKind::Memory | ResourceKind::Cpu | ResourceKind::SocketLink => CENTRE,
                ResourceKind::Nic => 5,
                ResourceKind::Receiver => 6,
                ResourceKind::Controller | ResourceKind::Pcie => {
                    if leads_to_centre(resource, &by_id) {
                        2
                    } else {
                        4
                    }
                }
            };
            (resource.id.as_str(), column)
        })
        .collect()
}

fn leads_to_centre(start: &Resource, by_id: &BTreeMap<&str, &Resource>) -> bool {
    let mut pending = vec![start];
    let mut seen = BTreeSet::new();
    while let Some(resource) = pending.pop() {
        if matches!(resource.kind, ResourceKind::Memory | ResourceKind::Cpu | ResourceKind::SocketLink) {
            return true;
        }
        if seen.insert(resource.id.as_str()) {
            pending.extend(resource.next.iter().filter_map(|next| by_id.get(next.as_str())));
        }
    }
    false
}

/// The members of a column as groups, each of which becomes a block; sorted by NUMA node, then by name.
fn together<'a>(members: &[&'a Resource], about: &About, cut: &BTreeSet<String>) -> Vec<Vec<&'a Resource>> {
    let mut members = members.to_vec();
    members.sort_by_key(|resource| {
        (about.node(resource), resource.kind != ResourceKind::Memory, natural(&resource.id))
    });
    if members.len() <= READABLE_BLOCKS {
        return members.into_iter().map(|resource| vec![resource]).collect();
    }
    let odd: Vec<&str> = odd(&members);
    let by_node = grouped_by(&members, |resource| (about.node(resource), key(resource, cut, &odd)));
    if by_node.len() <= READABLE_BLOCKS + 2 {
        return by_node;
    }
    grouped_by(&members, |resource| key(resource, cut, &odd))
}

type Key<'a> = (ResourceKind, bool, Option<&'a str>);

fn key<'a>(resource: &Resource, cut: &BTreeSet<String>, odd: &[&'a str]) -> Key<'a> {
    let alone = odd.iter().find(|id| **id == resource.id).copied();
    (resource.kind, cut.contains(&resource.id), alone)
}

fn grouped_by<'a, K: PartialEq>(
    members: &[&'a Resource],
    key: impl Fn(&Resource) -> K,
) -> Vec<Vec<&'a Resource>> {
    let mut groups: Vec<(K, Vec<&Resource>)> = Vec::new();
    for resource in members {
        let this = key(resource);
        match groups.iter_mut().find(|(other, _)| *other == this) {
            Some((_, group)) => group.push(resource),
            None => groups.push((this, vec![resource])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// The few that are far slower than their kind.
fn odd<'a>(members: &[&'a Resource]) -> Vec<&'a str> {
    let mut rates: Vec<f64> = members.iter().filter_map(|r| Figure::capacity(r).value).collect();
    rates.sort_by(f64::total_cmp);
    let Some(median) = rates.get(rates.len() / 2) else { return Vec::new() };
    let slow = |r: &&&Resource| Figure::capacity(r).value.is_some_and(|rate| rate < median * ODD_SHARE);
    let mut slow: Vec<&Resource> = members.iter().filter(slow).copied().collect();
    slow.sort_by(|a, b| a.capacity.total_cmp(&b.capacity));
    slow.iter().take(3).map(|resource| resource.id.as_str()).collect()
}

fn block(group: &[&Resource], column: usize, about: &About, cut: &BTreeSet<String>) -> Block {
    let capacities: Vec<Figure> = group.iter().map(|resource| Figure::capacity(resource)).collect();
    let values: Vec<f64> = capacities.iter().filter_map(|figure| figure.value).collect();
    let low = values.iter().copied().reduce(f64::min);
    let high = values.iter().copied().reduce(f64::max);
    let capacity = Figure::sum(capacities);
    // The use of a group is that of its bytes, not the mean of its members' shares.
    let flow: f64 = group.iter().filter_map(|r| Some(rate(r.capacity)? * share(r.utilisation))).sum();
    let utilisation = capacity.value.filter(|total| *total > 0.0).map_or(0.0, |total| share(flow / total));
    let node = about.node(group[0]);
    Block {
        kind: group[0].kind,
        column,
        names: group.iter().map(|resource| device(&resource.id)).collect(),
        about: about.text(group[0]),
        node: node.filter(|node| group.iter().all(|resource| about.node(resource) == Some(*node))),
        capacity,
        range: low.zip(high).filter(|_| group.len() > 1 && values.len() == group.len()),
        utilisation,
        cut: group.iter().any(|resource| cut.contains(&resource.id)),
    }
}
