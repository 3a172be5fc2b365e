//! The screen of a load test: what was run, a line for each step, the answer, findings, errors.

use super::{Style, error_text, finding_lines};
use crate::figure::percent;
use crate::figure_words::{operations_word, seconds_word};
use crate::grid::{Column, name, number, styled, text};
use crate::stage::{in_flight_of_more, rows, sentence};
use linerate_facts::printable::{printable, wrapped};
use linerate_facts::wording::counted;
use linerate_measure::run::Run;

const STEPS: [Column; 6] =
    [name("load"), number("IOPS", 0), number("mean", 0), number("p99", 1), number("p99.9", 2), text("", 3)];

/// The whole screen, a newline at its end.
pub(super) fn screen(run: &Run, width: usize, style: Style) -> String {
    let width = width.clamp(60, 140);
    let head = format!(
        "linerate {} {} on {}: {}",
        printable(&run.version),
        run.command(),
        printable(&run.host),
        printable(&run.name)
    );
    let mut screen: Vec<String> = wrapped(&head, width).iter().map(|line| style.bold(line)).collect();
    let table = steps(run, width, style);
    if table.len() > 1 {
        screen.push(String::new());
        screen.extend(table);
    }
    screen.push(String::new());
    screen.extend(wrapped(&sentence(run), width).iter().map(|line| style.bold(line)));
    screen.extend(remarks(run, width, style));
    screen.extend(finding_lines(run, usize::MAX, width, style));
    screen.extend(error_text(&run.errors, 5, width, style));
    screen.join("\n") + "\n"
}

fn steps(run: &Run, width: usize, style: Style) -> Vec<String> {
    let Some(curve) = &run.load else { return Vec::new() };
    let (answer, level) = (curve.answer(), curve.level_rate());
    let row = |point: &linerate_measure::measure::access::LoadPoint| {
        let load = match point.offered {
            Some(offered) => format!("{}/s", operations_word(offered)),
            None => counted(point.workers, "worker"),
        };
        let mut notes = Vec::new();
        if answer.is_some_and(|answer| std::ptr::eq(answer, point)) {
            notes.push(match level.filter(|_| point.offered.is_none()) {
                Some(level) => format!("{} of the most", percent(point.operations_per_second / level)),
                None => "highest".into(),
            });
        }
        if let Some(in_flight) = in_flight_of_more(point) {
            notes.push(format!("{in_flight:.0} in flight"));
        }
        if !point.within_limit {
            notes.push("past the limit".into());
        }
        let seconds = [point.latency.mean, point.latency.p99, point.latency.p99_9].map(seconds_word);
        let [mean, p99, p99_9] = seconds;
        vec![load, operations_word(point.operations_per_second), mean, p99, p99_9, notes.join(", ")]
    };
    let rows: Vec<Vec<String>> = curve.points.iter().map(row).collect();
    styled(&STEPS, &rows, width, style, |_| false)
}

/// What the columns have no room for, each once with how many rows it holds of.
fn remarks(run: &Run, width: usize, style: Style) -> Vec<String> {
    let rows = rows(run);
    let all: Vec<(String, &str)> = rows
        .iter()
        .flat_map(|row| row.remarks().into_iter().map(|remark| (remark, row.name.as_str())))
        .collect();
    let mut told: Vec<&str> = Vec::new();
    let mut screen = Vec::new();
    for (remark, name) in &all {
        if told.contains(&remark.as_str()) {
            continue;
        }
        told.push(remark);
        let count = all.iter().filter(|(other, _)| other == remark).count();
        let whose = if count == 1 { (*name).to_string() } else { format!("{count} rows") };
        screen.extend(wrapped(&format!("{remark}: {whose}"), width).iter().map(|line| style.dim(line)));
    }
    screen
}
