//! `intervals`: each stream by itself, and each direction in sum.

use super::{Ends, directions, loss, of_direction, socket};
use linerate_transport::iperf3::IntervalReport;
use serde_json::{Map, Value, json};

pub(super) fn intervals(ends: &Ends) -> Vec<Value> {
    let count = ends.streams.iter().map(|stream| stream.intervals.len()).max().unwrap_or(0);
    (0..count).map(|index| one(ends, index)).collect()
}

fn one(ends: &Ends, index: usize) -> Value {
    let mut keys = Map::new();
    let mut streams = Vec::new();
    for (sends, suffix) in directions(ends) {
        let of_this = of_direction(ends, sends);
        let there: Vec<(usize, &IntervalReport)> =
            of_this.filter_map(|(place, stream)| Some((place, stream.intervals.get(index)?))).collect();
        streams.extend(there.iter().map(|(place, interval)| stream(ends, *place, interval, sends)));
        let intervals: Vec<&IntervalReport> = there.iter().map(|(_, interval)| *interval).collect();
        if let Some(first) = intervals.first() {
            keys.insert(format!("sum{suffix}"), sum(ends, first, &intervals, sends));
        }
    }
    keys.insert("streams".into(), Value::Array(streams));
    Value::Object(keys)
}

/// What every part of the document tells of an interval.
fn figures(interval: &IntervalReport, bytes: u64, sends: bool) -> Map<String, Value> {
    let times = (interval.end, interval.end - interval.start);
    let mut keys = super::figures(json!(interval.start), times, bytes, sends);
    keys.insert("omitted".into(), json!(interval.omitted));
    keys
}

fn stream(ends: &Ends, place: usize, interval: &IntervalReport, sends: bool) -> Value {
    let mut keys = figures(interval, interval.bytes, sends);
    let mut put = |key: &str, value: Value| drop(keys.insert(key.into(), value));
    put("socket", json!(socket(place)));
    if ends.udp {
        let packets = interval.packets.unwrap_or(0);
        put("packets", json!(packets));
        if !sends {
            let jitter = interval.jitter_seconds.unwrap_or(0.0);
            loss(&mut keys, jitter, interval.lost.unwrap_or(0), packets);
        }
    } else if sends {
        let tcp = interval.tcp.clone().unwrap_or_default();
        put("retransmits", json!(interval.retransmits.unwrap_or(0)));
        put("snd_cwnd", json!(tcp.congestion_window_bytes));
        put("snd_wnd", json!(tcp.send_window_bytes));
        put("rtt", json!(tcp.rtt_micros));
        put("rttvar", json!(tcp.rtt_variation_micros));
        put("pmtu", json!(tcp.path_mtu));
    }
    Value::Object(keys)
}

fn sum(ends: &Ends, first: &IntervalReport, intervals: &[&IntervalReport], sends: bool) -> Value {
    let total =
        |figure: fn(&IntervalReport) -> u64| intervals.iter().map(|interval| figure(interval)).sum::<u64>();
    let mut keys = figures(first, total(|interval| interval.bytes), sends);
    if ends.udp {
        let packets = total(|interval| interval.packets.unwrap_or(0));
        keys.insert("packets".into(), json!(packets));
        if !sends {
            let jitter: f64 = intervals.iter().filter_map(|interval| interval.jitter_seconds).sum();
            let lost = total(|interval| interval.lost.unwrap_or(0));
            loss(&mut keys, jitter / intervals.len().max(1) as f64, lost, packets);
        }
    } else if sends {
        keys.insert("retransmits".into(), json!(total(|interval| interval.retransmits.unwrap_or(0))));
    }
    Value::Object(keys)
}
