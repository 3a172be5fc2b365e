//! The tiles of a wall between the members, on the terminal and on the page: what each flow takes, and what it has.

use super::table_of_page as table;
use crate::grid::{self, headed};
use crate::html::pieces;
use crate::markup::{Markup, html};
use crate::style::Style;
use linerate_facts::units::show_bits_rate;
use linerate_fleet::{FleetCell, FleetResult, FleetWallFlow};

const HEADS: [&str; 8] =
    ["server", "screens", "tiles", "take", "predicted", "have", "of what they take", "retransmits"];
/// Tiles that a row lists.
const MOST_TILES: usize = 4;

/// What was asked for, in a line.
pub(super) fn heading(result: &FleetResult) -> String {
    let Some(wall) = &result.wall else { return "wall".into() };
    format!(
        "wall of {} tiles of {} pixels over {} members, windows of {} s, TCP instead of RTP",
        wall.grid,
        wall.tile,
        result.members.len(),
        result.seconds
    )
}

fn flows(result: &FleetResult) -> &[FleetWallFlow] {
    result.wall.as_ref().map_or(&[], |wall| &wall.flows)
}

fn rows(result: &FleetResult) -> Vec<Vec<String>> {
    let row = |flow: &FleetWallFlow| {
        let cells = || result.measured_cells().filter(|cell| cell.from == flow.from && cell.to == flow.to);
        let predicted = cells().find_map(|cell| cell.predicted_bytes_per_second);
        let rate = result.rate(&flow.from, &flow.to);
        let ratio = rate.map(|rate| format!("{:.2}", rate / flow.wanted_bytes_per_second));
        let retransmits = |cell: &FleetCell| cell.figures.retransmits;
        let more = flow.tiles.len().saturating_sub(MOST_TILES);
        let tiles = flow.tiles[..flow.tiles.len() - more].join(" ");
        vec![
            flow.from.clone(),
            flow.to.clone(),
            if more > 0 { format!("{tiles} and {more} more") } else { tiles },
            show_bits_rate(flow.wanted_bytes_per_second),
            predicted.map(show_bits_rate).unwrap_or_default(),
            rate.map_or_else(|| "–".into(), show_bits_rate),
            ratio.unwrap_or_default(),
            cells().map(retransmits).sum::<u64>().to_string(),
        ]
    };
    flows(result).iter().map(row).collect()
}

pub(super) fn terminal(result: &FleetResult, style: Style, width: usize) -> Vec<String> {
    let flows = flows(result);
    let short = |row: usize| {
        let of =
            |short: &linerate_fleet::ShortFlow| short.from == flows[row].from && short.to == flows[row].to;
        result.verdict.wall.as_ref().is_some_and(|wall| wall.short.iter().any(of))
    };
    grid::styled(&headed(&HEADS, 3, false), &rows(result), width, style, short)
}

pub(super) fn page(result: &FleetResult) -> Markup {
    pieces::card(
        "wall",
        "The tiles",
        html! { p { "All servers send all tiles at the rate of the wall, as TCP that is paced: its headers are as large as those of the RTP that a wall sends. No pixels are made or shown." } },
        table(&HEADS, rows(result)),
    )
}
