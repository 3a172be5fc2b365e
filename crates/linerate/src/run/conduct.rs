//! `linerate run`, from the probe to the diagnosis: each step takes the earlier products, gives one, and is saved.

use super::cut::cut_at_stop;
use super::{Run, paths, sources};
use crate::agent::Session;
use crate::diagnose::diagnose;
use crate::event::{Event, Listener};
use crate::failure::Failure;
use crate::measure::{Measurements, Peers, Stage, Stages, measure};
use crate::plan::{Goal, PathPlan, plan};
use crate::probe::probe;
use crate::sysroot::Sysroot;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// What to do, as far as it is not part of the goal.
#[derive(Clone, Debug)]
pub struct Order {
    /// Stages to measure.
    pub stages: Vec<Stage>,
    /// Directories for scratch files; with no source either, the current one.
    pub scratch: Vec<PathBuf>,
    /// Key of the agents.
    pub key_file: Option<PathBuf>,
    /// io_uring may be used.
    pub io_uring: bool,
}

/// Does the run. A `Failure` means that it could not begin; what fails later is in `Run::errors`. `save` is called after each step;
/// if it fails at first, nothing is measured.
pub fn conduct(
    sysroot: &Sysroot,
    goal: Goal,
    order: &Order,
    stop: &AtomicBool,
    listener: &mut dyn Listener,
    save: &mut dyn FnMut(&Run) -> Result<(), Failure>,
) -> Result<Run, Failure> {
    listener.hear(&Event::Step("probe"));
    let machine = probe(sysroot);
    let wants = |stages: &[Stage]| stages.iter().any(|stage| order.stages.contains(stage));

    // What the user named is checked before anything is written: a wrong name costs no scratch file and no folder.
    let mut ways = paths::Paths::default();
    if wants(&[Stage::Network, Stage::Path]) {
        if let Some(name) = &goal.congestion_control {
            paths::check_congestion_control(sysroot, name)?;
        }
        ways = paths::prepare(sysroot, &machine, &goal.peers, order.key_file.as_deref(), stop)?;
    }
    let scratch = scratch_directories(&goal, order);
    if !scratch.is_empty() {
        listener.hear(&Event::Step("scratch"));
    }
    let found = sources::prepare(sysroot, &machine, &goal, &scratch, stop)?;

    listener.hear(&Event::Step("plan"));
    // An address of this very host leads over loopback, whoever named it: no NIC takes part.
    let own_stack =
        |path: &PathPlan| machine.nics.iter().any(|nic| nic.loopback && path.nic.as_ref() == Some(&nic.name));
    let loopback = !ways.plans.is_empty() && ways.plans.iter().all(own_stack);
    let planned = plan(&machine, &goal, found.plans.clone(), std::mem::take(&mut ways.plans), loopback);
    planned.notes.iter().for_each(|note| listener.hear(&Event::Note(note.clone())));
    let mut run = Run::begin(machine, goal);
    run.plan = Some(planned.clone());
    for scratch in &found.scratch {
        let size = crate::units::show_size(scratch.length_bytes);
        run.changes.push(format!("wrote a scratch file of {size}; it had no name and is gone"));
    }
    save(&run)?;

    listener.hear(&Event::Step("measure"));
    let mut peers = Peers::new(std::mem::take(&mut ways.sessions), &planned.paths);
    let (machine, goal) = (run.machine.clone(), run.goal.clone());
    let mut unsaved = None;
    let mut save_figures = |figures: &Measurements| {
        run.measurements.clone_from(figures);
        unsaved = save(&run).err();
    };
    let stages =
        Stages::new(&machine, &goal, &planned, sysroot, stop, listener, &mut save_figures, order.io_uring);
    let cutters = peers.sessions().iter().filter_map(Session::cutter).collect();
    let measured = cut_at_stop(cutters, stop, || measure(stages, &order.stages, &mut peers));
    run.measurements = measured.measurements;
    run.errors = measured.errors;
    if let Some(plan) = &mut run.plan {
        plan.notes.extend(measured.notes);
    }
    run.errors.extend(unsaved.map(|failure| failure.to_string()));
    if stop.load(Ordering::Relaxed) {
        run.errors.push("interrupted: what was measured until then is here".into());
    }

    listener.hear(&Event::Step("diagnose"));
    run.diagnosis = Some(diagnose(&run.machine, &run.goal, &planned, &run.measurements));
    if let Err(failure) = save(&run) {
        listener.hear(&Event::Failed(failure.to_string()));
        run.errors.push(failure.to_string());
    }
    Ok(run)
}

fn scratch_directories(goal: &Goal, order: &Order) -> Vec<PathBuf> {
    let reads = order.stages.iter().any(|stage| *stage != Stage::Memory);
    if !reads || !goal.sources.is_empty() || !order.scratch.is_empty() {
        return order.scratch.clone();
    }
    vec![Path::new(".").to_path_buf()]
}
