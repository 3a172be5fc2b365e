//! Who feeds whom: of all ways to split the largest flow one that crosses as little as possible between
//! sockets, and that loads like devices alike; and what crosses all the same.
//!
//! Where less would cross, or more would flow, with a card in another slot, that is advised: each card at an end of a
//! crossing share is tried in a slot of the other end's node.

use super::flow_resources;
use super::product::{Flow, FlowShare, Placement};
use crate::plan::capacity::{Model, Solution};
use crate::plan::parts::{MachineParts, PartPlace};
use crate::plan::whatif::{WhatIfChange, apply};
use crate::plan::wording::{listed, name};
use crate::plan::{Origin, Resource, ResourceKind};
use linerate_facts::units::show_bytes_rate;
use std::collections::{BTreeMap, BTreeSet};

/// Halvings in the search for the least that is needed: what is left over falls on the last of many like
/// devices.
const ROUNDS: u32 = 14;
/// A flow that is lower by more than this share has lost something.
const SAME_RATE: f64 = 1e-6;

/// Moves that are tried; each solves the flow again.
const MOST_TRIES: usize = 8;
/// Less of the flow than this share is not worth a screwdriver.
const WORTH: f64 = 0.01;

/// The split of the flow.
#[derive(Debug)]
pub(super) struct Split {
    /// Bytes per second through each resource.
    pub through: BTreeMap<String, f64>,
    pub shares: Vec<FlowShare>,
    pub placement: Placement,
}

/// Splits the flow that the solution found.
pub(super) fn split(resources: &[Resource], solution: &Solution) -> Split {
    let Some(most) = solution.bytes_per_second.known().copied() else {
        let (through, shares, placement) = (BTreeMap::new(), Vec::new(), Placement::default());
        return Split { through, shares, placement };
    };
    let links: BTreeSet<String> = between_nodes(resources).map(|resource| resource.id.clone()).collect();
    let base =
        |resource: &Resource| if resource.origin == Origin::Unknown { most } else { resource.capacity };
    let through = |resource: &Resource| solution.through.get(&resource.id).copied().unwrap_or(0.0);
    let mut limited = resources.to_vec();
    least(&mut limited, most, |resource| links.contains(&resource.id), through);
    let is_first: BTreeSet<String> = firsts(resources);
    least(&mut limited, most, |resource| is_first.contains(&resource.id), base);
    let is_last: BTreeSet<String> = lasts(resources);
    least(&mut limited, most, |resource| is_last.contains(&resource.id), base);
    let model = Model::new(&limited);
    let shares = shares(&model.paths(), &links);
    let crossing = shares.iter().filter(|share| share.crosses).map(|share| share.bytes_per_second).sum();
    let advice = advice(&shares, crossing, !links.is_empty());
    let placement = Placement { crossing_bytes_per_second: crossing, advice };
    Split { through: model.solve().through, shares, placement }
}

/// Where bytes start: what no other leads to. Those of a volume start at its disks.
fn firsts(resources: &[Resource]) -> BTreeSet<String> {
    let parts = resources.iter().filter(|resource| resource.kind != ResourceKind::Volume);
    let led: BTreeSet<&String> = parts.clone().flat_map(|resource| &resource.next).collect();
    parts.map(|resource| &resource.id).filter(|id| !led.contains(id)).cloned().collect()
}

/// Where bytes end: at what leads nowhere, or to a volume alone.
fn lasts(resources: &[Resource]) -> BTreeSet<String> {
    let parts = || resources.iter().filter(|resource| resource.kind != ResourceKind::Volume);
    let there: BTreeSet<&String> = parts().map(|resource| &resource.id).collect();
    let leads_on = |resource: &Resource| resource.next.iter().any(|id| there.contains(id));
    parts().filter(|resource| !leads_on(resource)).map(|resource| resource.id.clone()).collect()
}

/// Lowers the capacity of some resources together, each to the same share of its `base`, as far as the flow
/// stays.
fn least(
    resources: &mut Vec<Resource>,
    most: f64,
    which: impl Fn(&Resource) -> bool,
    base: impl Fn(&Resource) -> f64,
) {
    let limited = |share: f64| {
        let mut limited = resources.clone();
        for resource in limited.iter_mut().filter(|resource| which(resource)) {
            resource.capacity = base(resource) * share;
            resource.origin = Origin::Rated;
            resource.lower_bound = false;
        }
        limited
    };
    let keeps = |resources: &[Resource]| {
        Model::new(resources).largest().is_some_and(|flow| flow >= most * (1.0 - SAME_RATE))
    };
    if !resources.iter().any(&which) {
        return;
    }
    let none = limited(0.0);
    if keeps(&none) {
        *resources = none;
        return;
    }
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..ROUNDS {
        let middle = (low + high) / 2.0;
        if keeps(&limited(middle)) { high = middle } else { low = middle }
    }
    let found = limited(high);
    *resources = found;
}

