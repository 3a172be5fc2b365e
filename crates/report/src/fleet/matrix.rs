//! Who sends to whom, and what of that was predicted: a table of few members and the slowest flows of many on the terminal, a map
//! of all on the page, in which the colour says how far a cell is from the usual.

use crate::document::{Block, Media, Part, Table, TableRow, dim};
use crate::grid::{Column, name, number};
use crate::html::scrolling;
use crate::markup::{Anchor, Markup, Rect, at, group, html, rect, text as words};
use linerate_facts::units::show_bits_rate;
use linerate_measure::run::fleet::{FleetCell, FleetPattern, FleetResult};

/// More hosts than this are no table of a terminal.
const MOST_HOSTS_OF_A_TABLE: usize = 16;
const MAP: &str = "Rows send, columns receive; the colour is the rate by the median of all. Dashed: not measured. Pointing at a cell shows \
     its rate.";

/// Rates: a terminal has the table of few members, or the slowest flows of many; the page the map of all.
pub(super) fn rates(result: &FleetResult) -> Part<'_> {
    let small = result.members.len() <= MOST_HOSTS_OF_A_TABLE;
    let table = match result.pattern {
        FleetPattern::Storage | FleetPattern::Incast => None,
        _ if small => Some(rate_table(result)),
        FleetPattern::AllToAll => None,
        _ => Some(slowest(result)),
    };
    let beside = beside_words(result).map(|words| format!(" {words}")).unwrap_or_default();
    let map = scrolling("map of rates", rates_map(result));
    let blocks =
        vec![Block::On(Media::Terminal, table.into_iter().map(Block::Table).collect()), Block::Picture(map)];
    Part::new("matrix", "Who sends to whom", format!("{MAP}{beside}"), blocks)
}

/// The same by what was predicted; none where nothing was.
pub(super) fn predicted(result: &FleetResult) -> Option<Part<'_>> {
    let summary = prediction(result).filter(|_| !shares_links(result))?;
    let show = |ratio: f64| format!("{ratio:.2}");
    let map = scrolling("map of achieved by predicted", prediction_map(result));
    let mut blocks = vec![Block::Picture(map)];
    if result.members.len() <= MOST_HOSTS_OF_A_TABLE {
        let table = table(result, "of predicted:", |from, to| result.of_predicted(from, to).map(show));
        let summary = Block::Text(dim(&summary));
        let all = vec![Block::Space, summary, Block::Space, Block::Table(table)];
        blocks.push(Block::On(Media::Terminal, all));
    }
    let intro = format!("{summary}. Pale: as predicted.");
    Some(Part { id: "predicted", title: "Achieved by predicted", intro, blocks, ..Part::default() })
}

/// Rows send, columns receive, Mb/s or Gb/s.
fn rate_table(result: &FleetResult) -> Table<'_> {
    let rates = || result.cells.iter().filter_map(|cell| cell.figures.bytes_per_second);
    let giga = rates().fold(0.0, f64::max) >= 1.25e9;
    let show = |rate: f64| match giga {
        true => format!("{:.2}", linerate_facts::units::bits_per_second(rate) / 1e9),
        false => format!("{:.0}", linerate_facts::units::bits_per_second(rate) / 1e6),
    };
    let unit = if giga { "Gb/s, sends:" } else { "Mb/s, sends:" };
    table(result, unit, |from, to| result.rate(from, to).map(show))
}

/// From what the prediction follows, and how it agrees.
fn prediction(result: &FleetResult) -> Option<String> {
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

/// Flows of one window share links by the pattern itself: what is predicted of one is its fair share, and no rate.
fn shares_links(result: &FleetResult) -> bool {
    matches!(result.pattern, FleetPattern::AllToAll | FleetPattern::Incast | FleetPattern::Storage)
}

/// With which other flows those of the matrix ran, where that is not one pair each.
fn beside_words(result: &FleetResult) -> Option<&'static str> {
    match result.pattern {
        FleetPattern::Incast => Some("All others send to the host of a column."),
        FleetPattern::Storage => Some("All clients take at once."),
        FleetPattern::AllToAll => Some("All send to all at once."),
        _ => None,
    }
}

/// Rows send, columns receive; rows of slow members stand out.
fn table<'a>(
    result: &'a FleetResult,
    corner: &'a str,
    show: impl Fn(&str, &str) -> Option<String>,
) -> Table<'a> {
    let members = || result.members.iter().map(|member| member.name.as_str());
    let slow = |name: &str| result.verdict.members.iter().any(|member| member.name == name);
    let columns: Vec<Column<'_>> =
        std::iter::once(name(corner)).chain(members().map(|head| number(head, 0))).collect();
    let cell = |from: &str, to: &str| match from == to {
        true => "·".to_string(),
        false => show(from, to).unwrap_or_else(|| "–".into()),
    };
    let row = |from: &str| {
        TableRow::of(std::iter::once(from.to_string()).chain(members().map(|to| cell(from, to))))
            .marked(slow(from))
    };
    Table::new(columns, members().map(row))
}

/// Flows of a large fleet: the slowest.
fn slowest(result: &FleetResult) -> Table<'static> {
    let mut cells: Vec<(&FleetCell, f64)> =
        result.measured_cells().filter_map(|cell| Some((cell, cell.figures.bytes_per_second?))).collect();
    cells.sort_by(|one, other| one.1.total_cmp(&other.1));
    let row = |(cell, rate): &(&FleetCell, f64)| {
        let ratio = cell.of_predicted().map(|ratio| format!("{ratio:.2}"));
        TableRow::of([
            format!("{} to {}", cell.from, cell.to),
            show_bits_rate(*rate),
            ratio.unwrap_or_default(),
        ])
    };
    let columns = [name("the slowest flows"), number("", 0), number("of predicted", 0)];
    Table::new(columns, cells.iter().take(10).map(row))
}

/// Side of one cell of the heat map.
const CELL: f64 = 26.0;
/// Room for the names of hosts at its edges: of a letter, and at most.
const LETTER: f64 = 6.5;
const MOST_NAMES: f64 = 120.0;
/// Shades from red to green, at these shares of the median.
const SHADES: [(f64, &str); 6] =
    [(0.5, "s0"), (0.75, "s1"), (0.9, "s2"), (1.1, "s3"), (1.5, "s4"), (f64::INFINITY, "s5")];

/// Rates by the median of all.
fn rates_map(result: &FleetResult) -> Markup {
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
fn prediction_map(result: &FleetResult) -> Markup {
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
