//! Two fleets beside each other: what each flow and each source did then and now, and which member it was that changed.

use crate::fabric::mtu;
use crate::judge::{HOST_RATIO, LEAST_HOSTS};
use crate::product::{DiskDirection, FleetDirection, FleetMember, FleetResult, SCHEMA};
use linerate_model::alike::{MAD_TO_SIGMA, differs, median, polish};
use serde::Serialize;

/// A member that is this much faster than before has changed as well.
const FASTER: f64 = 1.0 / HOST_RATIO;

/// Of two fleets of one pattern.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FleetComparison {
    pub schema: u32,
    pub before: FleetSide,
    pub after: FleetSide,
    pub sentence: String,
    /// All flows or sources, in the median: after ÷ before.
    pub ratio: Option<f64>,
    /// Directions of members that changed otherwise than the others, the slowest first.
    pub changed: Vec<ChangedMember>,
    /// Other properties of members that are not as they were, in sentences.
    pub properties: Vec<String>,
    /// Members of one of the two alone.
    pub only_before: Vec<String>,
    pub only_after: Vec<String>,
    /// Flows of members of both, as the matrix has them.
    pub cells: Vec<CellChange>,
    /// Sources of members of both.
    pub disks: Vec<DiskChange>,
}

/// One of the two.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FleetSide {
    pub file: String,
    pub started: String,
    pub pattern: String,
    pub members: usize,
    pub sentence: String,
}

/// One direction of a member.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChangedMember {
    pub name: String,
    pub direction: FleetDirection,
    /// After ÷ before, by what the others changed.
    pub ratio: f64,
}

/// One flow then and now.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CellChange {
    pub from: String,
    pub to: String,
    pub before_bytes_per_second: f64,
    pub after_bytes_per_second: f64,
    pub ratio: f64,
}

/// One source then and now.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DiskChange {
    pub member: String,
    pub source: String,
    pub direction: DiskDirection,
    pub before_bytes_per_second: f64,
    pub after_bytes_per_second: f64,
    pub ratio: f64,
}

/// Why two fleets cannot be held against each other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FleetComparisonError {
    #[error("one fleet measured {0} and the other {1}: only the same pattern can be compared")]
    Patterns(String, String),
    #[error("the two fleets have no member in common; are they of other hosts?")]
    NoMember,
}

/// Sets them beside each other; the words name their files.
pub fn compare_fleets(
    (before_file, before): (&str, &FleetResult),
    (after_file, after): (&str, &FleetResult),
) -> Result<FleetComparison, FleetComparisonError> {
    if before.pattern != after.pattern {
        let name = |result: &FleetResult| result.pattern.name().to_string();
        return Err(FleetComparisonError::Patterns(name(before), name(after)));
    }
    let names = |result: &FleetResult| -> Vec<String> {
        result.members.iter().map(|member| member.name.clone()).collect()
    };
    let (then, now) = (names(before), names(after));
    let both: Vec<String> = then.iter().filter(|name| now.contains(name)).cloned().collect();
    if both.is_empty() {
        return Err(FleetComparisonError::NoMember);
    }
    let without = |all: &[String]| all.iter().filter(|name| !both.contains(name)).cloned().collect();
    let cells = cells(before, after, &both);
    let disks = disks(before, after);
    let changed = [members_of_cells(&both, &cells), members_of_disks(&disks)].concat();
    let ratio = median(cells.iter().map(|cell| cell.ratio).chain(disks.iter().map(|disk| disk.ratio)));
    Ok(FleetComparison {
        schema: SCHEMA,
        before: side(before_file, before),
        after: side(after_file, after),
        sentence: sentence(ratio, &changed, cells.len() + disks.len()),
        ratio,
        changed,
        properties: properties(before, after, &both),
        only_before: without(&then),
        only_after: without(&now),
        cells,
        disks,
    })
}

fn side(file: &str, result: &FleetResult) -> FleetSide {
    FleetSide {
        file: file.into(),
        started: result.started.clone(),
        pattern: result.pattern.name().into(),
        members: result.members.len(),
        sentence: result.verdict.sentence.clone(),
    }
}

fn cells(before: &FleetResult, after: &FleetResult, both: &[String]) -> Vec<CellChange> {
    let pairs = both.iter().flat_map(|from| both.iter().map(move |to| (from, to)));
    let change = |(from, to): (&String, &String)| {
        let before_bytes_per_second = before.rate(from, to).filter(|rate| *rate > 0.0)?;
        let after_bytes_per_second = after.rate(from, to)?;
        Some(CellChange {
            from: from.clone(),
            to: to.clone(),
            before_bytes_per_second,
            after_bytes_per_second,
            ratio: after_bytes_per_second / before_bytes_per_second,
        })
    };
    pairs.filter_map(change).collect()
}

