//! What an edge of the picture says: the link's rate now, its payload, and how it stands against what both ends can do.

use crate::diagnose::topology::{self, Topology, payload, raw};
use crate::diagnose::{EdgeState, PcieEdge};
use crate::probe::{PciDevice, PciLink};
use crate::rates::pcie::Direction;
use crate::units::{show_bits_rate, show_size};

/// How an edge is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Look {
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
    pub look: Look,
    /// The slot that it comes out of.
    pub slot: Option<u32>,
}

impl Edge {
    /// Of a part of the chip, or of a link that nothing tells of.
    pub fn untold(why: &str) -> Self {
        Edge {
            above: String::new(),
            below: String::new(),
            tip: why.into(),
            rate: 0.0,
            look: Look::Unknown,
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
    match tree.edge(device) {
        Some(edge) => told(device, &edge),
        None => Edge::untold(device.link.why().unwrap_or("a part of the chip: it has no link of its own")),
    }
}

fn told(device: &PciDevice, edge: &PcieEdge) -> Edge {
    // What a disk's or a NIC's bytes share with their packet headers, in the direction where they are larger.
    let carries = payload(edge.now, device, Direction::ToMemory).unwrap_or(0.0);
    let slot = edge.port.and_then(|port| port.express.slot.known()).or(device.express.slot.known()).copied();
    let line = raw(edge.now).map(show_bits_rate).unwrap_or_default();
    let packet = match device.express.max_payload_bytes.known() {
        Some(bytes) => format!("MaxPayload {}", show_size(u64::from(*bytes))),
        None => "MaxPayload unknown, taken as 128 bytes".into(),
    };
    let effective = format!("payload {}", show_bits_rate(carries));
    let ends = |most: PciLink| format!("both ends can do {}", show(most));
    let (look, below, more) = match (&edge.state, edge.both) {
        (EdgeState::Formality(why), _) => (Look::Formality, "a formality".into(), why.clone()),
        (EdgeState::Below { .. }, Some(both)) => {
            (Look::Below, format!("could do {}", show(both)), ends(both))
        }
        (EdgeState::Idle, Some(both)) => (
            Look::Idle,
            format!("idle, can {}", show(both)),
            format!("{}; it is slowed down while idle", ends(both)),
        ),
        (_, Some(both)) => (Look::Full, effective.clone(), ends(both)),
        (_, None) => (Look::Full, effective.clone(), "what both ends can do is not told".into()),
    };
    Edge {
        above: format!("{} · {line}", show(edge.now)),
        below,
        tip: format!("{} ({line}), {effective} ({packet}); {more}", show(edge.now)),
        rate: carries,
        look,
        slot,
    }
}

/// The narrower of two links in a row, where only one is drawn.
pub(super) fn narrower(a: Edge, b: Edge) -> Edge {
    let slot = a.slot.or(b.slot);
    let pick = match (a.look, b.look) {
        (Look::Unknown | Look::Formality, _) => b,
        (_, Look::Unknown | Look::Formality) => a,
        _ if b.rate < a.rate => b,
        _ => a,
    };
    Edge { slot, ..pick }
}

/// `domain:bus` of a function.
pub(super) fn bus(address: &str) -> &str {
    topology::card(address).rsplit_once(':').map_or(address, |(bus, _)| bus)
}
