//! The table of stages: every measurement beside what its part is rated for, many alike devices as one row. On a terminal the
//! rest of the line is for what is to be known; the page has the samples as dots, and rows that open.

use super::{DeviceRow, Entry, Group, grouped, rows};
use crate::document::{Block, Cell, Media, Part, Table, TableRow, dim};
use crate::figure::{Figure, cost, percent, rate};
use crate::grid::{Column, NO_SCREEN, name, notes, number, text};
use crate::html::{letter_tag, tagged};
use crate::markup::{Markup, at, html};
use crate::verdict::RunVerdict;
use linerate_facts::printable::{printable, shortened};
use linerate_facts::wording::counted;
use linerate_measure::measure::{Measurement, Stage};
use linerate_measure::run::Run;
use linerate_model::plan::Origin;
use std::collections::BTreeSet;

/// From this width on there is room for how the bytes were moved.
const METHOD_FROM_COLUMNS: usize = 100;
/// More alike devices than this become one row.
const ROWS_OF_A_KIND: usize = 8;
/// Dots drawn of one measurement.
const DOTS: usize = 200;
const STRIP_WIDTH: f64 = 132.0;
const INTRO: &str = "Samples: one dot a repeat, the tick is their median, the line the effective rate; from 0 at the left. Spread is \
     (highest − lowest) ÷ median. CPU seconds are those of our processes for 10⁹ bytes.";

const COLUMNS: [Column; 9] = [
    text("stage", 0),
    name(""),
    number("rated", 0),
    number("effective", 3),
    number("measured", 0),
    text("samples", 0).page_only(),
    number("spread", 2),
    number("CPU s/GB", 1),
    notes("notes"),
];
/// Columns of [`COLUMNS`].
const RATED: usize = 2;
const EFFECTIVE: usize = 3;

/// How much room there is.
#[derive(Clone, Copy)]
pub(crate) struct TableView {
    /// Columns; a page and output that is not a screen have no end.
    pub(crate) width: usize,
    pub(crate) rows: usize,
    /// Below the table, with the slowest devices and how the bytes were moved.
    pub(crate) notes: bool,
    /// Rows that explain others.
    pub(crate) sides: bool,
}

impl TableView {
    /// There is room for how the bytes were moved.
    fn is_wide(self) -> bool {
        self.width >= METHOD_FROM_COLUMNS
    }
}

/// A row for each entry, its stage before the first of it; columns in which nothing is known are empty.
fn table(entries: &[Entry], verdict: &RunVerdict, view: TableView) -> Vec<TableRow> {
    let mut last: Option<Stage> = None;
    let cells = |entry: &Entry| {
        let (stage, mut cells) = match entry {
            Entry::One(row) => (row.measurement.stage, of_row(row, verdict, view)),
            Entry::Many(group) => (group.rows[0].measurement.stage, of_group(group, verdict, view)),
        };
        if last != Some(stage) {
            cells[0] = Cell::drawn(stage.to_string(), html! { span class="num" { (stage) } });
            last = Some(stage);
        }
        cells
    };
    let mut rows: Vec<[Cell; 9]> = entries.iter().map(cells).collect();
    for column in RATED..=EFFECTIVE {
        if !rows.iter().any(|row| row[column].is_known()) {
            rows.iter_mut().for_each(|row| row[column] = Cell::default());
        }
    }
    let is_cut = |entry: &Entry| match entry {
        Entry::One(row) => verdict.cut.contains(&row.measurement.resource),
        Entry::Many(group) => group.is_cut(verdict),
    };
    rows.into_iter().zip(entries).map(|(cells, entry)| TableRow::of(cells).marked(is_cut(entry))).collect()
}

