//! The comparison as one HTML page: unlike machines first, the plots of all runs over each other, every row with its intervals.

use super::text::{summaries, verdict_word};
use super::{Comparison, Detail, Quantity, Rate, Row, Verdict};
use crate::report::charts::{self, Named};
use crate::report::html::document;
use crate::report::html::text::{at, escape, section as card};
use crate::report::json::SavedRun;
use std::path::PathBuf;

/// Of the picture of the intervals.
const WIDTH: f64 = 190.0;
const LINE: f64 = 14.0;

const STYLE: &str = "\
.verdict{white-space:nowrap}.verdict.higher{color:var(--good);font-weight:650}.verdict.lower{color:var(--cut);font-weight:650}\
.verdict.same,.verdict.few{color:var(--soft)}\
.intervals{display:block;background:var(--faint);border-radius:4px}.intervals path.iv{stroke-width:6;stroke:var(--used);opacity:.55}\
.intervals circle{fill:var(--ink)}.intervals.first path.iv{stroke:var(--soft)}\
section.unlike{border:2px solid var(--warn)}section.unlike h2{color:var(--warn)}\
table.comparison{min-width:860px}table.comparison tbody th{vertical-align:top;max-width:300px}table.comparison tbody tr:last-child>*{border-bottom-color:var(--line)}table.comparison td{vertical-align:middle;padding-top:3px;padding-bottom:3px}";

/// The whole page; the runs themselves give the plots.
pub(in crate::report) fn page(comparison: &Comparison, runs: &[(PathBuf, SavedRun)]) -> String {
    let named: Vec<Named> = comparison
        .runs
        .iter()
        .zip(runs)
        .filter_map(|(side, (_, run))| match run {
            SavedRun::Stage(run) => Some(Named { name: &side.label, run }),
            SavedRun::Run(_) => None,
        })
        .collect();
    let mut body = header(comparison);
    body += "<main>\n";
    body += &unlike(comparison);
    body += &rows(comparison);
    body += &details(comparison);
    body += &answers(comparison);
    let charts = charts::html(&named);
    if !charts.is_empty() {
        body += &card("charts", "Charts", "", &charts);
    }
    body += &only(comparison);
    body += &sources(comparison);
    body += "</main>\n";
    let labels: Vec<&str> = comparison.runs.iter().map(|run| run.label.as_str()).collect();
    document(&format!("{} – linerate", labels.join(", ")), &format!("{}{STYLE}", charts::SHEET), &body)
}

fn header(comparison: &Comparison) -> String {
    let labels: Vec<String> =
        comparison.runs.iter().map(|run| format!("<span>{}</span>", escape(&run.label))).collect();
    let sentences = summaries(comparison);
    let (title, more) = match &sentences[..] {
        [one] => (one.clone(), String::new()),
        all => {
            let items: String = all.iter().map(|sentence| format!("<li>{}</li>", escape(sentence))).collect();
            (format!("{} runs side by side", comparison.runs.len()), format!("<ul>{items}</ul>"))
        }
    };
    format!(
        "<header>\n<p class=\"kicker\">linerate compare</p>\n<p class=\"subject kicker\">{}</p>\n<h1 class=\"long\">{}</h1>\n{more}</header>\n",
        labels.join(""),
        escape(&title)
    )
}

/// A table whose first column is words and which has one more for each run.
fn table(comparison: &Comparison, first: &str, rows: &str) -> String {
    let heads: String =
        comparison.runs.iter().map(|run| format!("<th scope=\"col\">{}</th>", escape(&run.label))).collect();
    format!(
        "<div class=\"scroll\"><table class=\"plain\"><thead><tr><th scope=\"col\">{first}</th>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
    )
}

fn cells(what: &str, values: &[String]) -> String {
    let values: String = values.iter().map(|value| format!("<td>{}</td>", escape(value))).collect();
    format!("<tr><th scope=\"row\">{}</th>{values}</tr>", escape(what))
}

