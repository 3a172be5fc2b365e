//! What was observed over one interval: of the flow, and of the machine beside it. Whatever was not observed
//! is `None` or empty; nothing here presupposes that linerate moves the bytes, so that a foreign program can
//! be judged as well.

use super::each_connection::ArrivalCount;
use super::thresholds::{
    DISK_IDLE, DISK_UNUSED, FAR_SECONDS, LOSS_EXPLAINS_FROM, LOSS_EXPLAINS_TO, QUEUE_EMPTY_BYTES,
    QUEUE_EMPTY_TIMES, QUEUE_STANDS_BYTES, QUEUE_STANDS_TIMES, READS_CARRY,
};
use crate::plan::long_path::{CongestionControl, LossCount, LossyFlow};
use linerate_facts::host::LinkUse;
use linerate_facts::usage::CoreUse;
use linerate_machine::flow_devices::FlowDevices;
use std::borrow::Cow;

/// Everything that bears on what limits a flow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    pub route: Route,
    /// What the flow moves.
    pub bytes_per_second: Option<f64>,
    /// The most that the flow was to move, by its user's wish.
    pub rate_limit: Option<f64>,
    /// What a flow with deadlines left out, by the stage that was late.
    pub left_out: Option<LeftOut>,
    pub receiver: Option<ReceiverEvidence>,
    /// The other host of a flow that comes in.
    pub sender: Option<ReceiverEvidence>,
    pub sink: Option<SinkEvidence>,
    pub quota: Option<QuotaEvidence>,
    /// Share of the CPUs that the program may use, that it used.
    pub own_cpu: Option<f64>,
    pub workers: Option<WorkerEvidence>,
    pub cpus: Vec<CoreUse>,
    /// Those of them on which the flow's threads run.
    pub worker_cpus: Vec<u32>,
    /// Whose the busy time of the CPUs was.
    pub cpu_users: Option<CpuUsers>,
    /// Share of each CPU that other programs used, as far as that was counted.
    pub others_by_cpu: Vec<(u32, f64)>,
    /// Share of all CPUs that worked for processes that cannot be seen; none: all can be seen.
    pub hidden_cpu: Option<f64>,
    /// Share of the time in which all tasks waited for memory.
    pub memory_stalled: Option<f64>,
    /// What of the machine the flow uses: links, disks and drops of others say nothing of it. None: there is no
    /// flow, or nothing of others is listed here.
    pub devices: Option<FlowDevices>,
    pub links: Vec<LinkEvidence>,
    /// Those with requests; none that only passes them on (loop, md, device mapper).
    pub disks: Vec<DiskEvidence>,
    /// Volumes among what the flow reads, with the disks below them.
    pub volumes: Vec<VolumeEvidence>,
    /// What more reads in flight brought.
    pub reads: Option<ReadsEvidence>,
    /// The program's own requests to the disks, where it reported them.
    pub requests: Option<RequestsEvidence>,
    /// Counters of drops that grow. TCP's retransmissions are not among them.
    pub drops: Vec<DropEvidence>,
    pub tcp: TcpEvidence,
    /// Of a flow that comes in: what came at its beginning with few streams and with many, in order.
    pub stream_windows: Vec<ArrivalCount>,
    /// What each of its streams got while it was at work, bytes per second.
    pub stream_rates: Vec<f64>,
    /// What a program that is not linerate's does with its time besides.
    pub program: Option<ProgramEvidence>,
}

impl Evidence {
    /// Without what the flow does not use: a bystander is never blamed.
    pub fn of_flow(&self) -> Cow<'_, Evidence> {
        let Some(devices) = self.devices.as_ref().filter(|_| self.route != Route::Machine) else {
            return Cow::Borrowed(self);
        };
        let mut own = self.clone();
        own.links.retain(|link| devices.interfaces.contains(&link.nic));
        own.disks.retain(|disk| devices.disks.contains(&disk.name));
        own.volumes.retain(|volume| devices.disks.contains(&volume.name));
        own.drops.retain(|drop| drop.interface.as_ref().is_none_or(|name| devices.interfaces.contains(name)));
        Cow::Owned(own)
    }

    /// Why it is not known by which interface the flow goes; none: it is known, or nobody asked.
    pub fn interfaces_unknown(&self) -> Option<String> {
        let unknown = &self.devices.as_ref()?.unknown;
        (!unknown.is_empty()).then(|| unknown.iter().map(String::as_str).collect::<Vec<_>>().join("; "))
    }
}

