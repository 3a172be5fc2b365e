//! A chart as SVG within a figure: grid, lines, markers, marks, and a key below.

use super::scale::{Scale, drawable, with_unit};
use super::{Axis, Chart, MOST_SERIES, Mark, Point, Quantity, Series, ascending};
use crate::markup::Anchor::{End, Middle, Start};
use crate::markup::{Markup, at, fitted, html, text};

/// Appended to the page's sheet; the variables follow its themes.
pub(crate) const SHEET: &str = include_str!("charts.css");

const WIDTH: f64 = 520.0;
const HEIGHT: f64 = 310.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 44.0;

/// Points of one line: more lie on one pixel.
const MOST_POINTS: usize = 500;

/// Least distance of two words below the axis, for each letter of the longer one.
const LETTER: f64 = 7.2;

/// Least room for the words of a mark.
const ROOM: f64 = 130.0;

/// Dashes by the place of a line in its chart.
const DASHES: [&str; 8] = ["", "8 4", "2 3", "10 3 2 3", "5 2", "1 2 6 2", "12 5", "3 5"];

/// One chart with its scales: what both halves of the drawing need.
struct Plot {
    x: Scale,
    y: Scale,
    axes: (Axis, Axis),
}

impl Plot {
    fn left(&self, x: f64) -> f64 {
        LEFT + self.x.place(x) * (WIDTH - LEFT - RIGHT)
    }

    fn top(&self, y: f64) -> f64 {
        HEIGHT - BOTTOM - self.y.place(y) * (HEIGHT - TOP - BOTTOM)
    }

    fn points<'a>(&'a self, series: &'a Series) -> impl Iterator<Item = &'a Point> + 'a {
        let fits = |point: &&Point| drawable(self.axes.0, point.x) && drawable(self.axes.1, point.y);
        series.points.iter().filter(fits).take(MOST_POINTS)
    }
}

/// The chart, its title above, its key below; nothing where it has no figures.
pub(crate) fn figure(chart: &Chart) -> Markup {
    let shown: Vec<&Series> = chart.series.iter().take(MOST_SERIES + 1).collect();
    let xs = shown.iter().flat_map(|series| &series.points).map(|point| point.x);
    let ys = shown.iter().flat_map(|series| &series.points);
    let ys = ys.flat_map(|point| [point.y, point.range.map_or(point.y, |range| range.1)]);
    let (Some(x), Some(y)) = (Scale::over(chart.x, xs), Scale::over(chart.y, ys)) else { return html! {} };
    let plot = Plot { x, y, axes: (chart.x, chart.y) };
    let left = chart.series.len().saturating_sub(shown.len());
    let label = format!("{}: {}", chart.title, described(chart));
    html! {
        figure class="chart" {
            figcaption { (chart.title) }
            svg class="plot" viewBox=(format!("0 0 {} {}", at(WIDTH), at(HEIGHT))) role="img" aria-label=(label) {
                (grid(&plot, &shown))
                @for (index, series) in shown.iter().enumerate() { (line(&plot, series, index)) }
                @for mark in &chart.marks { (marked(&plot, mark)) }
            }
            ul class="key" {
                @for (index, series) in shown.iter().enumerate() { (key(series, index)) }
                @if left > 0 { li { "and " (left) " more, in run.json" } }
            }
        }
    }
}

/// What the picture says, for those who cannot see it: the last point of each line.
fn described(chart: &Chart) -> String {
    let word = |series: &Series| {
        let best = series.points.last()?;
        let x = with_unit(chart.x.quantity, best.x);
        Some(format!("{} {} at {} {x}", series.name, with_unit(chart.y.quantity, best.y), chart.x.title))
    };
    chart.series.iter().take(MOST_SERIES).filter_map(word).collect::<Vec<_>>().join("; ")
}

fn grid(plot: &Plot, shown: &[&Series]) -> Markup {
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    let across = |top: f64| format!("M{} {}H{}", at(LEFT), at(top), at(right));
    html! {
        @for (value, word) in plot.y.ticks() {
            path class="grid" d=(across(plot.top(value))) {}
            (text("", LEFT - 7.0, plot.top(value) + 4.0, End, &word))
        }
        @for (value, word) in horizontal_ticks(plot, shown) {
            path class="axis" d=(format!("M{} {}v4", at(plot.left(value)), at(bottom))) {}
            (text("", plot.left(value), bottom + 18.0, Middle, &word))
        }
        path class="axis" d=(across(bottom)) {}
        (text("", 4.0, 12.0, Start, &plot.y.title()))
        (text("", right, HEIGHT - 6.0, End, &plot.x.title()))
    }
}

