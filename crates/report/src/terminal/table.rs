//! The table of stages: columns as wide as their content, and the rest of the line for what is to be known.

use super::{Detail, cost, percent};
use crate::grid::{Column, name, notes, number, styled, text};
use crate::stages::{DeviceRow, Entry, Group, grouped, rows};
use crate::style::Style;
use crate::verdict::verdict;
use linerate_facts::printable::{printable, shortened, wrapped};
use linerate_facts::wording::counted;
use linerate_measure::measure::Stage;
use linerate_measure::run::Run;
use std::collections::BTreeSet;

/// From this width on there is room for how the bytes were moved.
const METHOD_FROM_COLUMNS: usize = 100;

const COLUMNS: [Column; 8] = [
    text("stage", 0),
    name(""),
    number("rated", 0),
    number("effective", 3),
    number("measured", 0),
    number("spread", 2),
    number("CPU s/GB", 1),
    notes("notes"),
];

/// Columns of [`COLUMNS`].
const RATED: usize = 2;
const EFFECTIVE: usize = 3;

/// A column in which nothing is known is left out.
fn hide_unknown(rows: &mut [Vec<String>], column: usize) {
    let unknown = |row: &Vec<String>| matches!(row[column].as_str(), "unknown" | "–" | "");
    if rows.iter().all(unknown) {
        rows.iter_mut().for_each(|row| row[column].clear());
    }
}

/// Head and rows; devices alike are put together until at most so many rows are left.
pub(super) fn lines(run: &Run, width: usize, detail: Detail, style: Style) -> Vec<String> {
    let most = detail.rows;
    let wide = style.table(width) >= METHOD_FROM_COLUMNS;
    if run.measurements.is_empty() {
        return vec![style.dim("nothing was measured")];
    }
    let rows = rows(run);
    let cut = verdict(run).cut;
    let mut entries = grouped(&rows, 8);
    for limit in (1..8).rev() {
        if entries.len() <= most {
            break;
        }
        entries = grouped(&rows, limit);
    }
    let mut lines: Vec<Vec<String>> = Vec::new();
    let mut last: Option<Stage> = None;
    for entry in &entries {
        let (stage, mut cells) = match entry {
            Entry::One(row) => (row.measurement.stage, of_row(row, wide, style.is_screen())),
            Entry::Many(group) => (group.rows[0].measurement.stage, of_group(group, wide)),
        };
        if last != Some(stage) {
            cells[0] = stage.to_string();
            last = Some(stage);
        }
        lines.push(cells.to_vec());
    }
    let is_cut = |row: usize| match &entries[row] {
        Entry::One(row) => cut.contains(&row.measurement.resource),
        Entry::Many(group) => group.rows.iter().any(|row| cut.contains(&row.measurement.resource)),
    };
    // Rows of measurements that nobody planned for (hundreds of names) are cut, and said.
    let left = lines.len().saturating_sub(most.saturating_add(6));
    lines.truncate(most.saturating_add(6));
    for column in RATED..=EFFECTIVE {
        hide_unknown(&mut lines, column);
    }
    let mut shown = styled(&COLUMNS, &lines, width, style, is_cut);
    if left > 0 {
        shown.push(
            style.dim(&format!("and {}, in report.html and run.json", counted(left, "more measurement"))),
        );
    }
    if detail.notes {
        shown.extend(slowest(&entries, width).iter().map(|line| style.dim(line)));
    }
    let room = style.table(width);
    if room < METHOD_FROM_COLUMNS {
        shown.extend(remarks(&rows, room).iter().map(|line| style.dim(line)));
    }
    shown.extend(bounds(&rows, room).iter().map(|line| style.dim(line)));
    shown
}

/// The slowest device of each stage that was put together: `slowest of 64 disks: nvme17n1 with 1.62 GB/s`.
fn slowest(entries: &[Entry], width: usize) -> Vec<String> {
    let mut stages = BTreeSet::new();
    let groups = entries.iter().filter_map(|entry| match entry {
        Entry::Many(group) => Some(group),
        Entry::One(_) => None,
    });
    let first_of_stage = groups.filter(|group| stages.insert(group.rows[0].measurement.stage));
    let text: Vec<String> =
        first_of_stage.map(|group| format!("of {}, {}", group.name(), group.slowest_text())).collect();
    wrapped(&text.join("; "), width).into_iter().take(2).collect()
}

/// What is to be known where the table has no room to say it: a line for each remark, with the names of its
/// rows.
fn remarks(rows: &[DeviceRow], width: usize) -> Vec<String> {
    let all: Vec<String> = rows.iter().map(DeviceRow::remarks).collect();
    let distinct: BTreeSet<&String> = all.iter().filter(|remark| !remark.is_empty()).collect();
    let line = |remark: &&String| {
        let names = rows.iter().zip(&all).filter(|(_, other)| other == remark).map(|(row, _)| row.name());
        shortened(&format!("{remark}: {}", names.collect::<Vec<_>>().join(", ")), width)
    };
    distinct.iter().take(4).map(line).collect()
}

/// What held the stages whose figures are only lower bounds, a line for each cause.
fn bounds(rows: &[DeviceRow], width: usize) -> Vec<String> {
    let causes: BTreeSet<&str> = rows.iter().filter_map(DeviceRow::held).collect();
    let line = |cause: &&str| {
        let held: Vec<String> =
            rows.iter().filter(|row| row.held() == Some(cause)).map(DeviceRow::name).collect();
        shortened(&format!("≥ at least this, {cause}: {}", held.join(", ")), width)
    };
    causes.iter().map(line).collect()
}

fn of_row(row: &DeviceRow, wide: bool, screen: bool) -> [String; 8] {
    let measurement = row.measurement;
    // Why to distrust a figure comes before how it was made; a fragment of both tells neither.
    let note = match row.remarks() {
        _ if !wide => String::new(),
        remarks if remarks.is_empty() => printable(&measurement.method),
        remarks if !screen => format!("{remarks}; {}", printable(&measurement.method)),
        remarks => remarks,
    };
    let rated = if measurement.stage == Stage::Path { "–".into() } else { row.rated.show(row.unit) };
    let name = row.name();
    let name = name
        .strip_suffix(" alone")
        .unwrap_or(&name)
        .replace(" with file", if wide { " + file" } else { "+file" });
    let spread = if measurement.samples.len() > 1 { percent(measurement.spread) } else { "–".into() };
    [
        String::new(),
        name,
        rated,
        row.effective.show(row.unit),
        row.measured.show(row.unit),
        spread,
        cost(measurement.cpu_seconds_per_gb),
        note,
    ]
}

fn of_group(group: &Group, wide: bool) -> [String; 8] {
    let most = if wide { "≤ " } else { "" };
    let parts = [group.remarks(), "each alone".into()];
    let note = parts.into_iter().filter(|part| wide && !part.is_empty());
    [
        String::new(),
        if wide { group.name() } else { group.name().replace(" + file", "+file") },
        group.range(|row| &row.rated),
        group.range(|row| &row.effective),
        group.range(|row| &row.measured),
        format!("{most}{}", percent(group.largest(|m| m.spread))),
        format!("{most}{}", cost(group.largest(|m| m.cpu_seconds_per_gb))),
        note.collect::<Vec<_>>().join("; "),
    ]
}
