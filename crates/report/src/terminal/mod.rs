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
mod table;
mod transfer;

use super::figure::{Figure, Unit, percent, quantity, rate};
use super::power;
use super::style::Style;
use super::verdict::{RunVerdict, both, named, resources, subject, verdict, without_achieved};
use linerate_facts::printable::{columns, printable, wrapped};
use linerate_facts::wording::counted;
use linerate_measure::diagnose::Finding;
use linerate_measure::measure::Stage;
use linerate_measure::run::Run;
use linerate_model::plan::Origin;

/// Lines of the smallest screen that is not a toy; more scrolls its own first line away.
const SCREEN_LINES: usize = 40;
/// Tables of rates, one below the other.
pub(super) fn rates(tables: &[linerate_machine::rates::table::Table], width: usize, colour: bool) -> String {
    let style = Style::of(width, colour);
    let screens: Vec<String> = tables.iter().map(|table| rate_table::screen(table, width, style)).collect();
    screens.join("\n")
}

/// Where every packet went.
pub(super) fn ledger(
    ledger: &linerate_measure::diagnose::ledger::Ledger,
    width: usize,
    colour: bool,
) -> String {
    ledger::screen(ledger, width, Style::of(width, colour))
}

/// The whole path, or the one stage that was measured: each command has its own table.
pub(super) fn run(run: &Run, width: usize, colour: bool) -> String {
    let style = Style::of(width, colour);
    let mut screen = match run.stage {
        None => screen(run, width, colour),
        Some(Stage::Memory) => memory::screen(run, width, style),
        Some(Stage::Load) => load::screen(run, width, style),
        Some(Stage::Network) => network::screen(run, width, style),
        Some(Stage::Get | Stage::Put) => transfer::screen(run, width, style),
        Some(Stage::Disk | Stage::Path) => access::screen(run, width, style),
    };
    // The screen of the whole path has it among its own lines.
    for line in power::lines(run, width, style).into_iter().filter(|_| run.stage.is_some()) {
        screen += &(line + "\n");
    }
    screen
}

/// An array and the command lines that make it.
pub(super) fn raid(layout: &linerate_model::plan::raid::RaidLayout, width: usize, colour: bool) -> String {
    raid::layout(layout, width, Style::of(width, colour))
}

/// Arrays that are there, and what is to be said of them.
pub(super) fn raid_check(
    arrays: &[linerate_model::plan::raid::Checked],
    width: usize,
    colour: bool,
) -> String {
    raid::checked(arrays, width, Style::of(width, colour))
}

/// How much is shown of what may be left out.
#[derive(Clone, Copy, Debug)]
struct Detail {
    findings: usize,
    /// Of the table.
    rows: usize,
    errors: usize,
    /// Beside the table and the figures below it, and sentences of other protocols.
    notes: bool,
}

/// From rich to poor.
const DETAILS: [Detail; 10] = [
    Detail { findings: 8, rows: 22, errors: 3, notes: true },
    Detail { findings: 6, rows: 22, errors: 3, notes: true },
    Detail { findings: 5, rows: 20, errors: 3, notes: true },
    Detail { findings: 4, rows: 18, errors: 3, notes: true },
    Detail { findings: 3, rows: 16, errors: 3, notes: true },
    Detail { findings: 2, rows: 14, errors: 3, notes: true },
    Detail { findings: 1, rows: 12, errors: 2, notes: true },
    Detail { findings: 1, rows: 10, errors: 2, notes: false },
    Detail { findings: 0, rows: 10, errors: 1, notes: false },
    Detail { findings: 0, rows: 10, errors: 0, notes: false },
];

