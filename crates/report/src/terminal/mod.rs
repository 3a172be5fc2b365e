//! One screen: what was run, what was achieved and what limits it, a line per stage, ceiling and prediction,
//! findings, errors.

mod access;
mod ledger;
mod load;
mod memory;
mod network;
mod pinning;
mod raid;
mod rate_table;
mod style;
mod table;

use super::figure::{Figure, Unit, percent, quantity, rate};
use super::power;
use super::verdict::{RunVerdict, both, named, resources, subject, verdict};
use linerate_facts::printable::{columns, printable, shortened, wrapped};
use linerate_measure::diagnose::Finding;
use linerate_measure::measure::Stage;
use linerate_measure::run::Run;
use linerate_model::plan::Origin;
pub(super) use style::Style;

/// Lines of the smallest screen that is not a toy; more scrolls its own first line away.
const SCREEN_LINES: usize = 40;
/// Lines of each finding on the screen of one stage; the page has all of it.
const FINDING_LINES: usize = 4;

/// Tables of rates, one below the other.
pub(super) fn rates(tables: &[linerate_machine::rates::table::Table], width: usize, colour: bool) -> String {
    let style = Style { colour };
    let screens: Vec<String> = tables.iter().map(|table| rate_table::screen(table, width, style)).collect();
    screens.join("\n")
}

/// Where every packet went.
pub(super) fn ledger(
    ledger: &linerate_measure::diagnose::ledger::Ledger,
    width: usize,
    colour: bool,
) -> String {
    ledger::screen(ledger, width, Style { colour })
}

/// The whole path, or the one stage that was measured: each command has its own table.
pub(super) fn run(run: &Run, width: usize, colour: bool) -> String {
    let style = Style { colour };
    let mut screen = match run.stage {
        None => screen(run, width, colour),
        Some(Stage::Memory) => memory::screen(run, width, style),
        Some(Stage::Load) => load::screen(run, width, style),
        Some(Stage::Network) => network::screen(run, width, style),
        Some(Stage::Disk | Stage::Path) => access::screen(run, width, style),
    };
    for line in power::lines(run, width, style) {
        screen += &(line + "\n");
    }
    screen
}

/// An array and the command lines that make it.
pub(super) fn raid(layout: &linerate_model::plan::raid::RaidLayout, width: usize, colour: bool) -> String {
    raid::layout(layout, width, Style { colour })
}

/// Arrays that are there, and what is to be said of them.
pub(super) fn raid_check(
    arrays: &[linerate_model::plan::raid::Checked],
    width: usize,
    colour: bool,
) -> String {
    raid::checked(arrays, width, Style { colour })
}

/// The screen. It drops detail, never a stage, until it fits; what was dropped is counted and is in the page
/// and the JSON.
pub(super) fn screen(run: &Run, width: usize, colour: bool) -> String {
    let width = width.clamp(60, 110);
    let style = Style { colour };
    let verdict = verdict(run);
    // From rich to poor: findings shown, lines for each text, rows of the table, errors shown.
    let detail = [
        (8, 4, 22, 3),
        (6, 3, 22, 3),
        (5, 2, 20, 3),
        (4, 2, 18, 3),
        (3, 2, 16, 3),
        (2, 2, 14, 3),
        (1, 1, 12, 2),
        (0, 1, 10, 2),
        (0, 0, 10, 1),
    ];
    let mut lines = Vec::new();
    for (findings, text_lines, rows, errors) in detail {
        lines = head(run, width, style);
        lines.extend(result(run, &verdict, text_lines, width, style));
        lines.extend(table::lines(run, width, rows, style));
        lines.extend(bounds(run, &verdict, text_lines, width, style));
        lines.extend(finding_lines(run, findings, text_lines, width, style));
        lines.extend(error_text(&run.errors, errors, text_lines.clamp(1, 3), width, style));
        if lines.len() <= SCREEN_LINES {
            return lines.join("\n") + "\n";
        }
    }
    // Nothing that linerate measures comes here; a file that somebody wrote may.
    let left = lines.len() - (SCREEN_LINES - 1);
    lines.truncate(SCREEN_LINES - 1);
    lines.push(style.dim(&format!("and {left} more lines, in report.html and run.json")));
    lines.join("\n") + "\n"
}

fn head(run: &Run, width: usize, style: Style) -> Vec<String> {
    let text = format!("linerate {} on {}, {}", printable(&run.version), printable(&run.host), subject(run));
    let mut lines: Vec<String> = wrapped(&text, width).iter().take(3).map(|line| style.bold(line)).collect();
    lines.push(String::new());
    lines
}

/// What was achieved, what limits it, what raises it: with no `text_lines` in as few words as can be.
fn result(run: &Run, verdict: &RunVerdict, text_lines: usize, width: usize, style: Style) -> Vec<String> {
    let of_predicted = verdict.of_predicted.map(|share| format!("{} of predicted, ", percent(share)));
    let protocol = run.goal.protocols.first().map(|protocol| format!(", {protocol}")).unwrap_or_default();
    let note = format!("{}measured{protocol}", of_predicted.unwrap_or_default());
    let mut lines = vec![figure("achieved", &verdict.achieved, note, width, style)];
    let most = if text_lines == 0 { 2 } else { 4 };
    lines.extend(limited(&verdict.sentence, width, most).iter().map(|line| style.cut(line)));
    lines.push(String::new());
    lines
}

