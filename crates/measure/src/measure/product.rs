//! The product of measuring: every figure with its samples, its CPU cost, its method and the reasons to
//! distrust it.

use super::access::{AccessResult, Burst, MemoryPoint};
use super::others::OthersUse;
use super::rdma::RdmaFigure;
use super::read_again::ReadAgain;
use super::streams::{MethodTrial, StreamsResult};
use linerate_facts::host::HostUse;
pub use linerate_facts::host::{DeviceUse, LinkUse};
use linerate_facts::protocol::Protocol;
pub use linerate_facts::usage::CoreUse;
use linerate_model::shares::ShareRecord;
use linerate_model::verdict::ArrivalCount;
use serde::{Deserialize, Serialize};

/// All figures of a run, in the order they were taken.
pub type Measurements = Vec<Measurement>;

/// Stage of the path.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, strum::Display,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Stage {
    #[default]
    Memory,
    Disk,
    Load,
    Network,
    Path,
    /// Files that were fetched (`linerate get`).
    Get,
    /// Files that were put (`linerate put`).
    Put,
    /// Many hosts (`linerate fleet`); its measurements are of `Network` and `Disk`.
    Fleet,
    /// A program that is not linerate's, while something was taken of what it uses (`linerate explain --experiment`).
    Explain,
}

/// One figure: a stage, alone or together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Which stage.
    pub stage: Stage,
    /// Name within the stage: `read all cores`, `loop0 alone`, `all disks`, `eth0 tcp alone`, `tcp`.
    pub name: String,
    /// The resource that was measured (`disk:loop0`), or `all` where several were at once.
    pub resource: String,
    /// Several resources at once.
    pub together: bool,
    /// Median of the samples, bytes per second of payload that arrived.
    pub bytes_per_second: f64,
    /// Each repeat, bytes per second.
    pub samples: Vec<f64>,
    /// Where the median lies with 95 % certainty, lowest and highest; none for fewer than three samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
    /// (max − min) ÷ median of the samples.
    pub spread: f64,
    /// CPU seconds of this process per 10⁹ bytes.
    pub cpu_seconds_per_gb: f64,
    /// CPU seconds of the whole host per 10⁹ bytes, interrupts and kernel threads with them, less those of other
    /// programs; 0 where it is not known.
    pub busy_seconds_per_gb: f64,
    /// Who used the host's CPUs.
    pub cpu_share: CpuShare,
    /// Other programs meanwhile; none: nobody looked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub others: Option<OthersUse>,
    /// What the CPU quota of this process's control group did; none: there is no quota.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota: Option<QuotaUse>,
    /// The block devices behind the sources, by `/proc/diskstats`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceUse>,
    /// The interfaces that the flow used, in its direction (get and put).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkUse>,
    /// Volumes among them, with the disks below.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<VolumeUse>,
    /// CPU use by core in the eight classes of `/proc/stat`, shares of the measured time.
    pub cpu_by_core: Vec<CoreUse>,
    /// How the bytes were moved (`io_uring READ_FIXED, O_DIRECT, 1 MiB x 8`).
    pub method: String,
    /// Why the figure is not to be trusted, or what to know: `core-saturated`, `others`, `steal`,
    /// `page-cache`, `spread`, `short-file`, `read-again`, …
    pub flags: Vec<String>,
    /// Something other than the measured resource held the stage: then the figure is a lower bound.
    pub lower_bound: bool,
    /// What held it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_by: Option<LimitedBy>,
    /// Transport, for network and path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
    /// A file stands behind (network stage).
    pub with_file: bool,
    /// Measured time, seconds, without the warm-up.
    pub seconds: f64,
    /// Each worker's share.
    pub workers: Vec<WorkerResult>,
    /// What the receiver told (network and path).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receiver: Option<ReceiverResult>,
    /// Its bytes came in: workers here took them, and threw them away or stored them. Of the disk stage: the disks were
    /// written.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub incoming: bool,
    /// What the host that sent reported, of a flow that came in (network and path).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender: Option<ReceiverResult>,
    /// The rate limit that the server said it has, bytes per second for all its clients (get).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender_rate_limit: Option<f64>,
    /// What came at the beginning with one stream, and then with more (get).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stream_windows: Vec<ArrivalCount>,
    /// The longest fsync that ended what was stored here, seconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub sync_seconds: f64,
    /// What the sink of the other host did, where it stored (path, disk).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sink: Option<SinkResult>,
    /// Bytes that were sent and did not arrive, share of what was sent (UDP).
    pub loss: f64,
    /// Disks that were read fast at first and slower from then on (disk stage of a run): `bytes_per_second` is the
    /// rate that lasts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<Burst>,
    /// File access in detail (`linerate disk`, `linerate load`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access: Option<Box<AccessResult>>,
    /// Which memory access this is (`linerate memory`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryPoint>,
    /// Congestion controls beside the system's, tried before it on the same path (network, TCP).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub congestion_controls: Vec<MethodTrial>,
    /// What could not be read meanwhile: ids of disks without counters, `cpu`, `tcp-window` (disk and path), `interface: `
    /// and why it is not known by which interface a transfer went (get and put).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_seen: Vec<String>,
    /// What was read again of each source (disk stage).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read_again: Vec<ReadAgain>,
    /// What was taken while it flowed, and what it lost (path, first protocol).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experiment: Option<Box<ShareRecord>>,
    /// Why nothing was taken while it flowed, or why what was taken is not kept (path, first protocol).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_experiment: Option<String>,
    /// Reads in flight that were tried on this path (path, first protocol).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reads_in_flight: Vec<ReadsTrial>,
    /// Numbers of streams that were tried on this way (path, TCP; `linerate network`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stream_trials: Vec<StreamTrial>,
    /// Ways of sending that were tried on this path (path, TCP first).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub methods: Vec<MethodTrial>,
    /// What came of sends without a copy (network and path over TCP, where they were asked for).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zero_copy: Option<ZeroCopyUse>,
    /// Streams in detail (`linerate network`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streams: Option<Box<StreamsResult>>,
    /// What moved by RDMA, and between which devices (`linerate network --protocol rdma`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rdma: Option<Box<RdmaFigure>>,
}

