//! Questions to a PCI tree: what is above and below a function, what stands at the ends of a link, and what both of them can do.
//!
//! Pure functions of the probed list, which is in address order as the probe leaves it; any other list, also a damaged one with rings,
//! gives an answer of bounded length.

use super::link::DOWN;
use crate::fact::Fact;
use crate::probe::machine::{PciDevice, PciLink, PortKind};

/// No chain of bridges is longer: a domain has 256 buses.
const DEEPEST: usize = 256;

/// Class of a PCI-to-PCI bridge, without its programming interface.
const BRIDGE: u32 = 0x0604;

/// The function at an address.
pub fn find<'a>(devices: &'a [PciDevice], address: &str) -> Option<&'a PciDevice> {
    devices.iter().find(|device| device.address == address)
}

/// `domain:bus:device` without the function: functions of one card share its link.
pub fn card(address: &str) -> &str {
    address.rsplit_once('.').map_or(address, |(card, _)| card)
}

/// Functions right behind a bridge.
pub fn children<'a>(devices: &'a [PciDevice], bridge: &str) -> impl Iterator<Item = &'a PciDevice> {
    devices.iter().filter(move |device| device.parent.as_deref() == Some(bridge) && device.address != bridge)
}

/// The bridges above a function, the nearest first, the root port last.
pub fn above<'a>(devices: &'a [PciDevice], address: &str) -> Vec<&'a PciDevice> {
    let mut chain: Vec<&PciDevice> = Vec::new();
    let mut at = find(devices, address);
    while let Some(parent) = at.and_then(|device| find(devices, device.parent.as_deref()?)) {
        let ring = parent.address == address || chain.iter().any(|met| met.address == parent.address);
        if ring || chain.len() >= DEEPEST {
            break;
        }
        chain.push(parent);
        at = Some(parent);
    }
    chain
}

/// All functions behind a bridge, the nearest first.
pub fn below<'a>(devices: &'a [PciDevice], bridge: &str) -> Vec<&'a PciDevice> {
    let mut found: Vec<&PciDevice> = children(devices, bridge).collect();
    let mut next = 0;
    while let Some(at) = found.get(next).copied() {
        for child in children(devices, &at.address) {
            let known = child.address == bridge || found.iter().any(|met| met.address == child.address);
            if !known {
                found.push(child);
            }
        }
        next += 1;
    }
    found
}

/// A function is behind a bridge, near or far.
pub fn is_below(devices: &[PciDevice], address: &str, bridge: &str) -> bool {
    above(devices, address).iter().any(|device| device.address == bridge)
}

/// The nearest bridge that two functions share; its link towards memory carries both.
pub fn common<'a>(devices: &'a [PciDevice], one: &str, other: &str) -> Option<&'a PciDevice> {
    let others = above(devices, other);
    above(devices, one)
        .into_iter()
        .find(|bridge| others.iter().any(|shared| shared.address == bridge.address))
}

/// What stands at a function's end of its link: as its configuration space says, else (another user than root sees no capabilities)
/// from its place in the tree. `None` where neither tells: a bridge to conventional PCI, for instance.
pub fn kind(devices: &[PciDevice], device: &PciDevice) -> Option<PortKind> {
    let chain = above(devices, &device.address);
    let mut upper = None;
    for at in chain.iter().rev().copied().chain([device]) {
        upper = at.express.port.known().copied().or_else(|| by_place(at, upper, at.parent.is_some()));
    }
    upper
}

fn by_place(device: &PciDevice, upper: Option<PortKind>, has_parent: bool) -> Option<PortKind> {
    if device.class.known()? >> 8 != BRIDGE {
        return Some(if has_parent { PortKind::Endpoint } else { PortKind::IntegratedEndpoint });
    }
    if device.link.known().is_none() && device.link_max.known().is_none() {
        return None;
    }
    match upper {
        None if !has_parent => Some(PortKind::RootPort),
        Some(PortKind::RootPort | PortKind::SwitchDownstream) => Some(PortKind::SwitchUpstream),
        Some(PortKind::SwitchUpstream) => Some(PortKind::SwitchDownstream),
        _ => None,
    }
}

/// The link has this end at its top.
pub fn is_upper_end(kind: PortKind) -> bool {
    matches!(kind, PortKind::RootPort | PortKind::SwitchDownstream | PortKind::BridgeFromPci)
}

/// Both ends of one link.
#[derive(Clone, Debug, PartialEq)]
pub struct Ends<'a> {
    /// The end towards the processor: a root port or a switch's downstream port.
    pub port: Option<&'a PciDevice>,
    /// The end away from it: a card's first function, or a switch's upstream port. None where the port is empty.
    pub card: Option<&'a PciDevice>,
    /// What both ends can do: the lower speed and the smaller width of the two.
    pub able: Fact<PciLink>,
    /// As the link runs.
    pub runs: Fact<PciLink>,
    /// The end that can less, and so is the reason why the link can not do more.
    pub weaker: Weaker,
    /// What this says.
    pub condition: Condition,
}

/// How a link runs beside what its ends can do.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// As fast and as wide as both ends can.
    Full,
    /// Below what both ends can.
    Below {
        /// Fewer lanes than both ends have: the slot has fewer wired, or a contact is bad.
        narrower: bool,
        /// A generation below the one that both ends know.
        slower: bool,
        /// The port was told not to go faster (target link speed): a setting of the firmware, GT/s.
        told: Option<f64>,
    },
    /// At a lower speed than both ends can and all lanes there: it saves power while idle and goes up under load.
    PoweredDown,
    /// Nothing is plugged in, or it is off.
    Down,
    /// An end does not tell what it can, and the other can more than is used; or none tells how the link runs.
    Untold,
}

