//! A fleet as one screen and as one page: the sentence, the matrix of rates, the members.

pub mod compare;
mod disks;
mod incast;
mod storage;
mod wall;

use crate::folder::Product;
use crate::grid::{self, Column, name, notes, number, text};
use crate::html::{document, pieces};
use crate::markup::{Anchor, Markup, Rect, at, group, html, rect, text as words};
use crate::terminal::Style;
use linerate_facts::printable::printable;
use linerate_facts::units::{bytes_per_second, show_bits_rate, show_size};
use linerate_fleet::{FleetCell, FleetMember, FleetPattern, FleetResult, RackPair};
use linerate_machine::probe::Nic;
use serde::Serialize;

/// More hosts than this are no table of a terminal.
const MOST_HOSTS_OF_A_TABLE: usize = 16;
/// Side of one cell of the heat map.
const CELL: f64 = 26.0;
/// Room for the names of hosts at its edges: of a letter, and at most.
const LETTER: f64 = 6.5;
const MOST_NAMES: f64 = 120.0;
/// Shades from red to green, at these shares of the median.
const SHADES: [(f64, &str); 6] =
    [(0.5, "s0"), (0.75, "s1"), (0.9, "s2"), (1.1, "s3"), (1.5, "s4"), (f64::INFINITY, "s5")];

const STYLE: &str = "\
.heat .s0{fill:#b2182b}.heat .s1{fill:#ef8a62}.heat .s2{fill:#fddbc7}.heat .s3{fill:#e8efe8}\
.heat .s4{fill:#d1e5f0}.heat .s5{fill:#67a9cf}.heat .none{fill:none;stroke:#888;stroke-dasharray:2 2}\
.heat text{font-size:11px;fill:currentColor}";

/// A fleet's result as it is saved.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct FleetProduct<'a>(pub &'a FleetResult);

impl Product for FleetProduct<'_> {
    const FILE: &'static str = "fleet.json";

    fn started(&self) -> &str {
        &self.0.started
    }

    fn page(&self) -> String {
        page(self.0)
    }
}

/// One screen: what was found, the matrix where it fits, what failed. Ends with a newline.
pub fn terminal(result: &FleetResult, width: usize, colour: bool) -> String {
    let style = Style::of(width, colour);
    let mut lines = vec![style.bold(&printable(&result.verdict.sentence)), String::new()];
    let measured = result.members.len();
    let streams = if result.streams == 1 { "1 stream".into() } else { format!("{} streams", result.streams) };
    let pattern = result.pattern.name();
    lines.push(style.dim(&match result.pattern {
        FleetPattern::Disk => format!("{pattern} of {measured} members"),
        FleetPattern::Storage => format!(
            "{pattern} of {measured} members, of which {} are servers, windows of {} s, {streams} a flow",
            result.servers.len(),
            result.seconds
        ),
        FleetPattern::Wall => wall::heading(result),
        _ => format!("{pattern} of {measured} members, windows of {} s, {streams} a flow", result.seconds),
    }));
    for difference in &result.differences {
        lines.push(printable(difference));
    }
    lines.push(String::new());
    lines.extend(match result.pattern {
        FleetPattern::Disk => disks::terminal(result, style, width),
        FleetPattern::Storage => storage::terminal(result, style, width),
        FleetPattern::Wall => wall::terminal(result, style, width),
        FleetPattern::Incast => incast::terminal(&result.verdict, style, width),
        _ if measured <= MOST_HOSTS_OF_A_TABLE => {
            [matrix(result, style, width), of_predicted(result, style, width)].concat()
        }
        _ => slowest(result, style, width),
    });
    if matches!(result.pattern, FleetPattern::AllToAll | FleetPattern::Bisection) {
        lines.push(String::new());
        lines.extend(windows(result, style, width));
    }
    if !result.verdict.racks.is_empty() {
        lines.push(String::new());
        lines.extend(racks(result, style, width));
    }
    let gone = result.members.iter().filter_map(|member| Some((&member.name, member.lost.as_ref()?)));
    for (name, why) in gone.chain(result.absent.iter().map(|host| (&host.name, &host.why))) {
        lines.push(printable(&format!("not measured: {name}: {why}")));
    }
    lines.join("\n") + "\n"
}

