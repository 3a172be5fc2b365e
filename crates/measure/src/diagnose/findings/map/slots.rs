//! Slots that are narrower or of an older generation than the card in them, and which other slot is better.

use super::super::super::product::Finding;
use super::lanes::better_slot;
use super::{card_name, carries_bytes, devices, link_and_rate};
use linerate_machine::probe::{PciDevice, PciLink};
use linerate_machine::topology::{LinkCondition, LinkEnds, Topology};
use serde_json::json;

/// `pcie-slot-narrower`, `pcie-slot-older`: the link runs at all that the slot can, and the card could do more:
/// the card of eight lanes in a slot of four, the PCIe 1.0 slot beside one of 2.0. Where the rate of the card's
/// ports is known, `pcie-ports` says it with what it costs, or nobody has to.
pub(super) fn less_than_the_card(tree: &Topology) -> Vec<Finding> {
    let edges = tree.links();
    edges.iter().filter_map(|edge| finding_of(tree, &edges, edge)).collect()
}

fn finding_of(tree: &Topology, edges: &[LinkEnds], edge: &LinkEnds) -> Option<Finding> {
    if edge.condition != LinkCondition::Full
        || tree.is_bridge(edge.device)
        || !carries_bytes(tree, edge.device)
    {
        return None;
    }
    if tree.port_rate(edge.device).is_some() {
        return None;
    }
    let card = *edge.device.link_max.known()?;
    let port = edge.port?;
    let slot = *port.link_max.known()?;
    let (narrower, older) = (slot.width < card.width, slot.gt_per_second < card.gt_per_second);
    if !narrower && !older {
        return None;
    }
    let what = match (narrower, older) {
        (true, true) => "narrower and of an older generation than the card",
        (true, false) => "narrower than the card",
        _ => "of an older generation than the card",
    };
    let place = port.express.slot.known().map_or("its slot".to_string(), |number| format!("slot {number}"));
    let text = format!(
        "{} runs at {}, which is all that {place} can do; the card could do {}: the slot is {what}",
        card_name(tree, edge.device),
        link_and_rate(edge.now()),
        link_and_rate(card),
    );
    let finding = match older {
        true => Finding::note("pcie-slot-older", text),
        false => Finding::note("pcie-slot-narrower", text),
    };
    let evidence = json!({
        "devices": devices(tree, edge.device), "port": port.address, "now": edge.now(), "card": card, "slot": slot,
    });
    let remedy = swap(tree, edges, card, slot).unwrap_or_else(|| better_slot(tree, card));
    Some(finding.evidence(evidence).remedy(remedy))
}

/// A slot beside that could do what this card can, and whose own card would lose nothing in this one; only where
/// no slot is empty.
fn swap(tree: &Topology, edges: &[LinkEnds], card: PciLink, slot: PciLink) -> Option<String> {
    let covers = |most: PciLink, wanted: PciLink| {
        most.width >= wanted.width && most.gt_per_second >= wanted.gt_per_second
    };
    if super::empty_slot(tree, card).is_some() {
        return None;
    }
    let most = |end: &PciDevice| end.link_max.known().copied();
    let other = edges.iter().find(|other| {
        let port = other.port.and_then(most);
        !tree.is_bridge(other.device)
            && port.is_some_and(|port| covers(port, card))
            && most(other.device).is_some_and(|own| covers(slot, own))
    })?;
    let port = other.port?;
    let place = port.express.slot.known().map_or(port.address.clone(), |number| format!("slot {number}"));
    Some(format!(
        "swap it with {}: {place} can do {}, and that card needs no more than this slot has",
        card_name(tree, other.device),
        most(port)?
    ))
}
