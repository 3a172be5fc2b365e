//! What a client asks for.

use super::parameters::MOST_STREAMS;
use linerate_facts::failure::Failure;
use linerate_facts::protocol::Protocol;
use serde::{Deserialize, Serialize};

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