fn disks(before: &FleetResult, after: &FleetResult) -> Vec<DiskChange> {
    let mut seen: Vec<(&str, &str, DiskDirection)> = Vec::new();
    let mut changes = Vec::new();
    for disk in &before.disks {
        let key = (disk.member.as_str(), disk.source.as_str(), disk.direction);
        if seen.contains(&key) {
            continue;
        }
        seen.push(key);
        let rate = |result: &FleetResult| result.disk_rate(&disk.member, &disk.source, disk.direction);
        if let (Some(then), Some(now)) = (rate(before).filter(|rate| *rate > 0.0), rate(after)) {
            changes.push(DiskChange {
                member: disk.member.clone(),
                source: disk.source.clone(),
                direction: disk.direction,
                before_bytes_per_second: then,
                after_bytes_per_second: now,
                ratio: now / then,
            });
        }
    }
    changes
}

/// Rows and columns of the ratios that differ from those of the others.
fn members_of_cells(names: &[String], cells: &[CellChange]) -> Vec<ChangedMember> {
    let at = |name: &String| names.iter().position(|other| other == name);
    let mut table = vec![vec![None; names.len()]; names.len()];
    for cell in cells.iter().filter(|cell| cell.ratio > 0.0) {
        if let (Some(from), Some(to)) = (at(&cell.from), at(&cell.to)) {
            table[from][to] = Some(cell.ratio.ln());
        }
    }
    if names.len() < LEAST_HOSTS {
        return Vec::new();
    }
    let polished = polish(&table);
    let residuals = polished.residuals.iter().flatten().flatten();
    let noise = median(residuals.map(|cell| cell.abs())).unwrap_or(0.0) * MAD_TO_SIGMA;
    let of = |effects: &[f64], direction| -> Vec<ChangedMember> {
        let named = names.iter().zip(effects).filter(|(_, effect)| has_changed(**effect, noise));
        named
            .map(|(name, effect)| ChangedMember { name: name.clone(), direction, ratio: effect.exp() })
            .collect()
    };
    sorted(
        [of(&polished.rows, FleetDirection::Send), of(&polished.columns, FleetDirection::Receive)].concat(),
    )
}

fn members_of_disks(disks: &[DiskChange]) -> Vec<ChangedMember> {
    let mut changed = Vec::new();
    for direction in [DiskDirection::Read, DiskDirection::Write] {
        let of: Vec<(&String, f64)> = disks
            .iter()
            .filter(|disk| disk.direction == direction && disk.ratio > 0.0)
            .map(|disk| (&disk.member, disk.ratio.ln()))
            .collect();
        if of.len() < LEAST_HOSTS {
            continue;
        }
        let usual = median(of.iter().map(|(_, ratio)| *ratio)).unwrap_or(0.0);
        let noise = median(of.iter().map(|(_, ratio)| (ratio - usual).abs())).unwrap_or(0.0) * MAD_TO_SIGMA;
        let way = match direction {
            DiskDirection::Read => FleetDirection::Read,
            DiskDirection::Write => FleetDirection::Write,
        };
        let named = of.iter().filter(|(_, ratio)| has_changed(ratio - usual, noise));
        changed.extend(named.map(|(name, ratio)| ChangedMember {
            name: (*name).clone(),
            direction: way,
            ratio: (ratio - usual).exp(),
        }));
    }
    sorted(changed)
}

/// By the thresholds of one fleet, either way.
fn has_changed(effect: f64, noise: f64) -> bool {
    differs(effect, HOST_RATIO, noise) || differs(-effect, HOST_RATIO, noise)
}

fn sorted(mut changed: Vec<ChangedMember>) -> Vec<ChangedMember> {
    changed.sort_by(|one, other| one.ratio.total_cmp(&other.ratio));
    changed
}

/// What of the members is not as it was.
fn properties(before: &FleetResult, after: &FleetResult, both: &[String]) -> Vec<String> {
    type Property = (&'static str, fn(&FleetMember) -> Option<String>);
    let all: [Property; 4] = [
        ("linerate", |member| Some(member.version.clone())),
        ("kernel", |member| member.machine.as_ref()?.kernel.release.known().cloned()),
        ("MTU", |member| mtu(member).map(|mtu| mtu.to_string())),
        ("CPUs", |member| Some(member.machine.as_ref()?.cpu.logical.len().to_string())),
    ];
    let of = |result: &'_ FleetResult, name: &String, property: fn(&FleetMember) -> Option<String>| {
        property(result.members.iter().find(|member| member.name == *name)?)
    };
    let mut sentences = Vec::new();
    for (what, property) in all {
        let changes = both.iter().filter_map(|name| {
            let (then, now) = (of(before, name, property)?, of(after, name, property)?);
            (then != now).then(|| format!("{name}: {what} {then}, now {now}"))
        });
        sentences.extend(changes);
    }
    sentences
}

