//! The figures of `linerate network` as tests of iperf3's, for its JSON: what a test against an iperf3 told,
//! or both ends of our own.

use super::iperf3_json::{Ends, Stream, iperf3_json};
use linerate_facts::protocol::Protocol;
use linerate_facts::units::bits_per_second;
use linerate_measure::measure::Measurement;
use linerate_measure::measure::streams::{StreamDirection, StreamFigure, StreamsResult};
use linerate_measure::run::Run;
use linerate_transport::iperf3::{CpuUse, IntervalReport, StreamFigures};

/// A document for each figure, one after the other, as a shell loop over `iperf3 -J` would print them.
pub(super) fn documents(run: &Run) -> String {
    let ends: Vec<Ends> = if run.iperf3.is_empty() {
        let figures = run.measurements.iter().filter_map(|one| Some((one, one.streams.as_deref()?)));
        figures.map(|(measurement, result)| ends(run, measurement, result)).collect()
    } else {
        run.iperf3.iter().map(Ends::from).collect()
    };
    ends.iter().map(|ends| super::json::write(&iperf3_json(ends))).collect()
}

fn ends(run: &Run, measurement: &Measurement, result: &StreamsResult) -> Ends {
    let job = &result.job;
    let udp = job.protocol == Protocol::Udp;
    let first = result.streams.first();
    let datagram =
        first.map_or(0, |stream| stream.sent_bytes.checked_div(stream.sent_datagrams).unwrap_or(0));
    let granted = |of: fn(&StreamFigure) -> u64| first.map_or(0, of);
    let control = first.and_then(|stream| Some(stream.tcp.as_ref()?.congestion_control.clone()));
    let started = humantime::parse_rfc3339(&run.started).ok();
    let started = started.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    let asked = job.bytes_per_second.map(|rate| bits_per_second(rate) as u64 / u64::from(job.streams.max(1)));
    Ends {
        udp,
        both: job.direction == StreamDirection::Both,
        reverse: job.direction == StreamDirection::Receive,
        client: true,
        system_info: format!("linerate {} on {}", run.version, run.host),
        started: started.map_or(0, |time| time.as_secs()),
        // There is no control connection of iperf3's: where the first stream goes stands for it.
        peer: first.and_then(|stream| Some(stream.addresses?.1)),
        segment_bytes: first.and_then(|stream| Some(stream.tcp.as_ref()?.segment_bytes)).unwrap_or(0),
        parallel: job.streams,
        block_bytes: if udp { datagram as u32 } else { job.write_bytes },
        seconds: measurement.seconds,
        bits_per_second: asked.unwrap_or(0),
        window_bytes: job.receive_buffer_bytes.or(job.send_buffer_bytes).unwrap_or(0),
        buffer_bytes: (
            granted(|stream| stream.buffers.send_granted_bytes),
            granted(|stream| stream.buffers.receive_granted_bytes),
        ),
        streams: result
            .streams
            .iter()
            .enumerate()
            .map(|(index, one)| stream(index, one, measurement.seconds))
            .collect(),
        cpu_local: cpu(measurement.cpu_seconds_per_gb, measurement),
        cpu_remote: cpu(
            measurement.receiver.as_ref().map_or(0.0, |peer| peer.cpu_seconds_per_gb),
            measurement,
        ),
        congestion_local: control.clone(),
        congestion_remote: control,
        ..Ends::default()
    }
}

/// Only the sum is known here.
fn cpu(seconds_per_gb: f64, measurement: &Measurement) -> CpuUse {
    let total = seconds_per_gb * measurement.bytes_per_second * 1e-9 * 100.0;
    CpuUse { total, ..CpuUse::default() }
}

/// iperf3 numbers its streams 1, 3, 4, 5, …. The windows are the intervals; the totals are those of the
/// windows, too.
fn stream(index: usize, figure: &StreamFigure, seconds: f64) -> Stream {
    let id = if index == 0 { 1 } else { index as u32 + 2 };
    let sends = figure.direction == StreamDirection::Send;
    let length = seconds / figure.samples.len().max(1) as f64;
    let bytes = |rate: f64, time: f64| (rate * time) as u64;
    let udp = figure.sent_datagrams > 0;
    let total = bytes(figure.bytes_per_second, seconds);
    let of_windows = |count: u64| {
        let share = total as f64 / figure.received_bytes.max(1) as f64;
        (count as f64 * share.min(1.0)) as u64
    };
    let intervals = figure.samples.iter().enumerate().map(|(number, rate)| IntervalReport {
        start: number as f64 * length,
        end: (number + 1) as f64 * length,
        bytes: bytes(*rate, length),
        packets: udp.then(|| of_windows(figure.sent_datagrams) / figure.samples.len().max(1) as u64),
        lost: udp.then(|| of_windows(figure.lost) / figure.samples.len().max(1) as u64),
        jitter_seconds: udp.then_some(figure.jitter_seconds),
        tcp: figure.tcp.clone(),
        ..IntervalReport::default()
    });
    let end = |sender: bool| {
        let mut end = StreamFigures::default();
        (end.id, end.sender, end.bytes, end.seconds) = (id, sender, total, seconds);
        end.retransmits = figure.tcp.as_ref().filter(|_| sender).map(|tcp| tcp.retransmits);
        end.jitter_seconds = (udp && !sender).then_some(figure.jitter_seconds);
        end.lost = udp.then(|| of_windows(figure.lost));
        end.packets = udp.then(|| of_windows(figure.sent_datagrams));
        end.reordered = udp.then(|| of_windows(figure.reordered));
        end.tcp = figure.tcp.clone().filter(|_| sender);
        end
    };
    Stream {
        sends,
        addresses: figure.addresses,
        intervals: intervals.collect(),
        sent: Some(end(true)),
        received: Some(end(false)),
    }
}
