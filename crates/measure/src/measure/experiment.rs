//! The verdict by experiment: while the path runs, a little of each resource is taken away for a moment, or a setting is
//! raised, in random order. What the flow loses for what is taken is the share that this resource has in its limit
//! (`model::shares`); no model of a disk, a file system or a neighbour is needed for that.
//!
//! Takers are workers of the same engine, at a rate and for a time: one that reads the flow's file where the flow does
//! not read soon, one that sends from memory on a stream of its own. A CPU is taken by computing on it. A second set of
//! the flow's own workers is what raises reads in flight and streams. Nothing is written, and a taker issues nothing
//! after the end of its slot, whoever else hangs.

pub(super) mod course;
mod program;
mod receivers;
mod slots;
mod takers;

use super::flow::Flow;
use super::network::whole_path;
use super::peers::Peers;
use super::running::RunningWorkers;
use super::window::WindowSpec;
use super::{Stages, transfer};
use course::Experiment;
use linerate_facts::protocol::Protocol;
use linerate_facts::sysroot::Sysroot;
use linerate_model::plan::schedule::{experiment_seconds, writing_seconds};
use linerate_model::plan::{SourcePlan, WorkerPlan};
use linerate_model::shares::{Decision, Hopeless, ShareRecord, decide, estimate};
use linerate_model::verdict::thresholds::FAR_SECONDS;
use linerate_system::clock;
use linerate_system::stop::Stop;
use linerate_transport::flow::source::{Cursor, Source};
pub use program::{AgentReach, ExperimentError, ForeignFlow, NicAgent, ProgramDisk, ProgramTakerSpec};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;
use takers::{Purpose, TakenDisk, Takers, reader, sender, streams_of_taker};

/// Between two looks at the counters of a program, at least.
const LOOK: Duration = Duration::from_millis(20);
/// What a user sees of it.
pub(super) const NAME: &str = "experiment";
/// The flow finds its rate in so long.
const WARM_UP: Duration = Duration::from_millis(800);
/// Reads in flight of a program's disk, however small its blocks are.
const MOST_SMALL_READS: usize = 256;

/// Takes from the path over the first protocol, and keeps what came of it for the figure of the path. It is left out
/// where it cannot be: what the rounds say of the path is then all that is known.
pub(super) fn conduct(stages: &mut Stages<'_>, peers: &mut Peers) -> Result<(), String> {
    match take(stages, peers) {
        Ok(record) => stages.experiment = record,
        Err(why) => {
            peers.close();
            let longer = matches!(why, ExperimentError::Hopeless(Hopeless::TooLong { .. }));
            let remedy = if longer { " (a longer --budget)" } else { "" };
            stages.no_experiment = Some(format!("{why}{remedy}"));
        }
    }
    Ok(())
}

/// What was taken, and what the flow lost; none where nothing was to be.
fn take(stages: &mut Stages<'_>, peers: &mut Peers) -> Result<Option<ShareRecord>, ExperimentError> {
    let Some(protocol) = stages.goal.protocols.first().copied().filter(|_| stages.goal.experiments()) else {
        return Ok(None);
    };
    let spent = writing_seconds(&stages.plan.sources) + clock::since(stages.begin).as_secs_f64();
    let window = Duration::from_secs_f64(slots::LATER * experiment_seconds(stages.goal, spent));
    let windows = WindowSpec { warm_up: WARM_UP, window, repeats: 1 };
    let flow = Flow { windows, ..whole_path(stages, protocol) };
    if flow.workers.is_empty() || stages.stopped() {
        return Ok(None);
    }
    can_be_taken_from(stages, peers)?;
    let (workers, purposes) = with_takers(stages, &flow.workers);
    let takers = Takers::of(stages, &workers, purposes, peers.sessions());
    let flow = Flow { workers, ..flow };
    let mut experiment = Experiment::new(stages, takers, &flow);
    stages.started(flow.stage, NAME, windows);
    let errors = stages.errors.len();
    transfer::observe_beside(stages, peers, &flow, Some(&mut experiment)).map_err(ExperimentError::Flow)?;
    // What failed on the way is an error of the run, and shares beside it would be of another flow.
    if stages.errors.len() > errors {
        return Ok(None);
    }
    // Of what is sent over UDP not all arrives.
    stages.undisturbed.extend(experiment.undisturbed.drain(..).filter(|_| protocol == Protocol::Tcp));
    match experiment.end() {
        // What was recorded until Ctrl-C is kept, and nobody asks why it is no more.
        record if stages.stopped() => Ok(record.ok()),
        record => record.map(Some),
    }
}