/// The paths of the bytes by their ends.
fn shares(paths: &[(Vec<String>, f64)], links: &BTreeSet<String>) -> Vec<FlowShare> {
    let mut sums: BTreeMap<(String, String, Option<u32>, bool), f64> = BTreeMap::new();
    for (path, bytes) in paths {
        let end = |id: Option<&String>| {
            id.filter(|id| !id.starts_with("memory")).map_or("memory", String::as_str).to_string()
        };
        let memory = path.iter().find_map(|id| id.strip_prefix("memory:")).and_then(|id| id.parse().ok());
        let crosses = path.iter().any(|id| links.contains(id));
        let mut ends = path.iter().filter(|id| !id.starts_with("volume:"));
        let first = end(ends.next());
        let last = ends.next_back().map_or_else(|| first.clone(), |id| end(Some(id)));
        *sums.entry((first, last, memory, crosses)).or_default() += bytes;
    }
    let share = |((source, sink, node, crosses), bytes_per_second)| FlowShare {
        source,
        sink,
        node,
        crosses,
        bytes_per_second,
    };
    sums.into_iter().map(share).collect()
}

fn between_nodes(resources: &[Resource]) -> impl Iterator<Item = &Resource> {
    // A hub's link has the hub's name, a link between nodes their numbers.
    resources.iter().filter(|resource| {
        resource.kind == ResourceKind::SocketLink
            && name(&resource.id).starts_with(|c: char| c.is_ascii_digit())
    })
}

fn advice(shares: &[FlowShare], crossing: f64, several_nodes: bool) -> Vec<String> {
    if !several_nodes {
        return Vec::new();
    }
    if crossing <= 0.0 {
        return vec![
            "nothing has to cross between the sockets: pin each worker to the node of its \
                     NIC"
            .into(),
        ];
    }
    let mut sources: Vec<&str> =
        shares.iter().filter(|share| share.crosses).map(|share| share.source.as_str()).collect();
    sources.dedup();
    let mut sinks: Vec<&str> =
        shares.iter().filter(|share| share.crosses).map(|share| share.sink.as_str()).collect();
    sinks.sort_unstable();
    sinks.dedup();
    vec![format!(
        "{} cross between the sockets, from {} to {}",
        show_bytes_rate(crossing),
        listed(&sources, 4),
        listed(&sinks, 4)
    )]
}

/// The best move in words, or why there is none; none where nothing crosses.
pub(super) fn best_move(parts: &MachineParts, flow: &Flow, now: &Split, ceiling: f64) -> Option<String> {
    let show = flow.unit();
    let crossing = now.placement.crossing_bytes_per_second;
    let mut tried: Vec<(String, u32)> = Vec::new();
    let mut hindrance: Option<String> = None;
    let mut best: Option<(f64, f64, String, u32)> = None;
    for (card, node) in now.shares.iter().filter(|share| share.crosses).flat_map(|share| moves(parts, share))
    {
        if tried.contains(&(card.clone(), node)) || tried.len() >= MOST_TRIES {
            continue;
        }
        tried.push((card.clone(), node));
        let mut moved = parts.clone();
        if let Err(why) = apply(&mut moved, &WhatIfChange::Move(format!("{card}=node{node}"))) {
            hindrance.get_or_insert(why.to_string());
            continue;
        }
        let resources = flow_resources(&moved, flow);
        let solution = Model::new(&resources).solve();
        let Some(rate) = solution.bytes_per_second.known().copied() else { continue };
        let crosses = split(&resources, &solution).placement.crossing_bytes_per_second;
        let better = best.as_ref().is_none_or(|best| rate - crosses > best.0 - best.1);
        if rate >= ceiling * (1.0 - WORTH) && rate - crosses > ceiling - crossing + WORTH * ceiling && better
        {
            best = Some((rate, crosses, card, node));
        }
    }
    match (best, hindrance) {
        (Some((rate, crosses, card, node)), _) => {
            let more = if rate > ceiling * (1.0 + WORTH) {
                format!(", and the flow rises to {}", show(rate))
            } else {
                String::new()
            };
            let left = if crosses > 0.0 {
                format!("only {} cross", show(crosses))
            } else {
                "nothing crosses".into()
            };
            Some(format!("with {card} in a slot of node{node} {left}{more}: --move {card}=node{node}"))
        }
        (None, Some(why)) => Some(format!("no move is possible: {why}")),
        _ => None,
    }
}

/// Both cards of a share, each with the node of the other.
fn moves(parts: &MachineParts, share: &FlowShare) -> Vec<(String, u32)> {
    let end = |id: &str| {
        let device = parts.device(id)?;
        let PartPlace::Joint(_) = &device.place else { return None };
        // The card is what is in a slot: a disk's controller, not the bus between.
        let above = parts.above(&device.place);
        let card = above.iter().find(|joint| joint.link.is_some())?;
        Some((card.name.clone(), parts.node_of(&device.place)?))
    };
    match (end(&share.source), end(&share.sink)) {
        (Some((source, here)), Some((sink, there))) if here != there => vec![(source, there), (sink, here)],
        _ => Vec::new(),
    }
}
