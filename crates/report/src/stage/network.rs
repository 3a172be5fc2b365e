//! `linerate network`: a row for each figure and for each of its paths, what was chosen and why, path MTUs,
//! round trips, buffers, the use of the cores, ledgers; on the page each stream with both of its ends, too.
//!
//! What RDMA moved is set beside what its NIC's rate leaves, and beside TCP.

use super::{ledger, streams};
use crate::document::{Block, Media, Part, Table, TableRow, bold, dim, facts, plain};
use crate::figure::{percent, quantity, seconds_word};
use crate::grid::{Column, headed, name, notes as remarks_of, number, text};
use linerate_facts::fact::Fact;
use linerate_facts::grouping::{distinct, grouped};
use linerate_facts::printable::printable;
use linerate_facts::protocol::Protocol;
use linerate_facts::units::{show_bits_rate, show_size};
use linerate_facts::wording::counted;
use linerate_measure::measure::rdma::RdmaFigure;
use linerate_measure::measure::streams::{PathMtu, RoundTrips, StreamDirection, StreamFigure, StreamsResult};
use linerate_measure::measure::{CoreUse, Measurement};
use linerate_measure::run::Run;
use linerate_model::plan::Pin;

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
const STREAM_HEADS: [&str; 11] = [
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

const CORES: [Column; 11] = [
    name(""),
    text("host", 1),
    number("core", 0),
    number("user", 0),
    number("nice", 2),
    number("system", 0),
    number("idle", 1),
    number("iowait", 2),
    number("irq", 2),
    number("softirq", 0),
    number("steal", 2),
];
/// Cores less busy than this are counted, not listed.
const BUSY: f64 = 0.02;

pub(super) fn parts(run: &Run) -> Vec<Part<'_>> {
    let rows: Vec<TableRow> = run.measurements.iter().flat_map(rows).collect();
    let empty = rows.is_empty().then(|| Block::Text(plain("nothing was measured").on(Media::Terminal)));
    let figures = [Block::Space, Block::Table(Table::new(FIGURES, rows))];
    let blocks = figures.into_iter().chain(empty).chain([Block::Space]).collect();
    let figures = Part::new("measurements", "Measurements", super::MEDIANS, blocks);
    let idle = run.measurements.iter().filter_map(|m| {
        let result = m.streams.as_deref().filter(|result| result.loaded_latency.is_none())?;
        Some(("round trip", trips(m, result)?))
    });
    let blocks = vec![facts(notes(run)), Block::On(Media::Page, vec![facts(idle)])];
    let paths = Part { id: "paths", title: "Paths", blocks, ..Part::default() };
    let cores = cores(&run.measurements);
    [figures, paths].into_iter().chain(cores).chain([stream_ends(run), ledger::part(&run.ledgers)]).collect()
}

/// Each stream with both of its ends.
fn stream_ends(run: &Run) -> Part<'_> {
    let of = |measurement: &Measurement| {
        let result = measurement.streams.as_deref()?;
        let rows = result.streams.iter().map(|stream| stream_row(result, stream));
        let name = Block::Text(bold(format!("{} – {}", measurement.name, measurement.method)));
        Some([name, Block::Table(Table::new(headed(&STREAM_HEADS, 1, false), rows))])
    };
    let intro = "Both ends of each, over its whole life; goodput is payload at the receiver in the windows.";
    let blocks = run.measurements.iter().filter_map(of).flatten().collect();
    Part { id: "streams", title: "Streams", intro: intro.into(), on: Media::Page, blocks, ..Part::default() }
}

