//! What servers with disks give their clients: together, by what each does alone, and who gives or takes less.

use crate::evidence::evidence;
use crate::judge_disks::{slow_sources, slow_words};
use crate::matrix::{HOST_RATIO, SUPPORT};
use crate::sentence::together;
use crate::sentence::{limit_words, listed};
use linerate_facts::wording::counted;
use linerate_measure::run::fleet::{FleetCell, FleetDirection, FleetResult, FleetVerdict, SlowMember};
use linerate_model::alike::median;

/// Judges the window with the most clients.
pub(crate) fn judge_storage(result: &FleetResult) -> FleetVerdict {
    let windows = result.windows.iter().enumerate();
    let last = windows.rev().find(|(_, window)| !window.alone && window.bytes_per_second > 0.0);
    let disks = slow_sources(result);
    let Some((number, window)) = last else {
        let sentence = disks.first().map_or("nothing was measured".into(), slow_words);
        return FleetVerdict { sentence, members: disks, ..FleetVerdict::default() };
    };
    let cells: Vec<&FleetCell> = result.cells.iter().filter(|cell| cell.window == number).collect();
    let clients = window.flows / result.servers.len().max(1);
    let mut parts = vec![format!(
        "{} to {}: {}",
        counted(result.servers.len(), "server"),
        counted(clients, "client"),
        together(window)
    )];
    parts.extend(limit_words(&window.limits).map(|limits| format!("limited by {limits}")));
    let mut members = slow_members(result, &cells);
    for member in &mut members {
        member.evidence = evidence(result, member);
    }
    parts.extend(members.first().map(|worst| {
        let does = if worst.direction == FleetDirection::Send { "gives" } else { "takes" };
        let why = worst.evidence.first().map_or(String::new(), |why| format!(": {why}"));
        format!("{} {does} {:.2} of what follows from it alone{why}", worst.name, worst.ratio)
    }));
    parts.extend(disks.first().map(slow_words));
    let mut others: Vec<String> =
        members.iter().skip(1).chain(disks.iter().skip(1)).map(|slow| slow.name.clone()).collect();
    others.dedup();
    if !others.is_empty() {
        parts.push(format!("slow as well: {}", listed(&others)));
    }
    members.extend(disks);
    FleetVerdict { sentence: parts.join("; "), members, ..FleetVerdict::default() }
}

/// Servers that give and clients that take clearly less of what was predicted than the others: of all together the
/// sentence speaks already.
fn slow_members(result: &FleetResult, cells: &[&FleetCell]) -> Vec<SlowMember> {
    let ratio = |of: &[&FleetCell]| {
        let sums = of
            .iter()
            .filter_map(|cell| Some((cell.figures.bytes_per_second?, cell.predicted_bytes_per_second?)));
        let (achieved, predicted) = sums.fold((0.0, 0.0), |(a, b), (more, of)| (a + more, b + of));
        (predicted > 0.0).then(|| achieved / predicted)
    };
    let Some(usual) = median(cells.iter().filter_map(|cell| cell.of_predicted())) else { return Vec::new() };
    let of = |direction: FleetDirection, name: &String| {
        let end = |cell: &&&FleetCell| match direction {
            FleetDirection::Send => cell.from == *name,
            _ => cell.to == *name,
        };
        let own: Vec<&FleetCell> = cells.iter().filter(end).copied().collect();
        let ratio = ratio(&own).filter(|ratio| *ratio < HOST_RATIO * usual.min(1.0))?;
        let low =
            |cell: &&&FleetCell| cell.of_predicted().is_some_and(|one| one < HOST_RATIO * usual.min(1.0));
        let pairs = own.iter().filter(low).count();
        // One slow client makes no server slow.
        (pairs as f64 >= SUPPORT * own.len() as f64).then(|| SlowMember {
            name: name.clone(),
            direction,
            ratio,
            pairs,
            pairs_measured: own.len(),
            other_way: None,
            sources: Vec::new(),
            evidence: Vec::new(),
        })
    };
    let names = || result.members.iter().map(|member| &member.name);
    let send = names().filter_map(|name| of(FleetDirection::Send, name));
    let mut slow: Vec<SlowMember> =
        send.chain(names().filter_map(|name| of(FleetDirection::Receive, name))).collect();
    slow.sort_by(|one, other| one.ratio.total_cmp(&other.ratio));
    slow
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_measure::run::fleet::{FleetLimit, FleetMember, FleetWindow, FlowFigures, FlowLimitKind};

    /// Two servers and three clients; `rate` of each flow by what was predicted, 100.
    fn result(rate: impl Fn(&str, &str) -> f64) -> FleetResult {
        let mut result = FleetResult { servers: vec!["s1".into(), "s2".into()], ..FleetResult::default() };
        result.members = ["s1", "s2", "c1", "c2", "c3"]
            .map(|name| FleetMember { name: name.into(), ..FleetMember::default() })
            .to_vec();
        for from in ["s1", "s2"] {
            for to in ["c1", "c2", "c3"] {
                let bytes_per_second = Some(rate(from, to));
                result.cells.push(FleetCell {
                    from: from.into(),
                    to: to.into(),
                    predicted_bytes_per_second: Some(100.0),
                    figures: FlowFigures { bytes_per_second, ..FlowFigures::default() },
                    ..FleetCell::default()
                });
            }
        }
        result.windows.push(FleetWindow {
            flows: 6,
            bytes_per_second: result.cells.iter().filter_map(|cell| cell.figures.bytes_per_second).sum(),
            predicted_bytes_per_second: Some(600.0),
            limits: vec![FleetLimit { kind: FlowLimitKind::Disks, hosts: result.servers.clone() }],
            ..FleetWindow::default()
        });
        result
    }

    #[test]
    fn all_as_predicted_names_what_limits_and_nobody() {
        let verdict = judge_storage(&result(|_, _| 99.0));
        assert_eq!(
            verdict.sentence,
            "2 servers to 3 clients: 4.75 kb/s together, 0.99 of the 4.80 kb/s that follow from each member alone; \
             limited by the disks of s1, s2"
        );
        assert!(verdict.members.is_empty());
    }

    #[test]
    fn a_client_that_takes_less_is_named() {
        let verdict = judge_storage(&result(|_, to| if to == "c3" { 40.0 } else { 98.0 }));
        assert!(
            verdict.sentence.contains("c3 takes 0.40 of what follows from it alone"),
            "{}",
            verdict.sentence
        );
        assert_eq!(verdict.members.len(), 1, "{:?}", verdict.members);
        assert_eq!((verdict.members[0].pairs, verdict.members[0].pairs_measured), (2, 2));
    }

    #[test]
    fn nothing_measured_is_said() {
        let empty = FleetResult { cells: Vec::new(), windows: Vec::new(), ..result(|_, _| 1.0) };
        assert_eq!(judge_storage(&empty).sentence, "nothing was measured");
    }
}
