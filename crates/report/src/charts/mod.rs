//! Line charts of benchmarks as SVG within the page: no script, nothing to load, light or dark with the page,
//! told apart by marker and dash as well as by colour.
//!
//! A `Chart` says what is to be seen; `scale` puts it into numbers for the axes, `draw` into SVG. `access`,
//! `curves` and `memory` make charts of one benchmark, or of several over each other.

mod access;
mod curves;
mod draw;
mod memory;
mod scale;

use crate::markup::{Markup, html};
pub(super) use draw::{SHEET, figure};
use linerate_measure::run::Run;
pub(super) use scale::with_unit;

/// Charts of one page: a file that somebody made must not make a page of a gigabyte.
const MOST_CHARTS: usize = 40;

/// Lines of one chart: more cannot be told apart.
const MOST_SERIES: usize = 8;

/// What an axis measures: how its numbers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quantity {
    /// Bytes per second.
    Rate,
    /// Requests per second.
    Operations,
    Seconds,
    /// Bytes, powers of 1024.
    Size,
    /// Workers, devices, cores.
    Count,
    /// A percentile, drawn by how many nines it has.
    Percentile,
    /// A share of 1, written in percent.
    Share,
}

/// One axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    pub(super) title: &'static str,
    pub(super) quantity: Quantity,
    pub(super) logarithmic: bool,
}

/// One place of a line; `range` is that of the repeats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) range: Option<(f64, f64)>,
}

/// A line and what it is called.
#[derive(Clone, Debug, Default)]
pub(super) struct Series {
    pub(super) name: String,
    pub(super) points: Vec<Point>,
    /// What would be best: thin, without markers.
    pub(super) ideal: bool,
}

/// Something to be pointed at: a place on a line, or (without `y`) a value of the horizontal axis.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    pub(super) x: f64,
    pub(super) y: Option<f64>,
    pub(super) label: String,
    /// The words stand below and to the right: of a line that rises and bends down, where the other side is
    /// its own.
    pub(super) below: bool,
}

/// What is to be seen.
#[derive(Clone, Debug)]
pub(super) struct Chart {
    pub(super) title: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) series: Vec<Series>,
    pub(super) marks: Vec<Mark>,
}

impl Point {
    /// A place without a range.
    pub(super) fn at(x: f64, y: f64) -> Self {
        Point { x, y, range: None }
    }

    /// A value whose repeats lie so far apart as a share of it.
    pub(super) fn within(x: f64, y: f64, spread: f64) -> Self {
        let half = y * spread / 2.0;
        Point { x, y, range: (spread > 0.0).then_some((y - half, y + half)) }
    }

    /// The median of samples, with the lowest and the highest.
    pub(super) fn of_samples(x: f64, y: f64, samples: &[f64]) -> Self {
        let finite = samples.iter().copied().filter(|sample| sample.is_finite());
        let (low, high) = finite.fold((f64::MAX, f64::MIN), |(low, high), s| (low.min(s), high.max(s)));
        Point { x, y, range: (low < high).then_some((low, high)) }
    }
}

/// A run and what it is called among others; alone it needs no name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Named<'a> {
    pub(super) name: &'a str,
    pub(super) run: &'a Run,
}

/// Every chart that the runs have something for; several runs lie over each other.
pub(super) fn of(runs: &[Named]) -> Vec<Chart> {
    let mut charts = access::throughputs(runs);
    charts.extend(curves::scalings(runs));
    charts.extend(curves::loads(runs));
    charts.extend(access::latencies(runs));
    charts.extend(memory::charts(runs));
    charts.retain(|chart| chart.series.iter().any(|series| series.points.len() > 1 && !series.ideal));
    charts
}

/// The charts as a part of a page; nothing where there are none.
pub(super) fn html(runs: &[Named]) -> Markup {
    let charts = of(runs);
    let left = charts.len().saturating_sub(MOST_CHARTS);
    html! {
        @if !charts.is_empty() {
            div class="charts" { @for chart in charts.iter().take(MOST_CHARTS) { (figure(chart)) } }
            p class="caption" {
                "Points are medians; a bar through one reaches from the lowest to the highest repeat."
            }
        }
        @if left > 0 {
            p class="caption" { (left) " more charts would follow; the figures are in " code { "run.json" } "." }
        }
    }
}

/// Values in ascending order, each once; what is not a number is left out.
fn ascending(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    values
}

/// Wide enough apart for equal steps to hide the small values.
fn spans_far(values: impl IntoIterator<Item = f64>, factor: f64) -> bool {
    let sorted = ascending(values.into_iter().filter(|value| *value > 0.0));
    matches!((sorted.first(), sorted.last()), (Some(low), Some(high)) if high / low > factor)
}
