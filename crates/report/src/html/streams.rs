//! The page's part about streams: each stream with both of its ends, what the paths carry, what was tried,
//! round trips.

use super::pieces::{card, heading};
use crate::figure::percent;
use crate::figure_words::seconds_word;
use crate::markup::{Markup, html};
use crate::stream_words;
use linerate_facts::protocol::Protocol;
use linerate_facts::units::{show_bits_rate, show_size};
use linerate_measure::measure::Measurement;
use linerate_measure::measure::streams::{PathMtu, RoundTrips, StreamDirection, StreamFigure, StreamsResult};
use linerate_measure::run::Run;

/// Nothing where no streams were measured.
pub(super) fn section(run: &Run) -> Markup {
    let results: Vec<(&Measurement, &StreamsResult)> =
        run.measurements.iter().filter_map(|one| Some((one, one.streams.as_deref()?))).collect();
    if results.is_empty() {
        return html! {};
    }
    let facts = facts(&results);
    let intro = html! { "Both ends of each, over its whole life; goodput is payload at the receiver in the windows." };
    html! {
        (card("streams", "Streams", intro, table(&results)))
        @if !facts.is_empty() {
            (card("paths", "Paths", html! {}, html! {
                dl class="facts" { @for (name, text) in &facts { dt { (name) } dd { (text) } } }
            }))
        }
    }
}

/// What is to be said of the paths, each with its name.
fn facts(results: &[(&Measurement, &StreamsResult)]) -> Vec<(&'static str, String)> {
    let mtus = results.first().map_or(&[][..], |(_, result)| &result.path_mtus);
    let mut facts: Vec<(&str, String)> = mtus.iter().map(|path| ("Packets", carries(path))).collect();
    for (measurement, result) in results {
        if result.methods.len() > 1 {
            facts
                .push(("Tried", format!("{}: {}", measurement.name, stream_words::methods(&result.methods))));
        }
        for (word, trips) in [("idle", result.idle_latency), ("beside the bulk", result.loaded_latency)] {
            facts.extend(trips.map(|trips| ("Round-trip times", told(&measurement.name, word, &trips))));
        }
        facts.extend(result.network_only_bytes_per_second.map(|rate| {
            let rate = show_bits_rate(rate);
            (
                "Network only",
                format!("{}: {rate}, counted in the kernel and not copied to a program", measurement.name),
            )
        }));
        facts.extend(stream_words::stream_trials(&measurement.stream_trials).map(|text| ("Streams", text)));
        facts.extend(stream_words::at_nic(result).map(|text| ("At the NIC", text)));
        facts.extend(stream_words::search(measurement, result).map(|text| ("Rate", text)));
    }
    facts
}

fn told(name: &str, word: &str, trips: &RoundTrips) -> String {
    let [p50, p99, p99_9, most] = [trips.p50, trips.p99, trips.p99_9, trips.maximum].map(seconds_word);
    format!("{name}, {word}: p50 {p50}, p99 {p99}, p99.9 {p99_9}, most {most} of {}", trips.count)
}

fn carries(path: &PathMtu) -> String {
    let word = |bytes: Option<u32>| bytes.map_or("unknown".into(), |bytes| bytes.to_string());
    let (ours, theirs, found) = (word(path.ours_bytes), word(path.theirs_bytes), word(path.found_bytes));
    let hole = if path.black_hole { "; larger ones vanish without a word" } else { "" };
    format!("{}: {found} bytes arrive whole (MTU here {ours}, there {theirs}){hole}", path.path)
}

fn table(results: &[(&Measurement, &StreamsResult)]) -> Markup {
    let heads = [
        "path",
        "goodput",
        "sent",
        "arrived",
        "lost",
        "retransmits",
        "round trip",
        "jitter",
        "buffers",
        "cores",
        "CPU",
    ];
    let head = html! { @for head in heads { (heading(true, html! { (head) })) } };
    let rows = html! {
        tbody {
            @for (measurement, result) in results {
                tr { th scope="rowgroup" colspan="11" { b { (measurement.name) } " – " (measurement.method) } }
                @for stream in &result.streams { (row(result, stream)) }
            }
        }
    };
    super::pieces::table("stages", head, rows)
}

fn row(result: &StreamsResult, stream: &StreamFigure) -> Markup {
    let udp = result.job.protocol == Protocol::Udp;
    let arrow = if stream.direction == StreamDirection::Receive { "←" } else { "→" };
    let dash = || "–".to_string();
    let tcp = stream.tcp.as_ref();
    let amount = |bytes: u64, datagrams: u64| match udp {
        true => format!("{} in {datagrams}", show_size(bytes)),
        false => show_size(bytes),
    };
    let received = result.at_nic.is_none();
    let lost = match udp {
        true if !received => "unknown".into(),
        true => {
            format!("{} ({})", stream.lost, percent(stream.lost as f64 / stream.sent_datagrams.max(1) as f64))
        }
        false => dash(),
    };
    let cells = [
        format!("{arrow} {}", stream.path),
        show_bits_rate(stream.bytes_per_second),
        amount(stream.sent_bytes, stream.sent_datagrams),
        if received { amount(stream.received_bytes, stream.received_datagrams) } else { "unknown".into() },
        lost,
        tcp.map_or_else(dash, |tcp| tcp.retransmits.to_string()),
        tcp.map_or_else(dash, |tcp| seconds_word(f64::from(tcp.rtt_micros) * 1e-6)),
        if udp { seconds_word(stream.jitter_seconds) } else { dash() },
        format!(
            "{} / {}",
            show_size(stream.buffers.send_granted_bytes),
            show_size(stream.buffers.receive_granted_bytes)
        ),
        format!("{} → {}", core(stream.core), core(stream.peer_core)),
        format!("{} + {}", percent(stream.sender_cpu_share), percent(stream.receiver_cpu_share)),
    ];
    html! { tr { @for cell in cells { td class="r num" { (cell) } } } }
}

fn core(core: Option<u32>) -> String {
    core.map_or("any".into(), |core| core.to_string())
}
