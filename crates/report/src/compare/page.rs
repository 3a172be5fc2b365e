//! The comparison as one HTML page: unlike machines first, the plots of all runs over each other, every row
//! with its intervals.

use super::text::{summaries, verdict_word};
use super::{ComparedFigure, Comparison, Detail, Quantity, Rate, SampleComparison, Side};
use crate::charts::{self, Named};
use crate::html::document;
use crate::html::pieces::{card, heading, kept_together, table as scrolling};
use crate::markup::{Markup, at, html};
use linerate_measure::run::Run;
use std::path::PathBuf;

/// Of the picture of the intervals.
const WIDTH: f64 = 190.0;
const LINE: f64 = 14.0;

const STYLE: &str = "\
.verdict{white-space:nowrap}.verdict.higher{color:var(--good);font-weight:650}.verdict.lower{color:var(--cut);font-weight:650}\
.verdict.same,.verdict.few{color:var(--soft)}\
.intervals{display:block;background:var(--faint);border-radius:4px}.intervals \
path.iv{stroke-width:6;stroke:var(--used);opacity:.55}\
.intervals circle{fill:var(--ink)}.intervals.first path.iv{stroke:var(--soft)}\
section.unlike{border:2px solid var(--warn)}section.unlike h2{color:var(--warn)}\
table.comparison{min-width:860px}table.comparison tbody \
th{vertical-align:top;max-width:300px}table.comparison tbody \
tr:last-child>*{border-bottom-color:var(--line)}table.comparison \
td{vertical-align:middle;padding-top:3px;padding-bottom:3px}";

/// The whole page; the runs themselves give the plots.
pub(crate) fn page(comparison: &Comparison, runs: &[(PathBuf, Run)]) -> String {
    let named: Vec<Named> = comparison
        .runs
        .iter()
        .zip(runs)
        .filter(|(_, (_, run))| run.stage.is_some())
        .map(|(side, (_, run))| Named { name: &side.label, run })
        .collect();
    let charts = charts::html(&named);
    let body = html! {
        (header(comparison))
        main {
            (unlike(comparison))
            (verdicts(comparison))
            (rows(comparison))
            (details(comparison))
            (answers(comparison))
            @if !charts.0.is_empty() { (card("charts", "Charts", html! {}, charts)) }
            (only(comparison))
            (sources(comparison))
        }
    };
    let labels: Vec<&str> = comparison.runs.iter().map(|run| run.label.as_str()).collect();
    document(&format!("{} – linerate", labels.join(", ")), &format!("{}{STYLE}", charts::SHEET), body)
}

fn header(comparison: &Comparison) -> Markup {
    let sentences = summaries(comparison);
    html! {
        header {
            p class="kicker" { "linerate compare" }
            p class="subject kicker" { @for run in &comparison.runs { span { (run.label) } } }
            @if let [one] = sentences.as_slice() {
                h1 class="long" { (one) }
            } @else {
                h1 class="long" { (comparison.runs.len()) " runs side by side" }
                ul { @for sentence in &sentences { li { (sentence) } } }
            }
        }
    }
}

/// A table whose first column is words and which has one more for each run.
fn table(comparison: &Comparison, rows: Markup) -> Markup {
    let head = html! {
        (heading(false, html! {}))
        @for run in &comparison.runs { (heading(false, html! { (run.label) })) }
    };
    scrolling("plain", head, html! { tbody { (rows) } })
}

fn cells(what: &str, values: &[String]) -> Markup {
    html! { tr { th scope="row" { (what) } @for value in values { td { (value) } } } }
}

/// What each run of the whole path achieved and what limits it; nothing where stages alone were measured.
fn verdicts(comparison: &Comparison) -> Markup {
    let runs = || comparison.runs.iter().filter(|run| !run.verdict.is_empty());
    let body = html! {
        @for run in runs() { p { b { (run.label) } ": " (kept_together(&run.verdict)) } }
    };
    if runs().next().is_none() {
        html! {}
    } else {
        card("verdicts", "Verdicts", html! {}, body)
    }
}

