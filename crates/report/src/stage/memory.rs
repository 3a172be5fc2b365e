//! `linerate memory`: a row for each working set, number of cores, stride and node pair, a column for each kernel; on the page
//! each point with its spread, too.

use super::access;
use crate::document::{Block, Media, Part, Table, TableRow, bold, dim};
use crate::figure::quantity;
use crate::grid::{Column, number, text};
use linerate_facts::printable::printable;
use linerate_facts::units::{show_bytes_rate, show_size};
use linerate_measure::measure::memory_sweep::{arrays_of, bus_factor};
use linerate_measure::measure::{Measurement, MemoryPoint};
use linerate_measure::run::Run;

/// Kernel and store, as in `MemoryPoint`.
type AccessKind<'a> = (&'a str, Option<&'a str>);

/// The columns, with their heads.
const KINDS: [(AccessKind<'static>, &str); 8] = [
    (("read", None), "read"),
    (("write", Some("plain")), "write\nplain"),
    (("write", Some("streaming")), "write\nstream"),
    (("copy", Some("plain")), "copy\nplain"),
    (("copy", Some("streaming")), "copy\nstream"),
    (("triad", Some("plain")), "triad\nplain"),
    (("triad", Some("streaming")), "triad\nstream"),
    (("latency", None), "latency\nns"),
];
/// A cache line, bytes.
const LINE_BYTES: f64 = 64.0;
/// A word at a stride, bytes.
const WORD_BYTES: f64 = 4.0;
/// Working sets of one row differ by rounding only, up to this share.
const ALIKE: f64 = 0.02;

/// A figure with what it is of.
type LabelledFigure<'a> = (&'a Measurement, &'a MemoryPoint);

/// Figures of the same working set, cores, stride and nodes.
struct MemoryRow<'a> {
    figures: Vec<LabelledFigure<'a>>,
}

pub(super) fn parts(run: &Run) -> Vec<Part<'_>> {
    let seen: Vec<LabelledFigure> =
        run.measurements.iter().filter_map(|one| Some((one, one.memory.as_ref()?))).collect();
    let rows = rows(&seen);
    let strided = strided(&rows);
    let plain = |row: &&MemoryRow| row.stride() == 4;
    type Section<'s, 'r> = (&'static str, Vec<&'s MemoryRow<'r>>, fn(&MemoryRow) -> String);
    let sections: [Section; 3] = [
        (
            "GB/s (10^9 bytes, counted as STREAM does)",
            rows.iter().filter(plain).filter(|row| row.nodes().is_none()).collect(),
            |row| row.label(),
        ),
        (
            "GB/s of words of 4 bytes at a stride; in brackets of the lines they lie in",
            strided.iter().collect(),
            |row| row.stride_label(),
        ),
        (
            "GB/s between NUMA nodes",
            rows.iter().filter(plain).filter(|row| row.nodes().is_some()).collect(),
            |row| row.label(),
        ),
    ];
    let mut blocks = vec![Block::Space];
    for (title, rows, label) in sections {
        if !rows.is_empty() {
            blocks.extend([Block::Text(bold(title)), Block::Table(table(&rows, label))]);
        }
    }
    blocks.extend(notes(run, &seen).into_iter().map(|note| Block::Text(dim(note))));
    let figures = Part { id: "kernels", title: "Kernels", blocks, ..Part::default() };
    vec![figures, Part { on: Media::Page, ..access::figures(&run.measurements) }]
}

fn rows<'a>(labelled_figures: &[LabelledFigure<'a>]) -> Vec<MemoryRow<'a>> {
    let mut rows: Vec<MemoryRow> = Vec::new();
    for one in labelled_figures {
        match rows.iter_mut().find(|row| row.takes(one)) {
            Some(row) => row.figures.push(*one),
            None => rows.push(MemoryRow { figures: vec![*one] }),
        }
    }
    rows
}

