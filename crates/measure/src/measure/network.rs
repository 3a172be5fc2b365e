//! The network stage (memory and cached file to the peers) and the path stage (disks to the peers): one kind
//! of flow, three sources.

use super::Stages;
use super::flow::{Flow, WorkerSource};
use super::peers::Peers;
use super::product::Stage;
use super::streams::{MethodTrial, StreamBench, StreamDirection, StreamsJob, compare_congestion_controls};
use super::transfer;
use super::window::WindowSpec;
use linerate_facts::protocol::Protocol;
use linerate_model::plan::WorkerPlan;
use linerate_model::plan::long_path::LossCount;
use linerate_model::plan::schedule::{alone_disks, alone_paths};
use std::time::Duration;

/// Measures for each protocol what is measured once: each path alone, where there are several, and all of them
/// with a cached file behind.
pub(crate) fn measure_once(stages: &mut Stages<'_>, peers: &mut Peers) {
    let paths = stages.plan.paths.len();
    if paths == 0 {
        return;
    }
    let comes_in = stages.goal.flow.receives();
    if comes_in {
        stages.round_trip_seconds = peers.round_trip_seconds();
    }
    for protocol in stages.goal.protocols.clone() {
        let mut trials = congestion_controls(stages, peers, protocol);
        let memory = memory_of(stages);
        let alone = alone_paths(stages.plan).filter(|_| paths > 1).map(|path| (Some(path), memory));
        // Of what comes in no file is behind.
        let cached = [(None, WorkerSource::Cached)].into_iter().filter(|_| !comes_in);
        for (group, behind) in alone.chain(cached).collect::<Vec<_>>() {
            if stages.stopped() {
                return;
            }
            let flow = network_flow(stages, group, protocol, behind);
            if group.is_some() && !stages.has_time_for(flow.windows) {
                stages.leave_out(&format!("{} {}", flow.stage, flow.name));
                continue;
            }
            measure_flow(stages, peers, flow, &mut trials);
        }
    }
}

/// Whose memory a flow without disks starts in.
fn memory_of(stages: &Stages<'_>) -> WorkerSource {
    if stages.goal.flow.receives() { WorkerSource::Peer } else { WorkerSource::Memory }
}

/// Of the time for all measurements, what comparing congestion controls may take.
const OF_BUDGET: f64 = 0.2;

/// A short A/B before the figures, where the user has named none: on some systems the default is several
/// times slower than another.
fn congestion_controls(stages: &mut Stages<'_>, peers: &Peers, protocol: Protocol) -> Vec<MethodTrial> {
    let named = stages.goal.congestion_control.is_some() || stages.goal.flow.receives();
    if protocol != Protocol::Tcp || named || stages.stopped() {
        return Vec::new();
    }
    let mut bench = StreamBench {
        sysroot: stages.sysroot,
        machine: stages.machine,
        paths: &stages.plan.paths,
        sessions: peers.sessions(),
        loopback: stages.plan.loopback,
        bind_device: false,
        trace_drops: false,
        rate_limit: stages.goal.rate_limit,
        idle: stages.goal.idle,
        windows: windows(stages, stages.plan.schedule.alone_seconds),
        losses: LossCount::default(),
        opened: Vec::new(),
        stop: stages.stop,
        listener: &mut *stages.listener,
    };
    let most_seconds = (stages.goal.budget_seconds - stages.goal.experiment_seconds()) * OF_BUDGET;
    let job = StreamsJob::plain(protocol, StreamDirection::Send);
    let compared = compare_congestion_controls(&mut bench, &job, most_seconds);
    compared.unwrap_or_else(|why| {
        stages.note(format!("{why}: left out; linerate network does it, and so does a longer --budget"));
        Vec::new()
    })
}

/// All NICs from memory: a round's turn.
pub(super) fn all_paths(stages: &Stages<'_>, protocol: Protocol) -> Flow {
    network_flow(stages, None, protocol, memory_of(stages))
}

/// All workers from end to end: a round's turn.
pub(super) fn whole_path(stages: &Stages<'_>, protocol: Protocol) -> Flow {
    Flow {
        stage: Stage::Path,
        name: protocol.to_string(),
        resource: "all".into(),
        workers: stages.workers_of(protocol).to_vec(),
        protocol,
        behind: if stages.goal.flow.receives() { WorkerSource::Peer } else { WorkerSource::Disk },
        together: true,
        windows: windows(stages, stages.plan.schedule.path_seconds),
    }
}

