//! Rate against the number of devices, with the line that a whole device more each time would make; of a grid
//! what each cell reaches of its baseline.

use super::{Axis, Chart, Mark, Named, Point, Quantity, Series, distinct};
use crate::job_words;
use crate::scalability::with_all_sources;
use linerate_facts::wording::counted;
use linerate_measure::measure::Scaling;
use linerate_measure::measure::access::{AccessJob, ScalingCurve, title};
use linerate_measure::run::Run;

/// One chart, or of a grid one for each thing that is done; several runs lie over each other, each with its
/// first cell.
pub(super) fn charts(runs: &[Named]) -> Vec<Chart> {
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
        .map(|(named, scaling)| Series {
            name: if alone { "measured".into() } else { named.name.to_string() },
            points: scaling
                .first
                .steps
                .iter()
                .map(|step| {
                    let half = step.bytes_per_second * step.spread / 2.0;
                    let range = (step.spread > 0.0)
                        .then_some((step.bytes_per_second - half, step.bytes_per_second + half));
                    Point { x: f64::from(step.devices), y: step.bytes_per_second, range }
                })
                .collect(),
            ideal: false,
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
