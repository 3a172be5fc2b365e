//! The tests of a file of iperf3, whole or as a stream of events, and the figure of each with both of its
//! ends, its own sums as they are written.

use crate::MOST_FIGURES;
use crate::document::Document;
use crate::iperf3_json::{Event, Iperf3Side, MOST_SIDES, Part, Sender, Test};
use crate::iperf3_path::{
    UNFILLED, datagrams_at_one_rate, in_flight, loses_without_a_queue, round_trips_at_one_rate,
};
use crate::verdict::{self, FigureContext};
use linerate_facts::protocol::Protocol;
use linerate_measure::measure::statistics::{Interval, median, spread};
use linerate_measure::measure::streams::{
    PathFigure, StreamDirection, StreamFigure, StreamsJob, StreamsResult,
};
use linerate_measure::measure::{Measurement, ReceiverResult, Stage, WorkerResult};
use linerate_measure::run::Run;
use linerate_model::verdict::thresholds::RATE_LIMIT_MET;
use linerate_transport::flow::stream::TcpSample;
use std::net::{IpAddr, SocketAddr};

/// Tests that are kept of a file.
const MOST_TESTS: usize = 2000;

/// All tests of a file.
#[derive(Debug, Default)]
pub(crate) struct Tests {
    all: Vec<Test>,
    /// What their intervals take of the memory.
    sides: usize,
}

impl Tests {
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(crate) fn add(&mut self, document: Document) {
        let Document { start, mut intervals, end, error, .. } = document;
        if self.all.len() >= MOST_TESTS {
            return;
        }
        intervals.retain(|part| self.has_room(part));
        let (start, end) = (start.part().unwrap_or_default(), end.part().unwrap_or_default());
        self.all.push(Test { start, intervals, end, error, is_ended: true });
    }

    /// The next line of a stream; the first of a test begins it.
    pub(crate) fn add_event(&mut self, document: Document) {
        if self.all.len() >= MOST_TESTS {
            return;
        }
        let begins = document.event.0 == "start" || self.all.last().is_none_or(|test| test.is_ended);
        if begins {
            self.all.push(Test::default());
        }
        let has_room = matches!(&document.data, Event::Part(part) if self.has_room(part));
        let Some(test) = self.all.last_mut() else { return };
        match (document.event.0.as_str(), document.data) {
            ("start", Event::Part(part)) => test.start = *part,
            ("interval", Event::Part(part)) if has_room => test.intervals.push(*part),
            ("end", Event::Part(part)) => (test.end, test.is_ended) = (*part, true),
            // Its end follows, without figures.
            (_, Event::Error(text)) => test.error = text,
            _ => {}
        }
    }

    /// Counts an interval, where it may be kept.
    fn has_room(&mut self, part: &Part) -> bool {
        self.sides += part.sides();
        self.sides <= MOST_SIDES
    }

    /// Each test that moved something as a figure; what limited the fastest, and why others failed.
    pub(crate) fn run(self) -> Run {
        let first = self.all.first().map(|test| &test.start);
        let host = first.and_then(|start| start.system_info.0.split_whitespace().nth(1));
        let version = first.map(|start| start.version.0.replacen("iperf ", "iperf3-", 1)).unwrap_or_default();
        let tool = if version.is_empty() { "iperf3".into() } else { version };
        let started = first.and_then(|start| start.timestamp.timesecs.get());
        let name = self.all.iter().find_map(|test| test.peer()).unwrap_or("iperf3").to_string();
        let mut run = crate::begin(Stage::Network, tool, name, host, started);
        let mut figures: Vec<(Measurement, FigureContext)> = Vec::new();
        for test in &self.all {
            let found = figure(test).filter(|_| figures.len() < MOST_FIGURES);
            let moved = if found.is_some() { "the figures are those until then" } else { "it has no rate" };
            match test.error.get() {
                Some(why) => run.errors.push(format!("iperf3's test failed: {why}; {moved}")),
                None if !test.is_ended => {
                    run.errors.push(format!("the file ends before iperf3's test did; {moved}"));
                }
                None if found.is_none() => {
                    run.errors.push("an iperf3 test moved nothing: it has no rate".into())
                }
                None => {}
            }
            figures.extend(found);
        }
        // A file of thousands of failed tests says nothing more with all of them.
        run.errors.truncate(MOST_FIGURES);
        verdict::judge_all(&mut run, figures);
        run
    }
}