/// From where to where the flow goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Route {
    /// No flow is known: whatever of the machine is at its limit.
    #[default]
    Machine,
    Memory,
    Disks,
    Network,
    DisksToNetwork,
    /// What comes in is written, or thrown away.
    NetworkToDisks,
    /// A flow is known, but not its way.
    Unknown,
}

/// Frames or blocks that came too late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    pub by_disk: u64,
    pub by_network: u64,
    pub by_cpu: u64,
}

/// What the other host reported of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReceiverEvidence {
    /// Share of a CPU that its busiest thread of the flow used.
    pub busiest_thread: f64,
    pub quota: Option<QuotaEvidence>,
    /// Its limit by an option: it takes, or sends, no more than this, bytes per second.
    pub rate_limit: Option<f64>,
    /// All of its CPUs are full.
    pub full: bool,
    /// One of its CPUs is full, mostly of interrupts: which, and for how much of the time.
    pub interrupts: Option<(u32, f64)>,
}

/// What the other host's receivers, who store what comes, did with their time: shares, means over all of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SinkEvidence {
    pub host: String,
    pub disk: Option<String>,
    /// Share of the time with a request in the disk.
    pub busy: Option<f64>,
    pub waiting_network: f64,
    pub waiting_disk: f64,
}

/// A control group with a CPU quota.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QuotaEvidence {
    /// Share of its periods in which it was throttled.
    pub throttled: f64,
    /// Share of the quota that was used, where that is known.
    pub used: Option<f64>,
}

/// Who used the CPUs: shares of all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuUsers {
    /// The program that moves the bytes.
    pub own: f64,
    /// Interrupts and kernel threads.
    pub kernel: f64,
    /// Other programs.
    pub others: f64,
}

/// What the threads that move the bytes did with their time: shares, means over all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WorkerEvidence {
    pub count: u32,
    pub busy: f64,
    /// Of the one that works most.
    pub busiest: f64,
    pub waiting_source: f64,
    pub waiting_sink: f64,
    /// They send by a clock, and sleep when they are ahead of it.
    pub paced: bool,
}

/// What the threads of a program do that neither work nor wait for its disks or its network: shares, means over those
/// that move the bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProgramEvidence {
    /// They want to run, and their CPUs do something else.
    pub waiting_cpu: f64,
    /// They sleep by a timer.
    pub sleeping: f64,
    /// Everything that was asked of them is sent: they wait for the next request.
    pub idle: f64,
    /// They wait until another program writes into a pipe, or reads from one, and who that is.
    pub pipe_empty: f64,
    pub pipe_full: f64,
    pub pipe_peer: Option<String>,
}

/// One direction of a link.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkEvidence {
    pub nic: String,
    pub sends: bool,
    /// Of the link's rate, with what each packet costs on the wire.
    pub share: f64,
    /// The link's rate.
    pub bits_per_second: f64,
    /// What passes, bytes per second.
    pub bytes_per_second: f64,
    /// A queueing discipline of the interface that holds packets back to keep a rate (`tbf`), and how often a second.
    pub shaper: Option<(String, f64)>,
}

impl From<&LinkUse> for LinkEvidence {
    fn from(used: &LinkUse) -> Self {
        LinkEvidence {
            nic: used.name.clone(),
            sends: used.sends,
            share: used.utilisation,
            bits_per_second: used.bits_per_second,
            bytes_per_second: used.bytes_per_second,
            shaper: used.shaper.clone(),
        }
    }
}

