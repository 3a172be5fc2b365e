//! `linerate run`, from the probe to the diagnosis: each step takes the earlier products, gives one, and is
//! saved. What a kept run says of the cost of a worker decides the number of workers of the next one.

use super::context::cut_at_stop;
use super::scratch::ScratchSpec;
use super::{Run, RunContext, ends};
use crate::event::Event;
use crate::measure::{Measurement, Measurements, Peers, Stage, Stages, WorkerResult, measure};
use linerate_facts::failure::Failure;
use linerate_facts::protocol::Protocol;
use linerate_facts::room::StorageLimits;
use linerate_machine::probe::Machine;
use linerate_model::plan::{Goal, PathPlan, RunFlow, SourcePlan, WorkerCost, plan};
use linerate_transport::agent::AgentSession;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// A worker that works for less of its time shows no cost that could be counted on.
const LEAST_CPU_SHARE: f64 = 0.05;

/// What to do, as far as it is not part of the goal.
#[derive(Clone, Debug)]
pub struct RunSpec {
    /// Stages to measure.
    pub stages: Vec<Stage>,
    /// Length of each scratch file; none: what is written in a share of the budget.
    pub scratch_bytes: Option<u64>,
    /// What of the sinks' file systems may be used.
    pub sink_room: StorageLimits,
    /// Key of the agents.
    pub key_file: Option<PathBuf>,
    /// io_uring may be used.
    pub io_uring: bool,
    /// The newest run that is kept of this machine, where there is one: how many workers a NIC gets follows from it.
    pub earlier: fn(&Machine) -> Option<Run>,
}

