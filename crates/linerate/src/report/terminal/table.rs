//! The table of stages: columns as wide as their content, and the rest of the line for what is to be known.

use super::style::Style;
use super::{cost, percent};
use crate::measure::Stage;
use crate::report::printable::{columns, printable, shortened, wrapped};
use crate::report::stages::{Entry, Group, Row, grouped, rows};
use crate::report::verdict::verdict;
use crate::run::Run;
use std::collections::BTreeSet;

const HEADS: [&str; 8] = ["stage", "", "rated", "effective", "measured", "spread", "CPU s/GB", "to know"];

/// Columns with text are left-aligned, numbers right-aligned.
const LEFT: [bool; 8] = [true, true, false, false, false, false, false, true];

/// The name column gives way first where the screen is narrow, but not below this.
const LEAST_NAME_COLUMNS: usize = 14;

/// The last column is shown where at least this much is left for it.
const LEAST_NOTE_COLUMNS: usize = 7;

/// From this width on there is room for how the bytes were moved.
const METHOD_FROM_COLUMNS: usize = 100;

struct Line {
    cells: [String; 8],
    cut: bool,
}

/// Head and rows; devices alike are put together until at most `most` rows are left.
pub(super) fn lines(run: &Run, width: usize, most: usize, style: Style) -> Vec<String> {
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
    let mut lines: Vec<Line> = Vec::new();
    let mut last: Option<Stage> = None;
    for entry in &entries {
        let (stage, mut line) = match entry {
            Entry::One(row) => (row.measurement.stage, of_row(row, width)),
            Entry::Many(group) => (group.rows[0].measurement.stage, of_group(group, width)),
        };
        if last != Some(stage) {
            line.cells[0] = stage.to_string();
            last = Some(stage);
        }
        line.cut = match entry {
            Entry::One(row) => cut.contains(&row.measurement.resource),
            Entry::Many(group) => group.rows.iter().any(|row| cut.contains(&row.measurement.resource)),
        };
        lines.push(line);
    }
    // Rows of measurements that nobody planned for (hundreds of names) are cut, and said.
    let left = lines.len().saturating_sub(most + 6);
    lines.truncate(most + 6);
    let mut shown = laid_out(&lines, width, style);
    if left > 0 {
        shown.push(style.dim(&format!("and {left} more measurements, in report.html and run.json")));
    }
    shown.extend(slowest(&entries, width).iter().map(|line| style.dim(line)));
    if width < METHOD_FROM_COLUMNS {
        shown.extend(remarks(&rows, width).iter().map(|line| style.dim(line)));
    }
    shown.extend(bounds(&rows, width).iter().map(|line| style.dim(line)));
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

/// What is to be known where the table has no room to say it: a line for each remark, with the names of its rows.
fn remarks(rows: &[Row], width: usize) -> Vec<String> {
    let all: Vec<String> = rows.iter().map(Row::remarks).collect();
    let distinct: BTreeSet<&String> = all.iter().filter(|remark| !remark.is_empty()).collect();
    let line = |remark: &&String| {
        let names = rows.iter().zip(&all).filter(|(_, other)| other == remark).map(|(row, _)| row.name());
        shortened(&format!("{remark}: {}", names.collect::<Vec<_>>().join(", ")), width)
    };
    distinct.iter().take(4).map(line).collect()
}

/// What held the stages whose figures are only lower bounds, a line for each cause.
fn bounds(rows: &[Row], width: usize) -> Vec<String> {
    let causes: BTreeSet<&str> = rows.iter().filter_map(Row::held).collect();
    let line = |cause: &&str| {
        let held: Vec<String> = rows.iter().filter(|row| row.held() == Some(cause)).map(Row::name).collect();
        shortened(&format!("≥ at least this, {cause}: {}", held.join(", ")), width)
    };
    causes.iter().map(line).collect()
}

fn of_row(row: &Row, width: usize) -> Line {
    let measurement = row.measurement;
    let wide = width >= METHOD_FROM_COLUMNS;
    // Why to distrust a figure comes before how it was made; a fragment of both tells neither.
    let note = match row.remarks() {
        _ if !wide => String::new(),
        remarks if remarks.is_empty() => printable(&measurement.method),
        remarks => remarks,
    };
    let rated = if measurement.stage == Stage::Path { "–".into() } else { row.rated.show(row.unit) };
    let name = row.name();
    let name = name
        .strip_suffix(" alone")
        .unwrap_or(&name)
        .replace(" with file", if wide { " + file" } else { "+file" });
    let spread = if measurement.samples.len() > 1 { percent(measurement.spread) } else { "–".into() };
    let cells = [
        String::new(),
        name,
        rated,
        row.effective.show(row.unit),
        row.measured.show(row.unit),
        spread,
        cost(measurement.cpu_seconds_per_gb),
        note,
    ];
    Line { cells, cut: false }
}

fn of_group(group: &Group, width: usize) -> Line {
    let wide = width >= METHOD_FROM_COLUMNS;
    let most = if wide { "≤ " } else { "" };
    let parts = [group.remarks(), "each alone".into()];
    let note = parts.into_iter().filter(|part| wide && !part.is_empty());
    let cells = [
        String::new(),
        if wide { group.name() } else { group.name().replace(" + file", "+file") },
        group.range(|row| &row.rated),
        group.range(|row| &row.effective),
        group.range(|row| &row.measured),
        format!("{most}{}", percent(group.largest(|m| m.spread))),
        format!("{most}{}", cost(group.largest(|m| m.cpu_seconds_per_gb))),
        note.collect::<Vec<_>>().join("; "),
    ];
    Line { cells, cut: false }
}

fn laid_out(lines: &[Line], width: usize, style: Style) -> Vec<String> {
    let mut heads = HEADS;
    if width < METHOD_FROM_COLUMNS {
        heads[6] = "CPU/GB";
    }
    let mut widths: [usize; 8] = heads.map(columns);
    for line in lines {
        for (wide, cell) in widths.iter_mut().zip(&line.cells) {
            *wide = (*wide).max(columns(cell));
        }
    }
    let gap = if width < 90 { 1 } else { 2 };
    let numbers: usize = widths[2..7].iter().map(|wide| wide + gap).sum::<usize>() + widths[0] + gap;
    let noted = lines.iter().any(|line| !line.cells[7].is_empty());
    let wished = if noted { widths[7].min(if width < METHOD_FROM_COLUMNS { 12 } else { 24 }) } else { 0 };
    let name_room = width.saturating_sub(numbers + gap + wished).max(LEAST_NAME_COLUMNS);
    let note_room = width.saturating_sub(numbers + widths[1].min(name_room) + gap);
    widths[7] = if noted && note_room >= LEAST_NOTE_COLUMNS { note_room } else { 0 };
    // Without notes, the names have all the room.
    let name_room =
        if widths[7] == 0 { width.saturating_sub(numbers).max(LEAST_NAME_COLUMNS) } else { name_room };
    widths[1] = widths[1].min(name_room);
    let head = row_text(&heads.map(String::from), &widths, gap, width);
    let mut shown = vec![style.dim(&head)];
    for line in lines {
        let text = row_text(&line.cells, &widths, gap, width);
        shown.push(if line.cut { style.cut(&text) } else { text });
    }
    shown
}

fn row_text(cells: &[String; 8], widths: &[usize; 8], gap: usize, width: usize) -> String {
    let mut text = String::new();
    for ((cell, wide), left) in cells.iter().zip(widths).zip(LEFT) {
        let cell = shortened(cell, *wide);
        let padding = " ".repeat(wide.saturating_sub(columns(&cell)));
        let last = if left { cell + &padding } else { padding + &cell };
        text += &last;
        text += &" ".repeat(gap);
    }
    shortened(text.trim_end(), width)
}
