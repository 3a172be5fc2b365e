//! The matrix of rates between hosts, and by how much they may differ; and whether hosts fall into groups
//! with one shared link between them, such as racks with an uplink: then what a flow
//! between groups gets depends on how many others cross in the same window, which no table of pairs shows.

use linerate_model::alike::median;

/// Fewer hosts cannot tell a host from a link: each has one or two cells in a row.
pub(crate) const LEAST_HOSTS: usize = 4;
/// A host below this of the others differs, however steady the figures are.
pub(crate) const HOST_RATIO: f64 = 0.85;
/// The same for one pair, which is one cell alone.
pub(crate) const PAIR_RATIO: f64 = 0.75;
/// Of a host's pairs at least this share shows what the host is blamed for.
pub(crate) const SUPPORT: f64 = 0.7;

/// A pair below this of what the fastest do is slow.
pub(crate) const GROUP_RATIO: f64 = 0.8;
/// Groups must explain the rates this much better than hosts do.
const BETTER: f64 = 0.5;
/// Rates that hosts explain this well need no groups (the mean of the residuals of logarithms).
const EXPLAINED: f64 = 0.1;
/// What groups leave unexplained is at most this.
const LEFT: f64 = 0.25;
/// Where the search begins: hosts with those to which they are fast.
const MOST_STARTS: usize = 8;
/// Hosts settle in their groups within two or three.
const MOST_MOVES: usize = 8;

/// One measured flow of a matrix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MatrixCell {
    pub from: usize,
    pub to: usize,
    pub window: usize,
    /// What the declared fabric takes from it is not held against it.
    pub bytes_per_second: f64,
    /// As it was measured.
    pub carried_bytes_per_second: f64,
}

/// The median of each pair's windows.
pub(crate) fn pair_rates(size: usize, cells: &[MatrixCell]) -> Vec<Vec<Option<f64>>> {
    let of = |from: usize, to: usize| {
        let rates = cells.iter().filter(|cell| (cell.from, cell.to) == (from, to));
        median(rates.map(|cell| cell.bytes_per_second).filter(|rate| *rate > 0.0))
    };
    (0..size).map(|from| (0..size).map(|to| of(from, to)).collect()).collect()
}

/// Hosts in groups, and how well that explains the rates.
struct Grouping {
    group_of: Vec<usize>,
    unexplained: f64,
}

/// The group of each host, where groups of two hosts at least explain the rates and hosts alone do not:
/// `unexplained` is what median polish leaves.
pub(crate) fn groups(
    table: &[Vec<Option<f64>>],
    cells: &[MatrixCell],
    unexplained: f64,
) -> Option<Vec<usize>> {
    let size = table.len();
    let mut rates: Vec<f64> = table.iter().flatten().flatten().copied().collect();
    rates.sort_by(f64::total_cmp);
    // What hosts do that nothing slows, in a table that may be slow in most of its cells.
    let fast = *rates.get(rates.len().checked_sub(rates.len() / 8 + 1)?)?;
    if unexplained < EXPLAINED {
        return None;
    }
    let is_slow = |one: usize, other: usize| {
        let slow = |rate: Option<f64>| rate.is_some_and(|rate| rate < fast + GROUP_RATIO.ln());
        slow(table[one][other]) || slow(table[other][one])
    };
    let starts = (0..size.min(MOST_STARTS)).map(|start| {
        (0..size).map(|host| usize::from(host != start && is_slow(start, host))).collect::<Vec<usize>>()
    });
    let several = by_fewest_slow_pairs(size, is_slow);
    let best = starts
        .chain([several])
        .map(|start| settled(start, cells, fast))
        .min_by(|one, other| one.unexplained.total_cmp(&other.unexplained))?;
    // In the order of their first hosts.
    let mut numbers: Vec<usize> = Vec::new();
    for group in &best.group_of {
        if !numbers.contains(group) {
            numbers.push(*group);
        }
    }
    let large = |number: &usize| best.group_of.iter().filter(|group| *group == number).count() >= 2;
    let explains = best.unexplained < LEFT && best.unexplained < BETTER * unexplained;
    if numbers.len() < 2 || !numbers.iter().all(large) || !explains {
        return None;
    }
    best.group_of.iter().map(|group| numbers.iter().position(|number| number == group)).collect()
}

/// Each host goes where it has the fewest slow pairs: also where there are more than two groups.
fn by_fewest_slow_pairs(size: usize, is_slow: impl Fn(usize, usize) -> bool) -> Vec<usize> {
    let mut group_of: Vec<usize> = Vec::new();
    for host in 0..size {
        let groups = group_of.iter().max().map_or(0, |last| last + 1);
        let share = |group: usize| {
            let members: Vec<usize> = (0..host).filter(|other| group_of[*other] == group).collect();
            members.iter().filter(|other| is_slow(host, **other)).count() as f64 / members.len().max(1) as f64
        };
        let best =
            (0..groups).map(|group| (group, share(group))).min_by(|one, other| one.1.total_cmp(&other.1));
        group_of.push(best.filter(|(_, share)| *share < 0.5).map_or(groups, |(group, _)| group));
    }
    group_of
}

/// Moves one host after another to where it explains more, until nobody moves.
fn settled(start: Vec<usize>, cells: &[MatrixCell], fast: f64) -> Grouping {
    let groups = start.iter().max().map_or(1, |last| last + 1);
    let mut best = Grouping { unexplained: unexplained(&start, groups, cells, fast), group_of: start };
    for _ in 0..MOST_MOVES {
        let mut moved = false;
        for host in 0..best.group_of.len() {
            for group in 0..groups {
                let mut group_of = best.group_of.clone();
                if std::mem::replace(&mut group_of[host], group) == group {
                    continue;
                }
                let left = unexplained(&group_of, groups, cells, fast);
                if left + 1e-9 < best.unexplained {
                    best = Grouping { group_of, unexplained: left };
                    moved = true;
                }
            }
        }
        if !moved {
            break;
        }
    }
    best
}

/// The mean distance of logarithms where each flow within a group is fast, and those that leave or enter a group
/// in one window share a link that carries the same in every window.
fn unexplained(group_of: &[usize], groups: usize, cells: &[MatrixCell], fast: f64) -> f64 {
    let windows = cells.iter().map(|cell| cell.window).max().map_or(0, |last| last + 1);
    let mut leaving = vec![0_u32; windows * groups];
    let mut entering = vec![0_u32; windows * groups];
    let crosses = |cell: &MatrixCell| group_of[cell.from] != group_of[cell.to];
    for cell in cells.iter().filter(|cell| crosses(cell)) {
        leaving[cell.window * groups + group_of[cell.from]] += 1;
        entering[cell.window * groups + group_of[cell.to]] += 1;
    }
    let sharing = |cell: &MatrixCell| {
        let out = leaving[cell.window * groups + group_of[cell.from]];
        f64::from(out.max(entering[cell.window * groups + group_of[cell.to]]))
    };
    let measured = || cells.iter().filter(|cell| cell.bytes_per_second > 0.0);
    // A flow that crosses alone may be limited by its hosts: those that share say what the link carries.
    let shared = measured().filter(|cell| crosses(cell) && sharing(cell) > 1.0);
    let link = median(shared.map(|cell| (cell.bytes_per_second * sharing(cell)).ln()));
    let distance = |cell: &MatrixCell| {
        let expected = match link {
            Some(link) if crosses(cell) => fast.min(link - sharing(cell).ln()),
            _ => fast,
        };
        (cell.bytes_per_second.ln() - expected).abs()
    };
    measured().map(distance).sum::<f64>() / measured().count().max(1) as f64
}
