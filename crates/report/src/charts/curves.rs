//! Curves: rates over ever more devices, with the line that a whole device more each time would make, and of a grid what each
//! cell reaches of its baseline; requests over ever more load, and response time over requests.

use super::{Axis, Chart, Mark, Named, Point, Quantity, Series, spans_far};
use crate::charts::scale::with_unit;
use crate::figure::percent;
use crate::job_words;
use crate::stage::scaling::with_all_sources;
use linerate_facts::grouping::distinct;
use linerate_facts::wording::counted;
use linerate_measure::measure::Scaling;
use linerate_measure::measure::access::{AccessJob, LoadCurve, LoadPoint, ScalingCurve, title};
use linerate_measure::run::Run;

/// One chart, or of a grid one for each thing that is done; several runs lie over each other, each with its
/// first cell.
pub(super) fn scalings(runs: &[Named]) -> Vec<Chart> {
    let scaled: Vec<(&Named, &Scaling)> =
        runs.iter().filter_map(|named| Some((named, named.run.scaling.as_ref()?))).collect();
    match &scaled[..] {
        [] => Vec::new(),
        [(named, scaling)] if !scaling.further.is_empty() => cells(named.run, scaling),
        all => vec![rates(all)],
    }
}

fn rates(scaled: &[(&Named, &Scaling)]) -> Chart {
    let alone = scaled.len() == 1;
    let first = &scaled[0].1.first;
    let mut series: Vec<Series> = scaled
        .iter()
        .map(|(named, scaling)| {
            let name = if alone { "measured".into() } else { named.name.to_string() };
            let steps = scaling.first.steps.iter();
            let points =
                steps.map(|step| Point::within(f64::from(step.devices), step.bytes_per_second, step.spread));
            Series { name, points: points.collect(), ideal: false }
        })
        .collect();
    series.push(ideal(first, alone));
    Chart {
        title: "Scaling over devices".into(),
        x: DEVICES,
        y: Axis { title: "throughput", quantity: Quantity::Rate, logarithmic: false },
        series,
        marks: if alone { levelling(first) } else { Vec::new() },
    }
}

const DEVICES: Axis = Axis { title: "devices", quantity: Quantity::Count, logarithmic: false };

/// What each cell reaches of its baseline: a line for each number of workers and transfer size.
fn cells(run: &Run, scaling: &Scaling) -> Vec<Chart> {
    let job = |curve: &&ScalingCurve| -> Option<AccessJob> {
        let jobs = with_all_sources(run).filter_map(|m| Some(&m.access.as_ref()?.job));
        jobs.into_iter().find(|job| title(job) == curve.cell).cloned()
    };
    let all: Vec<(AccessJob, &ScalingCurve)> =
        scaling.curves().filter_map(|curve| Some((job(&curve)?, curve))).collect();
    let method = |job: &AccessJob| {
        let words = std::iter::once(job_words::pattern(job)).chain(job_words::method(job));
        words.collect::<Vec<_>>().join(", ")
    };
    let one = |wanted: String| {
        let own = all.iter().filter(|(job, _)| method(job) == wanted);
        let line = |(job, curve): &(AccessJob, &ScalingCurve)| Series {
            name: format!("{}, {}", job_words::workers(job), job_words::transfer(job)),
            points: curve.steps.iter().map(|step| Point::at(f64::from(step.devices), step.share)).collect(),
            ideal: false,
        };
        Chart {
            title: format!("Scaling over devices, {wanted}"),
            x: DEVICES,
            y: Axis { title: "of baseline", quantity: Quantity::Share, logarithmic: false },
            series: own.map(line).collect(),
            marks: Vec::new(),
        }
    };
    distinct(all.iter().map(|(job, _)| method(job))).into_iter().map(one).collect()
}

/// The sum of the same devices alone: what was reached ÷ its share of that sum.
fn ideal(scaling: &ScalingCurve, alone: bool) -> Series {
    let steps = scaling.steps.iter().filter(|step| step.share > 0.0);
    let points = steps.map(|step| Point::at(f64::from(step.devices), step.bytes_per_second / step.share));
    let name = if alone { "sum of the devices alone" } else { "sum of the devices alone (first run)" };
    Series { name: name.into(), points: points.collect(), ideal: true }
}