/// The screen. It drops findings, errors and rows of devices alike, never a stage or a part of a sentence, until
/// it fits; what was dropped is counted and is in the page and the JSON. What is no screen has all of it.
pub(super) fn screen(run: &Run, width: usize, colour: bool) -> String {
    let style = Style::of(width, colour);
    let width = width.clamp(60, 110);
    let verdict = verdict(run);
    let with = |detail: Detail| {
        let mut lines = head(run, width, style);
        lines.extend(result(&verdict, width, style));
        lines.extend(table::lines(run, width, detail, style));
        lines.extend(bounds(run, &verdict, detail.notes, width, style));
        lines.extend(power::lines(run, width, style));
        lines.extend(finding_lines(run, detail.findings, width, style));
        lines.extend(error_text(&run.errors, detail.errors, width, style));
        lines
    };
    if !style.is_screen() {
        let all = Detail { findings: usize::MAX, rows: usize::MAX, errors: usize::MAX, notes: true };
        return with(all).join("\n") + "\n";
    }
    let mut lines = Vec::new();
    for detail in DETAILS {
        lines = with(detail);
        if lines.len() <= SCREEN_LINES {
            return lines.join("\n") + "\n";
        }
    }
    // Nothing that linerate measures comes here; a file that somebody wrote may.
    let left = lines.len() - (SCREEN_LINES - 1);
    lines.truncate(SCREEN_LINES - 1);
    lines.push(style.dim(&format!("and {}, in report.html and run.json", counted(left, "more line"))));
    lines.join("\n") + "\n"
}

fn head(run: &Run, width: usize, style: Style) -> Vec<String> {
    let text = format!("linerate {} on {}, {}", printable(&run.version), printable(&run.host), subject(run));
    let mut lines: Vec<String> = wrapped(&text, width).iter().take(3).map(|line| style.bold(line)).collect();
    lines.push(String::new());
    lines
}

/// What was achieved, what limits it, what raises it: each begins a line.
fn result(verdict: &RunVerdict, width: usize, style: Style) -> Vec<String> {
    let achieved = verdict.achieved_sentence.iter().flat_map(|text| wrapped(text, width));
    let mut lines: Vec<String> = achieved.map(|line| style.bold(&line)).collect();
    lines.extend(wrapped(&verdict.bottleneck, width).iter().map(|line| style.cut(line)));
    lines.extend(wrapped(&verdict.headroom, width));
    lines.push(String::new());
    lines
}

/// What was predicted and what the parts allow, and the protocols that are not the headline.
fn bounds(run: &Run, verdict: &RunVerdict, notes: bool, width: usize, style: Style) -> Vec<String> {
    let allowed = "rated and effective: what the parts allow".to_string();
    let bottleneck = if verdict.cut.is_empty() {
        String::new()
    } else {
        format!(", limited by {}", named(&verdict.cut, &resources(run)))
    };
    let protocol = run.goal.protocols.first().map(|protocol| format!(", {protocol}")).unwrap_or_default();
    let share = verdict.of_predicted.map(|share| format!("achieved {} of it{protocol}", percent(share)));
    let share = share.unwrap_or_default();
    let apart = if share.is_empty() { "" } else { "; " };
    let predicted = format!("from measured stages{bottleneck}{apart}{share}");
    let mut lines = vec![String::new()];
    let (predicted, allowed) = if notes { (predicted, allowed) } else { (share, String::new()) };
    lines.extend(figure("predicted", &verdict.predicted, predicted, width, style));
    lines.extend(figure("ceiling", &verdict.ceiling, allowed, width, style));
    lines.extend(other_protocols(run, notes, width, style));
    lines
}

/// A figure in both units, and a note or why it is unknown.
fn figure(word: &str, figure: &Figure, note: String, width: usize, style: Style) -> Vec<String> {
    let note = match (&figure.why, figure.value) {
        (Some(why), None) => format!("({})", printable(why)),
        _ => note,
    };
    beside(word, &both(figure), &note, width, |head| style.bold(head), style)
}

/// A figure with its note on one line, or the note below it where that is too long.
fn beside(
    word: &str,
    shown: &str,
    note: &str,
    width: usize,
    bold: impl Fn(&str) -> String,
    style: Style,
) -> Vec<String> {
    let head = format!("{word:<11}{shown:<26}");
    if columns(&head) + columns(note) <= width {
        return vec![format!("{}{}", bold(&head), style.dim(note)).trim_end().to_string()];
    }
    let below = wrapped(note, width - 11).into_iter().map(|line| format!("{:<11}{}", "", style.dim(&line)));
    [bold(head.trim_end())].into_iter().chain(below).collect()
}

