//! A comparison as a screen and as a page: what is unlike, a row for each rate of each run, what only one run has; on the page
//! with the plots of all runs over each other and every row with its intervals.

use super::{ComparedFigure, Comparison, Detail, Difference, Quantity, Rate, SampleComparison, Side};
use crate::charts::{self, Named};
use crate::document::{
    Block, Cell, Document, Media, Part, Table, TableRow, alarm, bold, dim, drawn, list, plain,
};
use crate::figure::percent;
use crate::grid::{Column, Style, name, notes, number, text};
use crate::markup::{Markup, at, html};
use linerate_facts::printable::shortened;
use linerate_facts::wording::counted;
use linerate_measure::measure::statistics::LEAST_SAMPLES;
use linerate_measure::run::Run;
use std::path::PathBuf;

/// Measurements of one run alone that a screen names; more are counted.
const ONLY_SHOWN: usize = 6;

/// From this ratio on it is shown as one.
const TIMES_FROM: f64 = 2.0;

/// Letters of a run's name at the head of a column.
const HEAD: usize = 18;

/// Of the picture of the intervals.
const WIDTH: f64 = 190.0;
const LINE: f64 = 14.0;

const STYLE: &str = "\
.verdict{white-space:nowrap}.verdict.higher{color:var(--good);font-weight:650}.verdict.lower{color:var(--cut);font-weight:650}\
.verdict.same,.verdict.few{color:var(--soft)}\
.intervals{display:block;background:var(--faint);border-radius:4px}.intervals \
path.iv{stroke-width:6;stroke:var(--used);opacity:.55}\
.intervals circle{fill:var(--ink)}.intervals.first path.iv{stroke:var(--soft)}\
#unlike{border:2px solid var(--warn)}#unlike h2{color:var(--warn)}";

const ROWS: &str = "Medians. A difference is called one only where the 95 % intervals of the repeats do not overlap; the figures in brackets are \
     the least and the largest difference that the intervals allow. With 3 to 5 repeats the interval is Student’s, with 6 and more \
     that of the median by order statistics. What changed between the runs beside what you changed is in no interval.";
const DETAILS: &str =
    "Medians of the repeats, judged as the rates are. Of latency and processor time less is better.";
const LONG: [Column; 6] = [
    name("measurement"),
    text("run", 0),
    number("rate", 0),
    text("against the first", 0),
    text("intervals, a scale for each measurement", 0).page_only(),
    notes("notes").page_only(),
];
const BESIDE: [Column; 4] =
    [name("beside the rate"), text("run", 0), number("", 0), text("against the first", 0)];
const SIDES: [Column; 7] = [
    name("run"),
    text("command", 0),
    text("host", 1),
    text("started", 2),
    text("result", 3),
    text("linerate", 0).page_only(),
    text("file", 0).page_only(),
];

/// For a terminal, at most `width` columns wide; a newline at its end.
pub fn screen(comparison: &Comparison, width: usize, colour: bool) -> String {
    let heads = heads(comparison);
    let style = Style::of(width, colour).with_tables_of(60);
    document(comparison, &heads, &[]).screen(width.clamp(40, 140), style)
}

/// The whole page; the runs themselves give the plots.
pub fn page(comparison: &Comparison, runs: &[(PathBuf, Run)]) -> String {
    document(comparison, &heads(comparison), runs).page()
}

fn document<'a>(comparison: &'a Comparison, heads: &'a [String], runs: &[(PathBuf, Run)]) -> Document<'a> {
    let sides = comparison.runs.iter().zip(runs).filter(|(_, (_, run))| run.stage.is_some());
    let named: Vec<Named> = sides.map(|(side, (_, run))| Named { name: &side.label, run }).collect();
    let charts = charts::html(&named);
    let summaries = summaries(comparison);
    let several = (summaries.len() != 1).then(|| format!("{} runs side by side", comparison.runs.len()));
    let several = several.map(|words| bold(words).on(Media::Page));
    let mut parts = vec![sides_part(comparison), unlike(comparison)];
    parts.extend(figures(comparison, heads));
    parts.push(drawn("charts", "Charts", charts));
    parts.push(only(comparison));
    let labels: Vec<&str> = comparison.runs.iter().map(|run| run.label.as_str()).collect();
    let heading = format!("compared with {}", labels.first().copied().unwrap_or_default());
    Document {
        tab: format!("{} – linerate", labels.join(", ")),
        heading,
        about: vec!["linerate compare".into()],
        answer: several.into_iter().chain(summaries.into_iter().map(bold)).collect(),
        sheet: format!("{}{STYLE}", charts::SHEET),
        parts,
        ..Document::default()
    }
}

