//! What a client asks for, and the JSON that it opens a test with.

use linerate_facts::failure::Failure;
use linerate_facts::protocol::Protocol;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Who sends, seen from the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TestDirection {
    Send,
    Receive,
    /// `parallel` streams each way.
    Both,
}

/// One test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Iperf3Test {
    pub protocol: Protocol,
    pub direction: TestDirection,
    /// Streams each way.
    pub parallel: u32,
    /// Length, without what is omitted. Not looked at where `bytes` is given.
    pub seconds: f64,
    /// Warm-up that no figure counts. The protocol knows whole seconds: it is rounded up.
    pub omit_seconds: f64,
    /// Ends after so many bytes of all streams together.
    pub bytes: Option<u64>,
    /// Bytes a call (TCP) or of a datagram (UDP); none: 256 KiB, or what fits the path.
    pub block_bytes: Option<u32>,
    /// Socket buffers of both ends; none: the kernel's.
    pub window_bytes: Option<u64>,
    /// Of each stream; none and 0: as fast as it goes.
    pub bits_per_second: Option<u64>,
    /// TCP, of both ends; none: each host's own.
    pub congestion_control: Option<String>,
    /// Interface that the sockets are bound to.
    pub device: Option<String>,
    /// Processors for the streams' threads, dealt out in turn; none: the kernel chooses.
    pub cores: Vec<u32>,
    /// How often figures are taken.
    pub interval_seconds: f64,
}

impl Default for Iperf3Test {
    fn default() -> Self {
        Iperf3Test {
            protocol: Protocol::Tcp,
            direction: TestDirection::Send,
            parallel: 1,
            seconds: 10.0,
            omit_seconds: 0.0,
            bytes: None,
            block_bytes: None,
            window_bytes: None,
            bits_per_second: None,
            congestion_control: None,
            device: None,
            cores: Vec::new(),
            interval_seconds: 1.0,
        }
    }
}

impl Iperf3Test {
    /// What iperf3 would refuse, said before anything is opened.
    pub fn check(&self) -> Result<(), Failure> {
        let wrong = |text: String| Err(Failure::Usage(text));
        if !(1..=MOST_STREAMS).contains(&self.parallel) {
            return wrong(format!("iperf3 runs 1 to {MOST_STREAMS} streams each way, not {}", self.parallel));
        }
        if self.bytes.is_none() && !(self.seconds > 0.0 && self.seconds <= 86_400.0) {
            return wrong(format!("an iperf3 test lasts up to 86400 s, not {}", self.seconds));
        }
        if self.bytes == Some(0) {
            return wrong("an iperf3 test of 0 bytes measures nothing".into());
        }
        if !(0.0..=600.0).contains(&self.omit_seconds) {
            return wrong(format!("iperf3 omits up to 600 s, not {}", self.omit_seconds));
        }
        let least = if self.protocol == Protocol::Udp { 16 } else { 1 };
        let most = if self.protocol == Protocol::Udp { 65_507 } else { 1 << 20 };
        match self.block_bytes {
            Some(bytes) if !(least..=most).contains(&bytes) => wrong(format!(
                "iperf3 takes {least} to {most} bytes a call over {}, not {bytes}",
                self.protocol
            )),
            _ => Ok(()),
        }
    }

    pub(super) fn sends(&self) -> bool {
        self.direction != TestDirection::Receive
    }

    pub(super) fn receives(&self) -> bool {
        self.direction != TestDirection::Send
    }
}

/// iperf3's own bounds (`iperf.h`, `MAX_*`): what lies beyond them is refused, with its number of the error.
const MOST_BLOCK_BYTES: f64 = 1_048_576.0;
const MOST_DATAGRAM_BYTES: f64 = 65_507.0;
const LEAST_DATAGRAM_BYTES: f64 = 16.0;
const MOST_WINDOW_BYTES: f64 = 512.0 * 1_048_576.0;
pub(crate) const MOST_STREAMS: u32 = 128;
const MOST_SEGMENT_BYTES: f64 = 9216.0;
const MOST_OMIT_SECONDS: f64 = 600.0;