fn sentence(ratio: Option<f64>, changed: &[ChangedMember], count: usize) -> String {
    let Some(ratio) = ratio else { return "the two fleets have no figure in common".into() };
    let all = format!("in the median of {count} figures the second does {ratio:.2} of the first");
    let Some(first) = changed.first() else {
        return format!("no host changed otherwise than the others: {all}");
    };
    let does = match first.direction {
        FleetDirection::Send => "sends",
        FleetDirection::Receive => "receives",
        FleetDirection::Read => "reads",
        FleetDirection::Write => "writes",
    };
    let mut others: Vec<&str> =
        changed.iter().map(|one| one.name.as_str()).filter(|name| *name != first.name).collect();
    others.sort_unstable();
    others.dedup();
    let more =
        if others.is_empty() { String::new() } else { format!("; changed as well: {}", others.join(", ")) };
    let how = if first.ratio > FASTER { "faster" } else { "slower" };
    format!(
        "{} {does} {how} than before, at {:.2} of what the others changed by{more}; {all}",
        first.name, first.ratio
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::product::{FleetCell, FleetDisk, FleetWindow, FlowFigures};
    use linerate_testing::Dice;

    fn fleet(hosts: usize, seed: u64, rate: impl Fn(usize, usize) -> f64) -> FleetResult {
        let mut dice = Dice::new(seed);
        let mut result = FleetResult { windows: vec![FleetWindow::default()], ..FleetResult::default() };
        for from in 0..hosts {
            let name = format!("h{from}");
            result.members.push(FleetMember {
                name: name.clone(),
                version: "1".into(),
                ..FleetMember::default()
            });
            for to in (0..hosts).filter(|to| *to != from) {
                let bytes_per_second = Some(rate(from, to) * (0.03 * dice.normal()).exp());
                let to = format!("h{to}");
                result.cells.push(FleetCell {
                    from: name.clone(),
                    to,
                    figures: FlowFigures { bytes_per_second, ..FlowFigures::default() },
                    ..FleetCell::default()
                });
            }
        }
        result
    }

    fn compared(before: &FleetResult, after: &FleetResult) -> FleetComparison {
        compare_fleets(("a", before), ("b", after)).expect("a comparison")
    }

    #[test]
    fn names_the_member_that_changed_and_not_the_one_that_was_slow_before() {
        for seed in 0..20 {
            // h1 sends slowly in both; h4 receives slowly since.
            let slow = |from: usize| if from == 1 { 40e6 } else { 100e6 };
            let before = fleet(6, seed, |from, _| slow(from));
            let after = fleet(6, seed + 100, |from, to| slow(from) * if to == 4 { 0.3 } else { 1.0 });
            let comparison = compared(&before, &after);
            let named: Vec<_> =
                comparison.changed.iter().map(|one| (one.name.as_str(), one.direction)).collect();
            assert_eq!(named, [("h4", FleetDirection::Receive)], "{comparison:?}");
            assert!(
                comparison.sentence.starts_with("h4 receives slower than before, at 0."),
                "{comparison:?}"
            );
            let back = compared(&after, &before);
            assert!(back.sentence.starts_with("h4 receives faster than before, at 3."), "{}", back.sentence);
            let same = compared(&before, &fleet(6, seed + 200, |from, _| slow(from)));
            assert!(same.sentence.starts_with("no host changed"), "{}", same.sentence);
        }
    }

    #[test]
    fn members_that_came_and_went_and_properties_are_named() {
        let before = fleet(5, 1, |_, _| 100e6);
        let mut after = fleet(5, 2, |_, _| 50e6);
        after.members[2].version = "2".into();
        after.members[4].name = "h9".into();
        after.cells.retain(|cell| cell.from != "h4" && cell.to != "h4");
        let comparison = compared(&before, &after);
        assert_eq!(
            (&comparison.only_before[..], &comparison.only_after[..]),
            (&["h4".into()][..], &["h9".into()][..])
        );
        assert_eq!(comparison.properties, ["h2: linerate 1, now 2"]);
        assert_eq!(comparison.cells.len(), 12);
        assert!((comparison.ratio.expect("a ratio") - 0.5).abs() < 0.05, "{comparison:?}");
    }

    #[test]
    fn disks_are_compared_and_patterns_are_not() {
        let of = |slow: f64| {
            let mut result = fleet(4, 1, |_, _| 1.0);
            result.cells.clear();
            for host in 0..4 {
                result.disks.push(FleetDisk {
                    member: format!("h{host}"),
                    source: "/data".into(),
                    bytes_per_second: Some(if host == 2 { slow } else { 100e6 }),
                    ..FleetDisk::default()
                });
            }
            result
        };
        let comparison = compared(&of(100e6), &of(20e6));
        assert!(
            comparison.sentence.starts_with("h2 reads slower than before, at 0.20"),
            "{}",
            comparison.sentence
        );
        let other = FleetResult { pattern: crate::FleetPattern::Incast, ..of(1.0) };
        let error = compare_fleets(("a", &of(1.0)), ("b", &other)).expect_err("patterns").to_string();
        assert!(error.contains("pairs and the other incast"), "{error}");
        let none = compare_fleets(("a", &of(1.0)), ("b", &FleetResult::default())).expect_err("no member");
        assert_eq!(none, FleetComparisonError::NoMember);
    }
}
