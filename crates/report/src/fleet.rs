//! A fleet as one screen and as one page: the sentence, the matrix of rates, the members.

use crate::folder::Product;
use crate::grid::{self, Column, name, notes, number, text};
use crate::html::{document, pieces};
use crate::markup::{Anchor, Markup, Rect, at, group, html, rect, text as words};
use crate::terminal::Style;
use linerate_facts::printable::printable;
use linerate_facts::units::show_bits_rate;
use linerate_fleet::{FleetCell, FleetPattern, FleetResult};
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
    lines.push(style.dim(&printable(&format!(
        "{} of {measured} members, windows of {} s, {} a flow",
        result.pattern.name(),
        result.seconds,
        if result.streams == 1 { "1 stream".into() } else { format!("{} streams", result.streams) }
    ))));
    for difference in &result.differences {
        lines.push(printable(difference));
    }
    if measured <= MOST_HOSTS_OF_A_TABLE && result.pattern != FleetPattern::Incast {
        lines.push(String::new());
        lines.extend(matrix(result, style, width));
    } else {
        lines.push(String::new());
        lines.extend(slowest(result, style, width));
    }
    if result.pattern != FleetPattern::Pairs {
        lines.push(String::new());
        lines.extend(windows(result, style, width));
    }
    let gone = result.members.iter().filter_map(|member| Some((&member.name, member.lost.as_ref()?)));
    for (name, why) in gone.chain(result.absent.iter().map(|host| (&host.name, &host.why))) {
        lines.push(printable(&format!("not measured: {name}: {why}")));
    }
    lines.join("\n") + "\n"
}

/// Rows send, columns receive, Mb/s or Gb/s.
fn matrix(result: &FleetResult, style: Style, width: usize) -> Vec<String> {
    let rates = || result.cells.iter().filter_map(|cell| cell.bytes_per_second);
    let giga = rates().fold(0.0, f64::max) >= 1.25e9;
    let show = |rate: f64| match giga {
        true => format!("{:.2}", linerate_facts::units::bits_per_second(rate) / 1e9),
        false => format!("{:.0}", linerate_facts::units::bits_per_second(rate) / 1e6),
    };
    let heads: Vec<String> = result.members.iter().map(|member| member.name.clone()).collect();
    let unit = if giga { "Gb/s, sends:" } else { "Mb/s, sends:" };
    let columns: Vec<Column<'_>> =
        std::iter::once(name(unit)).chain(heads.iter().map(|head| number(head, 0))).collect();
    let cell = |from: &str, to: &str| match result.rate(from, to) {
        _ if from == to => "·".to_string(),
        Some(rate) => show(rate),
        None => "–".to_string(),
    };
    let rows: Vec<Vec<String>> = heads
        .iter()
        .map(|from| std::iter::once(from.clone()).chain(heads.iter().map(|to| cell(from, to))).collect())
        .collect();
    let slow = |row: usize| result.verdict.members.iter().any(|member| member.name == heads[row]);
    grid::styled(&columns, &rows, width, style, slow)
}

/// Flows of a large fleet: the slowest.
fn slowest(result: &FleetResult, style: Style, width: usize) -> Vec<String> {
    let mut cells: Vec<(&FleetCell, f64)> =
        result.cells.iter().filter_map(|cell| Some((cell, cell.bytes_per_second?))).collect();
    cells.sort_by(|one, other| one.1.total_cmp(&other.1));
    let rows: Vec<Vec<String>> = cells
        .iter()
        .take(10)
        .map(|(cell, rate)| vec![format!("{} to {}", cell.from, cell.to), show_bits_rate(*rate)])
        .collect();
    grid::styled(&[name("the slowest flows"), number("", 0)], &rows, width, style, |_| false)
}