fn levelling(scaling: &ScalingCurve) -> Vec<Mark> {
    let Some(devices) = scaling.levels_off_at else { return Vec::new() };
    let label = format!("levels off at {}", counted(devices, "device"));
    vec![Mark { x: f64::from(devices), y: None, label, below: false }]
}

/// The two charts of a load test; several runs lie over each other.
pub(super) fn loads(runs: &[Named]) -> Vec<Chart> {
    let curves: Vec<(&str, &LoadCurve)> =
        runs.iter().filter_map(|named| Some((named.name, named.run.load.as_ref()?))).collect();
    if curves.is_empty() {
        return Vec::new();
    }
    let open = curves.iter().all(|(_, curve)| curve.points.iter().all(|point| point.offered.is_some()));
    vec![reached(&curves, open), response(&curves, open)]
}

fn place(point: &LoadPoint, open: bool) -> f64 {
    point.offered.filter(|_| open).unwrap_or(f64::from(point.workers))
}

/// What came of the load.
fn reached(curves: &[(&str, &LoadCurve)], open: bool) -> Chart {
    let mut series: Vec<Series> = curves
        .iter()
        .map(|(name, curve)| {
            let points = curve
                .points
                .iter()
                .map(|point| Point::within(place(point, open), point.operations_per_second, point.spread));
            let name = if curves.len() == 1 { "requests done".to_string() } else { name.to_string() };
            Series { name, points: points.collect(), ideal: false }
        })
        .collect();
    if open {
        let offered = curves.iter().flat_map(|(_, curve)| &curve.points).filter_map(|point| point.offered);
        let most = offered.fold(0.0, f64::max);
        series.push(Series {
            name: "all that was offered".into(),
            points: vec![Point::at(0.0, 0.0), Point::at(most, most)],
            ideal: true,
        });
    }
    let xs = || curves.iter().flat_map(|(_, curve)| &curve.points).map(|point| place(point, open));
    let x = if open {
        Axis { title: "requests offered", quantity: Quantity::Operations, logarithmic: false }
    } else {
        Axis { title: "workers", quantity: Quantity::Count, logarithmic: spans_far(xs(), 6.0) }
    };
    Chart {
        title: if open {
            "Requests done against requests offered".into()
        } else {
            "Requests against workers".into()
        },
        x,
        y: Axis { title: "requests", quantity: Quantity::Operations, logarithmic: false },
        series,
        marks: answers(curves, |point| (place(point, open), point.operations_per_second), open, true),
    }
}

/// What it cost in time; in the order of the load, so that a curve that turns back is seen to.
fn response(curves: &[(&str, &LoadCurve)], open: bool) -> Chart {
    let mut series = Vec::new();
    for (name, curve) in curves {
        let line = |what: &str, seconds: fn(&LoadPoint) -> f64| Series {
            name: if curves.len() == 1 { what.to_string() } else { format!("{name}, {what}") },
            points: curve
                .points
                .iter()
                .map(|point| Point::at(point.operations_per_second, seconds(point)))
                .collect(),
            ideal: false,
        };
        series.push(line("mean", |point| point.latency.mean));
        series.push(line("p99", |point| point.latency.p99));
    }
    let far = spans_far(series.iter().flat_map(|series| &series.points).map(|point| point.y), 12.0);
    Chart {
        title: "Response time against requests".into(),
        x: Axis { title: "requests", quantity: Quantity::Operations, logarithmic: false },
        y: Axis { title: "response time", quantity: Quantity::Seconds, logarithmic: far },
        series,
        marks: answers(curves, |point| (point.operations_per_second, point.latency.mean), open, false),
    }
}

fn answers(
    curves: &[(&str, &LoadCurve)],
    at: impl Fn(&LoadPoint) -> (f64, f64),
    open: bool,
    below: bool,
) -> Vec<Mark> {
    let mark = |(name, curve): &(&str, &LoadCurve)| {
        let point = curve.answer()?;
        let (x, y) = at(point);
        let load = if open {
            with_unit(Quantity::Operations, place(point, open))
        } else {
            counted(point.workers, "worker")
        };
        let whose = if curves.len() == 1 { String::new() } else { format!(" of {name}") };
        let what = match curve.level_rate().filter(|_| !open) {
            Some(most) => format!("{} of the most", percent(point.operations_per_second / most)),
            None => "highest".into(),
        };
        Some(Mark { x, y: Some(y), label: format!("{what}{whose}: {load}"), below })
    };
    curves.iter().filter_map(mark).collect()
}