/// Devices alike are put together until at most so many rows are left. A terminal names the slowest of them, and what the
/// columns have no room for; on a page each is behind the row that stands for many.
pub(crate) fn part<'a>(run: &Run, verdict: &RunVerdict, view: TableView) -> Part<'a> {
    let all = rows(run);
    let all_cores = all.iter().any(|row| row.measurement.stage == Stage::Memory && row.measurement.together);
    let is_shown = |row: &&DeviceRow| view.sides || !is_side(row.measurement, all_cores);
    let rows: Vec<DeviceRow> = all.iter().filter(is_shown).cloned().collect();
    let mut entries = grouped(&rows, ROWS_OF_A_KIND);
    for limit in (1..ROWS_OF_A_KIND).rev() {
        if entries.len() <= view.rows {
            break;
        }
        entries = grouped(&rows, limit);
    }
    let of = |entries: &[Entry]| {
        let mut rows = table(entries, verdict, view);
        // Rows of measurements that nobody planned for (hundreds of names) are cut, and said.
        rows.truncate(view.rows.saturating_add(6));
        Block::Table(Table::new(COLUMNS, rows).with_heads(&heads()))
    };
    let mut blocks = vec![Block::Space];
    blocks.push(if rows.is_empty() { Block::Text(dim("nothing was measured")) } else { of(&entries) });
    let many = entries.iter().filter_map(|entry| match entry {
        Entry::Many(group) => Some(group),
        Entry::One(_) => None,
    });
    blocks.extend(many.clone().map(|group| {
        let alone: Vec<Entry> = group.rows.iter().cloned().map(Entry::One).collect();
        let heading = format!("{}, each alone", group.name());
        Block::Fold { heading, result: String::new(), open: false, blocks: vec![of(&alone)] }
    }));
    let left = entries.len().saturating_sub(view.rows.saturating_add(6)) + all.len() - rows.len();
    let left =
        (left > 0).then(|| format!("and {} in the page and the JSON", counted(left, "more measurement")));
    let slowest = Some(slowest(many));
    let how = view.notes.then(|| method(&rows, view.width)).flatten();
    let narrow = (!view.is_wide()).then(|| remarks(&rows, view.width));
    let below = left.into_iter().chain(slowest).chain(how).chain(narrow.into_iter().flatten());
    let below = below.chain(bounds(&rows, view.width)).map(|words| dim(words).on(Media::Terminal));
    blocks.extend(below.chain(reasons(&rows).map(|reasons| dim(reasons).on(Media::Page))).map(Block::Text));
    Part { id: "stages", title: "Stages", intro: INTRO.into(), blocks, ..Part::default() }
}

/// With where the numbers of a column come from.
fn heads() -> [Markup; 9] {
    let origin = |at: usize| match at {
        RATED => Some(Origin::Rated),
        EFFECTIVE => Some(Origin::Effective),
        4..=7 => Some(Origin::Measured),
        _ => None,
    };
    std::array::from_fn(
        |at| html! { (COLUMNS[at].head()) @if let Some(origin) = origin(at) { " " (letter_tag(origin)) } },
    )
}

fn of_row(row: &DeviceRow, verdict: &RunVerdict, view: TableView) -> [Cell; 9] {
    let measurement = row.measurement;
    // How a figure was made is what most rows share: a screen says it once, below.
    let note = match row.remarks() {
        _ if !view.is_wide() => String::new(),
        remarks if view.width != NO_SCREEN => remarks,
        remarks if remarks.is_empty() => printable(&measurement.method),
        remarks => format!("{remarks}; {}", printable(&measurement.method)),
    };
    let known = |figure: &Figure| Cell::drawn(figure.show(row.unit), tagged(figure, row.unit));
    let name = row.name();
    let short = name
        .strip_suffix(" alone")
        .unwrap_or(&name)
        .replace(" with file", if view.is_wide() { " + file" } else { "+file" });
    let marked = mark(verdict.cut.contains(&measurement.resource), verdict);
    [
        Cell::default(),
        Cell::drawn(short, html! { b { (name) } (marked) }),
        if measurement.stage == Stage::Path { "–".into() } else { known(&row.rated) },
        known(&row.effective),
        Cell::drawn(row.measured.show(row.unit), html! { b { (tagged(&row.measured, row.unit)) } }),
        Cell::drawn("", strip(row)),
        if measurement.samples.len() > 1 { percent(measurement.spread) } else { "–".into() }.into(),
        cost(measurement.cpu_seconds_per_gb).into(),
        Cell::drawn(note, chips(row)),
    ]
}

fn of_group(group: &Group, verdict: &RunVerdict, view: TableView) -> [Cell; 9] {
    let most = if view.is_wide() { "≤ " } else { "" };
    let parts = [group.remarks(), "each alone".into()];
    let note = parts.into_iter().filter(|part| view.is_wide() && !part.is_empty());
    let name = if view.is_wide() { group.name() } else { group.name().replace(" + file", "+file") };
    let marked = mark(group.is_cut(verdict), verdict);
    [
        Cell::default(),
        Cell::drawn(name, html! { b { (group.name()) ", each alone" } (marked) }),
        ranged(group, |row| &row.rated),
        ranged(group, |row| &row.effective),
        ranged(group, |row| &row.measured),
        Cell::drawn("", strip_of_group(group)),
        format!("{most}{}", percent(group.largest(|m| m.spread))).into(),
        format!("{most}{}", cost(group.largest(|m| m.cpu_seconds_per_gb))).into(),
        Cell::drawn(
            note.collect::<Vec<_>>().join("; "),
            html! { (group.slowest_text()) " " (group.remarks()) },
        ),
    ]
}

/// Lowest and highest, on the page with their tag.
fn ranged(group: &Group, figure: impl for<'r, 's> Fn(&'r DeviceRow<'s>) -> &'r Figure + Copy) -> Cell {
    let known = group.rows.iter().all(|row| figure(row).value.is_some());
    let origin = if known { figure(&group.rows[0]).origin } else { Origin::Unknown };
    let range = group.range(figure);
    Cell::drawn(range.clone(), html! { span class="num" { (range) } " " (letter_tag(origin)) })
}

