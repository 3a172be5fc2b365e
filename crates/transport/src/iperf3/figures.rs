//! What a test gives: each stream's figures as either end counted them, by interval and in total; and the JSON in which
//! each end reports to the other what it counted, when a test is over.

use super::Iperf3Test;
use super::parameters::{MOST_STREAMS, number_of, text_of};
use crate::flow::stream::TcpSample;
use linerate_facts::protocol::Protocol;
use linerate_system::clock;
use linerate_system::counters::process_cpu_split;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// More than any test moves, and a whole number in a double.
const MOST_REPORTED: f64 = 9e15;

/// A process's CPU time as a share of the test's, percent; several cores go beyond 100.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuUse {
    pub total: f64,
    pub user: f64,
    pub system: f64,
}

/// One stream over one interval, counted here.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct IntervalReport {
    /// Seconds since the test began, or since the warm-up began where `omitted`.
    pub start: f64,
    pub end: f64,
    pub bytes: u64,
    /// Part of the warm-up: not in the totals.
    pub omitted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retransmits: Option<u64>,
    /// UDP: datagrams sent, or expected by their numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter_seconds: Option<f64>,
    /// The kernel's view at the end of the interval (TCP sender).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpSample>,
}

/// One stream as one end counted it, without what was omitted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StreamFigures {
    /// iperf3's number: 1, 3, 4, 5, … in the order of opening.
    pub id: u32,
    /// The end that tells this sends.
    pub sender: bool,
    pub bytes: u64,
    pub seconds: f64,
    /// TCP sender.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retransmits: Option<u64>,
    /// UDP receiver, RFC 1889.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter_seconds: Option<f64>,
    /// UDP receiver: gaps in the numbers, less what came late.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<u64>,
    /// UDP: datagrams sent, or expected by their numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<u64>,
    /// UDP receiver: came after one with a higher number (or twice: iperf3 does not report them apart).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reordered: Option<u64>,
    /// UDP receiver: datagrams that are not the stream's, not believed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub foreign: Option<u64>,
    /// UDP sender: sends that the kernel refused for a moment, tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused_sends: Option<u64>,
    /// The end that tells this, and its other end; known of our own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub addresses: Option<(SocketAddr, SocketAddr)>,
    /// TCP, of our own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpSample>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<IntervalReport>,
    /// Why it ended, where it was not told to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Datagrams and losses of the warm-up, which the protocol wants reported.
    #[serde(skip)]
    pub omitted: (u64, u64),
}

impl StreamFigures {
    pub fn bits_per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.bytes as f64 * 8.0 / self.seconds } else { 0.0 }
    }
}

/// A test that took place, whole or in part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TestOutcome {
    /// What was asked for, with the sizes that were then taken.
    pub test: Iperf3Test,
    /// This end is the client.
    pub client: bool,
    pub cookie: String,
    /// Seconds since 1970.
    pub started: u64,
    /// Control connection: this end and the other.
    pub addresses: Option<(SocketAddr, SocketAddr)>,
    /// Version that the other end reported; only clients do.
    pub peer_version: Option<String>,
    /// Largest TCP segment of the control connection, bytes.
    pub segment_bytes: Option<u32>,
    /// SO_SNDBUF and SO_RCVBUF of the first stream as granted, bytes.
    pub buffer_bytes: Option<(u64, u64)>,
    /// Our streams.
    pub local: Vec<StreamFigures>,
    /// The same as the other end tells; empty where the test did not get that far.
    pub remote: Vec<StreamFigures>,
    pub cpu_local: CpuUse,
    pub cpu_remote: Option<CpuUse>,
    pub congestion_local: Option<String>,
    pub congestion_remote: Option<String>,
    /// What a reader of the figures should know.
    pub warnings: Vec<String>,
    /// Why the test ended early, where it did; the figures are those until then.
    pub error: Option<String>,
}

impl TestOutcome {
    /// What the other end tells of a stream of our own.
    pub fn remote_of(&self, id: u32) -> Option<&StreamFigures> {
        self.remote.iter().find(|stream| stream.id == id)
    }

    /// Bytes per second that arrived, summed over one direction: what the receiving ends counted, or where
    /// the other one did not tell, what was sent.
    pub fn received_bytes_per_second(&self, sent_by_us: bool) -> f64 {
        let ours = self.local.iter().filter(|stream| stream.sender == sent_by_us);
        let received =
            ours.map(|ours| if sent_by_us { self.remote_of(ours.id).unwrap_or(ours) } else { ours });
        // Of nothing the sum of floats is −0.
        received.map(|stream| stream.bits_per_second() / 8.0).fold(0.0, |sum, rate| sum + rate)
    }
}

/// What a listener hears once an interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IntervalProgress {
    /// As in `Interval`.
    pub start: f64,
    pub end: f64,
    pub omitted: bool,
    /// Bytes per second of all streams that send, and of all that receive.
    pub sent_bytes_per_second: f64,
    pub received_bytes_per_second: f64,
    pub retransmits: u64,
    pub lost: u64,
}

