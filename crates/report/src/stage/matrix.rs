//! A grid of `linerate disk`: for each pattern a row for each size and a column for each depth, with the rate or the
//! requests a second, and the latency that 99 % keep. On a terminal with the checks of a figure where they object; on the
//! page it is a heat map.

use crate::document::{self, Block, Media, Table, TableRow, Text, dim, plain};
use crate::figure::{operations_word, seconds_word};
use crate::grid::{Column, name, number};
use crate::job_words;
use crate::markup::html;
use linerate_facts::printable::printable;
use linerate_facts::units::{show_bytes_rate, show_size};
use linerate_measure::measure::access::{AccessJob, Latency};
use linerate_measure::measure::{AccessResult, Measurement};

/// Of smaller requests their number counts, of larger ones what they carry.
const SMALL_REQUEST: u64 = 64 << 10;
/// Objections that a terminal has room for.
const MOST_OBJECTIONS: usize = 8;

/// One figure and where it stands.
struct Cell<'a> {
    measurement: &'a Measurement,
    access: &'a AccessResult,
    /// What all of its pattern share.
    pattern: String,
}

/// None where the figures are not a grid, or one of single figures, for which a row each says more.
pub(super) fn matrix(
    measurements: &[Measurement],
    remarkable: fn(&AccessResult) -> Vec<String>,
) -> Option<Vec<Block<'static>>> {
    let cells: Vec<Cell> = measurements.iter().map(Cell::of).collect::<Option<_>>()?;
    let mut patterns: Vec<&str> = cells.iter().map(|cell| cell.pattern.as_str()).collect();
    patterns.dedup();
    let mut once = patterns.clone();
    once.sort_unstable();
    once.dedup();
    if patterns.len() == cells.len() || once.len() != patterns.len() {
        return None;
    }
    let mut blocks = Vec::new();
    for pattern in patterns {
        let of: Vec<&Cell> = cells.iter().filter(|cell| cell.pattern == pattern).collect();
        blocks.extend(tables(pattern, &of)?);
    }
    // What is said of many is said once.
    let mut about: Vec<(String, Vec<String>)> = Vec::new();
    for (place, text) in cells.iter().flat_map(|cell| cell.objections(remarkable)) {
        match about.iter_mut().find(|(said, _)| *said == text) {
            Some((_, places)) => places.push(place),
            None => about.push((text, vec![place])),
        }
    }
    let objection = |(text, places): (String, Vec<String>)| match places.len() {
        1 => format!("{}: {text}", places[0]),
        all if all == cells.len() => format!("all {all}: {text}"),
        several => format!("{} and {} more: {text}", places[0], several - 1),
    };
    let objections: Vec<Text> = about.into_iter().map(objection).map(plain).collect();
    let more = objections.len().saturating_sub(MOST_OBJECTIONS);
    let mut said: Vec<Block> = (!objections.is_empty()).then_some(Block::Space).into_iter().collect();
    said.extend(objections.into_iter().take(MOST_OBJECTIONS).map(Block::Text));
    said.extend((more > 0).then(|| Block::Text(dim(format!("and {more} more, in the page and the JSON")))));
    blocks.push(Block::On(Media::Terminal, said));
    Some(blocks)
}

/// That of a terminal, and that of the page; none where a place has two figures.
fn tables(pattern: &str, cells: &[&Cell]) -> Option<[Block<'static>; 2]> {
    let ordered = |of: fn(&AccessJob) -> u64| {
        let mut all: Vec<u64> = cells.iter().map(|cell| of(&cell.access.job)).collect();
        all.sort_unstable();
        all.dedup();
        all
    };
    let (sizes, depths) = (ordered(|job| job.transfer_bytes), ordered(|job| job.queue_depth.into()));
    let columns: Vec<Column> =
        std::iter::once(name("")).chain(depths.iter().map(|_| number("", 0))).collect();
    let heads =
        std::iter::once(pattern.to_string()).chain(depths.iter().map(|depth| format!("depth {depth}")));
    let page_heads: Vec<_> = heads.clone().map(|head| html! { (head) }).collect();
    let rates = Heat::over(cells, "more", |cell| cell.measurement.bytes_per_second);
    let waits = Heat::over(cells, "longer", |cell| cell.latency().map_or(f64::NAN, |latency| latency.p99));
    let mut rows = Vec::new();
    for size in sizes {
        let at = |depth: &u64| {
            let mut found = cells.iter().filter(|cell| cell.is_at(size, *depth));
            let first = found.next();
            if found.next().is_some() { Err(()) } else { Ok(first) }
        };
        let found: Vec<Option<&&Cell>> = depths.iter().map(at).collect::<Result<_, ()>>().ok()?;
        let (shown, what) = (show_size(size), if size < SMALL_REQUEST { "IOPS" } else { "rate" });
        let mut add = |on_terminal: &str, what: &str, heat: &Heat, words: fn(&Cell) -> String| {
            let head =
                document::Cell::drawn(format!("  {on_terminal:<8} {what}"), html! { (shown) " " (what) });
            rows.push(row(head, &found, heat, words));
        };
        add(&shown, what, &rates, |cell| cell.figure());
        add("", "p99", &waits, |cell| cell.p99());
    }
    let page = Table::new(columns.clone(), rows.clone()).with_heads(&page_heads);
    // On a terminal the empty line of its heads parts it from what is above.
    let terminal = Table::new(columns, std::iter::once(TableRow::of(heads).chosen(true)).chain(rows));
    let [terminal, page] = [(Media::Terminal, terminal), (Media::Page, page)]
        .map(|(media, table)| Block::On(media, vec![Block::Table(table)]));
    Some([terminal, page])
}

