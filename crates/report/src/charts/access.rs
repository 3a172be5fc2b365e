//! File access: throughput against workers by transfer size (or whatever else was varied), and the
//! percentiles of latency.

use super::{Axis, Chart, Named, Point, Quantity, Series, ascending, spans_far};
use crate::job_words;
use crate::stage::scaling::with_all_sources;
use linerate_facts::grouping::distinct;
use linerate_facts::units;
use linerate_facts::wording::capitalised;
use linerate_measure::measure::Measurement;
use linerate_measure::measure::access::{Access, AccessJob, AccessOrder, AccessResult, Latency};
use linerate_measure::run::Run;

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

    /// Everything of the job that is not a place on an axis.
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

/// What the vertical axis of a matrix has.
#[derive(Clone, Copy, PartialEq)]
enum Height {
    Rate,
    Requests,
    OfBaseline,
    /// The 99th percentile of latency, over the requests that are done.
    P99,
}

impl Height {
    fn axis(self) -> (&'static str, Quantity) {
        match self {
            Height::Rate => ("throughput", Quantity::Rate),
            Height::Requests => ("requests", Quantity::Operations),
            Height::OfBaseline => ("of baseline", Quantity::Share),
            Height::P99 => ("p99", Quantity::Seconds),
        }
    }
}

/// Every measurement; under `--scaling` those of all sources, since the number of sources is not an axis here.
fn charted(run: &Run) -> Vec<&Measurement> {
    if run.scaling.is_some() { with_all_sources(run).collect() } else { run.measurements.iter().collect() }
}

/// What the jobs of a matrix reach, over what varies; and under `--scaling` the share of the baseline beside it.
pub(super) fn throughputs(runs: &[Named]) -> Vec<Chart> {
    let several = runs.len() > 1;
    let mut charts = Vec::new();
    for (method, group) in groups(runs) {
        if !group.iter().all(Cell::small) {
            charts.extend(throughput(&method, &group, several, Height::Rate));
        }
        if group.iter().any(Cell::small) {
            charts.extend(throughput(&method, &group, several, Height::Requests));
        }
        charts.extend(throughput(&method, &group, several, Height::P99));
        let known: Vec<Cell> =
            group.into_iter().filter(|cell| cell.measurement.of_baseline().is_some()).collect();
        charts.extend(throughput(&method, &known, several, Height::OfBaseline));
    }
    charts
}

/// The percentiles of each job.
pub(super) fn latencies(runs: &[Named]) -> Vec<Chart> {
    let of = |(method, group): (String, Vec<Cell>)| percentiles(&method, &group, runs.len() > 1);
    groups(runs).into_iter().flat_map(of).collect()
}

/// The jobs of a matrix by what is done; load tests have charts of their own.
fn groups<'a>(runs: &[Named<'a>]) -> Vec<(String, Vec<Cell<'a>>)> {
    let cells: Vec<Cell> = runs
        .iter()
        .filter(|named| named.run.load.is_none())
        .flat_map(|named| charted(named.run).into_iter().map(move |measurement| (named.name, measurement)))
        .filter_map(|(run, measurement)| {
            Some(Cell { run, measurement, access: measurement.access.as_ref()? })
        })
        .collect();
    let methods = distinct(cells.iter().map(Cell::method)).into_iter();
    let of = |method: &String| cells.iter().copied().filter(|cell| cell.method() == *method).collect();
    methods.map(|method| (method.clone(), of(&method))).collect()
}

/// The rate over what varies; the other things that vary are lines, or charts of their own where the lines
/// are runs.
fn throughput(method: &str, group: &[Cell], several: bool, height: Height) -> Vec<Chart> {
    let varied: Vec<Varied> = [Varied::Workers, Varied::Depth, Varied::Transfer]
        .into_iter()
        .filter(|varied| distinct(group.iter().map(|cell| varied.value(cell.job()))).len() > 1)
        .collect();
    let Some((x, others)) = varied.split_first() else { return Vec::new() };
    // Larger requests are fewer, and no answer to more load.
    if height == Height::P99 && *x == Varied::Transfer {
        return Vec::new();
    }
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
            let mut own: Vec<&&Cell> = cells.iter().filter(|cell| name(cell) == wanted).collect();
            own.sort_by_key(|cell| x.value(cell.job()));
            let points = own.into_iter().map(|cell| point(cell, *x, height)).collect();
            let name = if wanted.is_empty() { only_name(&cells, &varied) } else { wanted };
            Series { name, points, ideal: false }
        });
        let title = if part.is_empty() { method.to_string() } else { format!("{method}, {part}") };
        charts.push(chart(&title, *x, height, series.collect()));
    }
    charts
}

/// One line alone is called by what does not vary.
fn only_name(cells: &[&Cell], varied: &[Varied]) -> String {
    let Some(first) = cells.first() else { return String::new() };
    let fixed = [Varied::Transfer, Varied::Workers].into_iter().find(|fixed| !varied.contains(fixed));
    fixed.map_or_else(String::new, |fixed| fixed.word(first.job()))
}

fn point(cell: &Cell, x: Varied, height: Height) -> Point {
    let request = cell.job().transfer_bytes.max(1) as f64;
    let per = match height {
        Height::Rate => 1.0,
        Height::Requests => request,
        Height::OfBaseline => cell.access.baseline_bytes_per_second.unwrap_or(f64::NAN),
        Height::P99 => {
            let slower = sides(cell.access).into_iter().map(|(_, latency)| latency.p99).fold(0.0, f64::max);
            return Point::at(cell.measurement.bytes_per_second / request, slower);
        }
    };
    let samples: Vec<f64> = cell.measurement.samples.iter().map(|sample| sample / per).collect();
    Point::of_samples(x.value(cell.job()) as f64, cell.measurement.bytes_per_second / per, &samples)
}

fn chart(title: &str, x: Varied, height: Height, mut series: Vec<Series>) -> Chart {
    let all = |of: fn(&Point) -> f64| series.iter().flat_map(|series| &series.points).map(of).collect();
    let (places, heights): (Vec<f64>, Vec<f64>) = (all(|point| point.x), all(|point| point.y));
    let (name, quantity) = if height == Height::P99 { Height::Requests.axis() } else { x.axis() };
    let far = quantity == Quantity::Size || spans_far(places.iter().copied(), 6.0);
    let (height_name, height_quantity) = height.axis();
    let title = match height {
        Height::Rate => title.to_string(),
        Height::Requests => format!("{title}, requests"),
        Height::OfBaseline => format!("{title}, share of the baseline"),
        Height::P99 => format!("latency against requests of {title}"),
    };
    if height == Height::OfBaseline {
        let points = ascending(places).into_iter().map(|place| Point::at(place, 1.0)).collect();
        series.push(Series { name: "baseline: the sum of each source alone".into(), points, ideal: true });
    }
    let y_far = height != Height::OfBaseline && spans_far(heights, 12.0);
    Chart {
        title: capitalised(&title),
        x: Axis { title: name, quantity, logarithmic: far },
        y: Axis { title: height_name, quantity: height_quantity, logarithmic: y_far },
        series,
        marks: Vec::new(),
    }
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
