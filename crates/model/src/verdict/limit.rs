//! What the judge says.

use super::each_connection::ConnectionLimit;
use super::evidence::{CpuUsers, DiskEvidence, DropEvidence, LinkEvidence, ReadsEvidence, SinkEvidence};
use super::thresholds::SMALL_WINDOW_BYTES;
use crate::plan::ResourceKind;
use linerate_facts::usage::CoreUse;
use serde::{Deserialize, Serialize};

/// What limits, the most important first; or what would have to be seen to say it.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    pub limits: Vec<Limit>,
    /// Where there is no limit.
    pub missing: Option<Missing>,
}

impl Judgement {
    /// The first limit.
    pub fn limit(&self) -> Option<&Limit> {
        self.limits.first()
    }

    /// What kind of thing limits.
    pub fn kind(&self) -> Option<LimitKind> {
        self.limit().map(Limit::kind)
    }
}

/// What kind of thing limits a flow. The words are those of `bottleneck.kind` in `run.json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LimitKind {
    Disk,
    Controller,
    Volume,
    Memory,
    Cpu,
    Nic,
    Pcie,
    SocketLink,
    Receiver,
    /// The other host of a flow that comes in, or the way from it.
    Sender,
    /// A window of TCP, or a socket's buffer.
    Window,
    Loss,
    /// Reads in flight, or streams, are too few.
    Pipeline,
    Quota,
    Steal,
    /// Other programs, which have the CPUs or the disks that the flow needs.
    Others,
    /// Nobody asks for more.
    Demand,
    /// Too little is known.
    Unknown,
}

impl LimitKind {
    /// The CPUs of this host.
    pub fn is_of_own_cpu(self) -> bool {
        matches!(self, LimitKind::Cpu | LimitKind::Quota | LimitKind::Steal | LimitKind::Others)
    }

    /// A CPU, here or at the other host: its capacity is a cost of a byte, measured in stages apart.
    pub fn is_of_cpu(self) -> bool {
        matches!(
            self,
            LimitKind::Cpu
                | LimitKind::Quota
                | LimitKind::Steal
                | LimitKind::Others
                | LimitKind::Receiver
                | LimitKind::Sender
        )
    }
}

impl From<ResourceKind> for LimitKind {
    fn from(kind: ResourceKind) -> Self {
        match kind {
            ResourceKind::Disk => LimitKind::Disk,
            ResourceKind::Controller => LimitKind::Controller,
            ResourceKind::Volume => LimitKind::Volume,
            ResourceKind::Pcie => LimitKind::Pcie,
            ResourceKind::SocketLink => LimitKind::SocketLink,
            ResourceKind::Memory => LimitKind::Memory,
            ResourceKind::Cpu => LimitKind::Cpu,
            ResourceKind::Nic => LimitKind::Nic,
            ResourceKind::Receiver => LimitKind::Receiver,
            ResourceKind::Sender => LimitKind::Sender,
            ResourceKind::Window => LimitKind::Window,
            ResourceKind::Loss => LimitKind::Loss,
            ResourceKind::Demand => LimitKind::Demand,
        }
    }
}