/// iperf3's numbers of errors (`iperf_api.h`).
pub(crate) mod number {
    pub(crate) const DURATION: i32 = 5;
    pub(crate) const STREAMS: i32 = 6;
    pub(crate) const BLOCK_SIZE: i32 = 7;
    pub(crate) const BUFFER_SIZE: i32 = 8;
    pub(crate) const SEGMENT_SIZE: i32 = 10;
    pub(crate) const OMIT: i32 = 12;
    pub(crate) const UNIMPLEMENTED: i32 = 13;
    pub(crate) const DATAGRAM_SIZE: i32 = 20;
    pub(crate) const REVERSE_AND_BIDIRECTIONAL: i32 = 25;
    pub(crate) const TOTAL_RATE: i32 = 27;
    pub(crate) const RECEIVE_PARAMETERS: i32 = 114;
    pub(crate) const RECEIVE_RESULTS: i32 = 117;
    pub(crate) const IDLE: i32 = 144;
    pub(crate) const STREAM_LISTEN: i32 = 202;
    pub(crate) const STREAM_ACCEPT: i32 = 204;
}

/// What a server does for a client. The names are those of `Test`, the units SI.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Parameters {
    pub protocol: Protocol,
    pub direction: TestDirection,
    pub parallel: u32,
    /// 0: no end by time.
    pub seconds: f64,
    pub omit_seconds: f64,
    /// 0: no end by bytes.
    pub bytes: u64,
    /// Blocks after which the client ends; the server only needs to know that it will.
    pub blocks: u64,
    pub block_bytes: Option<u32>,
    pub window_bytes: Option<u64>,
    /// Of each stream; 0: unpaced.
    pub bits_per_second: u64,
    pub segment_bytes: Option<u32>,
    pub no_delay: bool,
    pub type_of_service: u32,
    pub congestion_control: Option<String>,
    pub wide_counters: bool,
    pub client_version: Option<String>,
}

/// Why parameters are refused: iperf3's number of the error, and the same in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Iperf3Refusal {
    pub number: i32,
    pub why: String,
}

fn refuse<T>(number: i32, why: impl Into<String>) -> Result<T, Iperf3Refusal> {
    Err(Iperf3Refusal { number, why: why.into() })
}

impl Parameters {
    /// Of a client of our own.
    pub(crate) fn of(test: &Iperf3Test) -> Parameters {
        Parameters {
            protocol: test.protocol,
            direction: test.direction,
            parallel: test.parallel,
            seconds: if test.bytes.is_some() { 0.0 } else { test.seconds },
            omit_seconds: test.omit_seconds,
            bytes: test.bytes.unwrap_or(0),
            blocks: 0,
            block_bytes: test.block_bytes,
            window_bytes: test.window_bytes,
            bits_per_second: test.bits_per_second.unwrap_or(0),
            segment_bytes: None,
            no_delay: false,
            type_of_service: 0,
            congestion_control: test.congestion_control.clone(),
            wide_counters: true,
            client_version: Some(format!("linerate {}", env!("CARGO_PKG_VERSION"))),
        }
    }

    /// As iperf3 writes them: whole seconds, keys of what is not asked for left out.
    pub(crate) fn to_json(&self) -> Value {
        let mut keys = Map::new();
        let mut put = |key: &str, value: Value| drop(keys.insert(key.into(), value));
        put(if self.protocol == Protocol::Tcp { "tcp" } else { "udp" }, json!(true));
        put("omit", json!(self.omit_seconds.ceil() as u64));
        put("time", json!(self.seconds.ceil() as u64));
        put("num", json!(self.bytes));
        put("blockcount", json!(self.blocks));
        put("parallel", json!(self.parallel));
        match self.direction {
            TestDirection::Send => {}
            TestDirection::Receive => put("reverse", json!(true)),
            TestDirection::Both => put("bidirectional", json!(true)),
        }
        if let Some(bytes) = self.window_bytes {
            put("window", json!(bytes));
        }
        if let Some(bytes) = self.block_bytes {
            put("len", json!(bytes));
        }
        if self.bits_per_second > 0 {
            put("bandwidth", json!(self.bits_per_second));
        }
        put("pacing_timer", json!(1000));
        if let Some(name) = &self.congestion_control {
            put("congestion", json!(name));
        }
        if self.protocol == Protocol::Udp && self.wide_counters {
            put("udp_counters_64bit", json!(1));
        }
        if let Some(version) = &self.client_version {
            put("client_version", json!(version));
        }
        Value::Object(keys)
    }

