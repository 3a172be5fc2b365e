//! What was seen of one flow: its windows, both ends, and who paced it.

use super::product::{ReceiverResult, SinkResult, ZeroCopyUse};
use super::tcp_figures::TcpFigures;
use super::window::WindowObservation;
use linerate_model::plan::WorkerPlan;

/// What was seen of a flow, with what is needed to describe it.
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
    /// Of a flow that comes in, what is known before it has ended.
    pub(super) fn of_incoming(
        workers: Vec<WorkerPlan>,
        watched: WindowObservation,
        tcp: Vec<TcpFigures>,
        engine: String,
    ) -> Observed {
        Observed {
            workers,
            windows: watched,
            rates: Vec::new(),
            receiver: None,
            sender: None,
            sync_seconds: 0.0,
            sink: None,
            tcp,
            verified: None,
            zero_copy: None,
            engine,
            segmentation: false,
            flags: Vec::new(),
            rate_limit: None,
            pacing: None,
        }
    }

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