/// The figure, and below it each of its paths where there are several.
fn rows(measurement: &Measurement) -> Vec<TableRow> {
    let bound = if measurement.lower_bound { "≥ " } else { "" };
    let result = measurement.streams.as_deref();
    let several = measurement.samples.len() > 1;
    let mut rows = vec![TableRow::of([
        printable(&measurement.name),
        bound.to_string() + &show_bits_rate(measurement.bytes_per_second),
        if several { percent(measurement.spread) } else { "–".into() },
        match result.is_some_and(|result| result.at_nic.is_some()) {
            true => "unknown".into(),
            false => loss_text(measurement.protocol, measurement.loss),
        },
        result.and_then(streams::retransmits).map(|count| count.to_string()).unwrap_or_default(),
        // perftest's CPU time is not linerate's, and nobody counts it.
        if measurement.rdma.is_some() { "–".into() } else { quantity(measurement.cpu_seconds_per_gb) },
        measurement.receiver.as_ref().map_or(String::new(), |peer| quantity(peer.cpu_seconds_per_gb)),
        streams::remarks(measurement).join(", "),
    ])];
    if let Some(rate) = result.and_then(|result| result.network_only_bytes_per_second) {
        let mut cells = vec!["  network only".to_string(), show_bits_rate(rate)];
        cells.resize(FIGURES.len() - 1, String::new());
        cells.push("counted in the kernel, not copied to a program".into());
        rows.push(TableRow::of(cells));
    }
    let Some(result) = result.filter(|result| result.paths.len() > 1) else { return rows };
    for path in &result.paths {
        let direction = match (result.job.direction, path.direction) {
            (StreamDirection::Both, StreamDirection::Receive) => " ←",
            (StreamDirection::Both, _) => " →",
            _ => "",
        };
        rows.push(TableRow::of([
            format!("  {}{direction}, {}", printable(&path.name), counted(path.streams, "stream")),
            show_bits_rate(path.bytes_per_second),
            String::new(),
            loss_text(measurement.protocol, path.loss),
        ]));
    }
    rows
}

fn loss_text(protocol: Option<Protocol>, loss: f64) -> String {
    match protocol {
        Some(Protocol::Udp) if loss == 0.0 => "0".into(),
        Some(Protocol::Udp) if loss < 0.0001 => format!("{:.4} %", loss * 100.0),
        Some(Protocol::Udp) => percent(loss),
        _ => "–".into(),
    }
}

fn stream_row(result: &StreamsResult, stream: &StreamFigure) -> TableRow {
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
    TableRow::of([
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
    ])
}

fn core(core: Option<u32>) -> String {
    core.map_or("any".into(), |core| core.to_string())
}

/// What is to be known of the paths, each with its label.
fn notes(run: &Run) -> Vec<(&'static str, String)> {
    let mut notes = Vec::new();
    let results = || run.measurements.iter().filter_map(|m| Some((m, m.streams.as_deref()?)));
    let by_rdma = |words: fn(&[Measurement], &Measurement) -> Option<String>| {
        run.measurements.iter().filter_map(move |one| Some(("RDMA", words(&run.measurements, one)?)))
    };
    notes.extend(by_rdma(rdma_beside));
    notes.extend(by_rdma(|_, one| rdma_devices(one)));
    if let Some((_, first)) = results().next() {
        notes.extend(first.path_mtus.iter().map(|path| ("path MTU", arriving(path))));
    }
    let methods = grouped(results().map(|(one, _)| one), |one, other| one.method == other.method);
    notes.extend(methods.iter().map(|alike| {
        let protocol = alike[0].protocol.map_or_else(String::new, |protocol| protocol.to_string());
        ("method", format!("{protocol}: {}", alike[0].method))
    }));
    let methods = distinct(results().map(|(_, result)| result.methods.as_slice()));
    notes.extend(methods.iter().filter(|of| of.len() > 1).map(|of| ("trials", streams::methods(of))));
    let compared = run.measurements.iter().map(|measurement| &measurement.congestion_controls);
    let compared = compared.filter_map(|trials| streams::congestion_controls(trials)).next();
    notes.extend(compared.map(|words| ("congestion control", words)));
    let tried = run.measurements.iter().map(|measurement| &measurement.stream_trials);
    let tried = tried.filter_map(|trials| streams::stream_trials(trials)).next();
    notes.extend(tried.map(|words| ("streams", words)));
    notes.extend(results().filter_map(|(_, result)| Some(("at NIC", streams::at_nic(result)?))));
    let under_load = results().filter(|(_, result)| result.loaded_latency.is_some());
    notes.extend(under_load.filter_map(|(m, result)| Some(("round trip", trips(m, result)?))));
    notes.extend(results().filter_map(|(m, result)| Some(("buffers", buffers(m, result)?))));
    notes.extend(results().filter_map(|(m, result)| Some(("search", streams::search(m, result)?))));
    notes
}

