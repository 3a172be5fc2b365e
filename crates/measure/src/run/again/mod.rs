//! One figure made ready once and taken again and again, so that two states of a machine can be held against
//! each other in turns: files written, peers connected and workers placed before the first window.
//!
//! The disk (`disk`) is the same file or device each time; the path has the workers of a run, from the disk to the
//! peer; of the network the sessions to the peers stay, and each window opens streams of its own, so that what
//! holds for new sockets shows.

mod disk;

use super::context::cut_at_stop;
use super::ends;
use super::scratch::ScratchSpec;
use crate::event::Silent;
use crate::measure::streams::{self, StreamBench, StreamDirection, StreamsJob};
use crate::measure::{Measurements, Peers, Stage, Stages, WindowSpec, measure};
use linerate_facts::failure::Failure;
use linerate_facts::protocol::Protocol;
use linerate_facts::sysroot::Sysroot;
use linerate_machine::probe::Machine;
use linerate_model::plan::flow::Method;
use linerate_model::plan::long_path::LossCount;
use linerate_model::plan::{Goal, Pin, Plan, path_rate, plan};
use linerate_system::stop::Stop;
use linerate_transport::agent::AgentSession;
use std::path::PathBuf;
use std::time::Duration;

/// TCP and the UDP window find their rate in this share of a window, and in no less than the time.
const WARM_UP_SHARE: f64 = 0.3;
const WARM_UP_SECONDS: f64 = 0.15;

/// What a window measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigureKind {
    /// Large reads past the page cache, several in flight.
    DirectReads,
    /// One reader through the page cache, as most programs are; what it reads is not in the cache.
    BufferedReads,
    /// Large writes past the page cache, several in flight, over files of our own.
    Writes,
    /// A stream from memory.
    Network(Protocol, StreamDirection),
    /// From the disk to the peer.
    Path(Protocol),
}

impl FigureKind {
    /// It goes over the network.
    pub fn has_network(self) -> bool {
        matches!(self, FigureKind::Network(..) | FigureKind::Path(_))
    }
}

impl std::fmt::Display for FigureKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FigureKind::DirectReads => f.write_str("disk, direct reads"),
            FigureKind::BufferedReads => f.write_str("disk, buffered reads"),
            FigureKind::Writes => f.write_str("disk, direct writes"),
            FigureKind::Network(protocol, direction) => write!(f, "network, {protocol} {direction}"),
            FigureKind::Path(protocol) => write!(f, "path, {protocol}"),
        }
    }
}

/// On what a figure is taken.
#[derive(Clone, Debug)]
pub struct FigureSpec {
    /// A directory (a file of our own is made there), a file or a block device.
    pub source: PathBuf,
    /// Addresses of agents; empty: a receiver of our own on loopback.
    pub peers: Vec<String>,
    pub key_file: Option<PathBuf>,
    /// Length of a window.
    pub seconds: f64,
}

/// What this process may do differently from one window to the next.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessOptions {
    pub pin: Pin,
    pub io_uring: bool,
    /// Payload per second that a stream keeps to; none: as fast as it goes.
    pub bytes_per_second: Option<f64>,
}

impl Default for ProcessOptions {
    fn default() -> Self {
        ProcessOptions { pin: Pin::Auto, io_uring: true, bytes_per_second: None }
    }
}

/// A figure that is ready.
pub trait PreparedFigure {
    /// Measures one window; bytes per second. `other`: in the second of the two states, which may be many
    /// times as fast as the first.
    fn take(&mut self, options: &ProcessOptions, other: bool) -> Result<f64, Failure>;
}

/// Where all of it happens.
#[derive(Clone, Copy, Debug)]
pub struct FigureContext<'a> {
    pub sysroot: &'a Sysroot,
    pub machine: &'a Machine,
    /// Set by Ctrl-C.
    pub stop: &'a Stop,
}

/// Makes a figure ready, lets `work` take it as often as it likes, and takes down what was made.
pub fn with_prepared<T>(
    place: FigureContext<'_>,
    figure: FigureKind,
    spec: &FigureSpec,
    work: impl FnOnce(&mut dyn PreparedFigure) -> T,
) -> Result<T, Failure> {
    match figure {
        FigureKind::DirectReads | FigureKind::BufferedReads | FigureKind::Writes => {
            Ok(work(&mut disk::Reader::open(place, figure, spec)?))
        }
        FigureKind::Network(protocol, direction) => with_network(place, protocol, direction, spec, work),
        FigureKind::Path(protocol) => with_path(place, protocol, spec, work),
    }
}

struct PathWorkers<'a> {
    place: FigureContext<'a>,
    goal: Goal,
    plan: Plan,
    peers: Peers,
}

