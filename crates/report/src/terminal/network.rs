//! The screen of `linerate network`: a line for each figure and for each of its paths, what was chosen and
//! why, what the paths carry, round trips, buffers, the use of the cores, findings, errors.

use super::{Style, error_text, finding_lines};
use crate::figure::{percent, quantity};
use crate::figure_words::seconds_word;
use crate::grid::{Column, name, notes as remarks_of, number, styled};
use crate::{rdma_words, stream_words};
use linerate_facts::printable::{hanging, printable, wrapped};
use linerate_facts::protocol::Protocol;
use linerate_facts::units::{show_bits_rate, show_size};
use linerate_facts::wording::counted;
use linerate_measure::diagnose::ledger::{Ledger, MeasuredLedger};
use linerate_measure::measure::Measurement;
use linerate_measure::measure::streams::{
    MethodTrial, PathMtu, RoundTrips, StreamDirection, StreamFigure, StreamsResult,
};
use linerate_measure::run::Run;

const FIGURES: [Column; 8] = [
    name(""),
    number("goodput", 0),
    number("spread", 2),
    number("lost", 0),
    number("retransmits", 3),
    number("CPU s/GB", 1),
    number("peer", 1),
    remarks_of("notes"),
];

/// The whole screen, a newline at its end.
pub(super) fn screen(run: &Run, width: usize, style: Style) -> String {
    let width = width.clamp(60, 140);
    let head = format!(
        "linerate {} {} from {}: {}",
        printable(&run.version),
        run.command(),
        printable(&run.host),
        printable(&run.name)
    );
    let mut text: Vec<String> = wrapped(&head, width).iter().map(|line| style.bold(line)).collect();
    text.push(String::new());
    let rows: Vec<Vec<String>> = run.measurements.iter().flat_map(rows).collect();
    text.extend(styled(&FIGURES, &rows, width, style, |_| false));
    if rows.is_empty() {
        text.push("nothing was measured".into());
    }
    text.push(String::new());
    for (label, told) in notes(run) {
        text.extend(labelled(label, &told, width));
    }
    text.extend(super::pinning::table(&run.measurements, width, style));
    text.extend(ledgers(run, width, style));
    text.extend(finding_lines(run, usize::MAX, width, style));
    text.extend(error_text(&run.errors, 5, width, style));
    text.join("\n") + "\n"
}

/// The figure, and below it each of its paths where there are several.
fn rows(measurement: &Measurement) -> Vec<Vec<String>> {
    let bound = if measurement.lower_bound { "≥ " } else { "" };
    let streams = measurement.streams.as_deref();
    let several = measurement.samples.len() > 1;
    let mut rows = vec![vec![
        printable(&measurement.name),
        bound.to_string() + &show_bits_rate(measurement.bytes_per_second),
        if several { percent(measurement.spread) } else { "–".into() },
        match streams.is_some_and(|result| result.at_nic.is_some()) {
            true => "unknown".into(),
            false => lost(measurement.protocol, measurement.loss),
        },
        streams.and_then(stream_words::retransmits).map(|count| count.to_string()).unwrap_or_default(),
        // perftest's CPU time is not linerate's, and nobody counts it.
        if measurement.rdma.is_some() { "–".into() } else { quantity(measurement.cpu_seconds_per_gb) },
        measurement.receiver.as_ref().map_or(String::new(), |peer| quantity(peer.cpu_seconds_per_gb)),
        stream_words::remarks(measurement).join(", "),
    ]];
    if let Some(rate) = streams.and_then(|result| result.network_only_bytes_per_second) {
        let remark = "counted in the kernel, not copied to a program";
        rows.push(vec!["  network only".into(), show_bits_rate(rate)]);
        if let Some(row) = rows.last_mut() {
            row.resize(FIGURES.len() - 1, String::new());
            row.push(remark.into());
        }
    }
    let Some(result) = streams.filter(|result| result.paths.len() > 1) else { return rows };
    for path in &result.paths {
        let way = match (result.job.direction, path.direction) {
            (StreamDirection::Both, StreamDirection::Receive) => " ←",
            (StreamDirection::Both, _) => " →",
            _ => "",
        };
        rows.push(vec![
            format!("  {}{way}, {}", printable(&path.name), counted(path.streams, "stream")),
            show_bits_rate(path.bytes_per_second),
            String::new(),
            lost(measurement.protocol, path.loss),
        ]);
    }
    rows
}