/// This process's CPU time over a test.
pub(super) struct CpuMeter {
    start: Instant,
    before: (Duration, Duration),
}

impl CpuMeter {
    pub(crate) fn start() -> CpuMeter {
        CpuMeter { start: clock::now(), before: process_cpu_split() }
    }

    pub(crate) fn used(&self) -> CpuUse {
        let (user, system) = process_cpu_split();
        let wall = clock::since(self.start).as_secs_f64().max(1e-9);
        let share = |now: Duration, before: Duration| now.saturating_sub(before).as_secs_f64() / wall * 100.0;
        let (user, system) = (share(user, self.before.0), share(system, self.before.1));
        CpuUse { total: user + system, user, system }
    }
}

/// What one end tells.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Results {
    pub cpu: CpuUse,
    /// Whether the sender can tell of retransmissions: −1 is "I am no sender".
    pub sender_has_retransmits: i32,
    pub congestion_control: Option<String>,
    pub streams: Vec<StreamResult>,
}

/// One stream, as one end sees it. Counts do not hold what was omitted, but for `packets` and `lost` (their
/// own keys say how much).
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct StreamResult {
    pub id: u32,
    pub bytes: u64,
    pub retransmits: Option<u64>,
    pub jitter_seconds: f64,
    pub lost: u64,
    /// None: a peer older than 3.13 does not report.
    pub omitted_lost: Option<u64>,
    /// Sent, or the highest number that came.
    pub packets: u64,
    pub omitted_packets: Option<u64>,
    pub seconds: f64,
}

impl Results {
    pub(crate) fn to_json(&self) -> Value {
        let streams: Vec<Value> = self.streams.iter().map(StreamResult::to_json).collect();
        let mut value = json!({
            "cpu_util_total": self.cpu.total,
            "cpu_util_user": self.cpu.user,
            "cpu_util_system": self.cpu.system,
            "sender_has_retransmits": self.sender_has_retransmits,
            "streams": streams,
        });
        if let Some(name) = &self.congestion_control {
            value["congestion_used"] = json!(name);
        }
        value
    }

    /// As the other end reported it, each number held within what it can be. An error names what is missing.
    pub(crate) fn from_json(value: &Value) -> Result<Results, String> {
        let number = |key| number_of(value, key).ok_or_else(|| format!("its results have no {key}"));
        let percent = |key| number(key).map(|share| share.clamp(0.0, 1e6));
        let Some(Value::Array(streams)) = value.get("streams") else {
            return Err("its results have no streams".into());
        };
        // Both directions.
        let most = 2 * MOST_STREAMS as usize;
        if streams.len() > most {
            return Err(format!("its results have {} streams, and at most {most} can be", streams.len()));
        }
        Ok(Results {
            cpu: CpuUse {
                total: percent("cpu_util_total")?,
                user: percent("cpu_util_user")?,
                system: percent("cpu_util_system")?,
            },
            sender_has_retransmits: number("sender_has_retransmits")?.clamp(-1.0, 1.0) as i32,
            congestion_control: text_of(value, "congestion_used", 15),
            streams: streams.iter().map(StreamResult::from_json).collect::<Result<_, _>>()?,
        })
    }
}

impl StreamResult {
    fn to_json(&self) -> Value {
        json!({
            "id": self.id,
            "bytes": self.bytes,
            "retransmits": self.retransmits.map_or(-1, |count| i64::try_from(count).unwrap_or(i64::MAX)),
            "jitter": self.jitter_seconds,
            "errors": self.lost,
            "omitted_errors": self.omitted_lost.unwrap_or(0),
            "packets": self.packets,
            "omitted_packets": self.omitted_packets.unwrap_or(0),
            "start_time": 0,
            "end_time": self.seconds,
        })
    }

    fn from_json(value: &Value) -> Result<StreamResult, String> {
        let number =
            |key| number_of(value, key).ok_or_else(|| format!("a stream in its results has no {key}"));
        let count = |key| number(key).map(|count| count.clamp(0.0, MOST_REPORTED) as u64);
        let optional = |key| number_of(value, key).map(|count| count.clamp(0.0, MOST_REPORTED) as u64);
        // −1, which Debian's writes as 2⁶⁴ − 1, says that there is none.
        let retransmits = number("retransmits")?;
        Ok(StreamResult {
            id: number("id")?.clamp(0.0, 1e9) as u32,
            bytes: count("bytes")?,
            retransmits: (0.0..MOST_REPORTED).contains(&retransmits).then_some(retransmits as u64),
            jitter_seconds: number("jitter")?.clamp(0.0, 1e6),
            lost: count("errors")?,
            omitted_lost: optional("omitted_errors"),
            packets: count("packets")?,
            omitted_packets: optional("omitted_packets"),
            seconds: (number_of(value, "end_time").unwrap_or(0.0)
                - number_of(value, "start_time").unwrap_or(0.0))
            .clamp(0.0, 1e9),
        })
    }
}

