//! The product of the plan: which workers, which resources bound them, what the parts allow.

use super::worker_count::WorkerCost;
use linerate_facts::fact::Fact;
use linerate_facts::wording::{counted, listed};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::path::PathBuf;

/// Names of a line of the map of workers; more are counted.
const MAP_NAMES: usize = 16;

/// Where a number comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Origin {
    /// The part's data sheet.
    Rated,
    /// The rated figure less protocol overhead.
    Effective,
    /// A measurement.
    Measured,
    /// Not readable; `Resource::why` has the reason.
    Unknown,
}

/// Kind of resource, in the words of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResourceKind {
    /// What is read: a block device, or what a path of another kind names.
    Disk,
    Controller,
    /// RAID, a volume manager or a file system over disks.
    Volume,
    Pcie,
    SocketLink,
    Memory,
    Cpu,
    Nic,
    Receiver,
    /// The other host of a flow that comes in.
    Sender,
    /// A window of TCP, or a socket's buffer.
    Window,
    /// Packets that are lost on the way.
    Loss,
    /// The most that the user lets a flow move.
    Demand,
}

/// A thing with a capacity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resource {
    /// `kind:name`, e.g. `disk:nvme0n1`, `nic:eth0`, `pcie:0000:03:00.0`, `cpu:workers`, `receiver:host`.
    pub id: String,
    /// What it is.
    pub kind: ResourceKind,
    /// Bytes per second; 0 with origin `unknown` (JSON has no infinity).
    pub capacity: f64,
    /// Where the capacity comes from.
    pub origin: Origin,
    /// Share of the capacity that the flow uses, 0 to 1; 0 where unknown.
    pub utilisation: f64,
    /// The measured figure is only a lower bound: something else held the stage.
    pub lower_bound: bool,
    /// Why the capacity is unknown, or what else is worth saying.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Ids of the resources that bytes go to next (towards the sink); empty: the sink.
    pub next: Vec<String>,
    /// Data-sheet figure, bytes per second, where it can be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rated: Option<f64>,
    /// Data-sheet figure less protocol overhead, bytes per second of payload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effective: Option<f64>,
    /// The capacity in the best case of what is not known, where that is more than `capacity`: with it no
    /// measurement on real hardware should pass the ceiling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best: Option<f64>,
    /// Measured, bytes per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<f64>,
    /// Something else is the limit of it, though it has no rate of its own: a link that is a formality, a GPU's memory, a
    /// drive that is taken to be as fast as its link.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub never_binds: bool,
    /// Ends of the capacity's 95 % interval, where it was measured often enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
}

impl Resource {
    /// A resource whose capacity is not known, for this reason.
    pub fn unknown(id: impl Into<String>, kind: ResourceKind, why: impl Into<String>) -> Self {
        Resource {
            id: id.into(),
            kind,
            capacity: 0.0,
            origin: Origin::Unknown,
            utilisation: 0.0,
            lower_bound: false,
            why: Some(why.into()),
            next: Vec::new(),
            rated: None,
            effective: None,
            best: None,
            measured: None,
            never_binds: false,
            interval: None,
        }
    }
}

/// What bounds a flow, and by which resources.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    /// Bytes per second; unknown where no resource on some way has a known capacity.
    pub bytes_per_second: Fact<f64>,
    /// Of a ceiling: what the usual case of what is not known allows. Never more than `bytes_per_second`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub likely_bytes_per_second: Option<f64>,
    /// Ends of the 95 % interval, where all of the cut have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
    /// Ids of the minimum cut.
    pub cut: Vec<String>,
}

impl Bound {
    /// Nothing bounds the flow as far as is known; the reason is a phrase.
    pub fn unknown(why: impl ToString) -> Self {
        let bytes_per_second = Fact::unknown(why);
        Bound { bytes_per_second, likely_bytes_per_second: None, interval: None, cut: Vec::new() }
    }

    /// A ceiling: this bound in the best case, and what is likely.
    pub(super) fn with_likely(self, likely: &Bound) -> Self {
        Bound { likely_bytes_per_second: likely.bytes_per_second.known().copied(), ..self }
    }
}