/// A disk.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DiskEvidence {
    pub name: String,
    /// Read and written.
    pub bytes_per_second: f64,
    /// Share of the time with a request in it.
    pub busy: Option<f64>,
    /// Mean number of requests in it.
    pub queue_depth: Option<f64>,
    /// Mean time of a request.
    pub latency_seconds: Option<f64>,
    /// Requests that the program keeps in it, as far as it can.
    pub asked_depth: Option<f64>,
    /// Of its bytes, those that other programs read and wrote.
    pub others_bytes_per_second: Option<f64>,
    /// The most that was ever seen of it.
    pub best_bytes_per_second: Option<f64>,
    /// What was in it when it was read beside the flow, in turn with it.
    pub alone: Option<DiskAlone>,
}

/// A disk that is read alone.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DiskAlone {
    /// Mean bytes that it works on at a time.
    pub bytes_in_flight: f64,
    /// Mean time of a request.
    pub latency_seconds: f64,
}

impl DiskEvidence {
    /// Mean bytes that it works on at a time, by Little's law. The kernel joins reads, so that requests are of
    /// different lengths from flow to flow, and their number says little.
    pub fn bytes_in_flight(&self) -> Option<f64> {
        self.latency_seconds.map(|seconds| self.bytes_per_second * seconds).filter(|bytes| *bytes > 0.0)
    }

    /// What it showed, for a comparison with the same disk beside other work.
    pub fn as_alone(&self) -> Option<DiskAlone> {
        let (bytes_in_flight, latency_seconds) = self.bytes_in_flight().zip(self.latency_seconds)?;
        Some(DiskAlone { bytes_in_flight, latency_seconds })
    }
}

/// An array, or another volume over disks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VolumeEvidence {
    pub name: String,
    /// The whole disks below it.
    pub members: Vec<DiskEvidence>,
}

impl VolumeEvidence {
    /// How busy the busiest of its disks is, where all of them pause: then none of them limits it. Disks that do
    /// nothing say nothing: a cache answers.
    pub fn busiest_that_pauses(&self) -> Option<f64> {
        let busy: Option<Vec<f64>> = self.members.iter().map(|disk| disk.busy).collect();
        let busiest = busy?.into_iter().fold(0.0, f64::max);
        (DISK_UNUSED..DISK_IDLE).contains(&busiest).then_some(busiest)
    }
}

/// Requests as the program that makes them sees them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RequestsEvidence {
    /// The most that it has in flight.
    pub at_once: f64,
    /// Mean time from asking to the answer, its flush with it.
    pub seconds: f64,
    /// Of that, the flush to the disk that follows each write.
    pub flush_seconds: f64,
    /// The shortest of them, without a flush; none: unknown.
    pub least_seconds: Option<f64>,
}

impl RequestsEvidence {
    /// The mean of them ÷ the shortest: what waits in a disk makes it more.
    pub fn times_shortest(&self) -> Option<f64> {
        let least = self.least_seconds.filter(|seconds| *seconds > 0.0)?;
        Some((self.seconds - self.flush_seconds) / least)
    }
}

/// A trial of more reads in flight against fewer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReadsEvidence {
    /// Reads in flight of a worker, and the fewer that were tried beside them.
    pub reads: u32,
    pub fewer: u32,
    /// What they carried ÷ what the fewer carried.
    pub gain: f64,
}

impl ReadsEvidence {
    /// They carry nearly as much more as they are more: still more of them would carry more.
    pub fn are_too_few(&self) -> bool {
        let more = f64::from(self.reads) / f64::from(self.fewer.max(1)) - 1.0;
        more > 0.0 && self.gain - 1.0 >= READS_CARRY * more
    }
}

/// A counter of drops that grows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DropEvidence {
    /// `NIC ring`, `softnet`, `socket`.
    pub layer: String,
    /// Of this interface; none: of the host.
    pub interface: Option<String>,
    pub counter: String,
    /// `packets`, `datagrams`.
    pub unit: String,
    pub per_second: f64,
}