/// Rows send, columns receive, Mb/s or Gb/s.
fn matrix(result: &FleetResult, style: Style, width: usize) -> Vec<String> {
    let rates = || result.cells.iter().filter_map(|cell| cell.figures.bytes_per_second);
    let giga = rates().fold(0.0, f64::max) >= 1.25e9;
    let show = |rate: f64| match giga {
        true => format!("{:.2}", linerate_facts::units::bits_per_second(rate) / 1e9),
        false => format!("{:.0}", linerate_facts::units::bits_per_second(rate) / 1e6),
    };
    let unit = if giga { "Gb/s, sends:" } else { "Mb/s, sends:" };
    table(result, style, width, unit, |from, to| result.rate(from, to).map(show))
}

/// The same by what was predicted; nothing where nothing was.
fn of_predicted(result: &FleetResult, style: Style, width: usize) -> Vec<String> {
    let Some(summary) = prediction(result) else { return Vec::new() };
    let mut lines = vec![String::new(), style.dim(&printable(&summary)), String::new()];
    let show = |ratio: f64| format!("{ratio:.2}");
    let ratio = |from: &str, to: &str| result.of_predicted(from, to).map(show);
    lines.extend(table(result, style, width, "of predicted:", ratio));
    lines
}

/// From what the prediction follows, and how it agrees.
fn prediction(result: &FleetResult) -> Option<String> {
    let mut ratios: Vec<f64> = result.measured_cells().filter_map(FleetCell::of_predicted).collect();
    ratios.sort_by(f64::total_cmp);
    let (least, most) = (*ratios.first()?, *ratios.last()?);
    let fabric = match result.fabric.len() {
        0 => "over a network that blocks nothing".into(),
        1 => "over the declared uplink".to_string(),
        racks => format!("over the {racks} declared uplinks"),
    };
    Some(format!(
        "achieved ÷ predicted: {:.2} in the median, {least:.2} to {most:.2}; predicted from each member alone, {fabric}",
        ratios[ratios.len() / 2]
    ))
}

fn table(
    result: &FleetResult,
    style: Style,
    width: usize,
    corner: &str,
    show: impl Fn(&str, &str) -> Option<String>,
) -> Vec<String> {
    let heads: Vec<String> = result.members.iter().map(|member| member.name.clone()).collect();
    let slow = |name: &String| result.verdict.members.iter().any(|member| member.name == *name);
    table_of(&heads, style, width, corner, show, slow)
}

/// Rows send, columns receive; rows of `slow` members stand out.
fn table_of(
    heads: &[String],
    style: Style,
    width: usize,
    corner: &str,
    show: impl Fn(&str, &str) -> Option<String>,
    slow: impl Fn(&String) -> bool,
) -> Vec<String> {
    let columns: Vec<Column<'_>> =
        std::iter::once(name(corner)).chain(heads.iter().map(|head| number(head, 0))).collect();
    let cell = |from: &str, to: &str| match from == to {
        true => "·".to_string(),
        false => show(from, to).unwrap_or_else(|| "–".into()),
    };
    let rows: Vec<Vec<String>> = heads
        .iter()
        .map(|from| std::iter::once(from.clone()).chain(heads.iter().map(|to| cell(from, to))).collect())
        .collect();
    grid::styled(&columns, &rows, width, style, |row| slow(&heads[row]))
}

/// Flows of a large fleet: the slowest.
fn slowest(result: &FleetResult, style: Style, width: usize) -> Vec<String> {
    let mut cells: Vec<(&FleetCell, f64)> =
        result.measured_cells().filter_map(|cell| Some((cell, cell.figures.bytes_per_second?))).collect();
    cells.sort_by(|one, other| one.1.total_cmp(&other.1));
    let rows: Vec<Vec<String>> = cells
        .iter()
        .take(10)
        .map(|(cell, rate)| {
            let ratio = cell.of_predicted().map(|ratio| format!("{ratio:.2}"));
            vec![format!("{} to {}", cell.from, cell.to), show_bits_rate(*rate), ratio.unwrap_or_default()]
        })
        .collect();
    let columns = [name("the slowest flows"), number("", 0), number("of predicted", 0)];
    grid::styled(&columns, &rows, width, style, |_| false)
}

