//! A card whose ports carry more than its link: the slot is too small, or the card is. And a port that runs slower than
//! it can.

use super::super::super::product::{Finding, Severity};
use super::lanes::better_slot;
use super::{card_name, carries_bytes, devices, rate};
use linerate_facts::units::bytes_per_second;
use linerate_machine::probe::{Machine, Nic};
use linerate_machine::topology::{LinkEnds, Topology, payload_rate, raw_rate};
use serde_json::json;

/// `pcie-ports`: the payload of a card's link, after packet headers, is less than what its network or disk
/// ports carry.
pub(super) fn too_small(tree: &Topology) -> Vec<Finding> {
    tree.links().iter().filter_map(|edge| finding_of(tree, edge)).collect()
}

fn finding_of(tree: &Topology, edge: &LinkEnds) -> Option<Finding> {
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
