//! Flows between the members of a fleet. Who sends to whom, and what of that was predicted: a table of few
//! members and the slowest flows of many on the terminal, a map of all on the page, in which the colour says
//! how far a cell is from the usual. What flows carry together, by window, by host and by rack, and what one
//! host takes of ever more senders: that is what can be predicted of flows that share links.

use crate::document::{Block, Media, Part, Table, TableRow, dim};
use crate::figure::Unit;
use crate::grid::{Column, headed, name, notes, number, text};
use crate::html::scrolling;
use crate::markup::{Anchor, Markup, Rect, at, group, html, rect, text as words};
use linerate_facts::units::show_bits_rate;
use linerate_measure::run::fleet::{
    FleetCell, FleetPattern, FleetResult, FleetVerdict, FleetWindow, FlowRange, HostSum, IncastSink,
    IncastStep, RackPair,
};

/// More hosts than this are not a table of a terminal.
const MOST_HOSTS_OF_A_TABLE: usize = 16;
const MAP: &str = "Rows send, columns receive; the colour is the rate by the median of all. Dashed: not measured. Pointing at a cell shows \
     its rate.";

/// Rates: a terminal has the table of few members, or the slowest flows of many; the page the map of all.
pub(super) fn rates(result: &FleetResult) -> Part<'_> {
    let small = result.members.len() <= MOST_HOSTS_OF_A_TABLE;
    let table = match result.pattern {
        FleetPattern::Storage | FleetPattern::Incast => None,
        _ if small => Some(rate_table(result)),
        FleetPattern::AllToAll => None,
        _ => Some(slowest(result)),
    };
    let beside = beside_words(result).map(|words| format!(" {words}")).unwrap_or_default();
    let map = scrolling("map of rates", rates_map(result));
    let blocks =
        vec![Block::On(Media::Terminal, table.into_iter().map(Block::Table).collect()), Block::Picture(map)];
    Part::new("matrix", "Who sends to whom", format!("{MAP}{beside}"), blocks)
}

/// The same by what was predicted; none where nothing was.
pub(super) fn predicted(result: &FleetResult) -> Option<Part<'_>> {
    let summary = prediction(result).filter(|_| !shares_links(result))?;
    let show = |ratio: f64| format!("{ratio:.2}");
    let map = scrolling("map of achieved by predicted", prediction_map(result));
    let mut blocks = vec![Block::Picture(map)];
    if result.members.len() <= MOST_HOSTS_OF_A_TABLE {
        let table = table(result, "of predicted:", |from, to| result.of_predicted(from, to).map(show));
        let summary = Block::Text(dim(&summary));
        let all = vec![Block::Space, summary, Block::Space, Block::Table(table)];
        blocks.push(Block::On(Media::Terminal, all));
    }
    let intro = format!("{summary}. Pale: as predicted.");
    Some(Part { id: "predicted", title: "Achieved by predicted", intro, blocks, ..Part::default() })
}

/// Rows send, columns receive, Mb/s or Gb/s.
fn rate_table(result: &FleetResult) -> Table<'_> {
    let rates = || result.cells.iter().filter_map(|cell| cell.figures.bytes_per_second);
    let giga = rates().fold(0.0, f64::max) >= 1.25e9;
    let show = |rate: f64| match giga {
        true => format!("{:.2}", linerate_facts::units::bits_per_second(rate) / 1e9),
        false => format!("{:.0}", linerate_facts::units::bits_per_second(rate) / 1e6),
    };
    let unit = if giga { "Gb/s, sends:" } else { "Mb/s, sends:" };
    table(result, unit, |from, to| result.rate(from, to).map(show))
}

/// From what the prediction follows, and how it agrees.
fn prediction(result: &FleetResult) -> Option<String> {
    let mut ratios: Vec<f64> = result.measured_cells().filter_map(FleetCell::of_predicted).collect();
    ratios.sort_by(f64::total_cmp);
    let (least, most) = (*ratios.first()?, *ratios.last()?);
    // The uplink of a rack may be what is looked for.
    let declared = result.fabric.iter().filter(|rack| rack.uplink_bytes_per_second.is_some());
    let fabric = match declared.count() {
        0 => "over a network that blocks nothing".into(),
        1 => "over the declared uplink".to_string(),
        uplinks => format!("over the {uplinks} declared uplinks"),
    };
    Some(format!(
        "achieved ÷ predicted: {:.2} in the median, {least:.2} to {most:.2}; predicted from each member alone, {fabric}",
        ratios[ratios.len() / 2]
    ))
}

/// Flows of one window share links by the pattern itself: what is predicted of one is its fair share, and no rate.
fn shares_links(result: &FleetResult) -> bool {
    matches!(result.pattern, FleetPattern::AllToAll | FleetPattern::Incast | FleetPattern::Storage)
}