fn unlike(comparison: &Comparison) -> String {
    if comparison.unlike.is_empty() {
        return String::new();
    }
    let rows: String = comparison.unlike.iter().map(|fact| cells(&fact.what, &fact.values)).collect();
    format!(
        "<section class=\"unlike\" aria-labelledby=\"unlike-h\"><h2 id=\"unlike-h\">The machines are not alike: a difference may be theirs</h2>{}</section>\n",
        table(comparison, "", &rows)
    )
}

fn rows(comparison: &Comparison) -> String {
    if comparison.rows.is_empty() {
        return String::new();
    }
    let heads: String = [
        "measurement",
        "run",
        "rate",
        "against the first",
        "intervals, a scale for each measurement",
        "to know",
    ]
    .iter()
    .map(|head| format!("<th scope=\"col\"{}>{head}</th>", if *head == "rate" { " class=\"r\"" } else { "" }))
    .collect();
    let lines: String = comparison.rows.iter().map(|row| of_row(comparison, row)).collect();
    let intro = "Medians. A difference is called one only where the 95 % intervals of the repeats part; the figures in brackets are the least \
                 and the largest difference that the intervals allow. With 3 to 5 repeats the interval is Student’s, with 6 and more that of \
                 the median by order statistics. What changed between the runs beside what you changed is in no interval.";
    let body = format!(
        "<div class=\"scroll\"><table class=\"comparison\"><thead><tr>{heads}</tr></thead>{lines}</table></div>"
    );
    card("rows", "Measurements", intro, &body)
}

/// A line for each run that measured it, the name before all of them.
fn of_row(comparison: &Comparison, row: &Row) -> String {
    let stage = if comparison.runs.iter().any(|run| run.command == "run") {
        format!(" <span class=\"note\">{}</span>", row.stage)
    } else {
        String::new()
    };
    let scale = Scale::over(row);
    let mut lines: Vec<String> = Vec::new();
    for ((run, figure), against) in comparison.runs.iter().zip(&row.figures).zip(&row.against_first) {
        let Some(figure) = figure else { continue };
        let verdict = against.map_or("<td></td>".into(), |against| {
            format!("<td class=\"verdict {}\">{}</td>", class(against.verdict), verdict_word(&against))
        });
        let chips: String = figure
            .flags
            .iter()
            .map(|flag| format!("<span class=\"chip\">{}</span> ", escape(flag)))
            .collect();
        lines.push(format!(
            "<td>{}</td><td class=\"r num\"><b>{}</b></td>{verdict}<td>{}</td><td>{chips}</td>",
            escape(&run.label),
            row.shown(figure),
            picture(row, figure, &scale, against.is_none())
        ));
    }
    let name =
        format!("<th scope=\"rowgroup\" rowspan=\"{}\">{}{stage}</th>", lines.len(), escape(&row.name));
    format!("<tbody><tr>{name}{}</tr></tbody>", lines.join("</tr><tr>"))
}

fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Higher => "higher",
        Verdict::Lower => "lower",
        Verdict::NoDifferenceShown => "same",
        Verdict::TooFewSamples => "few",
    }
}

/// Least and largest end of all intervals of a row.
struct Scale {
    from: f64,
    width: f64,
}