fn mark(cut: bool, verdict: &RunVerdict) -> Markup {
    let (class, word) =
        if verdict.confirmed { ("cutmark", "bottleneck") } else { ("cutmark predicted", "predicted") };
    html! { @if cut { " " span class=(class) { (word) } } }
}

fn chips(row: &DeviceRow) -> Markup {
    let m = row.measurement;
    html! {
        @if let Some(limits) = row.limits() { span class="chip warn" { (limits) } " " }
        @if m.loss > 0.0 { span class="chip bad" { (percent(m.loss)) " lost" } " " }
        @for flag in &m.flags { span class="chip" { (flag) } " " }
        (m.method)
    }
}

/// The slowest device of each stage that was put together: `slowest of 64 disks: nvme17n1 with 1.62 GB/s`.
fn slowest<'e, 'r: 'e>(groups: impl Iterator<Item = &'e Group<'r>>) -> String {
    let mut stages = BTreeSet::new();
    let first_of_stage = groups.filter(|group| stages.insert(group.rows[0].measurement.stage));
    let words = first_of_stage.map(|group| format!("of {}, {}", group.name(), group.slowest_text()));
    words.collect::<Vec<_>>().join("; ")
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

/// How the bytes of the headline were moved; output that is not a screen says it of each row.
fn method(rows: &[DeviceRow], width: usize) -> Option<String> {
    let path = rows.iter().find(|row| row.measurement.stage == Stage::Path).filter(|_| width != NO_SCREEN)?;
    let (name, method) = (path.name(), printable(&path.measurement.method));
    (!method.is_empty()).then(|| shortened(&format!("{name}: {method}"), width))
}

/// One core beside all of them, or a file from memory beside the flow that has none.
fn is_side(measurement: &Measurement, all_cores: bool) -> bool {
    let one_core = measurement.stage == Stage::Memory && !measurement.together && all_cores;
    one_core || measurement.stage == Stage::Network && measurement.with_file
}

/// What held the stages whose figures are only lower bounds, a line for each cause.
fn bounds(rows: &[DeviceRow], width: usize) -> Vec<String> {
    let causes: BTreeSet<&str> = rows.iter().filter_map(DeviceRow::limits).collect();
    let line = |cause: &&str| {
        let limits: Vec<String> =
            rows.iter().filter(|row| row.limits() == Some(cause)).map(DeviceRow::name).collect();
        shortened(&format!("≥ at least this, {cause}: {}", limits.join(", ")), width)
    };
    causes.iter().map(line).collect()
}

/// Why figures are unknown, each reason once.
fn reasons(rows: &[DeviceRow]) -> Option<String> {
    let figures = rows.iter().flat_map(|row| [&row.rated, &row.effective, &row.measured]);
    let mut reasons: Vec<&str> = figures.filter_map(|figure| figure.why.as_deref()).collect();
    reasons.sort_unstable();
    reasons.dedup();
    reasons.truncate(6);
    (!reasons.is_empty()).then(|| format!("Unknown: {}.", reasons.join("; ")))
}

/// Samples as dots on a line from 0.
fn strip(row: &DeviceRow) -> Markup {
    let samples: Vec<f64> = row.measurement.samples.iter().copied().filter_map(rate).collect();
    let text: Vec<String> = samples.iter().take(12).map(|sample| row.unit.show(*sample)).collect();
    dots(&samples, row.measured.value, row.effective.value, &text.join(", "))
}

/// Medians of the devices as dots.
fn strip_of_group(group: &Group) -> Markup {
    let medians: Vec<f64> = group.rows.iter().filter_map(|row| row.measured.value).collect();
    let effective = group.rows.iter().filter_map(|row| row.effective.value).reduce(f64::max);
    dots(&medians, None, effective, &format!("{}, a dot each", counted(medians.len(), "device")))
}

fn dots(samples: &[f64], median: Option<f64>, effective: Option<f64>, text: &str) -> Markup {
    let longest = samples.iter().copied().chain(median).chain(effective).fold(0.0, f64::max);
    if longest <= 0.0 || samples.is_empty() {
        return html! { "–" };
    }
    let place = |value: f64| at(5.0 + value / longest * (STRIP_WIDTH - 10.0));
    let width = at(STRIP_WIDTH);
    html! {
        svg class="strip" viewBox={ "0 0 " (width) " 18" } width=(width) height="18" role="img" aria-label=(text) {
            title { (text) }
            path class="axis" d={ "M5 9H" (at(STRIP_WIDTH - 5.0)) } {}
            @if let Some(value) = effective { path class="effective" d={ "M" (place(value)) " 1V17" } {} }
            @if let Some(value) = median { path class="median" d={ "M" (place(value)) " 3V15" } {} }
            @for sample in samples.iter().take(DOTS) { circle cx=(place(*sample)) cy="9" r="3" {} }
        }
    }
}
