//! Two busy cards behind one link that cannot carry both.

use super::super::super::product::{Finding, Severity};
use super::{card_name, devices, rate};
use linerate_machine::probe::PciDevice;
use linerate_machine::rates::pcie::PayloadDirection;
use linerate_machine::topology::{LinkCondition, LinkEnds, Topology, card, payload_rate};
use serde_json::json;
use std::collections::BTreeSet;

/// Share by which the cards' sum has to exceed the uplink.
const EXCEEDS: f64 = 1.02;

/// `shared-uplink`: the NICs, or the disks, behind a switch move more than its uplink carries. The two do not
/// add up: disks write to memory while NICs read from it, and each link carries both ways at full rate.
pub(super) fn shared(tree: &Topology) -> Vec<Finding> {
    let mut found: Vec<(BTreeSet<&str>, f64, Finding)> = Vec::new();
    for edge in tree.links() {
        if !tree.is_bridge(edge.device) || matches!(edge.condition, LinkCondition::Formality(_)) {
            continue;
        }
        let below = tree.cards_below(edge.device);
        for network in [true, false] {
            let Some((cards, has, finding)) = finding_of(tree, &edge, &below, network) else { continue };
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

fn finding_of<'a>(
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
