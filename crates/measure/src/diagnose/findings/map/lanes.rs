//! PCIe links: those that run below what both of their ends can do, those that sleep, cards that are older than their
//! slots, and packet sizes (MaxPayload, MaxReadRequest) smaller than both ends can do.

use super::{card_name, carries_bytes, devices, empty_slot, link_and_rate, listed};
use crate::diagnose::product::{Finding, Severity};
use linerate_facts::grouping::grouped;
use linerate_machine::probe::{PciDevice, PciLink};
use linerate_machine::rates::pcie::{self, PayloadDirection, raw_bytes_per_second};
use linerate_machine::topology::{LinkCondition, LinkEnds, Topology, payload_rate};
use serde_json::json;

/// MaxPayload after a reset, bytes: every device has to support it.
const SMALL_PAYLOAD: u32 = 128;
/// Read requests below this keep a fast card from having enough in flight; the value after a reset.
const USUAL_READ_REQUEST: u32 = 512;
/// Payload of a link, bytes per second: of slower cards the size of the requests is not looked at.
const FAST_CARD: f64 = 1e9;

/// `pcie-width`, `pcie-speed`: a link runs on fewer lanes or slower than the card and the slot can.
/// `pcie-idle`: it runs slower, and its device is one that sleeps. Where the slot does not report what it can
/// do, that is a note about the card alone.
pub(super) fn below_both_ends(tree: &Topology) -> Vec<Finding> {
    let edges = tree.links();
    let mut findings: Vec<Finding> = Vec::new();
    let mut idle: Vec<&LinkEnds> = Vec::new();
    for edge in edges.iter().filter(|edge| carries_bytes(tree, edge.device)) {
        match (&edge.condition, edge.both(), edge.device.link_max.known()) {
            (LinkCondition::Below { narrower, target, .. }, Some(both), _) => {
                findings.push(below(tree, edge, both, *narrower, *target));
            }
            (LinkCondition::Idle, ..) => idle.push(edge),
            (LinkCondition::Unknown, None, Some(most)) => findings.extend(below_card(tree, edge, *most)),
            _ => {}
        }
    }
    let mut findings = merged(findings);
    let figures = |edge: &LinkEnds| (edge.now(), edge.able, edge.able_ends());
    let alike = grouped(idle, |one, other| figures(one) == figures(other));
    findings.extend(alike.iter().filter_map(|group| sleeping(tree, group)));
    findings
}

fn below(tree: &Topology, edge: &LinkEnds, both: PciLink, narrower: bool, target: Option<f64>) -> Finding {
    let rates = |link| payload_rate(link, edge.device, PayloadDirection::ToMemory).unwrap_or(0.0);
    let wanted = tree.port_rate(edge.device).unwrap_or(f64::INFINITY);
    let gain = (rates(both).min(wanted) - rates(edge.now()).min(wanted)).max(0.0);
    let slot = edge.port.and_then(|port| port.express.slot.known());
    let slot = slot.map_or("its slot".into(), |slot| format!("slot {slot}"));
    let enough = if gain > 0.0 { "" } else { "; its ports need no more than it has" };
    let set = target.map(|speed| format!("; the port is set to {speed} GT/s at most")).unwrap_or_default();
    let remedy = if narrower {
        "reseat the card, and look for dirt on its contacts and for a slot whose lanes the BIOS splits or \
         shares (bifurcation) or that has fewer lanes than its length; `lspci -vv` shows LnkCap and LnkSta"
    } else {
        "look for a link speed fixed in the BIOS, a riser or cable that is too old for it, and errors \
         (`dmesg | grep -i aer`); reseat the card"
    };
    Finding::new(if gain > 0.0 { Severity::Slow } else { Severity::Note }, if narrower { "pcie-width" } else { "pcie-speed" }, format!(
            "the link of {} runs at {}; the card and {slot} can both do {}{set}{enough}",
            card_name(tree, edge.device),
            link_and_rate(edge.now()),
            link_and_rate(both),
        )).evidence(json!({
            "devices": devices(tree, edge.device), "port": edge.port.map(|port| &port.address), "now": edge.now(), "both_ends": both,
        })).remedy(remedy).gain(gain)
}