/// The protocols that are not the headline: a line each, and their own sentence where something else limits
/// them.
fn other_protocols(run: &Run, notes: bool, width: usize, style: Style) -> Vec<String> {
    let Some(diagnosis) = &run.diagnosis else { return Vec::new() };
    let headline = run.goal.protocols.first();
    let mut lines = Vec::new();
    for other in diagnosis.by_protocol.iter().filter(|other| Some(&other.protocol) != headline) {
        let reached = Some(other.achieved.bytes_per_second).filter(|rate| *rate > 0.0);
        let achieved = Figure::of(reached, Origin::Measured);
        let predicted = Figure::of_fact(&other.predicted.bytes_per_second, Origin::Measured);
        let share = percent(other.achieved.of_predicted);
        let note = format!("achieved, {share} of {} predicted", predicted.show(Unit::Bytes));
        let protocol = other.protocol.to_string();
        lines.extend(beside(&protocol, &both(&achieved), &note, width, str::to_string, style));
        let limited_alike = Some(&other.bottleneck.resources)
            == diagnosis.bottleneck.as_ref().map(|headline| &headline.resources);
        if notes && !limited_alike {
            let sentence = without_achieved(&other.bottleneck, &other.achieved);
            let sentence = wrapped(&sentence, width - 11);
            lines.extend(sentence.iter().map(|line| format!("{:<11}{}", "", style.dim(line))));
        }
    }
    lines
}

fn finding_lines(run: &Run, limit: usize, width: usize, style: Style) -> Vec<String> {
    let findings = run.findings();
    if findings.is_empty() {
        return Vec::new();
    }
    if limit == 0 {
        let count = counted(findings.len(), "finding");
        return vec![style.dim(&format!("and {count} more, in report.html and run.json"))];
    }
    let mut lines = vec![String::new(), style.bold("findings")];
    for finding in findings.iter().take(limit) {
        lines.extend(finding_text(finding, width, style));
    }
    let left = findings.len().saturating_sub(limit);
    if left > 0 {
        lines.push(style.dim(&format!("  and {left} more, in report.html and run.json")));
    }
    lines
}

/// The first line of a measurement that has no path: the host, what was done, and what it is called.
fn title(run: &Run, width: usize, style: Style) -> Vec<String> {
    let title = format!(
        "linerate {} on {}, {}: {}",
        printable(&run.version),
        printable(&run.host),
        run.command(),
        printable(&run.name)
    );
    wrapped(&title, width).iter().map(|line| style.bold(line)).collect()
}

/// Each finding whole, below a heading; nothing where there is none.
pub(super) fn findings(findings: &[Finding], width: usize, style: Style) -> Vec<String> {
    if findings.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![String::new(), style.bold("findings")];
    lines.extend(findings.iter().flat_map(|finding| finding_text(finding, width, style)));
    lines
}

fn finding_text(finding: &Finding, width: usize, style: Style) -> Vec<String> {
    let severity: &str = finding.severity.into();
    let indent = 7;
    let mut lines = Vec::new();
    let text = format!("{}: {}", printable(&finding.id), printable(&finding.text));
    for (index, line) in wrapped(&text, width - indent).iter().enumerate() {
        let head = if index == 0 { style.severity(severity, finding.severity) } else { "    ".into() };
        lines.push(format!("  {head} {line}"));
    }
    if !finding.remedy.trim().is_empty() {
        let gain = rate(finding.gain).filter(|gain| *gain > 0.0);
        let gain = gain.map(|gain| format!(" (gains {})", Unit::Bytes.show(gain)));
        let remedy = format!("→ {}{}", printable(&finding.remedy), gain.unwrap_or_default());
        for line in wrapped(&remedy, width - indent) {
            lines.push(format!("       {}", style.dim(&line)));
        }
    }
    lines
}

/// What failed, in red; nothing where nothing did.
fn error_text(errors: &[String], shown: usize, width: usize, style: Style) -> Vec<String> {
    if errors.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![String::new(), style.cut("errors: the results are partial")];
    for error in errors.iter().take(shown) {
        lines.extend(wrapped(&printable(error), width - 2).iter().map(|line| format!("  {line}")));
    }
    let left = errors.len().saturating_sub(shown);
    if left > 0 {
        lines.push(style.dim(&format!("  and {left} more, in run.json")));
    }
    lines
}

/// `0.214`, or a dash where nothing was measured.
fn cost(seconds_per_gb: f64) -> String {
    if seconds_per_gb > 0.0 { quantity(seconds_per_gb) } else { "–".into() }
}