/// One thing at its limit, with the figures that say so.
#[derive(Clone, Debug, PartialEq)]
pub enum Limit {
    LateDisk {
        frames: u64,
    },
    LateNetwork {
        frames: u64,
    },
    LateCpu {
        frames: u64,
    },
    /// The flow asked for no more.
    Demand {
        bytes_per_second: f64,
    },
    ReceiverThread {
        share: f64,
    },
    ReceiverQuota {
        throttled: f64,
    },
    ReceiverRateLimit {
        bytes_per_second: f64,
    },
    Quota {
        throttled: f64,
        used: Option<f64>,
    },
    Thread {
        share: f64,
    },
    OwnCpu {
        share: f64,
    },
    Cpus {
        full: usize,
        of: usize,
        fullest: CoreUse,
        users: Option<CpuUsers>,
    },
    /// TCP's window: the receiver's, or of our own send buffer; of datagrams the receiver's buffer.
    Window {
        datagrams: bool,
        receiver: bool,
        share: f64,
        bytes: Option<f64>,
        round_trip_seconds: f64,
    },
    /// What is under way is as much as the receiver's window allows. Where nobody set that window, a queue before a
    /// slower link fills it as well.
    FullWindow {
        bytes: f64,
        window_bytes: f64,
        round_trip_seconds: f64,
        was_set: bool,
    },
    /// Each connection gets the same, however many there are.
    EachConnection(ConnectionLimit),
    ReceiverCpus,
    /// The same of the other host of a flow that comes in, or its own send buffer.
    OfSender(Box<Limit>),
    /// A CPU of the receiver that is full, mostly of interrupts.
    ReceiverInterrupts {
        cpu: u32,
        share: f64,
    },
    Source {
        count: u32,
        share: f64,
        disk: Option<DiskEvidence>,
    },
    Sink {
        count: u32,
        share: f64,
        part: Option<Box<Limit>>,
    },
    /// Of a flow that comes in: its workers wait for what the other host sends.
    Incoming {
        count: u32,
        share: f64,
        part: Option<Box<Limit>>,
    },
    /// Of a flow that comes in: its workers wait until what came is written.
    Written {
        count: u32,
        share: f64,
        disk: Option<DiskEvidence>,
    },
    /// The other host's receivers wait until what came is written.
    Stored {
        sink: SinkEvidence,
    },
    DiskBusy(DiskEvidence),
    DiskDeep(DiskEvidence),
    DiskPauses(DiskEvidence),
    /// Reads in flight are too few for what they are read from.
    FewReads(ReadsEvidence),
    /// The program has one request in flight, which the disk has for most of the time; or some, none of which waits for
    /// another.
    FewRequests {
        name: String,
        at_once: f64,
        /// Mean time of a request, and of that its flush.
        seconds: f64,
        flush_seconds: f64,
    },
    /// A volume whose disks all pause.
    Volume {
        name: String,
        members: usize,
        /// How busy the busiest of them is.
        busiest: f64,
    },
    Link(LinkEvidence),
    /// A queueing discipline of this host holds its packets back.
    Shaper {
        nic: String,
        discipline: String,
        per_second: f64,
    },
    /// By which interface it goes is not known.
    LinkUnknown {
        why: String,
    },
    /// A foreign receiver whose window is closed for so long, though less than the smallest buffer is on its way.
    SlowReceiver {
        share: f64,
    },
    /// A program sleeps by its own timer.
    OwnPauses {
        share: f64,
    },
    /// A program has sent all that it was asked for.
    NoRequests {
        share: f64,
    },
    /// Another program empties a pipe too slowly, or fills it too slowly.
    Pipe {
        full: bool,
        share: f64,
        peer: Option<String>,
    },
    MemoryStalled {
        share: f64,
    },
    Drops(DropEvidence),
    ZeroWindows {
        per_second: f64,
    },
    Retransmits {
        share: f64,
    },
    Steal {
        cpu: u32,
        share: f64,
    },
    /// Full CPUs that the flow needs, of which other programs have a large part: on the average of these CPUs.
    Others {
        full: usize,
        fullest: u32,
        share: f64,
    },
}

/// Why no limit can be named.
#[derive(Clone, Debug, PartialEq)]
pub enum Missing {
    /// Nothing that was looked at is near its limit.
    NothingNear,
    /// A CPU that waits for memory counts as busy.
    Memory,
    /// It is not known what the flow waits for.
    Route,
    /// A flow with deadlines that leaves nothing out.
    KeepsItsRate,
    NoSinglePart {
        busy: f64,
        waiting_source: f64,
        waiting_sink: f64,
        /// The busiest disk, where it has no request at times.
        pauses: Option<Box<DiskEvidence>>,
    },
    /// No disk shows the flow's bytes.
    BytesOfNoDisk,
    /// The kernel does not report how busy the disks are.
    DiskCounters,
    /// The disk pauses for a part of the time, and it is not known why.
    DiskPauses { name: String },
    /// Requests wait before the disk gets them: so much of the mean time of one.
    HeldBefore { name: String, waiting_seconds: f64, of_seconds: f64 },
    /// A disk without a pause, and it is not clear whether requests wait for each other in it.
    Queue { name: String },
    /// It took less time than the kernel's counters need to show anything.
    TooShort,
    /// Nothing is full here; the other host and the way to it are not seen from here.
    OtherHost,
}