/// This host's end of a flow: a file (or device) that workers read; of a flow that comes in a directory in which they
/// store, or memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SourcePlan {
    /// The file or block device that is opened; of a flow that comes in the directory, or nothing.
    pub path: PathBuf,
    /// Resource that serves it, `disk:NAME`; `memory`, where what comes in is thrown away.
    pub resource: String,
    /// NUMA node of the device.
    pub node: Fact<u32>,
    /// Bytes to read (whole blocks), before wrapping to the start; what may be written at first.
    pub length_bytes: u64,
    /// Bytes a read, or a write.
    pub block_bytes: u64,
    /// Reads in flight over all workers of this source, or writes of each.
    pub queue_depth: u32,
    /// O_DIRECT works here.
    pub direct: bool,
    /// TCP of this host receives what it reads, and copies it (NVMe/TCP).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub received_by_tcp: bool,
    /// linerate made this file and removes it.
    pub scratch: bool,
    /// How it was written, of a scratch file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writing: Option<Writing>,
}

impl SourcePlan {
    /// A disk serves it; else memory.
    pub fn is_disk(&self) -> bool {
        self.resource.starts_with("disk:")
    }

    /// Memory, in which a flow that comes in ends.
    pub fn memory() -> SourcePlan {
        SourcePlan {
            path: PathBuf::new(),
            resource: "memory".into(),
            node: Fact::unknown("memory of whatever node is best"),
            length_bytes: 0,
            block_bytes: super::DEFAULT_BLOCK_BYTES,
            queue_depth: 0,
            direct: true,
            received_by_tcp: false,
            scratch: false,
            writing: None,
        }
    }
}

/// How a scratch file was written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Writing {
    pub seconds: f64,
    /// Mean of the whole time.
    pub bytes_per_second: f64,
    /// From a first level the rate fell to a lower one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<Burst>,
    /// The disk was read faster than the lower level for longer than the bucket explains: reads are not held by
    /// it.
    pub spares_reads: bool,
}

impl Writing {
    /// What holds reads as well, as far as is known.
    pub fn burst_of_reads(&self) -> Option<&Burst> {
        self.burst.as_ref().filter(|_| !self.spares_reads)
    }
}

/// Two rates and what lies between them (cloud volumes, caches).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Burst {
    pub burst_bytes_per_second: f64,
    pub sustained_bytes_per_second: f64,
    /// Bytes until it settled, and how many of them were more than the sustained rate would have moved: the
    /// bucket.
    pub until_bytes: f64,
    pub bucket_bytes: f64,
    /// How long it lasted; 0, as both before, where nobody saw when it ended.
    pub seconds: f64,
}

/// One way to a peer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathPlan {
    /// Short name for screens (`eth2`, `lo`).
    pub name: String,
    /// The agent's control and data address.
    pub peer: SocketAddr,
    /// Local address that the route takes.
    pub local: IpAddr,
    /// Interface, if the route could be read.
    pub nic: Option<String>,
    /// Resource, `nic:NAME`.
    pub resource: String,
    /// Receiver resource, `receiver:HOST`.
    pub receiver: String,
    /// NUMA node of the NIC.
    pub node: Fact<u32>,
    /// MTU of the local interface.
    pub mtu: Fact<u32>,
    /// MTU of the peer's interface for that address, as its agent reported.
    pub peer_mtu: Fact<u32>,
    /// Payload rate for planning the split, bytes per second (effective).
    pub rate: Fact<f64>,
    /// What a worker over this NIC was measured to cost before; none: a default counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_cost: Option<WorkerCost>,
}

impl PathPlan {
    /// What a socket to the peer is bound to: the local address, and for a link-local one (RFC 4291) the
    /// interface that the peer's names.
    pub fn local_socket(&self) -> SocketAddr {
        match (self.local, self.peer) {
            (IpAddr::V6(local), SocketAddr::V6(peer)) if local.is_unicast_link_local() => {
                SocketAddrV6::new(local, 0, 0, peer.scope_id()).into()
            }
            (local, _) => SocketAddr::new(local, 0),
        }
    }
}