/// What the parts allow, what was predicted, and the protocols that are not the headline.
fn bounds(run: &Run, verdict: &RunVerdict, text_lines: usize, width: usize, style: Style) -> Vec<String> {
    let allowed = "rated and effective: what the parts allow".into();
    let bottleneck = if verdict.cut.is_empty() {
        String::new()
    } else {
        format!(", limited by {}", named(&verdict.cut, &resources(run)))
    };
    let predicted = format!("from measured stages{bottleneck}");
    let mut lines = vec![
        String::new(),
        figure("ceiling", &verdict.ceiling, allowed, width, style),
        figure("predicted", &verdict.predicted, predicted, width, style),
    ];
    lines.extend(other_protocols(run, text_lines.min(2), width, style));
    lines
}

/// A figure in both units, and a note or why it is unknown.
fn figure(word: &str, figure: &Figure, note: String, width: usize, style: Style) -> String {
    let note = match (&figure.why, figure.value) {
        (Some(why), None) => format!("({})", printable(why)),
        _ => note,
    };
    let head = format!("{word:<11}{:<26}", both(figure));
    let note = shortened(&note, width.saturating_sub(columns(&head)));
    format!("{}{}", style.bold(&head), style.dim(&note)).trim_end().to_string()
}

/// The protocols that are not the headline: a line each, and their own sentence where something else holds
/// them.
fn other_protocols(run: &Run, text_lines: usize, width: usize, style: Style) -> Vec<String> {
    let Some(diagnosis) = &run.diagnosis else { return Vec::new() };
    let headline = run.goal.protocols.first();
    let mut lines = Vec::new();
    for other in diagnosis.by_protocol.iter().filter(|other| Some(&other.protocol) != headline) {
        let reached = Some(other.achieved.bytes_per_second).filter(|rate| *rate > 0.0);
        let achieved = Figure::of(reached, Origin::Measured);
        let predicted = Figure::of_fact(&other.predicted.bytes_per_second, Origin::Measured);
        let share = percent(other.achieved.of_predicted);
        let head = format!("{:<11}{:<26}", other.protocol.to_string(), both(&achieved));
        let note = format!("achieved, {share} of {} predicted", predicted.show(Unit::Bytes));
        lines.push(format!("{head}{}", style.dim(&shortened(&note, width.saturating_sub(columns(&head))))));
        if Some(&other.bottleneck.resources)
            != diagnosis.bottleneck.as_ref().map(|headline| &headline.resources)
        {
            let sentence = printable(&other.bottleneck.sentence);
            lines.extend(
                limited(&sentence, width - 11, text_lines)
                    .iter()
                    .map(|line| format!("{:<11}{}", "", style.dim(line))),
            );
        }
    }
    lines
}

fn finding_lines(run: &Run, limit: usize, text_lines: usize, width: usize, style: Style) -> Vec<String> {
    let findings = run.findings();
    if findings.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![String::new(), style.bold("findings")];
    for finding in findings.iter().take(limit) {
        lines.extend(finding_text(finding, text_lines, width, style));
    }
    let left = findings.len().saturating_sub(limit);
    if left > 0 {
        lines.push(style.dim(&format!("  and {left} more, in report.html and run.json")));
    }
    lines
}

/// Each finding whole, below a heading; nothing where there is none.
pub(super) fn findings(findings: &[Finding], width: usize, style: Style) -> Vec<String> {
    if findings.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![String::new(), style.bold("findings")];
    lines.extend(findings.iter().flat_map(|finding| finding_text(finding, usize::MAX, width, style)));
    lines
}

fn finding_text(finding: &Finding, text_lines: usize, width: usize, style: Style) -> Vec<String> {
    let severity: &str = finding.severity.into();
    let indent = 7;
    let mut lines = Vec::new();
    let text = format!("{}: {}", printable(&finding.id), printable(&finding.text));
    for (index, line) in limited(&text, width - indent, text_lines).iter().enumerate() {
        let head = if index == 0 { style.severity(severity, finding.severity) } else { "    ".into() };
        lines.push(format!("  {head} {line}"));
    }
    if !finding.remedy.trim().is_empty() {
        let gain = rate(finding.gain).filter(|gain| *gain > 0.0);
        let gain = gain.map(|gain| format!(" (gains {})", Unit::Bytes.show(gain)));
        let remedy = format!("→ {}{}", printable(&finding.remedy), gain.unwrap_or_default());
        for line in limited(&remedy, width - indent, text_lines) {
            lines.push(format!("       {}", style.dim(&line)));
        }
    }
    lines
}

/// What failed, in red; nothing where nothing did.
fn error_text(errors: &[String], shown: usize, text_lines: usize, width: usize, style: Style) -> Vec<String> {
    if errors.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![String::new(), style.cut("errors: the results are partial")];
    for error in errors.iter().take(shown) {
        lines
            .extend(limited(&printable(error), width - 2, text_lines).iter().map(|line| format!("  {line}")));
    }
    let left = errors.len().saturating_sub(shown);
    if left > 0 {
        lines.push(style.dim(&format!("  and {left} more, in run.json")));
    }
    lines
}

/// Wrapped to at most so many lines; the last says with `…` that there is more.
fn limited(text: &str, width: usize, most: usize) -> Vec<String> {
    let mut lines = wrapped(text, width);
    if lines.len() > most {
        lines.truncate(most);
        if let Some(last) = lines.last_mut() {
            let kept = last.trim_end_matches(['.', ',', ';', ':']);
            *last = if columns(kept) < width {
                format!("{kept}…")
            } else {
                shortened(&format!("{kept}……"), width)
            };
        }
    }
    lines
}

/// `0.214`, or a dash where nothing was measured.
fn cost(seconds_per_gb: f64) -> String {
    if seconds_per_gb > 0.0 { quantity(seconds_per_gb) } else { "–".into() }
}
