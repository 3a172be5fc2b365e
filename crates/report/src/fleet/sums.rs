//! What flows carry together, by window, by host and by rack, and what one host takes of ever more senders: that is what can be
//! predicted of flows that share links.

use crate::document::{Block, Media, Part, Table, TableRow};
use crate::figure::Unit;
use crate::grid::{headed, name, notes, number, text};
use linerate_facts::units::show_bits_rate;
use linerate_measure::run::fleet::{
    FleetCell, FleetResult, FleetVerdict, FleetWindow, FlowRange, HostSum, IncastSink, IncastStep, RackPair,
};

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