/// One pinned worker's share of the flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerPlan {
    /// Number, from 0.
    pub index: usize,
    /// Index into `Plan::sources`.
    pub source: usize,
    /// Index into `Plan::paths`.
    pub path: usize,
    /// CPU it is pinned to.
    pub core: u32,
    /// NUMA node of that CPU.
    pub node: Fact<u32>,
    /// Bytes a read.
    pub block_bytes: u64,
    /// Reads in flight of this worker.
    pub queue_depth: u32,
    /// Share of the source's bytes that the rates of the NICs suggest, 0 to 1.
    pub share: f64,
}

/// How long each kind of measurement may take, so that all fit the budget whatever the number of devices.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    /// Settling time before the samples of a measurement, seconds.
    pub warm_up_seconds: f64,
    /// One sample of one device or path alone, seconds.
    pub alone_seconds: f64,
    /// One sample of all together, seconds.
    pub together_seconds: f64,
    /// One sample of the whole path, seconds.
    pub path_seconds: f64,
    /// Samples of a measurement that is taken at one go.
    pub repeats: u32,
    /// How often all disks, all NICs and the path take turns, one sample each: fewer than six confirm nothing.
    pub rounds: u32,
    /// Devices and paths measured alone; the rest only together (0: all of them alone).
    pub alone_limit: usize,
}

impl Plan {
    /// Who works where, a line a path: `eth0 (node 0): 2 workers on CPUs 0 and 1, from nvme0n1`.
    pub fn worker_map(&self) -> Vec<String> {
        let line = |(index, path): (usize, &PathPlan)| {
            let own = || self.workers.iter().filter(move |worker| worker.path == index);
            let cpus: BTreeSet<u32> = own().map(|worker| worker.core).collect();
            let sources: BTreeSet<&str> = own()
                .filter_map(|worker| self.sources.get(worker.source))
                .map(|source| source.resource.trim_start_matches("disk:"))
                .collect();
            let cpus: Vec<String> = cpus.iter().map(u32::to_string).collect();
            let cpus: Vec<&str> = cpus.iter().map(String::as_str).collect();
            let several = if cpus.len() > 1 { "CPUs" } else { "CPU" };
            let node = path.node.known().map_or(String::new(), |node| format!(" (node {node})"));
            let sources: Vec<&str> = sources.into_iter().collect();
            (!cpus.is_empty()).then(|| {
                let workers = counted(own().count(), "worker");
                let (cpus, sources) = (listed(&cpus, MAP_NAMES), listed(&sources, MAP_NAMES));
                format!("{}{node}: {workers} on {several} {cpus}, from {sources}", path.name)
            })
        };
        self.paths.iter().enumerate().filter_map(line).collect()
    }

    /// Fewer reads in flight of each worker than was planned, where a trial has shown that they do.
    pub fn keep_reads(&mut self, reads: Option<u32>) {
        let Some(reads) = reads else { return };
        for worker in &mut self.workers {
            worker.queue_depth = worker.queue_depth.min(reads);
        }
        for (index, source) in self.sources.iter_mut().enumerate() {
            let own = self.workers.iter().filter(|worker| worker.source == index);
            source.queue_depth = own.map(|worker| worker.queue_depth).sum::<u32>().max(1);
        }
    }
}

/// Which workers, which measurements, within which time; the ceiling.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// What the rated and effective capacities allow.
    pub ceiling: Bound,
    /// Everything on the way, sources first.
    pub resources: Vec<Resource>,
    /// Files and devices.
    pub sources: Vec<SourcePlan>,
    /// Ways to peers.
    pub paths: Vec<PathPlan>,
    /// One worker per source × path at least.
    pub workers: Vec<WorkerPlan>,
    /// Times.
    pub schedule: Schedule,
    /// Buffer memory of all workers together, bytes.
    pub pool_bytes: u64,
    /// Buffer memory that the plan would have taken without the limits, bytes.
    pub pool_wished_bytes: u64,
    /// The pool can be registered with the kernel (it fits RLIMIT_MEMLOCK).
    pub registered: bool,
    /// True where the receiver is a process of our own on loopback.
    pub loopback: bool,
    /// What the user should know about choices that were made (a smaller pool than wished, and why).
    pub notes: Vec<String>,
}