fn longest_rtt<'a>(cells: impl Iterator<Item = &'a FleetCell>) -> Option<String> {
    let micros = cells.filter_map(|cell| cell.figures.rtt_micros).max()?;
    Some(format!("{:.2} ms", f64::from(micros) / 1e3))
}

/// Each window's sum against what follows from the members alone.
fn windows(result: &FleetResult, style: Style, width: usize) -> Vec<String> {
    let columns = [
        text("window", 0),
        number("flows", 0),
        number("together", 0),
        number("predicted", 0),
        number("of it", 0),
        number("retransmits", 0),
        number("RTT", 0),
        notes(""),
    ];
    let rows: Vec<Vec<String>> = result
        .windows
        .iter()
        .enumerate()
        .map(|(index, window)| {
            let ratio =
                window.predicted_bytes_per_second.map(|predicted| window.bytes_per_second / predicted);
            let cells = || result.cells.iter().filter(|cell| cell.window == index);
            let mut ends: Vec<&str> = cells().map(|cell| cell.to.as_str()).collect();
            ends.dedup();
            vec![
                if window.alone { "alone".into() } else { (index + 1).to_string() },
                window.flows.to_string(),
                show_bits_rate(window.bytes_per_second),
                window.predicted_bytes_per_second.map(show_bits_rate).unwrap_or_default(),
                ratio.map(|ratio| format!("{ratio:.2}")).unwrap_or_default(),
                cells().map(|cell| cell.figures.retransmits).sum::<u64>().to_string(),
                longest_rtt(cells()).unwrap_or_default(),
                if ends.len() == 1 { format!("to {}", ends[0]) } else { String::new() },
            ]
        })
        .collect();
    grid::styled(&columns, &rows, width, style, |_| false)
}

/// What racks carry between each other.
fn racks(result: &FleetResult, style: Style, width: usize) -> Vec<String> {
    let columns =
        [name("racks"), number("carry", 0), number("their hosts could", 0), number("oversubscribed", 0)];
    let row = |pair: &RackPair| {
        vec![
            format!("{} to {}", pair.from.join(","), pair.to.join(",")),
            show_bits_rate(pair.bytes_per_second),
            pair.hosts_bytes_per_second.map(show_bits_rate).unwrap_or_default(),
            pair.oversubscription.map(|ratio| format!("{ratio:.1} : 1")).unwrap_or_default(),
        ]
    };
    let rows: Vec<Vec<String>> = result.verdict.racks.iter().map(row).collect();
    grid::styled(&columns, &rows, width, style, |_| false)
}

fn table_of_page(heads: &[&str], rows: Vec<Vec<String>>) -> Markup {
    let head = html! { @for head in heads { th { (head) } } };
    pieces::table("", head, html! { @for row in &rows { tr { @for cell in row { td { (cell) } } } } })
}

/// The whole page.
pub fn page(result: &FleetResult) -> String {
    let facts =
        [format!("linerate {}", result.version), result.pattern.name().into(), result.started.clone()];
    let body = html! {
        header {
            p class="kicker" { @for fact in &facts { span { (fact) } } }
            p class="subject" { (result.members.len()) " members" }
            h1 class="long" { (pieces::kept_together(&result.verdict.sentence)) }
        }
        main {
            @if !result.errors.is_empty() {
                (pieces::card("errors", "What failed", html! {}, html! { ul { @for error in &result.errors { li { (error) } } } }))
            }
            @if !result.differences.is_empty() {
                (pieces::card("unlike", "How the members differ", html! {}, html! { ul { @for one in &result.differences { li { (one) } } } }))
            }
            @if result.pattern == FleetPattern::Disk {
                (disks::page(result))
            } @else {
            @if result.pattern == FleetPattern::Storage { (storage::page(result)) }
            @if result.pattern == FleetPattern::Wall { (wall::page(result)) }
            @if !result.verdict.incast.is_empty() { (incast::page(&result.verdict)) }
            (pieces::card("matrix", "Who sends to whom", html! { p { "Rows send, columns receive; the colour is the rate by the median of all. Dashed: not measured. Pointing at a cell shows its rate." } }, html! { div class="scroll" { (rates_map(result)) } }))
            @if let Some(summary) = prediction(result) {
                (pieces::card("predicted", "Achieved by predicted", html! { p { (summary) ". Pale: as predicted." } }, html! { div class="scroll" { (prediction_map(result)) } }))
            }
            }
            (pieces::card("members", "The members", html! {}, members(result)))
        }
    };
    document(&format!("fleet of {} – linerate", result.members.len()), STYLE, body)
}