/// Streams of one test; iperf3 has 128 at most.
const MOST_STREAMS: usize = 512;

/// None where nothing was moved.
pub(crate) fn figure(test: &Test) -> Option<(Measurement, FigureContext)> {
    let own = test.sends();
    let forth = arrived_rate(&test.end.sum_received, &test.end.sum_sent, &test.end.sum);
    let back = arrived_rate(
        &test.end.sum_received_bidir_reverse,
        &test.end.sum_sent_bidir_reverse,
        &Iperf3Side::default(),
    );
    let samples = interval_rates(&test.intervals);
    // Without an end there are the intervals.
    let until_then = || samples.iter().sum::<f64>() / samples.len() as f64;
    let partial = forth.is_none() && back.is_none() && !samples.is_empty();
    let rate = if partial { until_then() } else { forth.unwrap_or(0.0) + back.unwrap_or(0.0) };
    if rate <= 0.0 {
        return None;
    }
    let direction = match (back, own) {
        (Some(_), _) => StreamDirection::Both,
        (None, true) => StreamDirection::Send,
        (None, false) => StreamDirection::Receive,
    };
    let start = &test.start.test_start;
    let protocol = if start.protocol.0 == "UDP" { Protocol::Udp } else { Protocol::Tcp };
    let count = start.num_streams.positive().unwrap_or(1.0).min(MOST_STREAMS as f64) as u32;
    let seconds = if partial { samples.len() as f64 } else { longest_seconds(&test.end) };
    let streams: Vec<StreamFigure> = stream_figures(test, protocol, direction);
    let path = |direction, rate, loss| PathFigure {
        name: test.peer().unwrap_or("the other host").to_string(),
        direction,
        streams: count,
        bytes_per_second: rate,
        samples: Vec::new(),
        loss,
    };
    let lost = |sum: &Iperf3Side, received: &Iperf3Side| {
        sum.lost_percent.positive().or(received.lost_percent.positive()).unwrap_or(0.0) / 100.0
    };
    let loss_forth = lost(&test.end.sum, &test.end.sum_received);
    let loss_back = lost(&test.end.sum_bidir_reverse, &test.end.sum_received_bidir_reverse);
    let loss = loss_forth.max(loss_back);
    let paths = match (back, forth) {
        (Some(back), forth) => {
            let of_forth = if own { StreamDirection::Send } else { StreamDirection::Receive };
            let of_back = if own { StreamDirection::Receive } else { StreamDirection::Send };
            vec![path(of_forth, forth.unwrap_or(0.0), loss_forth), path(of_back, back, loss_back)]
        }
        (None, _) => vec![path(direction, rate, loss)],
    };
    let limit = start.target_bitrate.positive().or(start.fqrate.positive());
    let limit = limit.map(|bits| bits / 8.0 * f64::from(count));
    let job = StreamsJob {
        streams: count,
        write_bytes: start.blksize.count().min(u64::from(u32::MAX)) as u32,
        bytes_per_second: limit,
        congestion_control: test.end.sender_tcp_congestion.get().map(String::from),
        ..StreamsJob::plain(protocol, direction)
    };
    let cpu = &test.end.cpu_utilization_percent;
    let gigabytes = rate * seconds / 1e9;
    let per_gb = |percent: f64| if gigabytes > 0.0 { percent / 100.0 * seconds / gigabytes } else { 0.0 };
    let other = (cpu.remote_total.or_zero() > 0.0).then(|| ReceiverResult {
        // An address is not a host's name.
        host: test.peer().filter(|peer| peer.parse::<IpAddr>().is_err()).unwrap_or_default().to_string(),
        cpu_seconds_per_gb: per_gb(cpu.remote_total.or_zero()),
        busiest_thread: cpu.remote_total.or_zero() / 100.0 / test.threads(),
        ..ReceiverResult::default()
    });
    let receives = direction == StreamDirection::Receive;
    let (sender, receiver) = if receives { (other, None) } else { (None, other) };
    let beside = FigureContext {
        rate_limit: limit,
        loss_is_of_path: protocol == Protocol::Tcp && loses_without_a_queue(test),
        full_path: match protocol {
            Protocol::Tcp => round_trips_at_one_rate(test),
            Protocol::Udp => limit.and_then(|asked| datagrams_at_one_rate(test, asked, loss)),
        },
        window_bytes: receiver_window(test),
        window_was_set: test.start.sock_bufsize.positive().is_some(),
        unknown: why_unjudged(test, direction, protocol, loss),
        ..FigureContext::default()
    };
    // A test that keeps its pace pauses by itself.
    let workers =
        workers(test, protocol, direction, limit.is_some_and(|limit| rate >= RATE_LIMIT_MET * limit));
    let measurement = Measurement {
        stage: Stage::Network,
        name: figure_name(protocol, direction, count),
        resource: "all".into(),
        together: true,
        bytes_per_second: rate,
        interval: Interval::of(&samples).map(|interval| [interval.low, interval.high]),
        spread: spread(&samples),
        samples: if samples.is_empty() { vec![rate] } else { samples },
        seconds,
        cpu_seconds_per_gb: per_gb(cpu.host_total.or_zero()),
        method: method_words(test, protocol),
        flags: cpu_and_round_trip(test, own),
        protocol: Some(protocol),
        workers,
        receiver,
        sender,
        incoming: receives,
        loss: loss.clamp(0.0, 1.0),
        streams: Some(Box::new(StreamsResult::plain(job, paths, streams))),
        ..Measurement::default()
    };
    Some((measurement, beside))
}