/// Our side of the exchange.
pub(crate) fn results_of(outcome: &TestOutcome) -> Results {
    let sends = outcome.local.iter().any(|stream| stream.sender);
    let streams = outcome.local.iter().map(|stream| StreamResult {
        id: stream.id,
        bytes: stream.bytes,
        retransmits: stream.retransmits,
        jitter_seconds: stream.jitter_seconds.unwrap_or(0.0),
        lost: stream.lost.unwrap_or(0) + stream.omitted.1,
        omitted_lost: Some(stream.omitted.1),
        packets: stream.packets.unwrap_or(0) + stream.omitted.0,
        omitted_packets: Some(stream.omitted.0),
        seconds: stream.seconds,
    });
    Results {
        cpu: outcome.cpu_local,
        sender_has_retransmits: if sends { i32::from(outcome.test.protocol == Protocol::Tcp) } else { -1 },
        congestion_control: outcome.congestion_local.clone(),
        streams: streams.collect(),
    }
}

/// What the other end reported.
pub(crate) fn take_results(outcome: &mut TestOutcome, theirs: &Results) {
    let udp = outcome.test.protocol == Protocol::Udp;
    outcome.cpu_remote = Some(theirs.cpu);
    outcome.congestion_remote = theirs.congestion_control.clone();
    let reported = theirs.streams.iter().filter_map(|stream| {
        // A stream that we do not have is not believed.
        let ours = outcome.local.iter().find(|ours| ours.id == stream.id)?;
        let (sender, udp_receiver) = (!ours.sender, udp && ours.sender);
        // Before 3.13 a peer did not tell what it omitted: about as much as we did.
        let omitted_packets = stream.omitted_packets.unwrap_or(ours.omitted.0);
        let omitted_lost = stream.omitted_lost.unwrap_or(0);
        Some(StreamFigures {
            id: stream.id,
            sender,
            bytes: stream.bytes,
            seconds: if stream.seconds > 0.0 { stream.seconds } else { ours.seconds },
            retransmits: stream.retransmits.filter(|_| sender && !udp),
            jitter_seconds: udp_receiver.then_some(stream.jitter_seconds),
            lost: udp_receiver.then(|| stream.lost.saturating_sub(omitted_lost)),
            packets: udp.then(|| stream.packets.saturating_sub(omitted_packets)),
            ..StreamFigures::default()
        })
    });
    outcome.remote = reported.collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_debians_server_sends() {
        let stream = json!({
            "id": 1, "bytes": 1_277_952, "retransmits": 1.844_674_407_370_955_2e19, "jitter": 8.98e-6, "errors": 2,
            "packets": 39, "start_time": 0, "end_time": 1.000295
        });
        let sent = json!({
            "cpu_util_total": 2.4, "cpu_util_user": 1.2, "cpu_util_system": 1.2, "sender_has_retransmits": 0, "streams": [stream]
        });
        let read = Results::from_json(&sent).expect("results");
        let stream = &read.streams[0];
        assert_eq!((stream.id, stream.bytes, stream.retransmits), (1, 1_277_952, None));
        assert_eq!((stream.lost, stream.packets, stream.omitted_packets), (2, 39, None));
        assert_eq!(stream.seconds, 1.000295);
    }

    #[test]
    fn our_own_are_read_back() {
        let stream = StreamResult {
            id: 3,
            bytes: 7,
            retransmits: Some(4),
            omitted_lost: Some(0),
            omitted_packets: Some(2),
            seconds: 1.5,
            ..Default::default()
        };
        let ours = Results {
            congestion_control: Some("cubic".into()),
            streams: vec![
                stream,
                StreamResult { omitted_lost: Some(0), omitted_packets: Some(0), ..Default::default() },
            ],
            ..Default::default()
        };
        assert_eq!(Results::from_json(&ours.to_json()), Ok(ours));
    }

    #[test]
    fn nonsense_is_bounded_or_named() {
        assert!(Results::from_json(&json!({})).expect_err("empty").contains("streams"));
        let many = vec![json!({}); 1000];
        let error = Results::from_json(&json!({"streams": many})).expect_err("many");
        assert!(error.contains("1000 streams"), "{error}");
        let stream = json!({"id": -5, "bytes": -1, "retransmits": -9, "jitter": -1, "errors": 1e300, "packets": 1e300});
        let value = json!({
            "cpu_util_total": -1e300, "cpu_util_user": 1e300, "cpu_util_system": 0, "sender_has_retransmits": 99,
            "streams": [stream]
        });
        let read = Results::from_json(&value).expect("results");
        assert_eq!((read.cpu.total, read.sender_has_retransmits), (0.0, 1));
        assert_eq!(
            (read.streams[0].id, read.streams[0].bytes, read.streams[0].packets),
            (0, 0, MOST_REPORTED as u64)
        );
    }
}
