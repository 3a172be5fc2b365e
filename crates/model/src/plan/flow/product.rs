//! What a flow is, and what the parts allow it: ceiling, what binds, what binds next, who feeds whom.

use crate::plan::{Bound, Resource};
use linerate_facts::fact::Fact;
use linerate_facts::protocol::Protocol;
use linerate_machine::rates::published::CpuCost;
use serde::{Deserialize, Serialize};

/// Bytes from some ends to others.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// Where bytes start: memory alone, or devices.
    pub from: Vec<FlowEnd>,
    /// Where they go.
    pub to: Vec<FlowEnd>,
    /// Volumes that the bytes of their disks pass, by name.
    pub volumes: Vec<String>,
    /// Over the NICs.
    pub protocol: Protocol,
    /// How the bytes pass memory.
    pub method: Method,
}

/// One end of a flow.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FlowEnd {
    /// The memory of whatever node is best.
    Memory,
    /// A device by its id (`disk:ssd0`).
    Device(String),
}

impl FlowEnd {
    /// A device of a kind: `disk:`.
    pub fn is(&self, kind: &str) -> bool {
        matches!(self, FlowEnd::Device(id) if id.starts_with(kind))
    }
}

/// How the bytes pass memory; how often each crosses the memory bus follows from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Read with O_DIRECT, one copy into the socket: what linerate does.
    #[default]
    Direct,
    /// No copy: the NIC takes the bytes from where the disk put them.
    Zerocopy,
    /// Through the page cache: one copy more.
    Cached,
    /// RDMA: the NIC takes the bytes from where the disk put them, or leaves them where they are wanted, and
    /// packs them itself.
    Rdma,
    /// TLS in software, as kTLS does it: encrypting reads each byte and writes it, and is the only copy.
    Tls,
    /// TLS that the NIC encrypts: no copy.
    TlsOffload,
}

impl Method {
    /// The CPU copies each byte on its way through a NIC, or encrypts it.
    pub(super) fn copies(self) -> bool {
        matches!(self, Method::Direct | Method::Cached | Method::Tls)
    }
}

/// What the parts allow a flow.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowPlan {
    /// The machine's name.
    pub machine: String,
    /// The flow in words: `6 disks to 3 NICs, UDP, direct`.
    pub flow: String,
    /// The largest flow and what bounds it, in the best case of what is not known, with the likely rate beside
    /// it.
    pub ceiling: Bound,
    /// What the usual case allows, and what bounds that: the rest of this product is about it.
    #[serde(skip)]
    pub likely: Bound,
    /// Ends whose rate is unknown and on which the answer depends: nothing is likely then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<MissingRates>,
    /// The CPU cost that was taken, where nobody gave or measured one and a CPU is on the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_cost: Option<CpuCost>,
    /// What bounds it, in a sentence.
    pub sentence: String,
    /// What binds once all of that is lifted.
    pub next: Option<Bound>,
    /// What each change to the cut gains.
    pub gains: Vec<Gain>,
    /// Who feeds whom at that flow, with as little as possible over the links between sockets.
    pub shares: Vec<FlowShare>,
    /// What crosses between nodes, and how to place it better.
    pub placement: Placement,
    /// What linerate needs to send it; none where the flow does not end at NICs, or where the rate or the cost of
    /// a byte is not known.
    pub data_plane: Option<DataPlane>,
    /// Everything on the way, sources first.
    pub resources: Vec<Resource>,
}

/// What has to be known before a rate is likely.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MissingRates {
    /// Ids of disks and NICs.
    pub resources: Vec<String>,
    /// Values of `--set` that would answer it, with rates as an example.
    pub set: Vec<String>,
    /// What the other parts allow; none where they have no limit either.
    pub at_most: Option<Bound>,
}

/// Workers, CPUs and memory of a flow to NICs, at its likely rate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DataPlane {
    /// By NIC.
    pub workers: Vec<NicWorkers>,
    /// CPU seconds a second of all of them.
    pub cpus: f64,
    /// Cores that the machine has.
    pub cores: Fact<f64>,
    /// Its NUMA nodes.
    pub nodes: usize,
    /// Crossings of the memory bus by each byte.
    pub memory_touches: f64,
    /// Reads in flight over all workers, by Little's law (none where memory is the source), and bytes of each.
    pub reads_in_flight: u32,
    pub block_bytes: u64,
    /// Buffers of all workers, bytes.
    pub pool_bytes: u64,
    /// Where the number of workers comes from, of the last NIC.
    pub why: String,
}

/// The workers of a NIC.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NicWorkers {
    /// Id.
    pub nic: String,
    /// NUMA node of the NIC, on whose CPUs they run; none where it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<u32>,
    pub workers: u32,
    /// What they send.
    pub bytes_per_second: f64,
}

/// What lifting one resource gains.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gain {
    /// Id.
    pub resource: String,
    /// Bytes per second more, where it never binds any more and all else stays; none: no other limit is
    /// known.
    pub bytes_per_second: Option<f64>,
}

/// A share of the flow between two ends.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowShare {
    /// Id of the source (`disk:ssd0`, `memory`).
    pub source: String,
    /// Id of the sink.
    pub sink: String,
    /// Node whose memory it passes; none where the machine has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<u32>,
    /// It crosses between nodes.
    pub crosses: bool,
    pub bytes_per_second: f64,
}

/// What crosses between nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Placement {
    /// At least this much of the flow crosses between nodes, bytes per second.
    pub crossing_bytes_per_second: f64,
    /// What to know and what to move, best first.
    pub advice: Vec<String>,
}