impl Measurement {
    /// What several sources together reached of the sum of each alone; none: that was not measured.
    pub fn of_baseline(&self) -> Option<f64> {
        let baseline = self.access.as_ref()?.baseline_bytes_per_second.filter(|baseline| *baseline > 0.0)?;
        Some(self.bytes_per_second / baseline).filter(|share| share.is_finite())
    }

    /// TCP that moved bytes, of which the kernel reports no time with data to send (before Linux 4.10).
    pub(crate) fn is_without_tcp_limits(&self) -> bool {
        let moved = |worker: &WorkerResult| worker.bytes_per_second > 0.0 && worker.segment_bytes > 0;
        let tcp = self.protocol == Some(Protocol::Tcp) && self.workers.iter().any(moved);
        tcp && self.workers.iter().all(|worker| worker.sending_seconds <= 0.0)
    }
}

/// Words of `not_seen`, beside the ids of disks; the first is before why an interface is not known.
pub const INTERFACE_NOT_SEEN: &str = "interface: ";
pub(crate) const NO_CPU_USE: &str = "cpu";
pub(crate) const NO_TCP_TIMES: &str = "tcp-window";

/// A volume that was read, and what the disks below it did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VolumeUse {
    pub name: String,
    pub members: Vec<DeviceUse>,
}

/// A short trial of the path with so many reads in flight.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReadsTrial {
    /// Reads in flight of each worker.
    pub queue_depth: u32,
    pub bytes_per_second: f64,
    /// Each time it was tried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<f64>,
}

/// A short trial of so many streams over a way that loses packets by chance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamTrial {
    /// Of each NIC.
    pub streams: u32,
    /// The most that the kernel lets each send (SO_MAX_PACING_RATE), bytes per second; none: as fast as it goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pacing_bytes_per_second: Option<f64>,
    /// Of all streams.
    pub bytes_per_second: f64,
    /// Losses ÷ segments that were acknowledged: those of one round trip once, from each stream's first on.
    pub loss_share: f64,
    /// Taken for the figures.
    pub chosen: bool,
}

/// Sends without a copy, of all workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ZeroCopyUse {
    /// Blocks of which the kernel has told what came of them.
    pub sends: u64,
    /// Of these it copied all the same.
    pub copied: u64,
    /// A worker was refused them, and went on with copies.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refused: bool,
    /// Completions that belonged to no request under way (a notification that came twice), and were dropped.
    #[serde(default, skip_serializing_if = "is_no_count")]
    pub unexpected: u64,
}

impl ZeroCopyUse {
    /// Share of the bytes that were copied, 0 to 1.
    pub fn copied_share(&self) -> f64 {
        if self.refused || self.sends == 0 { 1.0 } else { self.copied as f64 / self.sends as f64 }
    }

    pub(crate) fn join(&mut self, later: ZeroCopyUse) {
        self.sends = self.sends.saturating_add(later.sends);
        self.copied = self.copied.saturating_add(later.copied);
        self.refused |= later.refused;
        self.unexpected = self.unexpected.saturating_add(later.unexpected);
    }
}

/// A CPU quota while something was measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuotaUse {
    pub cores: f64,
    /// Share of its periods in which the control group was throttled.
    pub throttled: f64,
    /// Share of it that this process used.
    pub used: f64,
}

impl QuotaUse {
    /// None where there is no quota.
    pub fn of(host: &HostUse) -> Option<Self> {
        let used = host.cpu_seconds / host.seconds.max(1e-9) / host.quota_cores;
        let (cores, throttled) = (host.quota_cores, host.throttled);
        (cores > 0.0).then_some(QuotaUse { cores, throttled, used })
    }
}

/// Who used the CPUs of the host: shares of all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuShare {
    /// This process.
    pub linerate: f64,
    /// Interrupts and kernel threads, and linerate's agent where it runs on this host.
    pub kernel: f64,
    /// Other programs.
    pub others: f64,
}

