//! `tc -s qdisc`: `qdisc fq 8001: dev eth0 root …`, and below it ` Sent 1 bytes 2 pkt (dropped 3, overlimits 4 requeues 5)`.

use super::MOST_INTERFACES;
use crate::counters::protocols::named;
use crate::counters::{InterfaceCounters, NetworkCounters, QdiscCounters};
use crate::fact::Fact;

/// Disciplines of one listing: a card of 128 queues has as many.
const MOST_DISCIPLINES: usize = 16_384;

/// The disciplines of every interface, the root's first.
pub fn tc_qdiscs(text: &str) -> Option<NetworkCounters> {
    let mut interfaces: Vec<InterfaceCounters> = Vec::new();
    let mut current: Option<usize> = None;
    let mut left = MOST_DISCIPLINES;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().take(64).collect();
        if words.first() == Some(&"qdisc") {
            current = None;
            let Some((interface, discipline)) = head(&words).filter(|_| left > 0) else { continue };
            left -= 1;
            let at = interfaces.iter().position(|one| one.name == interface);
            if at.is_none() && interfaces.len() >= MOST_INTERFACES {
                break;
            }
            let at = at.unwrap_or_else(|| {
                interfaces.push(InterfaceCounters {
                    name: interface,
                    qdiscs: Fact::Known(Vec::new()),
                    ..InterfaceCounters::default()
                });
                interfaces.len() - 1
            });
            if let Fact::Known(all) = &mut interfaces[at].qdiscs {
                all.push(discipline);
                current = Some(at);
            }
        } else if let Some(discipline) = current.and_then(|at| match &mut interfaces[at].qdiscs {
            Fact::Known(all) => all.last_mut(),
            Fact::Unknown { .. } => None,
        }) {
            counted(&words, discipline);
        }
    }
    for one in &mut interfaces {
        if let Fact::Known(all) = &mut one.qdiscs {
            all.sort_by_key(|discipline| discipline.parent != "root");
        }
    }
    (!interfaces.is_empty()).then(|| NetworkCounters { interfaces, ..NetworkCounters::default() })
}

fn head(words: &[&str]) -> Option<(String, QdiscCounters)> {
    let after = |word: &str| words.iter().skip_while(|other| **other != word).nth(1).copied();
    let parent = match after("parent") {
        Some(class) => class.to_string(),
        None if words.contains(&"ingress") || matches!(words.get(1), Some(&("ingress" | "clsact"))) => {
            "ingress".into()
        }
        None => "root".into(),
    };
    let discipline = QdiscCounters {
        kind: named(words.get(1)?)?,
        handle: words.get(2)?.chars().take(16).collect(),
        parent,
        ..QdiscCounters::default()
    };
    Some((named(after("dev")?)?, discipline))
}

fn counted(words: &[&str], discipline: &mut QdiscCounters) {
    let number = |text: &str| {
        let digits: String = text.chars().filter(char::is_ascii_digit).collect();
        digits.parse::<u64>().ok()
    };
    let before = |word: &str| {
        let at = words.iter().position(|other| *other == word)?;
        number(words.get(at.checked_sub(1)?)?)
    };
    let after =
        |word: &str| words.iter().skip_while(|other| **other != word).nth(1).and_then(|text| number(text));
    if words.first() == Some(&"Sent") {
        let known = |value: Option<u64>| Fact::from_option(value, "tc does not report");
        discipline.bytes = known(before("bytes"));
        discipline.packets = known(before("pkt").or(before("pkts")));
        discipline.drops = known(after("(dropped"));
        discipline.overlimits = known(after("overlimits"));
        discipline.requeues = known(after("requeues"));
    }
}
