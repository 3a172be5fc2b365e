//! File access: throughput against workers by transfer size (or whatever else was varied), and the
//! percentiles of latency.

use super::{Axis, Chart, Named, Point, Quantity, Series, distinct, spans_far};
use crate::job_words;
use linerate_facts::units;
use linerate_measure::measure::Measurement;
use linerate_measure::measure::access::{Access, AccessJob, AccessOrder, AccessResult, Latency};

/// Requests smaller than this are shown by their number, larger ones by their bytes.
const SMALL_REQUEST: u64 = 64 << 10;

/// One measurement of one of the runs.
#[derive(Clone, Copy)]
struct Cell<'a> {
    run: &'a str,
    measurement: &'a Measurement,
    access: &'a AccessResult,
}

impl Cell<'_> {
    fn job(&self) -> &AccessJob {
        &self.access.job
    }

    /// Everything of the job that is no place on an axis.
    fn method(&self) -> String {
        let mut words = vec![job_words::pattern(self.job())];
        let without_depth = AccessJob { queue_depth: 1, ..self.job().clone() };
        words.extend(job_words::method(&without_depth));
        words.join(", ")
    }

    fn small(&self) -> bool {
        self.job().transfer_bytes < SMALL_REQUEST && self.job().order != AccessOrder::Sequential
    }
}

/// What a matrix varies, in the order in which it becomes the horizontal axis.
#[derive(Clone, Copy, PartialEq)]
enum Varied {
    Workers,
    Depth,
    Transfer,
}

impl Varied {
    fn value(self, job: &AccessJob) -> u64 {
        match self {
            Varied::Workers => u64::from(job.workers),
            Varied::Depth => u64::from(job.queue_depth),
            Varied::Transfer => job.transfer_bytes,
        }
    }

    fn word(self, job: &AccessJob) -> String {
        match self {
            Varied::Workers => job_words::workers(job),
            Varied::Depth => format!("depth {}", job.queue_depth),
            Varied::Transfer => units::show_size(job.transfer_bytes),
        }
    }

    fn axis(self) -> (&'static str, Quantity) {
        match self {
            Varied::Workers => ("workers", Quantity::Count),
            Varied::Depth => ("requests in flight a worker", Quantity::Count),
            Varied::Transfer => ("transfer size", Quantity::Size),
        }
    }
}

/// The charts of a matrix of jobs; load tests have their own.
pub(super) fn charts(runs: &[Named]) -> Vec<Chart> {
    let cells: Vec<Cell> = runs
        .iter()
        .filter(|named| named.run.load.is_none())
        .flat_map(|named| named.run.measurements.iter().map(move |measurement| (named.name, measurement)))
        .filter_map(|(run, measurement)| {
            Some(Cell { run, measurement, access: measurement.access.as_ref()? })
        })
        .collect();
    let mut charts = Vec::new();
    for method in distinct(cells.iter().map(Cell::method)) {
        let group: Vec<Cell> = cells.iter().copied().filter(|cell| cell.method() == method).collect();
        charts.extend(throughput(&method, &group, runs.len() > 1));
    }
    for method in distinct(cells.iter().map(Cell::method)) {
        let group: Vec<Cell> = cells.iter().copied().filter(|cell| cell.method() == method).collect();
        charts.extend(percentiles(&method, &group, runs.len() > 1));
    }
    charts
}

/// The rate over what varies; the other things that vary are lines, or charts of their own where the lines
/// are runs.
fn throughput(method: &str, group: &[Cell], several: bool) -> Vec<Chart> {
    let varied: Vec<Varied> = [Varied::Workers, Varied::Depth, Varied::Transfer]
        .into_iter()
        .filter(|varied| distinct(group.iter().map(|cell| varied.value(cell.job()))).len() > 1)
        .collect();
    let Some((x, others)) = varied.split_first() else { return Vec::new() };
    let small = group.iter().all(Cell::small);
    let rest =
        |cell: &Cell| others.iter().map(|varied| varied.word(cell.job())).collect::<Vec<_>>().join(", ");
    let (apart, line): (Vec<String>, bool) =
        if several { (distinct(group.iter().map(rest)), false) } else { (vec![String::new()], true) };
    let mut charts = Vec::new();
    for part in apart {
        let cells: Vec<&Cell> = group.iter().filter(|cell| line || rest(cell) == part).collect();
        let name = |cell: &Cell| if line { rest(cell) } else { cell.run.to_string() };
        let series = distinct(cells.iter().map(|cell| name(cell)));
        let series = series.into_iter().map(|wanted| {
            let own = cells.iter().filter(|cell| name(cell) == wanted);
            let mut points: Vec<Point> = own.map(|cell| point(cell, *x, small)).collect();
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
            let name = if wanted.is_empty() { only_name(&cells, &varied) } else { wanted };
            Series { name, points, ideal: false }
        });
        let title = if part.is_empty() { method.to_string() } else { format!("{method}, {part}") };
        charts.push(chart(title, *x, small, series.collect(), &cells));
    }
    charts
}