/// Which runs those are, and what each of the whole path achieved and what limits it.
fn sides_part(comparison: &Comparison) -> Part<'static> {
    let row = |run: &Side| {
        let partial = if run.partial { "partial: something failed" } else { "whole" };
        let Side { label, file, host, started, version, command, .. } = run;
        let file = file.display().to_string();
        let cells = [label.as_str(), command, host, started, partial, version, &file].map(str::to_string);
        let verdict = (!run.verdict.is_empty()).then(|| plain(&run.verdict));
        TableRow::of(cells).with_notes(verdict.into_iter().collect())
    };
    let blocks = vec![Block::Space, Block::Table(Table::new(SIDES, comparison.runs.iter().map(row)))];
    Part { id: "runs", title: "Runs", blocks, ..Part::default() }
}

/// What of the machines may be why they differ.
fn unlike(comparison: &Comparison) -> Part<'_> {
    let mut blocks = Vec::new();
    if !comparison.unlike.is_empty() {
        let heading = Block::Text(alarm("unlike machines: a difference may be theirs").on(Media::Terminal));
        let all = comparison.unlike.iter();
        let lines = list(all.clone().map(|fact| format!("{}: {}", fact.what, fact.values.join(" | "))));
        let rows = all.map(|fact| (fact.what.clone(), fact.values.clone())).collect();
        let table = Block::On(Media::Page, by_run(comparison, rows));
        blocks = vec![Block::Space, heading, Block::On(Media::Terminal, vec![lines]), table];
    }
    Part { id: "unlike", title: "Unlike machines: a difference may be theirs", blocks, ..Part::default() }
}

/// A column for each run; nothing without rows.
fn by_run(comparison: &Comparison, rows: Vec<(String, Vec<String>)>) -> Vec<Block<'_>> {
    if rows.is_empty() {
        return Vec::new();
    }
    let columns: Vec<Column> =
        std::iter::once(name("")).chain(comparison.runs.iter().map(|run| text(&run.label, 0))).collect();
    let row = |(what, values): (String, Vec<String>)| TableRow::of(std::iter::once(what).chain(values));
    vec![Block::Table(Table::new(columns, rows.into_iter().map(row)).whole())]
}

/// Rates, what a rate does not tell, and answers that have no samples.
fn figures<'a>(comparison: &'a Comparison, heads: &'a [String]) -> [Part<'a>; 3] {
    let mut blocks = Vec::new();
    if !comparison.rows.is_empty() {
        let long = Block::Table(Table::new(LONG, long_rows(comparison, heads)));
        blocks = match two_runs(comparison, heads) {
            Some(short) => {
                vec![
                    Block::Space,
                    Block::On(Media::Terminal, vec![short]),
                    Block::On(Media::Page, vec![long]),
                ]
            }
            None => vec![Block::Space, long],
        };
    }
    let rows = Part { id: "rows", title: "Measurements", intro: ROWS.into(), blocks, ..Part::default() };
    let all: Vec<&Detail> = comparison.details.iter().collect();
    let differing: Vec<&Detail> = all.iter().copied().filter(|detail| detail.differs()).collect();
    let table =
        |details: &[&Detail]| Block::Table(Table::new(BESIDE, detail_rows(comparison, heads, details)));
    let mut blocks = Vec::new();
    if !differing.is_empty() {
        blocks.push(Block::On(Media::Terminal, vec![Block::Space, table(&differing)]));
    }
    if !all.is_empty() {
        blocks.push(Block::On(Media::Page, vec![table(&all)]));
    }
    let title = "Latency, processor time, knees";
    let details = Part { id: "details", title, intro: DETAILS.into(), blocks, ..Part::default() };
    let sentence = |answer: &super::Answer| {
        let of_run = |(run, answer): (&Side, &String)| format!("{} {answer}", run.label);
        let all: Vec<String> = comparison.runs.iter().zip(&answer.answers).map(of_run).collect();
        Block::Text(plain(format!("{}: {}", answer.question, all.join("; "))))
    };
    let answers = comparison.answers.iter();
    let table = answers.clone().map(|one| (one.question.clone(), one.answers.clone())).collect();
    let blocks = vec![
        Block::On(Media::Terminal, answers.map(sentence).collect()),
        Block::On(Media::Page, by_run(comparison, table)),
    ];
    let intro = "Each run found its own; they have no interval.".into();
    let answers = Part { id: "answers", title: "Answers", intro, blocks, ..Part::default() };
    [rows, details, answers]
}

