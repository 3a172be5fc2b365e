//! The comparison as one HTML page: unlike machines first, the plots of all runs over each other, every row with its intervals.

use super::text::{summary, verdict_word};
use super::{Comparison, Row, Verdict};
use crate::report::charts::{self, Named};
use crate::report::html::document;
use crate::report::html::text::{at, escape, section as card};
use crate::report::json::SavedRun;
use std::path::PathBuf;

/// Of the picture of the intervals.
const WIDTH: f64 = 190.0;
const LINE: f64 = 10.0;

const STYLE: &str = "\
.verdict{white-space:nowrap}.verdict.higher{color:var(--good);font-weight:650}.verdict.lower{color:var(--cut);font-weight:650}\
.verdict.same,.verdict.few{color:var(--soft)}\
.intervals{display:block;background:var(--faint);border-radius:4px}.intervals path.iv{stroke-width:5;stroke:var(--used);opacity:.55}\
.intervals circle{fill:var(--ink)}.intervals .first path.iv{stroke:var(--soft)}\
section.unlike{border:2px solid var(--warn)}section.unlike h2{color:var(--warn)}\
table.comparison{min-width:760px}";

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
    format!(
        "<header>\n<p class=\"kicker\">linerate compare</p>\n<p class=\"subject kicker\">{}</p>\n<h1 class=\"long\">{}</h1>\n</header>\n",
        labels.join(""),
        escape(&summary(comparison))
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
    let mut heads = String::from("<th scope=\"col\">measurement</th>");
    for (index, run) in comparison.runs.iter().enumerate() {
        heads += &format!("<th scope=\"col\" class=\"r\">{}</th>", escape(&run.label));
        if index > 0 {
            heads += "<th scope=\"col\">against the first</th>";
        }
    }
    heads += "<th scope=\"col\">intervals, a scale for each row</th>";
    let lines: String = comparison.rows.iter().map(|row| line(comparison, row)).collect();
    let intro = "Medians. A difference is called one only where the 95 % intervals of the repeats part; the figures in brackets are the least \
                 and the largest difference that the intervals allow. With 3 to 5 repeats the interval is Student’s, with 6 and more that of \
                 the median by order statistics. What changed between the runs beside what you changed is in no interval.";
    let body = format!(
        "<div class=\"scroll\"><table class=\"comparison\"><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table></div>"
    );
    card("rows", "Measurements", intro, &body)
}

fn line(comparison: &Comparison, row: &Row) -> String {
    let stage = if comparison.runs.iter().any(|run| run.command == "run") {
        format!(" <span class=\"note\">{}</span>", row.stage)
    } else {
        String::new()
    };
    let mut html = format!("<tr><th scope=\"row\">{}{stage}</th>", escape(&row.name));
    for (index, (figure, against)) in row.figures.iter().zip(&row.against_first).enumerate() {
        let chips = figure.iter().flat_map(|figure| &figure.flags);
        let chips: String =
            chips.map(|flag| format!(" <span class=\"chip warn\">{}</span>", escape(flag))).collect();
        html += &format!(
            "<td class=\"r num\"><b>{}</b>{chips}</td>",
            figure.as_ref().map_or("–".into(), |figure| row.shown(figure))
        );
        if index > 0 {
            html += &against.map_or("<td></td>".into(), |against| {
                format!("<td class=\"verdict {}\">{}</td>", class(against.verdict), verdict_word(&against))
            });
        }
    }
    html + &format!("<td>{}</td></tr>", picture(comparison, row))
}

fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Higher => "higher",
        Verdict::Lower => "lower",
        Verdict::NoDifferenceShown => "same",
        Verdict::TooFewSamples => "few",
    }
}

/// A bar from end to end of each run's interval, a dot at its median, below each other.
fn picture(comparison: &Comparison, row: &Row) -> String {
    let ends = row.figures.iter().flatten().flat_map(|figure| {
        let middle = figure.bytes_per_second;
        figure.interval.map_or([middle, middle], |interval| [interval.low, interval.high])
    });
    let (low, high) = ends.fold((f64::MAX, 0.0f64), |(low, high), end| (low.min(end), high.max(end)));
    if high <= 0.0 {
        return "–".into();
    }
    // Equal figures shall not fill the whole width with their last digit.
    let width = (high - low).max(high * 0.02);
    let from = (low + high - width) / 2.0;
    let place = |value: f64| 5.0 + ((value - from) / width).clamp(0.0, 1.0) * (WIDTH - 10.0);
    let height = LINE * row.figures.len() as f64;
    let said: Vec<String> = comparison
        .runs
        .iter()
        .zip(&row.figures)
        .filter_map(|(run, figure)| {
            let figure = figure.as_ref()?;
            let interval =
                figure.interval.map(|i| format!(", {}", row.unit().show_range(i.low.max(0.0), i.high)));
            Some(format!("{}: {}{}", run.label, row.shown(figure), interval.unwrap_or_default()))
        })
        .collect();
    let said = escape(&said.join("; "));
    let mut svg = format!(
        "<svg class=\"intervals\" width=\"{w}\" height=\"{h}\" viewBox=\"0 0 {w} {h}\" role=\"img\" aria-label=\"{said}\"><title>{said}</title>\
         ",
        w = at(WIDTH),
        h = at(height)
    );
    for (index, figure) in row.figures.iter().enumerate() {
        let Some(figure) = figure else { continue };
        let y = at(LINE * (index as f64 + 0.5));
        svg += if index == 0 { "<g class=\"first\">" } else { "<g>" };
        if let Some(interval) = figure.interval {
            let (low, high) = (place(interval.low), place(interval.high));
            svg += &format!("<path class=\"iv\" d=\"M{} {y}H{}\"/>", at(low), at(high.max(low + 1.5)));
        }
        svg += &format!("<circle cx=\"{}\" cy=\"{y}\" r=\"2.6\"/></g>", at(place(figure.bytes_per_second)));
    }
    svg + "</svg>"
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
