//! The storage of a fleet. Its disks: what each source did alone and with all others, and how far ever more
//! hosts add up. Its servers and clients: each step with what limits it, and what ways to keep data would
//! leave of it.

use crate::document::{Block, Part, Table, TableRow};
use crate::figure::Unit;
use crate::grid::{Column, headed, number, text};
use linerate_facts::units::show_bytes_rate;
use linerate_fleet::limit_words;
use linerate_measure::run::fleet::{
    DiskDirection, FleetDisk, FleetResult, FleetWindow, FlowRange, StoreEstimate, StoreLimit, StoreRate,
};

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

pub(super) fn disk_parts(result: &FleetResult) -> [Part<'static>; 2] {
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

const SERVER_HEADS: [&str; 6] =
    ["server", "disks alone", "sends alone", "to all clients", "predicted", "of it"];
const STEP_HEADS: [&str; 6] = ["clients", "together", "predicted", "of it", "single flows", "limited by"];
const KEPT_HEADS: [&str; 5] = ["kept as", "clients", "traffic", "at most", "limited by"];
const STEPS: &str = "All servers send what they read to 1, 2, 4 … clients at once; the prediction and its limit follow from what each \
     host reads, sends and receives alone.";
const WAYS: &str = "Arithmetic on what each host does alone, over a network that blocks nothing; traffic: how often a byte of a client \
     crosses the network.";

/// Each server: what it does alone, and what it gives when all clients take.
fn server_rows(result: &FleetResult) -> Vec<Vec<String>> {
    let alone = |window: usize| result.windows.get(window).is_some_and(|window| window.alone);
    let last = result.windows.iter().rposition(|window| !window.alone && window.flows > 0);
    let row = |server: &String| {
        let disks: f64 = result
            .disks
            .iter()
            .filter(|disk| disk.member == *server && disk.direction == DiskDirection::Read)
            .filter_map(|disk| disk.bytes_per_second)
            .sum();
        let sent = result.cells.iter().filter(|cell| cell.from == *server);
        let sends = sent.clone().filter(|cell| alone(cell.window));
        let sends = sends.filter_map(|cell| cell.figures.bytes_per_second).reduce(f64::max);
        let of_last = || sent.clone().filter(|cell| Some(cell.window) == last);
        let gives: f64 = of_last().filter_map(|cell| cell.figures.bytes_per_second).sum();
        let predicted: f64 = of_last().filter_map(|cell| cell.predicted_bytes_per_second).sum();
        let known = |rate: f64| if rate > 0.0 { show_bytes_rate(rate) } else { String::new() };
        let ratio = if predicted > 0.0 { format!("{:.2}", gives / predicted) } else { String::new() };
        vec![
            server.clone(),
            known(disks),
            sends.map(show_bytes_rate).unwrap_or_default(),
            known(gives),
            known(predicted),
            ratio,
        ]
    };
    result.servers.iter().map(row).collect()
}

fn step_rows(result: &FleetResult) -> Vec<Vec<String>> {
    let flows =
        |range: FlowRange| Unit::Bytes.show_range(range.least_bytes_per_second, range.most_bytes_per_second);
    let row = |window: &FleetWindow| {
        let predicted = window.predicted_bytes_per_second;
        let ratio = predicted.map(|predicted| format!("{:.2}", window.bytes_per_second / predicted));
        vec![
            (window.flows / result.servers.len().max(1)).to_string(),
            show_bytes_rate(window.bytes_per_second),
            predicted.map(show_bytes_rate).unwrap_or_default(),
            ratio.unwrap_or_default(),
            window.single_flows.map(flows).unwrap_or_default(),
            limit_words(&window.limits).unwrap_or_default(),
        ]
    };
    result.windows.iter().filter(|window| !window.alone && window.flows > 0).map(row).collect()
}

/// Ways to keep data, read and written.
fn kept_rows(result: &FleetResult) -> Vec<Vec<String>> {
    let row = |estimate: &StoreEstimate, does: &str, rate: &StoreRate, without_disks: bool| {
        let limit = match rate.limit {
            StoreLimit::Disks => "the disks",
            StoreLimit::ServersSend => "what the servers send",
            StoreLimit::ServersReceive => "what the servers receive",
            StoreLimit::Clients => "the clients",
        };
        let without = if without_disks { "; the disks were not written: --write" } else { "" };
        vec![
            estimate.redundancy.to_string(),
            does.into(),
            format!("{:.2}", rate.traffic_factor),
            show_bytes_rate(rate.bytes_per_second),
            format!("{limit}{without}"),
        ]
    };
    let of = |estimate: &StoreEstimate| {
        let read = estimate.read.as_ref().map(|rate| row(estimate, "read", rate, false));
        let write = estimate.write.as_ref().map(|rate| row(estimate, "write", rate, !estimate.disks_written));
        [read, write].into_iter().flatten().collect::<Vec<_>>()
    };
    result.redundancy.iter().flat_map(of).collect()
}

pub(super) fn parts(result: &FleetResult) -> [Part<'static>; 3] {
    let server = |row: Vec<String>| {
        let slow = result.verdict.members.iter().any(|one| one.name == row[0]);
        TableRow::of(row).marked(slow)
    };
    let servers = Table::new(headed(&SERVER_HEADS, 1, false), server_rows(result).into_iter().map(server));
    let steps = Table::new(headed(&STEP_HEADS, 1, true), step_rows(result).into_iter().map(TableRow::of));
    let kept: Vec<TableRow> = kept_rows(result).into_iter().map(TableRow::of).collect();
    let kept = (!kept.is_empty()).then(|| Block::Table(Table::new(headed(&KEPT_HEADS, 2, true), kept)));
    let kept = kept.into_iter().flat_map(|table| [Block::Space, table]).collect();
    [
        Part::new("servers", "The servers", "", vec![Block::Table(servers)]),
        Part::new("clients", "Ever more clients", STEPS, vec![Block::Space, Block::Table(steps)]),
        Part::new("kept", "Ways to keep data", WAYS, kept),
    ]
}