fn figure_name(protocol: Protocol, direction: StreamDirection, count: u32) -> String {
    let direction =
        if direction == StreamDirection::Both { "both ways".into() } else { direction.to_string() };
    let streams = linerate_facts::wording::counted(count, "stream");
    format!("{protocol} {direction}, {streams}")
}

/// Bytes per second that arrived of one direction: what the receiver counted, else what was sent without what was lost.
fn arrived_rate(received: &Iperf3Side, sent: &Iperf3Side, sum: &Iperf3Side) -> Option<f64> {
    let of = |side: &Iperf3Side| Some(side.bits_per_second.positive()? / 8.0);
    let kept = 1.0 - sum.lost_percent.or_zero().min(100.0) / 100.0;
    of(received).or(of(sum).map(|rate| rate * kept)).or(of(sent)).filter(|rate| *rate > 0.0)
}

fn longest_seconds(end: &Part) -> f64 {
    let sums = [&end.sum_received, &end.sum_sent, &end.sum, &end.sum_received_bidir_reverse];
    sums.iter().map(|side| side.seconds.or_zero()).fold(0.0, f64::max)
}

/// Each interval that counts, both directions.
fn interval_rates(intervals: &[Part]) -> Vec<f64> {
    intervals.iter().filter(|part| part.counts()).map(Part::rate).collect()
}

