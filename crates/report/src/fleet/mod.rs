//! A fleet as one screen and as one page: the sentence, the matrix of rates, and the members with what a flow
//! or a disk could depend on.
//!
//! Of its disks: what each source did alone and with all others, and how far ever more hosts add up. Of its servers and
//! clients: each step with what limits it, and what ways to keep data would leave of it.

mod matrix;

use crate::document::{Block, Document, Media, Part, Table, TableRow, bold, dim, errors, plain};
use crate::figure::Unit;
use crate::grid::{Column, headed, number, text};
use linerate_facts::units::{bytes_per_second, show_bits_rate, show_bytes_rate, show_size};
use linerate_facts::wording::counted;
use linerate_fleet::limit_words;
use linerate_machine::probe::{Machine, Nic};
use linerate_measure::run::Run;
use linerate_measure::run::fleet::{
    DiskDirection, FleetDisk, FleetMember, FleetPattern, FleetResult, FleetWindow, FlowRange, StoreEstimate,
    StoreLimit, StoreRate,
};

const STYLE: &str = "\
.heat .s0{fill:#b2182b}.heat .s1{fill:#ef8a62}.heat .s2{fill:#fddbc7}.heat .s3{fill:#e8efe8}\
.heat .s4{fill:#d1e5f0}.heat .s5{fill:#67a9cf}.heat .none{fill:none;stroke:#888;stroke-dasharray:2 2}\
.heat text{font-size:11px;fill:currentColor}";

/// Disks of a host that are written out.
const MOST_DISKS: usize = 4;

const MEMBER_HEADS: [&str; 10] = [
    "member",
    "address",
    "kernel",
    "CPUs",
    "memory",
    "disks",
    "NIC",
    "busiest CPU",
    "clock known within",
    "notes",
];

const DISK_HEADS: [&str; 8] = ["host", "source", "", "alone", "all hosts", "of alone", "first done", "p99"];
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

const SERVER_HEADS: [&str; 6] =
    ["server", "disks alone", "sends alone", "to all clients", "predicted", "of it"];
const STEP_HEADS: [&str; 6] = ["clients", "together", "predicted", "of it", "single flows", "limited by"];
const KEPT_HEADS: [&str; 5] = ["kept as", "clients", "traffic", "at most", "limited by"];
const STEPS: &str = "All servers send what they read to 1, 2, 4 … clients at once; the prediction and its limit follow from what each \
     host reads, sends and receives alone.";
const WAYS: &str = "Arithmetic on what each host does alone, over a network that blocks nothing; traffic: how often a byte of a client \
     crosses the network.";

pub(crate) fn document<'a>(run: &'a Run, result: &'a FleetResult) -> Document<'a> {
    let beside = vec![Block::Space, Block::Text(dim(conditions(result)))];
    let mut all = vec![Part { on: Media::Terminal, blocks: beside, ..Part::default() }];
    all.push(errors(&run.errors, usize::MAX));
    all.push(list("unlike", "How the members differ", &result.differences));
    let mut doubts = list("doubts", "What makes the figures doubtful", &result.verdict.doubts);
    doubts.late = 1;
    all.push(doubts);
    all.push(Part { blocks: vec![Block::Space], ..Part::default() });
    all.extend(parts(result));
    all.push(missing_members(result));
    Document {
        tab: format!("fleet of {} – linerate", result.members.len()),
        about: vec![conditions(result), format!("linerate {}", run.version), run.started.clone()],
        answer: vec![bold(&result.verdict.sentence)],
        sheet: STYLE.into(),
        parts: all,
        ..Document::default()
    }
}

/// `pairs of 4 members, windows of 5 s, 2 streams a flow`.
fn conditions(result: &FleetResult) -> String {
    let members = format!("{} of {}", result.pattern.name(), counted(result.members.len(), "member"));
    let flows = format!("windows of {} s, {} a flow", result.seconds, counted(result.streams, "stream"));
    match result.pattern {
        FleetPattern::Disk => members,
        FleetPattern::Storage => {
            format!("{members}, of which {} are servers, {flows}", result.servers.len())
        }
        _ => format!("{members}, {flows}"),
    }
}

/// Who was not measured, and why; the page has it in the table of the members.
fn missing_members(result: &FleetResult) -> Part<'_> {
    let lost = result.members.iter().filter_map(|member| Some((&member.name, member.lost.as_ref()?)));
    let all = lost.chain(result.absent.iter().map(|host| (&host.name, &host.why)));
    let lines = all.map(|(name, why)| Block::Text(plain(format!("not measured: {name}: {why}"))));
    Part { on: Media::Terminal, late: 1, blocks: lines.collect(), ..Part::default() }
}

/// What the pattern has to show.
fn parts(result: &FleetResult) -> Vec<Part<'_>> {
    let mut parts = match result.pattern {
        FleetPattern::Disk => disk_parts(result).to_vec(),
        FleetPattern::Storage => server_parts(result).to_vec(),
        FleetPattern::Incast => vec![matrix::incast(&result.verdict)],
        _ => Vec::new(),
    };
    if result.pattern != FleetPattern::Disk {
        parts.push(matrix::rates(result));
        parts.extend(matrix::predicted(result));
        let on = if result.pattern == FleetPattern::AllToAll { Media::Both } else { Media::Page };
        parts.push(matrix::hosts(result, on));
    }
    if matches!(result.pattern, FleetPattern::AllToAll | FleetPattern::Bisection) {
        parts.push(matrix::windows(result));
    }
    if !result.verdict.racks.is_empty() {
        parts.push(matrix::racks(result));
    }
    parts.push(members_part(result));
    parts
}