fn lost(protocol: Option<Protocol>, loss: f64) -> String {
    match protocol {
        Some(Protocol::Udp) if loss == 0.0 => "0".into(),
        Some(Protocol::Udp) if loss < 0.0001 => format!("{:.4} %", loss * 100.0),
        Some(Protocol::Udp) => percent(loss),
        _ => "–".into(),
    }
}

/// What stands below the table, each with its label.
fn notes(run: &Run) -> Vec<(&'static str, String)> {
    let mut notes = Vec::new();
    let results = || run.measurements.iter().filter_map(|m| Some((m, m.streams.as_deref()?)));
    let by_rdma = |words: fn(&[Measurement], &Measurement) -> Option<String>| {
        run.measurements.iter().filter_map(move |one| Some(("RDMA", words(&run.measurements, one)?)))
    };
    notes.extend(by_rdma(rdma_words::beside));
    notes.extend(by_rdma(|_, one| rdma_words::devices(one)));
    if let Some((_, first)) = results().next() {
        notes.extend(first.path_mtus.iter().map(|path| ("path MTU", carries(path))));
    }
    let mut told: Vec<String> = Vec::new();
    for (measurement, _) in results() {
        let method = printable(&measurement.method);
        if !told.contains(&method) {
            notes.push((
                "method",
                format!(
                    "{}: {method}",
                    measurement.protocol.map_or_else(String::new, |protocol| protocol.to_string())
                ),
            ));
            told.push(method);
        }
    }
    let mut shown: Vec<&[MethodTrial]> = Vec::new();
    for (_, result) in results() {
        if result.methods.len() > 1 && !shown.contains(&result.methods.as_slice()) {
            shown.push(&result.methods);
            notes.push(("trials", stream_words::methods(&result.methods)));
        }
    }
    let compared = run.measurements.iter().map(|measurement| &measurement.congestion_controls);
    let compared = compared.filter_map(|trials| stream_words::congestion_controls(trials)).next();
    notes.extend(compared.map(|words| ("congestion control", words)));
    let tried = run.measurements.iter().map(|measurement| &measurement.stream_trials);
    let tried = tried.filter_map(|trials| stream_words::stream_trials(trials)).next();
    notes.extend(tried.map(|words| ("streams", words)));
    notes.extend(results().filter_map(|(_, result)| Some(("at NIC", stream_words::at_nic(result)?))));
    notes.extend(results().filter_map(|(m, result)| Some(("round trip", trips(m, result)?))));
    notes.extend(results().filter_map(|(m, result)| Some(("buffers", buffers(m, result)?))));
    notes.extend(results().filter_map(|(m, result)| Some(("search", stream_words::search(m, result)?))));
    notes
}

/// What arrived whole on a path.
fn carries(path: &PathMtu) -> String {
    let name = printable(&path.path);
    let declared = |bytes: Option<u32>| bytes.map_or("unknown".into(), |bytes| bytes.to_string());
    let ends = format!("MTU here {}, there {}", declared(path.ours_bytes), declared(path.theirs_bytes));
    match path.found_bytes {
        None => format!("{name}: not even the smallest packets arrive ({ends})"),
        Some(found) if !path.smaller_than_declared() => {
            format!("{name}: packets of {found} bytes arrive ({ends})")
        }
        Some(found) if path.black_hole => {
            format!("{name}: packets of {found} bytes arrive, larger ones vanish without a word ({ends})")
        }
        Some(found) => format!("{name}: packets of {found} bytes arrive, larger ones are refused ({ends})"),
    }
}