impl Limit {
    /// A window so small that each refill is a wake-up of both ends.
    pub fn is_small_window(&self) -> bool {
        matches!(self, Limit::Window { bytes: Some(bytes), .. } if *bytes < SMALL_WINDOW_BYTES)
    }

    /// Its sentence begins with the part that limits, and goes on with how that shows; others are whole sentences.
    pub fn names_a_part(&self) -> bool {
        matches!(self, Limit::LateDisk { .. } | Limit::LateNetwork { .. } | Limit::LateCpu { .. })
            || matches!(self, Limit::Source { .. } | Limit::Sink { .. } | Limit::Incoming { .. })
            || matches!(self, Limit::Written { .. } | Limit::Thread { .. } | Limit::OwnCpu { .. })
            || matches!(self, Limit::SlowReceiver { .. } | Limit::Pipe { .. })
    }

    /// What kind of thing it is.
    pub fn kind(&self) -> LimitKind {
        match self {
            Limit::Demand { .. } | Limit::OwnPauses { .. } | Limit::NoRequests { .. } => LimitKind::Demand,
            Limit::Pipe { full: true, .. } => LimitKind::Receiver,
            Limit::Pipe { full: false, .. } => LimitKind::Sender,
            Limit::LateDisk { .. } | Limit::Source { .. } | Limit::Written { .. } => LimitKind::Disk,
            Limit::DiskBusy(_) | Limit::DiskDeep(_) | Limit::Stored { .. } => LimitKind::Disk,
            Limit::LateNetwork { .. } | Limit::Link(_) | Limit::Shaper { .. } => LimitKind::Nic,
            Limit::LateCpu { .. } | Limit::Thread { .. } | Limit::OwnCpu { .. } => LimitKind::Cpu,
            Limit::Cpus { .. } => LimitKind::Cpu,
            Limit::ReceiverThread { .. } | Limit::ReceiverQuota { .. } => LimitKind::Receiver,
            Limit::ReceiverRateLimit { .. } | Limit::ZeroWindows { .. } => LimitKind::Receiver,
            Limit::ReceiverCpus | Limit::ReceiverInterrupts { .. } => LimitKind::Receiver,
            Limit::SlowReceiver { .. } | Limit::EachConnection(_) => LimitKind::Receiver,
            Limit::Window { .. } | Limit::FullWindow { was_set: true, .. } => LimitKind::Window,
            Limit::FullWindow { was_set: false, .. } => LimitKind::Unknown,
            Limit::Sink { part, .. } => part.as_ref().map_or(LimitKind::Receiver, |part| part.kind()),
            Limit::Incoming { part, .. } => part.as_ref().map_or(LimitKind::Sender, |part| part.kind()),
            Limit::OfSender(limit) => match limit.kind() {
                LimitKind::Receiver => LimitKind::Sender,
                kind => kind,
            },
            Limit::LinkUnknown { .. } => LimitKind::Unknown,
            Limit::Quota { .. } => LimitKind::Quota,
            Limit::DiskPauses(_) | Limit::FewReads(_) | Limit::FewRequests { .. } => LimitKind::Pipeline,
            Limit::Volume { .. } => LimitKind::Volume,
            Limit::MemoryStalled { .. } => LimitKind::Memory,
            Limit::Drops(_) | Limit::Retransmits { .. } => LimitKind::Loss,
            Limit::Steal { .. } => LimitKind::Steal,
            Limit::Others { .. } => LimitKind::Others,
        }
    }
}
