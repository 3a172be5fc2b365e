//! What to move where less crosses between the sockets, or more flows: each card at an end of a crossing share
//! is tried in a slot of the other end's node.

use super::flow_resources;
use super::placement::{Split, split};
use super::product::{Flow, FlowShare};
use crate::plan::capacity::Model;
use crate::plan::parts::{MachineParts, PartPlace};
use crate::plan::whatif::{WhatIfChange, apply};

/// Moves that are tried; each solves the flow again.
const MOST_TRIES: usize = 8;
/// Less of the flow than this share is not worth a screwdriver.
const WORTH: f64 = 0.01;

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