/// The card can do more than it does, and nothing tells of the other end.
fn below_card(tree: &Topology, edge: &LinkEnds, most: PciLink) -> Option<Finding> {
    let narrower = edge.now().width < most.width;
    (narrower || edge.now().gt_per_second < most.gt_per_second).then(|| {
        Finding::note(
            if narrower { "pcie-width" } else { "pcie-speed" },
            format!(
                "the link of {} runs at {} and the card could do {}; what its slot can do is not known here",
                card_name(tree, edge.device),
                edge.now(),
                most
            ),
        )
        .evidence(json!({ "devices": devices(tree, edge.device), "now": edge.now(), "card": most }))
        .remedy(
            "look into the board's manual what the slot can do; `lspci -vv` of the port above shows it, too",
        )
    })
}

/// Links that run alike and could do the same.
fn sleeping(tree: &Topology, idle: &[&LinkEnds]) -> Option<Finding> {
    let first = idle.first()?;
    let able = first.able?;
    Some(
        Finding::note(
            "pcie-idle",
            format!(
                "{}: the link{} at {} where {} can do {}: such a device slows its link down while it has \
             nothing to do",
                card_names(tree, idle.iter().copied()),
                if idle.len() == 1 { " runs" } else { "s run" },
                first.now(),
                first.able_ends(),
                able
            ),
        )
        .evidence(json!({
            "devices": all_devices(tree, idle.iter().copied()), "now": first.now(), "both_ends": able,
        }))
        .remedy("look again under load; only a link that stays slow then is one"),
    )
}

/// `pcie-card-older`: the link runs as fast as the card can, and the slot could go at least twice as fast.
/// What cost SARA its 40 Gb/s: cards of 2.5 GT/s in slots of 5. A card whose ports need no more is right as
/// it is.
pub(super) fn older_card(tree: &Topology) -> Vec<Finding> {
    let older = |edge: &LinkEnds| {
        let most = *edge.device.link_max.known()?;
        let slot = *edge.port?.link_max.known()?;
        let own = payload_rate(edge.now(), edge.device, PayloadDirection::FromMemory)?;
        let has_faster_ports = tree.port_rate(edge.device).is_none_or(|ports| ports > own);
        // The slot may be narrower than the card: that is another finding.
        let fits =
            edge.now().gt_per_second == most.gt_per_second && most.gt_per_second * 2.0 <= slot.gt_per_second;
        let real = edge.condition == LinkCondition::Full && !tree.is_bridge(edge.device);
        (has_faster_ports && fits && real && carries_bytes(tree, edge.device)).then_some(slot)
    };
    let edges = tree.links();
    let mut found: Vec<(&LinkEnds, PciLink)> =
        edges.iter().filter_map(|edge| Some((edge, older(edge)?))).collect();
    found.sort_by(|(a, _), (b, _)| a.now().gt_per_second.total_cmp(&b.now().gt_per_second));
    // A finding for each generation of cards.
    let generations = grouped(found, |(a, _), (b, _)| a.now().gt_per_second == b.now().gt_per_second);
    generations.iter().map(|cards| older_cards(tree, cards)).collect()
}

/// Cards of one speed, each with what its slot could do.
fn older_cards(tree: &Topology, cards: &[(&LinkEnds, PciLink)]) -> Finding {
    let (now, slots) = (cards[0].0.now().gt_per_second, cards.iter().map(|(_, slot)| slot.gt_per_second));
    let fastest = slots.fold(now, f64::max);
    let (whose, up_to) = if cards.len() == 1 { ("its slot", "") } else { ("their slots", "up to ") };
    let lane = |speed| raw_bytes_per_second(speed, 1);
    let more = lane(fastest)
        .zip(lane(now))
        .map_or("more".to_string(), |(slot, card)| format!("{up_to}{:.0} times as much", slot / card));
    Finding::note(
        "pcie-card-older",
        format!(
            "{} can do no more than {now} GT/s, and {whose} could do {up_to}{fastest} GT/s: the card is older \
             than the slot",
            card_names(tree, links(cards)),
        ),
    )
    .evidence(json!({
        "devices": all_devices(tree, links(cards)),
        "now": cards[0].0.now(), "slot": cards[0].1,
    }))
    .remedy(format!(
        "a card of the slot's generation carries {more} on the same lanes; nothing in the BIOS raises this one"
    ))
}