/// What arrived whole on a path.
fn arriving(path: &PathMtu) -> String {
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
    let of = |trips: &RoundTrips| {
        let [p50, p99, p99_9, most] = [trips.p50, trips.p99, trips.p99_9, trips.maximum].map(seconds_word);
        format!("p50 {p50}, p99 {p99}, p99.9 {p99_9}, most {most} of {}", trips.count)
    };
    let idle = result.idle_latency.as_ref().map(|idle| format!("idle {}", of(idle)));
    let name = printable(&measurement.name);
    match (&result.loaded_latency, idle) {
        (Some(loaded), Some(idle)) => Some(format!("beside {name}: {}; {idle}", of(loaded))),
        (Some(loaded), None) => Some(format!("beside {name}: {}", of(loaded))),
        (None, idle) => idle.map(|idle| format!("{name}: {idle}")),
    }
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

/// Pinned and not pinned side by side, in the eight classes of `/proc/stat`; none where no figure was taken both ways.
fn cores(measurements: &[Measurement]) -> Option<Part<'_>> {
    let pin = |m: &Measurement| m.streams.as_ref().map(|result| result.job.pin.clone());
    let pinned = |m: &Measurement| pin(m).is_some_and(|pin| pin != Pin::None);
    if !measurements.iter().any(|m| pin(m) == Some(Pin::None)) || !measurements.iter().any(pinned) {
        return None;
    }
    let mut rows = Vec::new();
    let mut idle = 0;
    for measurement in measurements {
        let mut name =
            format!("{}: {}", printable(&measurement.name), show_bits_rate(measurement.bytes_per_second));
        let there = measurement.receiver.as_ref().map_or(&[][..], |peer| &peer.cpu_by_core[..]);
        for (host, cores) in [("here", &measurement.cpu_by_core[..]), ("peer", there)] {
            for core in cores {
                if core.busy() < BUSY {
                    idle += 1;
                    continue;
                }
                rows.push(core_row(std::mem::take(&mut name), host, core));
            }
        }
    }
    let mut blocks =
        vec![Block::Heading("use of the cores, percent".into()), Block::Table(Table::new(CORES, rows))];
    if idle > 0 {
        let less = format!("and {} that did less than {:.0} %", counted(idle, "core"), BUSY * 100.0);
        blocks.push(Block::Text(dim(less)));
    }
    Some(Part { id: "use", title: "Use of the cores, percent", blocks, ..Part::default() })
}

fn core_row(name: String, host: &str, core: &CoreUse) -> TableRow {
    let shares =
        [core.user, core.nice, core.system, core.idle, core.iowait, core.irq, core.softirq, core.steal];
    let mut cells = vec![name, host.to_string(), core.core.to_string()];
    cells.extend(shares.map(|share| format!("{:.0}", share * 100.0)));
    TableRow::of(cells)
}

/// `eth0 rdma send: 97.6 Gb/s, 98 % of the 100 Gb/s that the NIC's rate leaves for it; 2.1 × TCP's 46.3 Gb/s`; none
/// of a figure that is not of RDMA.
fn rdma_beside(all: &[Measurement], measurement: &Measurement) -> Option<String> {
    let figure = measurement.rdma.as_deref()?;
    let rate = measurement.bytes_per_second;
    let name = printable(&measurement.name);
    let ceiling = match &figure.ceiling_bytes_per_second {
        Fact::Known(most) if *most > 0.0 => format!(
            ", {} of the {} that the NIC's rate leaves for it",
            crate::figure::percent(rate / most),
            show_bits_rate(*most)
        ),
        Fact::Known(_) => String::new(),
        Fact::Unknown { why } => {
            format!("; what the NIC's rate leaves for it is unknown: {}", printable(why))
        }
    };
    let tcp = tcp(all, figure);
    let tcp =
        tcp.map(|tcp| format!("; {} × TCP's {}", crate::figure::quantity(rate / tcp), show_bits_rate(tcp)));
    Some(format!("{name}: {}{ceiling}{}", show_bits_rate(rate), tcp.unwrap_or_default()))
}

