//! Memory: bandwidth against stride by working set, against working set and cores by kernel, and latency
//! against working set.

use super::{Axis, Chart, Named, Point, Quantity, Series};
use crate::job_words;
use linerate_facts::grouping::distinct;
use linerate_facts::units;
use linerate_measure::measure::{Measurement, MemoryPoint};

/// One measurement of one of the runs.
#[derive(Clone, Copy)]
struct Cell<'a> {
    run: &'a str,
    measurement: &'a Measurement,
    point: &'a MemoryPoint,
}

impl Cell<'_> {
    /// Where it ran.
    fn place(&self) -> String {
        let mut words = vec![job_words::cores(self.point)];
        words.extend(job_words::nodes(self.point));
        words.join(", ")
    }

    fn bandwidth(&self, x: f64) -> Point {
        Point::of_samples(x, self.measurement.bytes_per_second, &self.measurement.samples)
    }
}

/// The charts of a memory benchmark.
pub(super) fn charts(runs: &[Named]) -> Vec<Chart> {
    let all = runs.iter().flat_map(|named| named.run.measurements.iter().map(move |m| (named.name, m)));
    let cells: Vec<Cell> = all
        .filter_map(|(run, measurement)| Some(Cell { run, measurement, point: measurement.memory.as_ref()? }))
        .collect();
    let (latency, bandwidth): (Vec<Cell>, Vec<Cell>) =
        cells.into_iter().partition(|cell| cell.point.latency_seconds.is_some());
    let several = runs.len() > 1;
    let mut charts = by_stride(&bandwidth, several);
    charts.extend(by_working_set(&bandwidth, several));
    charts.extend(by_cores(&bandwidth, several));
    charts.extend(by_latency(&latency, several));
    charts
}

/// Cells with the same title become one chart, those with the same name one line.
fn grouped(
    cells: &[Cell],
    several: bool,
    title: impl Fn(&Cell) -> String,
    name: impl Fn(&Cell) -> String,
    point: impl Fn(&Cell) -> Point,
    axes: (Axis, Axis),
) -> Vec<Chart> {
    // Where runs are compared, what would be a line becomes a chart of its own.
    let title = |cell: &Cell| if several { format!("{}, {}", title(cell), name(cell)) } else { title(cell) };
    let line = |cell: &Cell| if several { cell.run.to_string() } else { name(cell) };
    let chart = |wanted: String| {
        let own: Vec<&Cell> = cells.iter().filter(|cell| title(cell) == wanted).collect();
        let series = distinct(own.iter().map(|cell| line(cell))).into_iter().map(|name| {
            let mut points: Vec<Point> =
                own.iter().filter(|cell| line(cell) == name).map(|cell| point(cell)).collect();
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
            // The best of those that differ in something else.
            points.dedup_by(|next, kept| {
                let same = next.x == kept.x;
                if same && next.y > kept.y {
                    *kept = *next;
                }
                same
            });
            Series { name, points, ideal: false }
        });
        Chart { title: wanted, x: axes.0, y: axes.1, series: series.collect(), marks: Vec::new() }
    };
    distinct(cells.iter().map(title)).into_iter().map(chart).collect()
}

const BANDWIDTH: Axis = Axis { title: "bandwidth", quantity: Quantity::Rate, logarithmic: false };
const WORKING_SET: Axis =
    Axis { title: "working set of all cores", quantity: Quantity::Size, logarithmic: true };

fn by_stride(cells: &[Cell], several: bool) -> Vec<Chart> {
    grouped(
        cells,
        several,
        |cell| format!("Memory {} by stride, {}", job_words::kernel(cell.point), cell.place()),
        |cell: &Cell| working_set(cell),
        |cell| cell.bandwidth(cell.point.stride_bytes as f64),
        (
            Axis { title: "stride", quantity: Quantity::Size, logarithmic: true },
            Axis { logarithmic: true, ..BANDWIDTH },
        ),
    )
}

fn working_set(cell: &Cell) -> String {
    format!("{} ({})", units::show_size(cell.point.working_set_bytes), cell.point.level)
}

/// The smallest stride of each kernel: its best.
fn by_working_set(cells: &[Cell], several: bool) -> Vec<Chart> {
    let least = |cell: &Cell| {
        let alike = cells.iter().filter(|other| other.point.kernel == cell.point.kernel);
        alike.map(|other| other.point.stride_bytes).min()
    };
    let best: Vec<Cell> =
        cells.iter().copied().filter(|cell| least(cell) == Some(cell.point.stride_bytes)).collect();
    grouped(
        &best,
        several,
        |cell| format!("Memory bandwidth by working set, {}", cell.place()),
        |cell| job_words::kernel(cell.point),
        |cell| cell.bandwidth(cell.point.working_set_bytes as f64),
        (WORKING_SET, Axis { logarithmic: true, ..BANDWIDTH }),
    )
}

fn by_cores(cells: &[Cell], several: bool) -> Vec<Chart> {
    let in_memory: Vec<Cell> = cells.iter().copied().filter(|cell| cell.point.level == "memory").collect();
    let nodes =
        |cell: &Cell| job_words::nodes(cell.point).map(|nodes| format!(", {nodes}")).unwrap_or_default();
    grouped(
        &in_memory,
        several,
        |cell| format!("Memory bandwidth by cores{}", nodes(cell)),
        |cell| job_words::kernel(cell.point),
        |cell| cell.bandwidth(f64::from(cell.point.cores)),
        (Axis { title: "cores", quantity: Quantity::Count, logarithmic: false }, BANDWIDTH),
    )
}

fn by_latency(cells: &[Cell], several: bool) -> Vec<Chart> {
    grouped(
        cells,
        several,
        |_: &Cell| "Memory latency by working set".into(),
        |cell: &Cell| cell.place(),
        |cell| Point::at(cell.point.working_set_bytes as f64, cell.point.latency_seconds.unwrap_or(0.0)),
        (WORKING_SET, Axis { title: "latency", quantity: Quantity::Seconds, logarithmic: true }),
    )
}
