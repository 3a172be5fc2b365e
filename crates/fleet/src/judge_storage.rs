//! The members' storage: which host's disks differ, by the thresholds of the matrix, a pure function of what each source
//! did; and what servers with disks give their clients: together, by what each does alone, and who gives or takes less.

use crate::evidence::evidence;
use crate::matrix::{HOST_RATIO, LEAST_HOSTS, SUPPORT};
use crate::sentence::{limit_words, listed, together};
use linerate_facts::units::show_bytes_rate;
use linerate_facts::wording::counted;
use linerate_measure::run::fleet::{
    DiskDirection, FleetCell, FleetDirection, FleetDisk, FleetResult, FleetVerdict, SlowMember,
};
use linerate_model::alike::{AlikeFigure, Slower, median, slower};
use std::collections::{BTreeMap, BTreeSet};

/// One source of one member in one direction: the median of its windows.
struct DiskFigure<'a> {
    disk: &'a FleetDisk,
    bytes_per_second: f64,
}

/// Judges all sources, reads and writes apart.
pub(crate) fn judge_disks(result: &FleetResult) -> FleetVerdict {
    let members = slow_sources(result);
    let sentence = disks_sentence(result, &members);
    FleetVerdict { sentence, members, ..FleetVerdict::default() }
}

/// Members with slow sources, the slowest first.
fn slow_sources(result: &FleetResult) -> Vec<SlowMember> {
    let mut members: Vec<SlowMember> = [DiskDirection::Read, DiskDirection::Write]
        .into_iter()
        .flat_map(|direction| slow_disks(&disk_figures(result, direction), direction))
        .collect();
    members.sort_by(|one, other| one.ratio.total_cmp(&other.ratio));
    members
}

fn disk_figures<'a>(result: &'a FleetResult, direction: DiskDirection) -> Vec<DiskFigure<'a>> {
    let mut rates: BTreeMap<(&str, &str), (&FleetDisk, Vec<f64>)> = BTreeMap::new();
    for disk in result.disks.iter().filter(|disk| disk.direction == direction) {
        let Some(rate) = disk.bytes_per_second.filter(|rate| *rate > 0.0) else { continue };
        let key = (disk.member.as_str(), disk.source.as_str());
        rates.entry(key).or_insert_with(|| (disk, Vec::new())).1.push(rate);
    }
    let figure = |(disk, rates): (&'a FleetDisk, Vec<f64>)| {
        Some(DiskFigure { disk, bytes_per_second: median(rates.into_iter())? })
    };
    rates.into_values().filter_map(figure).collect()
}

