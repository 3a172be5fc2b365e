//! A chart as SVG within a figure: grid, lines, markers, marks, and a key below.

use super::scale::{Scale, drawable, with_unit};
use super::{Axis, Chart, MOST_SERIES, Mark, Point, Quantity, Series, ascending};
use crate::report::html::text::{at, escape, fitted};

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
pub(in crate::report) fn figure(chart: &Chart) -> String {
    let shown: Vec<&Series> = chart.series.iter().take(MOST_SERIES + 1).collect();
    let xs = shown.iter().flat_map(|series| &series.points).map(|point| point.x);
    let ys = shown.iter().flat_map(|series| &series.points);
    let ys = ys.flat_map(|point| [point.y, point.range.map_or(point.y, |range| range.1)]);
    let (Some(x), Some(y)) = (Scale::over(chart.x, xs), Scale::over(chart.y, ys)) else {
        return String::new();
    };
    let plot = Plot { x, y, axes: (chart.x, chart.y) };
    let title = escape(&chart.title);
    let mut svg = format!(
        "<svg class=\"plot\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{title}: {}\">",
        at(WIDTH),
        at(HEIGHT),
        escape(&described(chart))
    );
    svg += &grid(&plot, &shown);
    for (index, series) in shown.iter().enumerate() {
        svg += &line(&plot, series, index);
    }
    for mark in &chart.marks {
        svg += &marked(&plot, mark);
    }
    svg += "</svg>";
    let left = chart.series.len().saturating_sub(shown.len());
    let more = if left > 0 { format!("<li>and {left} more, in run.json</li>") } else { String::new() };
    let key: String = shown.iter().enumerate().map(|(index, series)| key(series, index)).collect();
    format!(
        "<figure class=\"chart\"><figcaption>{title}</figcaption>{svg}<ul class=\"key\">{key}{more}</ul></figure>"
    )
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

fn grid(plot: &Plot, shown: &[&Series]) -> String {
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    let mut svg = String::new();
    for (value, word) in plot.y.ticks() {
        let top = plot.top(value);
        svg += &format!("<path class=\"grid\" d=\"M{} {}H{}\"/>", at(LEFT), at(top), at(right));
        svg += &format!(
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{word}</text>",
            at(LEFT - 7.0),
            at(top + 4.0)
        );
    }
    for (value, word) in horizontal_ticks(plot, shown) {
        let left = plot.left(value);
        svg += &format!("<path class=\"axis\" d=\"M{} {}v4\"/>", at(left), at(bottom));
        svg += &format!(
            "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{word}</text>",
            at(left),
            at(bottom + 18.0)
        );
    }
    svg += &format!("<path class=\"axis\" d=\"M{} {}H{}\"/>", at(LEFT), at(bottom), at(right));
    svg += &format!("<text x=\"{}\" y=\"{}\">{}</text>", at(4.0), at(12.0), escape(&plot.y.title()));
    svg + &format!(
        "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
        at(right),
        at(HEIGHT - 6.0),
        escape(&plot.x.title())
    )
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

fn line(plot: &Plot, series: &Series, index: usize) -> String {
    let places: Vec<(f64, f64)> =
        plot.points(series).map(|point| (plot.left(point.x), plot.top(point.y))).collect();
    let path: Vec<String> = places.iter().map(|(x, y)| format!("{} {}", at(*x), at(*y))).collect();
    if path.is_empty() {
        return String::new();
    }
    let path = format!("M{}", path.join("L"));
    if series.ideal {
        return format!("<path class=\"ideal\" d=\"{path}\"/>");
    }
    let mut svg = format!("<g class=\"s{}\"><path class=\"line\"{} d=\"{path}\"/>", index % 8, dash(index));
    for (point, (x, y)) in plot.points(series).zip(&places) {
        if let Some((low, high)) = point.range {
            let (low, high) = (plot.top(low.max(0.0)), plot.top(high));
            svg += &format!(
                "<path class=\"range\" d=\"M{x} {}V{}M{} {}h6M{} {}h6\"/>",
                at(low),
                at(high),
                at(x - 3.0),
                at(low),
                at(x - 3.0),
                at(high),
                x = at(*x)
            );
        }
        let said = format!(
            "{}: {} at {}",
            series.name,
            with_unit(plot.axes.1.quantity, point.y),
            with_unit(plot.axes.0.quantity, point.x)
        );
        svg += &marker(index, *x, *y, &format!("<title>{}</title>", escape(&said)));
    }
    svg + "</g>"
}

fn dash(index: usize) -> String {
    match DASHES[index % 8] {
        "" => String::new(),
        dashes => format!(" stroke-dasharray=\"{dashes}\""),
    }
}

/// A shape for each line, so that it can be told without colour.
fn marker(index: usize, x: f64, y: f64, inside: &str) -> String {
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
    format!("<path class=\"{class}\" d=\"M{} {}{shape}\">{inside}</path>", at(x), at(y))
}

fn marked(plot: &Plot, mark: &Mark) -> String {
    if !drawable(plot.axes.0, mark.x) {
        return String::new();
    }
    let x = plot.left(mark.x);
    // The words go to the side that has room.
    let left = if mark.y.is_some() { !mark.below } else { x > (LEFT + WIDTH) / 2.0 };
    let left = if x < LEFT + ROOM { false } else { left || x > WIDTH - RIGHT - ROOM };
    let (anchor, shift) = if left { ("end", -9.0) } else { ("start", 9.0) };
    let room = if shift < 0.0 { x - LEFT } else { WIDTH - RIGHT - x };
    let label = escape(&fitted(&mark.label, room - 9.0, 12.0));
    let said = |top: f64| {
        format!(
            "<text class=\"said\" x=\"{}\" y=\"{}\" text-anchor=\"{anchor}\">{label}</text>",
            at(x + shift),
            at(top)
        )
    };
    match mark.y.filter(|y| drawable(plot.axes.1, *y)) {
        Some(y) => {
            let y = plot.top(y);
            let ring = format!("<circle class=\"ring\" cx=\"{}\" cy=\"{}\" r=\"9\"/>", at(x), at(y));
            ring + &said(if mark.below {
                (y + 24.0).min(HEIGHT - BOTTOM - 6.0)
            } else {
                (y - 12.0).max(TOP + 4.0)
            })
        }
        None => {
            let line =
                format!("<path class=\"mark\" d=\"M{} {}V{}\"/>", at(x), at(TOP - 4.0), at(HEIGHT - BOTTOM));
            line + &said(HEIGHT - BOTTOM - 12.0)
        }
    }
}

fn key(series: &Series, index: usize) -> String {
    let (class, inside) = if series.ideal {
        ("ideal-key".to_string(), "<path class=\"ideal\" d=\"M1 7H33\"/>".to_string())
    } else {
        let line = format!("<path class=\"line\"{} d=\"M1 7H33\"/>", dash(index));
        (format!("s{}", index % 8), line + &marker(index, 17.0, 7.0, ""))
    };
    format!(
        "<li><svg class=\"{class}\" width=\"34\" height=\"14\" aria-hidden=\"true\">{inside}</svg>{}</li>",
        escape(&series.name)
    )
}
