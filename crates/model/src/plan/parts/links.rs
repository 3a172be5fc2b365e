//! PCIe links between devices and memory as resources: each link once, shared where it is shared.
//!
//! sysfs shows a link at both its ends, so a bridge adds a resource only where more devices of the flow are
//! behind it than behind the link below, or where it is narrower. Two functions of one card, or two disks of
//! one controller, share the card's link.
//!
//! Three kinds of ports: *real*; *synthetic*, whose figure is a formality and never binds (an integrated
//! endpoint on a root bus, a device whose own maximum is far below its network port, an uplink that claims
//! less than each of its children); *unknown*. Directions do not share: disks write to memory, NICs that send
//! read from it, and each link carries both at full rate.

use super::show_link;
use linerate_machine::probe::{PciDevice, PciLink, PortKind};
use linerate_machine::rates::pcie::{self, PayloadDirection};
use linerate_machine::topology::{LinkCondition, Topology, card, raw_rate};
use std::collections::BTreeSet;

/// One link with a capacity, or a formality with the reason.
#[derive(Clone, Debug)]
pub(super) struct Link {
    /// Function at its lower end: the card's first, or the bridge.
    pub address: String,
    /// Why it is a formality that never binds, if it is one.
    pub formality: Option<&'static str>,
    /// MaxPayload that the device has set, bytes, where it could be read.
    pub max_payload_bytes: Option<u32>,
    /// What it carries under load: as it runs, or what both ends can do where it is slow only while idle.
    pub carries: PciLink,
    /// How it runs beside what its ends can do, where that is worth saying.
    pub note: Option<String>,
    rated: f64,
    effective: f64,
    /// Cards of the flow behind it.
    cards: BTreeSet<String>,
}

/// The device's own link and the bridges' above it that add something, the device's first.
pub(super) fn chain(tree: &Topology, address: &str, all: &[&str], direction: PayloadDirection) -> Vec<Link> {
    let mut chain: Vec<Link> = Vec::new();
    let Some(device) = tree.find(address) else { return chain };
    // A packet on the whole way to memory is as large as the device makes it.
    let max_payload_bytes = device.express.max_payload_bytes.known().copied();
    if let Some(own) = link_of_function(tree, device, max_payload_bytes, direction) {
        let cards = BTreeSet::from([card(address).to_string()]);
        chain.push(Link { formality: tree.formality(device), cards, ..own });
    }
    for bridge in tree.above(device) {
        let Some(link) = link_of_function(tree, bridge, max_payload_bytes, direction) else { continue };
        let is_behind =
            |other: &&&str| tree.find(other).is_some_and(|one| tree.is_below(one, &bridge.address));
        let behind: BTreeSet<String> =
            all.iter().filter(is_behind).map(|other| card(other).to_string()).collect();
        if let Some(why) = tree.formality(bridge) {
            // What is below one switch need not pass its uplink, whatever that claims.
            if behind.len() > 1 && tree.kind(bridge) == Some(PortKind::SwitchUpstream) {
                let address = bridge.address.clone();
                chain.push(Link { address, formality: Some(why), cards: behind, ..link });
            }
            continue;
        }
        let real = chain.iter().rev().find(|link| link.formality.is_none());
        let repeats = real.is_some_and(|below| below.cards == behind && below.effective <= link.effective);
        // The other end of a formality is one, too.
        let other_end =
            chain.last().is_some_and(|below| below.formality.is_some() && below.rated == link.rated);
        if !repeats && !other_end {
            chain.push(Link { address: bridge.address.clone(), cards: behind, ..link });
        }
    }
    chain
}

/// The link that a function is an end of, with its rates.
fn link_of_function(
    tree: &Topology,
    device: &PciDevice,
    max_payload_bytes: Option<u32>,
    direction: PayloadDirection,
) -> Option<Link> {
    let ends = tree.link(device);
    let carries = ends.as_ref().and_then(|ends| ends.under_load()).or(device.link.known().copied())?;
    let PciLink { gt_per_second, width } = carries;
    let able = ends.as_ref().and_then(|ends| ends.able).map(show_link).unwrap_or_default();
    let note = match (ends.as_ref().map(|ends| &ends.condition), ends.as_ref().and_then(|ends| ends.runs)) {
        (Some(LinkCondition::Below { .. }), _) => Some(format!("below the {able} of both ends")),
        (Some(LinkCondition::Idle), Some(runs)) => Some(format!("idle at {} now", show_link(runs))),
        _ => None,
    };
    Some(Link {
        address: ends.map_or_else(|| device.address.clone(), |ends| ends.device.address.clone()),
        formality: None,
        max_payload_bytes,
        carries,
        note,
        rated: raw_rate(carries)?,
        effective: pcie::payload_bytes_per_second(gt_per_second, width, max_payload_bytes, direction)?,
        cards: BTreeSet::new(),
    })
}