/// With which other flows those of the matrix ran, where that is not one pair each.
fn beside_words(result: &FleetResult) -> Option<&'static str> {
    match result.pattern {
        FleetPattern::Incast => Some("All others send to the host of a column."),
        FleetPattern::Storage => Some("All clients take at once."),
        FleetPattern::AllToAll => Some("All send to all at once."),
        _ => None,
    }
}

/// Rows send, columns receive; rows of slow members stand out.
fn table<'a>(
    result: &'a FleetResult,
    corner: &'a str,
    show: impl Fn(&str, &str) -> Option<String>,
) -> Table<'a> {
    let members = || result.members.iter().map(|member| member.name.as_str());
    let slow = |name: &str| result.verdict.members.iter().any(|member| member.name == name);
    let columns: Vec<Column<'_>> =
        std::iter::once(name(corner)).chain(members().map(|head| number(head, 0))).collect();
    let cell = |from: &str, to: &str| match from == to {
        true => "·".to_string(),
        false => show(from, to).unwrap_or_else(|| "–".into()),
    };
    let row = |from: &str| {
        TableRow::of(std::iter::once(from.to_string()).chain(members().map(|to| cell(from, to))))
            .marked(slow(from))
    };
    Table::new(columns, members().map(row))
}

/// Flows of a large fleet: the slowest.
fn slowest(result: &FleetResult) -> Table<'static> {
    let mut cells: Vec<(&FleetCell, f64)> =
        result.measured_cells().filter_map(|cell| Some((cell, cell.figures.bytes_per_second?))).collect();
    cells.sort_by(|one, other| one.1.total_cmp(&other.1));
    let row = |(cell, rate): &(&FleetCell, f64)| {
        let ratio = cell.of_predicted().map(|ratio| format!("{ratio:.2}"));
        TableRow::of([
            format!("{} to {}", cell.from, cell.to),
            show_bits_rate(*rate),
            ratio.unwrap_or_default(),
        ])
    };
    let columns = [name("the slowest flows"), number("", 0), number("of predicted", 0)];
    Table::new(columns, cells.iter().take(10).map(row))
}

/// Side of one cell of the heat map.
const CELL: f64 = 26.0;
/// Room for the names of hosts at its edges: of a letter, and at most.
const LETTER: f64 = 6.5;
const MOST_NAMES: f64 = 120.0;
/// Shades from red to green, at these shares of the median.
const SHADES: [(f64, &str); 6] =
    [(0.5, "s0"), (0.75, "s1"), (0.9, "s2"), (1.1, "s3"), (1.5, "s4"), (f64::INFINITY, "s5")];

