//! The verdict of each pattern from its windows and cells.

use crate::evidence::evidence;
use crate::judge::{MatrixCell, judge};
use crate::judge_disks::judge_disks;
use crate::product::{FleetCell, FleetResult, FleetVerdict, FleetWindow};
use crate::schedule::FleetPattern;
use linerate_facts::units::show_bits_rate;
use std::collections::HashMap;

/// An incast that carries less than this of what was predicted is past its knee.
const KNEE: f64 = 0.9;

/// A declared uplink that leaves less of a flow than this is a mistake, and no rate is made of it.
const LEAST_SHARE: f64 = 0.001;

/// What the figures say so far.
pub(crate) fn verdict(result: &FleetResult) -> FleetVerdict {
    if result.pattern == FleetPattern::Disk {
        return judge_disks(result);
    }
    let names: Vec<String> = result.members.iter().map(|member| member.name.clone()).collect();
    let numbers: HashMap<&str, usize> =
        names.iter().enumerate().map(|(number, name)| (name.as_str(), number)).collect();
    let is_alone = |cell: &FleetCell| result.windows.get(cell.window).is_some_and(|window| window.alone);
    // The pairs of a bisection's halves are few: what was measured alone makes the matrix fuller.
    let counts = |cell: &&FleetCell| match result.pattern {
        FleetPattern::Pairs | FleetPattern::AllToAll | FleetPattern::Disk => !is_alone(cell),
        FleetPattern::Bisection => true,
        FleetPattern::Incast => {
            is_alone(cell) || result.windows.get(cell.window).is_some_and(|one| one.flows == 1)
        }
    };
    let cells: Vec<MatrixCell> = result
        .cells
        .iter()
        .filter(counts)
        .filter_map(|cell| {
            let carried_bytes_per_second = cell.bytes_per_second?;
            Some(MatrixCell {
                from: *numbers.get(cell.from.as_str())?,
                to: *numbers.get(cell.to.as_str())?,
                window: cell.window,
                bytes_per_second: carried_bytes_per_second
                    / cell.fabric_share.unwrap_or(1.0).max(LEAST_SHARE),
                carried_bytes_per_second,
            })
        })
        .collect();
    let mut verdict = judge(&names, &cells);
    for member in &mut verdict.members {
        member.evidence = evidence(result, member);
    }
    // Both directions of one host say the same.
    if let Some(why) = verdict.members.first().and_then(|worst| worst.evidence.first()) {
        verdict.sentence = format!("{}; {why}", verdict.sentence);
    }
    let measured = || result.windows.iter().filter(|window| !window.alone && window.bytes_per_second > 0.0);
    if !result.fabric.is_empty() {
        verdict.sentence.push_str(" (less what the declared uplinks take)");
    }
    let before = match result.pattern {
        FleetPattern::Pairs | FleetPattern::Disk => None,
        FleetPattern::AllToAll => measured().next_back().map(together),
        FleetPattern::Bisection => {
            let worst =
                measured().min_by(|one, other| one.bytes_per_second.total_cmp(&other.bytes_per_second));
            worst.map(|window| format!("the worst of the halves carries {}", together(window)))
        }
        FleetPattern::Incast => incast(result),
    };
    if let Some(before) = before {
        verdict.sentence = format!("{before}; {}", verdict.sentence);
    }
    verdict
}

fn together(window: &FleetWindow) -> String {
    let sum = show_bits_rate(window.bytes_per_second);
    match window.predicted_bytes_per_second.filter(|predicted| *predicted > 0.0) {
        Some(predicted) => format!(
            "{sum} together, {:.2} of the {} that follow from each member alone",
            window.bytes_per_second / predicted,
            show_bits_rate(predicted)
        ),
        None => format!("{sum} together"),
    }
}

/// The fewest senders from which on one host's receivers carry clearly less than predicted.
fn incast(result: &FleetResult) -> Option<String> {
    let ratio = |window: &FleetWindow| Some(window.bytes_per_second / window.predicted_bytes_per_second?);
    let sink = |number: usize| result.cells.iter().find(|cell| cell.window == number).map(|cell| &cell.to);
    // One sender alone is no incast: that host and that sender are what they are.
    let windows =
        || result.windows.iter().enumerate().filter(|(_, window)| !window.alone && window.flows > 1);
    let past = windows()
        .filter_map(|(number, window)| Some((window.flows, ratio(window)?, sink(number)?, number)))
        .filter(|(_, ratio, ..)| *ratio < KNEE)
        .min_by(|one, other| one.0.cmp(&other.0).then(one.1.total_cmp(&other.1)));
    let retransmits = |number: usize| -> u64 {
        let of = result.cells.iter().filter(|cell| cell.window == number);
        of.map(|cell| cell.retransmits).sum()
    };
    match past {
        Some((flows, ratio, sink, number)) => Some(format!(
            "from {flows} senders on {sink} takes {ratio:.2} of what follows from each member alone, with {} \
             retransmits",
            retransmits(number)
        )),
        None => {
            let (most, least) = windows()
                .filter_map(|(_, window)| Some((window.flows, ratio(window)?)))
                .fold((0, f64::INFINITY), |(most, least), (flows, ratio)| {
                    (most.max(flows), least.min(ratio))
                });
            (most > 0).then(|| {
                format!("up to {most} senders every host takes {least:.2} or more of what follows from each member alone")
            })
        }
    }
}
