//! What was seen of one flow: its windows, both ends, and who paced it; and how it moved its bytes, in a line for the
//! report.

use super::Stages;
use super::flow::{Flow, MEMORY_BLOCK_BYTES, WorkerSource};
use super::product::{ReceiverResult, SinkResult, ZeroCopyUse};
use super::tcp_figures::TcpFigures;
use super::window::WindowObservation;
use linerate_facts::protocol::Protocol;
use linerate_facts::units::{show_bits_rate, show_size};
use linerate_facts::wording::counted;
use linerate_model::plan::WorkerPlan;

/// What was seen of a flow, with what is needed to describe it.
#[derive(Default)]
pub(super) struct Observed {
    pub workers: Vec<WorkerPlan>,
    pub windows: WindowObservation,
    /// Of short windows, bytes per second.
    pub rates: Vec<f64>,
    pub receiver: Option<ReceiverResult>,
    /// Of a flow that comes in.
    pub sender: Option<ReceiverResult>,
    /// The longest fsync of what was stored here.
    pub sync_seconds: f64,
    pub sink: Option<Box<SinkResult>>,
    pub tcp: Vec<TcpFigures>,
    pub verified: Option<bool>,
    /// None: it was not asked for.
    pub zero_copy: Option<ZeroCopyUse>,
    pub engine: String,
    pub segmentation: bool,
    pub flags: Vec<String>,
    /// What an agent lets a client move.
    pub rate_limit: Option<f64>,
    /// Who keeps to the user's `--rate-limit`; none: there is none, or the other end sends.
    pub pacing: Option<Pacing>,
}

/// Who spreads what is sent in time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Pacing {
    /// The workers hand over pieces in time, and the kernel spreads the segments of each.
    Kernel,
    /// The workers alone.
    Workers,
    /// The kernel keeps each stream below this rate, bytes per second.
    Streams(f64),
}

impl Observed {
    /// A later look at the same flow.
    pub(super) fn join(&mut self, later: Observed) {
        let (now, then) = (self.windows.bytes as f64, later.windows.bytes as f64);
        if let (Some(receiver), Some(other)) = (&mut self.receiver, later.receiver) {
            receiver.join(now, other, then);
        }
        if let (Some(sender), Some(other)) = (&mut self.sender, later.sender) {
            sender.join(now, other, then);
        }
        self.sync_seconds = self.sync_seconds.max(later.sync_seconds);
        if let (Some(sink), Some(other)) = (&mut self.sink, later.sink) {
            sink.join(now, *other, then);
        }
        for (tcp, other) in self.tcp.iter_mut().zip(later.tcp) {
            tcp.join(&other);
        }
        self.verified = self.verified.zip(later.verified).map(|(a, b)| a && b);
        if let (Some(zero_copy), Some(other)) = (&mut self.zero_copy, later.zero_copy) {
            zero_copy.join(other);
        }
        self.windows.join(later.windows);
        self.rates.extend(later.rates);
        for flag in later.flags {
            if !self.flags.contains(&flag) {
                self.flags.push(flag);
            }
        }
    }
}

/// How a flow from here moved its bytes.
pub(super) fn method_of_transfer(stages: &Stages<'_>, flow: &Flow, observed: &Observed) -> String {
    let (segmentation, zero_copy, engine) = (observed.segmentation, observed.zero_copy, &observed.engine);
    if flow.behind == WorkerSource::Sink {
        return format!("the peer writes {} of its own", counted(flow.workers.len(), "file"));
    }
    let source = match flow.behind {
        WorkerSource::Sink | WorkerSource::Peer | WorkerSource::Written => String::new(),
        WorkerSource::Memory => format!("{} from memory", show_size(MEMORY_BLOCK_BYTES)),
        WorkerSource::Cached => "cached file".to_string(),
        WorkerSource::Disk => {
            let first = &stages.plan.sources[flow.workers[0].source];
            let how = if first.direct { "O_DIRECT" } else { "buffered" };
            format!("{how} {} × {}", show_size(first.block_bytes), stages.reads_of(&flow.workers[0]))
        }
    };
    let sink = match flow.protocol {
        Protocol::Tcp => match &stages.goal.congestion_control {
            Some(name) => format!("TCP {name}"),
            None => format!("TCP {}", stages.machine.kernel.tcp_congestion_control),
        },
        Protocol::Udp if segmentation => "UDP with segmentation offload, window by feedback".into(),
        Protocol::Udp => "UDP datagram by datagram (no segmentation offload), window by feedback".into(),
    };
    let workers = counted(flow.workers.len(), "worker");
    let sink = sink
        + &zero_copy.map(zero_copy_words).unwrap_or_default()
        + &observed.pacing.map(pacing_words).unwrap_or_default();
    let stored = if flow.sink(stages.goal).is_some() { " → sink" } else { "" };
    format!("{source} → {sink}{stored}, {workers}, {engine}")
}

fn zero_copy_words(zero_copy: ZeroCopyUse) -> String {
    let sent = match zero_copy.copied_share() {
        _ if zero_copy.refused => ", zero copy refused".into(),
        _ if zero_copy.sends == 0 => ", no zero copy".into(),
        copied => format!(", {:.0} % without a copy", 100.0 * (1.0 - copied)),
    };
    match zero_copy.unexpected {
        0 => sent,
        unexpected => {
            format!("{sent}, {} of the kernel's dropped", counted(unexpected, "unexpected notification"))
        }
    }
}

fn pacing_words(pacing: Pacing) -> String {
    match pacing {
        Pacing::Kernel => ", paced by the kernel".into(),
        Pacing::Workers => ", paced by the workers alone".into(),
        Pacing::Streams(rate) => format!(", each stream paced by the kernel at {}", show_bits_rate(rate)),
    }
}
