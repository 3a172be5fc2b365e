//! What flows carry together, by window, by host and by rack: that is what can be predicted of flows that share links.

use super::table_of_page;
use crate::figure::Unit;
use crate::grid::{self, headed, name, notes, number, text};
use crate::html::pieces;
use crate::markup::{Markup, html};
use crate::style::Style;
use linerate_facts::units::show_bits_rate;
use linerate_fleet::{FleetCell, FleetResult, FlowRange, HostSum, RackPair};

const HOST_HEADS: [&str; 7] =
    ["host", "sends", "of predicted", "single flows", "receives", "of predicted", "single flows"];

/// The slowest and the fastest of several flows.
pub(super) fn flows_words(range: Option<FlowRange>) -> String {
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
    let row = |host: &linerate_fleet::HostSums| {
        [vec![host.name.clone()], way(&host.send).to_vec(), way(&host.receive).to_vec()].concat()
    };
    result.verdict.sums.iter().map(row).collect()
}

/// What each host sends and receives together.
pub(super) fn hosts(result: &FleetResult, style: Style, width: usize) -> Vec<String> {
    let slow = |row: usize| {
        let name = result.verdict.sums.get(row).map(|host| &host.name);
        result.verdict.members.iter().any(|member| Some(&member.name) == name)
    };
    let table = grid::styled(&headed(&HOST_HEADS, 1, false), &host_rows(result), width, style, slow);
    std::iter::once(String::new()).chain(table).collect()
}

pub(super) fn hosts_page(result: &FleetResult) -> Markup {
    pieces::card(
        "sums",
        "What each host sends and receives",
        html! { p { "The sums are what can be predicted. Single flows that share a link part it unevenly: the slowest and the fastest of them." } },
        table_of_page(&HOST_HEADS, host_rows(result)),
    )
}

fn longest_rtt<'a>(cells: impl Iterator<Item = &'a FleetCell>) -> Option<String> {
    let micros = cells.filter_map(|cell| cell.figures.rtt_micros).max()?;
    Some(format!("{:.2} ms", f64::from(micros) / 1e3))
}

/// Each window's sum against what follows from the members alone.
pub(super) fn windows(result: &FleetResult, style: Style, width: usize) -> Vec<String> {
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
                flows_words(window.single_flows),
                cells().map(|cell| cell.figures.retransmits).sum::<u64>().to_string(),
                longest_rtt(cells()).unwrap_or_default(),
                if ends.len() == 1 { format!("to {}", ends[0]) } else { String::new() },
            ]
        })
        .collect();
    grid::styled(&columns, &rows, width, style, |_| false)
}

/// What racks carry between each other.
pub(super) fn racks(result: &FleetResult, style: Style, width: usize) -> Vec<String> {
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
