//! The disks of a fleet: what each source did alone and with all others, and how far
//! ever more hosts add up.

use crate::document::{Block, Part, Table, TableRow};
use crate::grid::{Column, headed, number, text};
use linerate_facts::units::show_bytes_rate;
use linerate_measure::run::fleet::{DiskDirection, FleetDisk, FleetResult, FleetWindow};

const HEADS: [&str; 8] = ["host", "source", "", "alone", "all hosts", "of alone", "first done", "p99"];
const WINDOWS: [Column; 6] = [
    number("hosts", 0),
    text("", 0),
    number("together", 0),
    number("predicted", 0),
    number("first done", 0),
    number("scalability", 0),
];
const ADDING: &str = "All bytes until the last worker was done, beside what follows from each host alone; scalability is the sum of \
     the sources' own rates by the sum of what each does alone.";

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

pub(super) fn parts(result: &FleetResult) -> [Part<'static>; 2] {
    let is_slow = |row: &[String]| {
        let named = |source: &String| row[1] == *source;
        result.verdict.members.iter().any(|one| one.name == row[0] && one.sources.iter().any(named))
    };
    let rows = rows(result).into_iter().map(|row| {
        let slow = is_slow(&row);
        TableRow::of(row).marked(slow)
    });
    let sources = Table::new(headed(&HEADS, 3, false), rows);
    let windows = Table::new(WINDOWS, window_rows(result).into_iter().map(TableRow::of));
    [
        Part { id: "disks", title: "The sources", blocks: vec![Block::Table(sources)], ..Part::default() },
        Part::new("scalability", "How far hosts add up", ADDING, vec![Block::Space, Block::Table(windows)]),
    ]
}