/// Does the run. A `Failure` means that it could not begin; what fails later is in `Run::errors`. `save` is
/// called after each step; if it fails at first, nothing is measured.
pub fn conduct(mut context: RunContext<'_>, goal: Goal, run_spec: &RunSpec) -> Result<Run, Failure> {
    let machine = context.probe();
    let RunContext { sysroot, stop, .. } = context;
    let wants = |stages: &[Stage]| stages.iter().any(|stage| run_spec.stages.contains(stage));

    // What the user named is checked before anything is written: a wrong name costs no scratch file and no
    // folder.
    let mut prepared = ends::Paths::default();
    if wants(&[Stage::Network, Stage::Path]) {
        // The sender's: where that is the peer, its agent says what it lacks.
        if let Some(name) = goal.congestion_control.as_ref().filter(|_| !goal.flow.receives()) {
            ends::check_congestion_control(sysroot, name)?;
        }
        prepared = ends::prepare_paths(sysroot, &machine, &goal.peers, run_spec.key_file.as_deref(), stop)?;
        if goal.flow == RunFlow::DiskToDisk {
            prepared.check_sink()?;
        }
        if goal.flow.receives() {
            prepared.come_in();
        }
    }
    let reads = run_spec.stages.iter().any(|stage| *stage != Stage::Memory) && !goal.flow.receives();
    let scratch = if reads { ends::scratch_directories(&goal) } else { Vec::new() };
    if scratch.is_empty() && run_spec.scratch_bytes.is_some() {
        return Err(Failure::usage(
            "--amount is the length of scratch files, and there is none here: name --source DIR, or leave it \
             away",
        ));
    }
    if !scratch.is_empty() {
        context.listener.hear(&Event::Step("scratch"));
    }
    let spec = ScratchSpec::new(run_spec.scratch_bytes, &goal);
    let mut found = ends::prepare_sources(sysroot, &machine, &goal, &scratch, spec, stop)?;
    let sinks = ends::prepare_sinks(sysroot, &machine, &goal, run_spec.sink_room)?;
    found.plans.extend(sinks.iter().map(|sink| sink.plan.clone()));
    if goal.flow == RunFlow::NetworkToMemory {
        found.plans.push(SourcePlan::memory());
    }

    context.listener.hear(&Event::Step("plan"));
    let loopback = !prepared.plans.is_empty() && ends::all_over_loopback(&machine, &prepared.plans);
    if !loopback && goal.workers.is_none() && !goal.flow.receives() {
        let earlier = (run_spec.earlier)(&machine);
        earlier.inspect(|run| take_over_costs(run, &machine, &goal, &mut prepared.plans));
    }
    let mut planned =
        plan(&machine, &goal, found.plans.clone(), std::mem::take(&mut prepared.plans), loopback);
    planned.notes.splice(0..0, found.notes.clone());
    planned.notes.iter().for_each(|note| context.listener.hear(&Event::Note(note.clone())));
    context.say_devices(&machine, &planned.paths, &planned.sources);
    let mut run = Run::begin(machine, goal);
    run.plan = Some(planned.clone());
    for scratch in &found.scratch {
        let size = linerate_facts::units::show_size(scratch.length_bytes);
        run.changes.push(format!("wrote a scratch file of {size}; it had no name and is gone"));
    }
    (context.save)(&run)?;

    context.listener.hear(&Event::Step("measure"));
    let mut peers = Peers::new(std::mem::take(&mut prepared.sessions), &planned.paths);
    let (machine, goal) = (run.machine.clone(), run.goal.clone());
    let mut save_figures = |figures: &Measurements| {
        run.measurements.clone_from(figures);
        // Where this fails, so does the save at the end, which is an error of the run.
        let _ = (context.save)(&run);
    };
    let listener = &mut *context.listener;
    let folders: Vec<_> = sinks.iter().map(|sink| Arc::clone(&sink.folder)).collect();
    let mut stages =
        Stages::new(&machine, &goal, &planned, sysroot, stop, listener, &mut save_figures, run_spec.io_uring);
    stages.sinks = &folders;
    let cutters = peers.sessions().iter().filter_map(AgentSession::cutter).collect();
    let measured = cut_at_stop(cutters, stop, || measure(stages, &run_spec.stages, &mut peers));
    run.measurements = measured.measurements;
    run.errors = measured.errors;
    if let Some(plan) = &mut run.plan {
        plan.notes.extend(measured.notes);
        plan.keep_reads(measured.reads);
        if let Some(streams) = measured.streams.filter(|_| run.goal.protocols.first() == Some(&Protocol::Tcp))
        {
            plan.workers = streams.workers;
        }
        for source in measured.spared {
            plan.sources[source].writing.iter_mut().for_each(|writing| writing.spares_reads = true);
        }
    }
    context.note_stop(&mut run);

    context.listener.hear(&Event::Step("diagnose"));
    run.diagnosis = run.diagnose();
    if let Err(failure) = (context.save)(&run) {
        context.listener.hear(&Event::Failed(failure.to_string()));
        run.errors.push(failure.to_string());
    }
    Ok(run)
}

/// The cost of a worker by the id of the NIC that it sent through, from the path of a run; none where a rate limit,
/// idle priority or a flow that came in made it another one.
pub fn worker_costs(run: &Run, protocol: Protocol) -> BTreeMap<String, WorkerCost> {
    let goal = &run.goal;
    if goal.flow.receives() || goal.rate_limit.is_some() || goal.idle {
        return BTreeMap::new();
    }
    let of_protocol =
        |figure: &&Measurement| figure.stage == Stage::Path && figure.protocol == Some(protocol);
    let Some(path) = run.measurements.iter().find(of_protocol) else { return BTreeMap::new() };
    let mut by_nic: BTreeMap<&str, Vec<&WorkerResult>> = BTreeMap::new();
    for worker in &path.workers {
        by_nic.entry(worker.path.as_deref().unwrap_or_default()).or_default().push(worker);
    }
    let peer = path.receiver.as_ref().map_or(0.0, |receiver| receiver.cpu_seconds_per_gb);
    let cost = |workers: &[&WorkerResult]| {
        let sum = |of: fn(&WorkerResult) -> f64| workers.iter().map(|worker| of(worker)).sum::<f64>();
        let (cpu, rate) = (sum(|worker| worker.cpu_share), sum(|worker| worker.bytes_per_second));
        let most = workers.iter().map(|worker| worker.bytes_per_second).fold(0.0, f64::max);
        let own = cpu / rate * 1e9;
        let known = own.is_finite() && own > 0.0 && peer.is_finite() && most.is_finite();
        (known && cpu >= LEAST_CPU_SHARE * workers.len() as f64).then(|| WorkerCost {
            seconds_per_gb: own.max(peer),
            at_peer: peer > own,
            most_bytes_per_second: most,
            started: run.started.clone(),
        })
    };
    let found = by_nic.into_iter().filter(|(nic, _)| !nic.is_empty());
    found.filter_map(|(nic, workers)| Some((nic.to_string(), cost(&workers)?))).collect()
}