fn unlike(comparison: &Comparison) -> Markup {
    let rows = html! { @for fact in &comparison.unlike { (cells(&fact.what, &fact.values)) } };
    html! {
        @if !comparison.unlike.is_empty() {
            section class="unlike" aria-labelledby="unlike-h" {
                h2 id="unlike-h" { "The machines are not alike: a difference may be theirs" }
                (table(comparison, rows))
            }
        }
    }
}

fn rows(comparison: &Comparison) -> Markup {
    if comparison.rows.is_empty() {
        return html! {};
    }
    let heads = [
        (false, "measurement"),
        (false, "run"),
        (true, "rate"),
        (false, "against the first"),
        (false, "intervals, a scale for each measurement"),
        (false, "notes"),
    ];
    let head = html! { @for (numbers, name) in heads { (heading(numbers, html! { (name) })) } };
    let lines = html! { @for row in &comparison.rows { (of_row(comparison, row)) } };
    let intro = html! {
        "Medians. A difference is called one only where the 95 % intervals of the repeats part; the figures in brackets are \
         the least and the largest difference that the intervals allow. With 3 to 5 repeats the interval is Student’s, with 6 \
         and more that of the median by order statistics. What changed between the runs beside what you changed is in no \
         interval."
    };
    card("rows", "Measurements", intro, scrolling("comparison", head, lines))
}

/// A line for each run that measured it, the name before all of them.
fn of_row(comparison: &Comparison, row: &ComparedFigure) -> Markup {
    let stage = comparison.runs.iter().any(|run| run.command == "run");
    let scale = Scale::over(row);
    let sides = comparison.runs.iter().zip(&row.figures).zip(&row.against_first);
    let lines: Vec<_> =
        sides.filter_map(|((run, figure), against)| Some((run, figure.as_ref()?, against))).collect();
    html! {
        tbody {
            @for (index, (run, figure, against)) in lines.iter().enumerate() {
                tr {
                    @if index == 0 {
                        th scope="rowgroup" rowspan=(lines.len()) {
                            (row.name) @if stage { " " span class="note" { (row.stage) } }
                        }
                    }
                    td { (run.label) }
                    td class="r num" { b { (row.shown(figure)) } }
                    @if let Some(against) = against {
                        td class={ "verdict " (class(against.verdict)) } { (verdict_word(against)) }
                    } @else {
                        td {}
                    }
                    td { (picture(row, figure, &scale, against.is_none())) }
                    td { @for flag in &figure.flags { span class="chip" { (flag) } " " } }
                }
            }
        }
    }
}

fn class(verdict: SampleComparison) -> &'static str {
    match verdict {
        SampleComparison::Higher => "higher",
        SampleComparison::Lower => "lower",
        SampleComparison::NoDifferenceShown => "same",
        SampleComparison::TooFewSamples => "few",
    }
}

/// Least and largest end of all intervals of a row.
struct Scale {
    from: f64,
    width: f64,
}

impl Scale {
    fn over(row: &ComparedFigure) -> Self {
        let ends = row.figures.iter().flatten().flat_map(|figure| {
            let middle = figure.bytes_per_second;
            figure.interval.map_or([middle, middle], |interval| [interval.low, interval.high])
        });
        let (low, high) = ends.fold((f64::MAX, 0.0f64), |(low, high), end| (low.min(end), high.max(end)));
        // Equal figures shall not fill the whole width with their last digit.
        let width = (high - low).max(high * 0.02).max(f64::MIN_POSITIVE);
        Scale { from: (low + high - width) / 2.0, width }
    }

    fn place(&self, value: f64) -> f64 {
        5.0 + ((value - self.from) / self.width).clamp(0.0, 1.0) * (WIDTH - 10.0)
    }
}