/// Rates by the median of all.
fn rates_map(result: &FleetResult) -> Markup {
    let mut rates: Vec<f64> =
        result.measured_cells().filter_map(|cell| cell.figures.bytes_per_second).collect();
    rates.sort_by(f64::total_cmp);
    let median = rates.get(rates.len() / 2).copied().filter(|median| *median > 0.0).unwrap_or(1.0);
    heat_map(result, "rates between the members", |from, to| {
        let rate = result.rate(from, to)?;
        let of = if shares_links(result) { "its fair share" } else { "predicted" };
        let ratio = result.of_predicted(from, to).map(|ratio| format!(", {ratio:.2} of {of}"));
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

const HOST_HEADS: [&str; 7] =
    ["host", "sends", "of predicted", "single flows", "receives", "of predicted", "single flows"];
const INCAST_HEADS: [&str; 8] =
    ["to", "senders", "together", "of predicted", "single flows", "retransmitted", "p99", "knee"];
const KNEES: &str = "A knee is the first number of senders with which the goodput is below 0.9 of what was predicted, with which more is \
     retransmitted, or the p99 of small requests beside the flows has grown.";

const SUMS: &str = "The sums are what can be predicted. Single flows that share a link part it unevenly: the slowest and the fastest of \
     them.";

/// The slowest and the fastest of several flows.
fn flows_words(range: Option<FlowRange>) -> String {
    let words =
        |range: FlowRange| Unit::Bits.show_range(range.least_bytes_per_second, range.most_bytes_per_second);
    range.map(words).unwrap_or_default()
}

fn host_rows(result: &FleetResult) -> Vec<Vec<String>> {
    let way = |sum: &Option<HostSum>| {
        let ratio = sum.and_then(|sum| sum.of_predicted());
        [
            sum.map_or_else(|| "–".into(), |sum| show_bits_rate(sum.bytes_per_second)),
            ratio.map(|ratio| format!("{ratio:.2}")).unwrap_or_default(),
            flows_words(sum.and_then(|sum| sum.single_flows)),
        ]
    };
    let row = |host: &linerate_measure::run::fleet::HostSums| {
        [vec![host.name.clone()], way(&host.send).to_vec(), way(&host.receive).to_vec()].concat()
    };
    result.verdict.sums.iter().map(row).collect()
}

/// What each host sends and receives together.
pub(super) fn hosts(result: &FleetResult, on: Media) -> Part<'static> {
    let slow = |name: &String| result.verdict.members.iter().any(|member| member.name == *name);
    let row = |row: Vec<String>| {
        let slow = slow(&row[0]);
        TableRow::of(row).marked(slow)
    };
    let table = Table::new(headed(&HOST_HEADS, 1, false), host_rows(result).into_iter().map(row));
    let blocks = vec![Block::Space, Block::Table(table)];
    Part {
        id: "sums",
        title: "What each host sends and receives",
        intro: SUMS.into(),
        on,
        blocks,
        ..Part::default()
    }
}

fn longest_rtt<'a>(cells: impl Iterator<Item = &'a FleetCell>) -> Option<String> {
    let micros = cells.filter_map(|cell| cell.figures.rtt_micros).max()?;
    Some(format!("{:.2} ms", f64::from(micros) / 1e3))
}

/// Each window's sum against what follows from the members alone.
pub(super) fn windows(result: &FleetResult) -> Part<'static> {
    let columns = [
        text("window", 0),
        number("flows", 0),
        number("together", 0),
        number("predicted", 0),
        number("of it", 0),
        number("single flows", 0),
        number("retransmits", 0),
        number("RTT", 0),
        notes(""),
    ];
    let row = |(index, window): (usize, &FleetWindow)| {
        let ratio = window.predicted_bytes_per_second.map(|predicted| window.bytes_per_second / predicted);
        let cells = || result.cells.iter().filter(|cell| cell.window == index);
        let mut ends: Vec<&str> = cells().map(|cell| cell.to.as_str()).collect();
        ends.dedup();
        TableRow::of([
            if window.alone { "alone".into() } else { (index + 1).to_string() },
            window.flows.to_string(),
            show_bits_rate(window.bytes_per_second),
            window.predicted_bytes_per_second.map(show_bits_rate).unwrap_or_default(),
            ratio.map(|ratio| format!("{ratio:.2}")).unwrap_or_default(),
            flows_words(window.single_flows),
            cells().map(|cell| cell.figures.retransmits).sum::<u64>().to_string(),
            longest_rtt(cells()).unwrap_or_default(),
            if ends.len() == 1 { format!("to {}", ends[0]) } else { String::new() },
        ])
    };
    let table = Table::new(columns, result.windows.iter().enumerate().map(row));
    let blocks = vec![Block::Space, Block::Table(table)];
    Part { id: "windows", title: "What flows carry together", blocks, ..Part::default() }
}

/// What racks carry between each other.
pub(super) fn racks(result: &FleetResult) -> Part<'static> {
    let columns =
        [name("racks"), number("carry", 0), number("their hosts could", 0), number("oversubscribed", 0)];
    let row = |pair: &RackPair| {
        TableRow::of([
            format!("{} to {}", pair.from.join(","), pair.to.join(",")),
            show_bits_rate(pair.bytes_per_second),
            pair.hosts_bytes_per_second.map(show_bits_rate).unwrap_or_default(),
            pair.oversubscription.map(|ratio| format!("{ratio:.1} : 1")).unwrap_or_default(),
        ])
    };
    let table = Table::new(columns, result.verdict.racks.iter().map(row));
    let blocks = vec![Block::Space, Block::Table(table)];
    Part { id: "racks", title: "What racks carry between each other", blocks, ..Part::default() }
}

/// What each host takes of ever more senders.
pub(super) fn incast(verdict: &FleetVerdict) -> Part<'static> {
    let row = |(sink, step): (&IncastSink, &IncastStep)| {
        let knees = [("goodput", sink.knees.goodput), ("loss", sink.knees.loss), ("p99", sink.knees.p99)];
        let here: Vec<&str> = knees
            .iter()
            .filter(|(_, senders)| *senders == Some(step.senders))
            .map(|(what, _)| *what)
            .collect();
        let cells = [
            sink.to.clone(),
            step.senders.to_string(),
            show_bits_rate(step.bytes_per_second),
            step.of_predicted.map(|ratio| format!("{ratio:.2}")).unwrap_or_default(),
            flows_words(step.single_flows),
            step.retransmitted_share.map(|share| format!("{:.2} %", share * 100.0)).unwrap_or_default(),
            step.p99_seconds.map(|seconds| format!("{:.1} ms", seconds * 1e3)).unwrap_or_default(),
            here.join(", "),
        ];
        TableRow::of(cells).marked(!here.is_empty())
    };
    let steps = verdict.incast.iter().flat_map(|sink| sink.steps.iter().map(move |step| (sink, step)));
    let blocks = vec![Block::Table(Table::new(headed(&INCAST_HEADS, 1, true), steps.map(row)))];
    Part::new("incast", "Ever more senders to one host", KNEES, blocks)
}