/// What held a stage that is not the resource it measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LimitedBy {
    /// A core of our own was saturated.
    Cpu,
    /// The control group's CPU quota throttled us.
    Quota,
    /// Other programs had the CPUs that the stage needs.
    Others,
    /// Our own generator could not offer more.
    Generator,
    /// The other host's receiver.
    Peer,
    /// The other host, which sends.
    Sender,
    /// TCP's window: the receiver's, or our own send buffer.
    Window,
    /// Packets that were lost on the way.
    Loss,
    /// The flow asked for no more (`--rate-limit`).
    Demand,
}

impl LimitedBy {
    /// `limited by the CPU quota`.
    pub fn words(self) -> &'static str {
        match self {
            LimitedBy::Cpu => "limited by the CPU",
            LimitedBy::Quota => "limited by the CPU quota",
            LimitedBy::Others => "limited by other programs",
            LimitedBy::Generator => "limited by the generator",
            LimitedBy::Peer => "limited by the receiver",
            LimitedBy::Sender => "limited by the sender",
            LimitedBy::Window => "limited by TCP's window",
            LimitedBy::Loss => "limited by lost packets",
            LimitedBy::Demand => "limited by --rate-limit",
        }
    }
}

/// The sink of another host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SinkResult {
    /// Name of that host.
    pub host: String,
    /// Its block device, by `/proc/diskstats` there; none: not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<DeviceUse>,
    /// Shares of the time of its receivers.
    pub waiting_network: f64,
    pub waiting_disk: f64,
    /// The longest fsync at the end of a round.
    pub sync_seconds: f64,
}

/// One worker's part of a measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkerResult {
    /// Index into `Plan::workers`.
    pub worker: usize,
    /// The resource at this end: what it read (`disk:loop0`, `memory`), or stored in where the flow came in.
    pub source: String,
    /// The resource at the other end that it sent through, or took from (`nic:eth0`), none for a pure disk stage.
    pub path: Option<String>,
    /// Mean rate over all samples, bytes per second.
    pub bytes_per_second: f64,
    /// Reads that it keeps in flight; 0: none, or not known.
    pub queue_depth: u32,
    /// Bytes a read; 0: not known.
    pub block_bytes: u64,
    /// Processor that it is pinned to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core: Option<u32>,
    /// CPU seconds of the worker's thread ÷ measured time.
    pub cpu_share: f64,
    /// Its rate while it had something to do, bytes per second (get and put); 0: it is not known.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub active_bytes_per_second: f64,
    /// Share of the time the worker waited for its source.
    pub waiting_source: f64,
    /// Share of the time the worker waited for its sink.
    pub waiting_sink: f64,
    /// TCP: time with data to send, seconds; 0: the kernel does not report it, nor the two shares of it.
    pub sending_seconds: f64,
    /// TCP: share of the busy time limited by the receiver's window. UDP: share of the time that the worker waited with
    /// a window as large as the receiver's buffer lets it be.
    pub receiver_limited: f64,
    /// TCP: share of the busy time limited by our own send buffer.
    pub send_buffer_limited: f64,
    /// Round trip, seconds.
    pub round_trip_seconds: f64,
    /// The shortest of its round trips: what the way takes with empty queues.
    pub least_round_trip_seconds: f64,
    /// TCP: segments retransmitted.
    pub retransmits: u64,
    /// TCP: segments retransmitted ÷ segments that were acknowledged.
    pub retransmit_share: f64,
    /// TCP: largest segment payload the connection uses, bytes.
    pub segment_bytes: u32,
    /// TCP: segments that were acknowledged from the first loss of its connections on; 0: there was none, or nobody
    /// looked.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub loss_segments: f64,
    /// Losses among them after the first, those of one round trip once.
    #[serde(default, skip_serializing_if = "is_no_count")]
    pub losses: u64,
    /// TCP: the largest window that the other end had allowed one of its connections at its end, bytes; 0: unknown.
    #[serde(default, skip_serializing_if = "is_no_count")]
    pub send_window_bytes: u64,
}

fn is_no_count(count: &u64) -> bool {
    *count == 0
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

/// What the receiving host told about the same time; or the sending one, where the flow came in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReceiverResult {
    /// Name of that host.
    pub host: String,
    /// CPU seconds of the agent per 10⁹ bytes.
    pub cpu_seconds_per_gb: f64,
    /// Share of a core that its busiest thread of the flow used.
    pub busiest_thread: f64,
    /// Share of the time its control group was throttled by a CPU quota.
    pub throttled: f64,
    /// CPU quota of the agent in cores, 0 for none.
    pub quota_cores: f64,
    /// CPU use by core there.
    pub cpu_by_core: Vec<CoreUse>,
    /// Datagrams received.
    pub datagrams: u64,
    /// Datagrams the receiving socket's buffer dropped (SO_RXQ_OVFL, in the kernel's unit: trains with GRO).
    pub socket_drops: u64,
    /// Receive buffer asked for and granted, bytes.
    pub receive_buffer_bytes: u64,
    /// Checksums were compared and agree; none: not asked for.
    pub verified: Option<bool>,
}