/// What it was measured with, and between what.
fn rdma_devices(measurement: &Measurement) -> Option<String> {
    let figure = measurement.rdma.as_deref()?;
    let packets = figure.packet_bytes.map(|bytes| format!(", packets of {}", show_size(bytes.into())));
    let (method, layer) = (printable(&measurement.method), printable(&figure.link_layer));
    Some(format!("{}: {method}, {layer}{}", printable(&measurement.name), packets.unwrap_or_default()))
}

/// TCP from memory on the same path in the same direction, bytes per second.
fn tcp(all: &[Measurement], figure: &RdmaFigure) -> Option<f64> {
    let of_path = |measurement: &Measurement| {
        let result = measurement.streams.as_deref()?;
        let same = measurement.protocol == Some(Protocol::Tcp) && !measurement.with_file;
        if !same || result.job.direction != figure.direction {
            return None;
        }
        let is_way =
            |way: StreamDirection| figure.direction == StreamDirection::Both || way == figure.direction;
        let paths = result.paths.iter().filter(|path| path.name == figure.path && is_way(path.direction));
        let rate: f64 = paths.map(|path| path.bytes_per_second).sum();
        (rate > 0.0).then_some(rate)
    };
    all.iter().find_map(of_path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_measure::measure::Stage;
    use linerate_measure::measure::streams::{PathFigure, StreamsJob, StreamsResult};

    fn rdma(ceiling: Fact<f64>) -> Measurement {
        let figure = RdmaFigure {
            path: "eth0".into(),
            direction: StreamDirection::Send,
            program: "ib_write_bw".into(),
            device: "mlx5_0".into(),
            peer_device: "mlx5_2".into(),
            link_layer: "Ethernet".into(),
            queue_pairs: 1,
            message_bytes: 65536,
            messages: 558_000,
            packet_bytes: Some(4096),
            ceiling_bytes_per_second: ceiling,
        };
        Measurement {
            stage: Stage::Network,
            name: "eth0 rdma send".into(),
            method: "ib_write_bw of perftest".into(),
            bytes_per_second: 12.2e9,
            rdma: Some(Box::new(figure)),
            ..Measurement::default()
        }
    }

    fn tcp(path: &str, direction: StreamDirection, bytes_per_second: f64) -> Measurement {
        let path = PathFigure {
            name: path.into(),
            direction,
            streams: 1,
            bytes_per_second,
            samples: Vec::new(),
            loss: 0.0,
        };
        let result =
            StreamsResult::plain(StreamsJob::plain(Protocol::Tcp, direction), vec![path], Vec::new());
        Measurement {
            protocol: Some(Protocol::Tcp),
            bytes_per_second,
            streams: Some(Box::new(result)),
            ..Measurement::default()
        }
    }

    #[test]
    fn rdma_is_shown_beside_its_ceiling_and_tcp() {
        let measured = rdma(Fact::Known(12.5e9));
        let all = [
            measured.clone(),
            tcp("eth0", StreamDirection::Receive, 1e9),
            tcp("eth1", StreamDirection::Send, 2e9),
            tcp("eth0", StreamDirection::Send, 6.1e9),
        ];
        let words = rdma_beside(&all, &measured).expect("words");
        assert_eq!(
            words,
            "eth0 rdma send: 97.6 Gb/s, 98 % of the 100 Gb/s that the NIC's rate leaves for it; 2.00 × TCP's 48.8 Gb/s"
        );
        assert_eq!(rdma_beside(&all, &all[1]), None);
        let devices = rdma_devices(&measured).expect("words");
        assert_eq!(devices, "eth0 rdma send: ib_write_bw of perftest, Ethernet, packets of 4 KiB");
    }

    #[test]
    fn what_is_not_known_is_said_with_its_reason() {
        let measured = rdma(Fact::unknown("no rate of eth0 is known"));
        let words = rdma_beside(std::slice::from_ref(&measured), &measured).expect("words");
        assert!(
            words.ends_with("what the NIC's rate leaves for it is unknown: no rate of eth0 is known"),
            "{words}"
        );
    }
}
