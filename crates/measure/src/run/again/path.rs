//! The whole path in windows: the workers of a run, from the disk to the peer.

use super::super::interrupt::cut_at_stop;
use super::super::scratch::ScratchSpec;
use super::super::{paths, sources};
use super::{FigureContext, FigureSpec, PreparedFigure, ProcessOptions};
use crate::event::Silent;
use crate::measure::{Measurements, Peers, Stage, Stages, measure};
use linerate_facts::failure::Failure;
use linerate_facts::protocol::Protocol;
use linerate_model::plan::{Goal, Plan, plan};
use linerate_transport::agent::AgentSession;

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
pub(super) fn with<T>(
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
    let mut prepared = paths::prepare(sysroot, machine, &goal.peers, spec.key_file.as_deref(), stop)?;
    let scratch = sources::scratch_directories(&goal);
    let found = sources::prepare(sysroot, machine, &goal, &scratch, ScratchSpec::default(), stop)?;
    let loopback = paths::all_over_loopback(machine, &prepared.plans);
    let plan = plan(machine, &goal, found.plans.clone(), std::mem::take(&mut prepared.plans), loopback);
    let peers = Peers::new(std::mem::take(&mut prepared.sessions), &plan.paths);
    let cutters = peers.sessions().iter().filter_map(AgentSession::cutter).collect();
    cut_at_stop(cutters, stop, || Ok(work(&mut PathWorkers { place, goal, plan, peers })))
}
