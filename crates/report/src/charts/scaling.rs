//! Rate against the number of devices, with the line that a whole device more each time would make.

use super::{Axis, Chart, Mark, Named, Point, Quantity, Series};
use linerate_measure::measure::Scaling;

/// One chart; several runs lie over each other.
pub(super) fn charts(runs: &[Named]) -> Vec<Chart> {
    let scaled: Vec<(&Named, &Scaling)> =
        runs.iter().filter_map(|named| Some((named, named.run.scaling.as_ref()?))).collect();
    let Some((_, first)) = scaled.first() else { return Vec::new() };
    let alone = scaled.len() == 1;
    let mut series: Vec<Series> = scaled
        .iter()
        .map(|(named, scaling)| Series {
            name: if alone { "measured".into() } else { named.name.to_string() },
            points: scaling
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
    let marks = if alone { levelling(first) } else { Vec::new() };
    vec![Chart {
        title: "Scaling over devices".into(),
        x: Axis { title: "devices", quantity: Quantity::Count, logarithmic: false },
        y: Axis { title: "throughput", quantity: Quantity::Rate, logarithmic: false },
        series,
        marks,
    }]
}

/// The sum of the same devices alone: what was reached ÷ its share of that sum.
fn ideal(scaling: &Scaling, alone: bool) -> Series {
    let steps = scaling.steps.iter().filter(|step| step.share > 0.0);
    let points = steps.map(|step| Point::at(f64::from(step.devices), step.bytes_per_second / step.share));
    let name = if alone { "sum of the devices alone" } else { "sum of the devices alone (first run)" };
    Series { name: name.into(), points: points.collect(), ideal: true }
}

fn levelling(scaling: &Scaling) -> Vec<Mark> {
    let Some(devices) = scaling.levels_off_at else { return Vec::new() };
    let label = match devices {
        1 => "levels off at 1 device".to_string(),
        devices => format!("levels off at {devices} devices"),
    };
    vec![Mark { x: f64::from(devices), y: None, label, below: false }]
}