/// Gives the paths what an earlier run measured, where that was done as this one will be.
fn take_over_costs(earlier: &Run, machine: &Machine, goal: &Goal, paths: &mut [PathPlan]) {
    let same_way = (earlier.goal.verify, earlier.goal.zero_copy) == (goal.verify, goal.zero_copy);
    let same_cpu = earlier.machine.cpu.model == machine.cpu.model;
    let Some(protocol) = goal.protocols.first().filter(|_| same_way && same_cpu) else { return };
    let costs = worker_costs(earlier, *protocol);
    for path in paths {
        path.worker_cost = costs.get(&path.resource).cloned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::ReceiverResult;
    use linerate_facts::fact::Fact;
    use linerate_testing::{machine, paths};

    fn worker(nic: &str, cpu_share: f64, bytes_per_second: f64) -> WorkerResult {
        WorkerResult { path: Some(nic.into()), cpu_share, bytes_per_second, ..WorkerResult::default() }
    }

    fn run_of(workers: Vec<WorkerResult>, peer_seconds_per_gb: f64) -> Run {
        let receiver =
            ReceiverResult { cpu_seconds_per_gb: peer_seconds_per_gb, ..ReceiverResult::default() };
        let path = Measurement {
            stage: Stage::Path,
            protocol: Some(Protocol::Tcp),
            workers,
            receiver: Some(receiver),
            ..Measurement::default()
        };
        let goal = Goal { protocols: vec![Protocol::Tcp], ..Goal::default() };
        let mut run = Run::begin(machine(4), goal);
        run.measurements = vec![path];
        run
    }

    #[test]
    fn the_dearer_end_of_a_stream_is_its_cost() {
        let workers = vec![
            worker("nic:eth0", 0.5, 1e9),
            worker("nic:eth0", 0.7, 2e9),
            worker("nic:eth1", 0.9, 1e9),
            worker("nic:eth2", 0.01, 1e9),
        ];
        let costs = worker_costs(&run_of(workers, 0.6), Protocol::Tcp);
        let of = |nic: &str| costs.get(nic).map(|cost| (cost.seconds_per_gb, cost.at_peer));
        assert_eq!(of("nic:eth0"), Some((0.6, true)), "0.4 here, 0.6 there");
        assert_eq!(of("nic:eth1"), Some((0.9, false)));
        assert_eq!(of("nic:eth2"), None, "a hundredth of a CPU shows no cost");
        assert_eq!(costs["nic:eth0"].most_bytes_per_second, 2e9);
    }

    #[test]
    fn only_a_run_of_the_same_kind_counts() {
        let run = run_of(vec![worker("nic:eth0", 0.5, 1e9)], 0.0);
        let goal = run.goal.clone();
        let taken = |earlier: &Run, goal: &Goal| {
            let mut paths = paths(2);
            take_over_costs(earlier, &run.machine, goal, &mut paths);
            paths.iter().filter(|path| path.worker_cost.is_some()).count()
        };
        assert_eq!(taken(&run, &goal), 1, "eth1 was not measured");
        assert_eq!(taken(&run, &Goal { verify: true, ..goal.clone() }), 0);
        assert_eq!(taken(&run, &Goal { zero_copy: Some(true), ..goal.clone() }), 0);
        assert_eq!(taken(&run, &Goal { protocols: vec![Protocol::Udp], ..goal.clone() }), 0);
        let mut limited = run.clone();
        limited.goal.rate_limit = Some(1e9);
        assert_eq!(taken(&limited, &goal), 0);
        let mut other = run.clone();
        other.machine.cpu.model = Fact::Known("another CPU".into());
        assert_eq!(taken(&other, &goal), 0);
    }
}
