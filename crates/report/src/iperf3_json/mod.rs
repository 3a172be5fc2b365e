//! A network test in the JSON of `iperf3 -J`, which dashboards read: the layout of 3.12, key by key.
//!
//! It is made from [`Ends`], a small neutral form, so that a test against an iperf3 and one between two
//! linerates look alike.

mod end;
mod interval;
mod start;

use linerate_facts::protocol::Protocol;
use linerate_transport::iperf3::{CpuUse, IntervalReport, StreamFigures, TestOutcome};
use serde_json::{Map, Value, json};
use std::net::SocketAddr;

/// One stream with both its ends.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stream {
    /// This host sends.
    pub sends: bool,
    /// This host's end and the other.
    pub addresses: Option<(SocketAddr, SocketAddr)>,
    /// As this host counted.
    pub intervals: Vec<IntervalReport>,
    /// What the sending end counted; none: not told.
    pub sent: Option<StreamFigures>,
    /// What the receiving end counted; none: not told.
    pub received: Option<StreamFigures>,
}

/// A test with all its ends, seen from this host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ends {
    pub udp: bool,
    /// Both directions at once; else `streams` tell which.
    pub both: bool,
    /// The other host sends (`-R`), seen from the client.
    pub reverse: bool,
    /// This host opened the connections.
    pub client: bool,
    pub system_info: String,
    /// Seconds since 1970.
    pub started: u64,
    /// The other host.
    pub peer: Option<SocketAddr>,
    pub cookie: String,
    pub segment_bytes: u32,
    /// Streams each way.
    pub parallel: u32,
    pub block_bytes: u32,
    pub seconds: f64,
    pub omit_seconds: f64,
    /// 0: the test ended by time.
    pub bytes: u64,
    /// Of each stream; 0: as fast as it goes.
    pub bits_per_second: u64,
    /// Asked for; 0: the kernel's.
    pub window_bytes: u64,
    /// SO_SNDBUF and SO_RCVBUF as granted.
    pub buffer_bytes: (u64, u64),
    pub streams: Vec<Stream>,
    pub cpu_local: CpuUse,
    pub cpu_remote: CpuUse,
    pub congestion_local: Option<String>,
    pub congestion_remote: Option<String>,
    pub error: Option<String>,
}

impl From<&TestOutcome> for Ends {
    fn from(outcome: &TestOutcome) -> Ends {
        use linerate_transport::iperf3::TestDirection;
        let test = &outcome.test;
        let streams = outcome.local.iter().map(|ours| {
            let theirs = outcome.remote_of(ours.id).cloned();
            let (sent, received) =
                if ours.sender { (Some(ours.clone()), theirs) } else { (theirs, Some(ours.clone())) };
            let (intervals, addresses) = (ours.intervals.clone(), ours.addresses);
            Stream { sends: ours.sender, addresses, intervals, sent, received }
        });
        Ends {
            udp: test.protocol == Protocol::Udp,
            both: test.direction == TestDirection::Both,
            reverse: test.direction == TestDirection::Receive,
            client: outcome.client,
            system_info: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            started: outcome.started,
            peer: outcome.addresses.map(|(_, peer)| peer),
            cookie: outcome.cookie.clone(),
            segment_bytes: outcome.segment_bytes.unwrap_or(0),
            parallel: test.parallel,
            block_bytes: test.block_bytes.unwrap_or(0),
            seconds: if test.bytes.is_some() { 0.0 } else { test.seconds },
            omit_seconds: test.omit_seconds,
            bytes: test.bytes.unwrap_or(0),
            bits_per_second: test.bits_per_second.unwrap_or(0),
            window_bytes: test.window_bytes.unwrap_or(0),
            buffer_bytes: outcome.buffer_bytes.unwrap_or((0, 0)),
            streams: streams.collect(),
            cpu_local: outcome.cpu_local,
            cpu_remote: outcome.cpu_remote.unwrap_or_default(),
            congestion_local: outcome.congestion_local.clone(),
            congestion_remote: outcome.congestion_remote.clone(),
            error: outcome.error.clone(),
        }
    }
}

/// The document.
pub fn iperf3_json(ends: &Ends) -> Value {
    let mut document = Map::new();
    document.insert("start".into(), start::start(ends));
    document.insert("intervals".into(), Value::Array(interval::intervals(ends)));
    document.insert("end".into(), end::end(ends));
    if let Some(error) = &ends.error {
        document.insert("error".into(), json!(error));
    }
    Value::Object(document)
}

/// iperf3 names a stream by its socket's file descriptor; ours are numbered in the order of opening, from the
/// one that it has first.
fn socket(place: usize) -> u64 {
    5 + 2 * place as u64
}

fn bits_per_second(bytes: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 }
}

fn percent(part: u64, of: u64) -> f64 {
    if of > 0 { part as f64 * 100.0 / of as f64 } else { 0.0 }
}

/// Bytes in a time, with its end and its length.
fn figures(start: Value, (end, seconds): (f64, f64), bytes: u64, sends: bool) -> Map<String, Value> {
    let all = [
        ("start", start),
        ("end", json!(end)),
        ("seconds", json!(seconds)),
        ("bytes", json!(bytes)),
        ("bits_per_second", json!(bits_per_second(bytes, seconds))),
        ("sender", json!(sends)),
    ];
    all.into_iter().map(|(key, value)| (key.to_string(), value)).collect()
}

fn loss(keys: &mut Map<String, Value>, jitter_seconds: f64, lost: u64, packets: u64) {
    keys.insert("jitter_ms".into(), json!(jitter_seconds * 1e3));
    keys.insert("lost_packets".into(), json!(lost));
    keys.insert("packets".into(), json!(packets));
    keys.insert("lost_percent".into(), json!(percent(lost, packets)));
}

/// The streams of one direction, with their places among all.
fn of_direction(ends: &Ends, sends: bool) -> impl Iterator<Item = (usize, &Stream)> {
    ends.streams.iter().enumerate().filter(move |(_, stream)| stream.sends == sends)
}

/// The directions in iperf3's order, with what their sums are called: the client's own sending is the first
/// where there are two.
fn directions(ends: &Ends) -> Vec<(bool, &'static str)> {
    if ends.both {
        return vec![(ends.client, ""), (!ends.client, "_bidir_reverse")];
    }
    vec![(ends.client != ends.reverse, "")]
}
