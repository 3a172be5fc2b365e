//! The verdict of each pattern from its windows and cells; and what racks carry between each other, held against what
//! their hosts could: how far the network is oversubscribed.

use crate::evidence::{ends_were_full, evidence, stolen};
use crate::fabric::FabricLinks;
use crate::incast::{incast_sentence, sinks};
use crate::judge::judge;
use crate::judge_storage::{judge_disks, judge_storage};
use crate::matrix::MatrixCell;
use crate::predict::MemberCapacities;
use crate::sentence::{listed, sentence, together};
use crate::sums::{even_sums, host_sums, shared_words, without_what_follows};
use linerate_facts::units::show_bits_rate;
use linerate_measure::run::fleet::{
    FleetCell, FleetPattern, FleetResult, FleetVerdict, FleetWindow, RackPair, SlowLink,
};
use std::collections::{BTreeMap, HashMap};

/// A declared uplink that leaves less of a flow than this is a mistake, and no rate is made of it.
const LEAST_SHARE: f64 = 0.001;

/// What the figures say so far.
pub(crate) fn verdict(result: &FleetResult) -> FleetVerdict {
    let verdict = match result.pattern {
        FleetPattern::Disk => judge_disks(result),
        FleetPattern::Storage => judge_storage(result),
        _ => verdict_of_flows(result),
    };
    FleetVerdict { doubts: stolen(result).into_iter().collect(), ..verdict }
}

/// A pair that is slow by itself: not the rest of what a named host does, and no flow that shares its links.
fn is_of_its_own(result: &FleetResult, verdict: &FleetVerdict, link: &SlowLink) -> bool {
    if link.from.len() > 1 {
        return true;
    }
    let explained = || verdict.members.iter().filter(|member| !member.evidence.is_empty());
    let is_end = |name: &String| *name == link.from[0] || *name == link.to[0];
    let of_host = explained().any(|member| is_end(&member.name));
    let of_cpus = explained().count() > 0 && ends_were_full(result, &link.from[0], &link.to[0]);
    result.pattern != FleetPattern::AllToAll && !of_host && !of_cpus
}

