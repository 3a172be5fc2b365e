//! Who sends to whom on the terminal: a table of few members, the slowest flows of many.

use crate::grid::{self, Column, name, number};
use crate::style::Style;
use linerate_facts::printable::printable;
use linerate_facts::units::show_bits_rate;
use linerate_fleet::{FleetCell, FleetResult};

/// Rows send, columns receive, Mb/s or Gb/s.
pub(super) fn matrix(result: &FleetResult, style: Style, width: usize) -> Vec<String> {
    let rates = || result.cells.iter().filter_map(|cell| cell.figures.bytes_per_second);
    let giga = rates().fold(0.0, f64::max) >= 1.25e9;
    let show = |rate: f64| match giga {
        true => format!("{:.2}", linerate_facts::units::bits_per_second(rate) / 1e9),
        false => format!("{:.0}", linerate_facts::units::bits_per_second(rate) / 1e6),
    };
    let unit = if giga { "Gb/s, sends:" } else { "Mb/s, sends:" };
    table(result, style, width, unit, |from, to| result.rate(from, to).map(show))
}

/// The same by what was predicted; nothing where nothing was.
pub(super) fn of_predicted(result: &FleetResult, style: Style, width: usize) -> Vec<String> {
    let Some(summary) = prediction(result) else { return Vec::new() };
    let mut lines = vec![String::new(), style.dim(&printable(&summary)), String::new()];
    let show = |ratio: f64| format!("{ratio:.2}");
    let ratio = |from: &str, to: &str| result.of_predicted(from, to).map(show);
    lines.extend(table(result, style, width, "of predicted:", ratio));
    lines
}

/// From what the prediction follows, and how it agrees.
pub(super) fn prediction(result: &FleetResult) -> Option<String> {
    let mut ratios: Vec<f64> = result.measured_cells().filter_map(FleetCell::of_predicted).collect();
    ratios.sort_by(f64::total_cmp);
    let (least, most) = (*ratios.first()?, *ratios.last()?);
    let fabric = match result.fabric.len() {
        0 => "over a network that blocks nothing".into(),
        1 => "over the declared uplink".to_string(),
        racks => format!("over the {racks} declared uplinks"),
    };
    Some(format!(
        "achieved ÷ predicted: {:.2} in the median, {least:.2} to {most:.2}; predicted from each member alone, {fabric}",
        ratios[ratios.len() / 2]
    ))
}

/// Rows send, columns receive; rows of slow members stand out.
fn table(
    result: &FleetResult,
    style: Style,
    width: usize,
    corner: &str,
    show: impl Fn(&str, &str) -> Option<String>,
) -> Vec<String> {
    let heads: Vec<String> = result.members.iter().map(|member| member.name.clone()).collect();
    let slow = |name: &String| result.verdict.members.iter().any(|member| member.name == *name);
    let columns: Vec<Column<'_>> =
        std::iter::once(name(corner)).chain(heads.iter().map(|head| number(head, 0))).collect();
    let cell = |from: &str, to: &str| match from == to {
        true => "·".to_string(),
        false => show(from, to).unwrap_or_else(|| "–".into()),
    };
    let rows: Vec<Vec<String>> = heads
        .iter()
        .map(|from| std::iter::once(from.clone()).chain(heads.iter().map(|to| cell(from, to))).collect())
        .collect();
    grid::styled(&columns, &rows, width, style, |row| slow(&heads[row]))
}

/// Flows of a large fleet: the slowest.
pub(super) fn slowest(result: &FleetResult, style: Style, width: usize) -> Vec<String> {
    let mut cells: Vec<(&FleetCell, f64)> =
        result.measured_cells().filter_map(|cell| Some((cell, cell.figures.bytes_per_second?))).collect();
    cells.sort_by(|one, other| one.1.total_cmp(&other.1));
    let rows: Vec<Vec<String>> = cells
        .iter()
        .take(10)
        .map(|(cell, rate)| {
            let ratio = cell.of_predicted().map(|ratio| format!("{ratio:.2}"));
            vec![format!("{} to {}", cell.from, cell.to), show_bits_rate(*rate), ratio.unwrap_or_default()]
        })
        .collect();
    let columns = [name("the slowest flows"), number("", 0), number("of predicted", 0)];
    grid::styled(&columns, &rows, width, style, |_| false)
}
