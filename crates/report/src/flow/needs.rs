//! What a rate that was asked for needs, and which slots carry it.

use super::put;
use crate::style::Style;
use linerate_facts::wording::counted;
use linerate_model::plan::sizing::{Sizing, SlotUse};
use linerate_model::plan::wording::ranged;

/// Target, parts and slots. `show`: rates in the unit of the flow.
pub(super) fn needs(
    lines: &mut Vec<String>,
    sizing: &Sizing,
    show: impl Fn(f64) -> String,
    width: usize,
    style: Style,
) {
    lines.push(String::new());
    let (line, payload) = (sizing.target_bytes_per_second, sizing.payload_bytes_per_second);
    let text = format!("{} on the line, {} of payload, needs", show(line), show(payload));
    put(lines, "target", &text, width, |text| style.bold(text));
    for need in &sizing.needs {
        let there = need.there.map_or(String::new(), |there| format!("; the machine has {there}"));
        let text = format!("{} ({}): {}{there}", counted(need.count, need.part), need.what, need.why);
        put(lines, "", &text, width, str::to_string);
    }
    if sizing.slots.is_empty() {
        put(lines, "slots", "no slot of the machine is known", width, str::to_string);
        return;
    }
    let alike = |a: &SlotUse, b: &SlotUse| a.link == b.link && a.takes == b.takes && a.why == b.why;
    let mut groups: Vec<Vec<&SlotUse>> = Vec::new();
    for slot in &sizing.slots {
        match groups.iter_mut().find(|group| alike(group[0], slot)) {
            Some(group) => group.push(slot),
            None => groups.push(vec![slot]),
        }
    }
    for group in groups {
        let names: Vec<&str> = group.iter().map(|slot| slot.slot.as_str()).collect();
        let (verb, each) = if names.len() > 1 { ("take", " each") } else { ("takes", "") };
        let what = match (group[0].takes, &group[0].why) {
            (Some(part), _) => format!("{verb} a {part}{each}"),
            (None, why) => format!("– {}", why.as_deref().unwrap_or_default()),
        };
        let text = format!("{} ({}) {what}", ranged(&names), group[0].link);
        put(lines, "slot", &text, width, str::to_string);
    }
    let text = match sizing.without_slot {
        0 => "every card has a slot".to_string(),
        1 => "1 card is left without a slot that carries it".to_string(),
        many => format!("{many} cards are left without a slot that carries them"),
    };
    put(lines, "slots", &text, width, |text| {
        if sizing.without_slot > 0 { style.cut(text) } else { text.to_string() }
    });
}