/// TCP of this host; of a flow of datagrams its own window, which the receiver's buffer bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TcpEvidence {
    /// Windows of 0 that it announced.
    pub zero_windows_per_second: Option<f64>,
    pub retransmits_per_second: Option<f64>,
    /// Retransmitted ÷ sent.
    pub retransmit_share: Option<f64>,
    /// Share of the time with data to send in which the receiver's window was closed, of this flow.
    pub receive_window_share: Option<f64>,
    /// The same of our own send buffer.
    pub send_buffer_share: Option<f64>,
    /// Round trip of this flow.
    pub round_trip_seconds: Option<f64>,
    /// The shortest round trip of this flow.
    pub least_round_trip_seconds: Option<f64>,
    /// The receive buffer of a connection when it began.
    pub receive_buffer_bytes: Option<f64>,
    /// Payload of a segment, bytes.
    pub segment_bytes: Option<f64>,
    /// The window that the receiver allows a connection, as its sender saw it; none: nobody looked.
    pub window_bytes: Option<f64>,
    /// The user set the size of the socket buffers: the window is what was asked for.
    pub window_was_set: bool,
    /// Losses and segments of all its connections, from their begin on; none: nobody looked.
    pub losses: Option<LossCount>,
    /// Connections of this flow.
    pub connections: u32,
    /// It is a flow of datagrams.
    pub datagrams: bool,
}

impl TcpEvidence {
    /// The loss that was counted is as much as makes TCP as slow as it was, by the response function of RFC 9438: also
    /// where it is a segment in ten thousand. A congestion control that does not answer a loss is faster than that.
    pub fn loss_explains(&self, bytes_per_second: f64) -> bool {
        let times = self.times_response(bytes_per_second);
        times.is_some_and(|times| (LOSS_EXPLAINS_FROM..=LOSS_EXPLAINS_TO).contains(&times))
    }

    /// It is faster than such a share of losses lets it be, were they by chance: they came many at a time, as those do
    /// that a queue of its own drops at the end of slow start.
    pub fn loses_in_bursts(&self, bytes_per_second: f64) -> bool {
        self.times_response(bytes_per_second).is_some_and(|times| times > LOSS_EXPLAINS_TO)
    }

    /// The flow as one that losses by chance hold, by all of them that were counted; none where nobody counted.
    pub fn lossy<'a>(&self, congestion_control: &'a CongestionControl) -> Option<LossyFlow<'a>> {
        Some(LossyFlow {
            congestion_control,
            loss: self.losses?,
            round_trip_seconds: self.least_round_trip_seconds.filter(|trip| *trip >= FAR_SECONDS)?,
            segment_bytes: self.segment_bytes?,
            streams: self.connections,
        })
    }

    /// What is moved ÷ what all connections would move over minutes, were all that is retransmitted lost by chance, by
    /// the response function of RFC 9438.
    fn times_response(&self, bytes_per_second: f64) -> Option<f64> {
        let loss = self.retransmit_share.filter(|share| *share > 0.0 && *share < 0.5)?;
        let trip = self.least_round_trip_seconds.filter(|trip| *trip > 0.0)?;
        let segments = CongestionControl::Cubic.window_segments(loss, trip)?;
        let response = f64::from(self.connections.max(1)) * segments * self.segment_bytes? / trip;
        Some(bytes_per_second / response)
    }

    /// A queue has formed before a full link; none where that is not known. The queue is by Little's law what the
    /// flow moves in the time by which a round trip is longer than the shortest. It is empty where packets are
    /// lost for another reason than a full link (Sundaresan et al., "TCP Congestion Signatures", IMC 2017).
    pub fn queue_stands(&self, bytes_per_second: f64) -> Option<bool> {
        let (now, least) = (self.round_trip_seconds?, self.least_round_trip_seconds?);
        let queued = bytes_per_second * (now - least);
        if now >= QUEUE_STANDS_TIMES * least && queued >= QUEUE_STANDS_BYTES {
            return Some(true);
        }
        (now <= QUEUE_EMPTY_TIMES * least || queued <= QUEUE_EMPTY_BYTES).then_some(false)
    }
}