/// The rows of the strides; the first of them is that of each word, which the kernels touch many at a time.
fn strided<'a>(rows: &[MemoryRow<'a>]) -> Vec<MemoryRow<'a>> {
    let (each, far): (Vec<&MemoryRow>, Vec<&MemoryRow>) = rows.iter().partition(|row| row.stride() == 4);
    let is_beside = |(_, point): &LabelledFigure| {
        let kind = (point.kernel.as_str(), point.store.as_deref());
        let alike = |row: &&MemoryRow| {
            let first = row.first();
            (first.cores, &first.level) == (point.cores, &point.level) && row.of(kind).is_some()
        };
        point.node_of_memory.is_none() && far.iter().any(alike)
    };
    let beside = each.iter().map(|row| row.figures.iter().copied().filter(is_beside).collect());
    let beside = beside.filter(|figures: &Vec<_>| !figures.is_empty());
    let far = far.iter().map(|row| row.figures.clone());
    beside.chain(far).map(|figures| MemoryRow { figures }).collect()
}

/// For each kind that was measured its figure, and beside it that of the lines.
fn table(rows: &[&MemoryRow], label: fn(&MemoryRow) -> String) -> Table<'static> {
    let kinds: Vec<(AccessKind, &str)> =
        KINDS.into_iter().filter(|(kind, _)| rows.iter().any(|row| row.of(*kind).is_some())).collect();
    let columns = kinds.iter().flat_map(|(_, head)| [number(head, 0), number("", 0)]);
    let columns: Vec<Column> = std::iter::once(text("", 0)).chain(columns).collect();
    let row = |row: &&MemoryRow| {
        let cells = kinds.iter().flat_map(|(kind, _)| row.of(*kind).map(cells).unwrap_or_default());
        TableRow::of(std::iter::once(label(row)).chain(cells))
    };
    Table::new(columns, rows.iter().map(row)).below(2)
}

impl<'a> MemoryRow<'a> {
    fn first(&self) -> &'a MemoryPoint {
        self.figures[0].1
    }

    fn stride(&self) -> u64 {
        self.first().stride_bytes
    }

    fn nodes(&self) -> Option<(u32, u32)> {
        self.first().node_of_cores.zip(self.first().node_of_memory)
    }

    /// The same cores, level, stride and nodes, and this kernel is not there yet; or the same size, too.
    fn takes(&self, (_, point): &LabelledFigure) -> bool {
        let first = self.first();
        let alike = |point: &MemoryPoint| {
            (point.level.clone(), point.stride_bytes, point.node_of_cores, point.node_of_memory)
        };
        // The chase of a node pair is one core's, the reads beside it are all cores'.
        let cores = first.cores == point.cores || first.node_of_cores.is_some();
        let new = self.of((&point.kernel, point.store.as_deref())).is_none();
        let sizes = (first.working_set_bytes as f64, point.working_set_bytes as f64);
        let size = (sizes.0 - sizes.1).abs() <= ALIKE * sizes.0.max(sizes.1);
        // In memory each array is of the same size, so that sets of one, two and three arrays stand in a row.
        let arrays = [1.0, 2.0, 3.0, 0.5, 1.5, 1.0 / 3.0, 2.0 / 3.0];
        let by_array = point.level == "memory"
            && arrays.iter().any(|n| (sizes.0 * n - sizes.1).abs() <= ALIKE * sizes.1);
        let chase = point.kernel == "latency" || first.kernel == "latency";
        alike(first) == alike(point) && cores && new && (size || by_array || chase)
    }

    fn of(&self, kind: AccessKind) -> Option<LabelledFigure<'a>> {
        self.figures
            .iter()
            .copied()
            .find(|(_, point)| (point.kernel.as_str(), point.store.as_deref()) == kind)
    }

    fn label(&self) -> String {
        let first = self.first();
        let cores = self.figures.iter().map(|(_, point)| point.cores).max().unwrap_or(first.cores);
        let plural = if cores == 1 { " " } else { "s" };
        let size = show_size(first.working_set_bytes);
        if let Some((from, to)) = self.nodes() {
            return format!("{cores:>3} core{plural} of node {from}, memory of {to}");
        }
        match first.level.as_str() {
            "memory" => {
                // The arrays of a row are alike, the sets of one, two and three of them are not.
                let arrays = arrays_of(&first.kernel);
                format!("{cores:>3} core{plural} memory {} each", show_size(first.working_set_bytes / arrays))
            }
            level => format!("{cores:>3} core{plural} {:<6} {size}", printable(level)),
        }
    }

    fn stride_label(&self) -> String {
        let MemoryPoint { cores, level, stride_bytes, .. } = self.first();
        let plural = if *cores == 1 { " " } else { "s" };
        format!("{cores:>3} core{plural} {:<6} every {}", printable(level), show_size(*stride_bytes))
    }
}