/// One line alone is called by what does not vary.
fn only_name(cells: &[&Cell], varied: &[Varied]) -> String {
    let Some(first) = cells.first() else { return String::new() };
    let fixed = [Varied::Transfer, Varied::Workers].into_iter().find(|fixed| !varied.contains(fixed));
    fixed.map_or_else(String::new, |fixed| fixed.word(first.job()))
}

fn point(cell: &Cell, x: Varied, small: bool) -> Point {
    let per = if small { cell.job().transfer_bytes.max(1) as f64 } else { 1.0 };
    let samples: Vec<f64> = cell.measurement.samples.iter().map(|sample| sample / per).collect();
    Point::of_samples(x.value(cell.job()) as f64, cell.measurement.bytes_per_second / per, &samples)
}

fn chart(title: String, x: Varied, small: bool, series: Vec<Series>, cells: &[&Cell]) -> Chart {
    let (name, quantity) = x.axis();
    let far = spans_far(cells.iter().map(|cell| x.value(cell.job()) as f64), 6.0);
    let y = if small {
        Axis { title: "requests", quantity: Quantity::Operations, logarithmic: false }
    } else {
        Axis { title: "throughput", quantity: Quantity::Rate, logarithmic: false }
    };
    let x = Axis { title: name, quantity, logarithmic: far || quantity == Quantity::Size };
    Chart { title: capitalised(&title), x, y, series, marks: Vec::new() }
}

/// The percentiles of each job; where runs are compared, a chart for each job with a line for each run.
fn percentiles(method: &str, group: &[Cell], several: bool) -> Vec<Chart> {
    let mut lines: Vec<(String, Series)> = Vec::new();
    for cell in group {
        let job = cell.job();
        let mut place = vec![job_words::workers(job), job_words::transfer(job)];
        if job.queue_depth != 1 {
            place.push(format!("depth {}", job.queue_depth));
        }
        let place = place.join(", ");
        for (side, latency) in sides(cell.access) {
            let (part, name) =
                if several { (place.clone(), cell.run.to_string()) } else { (String::new(), place.clone()) };
            let name = if side.is_empty() { name } else { format!("{name}, {side}") };
            lines.push((part, Series { name, points: latency_points(latency), ideal: false }));
        }
    }
    let parts = distinct(lines.iter().map(|(part, _)| part.clone()));
    let of = |part: &String| {
        lines.iter().filter(|(other, _)| other == part).map(|(_, series)| series.clone()).collect()
    };
    parts.iter().map(|part| latency_chart(method, part, of(part))).collect()
}

/// Reads and writes that were measured; named only where there are both.
fn sides(access: &AccessResult) -> Vec<(&'static str, &Latency)> {
    let both = matches!(access.job.access, Access::Mixed { .. });
    let sides = [("reads", &access.reads), ("writes", &access.writes)];
    let some = sides.into_iter().filter_map(|(name, side)| Some((name, side.as_ref()?)));
    let some = some.filter(|(_, side)| side.operations > 0);
    some.map(|(name, side)| (if both { name } else { "" }, &side.latency)).collect()
}

fn latency_points(latency: &Latency) -> Vec<Point> {
    let values = [
        (50.0, latency.p50),
        (90.0, latency.p90),
        (95.0, latency.p95),
        (99.0, latency.p99),
        (99.9, latency.p99_9),
        (99.99, latency.p99_99),
    ];
    values.into_iter().filter(|(_, seconds)| *seconds > 0.0).map(|(x, y)| Point::at(x, y)).collect()
}

fn latency_chart(method: &str, part: &str, series: Vec<Series>) -> Chart {
    let part = if part.is_empty() { String::new() } else { format!(", {part}") };
    let far = spans_far(series.iter().flat_map(|series| &series.points).map(|point| point.y), 8.0);
    Chart {
        title: capitalised(&format!("latency of {method}{part}")),
        x: Axis { title: "percentile of the requests", quantity: Quantity::Percentile, logarithmic: false },
        y: Axis { title: "latency", quantity: Quantity::Seconds, logarithmic: far },
        series,
        marks: Vec::new(),
    }
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
