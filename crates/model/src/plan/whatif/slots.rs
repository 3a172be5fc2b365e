//! Where a part can go: the slot that was named, or the free slot that serves it best.

use super::Hindrance;
use crate::plan::parts::{Joint, JointKind, MachineParts, PartPlace, show_link, slower};
use crate::plan::wording::listed;
use linerate_machine::probe::PciLink;

/// Slots that an error names at most.
const MOST_SLOTS: usize = 8;

/// Where a card with this link goes, and what to know about it. `own` is the card itself, which may be in a
/// slot already.
pub(super) fn find_place(
    parts: &MachineParts,
    word: Option<&str>,
    link: Option<PciLink>,
    own: &str,
) -> Result<(PartPlace, Vec<String>), Hindrance> {
    let Some(word) = word else { return any_slot(parts, None, link, own) };
    if let Some(node) = node(parts, word)? {
        return any_slot(parts, Some(node), link, own);
    }
    let Some(joint) = parts.joint(word) else {
        let slots: Vec<&str> = slots(parts, None).map(|slot| slot.name.as_str()).collect();
        let name = word.escape_debug().take(64).collect();
        return Err(Hindrance::NoPlace { name, there: listed(&slots, MOST_SLOTS) });
    };
    match joint.kind {
        JointKind::Slot => {
            if let Some(other) = parts.occupant(word).filter(|other| other.name != own) {
                return Err(Hindrance::SlotFull { slot: word.into(), other: other.name.clone() });
            }
            Ok((PartPlace::Joint(word.into()), narrowed(joint, link)))
        }
        JointKind::Hub | JointKind::Switch | JointKind::Bus | JointKind::Port => {
            Ok((PartPlace::Joint(word.into()), Vec::new()))
        }
        JointKind::Card | JointKind::Controller => Err(Hindrance::IsCard(word.into())),
    }
}

/// Where a disk without a link of its own goes.
pub(super) fn for_disk(parts: &MachineParts, word: &str) -> Result<PartPlace, Hindrance> {
    let holders =
        || parts.joints.iter().filter(|joint| matches!(joint.kind, JointKind::Controller | JointKind::Bus));
    let Some(joint) = holders().find(|joint| joint.name == word) else {
        let names: Vec<&str> = holders().map(|joint| joint.name.as_str()).collect();
        let there = if names.is_empty() { "none".into() } else { listed(&names, MOST_SLOTS) };
        return Err(Hindrance::NoController { there });
    };
    let place = PartPlace::Joint(word.to_string());
    let there = parts.devices.iter().filter(|device| device.place == place).count();
    match joint.disk_ports {
        Some(ports) if there >= ports as usize => Err(Hindrance::PortsFull { name: word.into(), ports }),
        _ => Ok(place),
    }
}

/// `node1` as a number; none where the word is something else.
fn node(parts: &MachineParts, word: &str) -> Result<Option<u32>, Hindrance> {
    let Some(id) = word.strip_prefix("node").and_then(|id| id.parse().ok()) else { return Ok(None) };
    if parts.node(id).is_none() {
        let last = parts.nodes.iter().map(|node| node.id).max().unwrap_or(0);
        return Err(Hindrance::NoNode { name: word.into(), last });
    }
    Ok(Some(id))
}

fn slots(parts: &MachineParts, node: Option<u32>) -> impl Iterator<Item = &Joint> {
    parts.joints.iter().filter(move |joint| {
        joint.kind == JointKind::Slot && node.is_none_or(|node| parts.node_of(&joint.up) == Some(node))
    })
}

/// The narrowest free slot that carries the card without loss; where none does, an error that says why of
/// each.
fn any_slot(
    parts: &MachineParts,
    node: Option<u32>,
    link: Option<PciLink>,
    own: &str,
) -> Result<(PartPlace, Vec<String>), Hindrance> {
    let free = |slot: &&Joint| parts.occupant(&slot.name).is_none_or(|other| other.name == own);
    let carries = |slot: &&Joint| narrowed(slot, link).is_empty();
    let cost =
        |slot: &&Joint| slot.link.map_or(f64::INFINITY, |link| link.gt_per_second * f64::from(link.width));
    let best = slots(parts, node).filter(free).filter(carries).min_by(|a, b| cost(a).total_cmp(&cost(b)));
    if let Some(slot) = best {
        return Ok((PartPlace::Joint(slot.name.clone()), vec![format!("in {}", slot.name)]));
    }
    let whose = node.map_or_else(|| "the machine".to_string(), |node| format!("node{node}"));
    let reasons: Vec<String> = slots(parts, node)
        .map(|slot| match parts.occupant(&slot.name) {
            Some(other) => format!("{} holds {}", slot.name, other.name),
            None => format!("{} is {}", slot.name, slot.link.map_or("of unknown width".into(), show_link)),
        })
        .collect();
    let link = link.map_or_else(|| "the card".to_string(), show_link);
    match (reasons.is_empty(), node) {
        (true, Some(node)) => Ok((
            PartPlace::Node(node),
            vec![format!("no slot of node{node} is known: taken to have one that fits")],
        )),
        (true, None) => match parts.nodes.as_slice() {
            [only] => {
                Ok((PartPlace::Node(only.id), vec!["no slot is known: taken to have one that fits".into()]))
            }
            _ => Err(Hindrance::Unknown("no slot is known: say the node, like @node0")),
        },
        (false, _) => {
            let more = reasons.len().saturating_sub(MOST_SLOTS);
            let mut reasons = reasons.into_iter().take(MOST_SLOTS).collect::<Vec<_>>().join("; ");
            if more > 0 {
                reasons.push_str(&format!("; and {more} more"));
            }
            Err(Hindrance::NoSlot { whose, link, reasons })
        }
    }
}

/// What a slot takes from a card, if anything.
fn narrowed(slot: &Joint, link: Option<PciLink>) -> Vec<String> {
    match (slot.link, link) {
        (Some(slot_link), Some(link)) if slower(slot_link, link) != link => {
            vec![format!(
                "{} is {}: a card of {} runs at {} there",
                slot.name,
                show_link(slot_link),
                show_link(link),
                show_link(slower(slot_link, link))
            )]
        }
        _ => Vec::new(),
    }
}
