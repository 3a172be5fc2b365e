//! The page's part about streams: each stream with both of its ends, what the paths carry, what was tried, round trips.

use super::text::{escape, section as card};
use crate::measure::Measurement;
use crate::measure::streams::{Direction, PathMtu, RoundTrips, StreamFigure, StreamsResult};
use crate::plan::Protocol;
use crate::report::figure::percent;
use crate::report::stage::seconds_word;
use crate::report::stream_words;
use crate::run::StageRun;
use crate::units::{show_bits_rate, show_size};

/// Nothing where no streams were measured.
pub(super) fn section(run: &StageRun) -> String {
    let results: Vec<(&Measurement, &StreamsResult)> =
        run.measurements.iter().filter_map(|one| Some((one, one.streams.as_deref()?))).collect();
    if results.is_empty() {
        return String::new();
    }
    let mut html = card(
        "streams",
        "Streams",
        "Both ends of each, over its whole life; goodput is payload at the receiver in the windows.",
        &table(&results),
    );
    let mut facts = String::new();
    for path in results.first().map_or(&[][..], |(_, result)| &result.path_mtus) {
        facts += &fact("Packets", &carries(path));
    }
    for (measurement, result) in &results {
        if result.methods.len() > 1 {
            facts +=
                &fact("Tried", &format!("{}: {}", measurement.name, stream_words::methods(&result.methods)));
        }
        for (word, trips) in [("idle", result.idle_latency), ("beside the bulk", result.loaded_latency)] {
            facts += &trips.map_or_else(String::new, |trips| {
                fact("Round trips", &told(&measurement.name, word, &trips))
            });
        }
        facts +=
            &stream_words::search(measurement, result).map_or_else(String::new, |text| fact("Rate", &text));
    }
    if !facts.is_empty() {
        html += &card("paths", "Paths", "", &format!("<dl class=\"facts\">{facts}</dl>"));
    }
    html
}

fn fact(name: &str, text: &str) -> String {
    format!("<dt>{name}</dt><dd>{}</dd>", escape(text))
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

fn table(results: &[(&Measurement, &StreamsResult)]) -> String {
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
    let heads: String =
        heads.iter().map(|head| format!("<th scope=\"col\" class=\"r\">{head}</th>")).collect();
    let mut body = String::new();
    for (measurement, result) in results {
        body += &format!(
            "<tr><th scope=\"rowgroup\" colspan=\"11\"><b>{}</b> – {}</th></tr>",
            escape(&measurement.name),
            escape(&measurement.method)
        );
        body += &result.streams.iter().map(|stream| row(result, stream)).collect::<String>();
    }
    format!(
        "<div class=\"scroll\"><table class=\"stages\"><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>"
    )
}

fn row(result: &StreamsResult, stream: &StreamFigure) -> String {
    let udp = result.job.protocol == Protocol::Udp;
    let arrow = if stream.direction == Direction::Receive { "←" } else { "→" };
    let dash = || "–".to_string();
    let tcp = stream.tcp.as_ref();
    let amount = |bytes: u64, datagrams: u64| match udp {
        true => format!("{} in {datagrams}", show_size(bytes)),
        false => show_size(bytes),
    };
    let lost = match udp {
        true => {
            format!("{} ({})", stream.lost, percent(stream.lost as f64 / stream.sent_datagrams.max(1) as f64))
        }
        false => dash(),
    };
    let cells = [
        escape(&format!("{arrow} {}", stream.path)),
        show_bits_rate(stream.bytes_per_second),
        amount(stream.sent_bytes, stream.sent_datagrams),
        amount(stream.received_bytes, stream.received_datagrams),
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
    let cells: String = cells.iter().map(|cell| format!("<td class=\"r num\">{cell}</td>")).collect();
    format!("<tr>{cells}</tr>")
}

fn core(core: Option<u32>) -> String {
    core.map_or("any".into(), |core| core.to_string())
}