/// The end of a link that can less than the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weaker {
    /// They can the same, or only one end tells.
    Neither,
    /// The card is narrower or of an older generation than its slot.
    Card,
    /// The slot is narrower or of an older generation than its card.
    Port,
    /// The one is narrower, the other older.
    Each,
}

/// The link that a function is an end of; `None` where it has no link.
pub fn ends<'a>(devices: &'a [PciDevice], address: &str) -> Option<Ends<'a>> {
    let device = find(devices, address)?;
    let (port, card) = match kind(devices, device)? {
        PortKind::IntegratedEndpoint | PortKind::EventCollector => return None,
        upper if is_upper_end(upper) => {
            let mut below: Vec<&PciDevice> = children(devices, address).collect();
            below.sort_by_key(|child| (child.link_max.known().is_none(), &child.address));
            (Some(device), below.first().copied())
        }
        _ => (device.parent.as_deref().and_then(|parent| find(devices, parent)), Some(device)),
    };
    let most = |end: Option<&PciDevice>| end.and_then(|end| end.link_max.known().copied());
    let able = match (most(port), most(card)) {
        (Some(port), Some(card)) => Fact::Known(lower(port, card)),
        // A port that nothing is plugged into, or an end that a capture lacks.
        (Some(one), None) | (None, Some(one)) => Fact::Known(one),
        (None, None) => Fact::unknown("neither end tells what it can do"),
    };
    let runs = card.or(port).map_or(Fact::unknown("no end of it"), |end| end.link.clone());
    let weaker = weaker(most(port), most(card));
    let condition = match (able.known(), runs.known()) {
        _ if card.is_none() || runs.why() == Some(DOWN) => Condition::Down,
        (Some(able), Some(runs)) if runs.width >= able.width && runs.gt_per_second >= able.gt_per_second => {
            Condition::Full
        }
        (Some(able), Some(runs)) if most(port).is_some() && most(card).is_some() => {
            below_able(devices, port, card, *able, *runs)
        }
        _ => Condition::Untold,
    };
    Some(Ends { port, card, able, runs, weaker, condition })
}

fn lower(one: PciLink, other: PciLink) -> PciLink {
    PciLink { gt_per_second: one.gt_per_second.min(other.gt_per_second), width: one.width.min(other.width) }
}

/// Why a link runs below what both its ends can.
fn below_able(
    devices: &[PciDevice],
    port: Option<&PciDevice>,
    card: Option<&PciDevice>,
    able: PciLink,
    runs: PciLink,
) -> Condition {
    let (narrower, slower) = (runs.width < able.width, runs.gt_per_second < able.gt_per_second);
    let target = port.and_then(|port| port.express.target_gt_per_second.known().copied());
    let told = target.filter(|target| slower && *target < able.gt_per_second);
    let changed = |end: &PciDevice| end.express.autonomous_change == Fact::Known(true);
    let saves = [port, card].into_iter().flatten().any(changed)
        || card.is_some_and(|card| lowers_its_clock(devices, card));
    if !narrower && told.is_none() && saves {
        return Condition::PoweredDown;
    }
    Condition::Below { narrower, slower, told }
}

fn weaker(port: Option<PciLink>, card: Option<PciLink>) -> Weaker {
    let (Some(port), Some(card)) = (port, card) else { return Weaker::Neither };
    let less =
        |one: PciLink, other: PciLink| one.width < other.width || one.gt_per_second < other.gt_per_second;
    match (less(card, port), less(port, card)) {
        (false, false) => Weaker::Neither,
        (true, false) => Weaker::Card,
        (false, true) => Weaker::Port,
        (true, true) => Weaker::Each,
    }
}

/// Graphics cards and accelerators run their link at the lowest speed while they have nothing to do; also behind a switch of their own.
fn lowers_its_clock(devices: &[PciDevice], card: &PciDevice) -> bool {
    let graphics = |device: &PciDevice| {
        let class = device.class.known().copied().unwrap_or(0);
        matches!(class >> 16, 0x03 | 0x12) || class >> 8 == 0x0b40
    };
    let storage_or_network =
        |device: &PciDevice| matches!(device.class.known().copied().unwrap_or(0) >> 16, 0x01 | 0x02);
    let behind = below(devices, &card.address);
    let mut all = behind.iter().copied().chain([card]);
    graphics(card) || all.clone().any(graphics) && !all.any(storage_or_network)
}

/// MaxPayload of the way from a function to memory, bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct MaxPayload {
    /// What is set at the function.
    pub set: Fact<u32>,
    /// What every port on the way can do.
    pub able: Fact<u32>,
}

/// MaxPayload that is set, and the most that could be: the smallest of what each part of the way can do.
pub fn max_payload(devices: &[PciDevice], address: &str) -> Option<MaxPayload> {
    let device = find(devices, address)?;
    let chain = above(devices, address);
    let mut way = chain.iter().copied().chain([device]).map(|at| &at.express.max_payload_supported_bytes);
    let unknown = way.clone().find(|able| able.known().is_none()).cloned();
    let able = unknown.unwrap_or_else(|| {
        Fact::from_option(way.by_ref().filter_map(Fact::known).min().copied(), "nothing on the way tells it")
    });
    Some(MaxPayload { set: device.express.max_payload_bytes.clone(), able })
}
