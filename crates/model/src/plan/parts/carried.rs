//! What links, joints and volumes carry, as resources. A joint has its PCIe link, and its own rate where it has one.
//!
//! Volumes are RAID, volume managers and file systems, the software that stands between disks and a flow. What it
//! takes is in no data sheet: a volume has a figure that somebody measured, a rate or a share of what its disks
//! have.
//!
//! Of a machine that was read each PCIe link between devices and memory is a resource once, shared where it is shared.
//! sysfs shows a link at both its ends, so a bridge adds a resource only where more devices of the flow are
//! behind it than behind the link below, or where it is narrower. Two functions of one card, or two disks of
//! one controller, share the card's link.
//!
//! Three kinds of ports: *real*; *synthetic*, whose figure is a formality and never binds (an integrated
//! endpoint on a root bus, a device whose own maximum is far below its network port, an uplink that claims
//! less than each of its children); *unknown*. Directions do not share: disks write to memory, NICs that send
//! read from it, and each link carries both at full rate.

use super::{ByteDevice, DeviceKind, Joint, JointKind, MachineParts, RateOrigin, show_link};
use crate::plan::flow::best_of_rated;
use crate::plan::{Origin, Resource, ResourceKind};
use linerate_machine::probe::{PciDevice, PciLink, PortKind};
use linerate_machine::rates::pcie::{self, PayloadDirection};
use linerate_machine::topology::{LinkCondition, Topology, card, raw_rate};
use std::collections::BTreeSet;

/// The reason of a rate of a joint that was given.
const ELSEWHERE: &str = "measured elsewhere";

/// One resource that bytes cross at a joint.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::plan) struct Crossing {
    /// Without capacity for the flow's other direction; `next` is empty.
    pub resource: Resource,
    /// Both directions share it.
    pub half_duplex: bool,
}

/// What bytes cross at a joint, from the device's side to the node's: a controller before its link. A slot is
/// no resource: its card's link is.
pub(in crate::plan) fn crossings(
    parts: &MachineParts,
    joint: &Joint,
    direction: PayloadDirection,
) -> Vec<Crossing> {
    let remote = joint.remote.as_ref().map(|remote| remote.figure(parts, direction, joint));
    let own = remote
        .or_else(|| rate_of_joint(joint))
        .map(|resource| Crossing { resource, half_duplex: joint.half_duplex });
    let link = link_of_joint(parts, joint, direction)
        .filter(|_| joint.kind != JointKind::Slot)
        .map(|resource| Crossing { resource, half_duplex: false });
    own.into_iter().chain(link).collect()
}

fn rate_of_joint(joint: &Joint) -> Option<Resource> {
    let (kind, word) = match joint.kind {
        JointKind::Hub => (ResourceKind::SocketLink, "socket-link"),
        JointKind::Controller | JointKind::Bus => (ResourceKind::Controller, "controller"),
        JointKind::Slot | JointKind::Switch | JointKind::Card | JointKind::Port => return None,
    };
    let id = format!("{word}:{}", joint.name);
    let Some(rate) = joint.bytes_per_second.known().copied() else {
        // A hub on the chip is not a resource; a controller without a rating is one whose rating is not known.
        let why = joint.bytes_per_second.why().unwrap_or_default();
        return (joint.kind != JointKind::Hub).then(|| Resource::unknown(id, kind, why));
    };
    let mut why = Some(joint.words.clone()).filter(|words| !words.is_empty());
    let mut origin = Origin::Rated;
    if joint.rate_origin == RateOrigin::Elsewhere {
        origin = Origin::Measured;
        why = Some(why.map_or(ELSEWHERE.into(), |words| format!("{words}, {ELSEWHERE}")));
    }
    Some(Resource {
        capacity: rate,
        origin,
        rated: Some(rate).filter(|_| origin == Origin::Rated),
        measured: Some(rate).filter(|_| origin == Origin::Measured),
        best: (joint.rate_origin == RateOrigin::DataSheet).then(|| best_of_rated(rate)),
        why,
        ..Resource::unknown(id, kind, "")
    })
}

fn link_of_joint(parts: &MachineParts, joint: &Joint, direction: PayloadDirection) -> Option<Resource> {
    let id = format!("pcie:{}", joint.name);
    if let Some(why) = &joint.formality {
        return Some(Resource { never_binds: true, ..Resource::unknown(id, ResourceKind::Pcie, why) });
    }
    if let Some(why) = &joint.unknown_link {
        return Some(Resource::unknown(id, ResourceKind::Pcie, why));
    }
    let link = parts.link_of(joint)?;
    let rated = pcie::raw_bytes_per_second(link.gt_per_second, link.width)?;
    let usual = pcie::usual_max_payload_bytes(link.gt_per_second);
    let taken = Some(joint.max_payload_bytes.unwrap_or(usual));
    let effective = pcie::payload_bytes_per_second(link.gt_per_second, link.width, taken, direction)?;
    let payload = match joint.max_payload_bytes {
        Some(bytes) => format!("MaxPayload {bytes} bytes"),
        None => format!("MaxPayload taken as {usual} bytes"),
    };
    let of_link = matches!(joint.kind, JointKind::Card | JointKind::Switch) && !joint.words.is_empty();
    let note = if of_link { format!("; {}", joint.words) } else { String::new() };
    Some(Resource {
        capacity: effective,
        origin: Origin::Effective,
        rated: Some(rated),
        effective: Some(effective),
        best: pcie::best_payload_bytes_per_second(link.gt_per_second, link.width, joint.max_payload_bytes),
        why: Some(format!("{}, {payload}{note}", super::show_link(link))),
        ..Resource::unknown(id, ResourceKind::Pcie, "")
    })
}