/// How dark the cells of the page are: where a value lies between the least and the most of its pattern, in powers.
struct Heat {
    class: &'static str,
    value: fn(&Cell) -> f64,
    least: f64,
    most: f64,
}

impl Heat {
    fn over(cells: &[&Cell], class: &'static str, value: fn(&Cell) -> f64) -> Self {
        let values = || cells.iter().map(|cell| value(cell)).filter(|value| *value > 0.0);
        Heat { class, value, least: values().fold(f64::MAX, f64::min), most: values().fold(0.0, f64::max) }
    }

    /// One of six shades; the lightest where nothing is known.
    fn class(&self, cell: &Cell) -> String {
        let place = ((self.value)(cell) / self.least).ln() / (self.most / self.least).ln();
        format!("shade {} h{}", self.class, (place * 5.0).round() as u8)
    }
}

fn row(head: document::Cell, cells: &[Option<&&Cell>], heat: &Heat, words: fn(&Cell) -> String) -> TableRow {
    let shown = |cell: &Option<&&Cell>| {
        let Some(cell) = cell else { return "–".into() };
        let (words, depth) = (words(cell), format!("depth {}", cell.access.job.queue_depth));
        let page = html! { span class=(heat.class(cell)) data-head=(depth) { (words) } };
        document::Cell::drawn(words, page)
    };
    TableRow::of(std::iter::once(head).chain(cells.iter().map(shown)))
}

impl<'a> Cell<'a> {
    /// Of reads or of writes alone: others have several rows of their own.
    fn of(measurement: &'a Measurement) -> Option<Self> {
        let access = measurement.access.as_deref()?;
        let alone = access.reads.is_some() != access.writes.is_some();
        let job = &access.job;
        let pattern = AccessJob { queue_depth: 1, ..job.clone() };
        let mut words = vec![job_words::pattern(job), job_words::workers(job)];
        words.extend(job_words::method(&pattern));
        let (known, durable) = (job.workers > 0, job.sync.is_some());
        (alone && known && !durable).then(|| Cell { measurement, access, pattern: words.join(", ") })
    }

    fn is_at(&self, size: u64, depth: u64) -> bool {
        self.access.job.transfer_bytes == size && u64::from(self.access.job.queue_depth) == depth
    }

    fn figure(&self) -> String {
        let side = self.access.reads.as_ref().or(self.access.writes.as_ref());
        let bound = if self.measurement.lower_bound { "≥ " } else { "" };
        let figure = match side.filter(|_| self.access.job.transfer_bytes < SMALL_REQUEST) {
            Some(side) => operations_word(side.operations_per_second),
            None => show_bytes_rate(self.measurement.bytes_per_second),
        };
        format!("{bound}{figure}")
    }

    fn p99(&self) -> String {
        self.latency().map_or("–".into(), |latency| seconds_word(latency.p99))
    }

    fn latency(&self) -> Option<&Latency> {
        self.access.reads.as_ref().or(self.access.writes.as_ref()).map(|side| &side.latency)
    }

    /// The figure's place, and what does not hold together.
    fn objections(
        &self,
        remarkable: fn(&AccessResult) -> Vec<String>,
    ) -> impl Iterator<Item = (String, String)> {
        let job = &self.access.job;
        let place = format!("{}, {} × {}", self.pattern, show_size(job.transfer_bytes), job.queue_depth);
        let flags = self.measurement.flags.iter().map(|flag| printable(flag)).collect::<Vec<_>>().join(", ");
        let flags = (!flags.is_empty()).then(|| format!("flags: {flags}"));
        remarkable(self.access).into_iter().chain(flags).map(move |text| (place.clone(), text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document;
    use crate::grid::Style;
    use linerate_measure::measure::access::{Access, AccessOrder, SideResult};

    fn figure(transfer_bytes: u64, queue_depth: u32, operations: f64) -> Measurement {
        let job = AccessJob {
            workers: 4,
            transfer_bytes,
            queue_depth,
            ..AccessJob::plain(Access::Read, AccessOrder::Random)
        };
        let mut side = SideResult { operations_per_second: operations, ..SideResult::default() };
        side.latency.p99 = f64::from(queue_depth) / operations;
        let access = AccessResult { reads: Some(side), ..AccessResult::of(job) };
        Measurement {
            bytes_per_second: operations * transfer_bytes as f64,
            access: Some(Box::new(access)),
            ..Measurement::default()
        }
    }

    fn grid() -> Vec<Measurement> {
        let cells = [(4096, 1, 9812.0), (4096, 16, 70_000.0), (1 << 20, 1, 900.0), (1 << 20, 16, 3000.0)];
        cells.map(|(size, depth, operations)| figure(size, depth, operations)).into()
    }

    #[test]
    fn sizes_are_rows_and_depths_columns_and_only_what_objects_is_said() {
        let mut grid = grid();
        grid[3].flags = vec!["spread".into()];
        let lines =
            document::lines(&matrix(&grid, |_| Vec::new()).expect("a grid"), 80, Style::of(80, false))
                .join("\n");
        insta::assert_snapshot!(lines, @r"

        random read, 4 workers   depth 1   depth 16
          4 KiB    IOPS             9812      70.0k
                   p99            102 µs     229 µs
          1 MiB    rate         944 MB/s  3.15 GB/s
                   p99           1.11 ms    5.33 ms

        random read, 4 workers, 1 MiB × 16: flags: spread
        ");
    }

    #[test]
    fn single_figures_and_two_in_one_place_are_no_grid() {
        assert!(matrix(&grid()[..1], |_| Vec::new()).is_none());
        let twice = [grid(), grid()].concat();
        assert!(matrix(&twice, |_| Vec::new()).is_none());
    }
}
