//! `end`: each stream and each direction in total, as both ends counted them.

use super::{Ends, Stream, directions, loss, of_direction, socket};
use linerate_transport::iperf3::{CpuUse, StreamFigures};
use serde_json::{Map, Value, json};

pub(super) fn end(ends: &Ends) -> Value {
    let mut keys = Map::new();
    let mut streams = Vec::new();
    for (sends, suffix) in directions(ends) {
        let of_this: Vec<(usize, &Stream)> = of_direction(ends, sends).collect();
        streams.extend(of_this.iter().map(|(place, stream)| one(ends, *place, stream)));
        let of_this: Vec<&Stream> = of_this.into_iter().map(|(_, stream)| stream).collect();
        if ends.udp {
            udp_sums(&mut keys, &of_this, sends, suffix);
        } else {
            tcp_sums(&mut keys, &of_this, sends, suffix);
        }
    }
    keys.insert("streams".into(), Value::Array(streams));
    keys.insert("cpu_utilization_percent".into(), cpu(ends.cpu_local, ends.cpu_remote));
    if !ends.udp {
        let local_sends = directions(ends).first().is_none_or(|(sends, _)| *sends);
        let (sender, receiver) = match local_sends {
            true => (&ends.congestion_local, &ends.congestion_remote),
            false => (&ends.congestion_remote, &ends.congestion_local),
        };
        for (key, name) in [("sender_tcp_congestion", sender), ("receiver_tcp_congestion", receiver)] {
            if let Some(name) = name {
                keys.insert(key.into(), json!(name));
            }
        }
    }
    Value::Object(keys)
}

fn cpu(local: CpuUse, remote: CpuUse) -> Value {
    json!({
        "host_total": local.total, "host_user": local.user, "host_system": local.system,
        "remote_total": remote.total, "remote_user": remote.user, "remote_system": remote.system,
    })
}

/// Bytes in a time from 0 on.
fn figures(bytes: u64, seconds: f64, sends: bool) -> Map<String, Value> {
    super::figures(json!(0), (seconds, seconds), bytes, sends)
}

/// A stream whose end did not tell has moved nothing that is known.
fn told(figures: &Option<StreamFigures>) -> (u64, f64) {
    figures.as_ref().map_or((0, 0.0), |figures| (figures.bytes, figures.seconds))
}

fn one(ends: &Ends, place: usize, stream: &Stream) -> Value {
    let (sent, received) = (told(&stream.sent), told(&stream.received));
    let with_socket = |mut keys: Map<String, Value>| {
        keys.insert("socket".into(), json!(socket(place)));
        keys
    };
    let mut sender = with_socket(figures(sent.0, sent.1, stream.sends));
    if ends.udp {
        let counted = stream.received.clone().unwrap_or_default();
        let packets = counted.packets.unwrap_or(0);
        loss(&mut sender, counted.jitter_seconds.unwrap_or(0.0), counted.lost.unwrap_or(0), packets);
        sender.insert("out_of_order".into(), json!(counted.reordered.unwrap_or(0)));
        return json!({ "udp": sender });
    }
    let resent = stream.sent.as_ref().and_then(|sent| sent.retransmits);
    sender.insert("retransmits".into(), json!(resent.unwrap_or(0)));
    windows(&mut sender, stream);
    json!({ "sender": sender, "receiver": with_socket(figures(received.0, received.1, stream.sends)) })
}

/// The largest windows and the round trips over all intervals; of a sender that is not ours nothing is known.
fn windows(keys: &mut Map<String, Value>, stream: &Stream) {
    let views: Vec<_> = stream.intervals.iter().filter_map(|interval| interval.tcp.as_ref()).collect();
    let most = |figure: fn(&linerate_transport::iperf3::TcpSample) -> u64| {
        views.iter().map(|view| figure(view)).max().unwrap_or(0)
    };
    let trips: Vec<u64> = views.iter().map(|view| u64::from(view.rtt_micros)).collect();
    let mean = trips.iter().sum::<u64>() / (trips.len() as u64).max(1);
    for (key, value) in [
        ("max_snd_cwnd", most(|view| view.congestion_window_bytes)),
        ("max_snd_wnd", most(|view| view.send_window_bytes)),
        ("max_rtt", most(|view| view.rtt_micros.into())),
        ("min_rtt", trips.iter().copied().min().unwrap_or(0)),
        ("mean_rtt", mean),
    ] {
        keys.insert(key.into(), json!(value));
    }
}

/// Bytes and the longest time of one end of a direction.
fn total(streams: &[&Stream], end: fn(&Stream) -> &Option<StreamFigures>) -> (u64, f64) {
    let all = streams.iter().map(|stream| told(end(stream)));
    all.fold((0, 0.0), |(bytes, seconds), (more, time)| (bytes + more, f64::max(seconds, time)))
}

fn tcp_sums(keys: &mut Map<String, Value>, streams: &[&Stream], sends: bool, suffix: &str) {
    let (sent, received) = (total(streams, |stream| &stream.sent), total(streams, |stream| &stream.received));
    let resent = streams.iter().filter_map(|stream| stream.sent.as_ref()?.retransmits).sum::<u64>();
    let mut sum_sent = figures(sent.0, sent.1, sends);
    sum_sent.insert("retransmits".into(), json!(resent));
    keys.insert(format!("sum_sent{suffix}"), Value::Object(sum_sent));
    keys.insert(format!("sum_received{suffix}"), Value::Object(figures(received.0, received.1, sends)));
}

fn udp_sums(keys: &mut Map<String, Value>, streams: &[&Stream], sends: bool, suffix: &str) {
    let (sent, received) = (total(streams, |stream| &stream.sent), total(streams, |stream| &stream.received));
    let counted: Vec<&StreamFigures> = streams.iter().filter_map(|stream| stream.received.as_ref()).collect();
    let lost = counted.iter().filter_map(|stream| stream.lost).sum();
    let expected = counted.iter().filter_map(|stream| stream.packets).sum();
    let jitter = counted.iter().filter_map(|stream| stream.jitter_seconds).sum::<f64>();
    let jitter = jitter / counted.len().max(1) as f64;
    let packets = streams.iter().filter_map(|stream| stream.sent.as_ref()?.packets).sum();
    let mut sum = figures(sent.0, received.1, sends);
    loss(&mut sum, jitter, lost, expected);
    let mut sum_sent = figures(sent.0, sent.1, true);
    loss(&mut sum_sent, 0.0, 0, packets);
    let mut sum_received = figures(received.0, received.1, false);
    loss(&mut sum_received, jitter, lost, expected);
    for (name, value) in [("sum", sum), ("sum_sent", sum_sent), ("sum_received", sum_received)] {
        keys.insert(format!("{name}{suffix}"), Value::Object(value));
    }
}
