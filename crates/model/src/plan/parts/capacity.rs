//! What a joint carries, as resources: its PCIe link, and its own rate where it has one.

use super::{Joint, JointKind, MachineParts, RateOrigin};
use crate::plan::flow::best_of_rated;
use crate::plan::{Origin, Resource, ResourceKind};
use linerate_machine::rates::pcie::{self, PayloadDirection};

/// Of a rate that was given.
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
        .or_else(|| own_rate(joint))
        .map(|resource| Crossing { resource, half_duplex: joint.half_duplex });
    let link = link(parts, joint, direction)
        .filter(|_| joint.kind != JointKind::Slot)
        .map(|resource| Crossing { resource, half_duplex: false });
    own.into_iter().chain(link).collect()
}

fn own_rate(joint: &Joint) -> Option<Resource> {
    let (kind, word) = match joint.kind {
        JointKind::Hub => (ResourceKind::SocketLink, "socket-link"),
        JointKind::Controller | JointKind::Bus => (ResourceKind::Controller, "controller"),
        JointKind::Slot | JointKind::Switch | JointKind::Card | JointKind::Port => return None,
    };
    let id = format!("{word}:{}", joint.name);
    let Some(rate) = joint.bytes_per_second.known().copied() else {
        // A hub on the chip is no resource; a controller without a rating is one whose rating is not known.
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

fn link(parts: &MachineParts, joint: &Joint, direction: PayloadDirection) -> Option<Resource> {
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