/// Takes from a program until its shares are known, the time is over, it has ended, or the user stops it.
pub fn take_from_program(
    sysroot: &Sysroot,
    spec: &ProgramTakerSpec,
    flow: Box<dyn ForeignFlow>,
    stop: &Stop,
) -> Result<ShareRecord, ExperimentError> {
    let disks = spec.disks.iter().enumerate();
    let disks =
        disks.map(|(at, disk)| (format!("disk:{}", disk.name), TakenDisk::new(disk.name.clone(), at)));
    let nics = spec.nic.iter().map(|(name, _)| (format!("nic:{name}"), vec![0])).collect();
    let mut takers = Takers::taking_from(clock::now(), disks.collect(), nics, spec.cores.clone(), Vec::new());
    let mut running = RunningWorkers::new(stop, false);
    let open = |(_, agent): &(String, NicAgent)| agent.open(streams_of_taker(spec.connections), stop);
    let opened = spec.nic.as_ref().map(open).transpose();
    let opened = opened.map_err(|failure| ExperimentError::Flow(failure.to_string()))?;
    let (_session, streams) = opened.unzip();
    let streams: Vec<TcpStream> = streams.unwrap_or_default();
    takers.purposes = vec![Purpose::Nic; streams.len()];
    takers.paths = vec![0; streams.len()];
    let counted: Vec<Option<TcpStream>> = streams.iter().map(|stream| stream.try_clone().ok()).collect();
    for (at, stream) in streams.into_iter().enumerate() {
        running.start(takers.gated(at, sender(stream))).map_err(ExperimentError::NoTaker)?;
    }
    takers.start(&mut running, |at, reads, gate| {
        let disk = &spec.disks[at];
        let label = disk.label.clone();
        let cursor = Arc::new(Cursor::opposite_to(disk.position, disk.bytes, disk.block_bytes));
        let unread = |error| ExperimentError::UnreadSource { path: label.clone(), error };
        let file = disk.file.try_clone().map_err(unread)?;
        let block_bytes = disk.block_bytes as usize;
        Ok(reader(Source::File { file, cursor, label }, block_bytes, reads_of(reads, block_bytes), gate))
    })?;
    let pause = LOOK.max(flow.pause());
    let mut experiment =
        Experiment::of_program(sysroot, takers, (running.counters.clone(), counted), spec, flow);
    while experiment.look() && !stop.wait(pause) {}
    running.abandon_hanging();
    experiment.end()
}

/// As many bytes in flight as this many reads of 1 MiB: a program's blocks may be small, and a throttle gives each what it
/// has in flight.
fn reads_of(reads: usize, block_bytes: usize) -> usize {
    (reads * ((1 << 20) / block_bytes.max(1)).max(1)).clamp(reads, MOST_SMALL_READS.max(reads))
}

/// What limits the flow is known from it alone.
pub(super) fn decides(record: &ShareRecord) -> bool {
    matches!(decide(record, &estimate(record, &[])), Decision::Measured(_) | Decision::Tie(_))
}

/// Each part can be taken from, one after the other, in the time that there is.
fn can_be_taken_from(stages: &Stages<'_>, peers: &Peers) -> Result<(), ExperimentError> {
    let is_read = |source: &SourcePlan| source.is_disk() && source.direct;
    match () {
        () if peers.rate_limit().is_some() => Err(ExperimentError::AgentRateLimit),
        () if stages.round_trip_seconds >= FAR_SECONDS => Err(ExperimentError::FarPath),
        () if !stages.plan.sources.iter().all(is_read) => Err(ExperimentError::CachedSource),
        () => Ok(()),
    }
}

/// The flow's workers, the same once more to raise it, and senders that take from each NIC but loopback.
fn with_takers(stages: &Stages<'_>, own: &[WorkerPlan]) -> (Vec<WorkerPlan>, Vec<Purpose>) {
    let mut workers: Vec<WorkerPlan> = own.iter().chain(own).cloned().collect();
    let mut purposes = vec![Purpose::Flow; own.len()];
    purposes.extend(vec![Purpose::Raise; own.len()]);
    if !stages.plan.loopback {
        for path in 0..stages.plan.paths.len() {
            let on_path: Vec<&WorkerPlan> = own.iter().filter(|worker| worker.path == path).collect();
            let streams = streams_of_taker(on_path.len());
            workers.extend(on_path.into_iter().take(streams).cloned());
            purposes.extend(vec![Purpose::Nic; streams]);
        }
    }
    workers.iter_mut().enumerate().for_each(|(index, worker)| worker.index = index);
    (workers, purposes)
}
