//! The matrix on the page: rows send, columns receive, the colour says how far a cell is from the usual.

use super::shares_links;
use crate::markup::{Anchor, Markup, Rect, at, group, html, rect, text as words};
use linerate_facts::units::show_bits_rate;
use linerate_fleet::FleetResult;

/// Side of one cell of the heat map.
const CELL: f64 = 26.0;
/// Room for the names of hosts at its edges: of a letter, and at most.
const LETTER: f64 = 6.5;
const MOST_NAMES: f64 = 120.0;
/// Shades from red to green, at these shares of the median.
const SHADES: [(f64, &str); 6] =
    [(0.5, "s0"), (0.75, "s1"), (0.9, "s2"), (1.1, "s3"), (1.5, "s4"), (f64::INFINITY, "s5")];

/// Rates by the median of all.
pub(super) fn rates_map(result: &FleetResult) -> Markup {
    let mut rates: Vec<f64> =
        result.measured_cells().filter_map(|cell| cell.figures.bytes_per_second).collect();
    rates.sort_by(f64::total_cmp);
    let median = rates.get(rates.len() / 2).copied().unwrap_or(1.0);
    heat_map(result, "rates between the members", |from, to| {
        let rate = result.rate(from, to)?;
        let of = if shares_links(result) { "its fair share" } else { "predicted" };
        let ratio = result.of_predicted(from, to).map(|ratio| format!(", {ratio:.2} of {of}"));
        Some((rate / median, format!("{}{}", show_bits_rate(rate), ratio.unwrap_or_default())))
    })
}

/// Achieved by predicted.
pub(super) fn prediction_map(result: &FleetResult) -> Markup {
    heat_map(result, "achieved by predicted", |from, to| {
        let ratio = result.of_predicted(from, to)?;
        Some((ratio, format!("{ratio:.2} of predicted")))
    })
}

/// `look`: what a cell's colour follows, 1 for the usual, and its words; none: not measured.
fn heat_map(result: &FleetResult, label: &str, look: impl Fn(&str, &str) -> Option<(f64, String)>) -> Markup {
    let members: Vec<String> = result.members.iter().map(|member| member.name.clone()).collect();
    let letters = members.iter().map(|member| member.chars().count()).max().unwrap_or_default();
    let names = (18.0 + LETTER * letters as f64).min(MOST_NAMES);
    let size = names + CELL * members.len() as f64;
    let edge = |index: usize| names + CELL * index as f64;
    let class = |ratio: Option<f64>| match ratio {
        None => "none",
        Some(ratio) => SHADES.iter().find(|(most, _)| ratio < *most).map_or("s5", |(_, class)| class),
    };
    html! {
        svg class="heat" role="img" aria-label=(label) width=(at(size)) height=(at(size)) viewBox=(format!("0 0 {0} {0}", at(size))) {
            @for (row, from) in members.iter().enumerate() {
                (words("", names - 6.0, edge(row) + CELL * 0.65, Anchor::End, from))
                g transform=(format!("translate({} {}) rotate(-60)", at(edge(row) + CELL * 0.6), at(names - 6.0))) {
                    (words("", 0.0, 0.0, Anchor::Start, from))
                }
                @for (column, to) in members.iter().enumerate().filter(|(column, _)| *column != row) {
                    @let seen = look(from, to);
                    @let tip = format!("{} to {}: {}", from, to, seen.as_ref().map_or("not measured", |(_, words)| words));
                    @let area = Rect { x: edge(column) + 1.0, y: edge(row) + 1.0, width: CELL - 2.0, height: CELL - 2.0 };
                    (group(None, &tip, rect(class(seen.map(|(ratio, _)| ratio)), area, 3.0)))
                }
            }
        }
    }
}