/// Findings of one kind about links of the same figures become one: 24 drives on two lanes each are one thing
/// to repair.
fn merged(findings: Vec<Finding>) -> Vec<Finding> {
    let mut merged: Vec<(Finding, usize)> = Vec::new();
    for finding in findings {
        let same = |other: &&mut (Finding, usize)| {
            let figures =
                |finding: &Finding| ["now", "both_ends", "card"].map(|key| finding.evidence[key].clone());
            other.0.id == finding.id
                && other.0.severity == finding.severity
                && figures(&other.0) == figures(&finding)
        };
        match merged.iter_mut().find(same) {
            Some((first, more)) => {
                *more += 1;
                first.gain += finding.gain;
                let theirs = finding.evidence["devices"].as_array().cloned().unwrap_or_default();
                if let Some(devices) = first.evidence["devices"].as_array_mut() {
                    devices.extend(theirs);
                }
            }
            None => merged.push((finding, 0)),
        }
    }
    for (finding, more) in &mut merged {
        if *more > 0 {
            finding.text += &format!("; {more} more likewise");
        }
    }
    merged.into_iter().map(|(finding, _)| finding).collect()
}

/// The remedy for a card whose slot is too small for it: an empty slot that can do so much, if one is known.
pub(super) fn better_slot(tree: &Topology, at_least: PciLink) -> String {
    match empty_slot(tree, at_least) {
        Some(slot) => format!("move the card: {slot}"),
        None => format!("move the card to a slot that can do {}, if the server has one", at_least),
    }
}

/// `pcie-max-payload`: packets of 128 bytes on a way of which every part can do more.
pub(super) fn max_payload(tree: &Topology) -> Vec<Finding> {
    let edges = tree.links();
    let small: Vec<(&LinkEnds, u32)> =
        edges.iter().filter_map(|edge| Some((edge, could(tree, edge)?))).collect();
    // What share of a link is payload follows from these two.
    let figures = |(edge, most): &(&LinkEnds, u32)| (*most, edge.now().gt_per_second);
    let alike = grouped(small, |one, other| figures(one) == figures(other));
    alike.iter().map(|cards| small_payload(tree, cards)).collect()
}

/// Cards of one speed that can do the same MaxPayload.
fn small_payload(tree: &Topology, cards: &[(&LinkEnds, u32)]) -> Finding {
    let (speed, most) = (cards[0].0.now().gt_per_second, cards[0].1);
    let gain = |(edge, _): &(&LinkEnds, u32)| {
        let rate = |payload| {
            let width = edge.now().width;
            pcie::payload_bytes_per_second(speed, width, Some(payload), PayloadDirection::ToMemory)
                .unwrap_or(0.0)
        };
        let wanted = tree.port_rate(edge.device).unwrap_or(0.0);
        (rate(most).min(wanted) - rate(SMALL_PAYLOAD).min(wanted)).max(0.0)
    };
    let gain: f64 = cards.iter().map(gain).sum();
    let percent = |payload| {
        100.0 * pcie::payload_share(speed, Some(payload), PayloadDirection::ToMemory).unwrap_or(0.0)
    };
    let severity = if gain > 0.0 { Severity::Slow } else { Severity::Note };
    let text = format!(
        "MaxPayload of {} is {SMALL_PAYLOAD} bytes, and every port above can do {most}: {:.0} % of the link is \
         payload, not {:.0} %",
        card_names(tree, links(cards)),
        percent(SMALL_PAYLOAD),
        percent(most)
    );
    Finding::new(severity, "pcie-max-payload", text)
        .evidence(json!({
            "devices": all_devices(tree, links(cards)),
            "max_payload_bytes": SMALL_PAYLOAD, "possible_bytes": most,
        }))
        .remedy(
            "boot with the kernel's `pci=pcie_bus_perf` (or `pci=pcie_bus_safe`), or set it in the BIOS; not with \
             setpci: every part of the way has to agree",
        )
        .gain(gain)
}