/// The disk of the peer's sink alone, written as the path writes it: a round's turn; none where nothing is stored, or
/// where the user bounds what is moved: the peer's writer knows nothing of that.
pub(super) fn sink_alone(stages: &Stages<'_>, peers: &Peers) -> Option<Flow> {
    let session = peers.sessions().first().filter(|_| stages.goal.writes_sink_alone())?;
    let hello = session.hello();
    let disk = hello.sink.as_ref().and_then(|sink| sink.disk.as_deref()).unwrap_or("sink");
    Some(Flow {
        stage: Stage::Disk,
        name: format!("write {disk} on {}", hello.host),
        resource: format!("{}/disk:{disk}", hello.host),
        workers: stages.workers_of(Protocol::Tcp).to_vec(),
        protocol: Protocol::Tcp,
        behind: WorkerSource::Sink,
        together: false,
        windows: windows(stages, stages.plan.schedule.together_seconds),
    })
}

/// The disks of this host in which a flow that comes in is stored, written alone as it writes them: one of them, or all;
/// none where there is none.
pub(super) fn written_disks(stages: &Stages<'_>, only: Option<&str>, seconds: f64) -> Option<Flow> {
    let of = |worker: &WorkerPlan| stages.plan.sources[worker.source].resource.as_str();
    let mut workers: Vec<WorkerPlan> = stages.plan.workers.clone();
    workers.retain(|worker| of(worker).starts_with("disk:") && only.is_none_or(|only| of(worker) == only));
    let first = of(workers.first().filter(|_| stages.goal.flow.receives())?).to_string();
    let one = workers.iter().all(|worker| of(worker) == first);
    let name = match (one, only) {
        (_, Some(only)) => format!("write {} alone", stages.short_name(only)),
        (true, None) => format!("write {}", stages.short_name(&first)),
        (false, None) => "write all disks".to_string(),
    };
    Some(Flow {
        stage: Stage::Disk,
        name,
        resource: if one { first } else { "all".into() },
        workers,
        protocol: Protocol::Tcp,
        behind: WorkerSource::Written,
        together: only.is_none(),
        windows: windows(stages, seconds),
    })
}

/// Each disk of a flow that comes in written alone, where there are several.
pub(crate) fn write_alone(stages: &mut Stages<'_>, peers: &mut Peers) {
    let disks = alone_disks(stages.plan);
    for disk in disks.iter().filter(|_| disks.len() > 1) {
        let seconds = stages.plan.schedule.alone_seconds;
        let Some(flow) = written_disks(stages, Some(disk), seconds) else { continue };
        if stages.stopped() {
            return;
        }
        if !stages.has_time_for(flow.windows) {
            stages.leave_out(&format!("{} {}", flow.stage, flow.name));
            continue;
        }
        measure_flow(stages, peers, flow, &mut Vec::new());
    }
}

fn windows(stages: &Stages<'_>, seconds: f64) -> WindowSpec {
    let schedule = stages.plan.schedule;
    WindowSpec {
        // TCP and the UDP window find their rate in the warm-up.
        warm_up: Duration::from_secs_f64(schedule.warm_up_seconds),
        window: Duration::from_secs_f64(seconds),
        repeats: schedule.repeats.max(1),
    }
}

/// The flow over one path, or over all of them (`None`).
fn network_flow(stages: &Stages<'_>, path: Option<usize>, protocol: Protocol, behind: WorkerSource) -> Flow {
    let schedule = stages.plan.schedule;
    let only = path.or((stages.plan.paths.len() == 1).then_some(0));
    let mut workers = stages.workers_of(protocol).to_vec();
    workers.retain(|worker| path.is_none_or(|path| worker.path == path));
    let kind = if behind == WorkerSource::Cached { ", cached file" } else { "" };
    let name = match (path, only) {
        (Some(path), _) => format!("{} {protocol} alone{kind}", stages.plan.paths[path].name),
        (None, Some(path)) => format!("{} {protocol}{kind}", stages.plan.paths[path].name),
        (None, None) => format!("all paths {protocol}{kind}"),
    };
    Flow {
        stage: Stage::Network,
        name,
        resource: only.map_or("all".into(), |path| stages.plan.paths[path].resource.clone()),
        workers,
        protocol,
        behind,
        together: path.is_none(),
        windows: windows(
            stages,
            match (path, behind) {
                (None, WorkerSource::Memory | WorkerSource::Peer) => schedule.together_seconds,
                _ => schedule.alone_seconds,
            },
        ),
    }
}

/// `tried`: goes with the first figure.
fn measure_flow(stages: &mut Stages<'_>, peers: &mut Peers, flow: Flow, trials: &mut Vec<MethodTrial>) {
    if stages.sink_failed && flow.stores(stages.goal) {
        return;
    }
    stages.started(flow.stage, &flow.name, flow.windows);
    let label = flow.failing();
    match transfer::observe(stages, peers, &flow) {
        Ok(Some(observed)) => {
            let mut measurement = transfer::describe(stages, &flow, &observed);
            measurement.congestion_controls = std::mem::take(trials);
            stages.measured(measurement);
        }
        Ok(None) => {}
        Err(why) => {
            // Workers that did not start leave the test open at the agents, which then refuse the next.
            peers.close();
            stages.failed(format!("{label}: {why}"));
        }
    }
}