/// Two runs side by side; more stand below each other, since a screen is not that wide.
fn two_runs<'a>(comparison: &Comparison, heads: &'a [String]) -> Option<Block<'a>> {
    let [first, second] = heads else { return None };
    let row = |row: &ComparedFigure| {
        let rates =
            row.figures.iter().map(|figure| figure.as_ref().map_or("–".into(), |rate| row.shown(rate)));
        let verdicts =
            row.against_first.iter().skip(1).map(|one| one.as_ref().map(verdict_word).unwrap_or_default());
        TableRow::of(std::iter::once(row_name(comparison, row)).chain(rates).chain(verdicts))
    };
    let columns = [name("measurement"), number(first, 0), number(second, 0), text("", 0)];
    Some(Block::Table(Table::new(columns, comparison.rows.iter().map(row))))
}

/// A row for each run that measured it, the name before the first of them only.
fn long_rows(comparison: &Comparison, heads: &[String]) -> Vec<TableRow> {
    let mut rows = Vec::new();
    for row in &comparison.rows {
        let mut name = row_name(comparison, row);
        let scale = Scale::over(row);
        for (index, figure) in row.figures.iter().enumerate() {
            let Some(figure) = figure else { continue };
            let against = row.against_first[index];
            rows.push(TableRow::of([
                std::mem::take(&mut name).into(),
                side(comparison, heads, index),
                Cell::drawn(row.shown(figure), html! { b { (row.shown(figure)) } }),
                against.map_or_else(Cell::default, |against| judged(&against, against.verdict)),
                Cell::drawn("", picture(row, figure, &scale, against.is_none())),
                figure.flags.join(", ").into(),
            ]));
        }
    }
    rows
}

/// Latencies, CPU time and knees; a screen has those that are said to differ.
fn detail_rows(comparison: &Comparison, heads: &[String], details: &[&Detail]) -> Vec<TableRow> {
    let mut rows = Vec::new();
    for detail in details {
        let mut name = format!("{}: {}", detail.quantity.word(), detail.name);
        for (index, figure) in detail.figures.iter().enumerate() {
            let Some(figure) = figure else { continue };
            let against = detail.against_first[index];
            let good = |against: Difference| judged(&against, goodness(detail.quantity, against.verdict));
            rows.push(TableRow::of([
                std::mem::take(&mut name).into(),
                side(comparison, heads, index),
                detail.quantity.show(figure.median).into(),
                against.map_or_else(Cell::default, good),
            ]));
        }
    }
    rows
}

/// The name of a run, on the page whole.
fn side(comparison: &Comparison, heads: &[String], index: usize) -> Cell {
    Cell::drawn(&heads[index], html! { (comparison.runs[index].label) })
}

/// Coloured by whether it is better.
fn judged(difference: &Difference, verdict: SampleComparison) -> Cell {
    let words = verdict_word(difference);
    let drawn = html! { span class={ "verdict " (class(verdict)) } { (words) } };
    Cell::drawn(words, drawn)
}

