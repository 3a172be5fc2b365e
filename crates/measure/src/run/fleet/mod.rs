//! What is special to the run of a fleet (`linerate fleet`): its members, the rates between them, and what follows.
//! In run.json its fields are beside those of every run.

mod figures;

pub use figures::{
    FlowRange, HostLoad, HostSum, HostSums, IncastKnees, IncastSink, IncastStep, RackPair, Redundancy,
    RedundancyError, StoreEstimate, StoreLimit, StoreRate,
};
use linerate_machine::probe::{Machine, Nic};
use linerate_model::alike::median;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// How the members are measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum FleetPattern {
    /// Every pair alone on its two hosts, each direction: a round-robin tournament.
    #[default]
    Pairs,
    /// Everybody to everybody at once, three times.
    AllToAll,
    /// 1, 2, 4 … all others to one, each member in turn.
    Incast,
    /// Halves by lot against each other, both ways in turn.
    Bisection,
    /// Servers send what they read from their disks: each server's disks alone, then all servers to 1, 2, 4 … all
    /// clients.
    Storage,
    /// Every host's own disks: each alone, then 2, 4 … all hosts at once.
    Disk,
}

/// What halves are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FleetGrouping {
    /// Racks as they are declared, each against each other.
    Rack,
}

impl FleetPattern {
    /// As it is written on the command line and in the product.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// What a fleet measured, and what follows from it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FleetResult {
    pub pattern: FleetPattern,
    /// Length of one window, seconds, after its warm-up.
    pub seconds: f64,
    /// TCP streams of one flow.
    pub streams: u32,
    /// The network between the members as it was declared; empty: it blocks nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fabric: Vec<FleetRack>,
    /// What a bisection went along; none: halves by lot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<FleetGrouping>,
    /// Members whose disks were read (`fleet storage`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<String>,
    /// What would be left if the servers kept what they hold in these ways; nothing is measured for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub redundancy: Vec<StoreEstimate>,
    /// Of all flows of a window together, where it was bounded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_limit_bytes_per_second: Option<f64>,
    pub members: Vec<FleetMember>,
    /// Hosts that were named and never came, with the reason.
    pub absent: Vec<AbsentHost>,
    /// How the members differ, before any figure.
    pub differences: Vec<String>,
    pub windows: Vec<FleetWindow>,
    pub cells: Vec<FleetCell>,
    /// What each source of each member did (`fleet disk`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<FleetDisk>,
    /// CPUs of each member in each window in which it sent or received.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<FleetHost>,
    pub verdict: FleetVerdict,
    /// What failed along the way; the rest was measured. In run.json they are those of the run.
    #[serde(skip)]
    pub errors: Vec<String>,
}

/// One host, or one rank of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FleetMember {
    pub name: String,
    /// Where it takes data.
    pub address: String,
    pub version: String,
    pub rank: Option<u32>,
    /// Its monotonic clock less the coordinator's, seconds, and by how much that may be wrong.
    pub clock_offset_seconds: f64,
    pub clock_error_seconds: f64,
    /// Its time of day less the coordinator's, seconds.
    pub time_of_day_offset_seconds: f64,
    pub machine: Option<Box<Machine>>,
    /// When and why it was lost.
    pub lost: Option<String>,
}

/// Hosts behind one uplink.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FleetRack {
    pub hosts: Vec<String>,
    /// Of the link, each way; none: not known, and then it limits nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uplink_bytes_per_second: Option<f64>,
}

/// A host that never came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AbsentHost {
    pub name: String,
    pub why: String,
}

/// Flows that ran together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FleetWindow {
    pub flows: usize,
    /// Sum of its flows, as their receivers counted; of disks all bytes until the last worker was done.
    pub bytes_per_second: f64,
    /// The same as it follows from what each member did alone; none: not predicted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted_bytes_per_second: Option<f64>,
    /// Of its single flows, where there are several: those that share a link part it unevenly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub single_flows: Option<FlowRange>,
    /// Between the first and the last member's begin.
    pub start_skew_seconds: f64,
    /// It only measured what each member can do.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub alone: bool,
    /// Hosts whose disks it read or wrote.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub hosts: usize,
    /// Which of the two; none: it had flows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disks: Option<DiskDirection>,
    /// Sum of what each source did until its own first worker was done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_done_bytes_per_second: Option<f64>,
    /// Sum of the rates of all sources by the sum of what each of them did alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scalability: Option<f64>,
    /// What limits its flows by the prediction, that of most of them first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<FleetLimit>,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// What limits flows by the prediction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetLimit {
    pub kind: FlowLimitKind,
    /// Whose; of an uplink those of its rack.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
}

/// Of what a flow passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlowLimitKind {
    /// What a host sends.
    Send,
    Receive,
    /// What a host's disks read.
    Disks,
    /// A rack's.
    Uplink,
    /// `--rate-limit`.
    RateLimit,
}

/// The CPUs of one member in one window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FleetHost {
    pub member: String,
    pub window: usize,
    #[serde(flatten)]
    pub load: HostLoad,
}

/// Whether disks were read or written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskDirection {
    #[default]
    Read,
    Write,
}

/// One source of one member in one window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FleetDisk {
    pub member: String,
    /// As it was named.
    pub source: String,
    /// The disks behind it, by kernel name.
    pub disks: Vec<String>,
    pub window: usize,
    pub direction: DiskDirection,
    pub bytes: u64,
    /// Until its last worker was done; none: it failed.
    pub bytes_per_second: Option<f64>,
    /// Until its first worker was done.
    pub first_done_bytes_per_second: Option<f64>,
    pub p99_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// One flow in one window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FleetCell {
    pub from: String,
    pub to: String,
    /// Number of its window.
    pub window: usize,
    /// Where flows share a link, its fair share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted_bytes_per_second: Option<f64>,
    /// What the declared fabric leaves of what it would get over one that blocks nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fabric_share: Option<f64>,
    #[serde(flatten)]
    pub figures: FlowFigures,
}