/// Values that the user chose are named themselves, as many as have room; else round ones.
fn horizontal_ticks(plot: &Plot, shown: &[&Series]) -> Vec<(f64, String)> {
    let chosen = matches!(plot.axes.0.quantity, Quantity::Count | Quantity::Size);
    let candidates = if chosen {
        let drawn = shown.iter().flat_map(|series| plot.points(series)).map(|point| point.x);
        plot.x.ticks_of(&ascending(drawn))
    } else {
        plot.x.ticks()
    };
    let mut kept: Vec<(f64, String)> = Vec::new();
    // From the right, so that the largest value always has its word.
    for (value, word) in candidates.into_iter().rev() {
        let room = kept.last().map_or(f64::MAX, |(last, _)| plot.left(*last) - plot.left(value));
        let longest = kept.last().map_or(0, |(_, last)| last.chars().count().max(word.chars().count()));
        if room >= longest as f64 * LETTER + 6.0 {
            kept.push((value, word));
        }
    }
    kept
}

fn line(plot: &Plot, series: &Series, index: usize) -> Markup {
    let places: Vec<(f64, f64)> =
        plot.points(series).map(|point| (plot.left(point.x), plot.top(point.y))).collect();
    let path: Vec<String> = places.iter().map(|(x, y)| format!("{} {}", at(*x), at(*y))).collect();
    if path.is_empty() {
        return html! {};
    }
    let path = format!("M{}", path.join("L"));
    if series.ideal {
        return html! { path class="ideal" d=(path) {} };
    }
    let range = |x: f64, (low, high): (f64, f64)| {
        let (low, high) = (at(plot.top(low.max(0.0))), at(plot.top(high)));
        let (x, left) = (at(x), at(x - 3.0));
        format!("M{x} {low}V{high}M{left} {low}h6M{left} {high}h6")
    };
    let label_text = |point: &Point| {
        let (x, y) = (plot.axes.0.quantity, plot.axes.1.quantity);
        format!("{}: {} at {}", series.name, with_unit(y, point.y), with_unit(x, point.x))
    };
    html! {
        g class=(format!("s{}", index % 8)) {
            path class="line" stroke-dasharray=[dash(index)] d=(path) {}
            @for (point, (x, y)) in plot.points(series).zip(&places) {
                @if let Some(ends) = point.range { path class="range" d=(range(*x, ends)) {} }
                (marker(index, *x, *y, html! { title { (label_text(point)) } }))
            }
        }
    }
}

fn dash(index: usize) -> Option<&'static str> {
    Some(DASHES[index % 8]).filter(|dashes| !dashes.is_empty())
}

/// A shape for each line, so that lines can be told apart without colour.
fn marker(index: usize, x: f64, y: f64, inside: Markup) -> Markup {
    let (class, shape) = match index % 8 {
        0 => ("dot", "m-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z"),
        1 => ("dot", "m-4 -4h8v8h-8z"),
        2 => ("dot", "m0 -5.5l5 9h-10z"),
        3 => ("dot", "m0 -5.5l5.5 5.5l-5.5 5.5l-5.5 -5.5z"),
        4 => ("open", "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z"),
        5 => ("open", "m-3.5 -3.5h7v7h-7z"),
        6 => ("bar", "m-4 -4l8 8m0 -8l-8 8"),
        _ => ("bar", "m-5 0h10m-5 -5v10"),
    };
    html! { path class=(class) d=(format!("M{} {}{shape}", at(x), at(y))) { (inside) } }
}

fn marked(plot: &Plot, mark: &Mark) -> Markup {
    if !drawable(plot.axes.0, mark.x) {
        return html! {};
    }
    let x = plot.left(mark.x);
    // The words go to the side that has room.
    let left = if mark.y.is_some() { !mark.below } else { x > (LEFT + WIDTH) / 2.0 };
    let left = if x < LEFT + ROOM { false } else { left || x > WIDTH - RIGHT - ROOM };
    let (anchor, shift, room) = if left { (End, -9.0, x - LEFT) } else { (Start, 9.0, WIDTH - RIGHT - x) };
    let label = fitted(&mark.label, room - 9.0, 12.0);
    let label_text = |top: f64| text("said", x + shift, top, anchor, &label);
    match mark.y.filter(|y| drawable(plot.axes.1, *y)).map(|y| plot.top(y)) {
        Some(y) if mark.below => html! { (ring(x, y)) (label_text((y + 24.0).min(HEIGHT - BOTTOM - 6.0))) },
        Some(y) => html! { (ring(x, y)) (label_text((y - 12.0).max(TOP + 4.0))) },
        None => html! {
            path class="mark" d=(format!("M{} {}V{}", at(x), at(TOP - 4.0), at(HEIGHT - BOTTOM))) {}
            (label_text(HEIGHT - BOTTOM - 12.0))
        },
    }
}

fn ring(x: f64, y: f64) -> Markup {
    html! { circle class="ring" cx=(at(x)) cy=(at(y)) r="9" {} }
}

fn key(series: &Series, index: usize) -> Markup {
    let class = if series.ideal { "ideal-key".to_string() } else { format!("s{}", index % 8) };
    html! {
        li {
            svg class=(class) width="34" height="14" aria-hidden="true" {
                @if series.ideal {
                    path class="ideal" d="M1 7H33" {}
                } @else {
                    path class="line" stroke-dasharray=[dash(index)] d="M1 7H33" {}
                    (marker(index, 17.0, 7.0, html! {}))
                }
            }
            (series.name)
        }
    }
}
