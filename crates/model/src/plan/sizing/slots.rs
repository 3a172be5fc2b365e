//! Which slots can carry the cards that are needed.

use super::link_rate;
use crate::plan::parts::{Joint, JointKind, MachineParts, show_link, slower};
use linerate_facts::units::show_bits_rate;
use linerate_machine::probe::PciLink;
use linerate_machine::rates::pcie::PayloadDirection;
use serde::Serialize;

/// A slot and the part that it takes, or why it takes none.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SlotUse {
    pub slot: String,
    /// `PCIe 2.0 x8`.
    pub link: String,
    /// What goes in; none where it can carry nothing that is left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub takes: Option<&'static str>,
    /// Why it takes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Cards of one kind, and what each has to carry.
pub(super) struct Cards {
    pub part: &'static str,
    pub count: u32,
    pub link: PciLink,
    pub bytes_per_second: f64,
    pub direction: PayloadDirection,
}

/// Cards into slots: what has to carry most first, each into the narrowest slot that carries it. What is in
/// the slots now does not count: the machine is filled again.
pub(super) fn fill(parts: &MachineParts, mut cards: Vec<Cards>) -> (Vec<SlotUse>, u32) {
    let mut slots: Vec<(&Joint, PciLink, Option<&'static str>)> = parts
        .joints
        .iter()
        .filter(|joint| joint.kind == JointKind::Slot)
        .filter_map(|slot| Some((slot, slot.link?, None)))
        .collect();
    cards.sort_by(|a, b| b.bytes_per_second.total_cmp(&a.bytes_per_second));
    let mut without = 0u32;
    for card in &cards {
        for placed in 0..card.count {
            let free = slots.iter_mut().filter(|(_, link, takes)| takes.is_none() && carries(*link, card));
            let width = |link: PciLink| link.gt_per_second * f64::from(link.width);
            match free.min_by(|a, b| width(a.1).total_cmp(&width(b.1))) {
                Some((_, _, takes)) => *takes = Some(card.part),
                // Nor do the others of its kind: there may be millions.
                None => {
                    without = without.saturating_add(card.count - placed);
                    break;
                }
            }
        }
    }
    let used = slots
        .iter()
        .map(|(slot, link, takes)| SlotUse {
            slot: slot.name.clone(),
            link: show_link(*link),
            takes: *takes,
            why: takes.is_none().then(|| why_empty(*link, &cards)),
        })
        .collect();
    (used, without)
}

fn carries(slot: PciLink, card: &Cards) -> bool {
    link_rate(slower(slot, card.link), card.direction) >= card.bytes_per_second
}

fn why_empty(slot: PciLink, cards: &[Cards]) -> String {
    let short = |card: &&Cards| !carries(slot, card);
    let reasons: Vec<String> = cards
        .iter()
        .filter(short)
        .map(|card| {
            format!(
                "leaves a {} {} of the {} that it has to carry",
                card.part,
                show_bits_rate(link_rate(slower(slot, card.link), card.direction)),
                show_bits_rate(card.bytes_per_second)
            )
        })
        .collect();
    if reasons.is_empty() { "not needed".into() } else { reasons.join("; ") }
}
