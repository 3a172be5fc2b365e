//! What was seen of streams, as a measurement.

use super::StreamBench;
use super::job::{SenderSource, StreamDirection, StreamsJob};
use super::observe::{Observed, StreamWatch};
use super::result::{Buffers, PathFigure, RoundTrips, StreamFigure, StreamsResult};
use crate::measure::product::{LimitedBy, Measurement, ReceiverResult, Stage};
use crate::measure::statistics::median;
use crate::measure::trust::{self, RateLimits};
use linerate_facts::protocol::Protocol;
use linerate_facts::units::show_size;
use linerate_model::plan::Pin;
use linerate_transport::flow::stream::{SendMethod, StreamSample};

/// What the figure is called.
pub(super) fn name(bench: &StreamBench<'_>, job: &StreamsJob) -> String {
    let place = match (job.path, bench.paths) {
        (Some(path), _) => format!("{} ", bench.paths[path].name),
        (None, [only]) => format!("{} ", only.name),
        (None, _) => "all paths ".to_string(),
    };
    let direction = match job.direction {
        StreamDirection::Both => "both ways".to_string(),
        one => one.to_string(),
    };
    let source = match &job.behind {
        SenderSource::Memory => "",
        SenderSource::Cached(_) => ", cached file",
        SenderSource::Cold(_) => ", cold file",
    };
    let pinned = if job.pin == Pin::None { ", not pinned" } else { "" };
    format!("{place}{} {direction}{source}{pinned}", job.protocol)
}

/// How the bytes are moved, in words.
pub(super) fn method(bench: &StreamBench<'_>, job: &StreamsJob) -> String {
    let how = match (job.protocol, job.method) {
        (Protocol::Tcp, method) => {
            // The system's is known of this host alone.
            let receives = job.direction == StreamDirection::Receive;
            let own = || (!receives).then(|| bench.machine.kernel.tcp_congestion_control.to_string());
            let control = job.congestion_control.clone().or_else(own);
            let control = control.map_or_else(String::new, |name| format!(" {name}"));
            let by = if receives { " by the peer" } else { "" };
            let peer = job.peer.filter(|_| job.direction == StreamDirection::Both);
            let peer = peer.map_or_else(String::new, |peer| {
                format!(", by the peer {}", call(peer.method, peer.write_bytes))
            });
            format!("{}{by}{peer}, TCP{control}", call(method, job.write_bytes))
        }
        (Protocol::Udp, SendMethod::Datagrams) => "UDP, datagram by datagram".into(),
        (Protocol::Udp, _) => "UDP, segmented by the kernel (UDP_SEGMENT)".into(),
    };
    let pace = match (job.protocol, job.bytes_per_second) {
        (_, Some(rate)) => format!(", paced at {}", linerate_facts::units::show_bits_rate(rate)),
        (Protocol::Udp, None) => ", window by the receiver's answers".into(),
        (Protocol::Tcp, None) => match job.pacing_bytes_per_second {
            Some(rate) => format!(", each stream paced at {}", linerate_facts::units::show_bits_rate(rate)),
            None => String::new(),
        },
    };
    how + &pace
}

/// A way of handing bytes to TCP, in words.
fn call(method: SendMethod, write_bytes: u32) -> String {
    format!("{} of {}", method.word(), show_size(u64::from(write_bytes)))
}

pub(super) fn describe(
    bench: &StreamBench<'_>,
    job: &StreamsJob,
    name: &str,
    observed: &Observed,
) -> Measurement {
    let watched = &observed.windows;
    let resource = match (job.path, bench.paths) {
        (Some(path), _) => bench.paths[path].resource.clone(),
        (None, [only]) => only.resource.clone(),
        (None, _) => "all".into(),
    };
    let mut measurement = Measurement::of(Stage::Network, name.to_string(), resource, watched);
    measurement.together = job.path.is_none() && bench.paths.len() > 1;
    measurement.protocol = Some(job.protocol);
    measurement.with_file = job.behind != SenderSource::Memory;
    measurement.method = method(bench, job);
    let streams: Vec<StreamFigure> = observed
        .streams
        .iter()
        .filter(|s| !s.wanted.asks())
        .map(|s| figure(bench, job, s, watched.host.seconds))
        .collect();
    measurement.loss = loss(streams.iter());
    measurement.receiver = peer(observed);
    let own = bench.rate_limit;
    measurement.held_by = trust::held_by(&measurement, RateLimits { own, receiver: None });
    // A rate that was asked for and kept is not a bound of anything.
    if job.bytes_per_second.is_some() && measurement.held_by != Some(LimitedBy::Demand) {
        measurement.held_by = None;
    }
    measurement.lower_bound = measurement.held_by.is_some();
    if job.bytes_per_second.is_none() {
        measurement.set_burst_of_flow(&observed.rates, observed.short_window_seconds);
    }
    let cores: Vec<u32> = streams.iter().filter_map(|stream| stream.core).collect();
    trust::flag(&mut measurement, watched, &cores);
    if bench.sessions.iter().any(|session| session.hello().rate_limit.is_some()) {
        measurement.flags.push("agent-rate-limit".into());
    }
    let asking = observed.streams.iter().find(|stream| stream.wanted.asks());
    let mut result = StreamsResult::plain(job.clone(), path_figures(bench, observed, &streams), streams);
    result.loaded_latency = asking.and_then(|stream| RoundTrips::of(&stream.end.own));
    result.counters.clone_from(&observed.counters);
    measurement.streams = Some(Box::new(result));
    measurement
}

