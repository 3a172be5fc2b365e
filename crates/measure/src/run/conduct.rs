//! `linerate run`, from the probe to the diagnosis: each step takes the earlier products, gives one, and is
//! saved.

use super::interrupt::cut_at_stop;
use super::scratch::ScratchSpec;
use super::sinks;
use super::{Run, RunContext, paths, sources, worker_costs};
use crate::event::Event;
use crate::measure::{Measurements, Peers, Stage, Stages, measure};
use linerate_facts::failure::Failure;
use linerate_facts::protocol::Protocol;
use linerate_facts::room::StorageLimits;
use linerate_machine::probe::Machine;
use linerate_model::plan::{Goal, RunFlow, SourcePlan, plan};
use linerate_transport::agent::AgentSession;
use std::path::PathBuf;
use std::sync::Arc;

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
    let mut prepared = paths::Paths::default();
    if wants(&[Stage::Network, Stage::Path]) {
        // The sender's: where that is the peer, its agent says what it lacks.
        if let Some(name) = goal.congestion_control.as_ref().filter(|_| !goal.flow.receives()) {
            paths::check_congestion_control(sysroot, name)?;
        }
        prepared = paths::prepare(sysroot, &machine, &goal.peers, run_spec.key_file.as_deref(), stop)?;
        if goal.flow == RunFlow::DiskToDisk {
            prepared.check_sink()?;
        }
        if goal.flow.receives() {
            prepared.come_in();
        }
    }
    let reads = run_spec.stages.iter().any(|stage| *stage != Stage::Memory) && !goal.flow.receives();
    let scratch = if reads { sources::scratch_directories(&goal) } else { Vec::new() };
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
    let mut found = sources::prepare(sysroot, &machine, &goal, &scratch, spec, stop)?;
    let sinks = sinks::prepare(sysroot, &machine, &goal, run_spec.sink_room)?;
    found.plans.extend(sinks.iter().map(|sink| sink.plan.clone()));
    if goal.flow == RunFlow::NetworkToMemory {
        found.plans.push(SourcePlan::memory());
    }

    context.listener.hear(&Event::Step("plan"));
    let loopback = !prepared.plans.is_empty() && paths::all_over_loopback(&machine, &prepared.plans);
    if !loopback && goal.workers.is_none() && !goal.flow.receives() {
        let earlier = (run_spec.earlier)(&machine);
        earlier.inspect(|run| worker_costs::take_over(run, &machine, &goal, &mut prepared.plans));
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
    let mut unsaved = None;
    let mut save_figures = |figures: &Measurements| {
        run.measurements.clone_from(figures);
        unsaved = (context.save)(&run).err();
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
    run.errors.extend(unsaved.map(|failure| failure.to_string()));
    context.note_stop(&mut run);

    context.listener.hear(&Event::Step("diagnose"));
    run.diagnosis = run.diagnose();
    if let Err(failure) = (context.save)(&run) {
        context.listener.hear(&Event::Failed(failure.to_string()));
        run.errors.push(failure.to_string());
    }
    Ok(run)
}
