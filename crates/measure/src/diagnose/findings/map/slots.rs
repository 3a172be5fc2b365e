//! Links that do not carry what hangs from them: slots that are narrower or of an older generation than the card in
//! them, and which other slot is better; cards whose ports carry more than their link; two busy cards behind one link.
//! And a port that runs slower than it can.

use super::lanes::better_slot;
use super::{card_name, carries_bytes, devices, link_and_rate, rate};
use crate::diagnose::product::{Finding, Severity};
use linerate_facts::units::bytes_per_second;
use linerate_machine::probe::{Machine, Nic, PciDevice, PciLink};
use linerate_machine::rates::pcie::PayloadDirection;
use linerate_machine::topology::{LinkCondition, LinkEnds, Topology, card, payload_rate, raw_rate};
use serde_json::json;
use std::collections::BTreeSet;

/// Share by which the cards' sum has to exceed the uplink.
const EXCEEDS: f64 = 1.02;

/// `pcie-slot-narrower`, `pcie-slot-older`: the link runs at all that the slot can, and the card could do more:
/// the card of eight lanes in a slot of four, the PCIe 1.0 slot beside one of 2.0. Where the rate of the card's
/// ports is known, `pcie-ports` says it with what it costs, or nobody has to.
pub(super) fn less_than_the_card(tree: &Topology) -> Vec<Finding> {
    let edges = tree.links();
    edges.iter().filter_map(|edge| narrower_slot(tree, &edges, edge)).collect()
}