fn class(verdict: SampleComparison) -> &'static str {
    match verdict {
        SampleComparison::Higher => "higher",
        SampleComparison::Lower => "lower",
        SampleComparison::NoDifferenceShown => "same",
        SampleComparison::TooFewSamples => "few",
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

/// The runs' names as heads of columns. Long ones that begin alike are named by their ends.
fn heads(comparison: &Comparison) -> Vec<String> {
    let labels: Vec<&str> = comparison.runs.iter().map(|run| run.label.as_str()).collect();
    let ends = |label: &str| -> String {
        let end: Vec<char> = label.chars().rev().take(HEAD - 1).collect();
        format!("…{}", end.into_iter().rev().collect::<String>())
    };
    let starts: Vec<String> = labels.iter().map(|label| shortened(label, HEAD)).collect();
    let alike = |index: usize| starts.iter().filter(|start| **start == starts[index]).count() > 1;
    let long = |index: usize| labels[index].chars().count() > HEAD;
    let head = |index: usize| match long(index) && alike(index) {
        true => ends(labels[index]),
        false => starts[index].clone(),
    };
    (0..labels.len()).map(head).collect()
}

/// With its stage, where runs have several.
fn row_name(comparison: &Comparison, row: &ComparedFigure) -> String {
    let stage = row.stage.to_string();
    let single = comparison.runs.iter().all(|run| run.command != "run");
    if single || row.name.contains(&stage) { row.name.clone() } else { format!("{stage} {}", row.name) }
}

/// `+12 % (+8 to +17 %)`, or that no difference was shown.
fn verdict_word(difference: &Difference) -> String {
    let times = difference.ratio >= TIMES_FROM;
    let word = change(difference.ratio, times);
    match (difference.verdict, difference.ratio_interval) {
        (SampleComparison::NoDifferenceShown, _) => "no difference shown".into(),
        (SampleComparison::TooFewSamples, _) => format!("{word} (too few samples)"),
        (_, None) => word,
        (_, Some(interval)) => {
            let low = change(interval.low, times);
            format!("{word} ({} to {})", low.trim_end_matches(" %"), change(interval.high, times))
        }
    }
}

/// `+12 %`, `−3.4 %`; or `×4.2`.
fn change(ratio: f64, times: bool) -> String {
    if times {
        return format!("×{ratio:.1}");
    }
    let sign = if ratio < 1.0 { "−" } else { "+" };
    format!("{sign}{}", percent((ratio - 1.0).abs()))
}

/// How many rows differ, in one sentence for each run but the first.
fn summaries(comparison: &Comparison) -> Vec<String> {
    let Some(first) = comparison.runs.first() else { return Vec::new() };
    let mut sentences = Vec::new();
    for (index, run) in comparison.runs.iter().enumerate().skip(1) {
        let of = |wanted: SampleComparison| {
            let rows = comparison.rows.iter().filter_map(|row| row.against_first[index]);
            rows.filter(|difference| difference.verdict == wanted).count()
        };
        let (higher, lower) = (of(SampleComparison::Higher), of(SampleComparison::Lower));
        let (same, few) = (of(SampleComparison::NoDifferenceShown), of(SampleComparison::TooFewSamples));
        let mut parts = vec![format!("faster in {higher}"), format!("slower in {lower}")];
        parts.push(format!("no difference shown in {same}"));
        if few > 0 {
            parts.push(format!("too few samples in {few} (fewer than {LEAST_SAMPLES})"));
        }
        sentences.push(format!("{} against {}: {}.", run.label, first.label, parts.join(", ")));
    }
    sentences
}

/// What has no partner.
fn only(comparison: &Comparison) -> Part<'static> {
    let of_run = |run: &Side| {
        let own: Vec<&str> = comparison
            .only
            .iter()
            .filter(|only| only.run == run.label)
            .map(|only| only.name.as_str())
            .collect();
        let more = own.len().saturating_sub(ONLY_SHOWN);
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        let some = own[..own.len().min(ONLY_SHOWN)].join("; ");
        (!own.is_empty()).then(|| Block::Text(dim(format!("only in {}: {some}{more}", run.label))))
    };
    let all = comparison
        .only
        .iter()
        .map(|only| Block::Text(plain(format!("{}: {} {}", only.run, only.stage, only.name))));
    let folded = Block::Fold {
        heading: counted(comparison.only.len(), "measurement"),
        result: String::new(),
        open: false,
        blocks: all.collect(),
    };
    let mut blocks = vec![Block::On(Media::Terminal, comparison.runs.iter().filter_map(of_run).collect())];
    blocks.extend((!comparison.only.is_empty()).then_some(folded));
    Part { id: "only", title: "In one run only", blocks, ..Part::default() }
}