fn slow_disks(figures: &[DiskFigure<'_>], direction: DiskDirection) -> Vec<SlowMember> {
    if figures.len() < LEAST_HOSTS {
        return Vec::new();
    }
    let alike = |figure: &DiskFigure<'_>| AlikeFigure {
        bytes_per_second: figure.bytes_per_second,
        interval: None,
        is_own: true,
    };
    let below = slower(&figures.iter().map(alike).collect::<Vec<_>>(), HOST_RATIO);
    let mut by_member: BTreeMap<&str, Vec<(&DiskFigure<'_>, Option<&Slower>)>> = BTreeMap::new();
    for (index, figure) in figures.iter().enumerate() {
        let slower = below.iter().find(|slower| slower.index == index);
        by_member.entry(&figure.disk.member).or_default().push((figure, slower));
    }
    let found = by_member.into_iter().filter_map(|(name, own)| {
        let slow: Vec<(&DiskFigure<'_>, &Slower)> =
            own.iter().filter_map(|(figure, slower)| Some((*figure, (*slower)?))).collect();
        let ratio = slow.iter().map(|(_, slower)| slower.ratio).fold(f64::INFINITY, f64::min);
        let words = |(figure, _): &(&DiskFigure<'_>, &Slower)| match figure.disk.disks.is_empty() {
            true => figure.disk.source.clone(),
            false => format!("{} ({})", figure.disk.source, figure.disk.disks.join(", ")),
        };
        (!slow.is_empty()).then(|| SlowMember {
            name: name.into(),
            direction: match direction {
                DiskDirection::Read => FleetDirection::Read,
                DiskDirection::Write => FleetDirection::Write,
            },
            ratio,
            pairs: slow.len(),
            pairs_measured: own.len(),
            other_way: None,
            sources: slow.iter().map(words).collect(),
            evidence: Vec::new(),
        })
    });
    found.collect()
}

fn disks_sentence(result: &FleetResult, slow: &[SlowMember]) -> String {
    let together = result.windows.iter().rev().find(|window| !window.alone && window.bytes_per_second > 0.0);
    let first = together.map(|window| {
        let does = if window.disks == Some(DiskDirection::Write) { "write" } else { "read" };
        let scale = window
            .scalability
            .map_or(String::new(), |share| format!(", {:.0} % of what each does alone", share * 100.0));
        let rate = show_bytes_rate(window.bytes_per_second);
        format!("{} hosts {does} {rate} together until the last is done{scale}; ", window.hosts)
    });
    let first = first.unwrap_or_default();
    let Some(worst) = slow.first() else { return format!("{first}{}", nothing_differs(result)) };
    let second = slow_words(worst);
    let mut others: Vec<&str> =
        slow.iter().map(|one| one.name.as_str()).filter(|other| *other != worst.name).collect();
    others.sort_unstable();
    others.dedup();
    match others.as_slice() {
        [] => format!("{first}{second}"),
        others => format!("{first}{second}; slow as well: {}", others.join(", ")),
    }
}

/// Which of its sources are slow.
fn slow_words(worst: &SlowMember) -> String {
    let does = if worst.direction == FleetDirection::Write { "writes" } else { "reads" };
    let ratio = worst.ratio;
    let name = &worst.name;
    match (worst.pairs, worst.pairs_measured) {
        (1, 1) => format!("{name} {does} at {ratio:.2} of the others: {}", worst.sources[0]),
        (slow, all) if slow == all => {
            format!(
                "{name} {does} at {ratio:.2} of the others from all of its {all} sources: the host itself"
            )
        }
        (1, _) => format!(
            "{name} {does} {} at {ratio:.2} of the others and its other sources normally: that disk",
            worst.sources[0]
        ),
        (slow, all) => format!(
            "{name} {does} {slow} of its {all} sources at {ratio:.2} of the others: {}",
            worst.sources.join(", ")
        ),
    }
}

fn nothing_differs(result: &FleetResult) -> String {
    let reads = disk_figures(result, DiskDirection::Read);
    let rates = || reads.iter().map(|figure| figure.bytes_per_second);
    let Some(middle) = median(rates()) else { return "nothing was measured".into() };
    let slowest = rates().fold(f64::INFINITY, f64::min) / middle;
    let fastest = rates().fold(0.0, f64::max) / middle;
    let middle = show_bytes_rate(middle);
    let spread = format!(
        "all {} sources read within {slowest:.2} and {fastest:.2} of their median, {middle}",
        reads.len()
    );
    match reads.len() < LEAST_HOSTS {
        true => format!("{LEAST_HOSTS} sources at least are needed to know a slow one; {spread}"),
        false => format!("no host stands out: {spread}"),
    }
}

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
    let named = [members.first(), disks.first()].map(|slow| slow.map(|slow| &slow.name));
    let others = members.iter().chain(&disks).filter(|slow| !named.contains(&Some(&slow.name)));
    let others: BTreeSet<String> = others.map(|slow| slow.name.clone()).collect();
    let others = Vec::from_iter(others);
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
    use crate::tests::{cell, member};
    use linerate_measure::run::fleet::{FleetLimit, FleetWindow, FlowLimitKind};
    use linerate_testing::Dice;

    fn disks_read(
        hosts: usize,
        sources: usize,
        seed: u64,
        rate: impl Fn(usize, usize) -> f64,
    ) -> FleetResult {
        let mut dice = Dice::new(seed);
        let mut result = FleetResult::default();
        for host in 0..hosts {
            for source in 0..sources {
                result.disks.push(FleetDisk {
                    member: format!("h{host}"),
                    source: format!("/data{source}"),
                    disks: vec![format!("nvme{source}n1")],
                    bytes: 1 << 30,
                    bytes_per_second: Some(rate(host, source) * (0.03 * dice.normal()).exp()),
                    ..FleetDisk::default()
                });
            }
        }
        result
    }

    #[test]
    fn names_a_slow_disk_and_a_slow_host_in_20_of_20() {
        for seed in 0..20 {
            let at = seed as usize % 4;
            let disk = |host, source| if (host, source) == (at, 1) { 40e6 } else { 100e6 };
            let verdict = judge_disks(&disks_read(4, 2, seed, disk));
            let says = format!("h{at} reads /data1 (nvme1n1) at 0.");
            assert!(verdict.sentence.contains(&says) && verdict.members.len() == 1, "{verdict:?}");
            assert!(verdict.sentence.ends_with("that disk"), "{verdict:?}");
            let host = |host, _| if host == at { 40e6 } else { 100e6 };
            let verdict = judge_disks(&disks_read(4, 2, seed, host));
            assert!(verdict.sentence.contains("all of its 2 sources: the host itself"), "{verdict:?}");
            let verdict = judge_disks(&disks_read(4, 1, seed, host));
            assert!(verdict.sentence.contains(&format!("h{at} reads at 0.")), "{verdict:?}");
            let verdict = judge_disks(&disks_read(4, 2, seed, |_, _| 100e6));
            assert!(
                verdict.members.is_empty() && verdict.sentence.contains("no host stands out"),
                "{verdict:?}"
            );
        }
    }

    #[test]
    fn too_few_sources_and_none_are_judged_without_blame() {
        let verdict = judge_disks(&disks_read(3, 1, 1, |host, _| if host == 0 { 1e6 } else { 100e6 }));
        assert!(verdict.members.is_empty() && verdict.sentence.contains("4 sources at least"), "{verdict:?}");
        assert_eq!(judge_disks(&FleetResult::default()).sentence, "nothing was measured");
    }

    /// Two servers and three clients; `rate` of each flow by what was predicted, 100.
    fn served(rate: impl Fn(&str, &str) -> f64) -> FleetResult {
        let mut result = FleetResult { servers: vec!["s1".into(), "s2".into()], ..FleetResult::default() };
        result.members = ["s1", "s2", "c1", "c2", "c3"].map(member).to_vec();
        for from in ["s1", "s2"] {
            for to in ["c1", "c2", "c3"] {
                let carried = cell(0, from, to, Some(rate(from, to)));
                result.cells.push(FleetCell { predicted_bytes_per_second: Some(100.0), ..carried });
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
        let verdict = judge_storage(&served(|_, _| 99.0));
        assert_eq!(
            verdict.sentence,
            "2 servers to 3 clients: 4.75 kb/s together, 0.99 of the 4.80 kb/s that follow from each member alone; \
             limited by the disks of s1, s2"
        );
        assert!(verdict.members.is_empty());
    }

    #[test]
    fn a_client_that_takes_less_is_named() {
        let verdict = judge_storage(&served(|_, to| if to == "c3" { 40.0 } else { 98.0 }));
        assert!(verdict.sentence.contains("c3 takes 0.40 of what follows from it alone"), "{verdict:?}");
        assert_eq!(verdict.members.len(), 1, "{:?}", verdict.members);
        assert_eq!((verdict.members[0].pairs, verdict.members[0].pairs_measured), (2, 2));
    }

    #[test]
    fn a_server_whose_disks_are_slow_as_well_is_named_once() {
        let mut result = served(|_, _| 98.0);
        result.members.extend((3..=8).map(|number| member(format!("s{number}"))));
        let both = |number| [(number, DiskDirection::Read), (number, DiskDirection::Write)];
        for (number, direction) in (1..=8_u8).flat_map(both) {
            let rate = if number > 2 { 100e6 } else { 40e6 };
            let (member, bytes_per_second) = (format!("s{number}"), Some(rate + f64::from(number)));
            result.disks.push(FleetDisk { member, direction, bytes_per_second, ..FleetDisk::default() });
        }
        let sentence = judge_storage(&result).sentence;
        assert!(
            sentence.contains("s1 reads at 0.40") && sentence.ends_with("slow as well: s2"),
            "{sentence}"
        );
    }

    #[test]
    fn nothing_measured_is_said() {
        let empty = FleetResult { cells: Vec::new(), windows: Vec::new(), ..served(|_, _| 1.0) };
        assert_eq!(judge_storage(&empty).sentence, "nothing was measured");
    }
}