fn narrower_slot(tree: &Topology, edges: &[LinkEnds], edge: &LinkEnds) -> Option<Finding> {
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

/// `pcie-ports`: the payload of a card's link, after packet headers, is less than what its network or disk
/// ports carry.
pub(super) fn too_small(tree: &Topology) -> Vec<Finding> {
    tree.links().iter().filter_map(|edge| too_small_link(tree, edge)).collect()
}

fn too_small_link(tree: &Topology, edge: &LinkEnds) -> Option<Finding> {
    // A link below its ends has its own finding, with the nearer remedy.
    if !edge.is_as_good_as_known() || !carries_bytes(tree, edge.device) || tree.is_bridge(edge.device) {
        return None;
    }
    let network = !tree.nics(edge.device).is_empty();
    let direction = tree.payload_direction(edge.device);
    let has = payload_rate(edge.now(), edge.device, direction)?;
    let ports = tree.port_rate(edge.device)?;
    if ports <= has {
        return None;
    }
    let card = edge.device.link_max.known().copied();
    let slot = edge.port.and_then(|port| port.link_max.known()).copied();
    let more = |most: Option<linerate_machine::probe::PciLink>| {
        most.filter(|most| raw_rate(*most) > raw_rate(edge.now()))
    };
    let (who, remedy) = match (more(card), more(slot)) {
        (Some(card), _) if slot.is_some() => {
            (format!("the card could do {}, its slot no more than this", card), better_slot(tree, card))
        }
        (Some(card), _) => (
            format!("the card could do {}; what its slot can do is not known here", card),
            better_slot(tree, card),
        ),
        (None, Some(slot)) => (
            format!("the card can do no more; its slot could do {}", slot),
            "use a card that fills the slot, or spread the ports over two cards".into(),
        ),
        (None, None) => (
            "neither the card nor the slot is known to do more".into(),
            "spread the ports over two cards in two slots".into(),
        ),
    };
    let most = more(card).and_then(|card| payload_rate(card, edge.device, direction)).unwrap_or(ports);
    // Disks rarely fill all ports of their controller; a NIC's peers do.
    Some(Finding::new(if network { Severity::Slow } else { Severity::Note }, "pcie-ports", format!(
            "{} has ports for {} on a link of {}, which carries {} of payload: {who}",
            card_name(tree, edge.device),
            rate(ports),
            edge.now(),
            rate(has)
        )).evidence(json!({
            "devices": devices(tree, edge.device), "ports_bytes_per_second": ports, "link_bytes_per_second": has, "now": edge.now(),
            "card": card, "slot": slot,
        })).remedy(remedy).gain((most.min(ports) - has).max(0.0)))
}

/// `nic-speed`: the link of a NIC is slower than its card and module can do. Mostly the other end is why, so that it is
/// a note.
pub(super) fn slow_nic(machine: &Machine) -> Vec<Finding> {
    machine.nics.iter().filter(|nic| !nic.loopback).filter_map(below_its_modes).collect()
}

fn below_its_modes(nic: &Nic) -> Option<Finding> {
    let (now, most) = (*nic.speed_bits_per_second.known()?, *nic.details.link_max_bits_per_second.known()?);
    if now == 0 || now >= most {
        return None;
    }
    let [now, most] = [now, most].map(bytes_per_second);
    let text =
        format!("the link of {} runs at {}; its card and module can do {}", nic.name, rate(now), rate(most));
    let remedy = format!(
        "look at the cable and at the other end's port (`ethtool {}` shows what both offer): where they can do more, \
         replace the cable, and let the speed be negotiated",
        nic.name
    );
    let evidence = json!({ "devices": [nic.name], "bytes_per_second": now, "most_bytes_per_second": most });
    Some(Finding::note("nic-speed", text).evidence(evidence).remedy(remedy))
}

/// `shared-uplink`: the NICs, or the disks, behind a switch move more than its uplink carries. The two do not
/// add up: disks write to memory while NICs read from it, and each link carries both ways at full rate.
pub(super) fn shared_uplink(tree: &Topology) -> Vec<Finding> {
    let mut found: Vec<(BTreeSet<&str>, f64, Finding)> = Vec::new();
    for edge in tree.links() {
        if !tree.is_bridge(edge.device) || matches!(edge.condition, LinkCondition::Formality(_)) {
            continue;
        }
        let below = tree.cards_below(edge.device);
        for network in [true, false] {
            let Some((cards, has, finding)) = overfull_uplink(tree, &edge, &below, network) else { continue };
            // Of several links above the same cards, the narrowest is the one to name.
            match found.iter_mut().find(|(others, ..)| *others == cards) {
                Some(other) if other.1 <= has => {}
                Some(other) => *other = (cards, has, finding),
                None => found.push((cards, has, finding)),
            }
        }
    }
    found.into_iter().map(|(.., finding)| finding).collect()
}

fn overfull_uplink<'a>(
    tree: &Topology<'a>,
    edge: &LinkEnds<'a>,
    below: &[&'a PciDevice],
    network: bool,
) -> Option<(BTreeSet<&'a str>, f64, Finding)> {
    let direction = if network { PayloadDirection::FromMemory } else { PayloadDirection::ToMemory };
    let has = payload_rate(edge.under_load()?, edge.device, direction)?;
    let busy: Vec<(&PciDevice, f64)> =
        below.iter().filter_map(|card| Some((*card, wants(tree, card, network)?))).collect();
    let sum: f64 = busy.iter().map(|(_, wants)| wants).sum();
    if busy.len() < 2 || sum <= has * EXCEEDS {
        return None;
    }
    let names: Vec<String> = busy.iter().map(|(card, _)| card_name(tree, card)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    // GPUs and NICs below one switch exchange bytes without its uplink.
    let direct = network
        && busy.iter().all(|(card, _)| card.gpu_direct == Some(true))
        && below.iter().any(|card| tree.is_gpu(card) && card.gpu_direct == Some(true));
    // What a disk's link could carry the disk itself may not.
    let finding = Finding::new(if network && !direct { Severity::Slow } else { Severity::Note }, "shared-uplink", format!(
            "{} share the link of the switch {}, {}: they can move {} together and it carries {}{}",
            super::listed(&names),
            edge.device.address,
            edge.now(),
            rate(sum),
            rate(has),
            if direct { "; what they exchange with the GPUs below the switch does not pass it" } else { "" }
        )).evidence(json!({
            "devices": busy.iter().flat_map(|(card, _)| devices(tree, card)).collect::<Vec<_>>(), "switch": edge.device.address,
            "sum_bytes_per_second": sum, "link_bytes_per_second": has, "now": edge.now(),
        })).remedy("move one of them to a slot of its own, below another root port").gain(if network && !direct { sum - has } else { 0.0 });
    Some((busy.iter().map(|(device, _)| card(&device.address)).collect(), has, finding))
}

/// What a card that is in use can move: its ports, and no more than its link.
fn wants(tree: &Topology, device: &PciDevice, network: bool) -> Option<f64> {
    let direction = if network { PayloadDirection::FromMemory } else { PayloadDirection::ToMemory };
    let own = device.link.known().and_then(|link| payload_rate(*link, device, direction));
    let ports = tree.port_rate(device);
    if network {
        (!tree.nics(device).is_empty()).then_some(())?;
        return Some(ports?.min(own.unwrap_or(f64::INFINITY)));
    }
    (tree.nics(device).is_empty() && !tree.disks(device).is_empty()).then_some(())?;
    match (own, ports) {
        (Some(own), Some(ports)) => Some(own.min(ports)),
        (own, ports) => own.or(ports),
    }
}