/// Rates by the median of all.
fn rates_map(result: &FleetResult) -> Markup {
    let mut rates: Vec<f64> =
        result.measured_cells().filter_map(|cell| cell.figures.bytes_per_second).collect();
    rates.sort_by(f64::total_cmp);
    let median = rates.get(rates.len() / 2).copied().unwrap_or(1.0);
    heat_map(result, "rates between the members", |from, to| {
        let rate = result.rate(from, to)?;
        let ratio = result.of_predicted(from, to).map(|ratio| format!(", {ratio:.2} of predicted"));
        Some((rate / median, format!("{}{}", show_bits_rate(rate), ratio.unwrap_or_default())))
    })
}

/// Achieved by predicted.
fn prediction_map(result: &FleetResult) -> Markup {
    heat_map(result, "achieved by predicted", |from, to| {
        let ratio = result.of_predicted(from, to)?;
        Some((ratio, format!("{ratio:.2} of predicted")))
    })
}

/// `look`: what a cell's colour follows, 1 for the usual, and its words; none: not measured.
fn heat_map(result: &FleetResult, label: &str, look: impl Fn(&str, &str) -> Option<(f64, String)>) -> Markup {
    let members: Vec<String> = result.members.iter().map(|member| member.name.clone()).collect();
    heat_map_of(&members, label, look)
}

fn heat_map_of(
    members: &[String],
    label: &str,
    look: impl Fn(&str, &str) -> Option<(f64, String)>,
) -> Markup {
    let letters = members.iter().map(|member| member.chars().count()).max().unwrap_or_default();
    let names = (18.0 + LETTER * letters as f64).min(MOST_NAMES);
    let size = names + CELL * members.len() as f64;
    let edge = |index: usize| names + CELL * index as f64;
    let class = |ratio: Option<f64>| match ratio {
        None => "none",
        Some(ratio) => SHADES.iter().find(|(most, _)| ratio < *most).map_or("s5", |(_, class)| class),
    };
    html! {
        svg class="heat" role="img" aria-label=(label) width=(at(size)) height=(at(size)) viewBox=(format!("0 0 {0} {0}", at(size))) {
            @for (row, from) in members.iter().enumerate() {
                (words("", names - 6.0, edge(row) + CELL * 0.65, Anchor::End, from))
                g transform=(format!("translate({} {}) rotate(-60)", at(edge(row) + CELL * 0.6), at(names - 6.0))) {
                    (words("", 0.0, 0.0, Anchor::Start, from))
                }
                @for (column, to) in members.iter().enumerate().filter(|(column, _)| *column != row) {
                    @let seen = look(from, to);
                    @let tip = format!("{} to {}: {}", from, to, seen.as_ref().map_or("not measured", |(_, words)| words));
                    @let area = Rect { x: edge(column) + 1.0, y: edge(row) + 1.0, width: CELL - 2.0, height: CELL - 2.0 };
                    (group(None, &tip, rect(class(seen.map(|(ratio, _)| ratio)), area, 3.0)))
                }
            }
        }
    }
}

/// The hosts with what a flow or a disk could depend on.
fn members(result: &FleetResult) -> Markup {
    let head = html! {
        th { "member" } th { "address" } th { "kernel" } th { "CPUs" } th { "memory" } th { "NIC" }
        th { "busiest CPU" } th { "clock known within" } th { "notes" }
    };
    let rows = html! {
        @for member in &result.members {
            tr {
                @for cell in member_cells(result, member) { td { (cell) } }
            }
        }
        @for host in &result.absent {
            tr { td { (host.name) } @for _ in 0..7 { td {} } td { (host.why) } }
        }
    };
    pieces::table("", head, rows)
}

fn member_cells(result: &FleetResult, member: &FleetMember) -> [String; 9] {
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
        member.nic().map_or_else(unknown, nic_words),
        busiest(result, &member.name).unwrap_or_default(),
        format!("{:.0} µs", member.clock_error_seconds * 1e6),
        notes.join("; "),
    ]
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