    /// What a client asks for, where it can be had. Keys that are not known are passed over, as iperf3 does.
    pub(crate) fn from_json(value: &Value) -> Result<Parameters, Iperf3Refusal> {
        let Value::Object(keys) = value else {
            return refuse(number::RECEIVE_PARAMETERS, "the parameters are not a JSON object");
        };
        let protocol = match (keys.contains_key("tcp"), keys.contains_key("udp"), keys.contains_key("sctp")) {
            (_, true, false) => Protocol::Udp,
            (_, false, false) => Protocol::Tcp,
            _ => return refuse(number::UNIMPLEMENTED, "SCTP is not spoken here: use TCP or UDP"),
        };
        let direction = match (keys.contains_key("reverse"), keys.contains_key("bidirectional")) {
            (true, true) => {
                return refuse(number::REVERSE_AND_BIDIRECTIONAL, "reverse and bidirectional at once");
            }
            (true, false) => TestDirection::Receive,
            (false, true) => TestDirection::Both,
            (false, false) => TestDirection::Send,
        };
        let within = |key: &str, least: f64, most: f64, error: i32| match number_of(value, key) {
            Some(number) if number >= least && number <= most => Ok(Some(number)),
            Some(number) => refuse(error, format!("{key} {number} is not within {least} and {most}")),
            None => Ok(None),
        };
        let or_none = |number: Option<f64>| number.filter(|number| *number >= 1.0);
        let block = match protocol {
            // 0 leaves the size to the server.
            Protocol::Tcp => within("len", 0.0, MOST_BLOCK_BYTES, number::BLOCK_SIZE)?,
            Protocol::Udp => within("len", LEAST_DATAGRAM_BYTES, MOST_DATAGRAM_BYTES, number::DATAGRAM_SIZE)?,
        };
        let huge = 1e18;
        Ok(Parameters {
            protocol,
            direction,
            parallel: within("parallel", 1.0, MOST_STREAMS.into(), number::STREAMS)?.unwrap_or(1.0) as u32,
            seconds: within("time", 0.0, huge, number::DURATION)?.unwrap_or(0.0),
            omit_seconds: within("omit", 0.0, MOST_OMIT_SECONDS, number::OMIT)?.unwrap_or(0.0),
            bytes: within("num", 0.0, huge, number::RECEIVE_PARAMETERS)?.unwrap_or(0.0) as u64,
            blocks: within("blockcount", 0.0, huge, number::RECEIVE_PARAMETERS)?.unwrap_or(0.0) as u64,
            block_bytes: or_none(block).map(|bytes| bytes as u32),
            window_bytes: or_none(within("window", 0.0, MOST_WINDOW_BYTES, number::BUFFER_SIZE)?)
                .map(|bytes| bytes as u64),
            bits_per_second: within("bandwidth", 0.0, huge, number::TOTAL_RATE)?.unwrap_or(0.0) as u64,
            segment_bytes: or_none(within("MSS", 0.0, MOST_SEGMENT_BYTES, number::SEGMENT_SIZE)?)
                .map(|bytes| bytes as u32),
            no_delay: keys.contains_key("nodelay"),
            type_of_service: within("TOS", 0.0, 255.0, number::RECEIVE_PARAMETERS)?.unwrap_or(0.0) as u32,
            congestion_control: text_of(value, "congestion", 15),
            wide_counters: keys.contains_key("udp_counters_64bit"),
            client_version: text_of(value, "client_version", 64),
        })
    }
}

