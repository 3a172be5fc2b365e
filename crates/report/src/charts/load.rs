//! Load tests: requests against workers (or against the rate offered), and response time against requests, with the
//! load that gets nearly the most.

use super::{Axis, Chart, Mark, Named, Point, Quantity, Series, spans_far};
use crate::charts::scale::with_unit;
use crate::figure::percent;
use linerate_facts::wording::counted;
use linerate_measure::measure::access::{LoadCurve, LoadPoint};

/// The two charts of a load test; several runs lie over each other.
pub(super) fn charts(runs: &[Named]) -> Vec<Chart> {
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
            let points = curve.points.iter().map(|point| {
                let half = point.operations_per_second * point.spread / 2.0;
                let (low, high) = (point.operations_per_second - half, point.operations_per_second + half);
                let range = (point.spread > 0.0).then_some((low, high));
                Point { x: place(point, open), y: point.operations_per_second, range }
            });
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
