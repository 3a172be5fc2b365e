//! What an edge of the picture says: the link's rate now, its payload, and how it stands against what both
//! ends can do.

use super::used::Use;
use linerate_facts::units::{show_bits_rate, show_size};
use linerate_machine::probe::{PciDevice, PciLink};
use linerate_machine::rates::pcie::{PayloadDirection, usual_max_payload_bytes};
use linerate_machine::topology::{LinkCondition, LinkEnds, Topology, card, payload_rate, raw_rate};

/// How an edge is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(super) enum EdgeStyle {
    /// As fast as both ends can.
    Full,
    /// Below what both ends can do.
    Below,
    /// Slowed down while its device has nothing to do.
    Idle,
    /// The figures are of no real link.
    Formality,
    /// Nothing is told, or there is no link: a part of the chip.
    Unknown,
}

/// A link as it is drawn.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Edge {
    /// Above the line: `16 GT/s x16 · 252 Gb/s`.
    pub above: String,
    /// Below it: the payload, or what both ends could do.
    pub below: String,
    /// All of it, for pointing.
    pub tip: String,
    /// Payload, bytes per second; 0 where nothing is told.
    pub rate: f64,
    /// Its look.
    pub look: EdgeStyle,
    /// How much of it a flow uses.
    pub used: Option<Use>,
    /// The slot that it comes out of.
    pub slot: Option<u32>,
}

impl Edge {
    /// Of a part of the chip, or of a link that nothing tells of.
    pub(crate) fn untold(why: &str) -> Self {
        Edge {
            above: String::new(),
            below: String::new(),
            tip: why.into(),
            rate: 0.0,
            look: EdgeStyle::Unknown,
            used: None,
            slot: None,
        }
    }
}

fn show(link: PciLink) -> String {
    format!("{} GT/s x{}", link.gt_per_second, link.width)
}

/// The link above a function.
pub(super) fn above(tree: &Topology, device: &PciDevice) -> Edge {
    let Some(device) = tree.find(&device.address) else { return Edge::untold("") };
    let link = tree.link(device);
    match link.as_ref().and_then(|link| Some((link, link.runs?))) {
        Some((link, runs)) => told(tree, device, link, runs),
        None => Edge::untold(device.link.why().unwrap_or("a part of the chip: it has no link of its own")),
    }
}

fn told(tree: &Topology, device: &PciDevice, link: &LinkEnds, runs: PciLink) -> Edge {
    let direction =
        tree.find(&device.address).map_or(PayloadDirection::ToMemory, |one| tree.payload_direction(one));
    let carries = payload_rate(runs, device, direction).unwrap_or(0.0);
    let slot = link.port.and_then(|port| port.express.slot.known()).or(device.express.slot.known()).copied();
    let line = raw_rate(runs).map(show_bits_rate).unwrap_or_default();
    let packet = match device.express.max_payload_bytes.known() {
        Some(bytes) => format!("MaxPayload {}", show_size(u64::from(*bytes))),
        None => format!("MaxPayload unknown, taken as {} bytes", usual_max_payload_bytes(runs.gt_per_second)),
    };
    let effective = format!("payload {}", show_bits_rate(carries));
    let able = link.able.map(show).unwrap_or_default();
    let ends = format!("{} can do {able}", link.able_ends());
    let (look, below, more) = match &link.condition {
        LinkCondition::Formality(why) => (EdgeStyle::Formality, "a formality".into(), why.to_string()),
        LinkCondition::Below { .. } => (EdgeStyle::Below, format!("could do {able}"), ends),
        LinkCondition::Idle => {
            (EdgeStyle::Idle, format!("idle, can {able}"), format!("{ends}; it is slowed down while idle"))
        }
        LinkCondition::Full => (EdgeStyle::Full, effective.clone(), ends),
        LinkCondition::Unknown | LinkCondition::Down => {
            (EdgeStyle::Full, effective.clone(), "what both ends can do is not reported".into())
        }
    };
    Edge {
        above: format!("{} · {line}", show(runs)),
        below,
        tip: format!("{} ({line}), {effective} ({packet}); {}: {more}", show(runs), link.condition.word()),
        rate: carries,
        look,
        used: None,
        slot,
    }
}

/// The narrower of two links in a row, where only one is drawn.
pub(super) fn narrower(a: Edge, b: Edge) -> Edge {
    let slot = a.slot.or(b.slot);
    let pick = match (a.look, b.look) {
        (EdgeStyle::Unknown | EdgeStyle::Formality, _) => b,
        (_, EdgeStyle::Unknown | EdgeStyle::Formality) => a,
        _ if b.rate < a.rate => b,
        _ => a,
    };
    Edge { slot, ..pick }
}

/// `domain:bus` of a function.
pub(super) fn bus(address: &str) -> &str {
    card(address).rsplit_once(':').map_or(address, |(bus, _)| bus)
}