fn trips(measurement: &Measurement, result: &StreamsResult) -> Option<String> {
    let loaded = result.loaded_latency.as_ref()?;
    let name = printable(&measurement.name);
    let of = |trips: &RoundTrips| {
        let [p50, p99, most] = [trips.p50, trips.p99, trips.maximum].map(seconds_word);
        format!("p50 {p50}, p99 {p99}, most {most}")
    };
    let idle = result.idle_latency.as_ref().map(|idle| format!("; idle {}", of(idle)));
    Some(format!("beside {name}: {}{}", of(loaded), idle.unwrap_or_default()))
}

/// Socket buffers where somebody asked for some, or where they are smaller than the path needs.
fn buffers(measurement: &Measurement, result: &StreamsResult) -> Option<String> {
    let least = |of: fn(&StreamFigure) -> u64| result.streams.iter().map(of).min();
    let granted = (least(|s| s.buffers.send_granted_bytes)?, least(|s| s.buffers.receive_granted_bytes)?);
    let needed = result.streams.iter().filter_map(|s| s.buffers.needed_bytes).max();
    let asked = result.job.send_buffer_bytes.is_some() || result.job.receive_buffer_bytes.is_some();
    let short = needed.is_some_and(|needed| granted.1 > 0 && granted.1 < needed);
    if !asked && !short {
        return None;
    }
    let asked = |bytes: Option<u64>| {
        bytes.map_or(String::new(), |bytes| format!(" of {} asked for", show_size(bytes)))
    };
    let needed = needed.map(|needed| format!("; rate × round trip is {}", show_size(needed)));
    Some(format!(
        "{}: sending {}{}, receiving {}{}{}",
        printable(&measurement.name),
        show_size(granted.0),
        asked(result.job.send_buffer_bytes),
        show_size(granted.1),
        asked(result.job.receive_buffer_bytes),
        needed.unwrap_or_default()
    ))
}

/// Ledgers in which something is missing, whole; of the others one line.
fn ledgers(run: &Run, width: usize, style: Style) -> Vec<String> {
    let udp = |one: &&MeasuredLedger| one.ledger.protocol == Protocol::Udp;
    let missing = |one: &&MeasuredLedger| {
        let Ledger { lost_datagrams, unaccounted_datagrams, until_nic, .. } = &one.ledger;
        *until_nic || *lost_datagrams != 0 || *unaccounted_datagrams != 0
    };
    let (open, closed): (Vec<_>, Vec<_>) = run.ledgers.iter().filter(udp).partition(missing);
    let mut text = Vec::new();
    if !closed.is_empty() {
        let all = format!("every datagram of {} arrived", counted(closed.len(), "UDP figure"));
        text.extend(labelled("ledger", &all, width));
    }
    for one in open {
        let arrow = if one.direction == StreamDirection::Receive { "←" } else { "→" };
        text.extend([
            String::new(),
            style.bold(&format!("ledger of {} {arrow}", printable(&one.measurement))),
        ]);
        text.extend(super::ledger::screen(&one.ledger, width, style).lines().map(String::from));
    }
    text
}

/// `label  text`, wrapped under the text.
fn labelled(label: &str, text: &str, width: usize) -> Vec<String> {
    hanging(&format!("{label:8} "), text, width)
}

#[cfg(test)]
mod tests {
    use super::labelled;

    #[test]
    fn a_label_is_apart_from_its_text() {
        assert_eq!(labelled("path MTU", "lo: 1500", 80), ["path MTU lo: 1500"]);
        assert_eq!(labelled("ledger", "nothing lost", 80), ["ledger   nothing lost"]);
        assert_eq!(labelled("round trip", "beside lo", 80), ["round trip beside lo"]);
    }
}
