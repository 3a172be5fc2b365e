//! PCIe links between devices and memory as resources: each link once, shared where it is shared.
//!
//! sysfs shows a link at both its ends, so a bridge adds a resource only where more devices of the flow are behind it than behind the
//! link below, or where it is narrower. Two functions of one card, or two disks of one controller, share the card's link.
//!
//! Three kinds of ports: *real*; *synthetic*, whose figure is a formality and never binds (an integrated endpoint on a root bus, a
//! device whose own maximum is far below its network port, an uplink that claims less than each of its children); *unknown*.
//! Directions do not share: disks write to memory, NICs that send read from it, and each link carries both at full rate.

use super::product::{Origin, Resource, ResourceKind};
use crate::fact::Fact;
use crate::probe::{Machine, PciDevice, PciLink};
use crate::rates::pcie::{self, Direction};
use std::collections::{BTreeMap, BTreeSet};

/// Bridges above each other; a tree deeper than this is broken.
pub const DEEPEST: usize = 32;

/// A device of the flow that is behind PCIe.
#[derive(Clone, Debug)]
pub struct Endpoint<'a> {
    /// PCI function.
    pub address: &'a str,
    /// What its port to the world carries, bytes per second, where known: no real link is built for less.
    pub port_bytes_per_second: Option<f64>,
}

/// One link with a capacity, or a synthetic one with the reason.
#[derive(Clone, Debug)]
pub(super) struct Link {
    /// Function at its lower end: the card's first, or the bridge.
    pub address: String,
    /// Why it is a formality that never binds, if it is one.
    pub synthetic: Option<String>,
    /// MaxPayload that the device has set, bytes, where it could be read.
    pub max_payload_bytes: Option<u32>,
    rated: f64,
    effective: f64,
    /// Cards of the flow behind it.
    cards: BTreeSet<String>,
}

/// The links of one direction, and by which each device reaches memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Links {
    /// Links, devices' own first.
    pub resources: Vec<Resource>,
    /// For each PCI function asked for, the id of the link nearest to it.
    pub nearest: BTreeMap<String, String>,
    /// Ids of the links nearest to memory, by function.
    pub farthest: BTreeMap<String, String>,
}

/// Links from these devices towards memory. `onward`: what is behind memory's end of a link (towards memory) or, from memory, what is
/// behind the device's end, by function. `taken`: ids in use by the other direction.
pub(super) fn links(
    machine: &Machine,
    endpoints: &[Endpoint],
    direction: Direction,
    taken: &[Resource],
) -> Links {
    let chains: BTreeMap<&str, Vec<Link>> = endpoints
        .iter()
        .map(|endpoint| (endpoint.address, chain(machine, endpoint, endpoints, direction)))
        .collect();
    let id = |link: &Link| {
        let plain = format!("pcie:{}", link.address);
        if taken.iter().any(|other| other.id == plain) { format!("{plain}/out") } else { plain }
    };
    let mut found = Links::default();
    for (address, chain) in &chains {
        for (at, link) in chain.iter().enumerate() {
            let id_here = id(link);
            let towards_memory = chain.get(at + 1).map(&id);
            let towards_device = at.checked_sub(1).map(|below| id(&chain[below]));
            let onward = match direction {
                Direction::ToMemory => towards_memory,
                Direction::FromMemory => towards_device,
            };
            let known = found.resources.iter().position(|resource| resource.id == id_here);
            let position = known.unwrap_or_else(|| {
                found.resources.push(as_resource(id_here, link));
                found.resources.len() - 1
            });
            let next = &mut found.resources[position].next;
            next.extend(onward.filter(|id| !next.contains(id)).into_iter().collect::<Vec<_>>());
        }
        if let (Some(first), Some(last)) = (chain.first(), chain.last()) {
            found.nearest.insert(address.to_string(), id(first));
            found.farthest.insert(address.to_string(), id(last));
        }
    }
    found
}

fn as_resource(id: String, link: &Link) -> Resource {
    if let Some(why) = &link.synthetic {
        return Resource::unknown(id, ResourceKind::Pcie, why);
    }
    let payload = match link.max_payload_bytes {
        Some(bytes) => format!("MaxPayload {bytes} bytes"),
        None => "MaxPayload taken as 128 bytes".into(),
    };
    Resource {
        capacity: link.effective,
        origin: Origin::Effective,
        rated: Some(link.rated),
        effective: Some(link.effective),
        ..Resource::unknown(id, ResourceKind::Pcie, payload)
    }
}