/// The MaxPayload that the device and all ports above can do, where it is set to 128.
fn could(tree: &Topology, edge: &LinkEnds) -> Option<u32> {
    let device = edge.device;
    if tree.is_bridge(device) || !busy(tree, device) || matches!(edge.condition, LinkCondition::Formality(_))
    {
        return None;
    }
    let payload = tree.max_payload(device);
    // A port that does not report it is not a port that can; without a port nothing is known of the way.
    let most = *payload.able.known().filter(|_| tree.parent(device).is_some())?;
    (*payload.set.known()? <= SMALL_PAYLOAD && most > SMALL_PAYLOAD).then_some(most)
}

/// `pcie-max-read-request`: a fast card asks memory for less than 512 bytes at a time.
pub(super) fn max_read_request(tree: &Topology) -> Vec<Finding> {
    let asks = |edge: &LinkEnds| {
        let bytes = *edge.device.express.max_read_request_bytes.known()?;
        let fast = payload_rate(edge.now(), edge.device, PayloadDirection::FromMemory)? >= FAST_CARD;
        (bytes < USUAL_READ_REQUEST && fast && busy(tree, edge.device)).then_some(bytes)
    };
    let edges = tree.links();
    let small: Vec<(&LinkEnds, u32)> = edges
        .iter()
        .filter(|edge| !tree.is_bridge(edge.device))
        .filter_map(|edge| Some((edge, asks(edge)?)))
        .collect();
    let alike = grouped(small, |(_, bytes), (_, other)| bytes == other);
    alike.iter().map(|cards| small_requests(tree, cards)).collect()
}

/// Cards with the same MaxReadRequest.
fn small_requests(tree: &Topology, cards: &[(&LinkEnds, u32)]) -> Finding {
    let bytes = cards[0].1;
    let text = format!(
        "MaxReadRequest of {} is {bytes} bytes: a card that sends asks memory for so much at a time, and waits",
        card_names(tree, links(cards))
    );
    // Bits 14:12 of Device Control, 5 is 4096 bytes (PCIe base specification, 7.5.3.4).
    let command =
        |(edge, _): &(&LinkEnds, u32)| format!("setpci -s {} CAP_EXP+8.w=5000:7000", edge.device.address);
    let commands: Vec<String> = cards.iter().map(command).collect();
    Finding::note("pcie-max-read-request", text)
        .evidence(json!({
            "devices": all_devices(tree, links(cards)),
            "max_read_request_bytes": bytes,
        }))
        .remedy(format!("try 4096: `{}`, until the next boot", commands.join("; ")))
}

/// The links of a group, without what was found of each.
fn links<'a, T>(cards: &[(&'a LinkEnds<'a>, T)]) -> impl Iterator<Item = &'a LinkEnds<'a>> {
    cards.iter().map(|(edge, _)| *edge)
}

fn all_devices<'a>(tree: &Topology, edges: impl Iterator<Item = &'a LinkEnds<'a>>) -> Vec<String> {
    edges.flat_map(|edge| devices(tree, edge.device)).collect()
}

/// The first few cards at these links by name, and how many more.
fn card_names<'a>(tree: &Topology, edges: impl Iterator<Item = &'a LinkEnds<'a>>) -> String {
    listed(&edges.map(|edge| card_name(tree, edge.device)).collect::<Vec<_>>())
}

fn busy(tree: &Topology, device: &PciDevice) -> bool {
    !tree.nics(device).is_empty() || !tree.disks(device).is_empty()
}
