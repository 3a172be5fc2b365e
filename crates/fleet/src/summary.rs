//! The verdict of each pattern from its windows and cells.

use crate::evidence::evidence;
use crate::incast::{incast_sentence, sinks};
use crate::judge::{MatrixCell, judge};
use crate::judge_disks::judge_disks;
use crate::judge_storage::judge_storage;
use crate::judge_wall::judge_wall;
use crate::product::{FleetCell, FleetResult, FleetVerdict, FleetWindow};
use crate::racks::{rack_pairs, rack_sentence};
use crate::schedule::FleetPattern;
use linerate_facts::units::show_bits_rate;
use std::collections::HashMap;

/// A declared uplink that leaves less of a flow than this is a mistake, and no rate is made of it.
const LEAST_SHARE: f64 = 0.001;

/// What the figures say so far.
pub(crate) fn verdict(result: &FleetResult) -> FleetVerdict {
    match result.pattern {
        FleetPattern::Disk => return judge_disks(result),
        FleetPattern::Storage => return judge_storage(result),
        FleetPattern::Wall => return judge_wall(result),
        _ => {}
    }
    let names: Vec<String> = result.members.iter().map(|member| member.name.clone()).collect();
    let numbers: HashMap<&str, usize> =
        names.iter().enumerate().map(|(number, name)| (name.as_str(), number)).collect();
    let is_alone = |cell: &FleetCell| result.windows.get(cell.window).is_some_and(|window| window.alone);
    // The pairs of a bisection's halves are few: what was measured alone makes the matrix fuller.
    let counts = |cell: &&FleetCell| match result.pattern {
        FleetPattern::Pairs | FleetPattern::AllToAll => !is_alone(cell),
        FleetPattern::Disk | FleetPattern::Storage | FleetPattern::Wall => false,
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
            let carried_bytes_per_second = cell.figures.bytes_per_second?;
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
    if result.fabric.iter().any(|rack| rack.uplink_bytes_per_second.is_some()) {
        verdict.sentence.push_str(" (less what the declared uplinks take)");
    }
    let before = match result.pattern {
        FleetPattern::Pairs | FleetPattern::Disk | FleetPattern::Storage | FleetPattern::Wall => None,
        FleetPattern::AllToAll => measured().next_back().map(together),
        FleetPattern::Bisection if result.group.is_some() => {
            verdict.racks = rack_pairs(result);
            rack_sentence(&verdict.racks)
        }
        FleetPattern::Bisection => {
            let worst =
                measured().min_by(|one, other| one.bytes_per_second.total_cmp(&other.bytes_per_second));
            worst.map(|window| format!("the worst of the halves carries {}", together(window)))
        }
        FleetPattern::Incast => {
            verdict.incast = sinks(result);
            incast_sentence(&verdict.incast)
        }
    };
    if let Some(before) = before {
        verdict.sentence = format!("{before}; {}", verdict.sentence);
    }
    verdict
}

pub(crate) fn together(window: &FleetWindow) -> String {
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