/// Several disks behind one name.
#[derive(Clone, Debug, PartialEq)]
pub struct Volume {
    /// Unique among the parts.
    pub name: String,
    /// What it is, for people: `md RAID 0, XFS`; may be empty.
    pub words: String,
    /// Names of its disks. Two volumes may have the same: one of them is then planned, or the other.
    pub disks: Vec<String>,
    pub read: VolumeLimit,
    pub write: VolumeLimit,
}

/// What a volume carries in one direction, as somebody measured it.
#[derive(Clone, Debug, PartialEq)]
pub enum VolumeLimit {
    /// Nobody said; it never binds.
    Unknown,
    /// Bytes per second.
    Rate(f64),
    /// Of the sum of its disks, 0 to 1.
    Share(f64),
    /// The faster of its disks, by name, give this share of the bytes, the others the rest.
    Tiers { faster: Vec<String>, share: f64 },
}

impl Volume {
    /// The volume as a resource for bytes that go this way; `next` is empty.
    pub(in crate::plan) fn resource(&self, parts: &MachineParts, direction: PayloadDirection) -> Resource {
        let unknown = Resource::unknown(self.id(), ResourceKind::Volume, "no rate of the volume is given");
        let disks: Vec<&ByteDevice> = parts.devices.iter().filter(|device| self.has(device)).collect();
        let count = disks.len();
        let over = format!("over {count} disk{}", if count == 1 { "" } else { "s" });
        let what = if self.words.is_empty() { over } else { format!("{} {over}", self.words) };
        let limit = if direction == PayloadDirection::ToMemory { &self.read } else { &self.write };
        let sum = |disks: &[&ByteDevice]| -> Option<f64> {
            let rates: Option<Vec<f64>> = disks.iter().map(|disk| rate_of_disk(disk, direction)).collect();
            rates.filter(|rates| !rates.is_empty()).map(|rates| rates.iter().sum())
        };
        let why = format!("{what}: the rate of a disk is unknown");
        let of_disks = |rate: Option<f64>, words: String| match rate {
            Some(rate) => Resource {
                capacity: rate,
                origin: Origin::Effective,
                effective: Some(rate),
                best: Some(best_of_rated(rate)),
                why: Some(words),
                ..unknown.clone()
            },
            None => Resource { why: Some(why.clone()), ..unknown.clone() },
        };
        match limit {
            VolumeLimit::Unknown => unknown,
            VolumeLimit::Rate(rate) => Resource {
                capacity: *rate,
                origin: Origin::Measured,
                measured: Some(*rate),
                why: Some(format!("{what}, measured elsewhere")),
                ..unknown
            },
            VolumeLimit::Share(share) => {
                let words = format!("{what}: {:.0} % of theirs, measured elsewhere", 100.0 * share);
                of_disks(sum(&disks).map(|all| share * all), words)
            }
            VolumeLimit::Tiers { faster, share } => {
                let is_faster = |disk: &&ByteDevice| faster.contains(&disk.name);
                let (faster, slower): (Vec<_>, Vec<_>) = disks.into_iter().partition(is_faster);
                // Whichever tier has given its share last.
                let least = sum(&faster).zip(sum(&slower));
                let rate = least.map(|(faster, slower)| (faster / share).min(slower / (1.0 - share)));
                of_disks(rate, format!("{what}: {:.0} % of the bytes come from the faster", 100.0 * share))
            }
        }
    }

    pub(in crate::plan) fn id(&self) -> String {
        format!("volume:{}", self.name)
    }

    /// The device is one of its disks.
    pub(in crate::plan) fn has(&self, device: &ByteDevice) -> bool {
        matches!(device.what, DeviceKind::Disk { .. }) && self.disks.contains(&device.name)
    }
}

fn rate_of_disk(disk: &ByteDevice, direction: PayloadDirection) -> Option<f64> {
    match (&disk.what, direction) {
        (DeviceKind::Disk { read, .. }, PayloadDirection::ToMemory) => read.known().copied(),
        (DeviceKind::Disk { write, .. }, PayloadDirection::FromMemory) => write.known().copied(),
        _ => None,
    }
}

impl MachineParts {
    /// A volume by its name.
    pub fn volume(&self, name: &str) -> Option<&Volume> {
        self.volumes.iter().find(|volume| volume.name == name)
    }

    /// The volumes that lie over the disks of a flow over “all disks”: none where two of them have a disk in
    /// common, since either may be meant.
    pub fn usual_volumes(&self) -> Vec<String> {
        let mut disks: Vec<&String> = self.volumes.iter().flat_map(|volume| &volume.disks).collect();
        disks.sort_unstable();
        let disjoint = disks.windows(2).all(|pair| pair[0] != pair[1]);
        let names = self.volumes.iter().map(|volume| volume.name.clone());
        if disjoint { names.collect() } else { Vec::new() }
    }
}

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
pub(super) fn links_on_the_way(
    tree: &Topology,
    address: &str,
    all: &[&str],
    direction: PayloadDirection,
) -> Vec<Link> {
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
