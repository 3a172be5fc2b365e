//! The comparison as a screen: what is unlike, a line for each measurement, what only one run has.

use super::{ComparedFigure, Comparison, Difference, Rate, SampleComparison};
use crate::figure::percent;
use crate::grid::{lines, name, number, text};
use crate::style::Style;
use linerate_facts::printable::{hanging, shortened, wrapped};
use linerate_measure::measure::interval::LEAST_SAMPLES;

/// Measurements of one run alone that are named; more are counted.
const ONLY_SHOWN: usize = 6;

/// From this ratio on it is told as one.
const TIMES_FROM: f64 = 2.0;

/// Letters of a run's name at the head of a column.
const HEAD: usize = 18;

/// The whole screen, a newline at its end.
pub(crate) fn screen(comparison: &Comparison, width: usize, colour: bool) -> String {
    let style = Style::of(width, colour);
    let width = width.clamp(60, 140);
    let mut text = head(comparison, width, style);
    text.extend(unlike(comparison, width, style));
    if !comparison.rows.is_empty() {
        let table = table(comparison, style.table(width));
        text.push(String::new());
        text.push(style.dim(&table[0]));
        text.extend_from_slice(&table[1..]);
    }
    let differing = details(comparison, style.table(width));
    if let Some((head, lines)) = differing.split_first() {
        text.extend([String::new(), style.dim(head)]);
        text.extend_from_slice(lines);
    }
    for answer in &comparison.answers {
        let told: Vec<String> = comparison
            .runs
            .iter()
            .zip(&answer.answers)
            .map(|(run, answer)| format!("{} {answer}", run.label))
            .collect();
        text.extend(wrapped(&format!("{}: {}", answer.question, told.join("; ")), width));
    }
    text.push(String::new());
    for sentence in summaries(comparison) {
        text.extend(wrapped(&sentence, width).iter().map(|line| style.bold(line)));
    }
    text.extend(only(comparison, width, style));
    text.join("\n") + "\n"
}

fn head(comparison: &Comparison, width: usize, style: Style) -> Vec<String> {
    let mut text = Vec::new();
    for (index, run) in comparison.runs.iter().enumerate() {
        let word = if index == 0 { "compared with " } else { "              " };
        let partial = if run.partial { ", partial" } else { "" };
        let line = format!("{}: {} on {}, {}{partial}", run.label, run.command, run.host, run.started);
        let bold = |line: &String| if index == 0 { style.bold(line) } else { line.clone() };
        text.extend(hanging(word, &line, width).iter().map(bold));
        text.extend(
            hanging("              ", &run.verdict, width)
                .iter()
                .filter(|line| !line.trim().is_empty())
                .cloned(),
        );
    }
    text
}

fn unlike(comparison: &Comparison, width: usize, style: Style) -> Vec<String> {
    if comparison.unlike.is_empty() {
        return Vec::new();
    }
    let mut text = vec![String::new(), style.cut("unlike machines: a difference may be theirs")];
    for fact in &comparison.unlike {
        let line = format!("  {}: {}", fact.what, fact.values.join(" | "));
        text.extend(
            wrapped(&line, width - 4)
                .iter()
                .enumerate()
                .map(|(index, line)| if index == 0 { format!("  {line}") } else { format!("    {line}") }),
        );
    }
    text
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

/// Two runs side by side; more below each other, since a screen is not that wide.
fn table(comparison: &Comparison, width: usize) -> Vec<String> {
    let heads = heads(comparison);
    let [first, second] = &heads[..] else { return long_table(comparison, width) };
    let all = [name("measurement"), number(first, 0), number(second, 0), text("", 0)];
    let rows: Vec<Vec<String>> = comparison
        .rows
        .iter()
        .map(|row| {
            let mut cells = vec![named(comparison, row)];
            cells.extend(row.figures.iter().map(|figure| rate_word(row, figure.as_ref())));
            cells.extend(
                row.against_first
                    .iter()
                    .skip(1)
                    .map(|against| against.as_ref().map(verdict_word).unwrap_or_default()),
            );
            cells
        })
        .collect();
    lines(&all, &rows, width)
}

fn long_table(comparison: &Comparison, width: usize) -> Vec<String> {
    let all = [name("measurement"), text("run", 0), number("rate", 0), text("against the first", 0)];
    let mut rows = Vec::new();
    let heads = heads(comparison);
    for row in &comparison.rows {
        let mut name = named(comparison, row);
        for ((head, figure), against) in heads.iter().zip(&row.figures).zip(&row.against_first) {
            let Some(figure) = figure else { continue };
            let verdict = against.as_ref().map(verdict_word).unwrap_or_default();
            // The name stands before the first of its lines only.
            rows.push(vec![std::mem::take(&mut name), head.clone(), row.shown(figure), verdict]);
        }
    }
    lines(&all, &rows, width)
}

/// Latencies, processor time and knees that are said to differ; the page and the JSON have the others, too.
/// Empty where there are none.
fn details(comparison: &Comparison, width: usize) -> Vec<String> {
    let all = [name("beside the rate"), text("run", 0), number("", 0), text("against the first", 0)];
    let mut rows = Vec::new();
    let heads = heads(comparison);
    for detail in comparison.details.iter().filter(|detail| detail.differs()) {
        let mut name = format!("{}: {}", detail.quantity.word(), detail.name);
        for ((head, figure), against) in heads.iter().zip(&detail.figures).zip(&detail.against_first) {
            let Some(figure) = figure else { continue };
            rows.push(vec![
                std::mem::take(&mut name),
                head.clone(),
                detail.quantity.show(figure.median),
                against.as_ref().map(verdict_word).unwrap_or_default(),
            ]);
        }
    }
    if rows.is_empty() { Vec::new() } else { lines(&all, &rows, width) }
}

/// With its stage, where runs have several.
fn named(comparison: &Comparison, row: &ComparedFigure) -> String {
    let stage = row.stage.to_string();
    let single = comparison.runs.iter().all(|run| run.command != "run");
    if single || row.name.contains(&stage) { row.name.clone() } else { format!("{stage} {}", row.name) }
}

fn rate_word(row: &ComparedFigure, figure: Option<&Rate>) -> String {
    figure.map_or("–".into(), |figure| row.shown(figure))
}

/// `+12 % (+8 to +17 %)`, or that no difference was shown.
pub(super) fn verdict_word(difference: &Difference) -> String {
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
pub(super) fn summaries(comparison: &Comparison) -> Vec<String> {
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

fn only(comparison: &Comparison, width: usize, style: Style) -> Vec<String> {
    let mut text = Vec::new();
    for run in &comparison.runs {
        let own: Vec<&str> = comparison
            .only
            .iter()
            .filter(|only| only.run == run.label)
            .map(|only| only.name.as_str())
            .collect();
        if own.is_empty() {
            continue;
        }
        let more = own.len().saturating_sub(ONLY_SHOWN);
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        let line = format!("only in {}: {}{more}", run.label, own[..own.len().min(ONLY_SHOWN)].join("; "));
        text.extend(wrapped(&line, width).iter().map(|line| style.dim(line)));
    }
    text
}