/// Sentences below a heading of the page.
fn list<'a>(id: &'static str, title: &'static str, sentences: &[String]) -> Part<'a> {
    let space = (!sentences.is_empty()).then_some(Block::Space);
    let sentences = sentences.iter().map(|sentence| Block::Text(plain(sentence)));
    Part { id, title, blocks: space.into_iter().chain(sentences).collect(), ..Part::default() }
}

/// The hosts with what a flow or a disk could depend on.
fn members_part(result: &FleetResult) -> Part<'static> {
    let members = result.members.iter().map(|member| member_cells(result, member));
    let absent = result.absent.iter().map(|host| {
        let mut cells = <[String; 10]>::default();
        (cells[0], cells[9]) = (host.name.clone(), host.why.clone());
        cells
    });
    let table =
        Table::new(headed(&MEMBER_HEADS, MEMBER_HEADS.len(), false), members.chain(absent).map(TableRow::of));
    let blocks = vec![Block::Table(table)];
    Part { id: "members", title: "The members", on: Media::Page, blocks, ..Part::default() }
}

fn member_cells(result: &FleetResult, member: &FleetMember) -> [String; 10] {
    let machine = member.machine.as_deref();
    let unknown = || "unknown".to_string();
    let kernel = machine.and_then(|machine| machine.kernel.release.known().cloned());
    let memory = machine.and_then(|machine| machine.memory.total_bytes.known().copied());
    let evidence = result.verdict.members.iter().filter(|slow| slow.name == member.name);
    let mut notes: Vec<&str> = evidence.flat_map(|slow| &slow.evidence).map(String::as_str).collect();
    notes.dedup();
    notes.extend(member.lost.as_deref());
    [
        member.name.clone(),
        member.address.clone(),
        kernel.unwrap_or_else(unknown),
        machine.map_or_else(unknown, |machine| machine.cpu.logical.len().to_string()),
        memory.map_or_else(unknown, show_size),
        machine.map_or_else(unknown, disk_words),
        member.nic().map_or_else(unknown, nic_words),
        busiest(result, &member.name).unwrap_or_default(),
        format!("{:.0} µs", member.clock_error_seconds * 1e6),
        notes.join("; "),
    ]
}

/// Those that hold bytes themselves: no volume of others, and no file.
fn disk_words(machine: &Machine) -> String {
    let own = machine.disks.iter().filter(|disk| disk.members.is_empty() && disk.backing_file.is_none());
    let names: Vec<&str> = own.map(|disk| disk.name.as_str()).collect();
    match names.len() {
        few if few <= MOST_DISKS => names.join(", "),
        many => format!("{} and {} more", names[..MOST_DISKS].join(", "), many - MOST_DISKS),
    }
}

fn nic_words(nic: &Nic) -> String {
    let rate = nic.speed_bits_per_second.known().map(|bits| show_bits_rate(bytes_per_second(*bits)));
    let queues = nic.rx_queues.known().map(|queues| match queues {
        1 => "1 RX queue".to_string(),
        queues => format!("{queues} RX queues"),
    });
    let words = [Some(nic.name.clone()), rate, queues];
    words.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The fullest that a CPU of this member was in any window.
fn busiest(result: &FleetResult, name: &str) -> Option<String> {
    let of = result.hosts.iter().filter(|host| host.member == name);
    let cores = of.filter_map(|host| host.load.busiest);
    let most = cores.max_by(|one, other| one.busy().total_cmp(&other.busy()))?;
    Some(format!("CPU {}: {:.0} %, softirq {:.0} %", most.core, most.busy() * 100.0, most.softirq * 100.0))
}

/// A row for each source of each member and direction.
fn disk_rows(result: &FleetResult) -> Vec<Vec<String>> {
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
                direction_word(direction).into(),
                shown_rate(single),
                shown_rate(together),
                ratio.unwrap_or_default(),
                shown_rate(first),
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
            window.disks.map_or("", direction_word).to_string(),
            show_bytes_rate(window.bytes_per_second),
            shown_rate(window.predicted_bytes_per_second),
            shown_rate(window.first_done_bytes_per_second),
            window.scalability.map(|share| format!("{:.0} %", share * 100.0)).unwrap_or_default(),
        ]
    };
    result.windows.iter().filter(|window| !window.alone).map(row).collect()
}

fn shown_rate(rate: Option<f64>) -> String {
    rate.map(show_bytes_rate).unwrap_or_default()
}

fn direction_word(direction: DiskDirection) -> &'static str {
    match direction {
        DiskDirection::Read => "read",
        DiskDirection::Write => "write",
    }
}

fn disk_parts(result: &FleetResult) -> [Part<'static>; 2] {
    let is_slow = |row: &[String]| {
        let named = |source: &String| row[1] == *source;
        result.verdict.members.iter().any(|one| one.name == row[0] && one.sources.iter().any(named))
    };
    let rows = disk_rows(result).into_iter().map(|row| {
        let slow = is_slow(&row);
        TableRow::of(row).marked(slow)
    });
    let sources = Table::new(headed(&DISK_HEADS, 3, false), rows);
    let windows = Table::new(WINDOWS, window_rows(result).into_iter().map(TableRow::of));
    [
        Part { id: "disks", title: "The sources", blocks: vec![Block::Table(sources)], ..Part::default() },
        Part::new("scalability", "How far hosts add up", ADDING, vec![Block::Space, Block::Table(windows)]),
    ]
}

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

fn server_parts(result: &FleetResult) -> [Part<'static>; 3] {
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