fn stream_figures(test: &Test, protocol: Protocol, direction: StreamDirection) -> Vec<StreamFigure> {
    let figure = |(index, stream): (usize, &Iperf3Side)| {
        let (sent, received) = stream.ends();
        let (sent, received) = (sent.or(received)?, received.or(sent)?);
        let is_ours = match sent.sender {
            Sender::Is(is) => is,
            _ => direction == StreamDirection::Send,
        };
        let lost = received.lost_packets.count();
        let datagrams = received.packets.count().saturating_sub(lost);
        // Of datagrams the bytes are what this end sent, in a server's file 0.
        let (received_bytes, rate) = match protocol {
            Protocol::Tcp => (received.bytes.or_zero(), received.bits_per_second.or_zero() / 8.0),
            Protocol::Udp => {
                let bytes = datagrams as f64 * test.start.test_start.blksize.or_zero();
                let seconds = test.end.sum_received.seconds.positive().or(received.seconds.positive());
                (bytes, bytes / seconds.unwrap_or(1.0).max(1e-3))
            }
        };
        let tcp = (protocol == Protocol::Tcp && sent.retransmits.get().is_some()).then(|| TcpSample {
            retransmits: sent.retransmits.count(),
            rtt_micros: sent.mean_rtt.count().min(u64::from(u32::MAX)) as u32,
            min_rtt_micros: sent.min_rtt.count().min(u64::from(u32::MAX)) as u32,
            send_window_bytes: sent.max_snd_wnd.count(),
            ..TcpSample::default()
        });
        Some(StreamFigure {
            path: test.peer().unwrap_or_default().to_string(),
            direction: if is_ours { StreamDirection::Send } else { StreamDirection::Receive },
            addresses: stream_addresses(test, index),
            bytes_per_second: rate,
            sent_bytes: sent.bytes.count(),
            sent_datagrams: sent.packets.count(),
            received_bytes: received_bytes as u64,
            received_datagrams: datagrams,
            lost,
            reordered: received.out_of_order.count(),
            jitter_seconds: received.jitter_ms.or_zero() * 1e-3,
            tcp,
            ..StreamFigure::default()
        })
    };
    test.end.streams.iter().take(MOST_STREAMS).enumerate().filter_map(figure).collect()
}

fn stream_addresses(test: &Test, index: usize) -> Option<(SocketAddr, SocketAddr)> {
    let one = test.start.connected.get(index)?;
    let address = |host: &str, port: u64| {
        let host: IpAddr = host.parse().ok()?;
        Some(SocketAddr::new(host, u16::try_from(port).ok()?))
    };
    let local = address(&one.local_host.0, one.local_port.count())?;
    Some((local, address(&one.remote_host.0, one.remote_port.count())?))
}

/// One for each stream of this end. A program that sends from memory, as fast as it can, works or waits for the network.
fn workers(test: &Test, protocol: Protocol, direction: StreamDirection, paced: bool) -> Vec<WorkerResult> {
    if direction == StreamDirection::Both
        || paced
        || test.end.cpu_utilization_percent.host_total.get().is_none()
    {
        return Vec::new();
    }
    let busy = test.end.cpu_utilization_percent.host_total.or_zero() / 100.0 / test.threads();
    let waits = (1.0 - busy).max(0.0);
    let sends = direction == StreamDirection::Send;
    let segment = segment_bytes(test).unwrap_or(0.0).min(65_535.0);
    let worker = |(index, stream): (usize, &Iperf3Side)| {
        let (sent, received) = stream.ends();
        let sent = sent.or(received)?;
        let segments = sent.bytes.or_zero() / segment.max(1.0);
        let tcp = protocol == Protocol::Tcp;
        let micros = |value: f64| if tcp { value * 1e-6 } else { 0.0 };
        Some(WorkerResult {
            worker: index,
            source: "memory".into(),
            bytes_per_second: received.unwrap_or(sent).bits_per_second.or_zero() / 8.0,
            cpu_share: busy,
            waiting_source: if sends { 0.0 } else { waits },
            waiting_sink: if sends { waits } else { 0.0 },
            round_trip_seconds: micros(sent.mean_rtt.or_zero()),
            least_round_trip_seconds: micros(sent.min_rtt.or_zero()),
            retransmits: sent.retransmits.count(),
            retransmit_share: if segment > 0.0 && segments > 0.0 {
                sent.retransmits.or_zero() / segments
            } else {
                0.0
            },
            segment_bytes: segment as u32,
            ..WorkerResult::default()
        })
    };
    test.end.streams.iter().take(MOST_STREAMS).enumerate().filter_map(worker).collect()
}