/// Share of the datagrams of these streams that did not arrive.
pub(super) fn loss<'s>(streams: impl Iterator<Item = &'s StreamFigure>) -> f64 {
    let sum = |(sent, lost), stream: &StreamFigure| {
        (sent + stream.sent_datagrams as f64, lost + stream.lost as f64)
    };
    let (sent, lost) = streams.fold((0.0, 0.0), sum);
    if sent > 0.0 { lost / sent } else { 0.0 }
}

fn figure(bench: &StreamBench<'_>, job: &StreamsJob, stream: &StreamWatch, seconds: f64) -> StreamFigure {
    let (sender, receiver) = stream.ends();
    let (sender_cpu_share, receiver_cpu_share) = stream.cpu_shares(seconds);
    let rate = stream.mean_rate();
    let compared = job.verify && sender.ended && receiver.ended;
    let loss = stream.loss_count();
    StreamFigure {
        path: bench.paths[stream.wanted.path].name.clone(),
        direction: stream.wanted.direction(),
        addresses: stream.addresses,
        core: stream.wanted.spec.core,
        peer_core: stream.wanted.peer_core,
        bytes_per_second: rate,
        samples: stream.samples.clone(),
        sent_bytes: sender.bytes,
        sent_datagrams: sender.datagrams,
        trains: sender.trains,
        received_bytes: receiver.bytes,
        received_datagrams: receiver.datagrams,
        received_trains: receiver.trains,
        lost: receiver.lost,
        reordered: receiver.reordered,
        duplicated: receiver.duplicated,
        foreign: receiver.foreign,
        jitter_seconds: receiver.jitter_nanos as f64 * 1e-9,
        delay_variation_seconds: receiver.delay_variation_nanos as f64 * 1e-9,
        socket_drops: receiver.socket_drops,
        refused_sends: sender.refused_sends,
        buffers: buffers(job, sender, receiver, rate),
        zerocopy: sender.zerocopy,
        tcp: sender.tcp.clone(),
        losses: loss.losses,
        loss_segments: loss.segments,
        verified: compared.then_some(sender.checksum == receiver.checksum && sender.bytes == receiver.bytes),
        checksum: compared.then_some(receiver.checksum),
        sender_cpu_share,
        receiver_cpu_share,
    }
}

fn buffers(job: &StreamsJob, sender: &StreamSample, receiver: &StreamSample, rate: f64) -> Buffers {
    let trip = sender.tcp.as_ref().map(|tcp| f64::from(tcp.min_rtt_micros.max(1)) * 1e-6);
    Buffers {
        send_asked_bytes: job.send_buffer_bytes,
        send_granted_bytes: sender.send_buffer_bytes,
        receive_asked_bytes: job.receive_buffer_bytes,
        receive_granted_bytes: receiver.receive_buffer_bytes,
        needed_bytes: trip.map(|trip| (rate * trip) as u64),
    }
}

/// Each path in each direction.
fn path_figures(bench: &StreamBench<'_>, observed: &Observed, figures: &[StreamFigure]) -> Vec<PathFigure> {
    let bulk: Vec<&StreamWatch> = observed.streams.iter().filter(|stream| !stream.wanted.asks()).collect();
    let mut all = Vec::new();
    for (path, plan) in bench.paths.iter().enumerate() {
        for direction in [StreamDirection::Send, StreamDirection::Receive] {
            let mine =
                |stream: &StreamWatch| stream.wanted.path == path && stream.wanted.direction() == direction;
            let indexes: Vec<usize> = (0..bulk.len()).filter(|index| mine(bulk[*index])).collect();
            if indexes.is_empty() {
                continue;
            }
            let windows = indexes.iter().map(|index| bulk[*index].samples.len()).min().unwrap_or(0);
            let mean: f64 = indexes.iter().map(|index| bulk[*index].mean_rate()).sum();
            let sum = |window| indexes.iter().map(|index| bulk[*index].samples[window]).sum();
            let samples: Vec<f64> = (0..windows).map(sum).collect();
            all.push(PathFigure {
                name: plan.name.clone(),
                direction,
                streams: indexes.len() as u32,
                // A file sent whole has no windows.
                bytes_per_second: if samples.is_empty() { mean } else { median(&samples) },
                samples,
                loss: loss(indexes.iter().map(|index| &figures[*index])),
            });
        }
    }
    all
}

/// What the agents told of their hosts; with several hosts the one whose quota holds it most.
fn peer(observed: &Observed) -> Option<ReceiverResult> {
    let mut result = observed.far.result(observed.windows.bytes)?;
    for stream in observed.streams.iter().filter(|stream| !stream.wanted.asks()) {
        let (sender, receiver) = stream.cpu_shares(observed.windows.host.seconds);
        let theirs = if stream.wanted.direction() == StreamDirection::Send { receiver } else { sender };
        result.busiest_thread = result.busiest_thread.max(theirs);
        let end = stream.ends().1;
        result.datagrams = result.datagrams.saturating_add(end.datagrams);
        result.socket_drops = result.socket_drops.saturating_add(end.socket_drops);
        result.receive_buffer_bytes = result.receive_buffer_bytes.max(end.receive_buffer_bytes);
    }
    Some(result)
}
