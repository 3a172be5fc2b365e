//! Two fleets beside each other, as a screen and as a page.

use super::STYLE;
use super::heat_map::heat_map_of;
use super::matrix::table_of;
use crate::folder::Product;
use crate::grid::{self, name, number, text};
use crate::html::{document, pieces};
use crate::json;
use crate::markup::{Markup, html};
use crate::style::Style;
use linerate_facts::failure::Failure;
use linerate_facts::printable::printable;
use linerate_facts::units::{show_bits_rate, show_bytes_rate};
use linerate_fleet::{FleetComparison, FleetDirection, FleetResult};
use serde::Serialize;
use std::path::Path;

/// Flows that are listed one by one.
const MOST_FLOWS: usize = 10;
/// More hosts than this are no table of a terminal.
const MOST_HOSTS_OF_A_TABLE: usize = 16;

/// What `linerate fleet` left in a file or a folder; none where it is a run of one host.
pub fn read(path: &Path) -> Result<Option<FleetResult>, Failure> {
    json::read_fleet(path)
}

/// A comparison as it is saved.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct ComparedFleets<'a>(pub &'a FleetComparison);

impl Product for ComparedFleets<'_> {
    const FILE: &'static str = "compare.json";

    fn started(&self) -> &str {
        &self.0.before.started
    }

    fn page(&self) -> String {
        page(self.0)
    }
}

/// Members of both, in the order of the first.
fn names(comparison: &FleetComparison) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in comparison.cells.iter().flat_map(|cell| [&cell.from, &cell.to]) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

fn ratio(comparison: &FleetComparison, from: &str, to: &str) -> Option<f64> {
    comparison.cells.iter().find(|cell| cell.from == from && cell.to == to).map(|cell| cell.ratio)
}

/// One screen; ends with a newline.
pub fn terminal(comparison: &FleetComparison, width: usize, colour: bool) -> String {
    let style = Style::of(width, colour);
    let FleetComparison { before, after, .. } = comparison;
    let mut lines = vec![style.bold(&printable(&comparison.sentence)), String::new()];
    for (which, side) in [("first", before), ("second", after)] {
        let words =
            format!("{which}: {}, {}, {} members, {}", side.file, side.pattern, side.members, side.started);
        lines.push(style.dim(&printable(&words)));
    }
    lines.extend(unlike(comparison).iter().map(|line| printable(line)));
    let names = names(comparison);
    if !names.is_empty() {
        lines.push(String::new());
    }
    if !names.is_empty() && names.len() <= MOST_HOSTS_OF_A_TABLE {
        let show = |from: &str, to: &str| ratio(comparison, from, to).map(|ratio| format!("{ratio:.2}"));
        let slow = |name: &String| comparison.changed.iter().any(|one| one.name == *name);
        lines.extend(table_of(&names, style, width, "now ÷ before:", show, slow));
    } else if !names.is_empty() {
        lines.extend(most_changed(comparison, style, width));
    }
    if !comparison.disks.is_empty() {
        lines.push(String::new());
        let columns = [
            name("host"),
            text("source", 0),
            text("", 0),
            number("before", 0),
            number("now", 0),
            number("ratio", 0),
        ];
        lines.extend(grid::styled(&columns, &disk_rows(comparison), width, style, |_| false));
    }
    lines.join("\n") + "\n"
}

/// What is not the same of the members.
fn unlike(comparison: &FleetComparison) -> Vec<String> {
    let mut lines = comparison.properties.clone();
    for (which, names) in [("first", &comparison.only_before), ("second", &comparison.only_after)] {
        if !names.is_empty() {
            lines.push(format!("only in the {which}: {}", names.join(", ")));
        }
    }
    lines
}

fn most_changed(comparison: &FleetComparison, style: Style, width: usize) -> Vec<String> {
    let mut cells: Vec<_> = comparison.cells.iter().collect();
    cells.sort_by(|one, other| one.ratio.total_cmp(&other.ratio));
    let rows: Vec<Vec<String>> = cells
        .iter()
        .take(MOST_FLOWS)
        .map(|cell| {
            vec![
                format!("{} to {}", cell.from, cell.to),
                show_bits_rate(cell.before_bytes_per_second),
                show_bits_rate(cell.after_bytes_per_second),
                format!("{:.2}", cell.ratio),
            ]
        })
        .collect();
    let columns =
        [name("the flows that lost most"), number("before", 0), number("now", 0), number("ratio", 0)];
    grid::styled(&columns, &rows, width, style, |_| false)
}

fn disk_rows(comparison: &FleetComparison) -> Vec<Vec<String>> {
    let row = |disk: &linerate_fleet::DiskChange| {
        let writes = disk.direction == linerate_fleet::DiskDirection::Write;
        vec![
            disk.member.clone(),
            disk.source.clone(),
            if writes { "write" } else { "read" }.into(),
            show_bytes_rate(disk.before_bytes_per_second),
            show_bytes_rate(disk.after_bytes_per_second),
            format!("{:.2}", disk.ratio),
        ]
    };
    comparison.disks.iter().map(row).collect()
}

fn page(comparison: &FleetComparison) -> String {
    let FleetComparison { before, after, .. } = comparison;
    let unlike = unlike(comparison);
    let body = html! {
        header {
            p class="kicker" { span { (before.pattern) } span { (before.started) } span { (after.started) } }
            p class="subject" { (before.members) " and " (after.members) " members" }
            h1 class="long" { (pieces::kept_together(&comparison.sentence)) }
        }
        main {
            @if !unlike.is_empty() {
                (pieces::card("unlike", "What else changed", html! {}, html! { ul { @for one in &unlike { li { (one) } } } }))
            }
            @if !comparison.cells.is_empty() {
                (pieces::card("matrix", "Now by before", html! { p { "Rows send, columns receive. Pale: as before." } }, pieces::scrolling("map of now by before", map(comparison))))
            }
            @if !comparison.disks.is_empty() {
                (pieces::card("disks", "The sources", html! {}, disks(comparison)))
            }
            (pieces::card("changed", "Members that changed otherwise than the others", html! {}, changed(comparison)))
        }
    };
    document("two fleets – linerate", STYLE, body)
}

fn map(comparison: &FleetComparison) -> Markup {
    heat_map_of(&names(comparison), "now by before", |from, to| {
        let cell = comparison.cells.iter().find(|cell| cell.from == from && cell.to == to)?;
        let (then, now) = (cell.before_bytes_per_second, cell.after_bytes_per_second);
        Some((
            cell.ratio,
            format!("{}, before {}: {:.2}", show_bits_rate(now), show_bits_rate(then), cell.ratio),
        ))
    })
}

fn disks(comparison: &FleetComparison) -> Markup {
    let head = html! { th { "host" } th { "source" } th {} th { "before" } th { "now" } th { "ratio" } };
    let rows = disk_rows(comparison);
    pieces::table("", head, html! { @for row in &rows { tr { @for cell in row { td { (cell) } } } } })
}

fn changed(comparison: &FleetComparison) -> Markup {
    if comparison.changed.is_empty() {
        return html! { p { "none" } };
    }
    let word = |direction: FleetDirection| match direction {
        FleetDirection::Send => "sends",
        FleetDirection::Receive => "receives",
        FleetDirection::Read => "reads",
        FleetDirection::Write => "writes",
    };
    let head = html! { th { "member" } th {} th { "now by before, less what all changed by" } };
    let rows = html! {
        @for one in &comparison.changed {
            tr { td { (one.name) } td { (word(one.direction)) } td { (format!("{:.2}", one.ratio)) } }
        }
    };
    pieces::table("", head, rows)
}
