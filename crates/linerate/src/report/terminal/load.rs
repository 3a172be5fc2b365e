//! The screen of a load test: what was run, a line for each step, the answer, findings, errors.

use super::grid::{Column, column, lines};
use super::{Style, error_text, finding_text};
use crate::report::printable::{printable, wrapped};
use crate::report::stage::{operations_word, rows, seconds_word, sentence};
use crate::run::StageRun;

const STEPS: [Column; 6] = [
    column("load", true, 0),
    column("IOPS", false, 0),
    column("mean", false, 0),
    column("p99", false, 1),
    column("p99.9", false, 2),
    column("", true, 3),
];

/// The whole screen, a newline at its end.
pub(super) fn screen(run: &StageRun, width: usize, style: Style) -> String {
    let width = width.clamp(60, 140);
    let head = format!(
        "linerate {} {} on {}: {}",
        printable(&run.version),
        run.stage,
        printable(&run.host),
        printable(&run.name)
    );
    let mut text: Vec<String> = wrapped(&head, width).iter().map(|line| style.bold(line)).collect();
    let table = steps(run, width);
    if table.len() > 1 {
        text.push(String::new());
        text.push(style.dim(&table[0]));
        text.extend_from_slice(&table[1..]);
    }
    text.push(String::new());
    text.extend(wrapped(&sentence(run), width).iter().map(|line| style.bold(line)));
    text.extend(remarks(run, width, style));
    if !run.findings.is_empty() {
        text.extend([String::new(), style.bold("findings")]);
        text.extend(run.findings.iter().flat_map(|finding| finding_text(finding, 4, width, style)));
    }
    text.extend(error_text(&run.errors, 5, 3, width, style));
    text.join("\n") + "\n"
}

fn steps(run: &StageRun, width: usize) -> Vec<String> {
    let Some(curve) = &run.load else { return Vec::new() };
    let row = |(index, point): (usize, &crate::measure::access::LoadPoint)| {
        let load = match point.offered {
            Some(offered) => format!("{}/s", operations_word(offered)),
            None if point.workers == 1 => "1 worker".into(),
            None => format!("{} workers", point.workers),
        };
        let mut notes = Vec::new();
        if curve.knee == Some(index) {
            notes.push(if point.offered.is_some() { "highest" } else { "knee" });
        }
        if !point.within_limit {
            notes.push("past the limit");
        }
        let seconds = [point.latency.mean, point.latency.p99, point.latency.p99_9].map(seconds_word);
        let [mean, p99, p99_9] = seconds;
        vec![load, operations_word(point.operations_per_second), mean, p99, p99_9, notes.join(", ")]
    };
    let rows: Vec<Vec<String>> = curve.points.iter().enumerate().map(row).collect();
    lines(&STEPS, &rows, width)
}

/// What the columns have no room for, each once with how many rows it holds of.
fn remarks(run: &StageRun, width: usize, style: Style) -> Vec<String> {
    let rows = rows(run);
    let all: Vec<(String, &str)> = rows
        .iter()
        .flat_map(|row| row.remarks().into_iter().map(|remark| (remark, row.name.as_str())))
        .collect();
    let mut told: Vec<&str> = Vec::new();
    let mut text = Vec::new();
    for (remark, name) in &all {
        if told.contains(&remark.as_str()) {
            continue;
        }
        told.push(remark);
        let count = all.iter().filter(|(other, _)| other == remark).count();
        let whose = if count == 1 { (*name).to_string() } else { format!("{count} rows") };
        text.extend(wrapped(&format!("{remark}: {whose}"), width).iter().map(|line| style.dim(line)));
    }
    text
}
