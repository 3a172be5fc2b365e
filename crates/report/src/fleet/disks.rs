//! The disks of a fleet, on the terminal and on the page: what each source did alone and with all others, and how far
//! ever more hosts add up.

use super::table_of_page as table;
use crate::grid::{self, Column, headed, number, text};
use crate::html::pieces;
use crate::markup::{Markup, html};
use crate::style::Style;
use linerate_facts::units::show_bytes_rate;
use linerate_fleet::{DiskDirection, FleetDisk, FleetResult, FleetWindow};

const HEADS: [&str; 8] = ["host", "source", "", "alone", "all hosts", "of alone", "first done", "p99"];
const WINDOW_HEADS: [&str; 6] = ["hosts", "", "together", "predicted", "first done", "scalability"];

/// A row for each source of each member and direction.
fn rows(result: &FleetResult) -> Vec<Vec<String>> {
    let alone = |disk: &&FleetDisk| result.windows.get(disk.window).is_some_and(|window| window.alone);
    let mut rows = Vec::new();
    for direction in [DiskDirection::Write, DiskDirection::Read] {
        let of = || result.disks.iter().filter(move |disk| disk.direction == direction);
        let mut seen: Vec<(&str, &str)> = Vec::new();
        for disk in of() {
            let key = (disk.member.as_str(), disk.source.as_str());
            if disk.source.is_empty() || seen.contains(&key) {
                continue;
            }
            seen.push(key);
            let same = || of().filter(|other| (other.member.as_str(), other.source.as_str()) == key);
            let single = same().find(alone).and_then(|disk| disk.bytes_per_second);
            let all = same().rev().find(|disk| !alone(disk));
            let together = all.and_then(|disk| disk.bytes_per_second);
            let ratio = together.zip(single).map(|(together, single)| format!("{:.2}", together / single));
            let first = all.and_then(|disk| disk.first_done_bytes_per_second);
            let p99 = all.and_then(|disk| disk.p99_seconds);
            let disks =
                if disk.disks.is_empty() { String::new() } else { format!(" ({})", disk.disks.join(", ")) };
            rows.push(vec![
                disk.member.clone(),
                format!("{}{disks}", disk.source),
                word(direction).into(),
                rate(single),
                rate(together),
                ratio.unwrap_or_default(),
                rate(first),
                p99.map(|seconds| format!("{:.1} ms", seconds * 1e3)).unwrap_or_default(),
            ]);
        }
    }
    rows
}

/// How far hosts add up: a row for each number of them.
fn window_rows(result: &FleetResult) -> Vec<Vec<String>> {
    let row = |window: &FleetWindow| {
        vec![
            window.hosts.to_string(),
            window.disks.map_or("", word).to_string(),
            show_bytes_rate(window.bytes_per_second),
            rate(window.predicted_bytes_per_second),
            rate(window.first_done_bytes_per_second),
            window.scalability.map(|share| format!("{:.0} %", share * 100.0)).unwrap_or_default(),
        ]
    };
    result.windows.iter().filter(|window| !window.alone).map(row).collect()
}

fn rate(rate: Option<f64>) -> String {
    rate.map(show_bytes_rate).unwrap_or_default()
}

fn word(direction: DiskDirection) -> &'static str {
    match direction {
        DiskDirection::Read => "read",
        DiskDirection::Write => "write",
    }
}

pub(super) fn terminal(result: &FleetResult, style: Style, width: usize) -> Vec<String> {
    let rows = rows(result);
    let slow = |row: usize| {
        let row: &Vec<String> = &rows[row];
        let named = |source: &String| row[1] == *source;
        result.verdict.members.iter().any(|one| one.name == row[0] && one.sources.iter().any(named))
    };
    let mut lines = grid::styled(&headed(&HEADS, 3, false), &rows, width, style, slow);
    lines.push(String::new());
    let columns: Vec<Column<'_>> = WINDOW_HEADS
        .iter()
        .enumerate()
        .map(|(at, head)| if at == 1 { text(head, 0) } else { number(head, 0) })
        .collect();
    lines.extend(grid::styled(&columns, &window_rows(result), width, style, |_| false));
    lines
}

pub(super) fn page(result: &FleetResult) -> Markup {
    html! {
        (pieces::card("scalability", "How far hosts add up", html! { p { "All bytes until the last worker was done, beside what follows from each host alone; scalability is the sum of the sources' own rates by the sum of what each does alone." } }, table(&WINDOW_HEADS, window_rows(result))))
        (pieces::card("disks", "The sources", html! {}, table(&HEADS, rows(result))))
    }
}