impl PreparedFigure for PathWorkers<'_> {
    fn take(&mut self, options: &ProcessOptions, _: bool) -> Result<f64, Failure> {
        let FigureContext { sysroot, machine, stop } = self.place;
        let (mut silent, mut unsaved) = (Silent, |_: &Measurements| ());
        let stages = Stages::new(
            machine,
            &self.goal,
            &self.plan,
            sysroot,
            stop,
            &mut silent,
            &mut unsaved,
            options.io_uring,
        );
        let measured = measure(stages, &[Stage::Path], &mut self.peers);
        match (measured.measurements.first(), measured.errors.into_iter().next()) {
            _ if stop.is_ended() => Err(Failure::Interrupted),
            (_, Some(why)) => Err(Failure::Lacks(why)),
            (Some(measurement), None) => Ok(measurement.bytes_per_second),
            (None, None) => Err(Failure::Lacks("no path rate was measured".into())),
        }
    }
}

/// Prepares, works, takes down.
fn with_path<T>(
    place: FigureContext<'_>,
    protocol: Protocol,
    spec: &FigureSpec,
    work: impl FnOnce(&mut dyn PreparedFigure) -> T,
) -> Result<T, Failure> {
    let FigureContext { sysroot, machine, stop } = place;
    let goal = Goal {
        sources: vec![spec.source.clone()],
        peers: spec.peers.clone(),
        protocols: vec![protocol],
        seconds: Some(spec.seconds),
        repeats: 1,
        budget_seconds: 600.0,
        ..Goal::default()
    };
    let mut prepared = ends::prepare_paths(sysroot, machine, &goal.peers, spec.key_file.as_deref(), stop)?;
    let scratch = ends::scratch_directories(&goal);
    let found = ends::prepare_sources(sysroot, machine, &goal, &scratch, ScratchSpec::default(), stop)?;
    let loopback = ends::all_over_loopback(machine, &prepared.plans);
    let plan = plan(machine, &goal, found.plans.clone(), std::mem::take(&mut prepared.plans), loopback);
    let peers = Peers::new(std::mem::take(&mut prepared.sessions), &plan.paths);
    let cutters = peers.sessions().iter().filter_map(AgentSession::cutter).collect();
    cut_at_stop(cutters, stop, || Ok(work(&mut PathWorkers { place, goal, plan, peers })))
}

struct Streams<'a> {
    bench: StreamBench<'a>,
    job: StreamsJob,
}

impl PreparedFigure for Streams<'_> {
    fn take(&mut self, options: &ProcessOptions, _: bool) -> Result<f64, Failure> {
        for session in self.bench.sessions {
            // An agent that heard nothing for long hangs up; one that is gone shows below.
            let _ = session.sample();
        }
        let job = StreamsJob {
            pin: options.pin.clone(),
            bytes_per_second: options.bytes_per_second,
            ..self.job.clone()
        };
        let measured = streams::measure(&mut self.bench, &job);
        match (measured.measurement, measured.failures.into_iter().next()) {
            _ if self.bench.stop.is_ended() => Err(Failure::Interrupted),
            (_, Some(why)) => Err(Failure::Lacks(why)),
            (Some(measurement), None) => Ok(measurement.bytes_per_second),
            (None, None) => Err(Failure::Lacks("no network rate was measured".into())),
        }
    }
}

/// Connects, works, hangs up.
fn with_network<T>(
    place: FigureContext<'_>,
    protocol: Protocol,
    direction: StreamDirection,
    spec: &FigureSpec,
    work: impl FnOnce(&mut dyn PreparedFigure) -> T,
) -> Result<T, Failure> {
    let FigureContext { sysroot, machine, stop } = place;
    let mut prepared = ends::prepare_paths(sysroot, machine, &spec.peers, spec.key_file.as_deref(), stop)?;
    for path in &mut prepared.plans {
        path.rate = path_rate(machine, path, protocol, Method::Direct);
    }
    let loopback = ends::all_over_loopback(machine, &prepared.plans);
    let mut silent = Silent;
    let bench = StreamBench {
        sysroot,
        machine,
        paths: &prepared.plans,
        sessions: &prepared.sessions,
        loopback,
        bind_device: false,
        trace_drops: false,
        rate_limit: None,
        idle: false,
        windows: WindowSpec {
            warm_up: Duration::from_secs_f64((spec.seconds * WARM_UP_SHARE).max(WARM_UP_SECONDS)),
            window: Duration::from_secs_f64(spec.seconds),
            repeats: 1,
        },
        losses: LossCount::default(),
        opened: Vec::new(),
        stop,
        listener: &mut silent,
    };
    let job = StreamsJob { streams: prepared.plans.len() as u32, ..StreamsJob::plain(protocol, direction) };
    let cutters = prepared.sessions.iter().filter_map(AgentSession::cutter).collect();
    cut_at_stop(cutters, stop, || Ok(work(&mut Streams { bench, job })))
}