/// Each window's sum against what follows from the members alone.
fn windows(result: &FleetResult, style: Style, width: usize) -> Vec<String> {
    let columns = [
        text("window", 0),
        number("flows", 0),
        number("together", 0),
        number("predicted", 0),
        number("of it", 0),
        notes(""),
    ];
    let rows: Vec<Vec<String>> = result
        .windows
        .iter()
        .enumerate()
        .map(|(index, window)| {
            let ratio =
                window.predicted_bytes_per_second.map(|predicted| window.bytes_per_second / predicted);
            let mut ends: Vec<&str> = result
                .cells
                .iter()
                .filter(|cell| cell.window == index)
                .map(|cell| cell.to.as_str())
                .collect();
            ends.dedup();
            vec![
                if window.alone { "alone".into() } else { (index + 1).to_string() },
                window.flows.to_string(),
                show_bits_rate(window.bytes_per_second),
                window.predicted_bytes_per_second.map(show_bits_rate).unwrap_or_default(),
                ratio.map(|ratio| format!("{ratio:.2}")).unwrap_or_default(),
                if ends.len() == 1 { format!("to {}", ends[0]) } else { String::new() },
            ]
        })
        .collect();
    grid::styled(&columns, &rows, width, style, |_| false)
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
            (pieces::card("matrix", "Who sends to whom", html! { p { "Rows send, columns receive; the colour is the rate by the median of all. Dashed: not measured. Pointing at a cell shows its rate." } }, html! { div class="scroll" { (heat_map(result)) } }))
            (pieces::card("members", "The members", html! {}, members(result)))
        }
    };
    document(&format!("fleet of {} – linerate", result.members.len()), STYLE, body)
}

fn heat_map(result: &FleetResult) -> Markup {
    let mut rates: Vec<f64> = result.cells.iter().filter_map(|cell| cell.bytes_per_second).collect();
    rates.sort_by(f64::total_cmp);
    let median = rates.get(rates.len() / 2).copied().unwrap_or(1.0);
    let letters = result.members.iter().map(|member| member.name.chars().count()).max().unwrap_or_default();
    let names = (18.0 + LETTER * letters as f64).min(MOST_NAMES);
    let size = names + CELL * result.members.len() as f64;
    let edge = |index: usize| names + CELL * index as f64;
    let class = |rate: Option<f64>| match rate {
        None => "none",
        Some(rate) => SHADES.iter().find(|(most, _)| rate / median < *most).map_or("s5", |(_, class)| class),
    };
    html! {
        svg class="heat" role="img" aria-label="rates between the members" width=(at(size)) height=(at(size)) viewBox=(format!("0 0 {0} {0}", at(size))) {
            @for (row, from) in result.members.iter().enumerate() {
                (words("", names - 6.0, edge(row) + CELL * 0.65, Anchor::End, &from.name))
                g transform=(format!("translate({} {}) rotate(-60)", at(edge(row) + CELL * 0.6), at(names - 6.0))) {
                    (words("", 0.0, 0.0, Anchor::Start, &from.name))
                }
                @for (column, to) in result.members.iter().enumerate().filter(|(column, _)| *column != row) {
                    @let rate = result.rate(&from.name, &to.name);
                    @let tip = format!("{} to {}: {}", from.name, to.name, rate.map_or("not measured".into(), show_bits_rate));
                    @let area = Rect { x: edge(column) + 1.0, y: edge(row) + 1.0, width: CELL - 2.0, height: CELL - 2.0 };
                    (group(None, &tip, rect(class(rate), area, 3.0)))
                }
            }
        }
    }
}

fn members(result: &FleetResult) -> Markup {
    let head =
        html! { th { "member" } th { "address" } th { "kernel" } th { "clock known within" } th { "notes" } };
    let rows = html! {
        @for member in &result.members {
            @let kernel = member.machine.as_ref().and_then(|machine| machine.kernel.release.known());
            tr {
                td { (member.name) }
                td { (member.address) }
                td { (kernel.map_or("unknown", String::as_str)) }
                td { (format!("{:.0} µs", member.clock_error_seconds * 1e6)) }
                td { (member.lost.as_deref().unwrap_or_default()) }
            }
        }
        @for host in &result.absent {
            tr { td { (host.name) } td {} td {} td {} td { (host.why) } }
        }
    };
    pieces::table("", head, rows)
}
