//! The parts of a picture: nodes, and on each the tree of links down to ports and disks; chips in strips; the edges between them
//! with what their links carry; and how much of each a flow uses.

use linerate_facts::units::{show_bits_rate, show_size};
use linerate_machine::probe::{PciDevice, PciLink};
use linerate_machine::rates::pcie::{PayloadDirection, usual_max_payload_bytes};
use linerate_machine::topology::{LinkCondition, LinkEnds, Topology, card, payload_rate, raw_rate};

/// All of the picture.
#[derive(Clone, Debug, Default)]
pub(super) struct Picture {
    pub host: String,
    pub about: String,
    pub nodes: Vec<NodeBox>,
    /// Nodes with memory only; arrays and volumes; interfaces and disks on no PCI function.
    pub strips: Vec<Strip>,
    /// What the bar between the nodes says, where there are several.
    pub between: Option<String>,
    /// PCI functions without a part in any flow.
    pub left_out: usize,
    /// A flow lies over it.
    pub loaded: bool,
    /// What limits that flow, where it was planned.
    pub limit: Option<String>,
}

/// A node, or all of a machine that tells of none.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeBox {
    /// Its number; none for the machine as a whole.
    pub id: Option<u32>,
    pub title: String,
    pub cpu: Vec<String>,
    pub memory: Vec<String>,
    /// Bandwidth of its memory, bytes per second; 0 where it is not known.
    pub memory_rate: f64,
    pub roots: Vec<Branch>,
    pub cpu_used: Option<Use>,
    pub memory_used: Option<Use>,
}

/// What a box of the tree stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Root,
    Switch,
    Card,
}

/// A root, a switch or a card, with what hangs on it.
#[derive(Clone, Debug)]
pub(super) struct Branch {
    pub part: Part,
    pub title: String,
    pub sub: String,
    pub tip: String,
    /// How many it stands for.
    pub count: usize,
    /// The functions whose links these are.
    pub addresses: Vec<String>,
    /// The link above it.
    pub edge: Edge,
    pub below: Vec<Branch>,
    pub leaves: Vec<Leaf>,
    /// What makes it like another, and the network is behind it.
    pub alike: String,
    pub network: bool,
}

/// A port, a disk, or several.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Leaf {
    pub text: String,
    pub tip: String,
    /// Rate of the port, bytes per second; 0 where it is not known.
    pub rate: f64,
    /// It is up, or a disk.
    pub live: bool,
    pub names: Vec<String>,
    pub used: Option<Use>,
    /// What it has in common with others of its like.
    pub kind: String,
}

/// A row of chips with a title.
#[derive(Clone, Debug)]
pub(super) struct Strip {
    pub title: String,
    pub chips: Vec<Chip>,
}

/// Some lines in a frame.
#[derive(Clone, Debug, Default)]
pub(super) struct Chip {
    pub title: String,
    pub sub: String,
    pub tip: String,
    /// The resource of a flow that it may be.
    pub id: Option<String>,
    pub used: Option<Use>,
}

/// Parts of a line; what is absent or empty is left out.
pub(super) fn joined(parts: impl IntoIterator<Item = Option<String>>) -> String {
    parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" · ")
}

/// The use of one part, or of several together.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Use {
    /// `45 % of 6.61 GB/s, measured`.
    pub words: String,
    /// Share of the capacity in use, 0 to 1.
    pub share: f64,
    /// What it is to the flow, where it limits it.
    pub limit: Option<LimitSign>,
}

/// A part that limits the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LimitSign {
    /// The path showed it.
    Bottleneck,
    /// By the stages; the path did not show it, or showed another.
    Predicted,
}

impl LimitSign {
    /// The class of its shapes.
    pub(super) fn class(self) -> &'static str {
        match self {
            LimitSign::Bottleneck => "bottleneck",
            LimitSign::Predicted => "predicted",
        }
    }
}

/// How an edge is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
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
    /// Nothing is known of it, or there is no link: a part of the chip.
    #[default]
    Unknown,
}

/// A link as it is drawn.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Edge {
    /// Above the line: `16 GT/s x16 · 252 Gb/s`.
    pub above: String,
    /// Below it: the payload, or what both ends could do.
    pub below: String,
    /// All of it, for pointing.
    pub tip: String,
    /// Payload, bytes per second; 0 where it is unknown.
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
    pub(crate) fn unknown(why: &str) -> Self {
        Edge { tip: why.into(), ..Edge::default() }
    }
}

/// The link above a function.
pub(super) fn above(tree: &Topology, device: &PciDevice) -> Edge {
    let Some(device) = tree.find(&device.address) else { return Edge::unknown("") };
    let link = tree.link(device);
    match link.as_ref().and_then(|link| Some((link, link.runs?))) {
        Some((link, runs)) => edge_of(tree, device, link, runs),
        None => Edge::unknown(device.link.why().unwrap_or("a part of the chip: it has no link of its own")),
    }
}

fn edge_of(tree: &Topology, device: &PciDevice, link: &LinkEnds, runs: PciLink) -> Edge {
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
    let able = link.able.map(|able| able.to_string()).unwrap_or_default();
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
        above: format!("{runs} · {line}"),
        below,
        tip: format!("{runs} ({line}), {effective} ({packet}); {}: {more}", link.condition.word()),
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