/// The device's own link and the bridges' above it that add something, the device's first.
pub(super) fn chain(
    machine: &Machine,
    endpoint: &Endpoint,
    all: &[Endpoint],
    direction: Direction,
) -> Vec<Link> {
    let mut chain: Vec<Link> = Vec::new();
    let Some(device) = find(machine, endpoint.address) else { return chain };
    // A packet on the whole way to memory is as large as the device makes it.
    let max_payload_bytes = device.express.max_payload_bytes.known().copied();
    let rates = |link: &Fact<PciLink>, direction| rates(link, max_payload_bytes, direction);
    let cards = |address: &str| -> BTreeSet<String> {
        let below = all.iter().filter(|other| is_below(machine, other.address, address));
        below.map(|other| card(other.address).to_string()).collect()
    };
    if let Some((rated, effective)) = rates(&device.link, direction) {
        let own = BTreeSet::from([card(endpoint.address).to_string()]);
        let first =
            all.iter().map(|other| other.address).filter(|other| card(other) == card(endpoint.address)).min();
        let address = first.unwrap_or(endpoint.address).to_string();
        chain.push(Link {
            address,
            max_payload_bytes,
            rated,
            effective,
            synthetic: synthetic_endpoint(device, endpoint),
            cards: own,
        });
    }
    let mut above = device.parent.as_deref().and_then(|parent| find(machine, parent));
    for _ in 0..DEEPEST {
        let Some(bridge) = above else { break };
        if let Some((rated, effective)) = rates(&bridge.link, direction)
            && !synthetic_bridge(machine, bridge, direction, DEEPEST)
        {
            let behind = cards(&bridge.address);
            let real = chain.iter().rev().find(|link| link.synthetic.is_none());
            let repeats = real.is_some_and(|link| link.cards == behind && link.effective <= effective);
            // The other end of a synthetic link is as synthetic.
            let formality = chain.last().is_some_and(|link| link.synthetic.is_some() && link.rated == rated);
            if !repeats && !formality {
                let address = bridge.address.clone();
                let synthetic = None;
                chain.push(Link { address, max_payload_bytes, rated, effective, synthetic, cards: behind });
            }
        }
        above = bridge.parent.as_deref().and_then(|parent| find(machine, parent));
    }
    chain
}

/// Why an endpoint's link is a formality, if it is one.
pub fn synthetic_endpoint(device: &PciDevice, endpoint: &Endpoint) -> Option<String> {
    if device.parent.is_none() {
        return Some("an integrated device on the root bus: the link it shows is a formality".into());
    }
    let link_max = device.link_max.known()?;
    if link_max.width == 1 && is_on_chip_nic(device) {
        return Some("an on-chip NIC, which shows one lane whatever it carries: a formality".into());
    }
    let most = pcie_raw(link_max)?;
    let port = endpoint.port_bytes_per_second?;
    // Half: a card that spreads one port over two slots shows half of what it needs in each, and that half is real.
    (most < port / 2.0)
        .then(|| "the link it shows could never carry its port: an integrated device's formality".into())
}

/// A NIC of which no card was ever built for one lane: Intel's 10 Gb/s and up. Those on the chip "do not have this information
/// and will report PCI Gen 1 x 1 by default" (`I40E_HW_NO_PCI_LINK_CHECK`, drivers/net/ethernet/intel/i40e/i40e_main.c).
fn is_on_chip_nic(device: &PciDevice) -> bool {
    let driver =
        device.driver.known().is_some_and(|driver| ["i40e", "ice", "ixgbe"].contains(&driver.as_str()));
    // X722 by its number, where no driver is bound or none was recorded.
    let x722 = device.vendor.known() == Some(&0x8086)
        && device.device.known().is_some_and(|id| (0x37cc..=0x37d3).contains(id));
    driver || x722
}

/// An uplink that claims less than each of its children whose link is known; so is the other end of such a link.
pub fn synthetic_bridge(machine: &Machine, bridge: &PciDevice, direction: Direction, depth: usize) -> bool {
    let rates = |link: &Fact<PciLink>, direction| rates(link, None, direction);
    let Some((_, own)) = rates(&bridge.link, direction) else { return false };
    let children = machine.pci.iter().filter(|device| device.parent.as_deref() == Some(&bridge.address));
    let mut known = children.filter_map(|child| Some((child, rates(&child.link, direction)?.1))).peekable();
    let formality = |child: &PciDevice, claims: f64| {
        own < claims || own == claims && depth > 0 && synthetic_bridge(machine, child, direction, depth - 1)
    };
    known.peek().is_some() && known.all(|(child, claims)| formality(child, claims))
}

/// Raw and payload rate of a link, bytes per second.
fn rates(link: &Fact<PciLink>, max_payload_bytes: Option<u32>, direction: Direction) -> Option<(f64, f64)> {
    let link = link.known()?;
    let effective =
        pcie::payload_bytes_per_second(link.gt_per_second, link.width, max_payload_bytes, direction)?;
    Some((pcie_raw(link)?, effective))
}

fn pcie_raw(link: &PciLink) -> Option<f64> {
    pcie::raw_bytes_per_second(link.gt_per_second, link.width)
}

pub(super) fn find<'a>(machine: &'a Machine, address: &str) -> Option<&'a PciDevice> {
    machine.pci.iter().find(|device| device.address == address)
}

/// `domain:bus:device` without the function.
fn card(address: &str) -> &str {
    address.rsplit_once('.').map_or(address, |(card, _)| card)
}

fn is_below(machine: &Machine, address: &str, bridge: &str) -> bool {
    let mut at = find(machine, address);
    for _ in 0..DEEPEST {
        let Some(parent) = at.and_then(|device| device.parent.as_deref()) else { return false };
        if parent == bridge {
            return true;
        }
        at = find(machine, parent);
    }
    false
}