fn verdict_of_flows(result: &FleetResult) -> FleetVerdict {
    let names: Vec<String> = result.members.iter().map(|member| member.name.clone()).collect();
    let numbers: HashMap<&str, usize> =
        names.iter().enumerate().map(|(number, name)| (name.as_str(), number)).collect();
    let is_alone = |cell: &FleetCell| result.windows.get(cell.window).is_some_and(|window| window.alone);
    // The pairs of a bisection's halves are few: what was measured alone makes the matrix fuller.
    let counts = |cell: &&FleetCell| match result.pattern {
        FleetPattern::Pairs | FleetPattern::AllToAll => !is_alone(cell),
        FleetPattern::Disk | FleetPattern::Storage => false,
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
    if let Some(alone) = MemberCapacities::of(result).filter(|_| result.pattern == FleetPattern::AllToAll) {
        verdict.members = without_what_follows(verdict.members, &alone, &names);
    }
    for member in &mut verdict.members {
        member.evidence = evidence(result, member);
    }
    let links = std::mem::take(&mut verdict.links);
    verdict.links = links.into_iter().filter(|link| is_of_its_own(result, &verdict, link)).collect();
    verdict.sentence = sentence(&names, &cells, &verdict);
    if result.pattern == FleetPattern::AllToAll {
        verdict.sums = host_sums(result);
        let even =
            even_sums(&verdict.sums).filter(|_| verdict.members.is_empty() && verdict.links.is_empty());
        verdict.sentence = even.unwrap_or(verdict.sentence);
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
        FleetPattern::Pairs | FleetPattern::Disk | FleetPattern::Storage => None,
        FleetPattern::AllToAll => {
            let mut windows: Vec<&FleetWindow> = measured().collect();
            windows.sort_by(|one, other| one.bytes_per_second.total_cmp(&other.bytes_per_second));
            let middle = windows.get(windows.len().saturating_sub(1) / 2).map(|window| together(window));
            let shared = shared_words(windows.into_iter());
            middle.map(|sum| [Some(sum), shared].into_iter().flatten().collect::<Vec<_>>().join("; "))
        }
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

/// Each rack towards each other one, the most oversubscribed first. Flows that failed are missing in both sums.
fn rack_pairs(result: &FleetResult) -> Vec<RackPair> {
    let groups = FabricLinks::new(&result.fabric, &result.members).groups();
    let group = |name: &String| {
        result.members.iter().position(|member| member.name == *name).map(|member| groups[member])
    };
    let mut sums: BTreeMap<(usize, usize), (f64, Option<f64>)> = BTreeMap::new();
    for cell in result.measured_cells() {
        let (Some(from), Some(to)) = (group(&cell.from), group(&cell.to)) else { continue };
        let Some(rate) = cell.figures.bytes_per_second.filter(|_| from != to) else { continue };
        let share = cell.fabric_share.filter(|share| *share > 0.0).unwrap_or(1.0);
        let free = cell.predicted_bytes_per_second.map(|predicted| predicted / share);
        let sum = sums.entry((from, to)).or_insert((0.0, Some(0.0)));
        sum.0 += rate;
        sum.1 = sum.1.zip(free).map(|(sum, free)| sum + free);
    }
    let hosts = |wanted: usize| {
        let members = result.members.iter().zip(&groups).filter(|(_, group)| **group == wanted);
        members.map(|(member, _)| member.name.clone()).collect::<Vec<String>>()
    };
    let pair = |((from, to), (rate, free)): ((usize, usize), (f64, Option<f64>))| RackPair {
        from: hosts(from),
        to: hosts(to),
        bytes_per_second: rate,
        hosts_bytes_per_second: free,
        oversubscription: free.filter(|_| rate > 0.0).map(|free| free / rate),
    };
    let mut pairs: Vec<RackPair> = sums.into_iter().map(pair).collect();
    let key = |pair: &RackPair| pair.oversubscription.unwrap_or_default();
    pairs.sort_by(|one, other| key(other).total_cmp(&key(one)));
    pairs
}

/// The pair that carries the least of what its hosts could.
fn rack_sentence(pairs: &[RackPair]) -> Option<String> {
    let worst = pairs.first()?;
    let over = match (worst.hosts_bytes_per_second, worst.oversubscription) {
        (Some(free), Some(ratio)) => {
            format!(", and their hosts could {}: oversubscribed {ratio:.1} : 1", show_bits_rate(free))
        }
        _ => String::new(),
    };
    Some(format!(
        "the worst of {} ways between racks, {} to {}, carries {}{over}",
        pairs.len(),
        listed(&worst.from),
        listed(&worst.to),
        show_bits_rate(worst.bytes_per_second)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::parse_rack;
    use crate::tests::{cell, member};
    use linerate_facts::usage::CoreUse;
    use linerate_measure::run::fleet::{FleetHost, HostLoad};

    /// Five hosts, each pair in a window of its own, of which h3 receives a third with its CPU full; `pair` runs at half.
    fn result(pair: (&str, &str), full: &[&str]) -> FleetResult {
        let names = ["h1", "h2", "h3", "h4", "h5"];
        let mut result = FleetResult { members: names.map(member).to_vec(), ..FleetResult::default() };
        for (from, to) in names.iter().flat_map(|from| names.map(|to| (*from, to))) {
            if from == to {
                continue;
            }
            let rate = if to == "h3" { 33.0 } else { 100.0 } * if (from, to) == pair { 0.5 } else { 1.0 };
            for member in [from, to] {
                let busy = to == "h3" && member == "h3" || (from, to) == pair && full.contains(&member);
                let idle = if busy { 0.0 } else { 0.9 };
                let busiest = Some(CoreUse { idle, system: 1.0 - idle, ..CoreUse::default() });
                let load = HostLoad { cpus: 2, busiest, ..HostLoad::default() };
                result.hosts.push(FleetHost { member: member.into(), window: result.windows.len(), load });
            }
            result.cells.push(cell(result.windows.len(), from, to, Some(rate)));
            result.windows.push(FleetWindow { flows: 1, bytes_per_second: rate, ..FleetWindow::default() });
        }
        result
    }

    #[test]
    fn a_pair_that_a_full_cpu_explains_is_not_said_again() {
        let alone = verdict(&result(("h1", "h2"), &[]));
        assert!(alone.sentence.starts_with("h3 receives at 0.33 of the others"), "{}", alone.sentence);
        assert!(alone.sentence.contains("slow as well: the path from h1 to h2, at 0.5"), "{alone:?}");
        for (pair, full) in [(("h1", "h3"), &[][..]), (("h3", "h2"), &[]), (("h1", "h2"), &["h2"])] {
            let verdict = verdict(&result(pair, full));
            assert!(verdict.links.is_empty(), "{}", verdict.sentence);
            assert!(verdict.sentence.contains("; CPU 0 is 100 % busy"), "{}", verdict.sentence);
            assert!(!verdict.sentence.contains("slow as well"), "{}", verdict.sentence);
        }
    }

    #[test]
    fn a_flow_of_all_to_all_is_no_path() {
        let mut result = result(("h1", "h2"), &[]);
        result.pattern = FleetPattern::AllToAll;
        let verdict = verdict(&result);
        assert!(verdict.links.is_empty(), "{}", verdict.sentence);
        assert_eq!(verdict.sums.len(), 5);
    }

    #[test]
    fn oversubscription_is_what_hosts_could_by_what_the_racks_carry() {
        let mut result = FleetResult {
            fabric: ["h[1-2]:10G", "h[3-4]"].map(|rack| parse_rack(rack).expect("a rack")).to_vec(),
            windows: vec![FleetWindow::default()],
            ..FleetResult::default()
        };
        result.members = (1..=4).map(|number| member(format!("h{number}"))).collect();
        // Of one way the declared uplink is expected to take half, and takes two thirds.
        for (from, to, rate, share) in [
            ("h1", "h3", 40.0, 0.6),
            ("h2", "h4", 40.0, 0.6),
            ("h3", "h1", 100.0, 1.0),
            ("h4", "h2", 100.0, 1.0),
        ] {
            result.cells.push(FleetCell {
                predicted_bytes_per_second: Some(120.0 * share),
                fabric_share: Some(share),
                ..cell(0, from, to, Some(rate))
            });
        }
        let pairs = rack_pairs(&result);
        assert_eq!(pairs.len(), 2);
        assert_eq!((pairs[0].from.join(","), pairs[0].to.join(",")), ("h1,h2".into(), "h3,h4".into()));
        assert_eq!((pairs[0].bytes_per_second, pairs[0].hosts_bytes_per_second), (80.0, Some(240.0)));
        assert_eq!((pairs[0].oversubscription, pairs[1].oversubscription), (Some(3.0), Some(1.2)));
        let sentence = rack_sentence(&pairs).expect("a sentence");
        assert!(
            sentence.contains("h1, h2 to h3, h4, carries 640 b/s")
                && sentence.ends_with("oversubscribed 3.0 : 1"),
            "{sentence}"
        );
        result.cells.clear();
        assert_eq!(rack_sentence(&rack_pairs(&result)), None);
    }
}
