//! Figures of the product that follow from others: loads, sums, racks, sinks, what a store would do.

use linerate_facts::usage::CoreUse;
use serde::{Deserialize, Serialize};

/// CPUs of one host over a window, its warm-up left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostLoad {
    pub cpus: usize,
    /// Mean share of all CPUs that was busy.
    pub busy: f64,
    /// The CPU that was busiest.
    pub busiest: Option<CoreUse>,
    /// Share of the periods in which a CPU quota held the member back.
    pub throttled: f64,
    /// Share of the CPUs' time that the hypervisor gave to others.
    pub steal: f64,
}

/// What one host takes of ever more senders.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IncastSink {
    pub to: String,
    pub steps: Vec<IncastStep>,
    pub knees: IncastKnees,
}

/// So many senders at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IncastStep {
    pub senders: usize,
    /// Goodput: what arrived, each byte once.
    pub bytes_per_second: f64,
    pub of_predicted: Option<f64>,
    /// How the senders share it; none with one sender.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub single_flows: Option<FlowRange>,
    /// Segments sent again by segments sent.
    pub retransmitted_share: Option<f64>,
    /// Of small requests beside the flows, of the sender that waits longest.
    pub p99_seconds: Option<f64>,
}

/// The fewest senders with which it is worse; none: with none of the numbers that were tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IncastKnees {
    pub goodput: Option<usize>,
    pub loss: Option<usize>,
    pub p99: Option<usize>,
}

/// One rack towards another, in a window in which as many of their hosts sent as the smaller of them has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RackPair {
    pub from: Vec<String>,
    pub to: Vec<String>,
    pub bytes_per_second: f64,
    /// What the same hosts would do over a network that blocks nothing.
    pub hosts_bytes_per_second: Option<f64>,
    /// The latter by the former: 3 for 3 : 1.
    pub oversubscription: Option<f64>,
}

/// One way to keep data, and what it leaves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoreEstimate {
    #[serde(flatten)]
    pub redundancy: Redundancy,
    pub read: Option<StoreRate>,
    pub write: Option<StoreRate>,
    /// The disks were written as well; else what they write is not part of it.
    pub disks_written: bool,
}

/// What the clients together would read or write at best.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoreRate {
    /// How often a byte crosses the network.
    pub traffic_factor: f64,
    pub bytes_per_second: f64,
    pub limit: StoreLimit,
}

/// What limits a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StoreLimit {
    Disks,
    /// What the servers send.
    ServersSend,
    ServersReceive,
    Clients,
}

/// The slowest and the fastest of several flows that ran together.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowRange {
    pub least_bytes_per_second: f64,
    pub most_bytes_per_second: f64,
}

/// What one host sends to all others together, and receives from them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostSums {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send: Option<HostSum>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive: Option<HostSum>,
}

/// One way of a host's flows, the median of its windows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostSum {
    pub bytes_per_second: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted_bytes_per_second: Option<f64>,
    /// Over all windows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub single_flows: Option<FlowRange>,
}

impl HostSum {
    /// Achieved ÷ predicted.
    pub fn of_predicted(&self) -> Option<f64> {
        Some(self.bytes_per_second / self.predicted_bytes_per_second.filter(|rate| *rate > 0.0)?)
    }
}

/// How a store keeps an object: so many data parts, and so many more that may be lost. Copies have one data part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Redundancy {
    pub data: u32,
    pub parity: u32,
}

/// More parts than this are a mistake.
const MOST_PARTS: u32 = 255;

/// Why a text is not a way to keep data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RedundancyError {
    #[error("write a number of copies, such as 3, or an erasure code, such as 4+2")]
    Form,
    #[error("at least one copy, or one data part, and at most {MOST_PARTS} parts in all")]
    Range,
}

impl std::str::FromStr for Redundancy {
    type Err = RedundancyError;

    fn from_str(text: &str) -> Result<Redundancy, RedundancyError> {
        let number = |text: &str| text.parse::<u32>().map_err(|_| RedundancyError::Form);
        let way = match text.split_once('+') {
            Some((data, parity)) => Redundancy { data: number(data)?, parity: number(parity)? },
            None => {
                let copies = number(text)?;
                Redundancy { data: 1, parity: copies.checked_sub(1).ok_or(RedundancyError::Range)? }
            }
        };
        let parts = way.data.checked_add(way.parity).filter(|parts| *parts <= MOST_PARTS);
        match (way.data, parts) {
            (1.., Some(_)) => Ok(way),
            _ => Err(RedundancyError::Range),
        }
    }
}

impl std::fmt::Display for Redundancy {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.data, self.parity) {
            (1, 0) => write!(out, "1 copy"),
            (1, parity) => write!(out, "{} copies", parity.saturating_add(1)),
            (data, parity) => write!(out, "{data}+{parity}"),
        }
    }
}

impl Redundancy {
    /// Servers that it takes.
    pub fn servers(self) -> usize {
        self.data.saturating_add(self.parity) as usize
    }
}