/// What a flow carried.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowFigures {
    /// As its receiver counted; none: it failed.
    pub bytes_per_second: Option<f64>,
    /// Of each second.
    pub samples: Vec<f64>,
    pub retransmits: u64,
    pub rtt_micros: Option<u32>,
    /// Segments sent again by segments sent, its warm-up left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retransmitted_share: Option<f64>,
    /// Of the round trips of small requests beside it, where there were some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// Which way a member is slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FleetDirection {
    Send,
    Receive,
    /// From or to its disks.
    Read,
    Write,
}

/// What the matrix says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FleetVerdict {
    pub sentence: String,
    /// What makes the figures doubtful.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
    /// Members that differ from the others, the slowest first.
    pub members: Vec<SlowMember>,
    /// Pairs, and links between groups, that differ though their hosts do not.
    pub links: Vec<SlowLink>,
    /// What each host sends and receives together (`fleet all-to-all`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sums: Vec<HostSums>,
    /// What each host takes of ever more senders (`fleet incast`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub incast: Vec<IncastSink>,
    /// What racks carry between each other (`fleet bisection --fabric`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub racks: Vec<RackPair>,
}

/// One direction of one member.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlowMember {
    pub name: String,
    pub direction: FleetDirection,
    /// Of the rate that the others have.
    pub ratio: f64,
    /// Pairs (of disks: sources) that show it, of those that were measured.
    pub pairs: usize,
    pub pairs_measured: usize,
    /// It is slow the other way as well, while it is not alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_way: Option<OtherWay>,
    /// The slow sources, with the disks behind them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
    /// What sets its machine and its CPUs apart from the others'.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<String>,
}

/// The other direction of a slow member, by the rate that the others have.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct OtherWay {
    pub ratio: f64,
    /// While few flows run.
    pub alone_ratio: f64,
}

/// A way between hosts that are each as fast as the others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlowLink {
    pub from: Vec<String>,
    pub to: Vec<String>,
    /// Of what the same hosts do elsewhere.
    pub ratio: f64,
    pub pairs: usize,
    pub pairs_measured: usize,
    /// The most that all its flows carried together in one window.
    pub bytes_per_second: f64,
}

impl FleetResult {
    /// Something is missing from it.
    pub fn is_partial(&self) -> bool {
        !self.errors.is_empty()
            || !self.absent.is_empty()
            || self.members.iter().any(|member| member.lost.is_some())
    }

    /// Rate from one member to another, the median of its windows; none where it was not measured.
    pub fn rate(&self, from: &str, to: &str) -> Option<f64> {
        median(self.flow_cells(from, to).filter_map(|cell| cell.figures.bytes_per_second))
    }

    /// Rates of a flow in each second of its windows.
    pub fn samples(&self, from: &str, to: &str) -> Vec<f64> {
        self.flow_cells(from, to).flat_map(|cell| cell.figures.samples.iter().copied()).collect()
    }

    /// Rate of a source of a member, the median of its windows.
    pub fn disk_rate(&self, member: &str, source: &str, direction: DiskDirection) -> Option<f64> {
        let of = self
            .disks
            .iter()
            .filter(|disk| disk.member == member && disk.source == source && disk.direction == direction);
        median(of.filter_map(|disk| disk.bytes_per_second))
    }

    /// Rate of a flow by what was predicted for it; none where one of the two is absent.
    pub fn of_predicted(&self, from: &str, to: &str) -> Option<f64> {
        median(self.flow_cells(from, to).filter_map(FleetCell::of_predicted))
    }

    /// Those of one pair. Where ever more hosts take part, its rate follows from how many: those of most flows.
    fn flow_cells(&self, from: &str, to: &str) -> impl Iterator<Item = &FleetCell> {
        let flows = |cell: &FleetCell| self.windows.get(cell.window).map_or(0, |window| window.flows);
        let cells: Vec<&FleetCell> =
            self.measured_cells().filter(|cell| cell.from == from && cell.to == to).collect();
        let grows = matches!(self.pattern, FleetPattern::Incast | FleetPattern::Storage);
        let least = cells.iter().map(|cell| flows(cell)).max().filter(|_| grows).unwrap_or(0);
        cells.into_iter().filter(move |cell| flows(cell) >= least)
    }

    /// Cells of the pattern itself: not those that only say what each member can do.
    pub fn measured_cells(&self) -> impl Iterator<Item = &FleetCell> {
        self.cells.iter().filter(|cell| !self.windows.get(cell.window).is_some_and(|window| window.alone))
    }
}

impl FleetMember {
    /// The NIC by which it takes data.
    pub fn nic(&self) -> Option<&Nic> {
        let ip = self.address.parse::<SocketAddr>().ok()?.ip();
        let nics = &self.machine.as_ref()?.nics;
        nics.iter().find(|nic| nic.addresses.iter().any(|(own, _)| *own == ip))
    }
}

impl FleetCell {
    /// Achieved ÷ predicted.
    pub fn of_predicted(&self) -> Option<f64> {
        let predicted = self.predicted_bytes_per_second.filter(|predicted| *predicted > 0.0)?;
        Some(self.figures.bytes_per_second? / predicted)
    }
}