/// GB/s or nanoseconds, with a star where the figure has a flag; of a stride also the rate of the lines.
fn cells((figure, point): LabelledFigure) -> [String; 2] {
    let star = if figure.flags.is_empty() { " " } else { "*" };
    let value = match point.latency_seconds {
        Some(seconds) => quantity(seconds * 1e9),
        None => quantity(figure.bytes_per_second / 1e9),
    };
    let lines = figure.bytes_per_second / WORD_BYTES * LINE_BYTES.min(point.stride_bytes as f64);
    let lines = if point.stride_bytes == 4 { String::new() } else { format!("({})", quantity(lines / 1e9)) };
    [value + star, lines]
}

/// What crossed the bus beside what it is rated for, and what the stars mean.
fn notes(run: &Run, figures: &[LabelledFigure]) -> Vec<String> {
    let mut notes = Vec::new();
    let in_memory = figures.iter().filter(|(_, point)| {
        point.level == "memory" && point.stride_bytes == 4 && point.latency_seconds.is_none()
    });
    let crossed = |(figure, point): &LabelledFigure| {
        figure.bytes_per_second * bus_factor(&point.kernel, point.store.as_deref())
    };
    if let Some(most) = in_memory.max_by(|one, other| crossed(one).total_cmp(&crossed(other))) {
        let (rate, point) = (crossed(most), most.1);
        let rated = match &run.machine.memory.rated_bytes_per_second {
            fact if fact.known().is_some_and(|rated| *rated > 0.0) => {
                let rated = fact.known().copied().unwrap_or_default();
                format!("{:.0} % of the rated {}", rate / rated * 100.0, show_bytes_rate(rated))
            }
            fact => {
                format!("the rated bandwidth is unknown ({})", printable(fact.why().unwrap_or("unknown")))
            }
        };
        let store = point.store.as_deref().map_or_else(String::new, |store| format!(" {store}"));
        notes.push(format!(
            "Most on the bus: {} by {}{} on {} cores; {rated}.",
            show_bytes_rate(rate),
            printable(&point.kernel),
            printable(&store),
            point.cores
        ));
    }
    if figures.iter().any(|(_, point)| point.level == "memory" && point.store.as_deref() == Some("plain")) {
        notes.push(
            "A plain store first reads the line it writes: on the bus write is 2, copy 3/2, triad 4/3 of the \
             figure; a streaming store \
             does not."
                .into(),
        );
    }
    let mut flags: Vec<&str> =
        figures.iter().flat_map(|(figure, _)| figure.flags.iter().map(String::as_str)).collect();
    flags.sort_unstable();
    flags.dedup();
    if !flags.is_empty() {
        notes.push(format!("* {}", flags.into_iter().map(meaning).collect::<Vec<_>>().join("; ")));
    }
    notes
}

fn meaning(flag: &str) -> String {
    match flag {
        "spread" => "spread: the samples lie more than 10 % apart".into(),
        "steal" => "steal: the hypervisor took time from our cores".into(),
        "quota" => "quota: the control group's CPU quota held us".into(),
        "cut-short" => "cut-short: interrupted before all samples were taken".into(),
        "small-arrays" => {
            "small-arrays: less than four times the last-level cache, for want of available memory".into()
        }
        other => printable(other),
    }
}