impl Scale {
    fn over(row: &Row) -> Self {
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
fn picture(row: &Row, figure: &Rate, scale: &Scale, first: bool) -> String {
    let range = figure.interval.map(|interval| row.unit().show_range(interval.low.max(0.0), interval.high));
    let said = range.unwrap_or_else(|| "too few samples for an interval".into());
    let mut svg = format!(
        "<svg class=\"intervals{}\" width=\"{w}\" height=\"{h}\" viewBox=\"0 0 {w} {h}\" role=\"img\" aria-label=\"{said}\"><title>{said}</title>",
        if first { " first" } else { "" },
        w = at(WIDTH),
        h = at(LINE)
    );
    let y = at(LINE / 2.0);
    if let Some(interval) = figure.interval {
        let (low, high) = (scale.place(interval.low), scale.place(interval.high));
        svg += &format!("<path class=\"iv\" d=\"M{} {y}H{}\"/>", at(low), at(high.max(low + 1.5)));
    }
    svg + &format!("<circle cx=\"{}\" cy=\"{y}\" r=\"3\"/></svg>", at(scale.place(figure.bytes_per_second)))
}

/// A row for each latency, processor time and knee; what differs is coloured by whether it is better.
fn details(comparison: &Comparison) -> String {
    if comparison.details.is_empty() {
        return String::new();
    }
    let rows: String = comparison.details.iter().map(of_detail(comparison)).collect();
    card(
        "details",
        "Latency, processor time, knees",
        "Medians of the repeats, judged as the rates are. Of latency and processor time less is better.",
        &table(comparison, "", &rows),
    )
}

fn of_detail(comparison: &Comparison) -> impl Fn(&Detail) -> String {
    let runs = comparison.runs.len();
    move |detail| {
        let cell = |index: usize| {
            let Some(figure) = detail.figures.get(index).copied().flatten() else {
                return "<td>–</td>".into();
            };
            let against = detail.against_first.get(index).copied().flatten().map(|against| {
                format!(
                    " <span class=\"verdict {}\">{}</span>",
                    class(goodness(detail.quantity, against.verdict)),
                    verdict_word(&against)
                )
            });
            format!("<td>{}{}</td>", detail.quantity.show(figure.median), against.unwrap_or_default())
        };
        let cells: String = (0..runs).map(cell).collect();
        let name = format!("{}: {}", detail.quantity.word(), detail.name);
        format!("<tr><th scope=\"row\">{}</th>{cells}</tr>", escape(&name))
    }
}

/// Higher is better for a rate and a knee, lower for all that is paid.
fn goodness(quantity: Quantity, verdict: Verdict) -> Verdict {
    match (quantity, verdict) {
        (Quantity::Knee, verdict) => verdict,
        (_, Verdict::Higher) => Verdict::Lower,
        (_, Verdict::Lower) => Verdict::Higher,
        (_, verdict) => verdict,
    }
}

fn answers(comparison: &Comparison) -> String {
    if comparison.answers.is_empty() {
        return String::new();
    }
    let rows: String =
        comparison.answers.iter().map(|answer| cells(&answer.question, &answer.answers)).collect();
    card(
        "answers",
        "Answers",
        "Each run found its own; they have no interval.",
        &table(comparison, "", &rows),
    )
}

fn only(comparison: &Comparison) -> String {
    if comparison.only.is_empty() {
        return String::new();
    }
    let items: String = comparison
        .only
        .iter()
        .map(|only| format!("<li>{}: {} {}</li>", escape(&only.run), only.stage, escape(&only.name)))
        .collect();
    let body = format!(
        "<details><summary>{} measurements</summary><ul>{items}</ul></details>",
        comparison.only.len()
    );
    card("only", "In one run only", "", &body)
}

fn sources(comparison: &Comparison) -> String {
    let rows: String = comparison
        .runs
        .iter()
        .map(|run| {
            let partial = if run.partial { "partial: something failed" } else { "whole" };
            cells(
                &run.label,
                &[
                    run.command.clone(),
                    run.host.clone(),
                    run.started.clone(),
                    run.version.clone(),
                    partial.into(),
                    run.file.display().to_string(),
                ],
            )
        })
        .collect();
    let heads: String = ["run", "command", "host", "started", "linerate", "result", "file"]
        .iter()
        .map(|head| format!("<th scope=\"col\">{head}</th>"))
        .collect();
    let body = format!(
        "<div class=\"scroll\"><table class=\"plain\"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
    );
    card("runs", "Runs", "", &body)
}
