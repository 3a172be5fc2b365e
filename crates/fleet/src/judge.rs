//! Which host or link differs: a pure function of the matrix.
//!
//! Rates are judged by their logarithms, so that half the rate is as far as double. First whether the hosts fall
//! into groups with slow links between them; then median polish: a row that is low is a host that sends badly, a
//! column one that receives badly, and what is left in one cell belongs to that pair.

use crate::matrix::{
    GROUP_RATIO, HOST_RATIO, LEAST_HOSTS, MatrixCell, PAIR_RATIO, SUPPORT, groups, pair_rates,
};
use crate::sentence::sentence;
use linerate_measure::run::fleet::{FleetDirection, FleetVerdict, SlowLink, SlowMember};
use linerate_model::alike::{MAD_TO_SIGMA, Polished, differs, median, polish};

/// Judges the rates between the hosts of these names.
pub fn judge(names: &[String], cells: &[MatrixCell]) -> FleetVerdict {
    let table = logarithms(pair_rates(names.len(), cells));
    let mut verdict = FleetVerdict::default();
    if names.len() >= LEAST_HOSTS {
        let polished = polish(&table);
        verdict.links = between_groups(names, cells, &table, unexplained(&polished));
        if verdict.links.is_empty() {
            let noise = noise(&polished);
            verdict.members = slow_members(names, &polished, noise);
            verdict.links = slow_pairs(names, cells, &polished, noise);
        }
    }
    verdict.sentence = sentence(names, cells, &verdict);
    verdict
}

fn logarithms(rates: Vec<Vec<Option<f64>>>) -> Vec<Vec<Option<f64>>> {
    rates.into_iter().map(|row| row.into_iter().map(|rate| rate.map(f64::ln)).collect()).collect()
}

/// How far one pair's rate is off by chance, as a logarithm: a standard deviation, from the median of what hosts do not
/// explain.
fn noise(polished: &Polished) -> f64 {
    let residuals = polished.residuals.iter().flatten().flatten();
    median(residuals.map(|cell| cell.abs())).unwrap_or(0.0) * MAD_TO_SIGMA
}

/// What hosts alone do not explain.
fn unexplained(polished: &Polished) -> f64 {
    let residuals = || polished.residuals.iter().flatten().flatten();
    residuals().map(|cell| cell.abs()).sum::<f64>() / residuals().count().max(1) as f64
}

fn slow_members(names: &[String], polished: &Polished, noise: f64) -> Vec<SlowMember> {
    let mut found = Vec::new();
    for (index, name) in names.iter().enumerate() {
        for direction in [FleetDirection::Send, FleetDirection::Receive] {
            let sends = direction == FleetDirection::Send;
            let effect = if sends { polished.rows[index] } else { polished.columns[index] };
            // A low median must not blame a host for pairs that are fast: count those that are slow by half the effect
            // or more.
            let cells: Vec<f64> = if sends {
                polished.residuals[index].iter().flatten().copied().collect()
            } else {
                polished.residuals.iter().filter_map(|row| row[index]).collect()
            };
            let pairs = cells.iter().filter(|rest| *rest + effect < effect / 2.0).count();
            let enough = pairs as f64 >= SUPPORT * cells.len() as f64;
            if differs(effect, HOST_RATIO, noise) && enough {
                let (ratio, pairs_measured) = (effect.exp(), cells.len());
                found.push(SlowMember {
                    name: name.clone(),
                    direction,
                    ratio,
                    pairs,
                    pairs_measured,
                    other_way: None,
                    sources: Vec::new(),
                    evidence: Vec::new(),
                });
            }
        }
    }
    found.sort_by(|one, other| one.ratio.total_cmp(&other.ratio));
    found
}

fn slow_pairs(names: &[String], cells: &[MatrixCell], polished: &Polished, noise: f64) -> Vec<SlowLink> {
    let mut found = Vec::new();
    for (from, row) in polished.residuals.iter().enumerate() {
        for (to, rest) in row.iter().enumerate() {
            let Some(rest) = rest.filter(|rest| differs(*rest, PAIR_RATIO, noise)) else { continue };
            let rates = cells.iter().filter(|cell| (cell.from, cell.to) == (from, to));
            found.push(SlowLink {
                from: vec![names[from].clone()],
                to: vec![names[to].clone()],
                ratio: rest.exp(),
                pairs: 1,
                pairs_measured: 1,
                bytes_per_second: rates.map(|cell| cell.carried_bytes_per_second).fold(0.0, f64::max),
            });
        }
    }
    found.sort_by(|one, other| one.ratio.total_cmp(&other.ratio));
    found
}

/// Links between groups of hosts, if the hosts fall into groups.
fn between_groups(
    names: &[String],
    cells: &[MatrixCell],
    table: &[Vec<Option<f64>>],
    unexplained: f64,
) -> Vec<SlowLink> {
    let Some(group_of) = groups(table, cells, unexplained) else { return Vec::new() };
    let count = group_of.iter().max().map_or(0, |last| last + 1);
    let within = table.iter().enumerate().flat_map(|(from, row)| {
        let group_of = &group_of;
        row.iter().enumerate().filter_map(move |(to, cell)| cell.filter(|_| group_of[from] == group_of[to]))
    });
    let Some(usual) = median(within) else { return Vec::new() };
    let windows = cells.iter().map(|cell| cell.window).max().map_or(0, |last| last + 1);
    let mut found = Vec::new();
    for from in 0..count {
        for to in (0..count).filter(|to| *to != from) {
            let across = |cell: &&MatrixCell| group_of[cell.from] == from && group_of[cell.to] == to;
            let rows = table.iter().zip(&group_of).filter(|(_, group)| **group == from);
            let cells_of = rows.flat_map(|(row, _)| row.iter().zip(&group_of));
            let of_pair = cells_of.filter(|(_, group)| **group == to);
            let rates: Vec<f64> = of_pair.filter_map(|(cell, _)| *cell).collect();
            let Some(middle) = median(rates.iter().copied()) else { continue };
            let effect = middle - usual;
            if effect >= GROUP_RATIO.ln() {
                continue;
            }
            let mut sums = vec![0.0; windows];
            cells.iter().filter(across).for_each(|cell| sums[cell.window] += cell.carried_bytes_per_second);
            let of = |group: usize| {
                let own = names.iter().zip(&group_of).filter(|(_, own)| **own == group);
                own.map(|(name, _)| name.clone()).collect()
            };
            found.push(SlowLink {
                from: of(from),
                to: of(to),
                ratio: effect.exp(),
                pairs: rates.iter().filter(|rate| **rate < usual + effect / 2.0).count(),
                pairs_measured: rates.len(),
                bytes_per_second: sums.into_iter().fold(0.0, f64::max),
            });
        }
    }
    found
}

#[cfg(test)]
mod tests;