/// A bar from end to end of the interval, a dot at the median.
fn picture(row: &ComparedFigure, figure: &Rate, scale: &Scale, first: bool) -> Markup {
    let range = figure.interval.map(|interval| row.unit().show_range(interval.low.max(0.0), interval.high));
    let said = range.unwrap_or_else(|| "too few samples for an interval".into());
    let class = if first { "intervals first" } else { "intervals" };
    let (w, h, y) = (at(WIDTH), at(LINE), at(LINE / 2.0));
    let bar = figure.interval.map(|interval| {
        let (low, high) = (scale.place(interval.low), scale.place(interval.high));
        format!("M{} {y}H{}", at(low), at(high.max(low + 1.5)))
    });
    html! {
        svg class=(class) width=(w) height=(h) viewBox=(format!("0 0 {w} {h}")) role="img" aria-label=(said) {
            title { (said) }
            @if let Some(bar) = bar { path class="iv" d=(bar) {} }
            circle cx=(at(scale.place(figure.bytes_per_second))) cy=(y) r="3" {}
        }
    }
}

/// A row for each latency, processor time and knee; what differs is coloured by whether it is better.
fn details(comparison: &Comparison) -> Markup {
    if comparison.details.is_empty() {
        return html! {};
    }
    let rows = html! { @for detail in &comparison.details { (of_detail(comparison, detail)) } };
    let intro = html! { "Medians of the repeats, judged as the rates are. Of latency and processor time less is better." };
    card("details", "Latency, processor time, knees", intro, table(comparison, rows))
}

fn of_detail(comparison: &Comparison, detail: &Detail) -> Markup {
    let figure = |index: usize| detail.figures.get(index).copied().flatten();
    let against = |index: usize| detail.against_first.get(index).copied().flatten();
    html! {
        tr {
            th scope="row" { (detail.quantity.word()) ": " (detail.name) }
            @for index in 0..comparison.runs.len() {
                td {
                    @if let Some(figure) = figure(index) {
                        (detail.quantity.show(figure.median))
                        @if let Some(against) = against(index) {
                            " "
                            span class={ "verdict " (class(goodness(detail.quantity, against.verdict))) } {
                                (verdict_word(&against))
                            }
                        }
                    } @else {
                        "–"
                    }
                }
            }
        }
    }
}

/// Higher is better for a rate and a knee, lower for all that is paid.
fn goodness(quantity: Quantity, verdict: SampleComparison) -> SampleComparison {
    match (quantity, verdict) {
        (Quantity::Knee, verdict) => verdict,
        (_, SampleComparison::Higher) => SampleComparison::Lower,
        (_, SampleComparison::Lower) => SampleComparison::Higher,
        (_, verdict) => verdict,
    }
}

fn answers(comparison: &Comparison) -> Markup {
    if comparison.answers.is_empty() {
        return html! {};
    }
    let rows = html! { @for answer in &comparison.answers { (cells(&answer.question, &answer.answers)) } };
    let intro = html! { "Each run found its own; they have no interval." };
    card("answers", "Answers", intro, table(comparison, rows))
}

fn only(comparison: &Comparison) -> Markup {
    if comparison.only.is_empty() {
        return html! {};
    }
    let body = html! {
        details {
            summary { (comparison.only.len()) " measurements" }
            ul { @for only in &comparison.only { li { (only.run) ": " (only.stage) " " (only.name) } } }
        }
    };
    card("only", "In one run only", html! {}, body)
}

fn sources(comparison: &Comparison) -> Markup {
    let head = html! {
        @for name in ["run", "command", "host", "started", "linerate", "result", "file"] {
            (heading(false, html! { (name) }))
        }
    };
    let row = |run: &Side| {
        let partial = if run.partial { "partial: something failed" } else { "whole" };
        let file = run.file.display().to_string();
        cells(
            &run.label,
            &[
                run.command.clone(),
                run.host.clone(),
                run.started.clone(),
                run.version.clone(),
                partial.into(),
                file,
            ],
        )
    };
    let rows = html! { tbody { @for run in &comparison.runs { (row(run)) } } };
    card("runs", "Runs", html! {}, scrolling("plain", head, rows))
}