/// Of a full segment. A server's file has the path MTU alone, of which headers and timestamps take 52 bytes in IPv4.
fn segment_bytes(test: &Test) -> Option<f64> {
    let mtu =
        || test.intervals.iter().flat_map(|part| &part.streams).find_map(|stream| stream.pmtu.positive());
    let start = &test.start;
    start
        .tcp_mss
        .positive()
        .or(start.tcp_mss_default.positive())
        .or_else(|| Some(mtu()? - 52.0).filter(|size| *size > 0.0))
}

/// The largest window of the receiver that a sender had, the median of the streams.
fn receiver_window(test: &Test) -> Option<f64> {
    let windows = test.end.streams.iter().filter_map(|stream| stream.ends().0?.max_snd_wnd.positive());
    Some(median(&windows.collect::<Vec<f64>>())).filter(|window| *window > 0.0)
}

/// What keeps a file of iperf3 from saying what limited it.
fn why_unjudged(test: &Test, direction: StreamDirection, protocol: Protocol, loss: f64) -> Option<String> {
    match direction {
        StreamDirection::Both => {
            Some("both directions share the hosts' CPUs and the links; test one at a time".into())
        }
        _ if test.end.cpu_utilization_percent.host_total.get().is_none() => {
            Some("the file does not hold the end of the test".into())
        }
        _ if protocol == Protocol::Udp && loss > 0.0 => Some(format!(
            "{:.2} % of the datagrams did not arrive, and the file does not say where they were dropped; `linerate network \
             --protocol udp` counts them layer by layer",
            loss * 100.0
        )),
        _ if protocol == Protocol::Tcp => in_flight(test).filter(|share| *share < UNFILLED).map(|share| {
            format!(
                "only {:.0} % of what TCP's windows allow was in flight, so the path did not limit it, but one of the hosts did: its own queue \
                 or shaper, a CPU quota, or another program on its CPUs",
                share * 100.0
            )
        }),
        _ => None,
    }
}

fn method_words(test: &Test, protocol: Protocol) -> String {
    let size = linerate_facts::units::show_size(test.start.test_start.blksize.count());
    match (protocol, test.end.sender_tcp_congestion.get()) {
        (Protocol::Tcp, Some(control)) => format!("iperf3, send of {size}, TCP {control}"),
        (Protocol::Tcp, None) => format!("iperf3, send of {size}"),
        (Protocol::Udp, _) => format!("iperf3, datagrams of {size}"),
    }
}

/// CPU of both ends and the round trip, as the file has them.
fn cpu_and_round_trip(test: &Test, own: bool) -> Vec<String> {
    let cpu = &test.end.cpu_utilization_percent;
    let (sender, receiver) = match own {
        true => (cpu.host_total, cpu.remote_total),
        false => (cpu.remote_total, cpu.host_total),
    };
    let of = |whose: &str, percent: Option<f64>| Some(format!("{whose}'s CPU {:.0} %", percent?));
    let trips: Vec<f64> =
        test.end.streams.iter().filter_map(|stream| stream.ends().0?.mean_rtt.positive()).collect();
    let trip = trips.iter().sum::<f64>() / trips.len() as f64 / 1e3;
    let trip = (!trips.is_empty()).then(|| match trip < 1.0 {
        true => format!("round trip {trip:.3} ms"),
        false => format!("round trip {trip:.1} ms"),
    });
    let asked = test.start.sock_bufsize.positive();
    let asked = asked.map(|bytes| format!("-w {}", linerate_facts::units::show_size(bytes as u64)));
    asked
        .into_iter()
        .chain(of("sender", sender.positive()))
        .chain(of("receiver", receiver.positive()))
        .chain(trip)
        .collect()
}