/// A number, however it is written: iperf3 writes 2⁶⁴ − 1 as 1.8446744073709552e+19, and truths as 1.
pub(crate) fn number_of(value: &Value, key: &str) -> Option<f64> {
    match value.get(key)? {
        Value::Number(number) => number.as_f64().filter(|number| number.is_finite()),
        Value::Bool(truth) => Some(f64::from(u8::from(*truth))),
        _ => None,
    }
}

/// A short text of plain characters; none where it is longer or holds anything else (it goes to the screen
/// and to the kernel).
pub(crate) fn text_of(value: &Value, key: &str, most: usize) -> Option<String> {
    let text = value.get(key)?.as_str()?;
    let plain = text.len() <= most && text.chars().all(|c| c.is_ascii_graphic() || c == ' ');
    (plain && !text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_debians_client_sends() {
        let sent = json!({
            "udp": true, "omit": 0, "time": 1, "num": 0, "blockcount": 0, "parallel": 2, "bidirectional": true,
            "len": 32768, "bandwidth": 10_000_000, "pacing_timer": 1000, "congestion": "cubic", "client_version": "3.12"
        });
        let read = Parameters::from_json(&sent).expect("parameters");
        assert_eq!((read.protocol, read.direction, read.parallel), (Protocol::Udp, TestDirection::Both, 2));
        assert_eq!((read.block_bytes, read.bits_per_second, read.seconds), (Some(32768), 10_000_000, 1.0));
        assert_eq!(read.congestion_control.as_deref(), Some("cubic"));
        assert!(!read.wide_counters);
    }

    #[test]
    fn our_own_are_read_back() {
        for direction in [TestDirection::Send, TestDirection::Receive, TestDirection::Both] {
            for protocol in [Protocol::Tcp, Protocol::Udp] {
                let ours = Parameters {
                    window_bytes: Some(1 << 20),
                    wide_counters: protocol == Protocol::Udp,
                    ..Parameters::of(&Iperf3Test {
                        protocol,
                        direction,
                        block_bytes: Some(1448),
                        bits_per_second: Some(1_000_000),
                        ..Iperf3Test::default()
                    })
                };
                assert_eq!(Parameters::from_json(&ours.to_json()), Ok(ours));
            }
        }
    }

    #[test]
    fn beyond_the_bounds_is_refused_by_iperf3s_numbers() {
        for (sent, expected) in [
            (json!({"tcp": true, "parallel": 129}), number::STREAMS),
            (json!({"tcp": true, "parallel": -1}), number::STREAMS),
            (json!({"tcp": true, "len": 1e9}), number::BLOCK_SIZE),
            (json!({"udp": true, "len": 8}), number::DATAGRAM_SIZE),
            (json!({"udp": true, "len": 70_000}), number::DATAGRAM_SIZE),
            (json!({"tcp": true, "window": 1e12}), number::BUFFER_SIZE),
            (json!({"tcp": true, "omit": -3}), number::OMIT),
            (json!({"sctp": true}), number::UNIMPLEMENTED),
            (json!({"tcp": true, "reverse": 1, "bidirectional": 1}), number::REVERSE_AND_BIDIRECTIONAL),
            (json!([]), number::RECEIVE_PARAMETERS),
        ] {
            assert_eq!(Parameters::from_json(&sent).expect_err("refused").number, expected, "{sent}");
        }
    }

    proptest! {
        #[test]
        fn numbers_stay_within_bounds(parallel: i64, len: f64, bandwidth: f64, time: f64) {
            let sent = json!({"tcp": 1, "parallel": parallel, "len": len, "bandwidth": bandwidth, "time": time});
            if let Ok(read) = Parameters::from_json(&sent) {
                prop_assert!((1..=MOST_STREAMS).contains(&read.parallel));
                prop_assert!(read.block_bytes.is_none_or(|bytes| (1..=1 << 20).contains(&bytes)));
                prop_assert!(read.seconds >= 0.0);
            }
        }
    }
}
