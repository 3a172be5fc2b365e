//! The plan's resources with measured capacities in place of declared ones, and the flow that they allow.
//!
//! A stage that something else held (the CPU, its quota, the generator, the receiver) says nothing about the
//! device: then the device keeps its effective figure, or, where there is none, has the measured one as a
//! lower bound that never binds.

use super::cost::{CpuCapacity, cpu_capacity};
use super::figures::{Figures, flagged, workers_rate};
use super::product::Achieved;
use super::shared::{share_disks, share_nics};
use crate::measure::interval::Interval;
use crate::measure::statistics::middle_of_pairs;
use crate::measure::{CUT_SHORT, Measurement};
use linerate_facts::protocol::Protocol;
use linerate_machine::probe::Machine;
use linerate_model::plan::capacity::{Model, Solution};
use linerate_model::plan::long_path::CongestionControl;
use linerate_model::plan::{Bound, Goal, Origin, Plan, Resource, ResourceKind, RunFlow, overrule_links};
use linerate_model::verdict::ReadsEvidence;

pub(super) mod capacities;

pub(super) use capacities::{are_full, is_far, loses_in_bursts, losses_explain};
use capacities::{
    declared, hold_network, hold_to_demand, hold_to_sink, hold_to_what_lasts, set_cpu, set_disk, set_memory,
    set_nic, set_receiver,
};

/// What one protocol's flow should be.
#[derive(Clone, Debug)]
pub(super) struct Prediction {
    pub protocol: Protocol,
    pub resources: Vec<Resource>,
    pub model: Model,
    pub solution: Solution,
    pub cpu: Option<CpuCapacity>,
    /// What limits where disks are the cut: they themselves, the volumes, or too few reads in flight.
    pub of_disks: DiskLimit,
    /// The id of the other host's sink, where that stores.
    pub sink: Option<String>,
    /// From where to where.
    pub flow: RunFlow,
}

/// What limits where disks are the smallest part.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum DiskLimit {
    #[default]
    Disks,
    /// Volumes whose disks pause: how many, and how busy the busiest of them is.
    Volumes {
        members: usize,
        busiest: f64,
    },
    Reads(ReadsEvidence),
}

impl Prediction {
    /// What the path did, beside what was predicted.
    pub(crate) fn achieved(&self, figures: &Figures) -> Achieved {
        let Some(path) = figures.path(self.protocol) else { return Achieved::default() };
        let (bytes_per_second, interval) = (path.bytes_per_second, path.interval);
        let predicted = self.solution.bytes_per_second.known().copied().filter(|rate| *rate > 0.0);
        let Some(predicted) = predicted else {
            return Achieved { bytes_per_second, interval, ..Achieved::default() };
        };
        let ratios = self.ratios(figures, path, predicted);
        let of_predicted =
            if ratios.is_empty() { bytes_per_second / predicted } else { middle_of_pairs(&ratios) };
        let of_predicted_interval = Interval::of(&ratios).map(|found| [found.low, found.high]);
        Achieved { bytes_per_second, interval, of_predicted, of_predicted_interval }
    }

    /// Achieved ÷ predicted in each round: what limits was measured in the same round, and had the same
    /// neighbours. Against the one prediction where it was not.
    fn ratios(&self, figures: &Figures, path: &Measurement, predicted: f64) -> Vec<f64> {
        let of_all = path.bytes_per_second / predicted;
        if path.burst.is_some() {
            // Its samples are of two rates, and what lasts is its figure.
            return vec![of_all];
        }
        // Losses by chance come in each round as they will.
        let cut = self.solution.cut.iter().filter_map(|id| self.resource(id));
        let by_chance = cut.map(|part| part.kind).all(|kind| kind == ResourceKind::Loss);
        let beside = self.of_rounds(figures, &self.solution.cut).filter(|_| !by_chance);
        match beside.map(|limiting| by_rounds(path, limiting)) {
            Some(rounds) if !rounds.is_empty() => rounds.into_iter().map(|times| times * of_all).collect(),
            _ => path.samples.iter().map(|rate| rate / predicted).filter(|ratio| ratio.is_finite()).collect(),
        }
    }

    /// The smallest part is the other host's sink.
    pub(crate) fn is_of_sink(&self) -> bool {
        self.sink.as_ref().is_some_and(|sink| self.solution.cut.contains(sink))
    }

    /// The figure of the rounds in which these parts were measured; none for what is reckoned from others.
    pub(crate) fn of_rounds<'a>(&self, figures: &'a Figures, ids: &[String]) -> Option<&'a Measurement> {
        if self.sink.as_ref().is_some_and(|sink| ids.contains(sink)) {
            return figures.sink_alone();
        }
        match ids.iter().find_map(|id| self.resource(id))?.kind {
            ResourceKind::Disk | ResourceKind::Controller => figures.disks_together(),
            ResourceKind::Nic | ResourceKind::Receiver | ResourceKind::Sender => {
                figures.networks_together(self.protocol, false)
            }
            ResourceKind::Window | ResourceKind::Loss => figures.networks_together(self.protocol, false),
            _ => None,
        }
    }

    /// The prediction, with its interval where all of the cut have one.
    pub(crate) fn bound(&self) -> Bound {
        Bound { interval: self.interval_of(&self.solution.cut), ..self.solution.bound() }
    }

    /// Sums of the ends over these resources.
    pub(crate) fn interval_of(&self, ids: &[String]) -> Option<[f64; 2]> {
        let each = ids.iter().map(|id| self.resource(id)?.interval);
        let all = each.collect::<Option<Vec<[f64; 2]>>>().filter(|all| !all.is_empty())?;
        Some([all.iter().map(|ends| ends[0]).sum(), all.iter().map(|ends| ends[1]).sum()])
    }

    /// The flow without what limits it. Interrupts of one core can move to others, which the rest of the work fills.
    pub(crate) fn raised(&self, figures: &Figures) -> Solution {
        self.without_cut(self.carried_resources(figures))
    }

    /// Bytes per second that the flow gains where what limits it is gone.
    pub(crate) fn gain(&self) -> f64 {
        let raised = self.without_cut(self.resources.clone()).bytes_per_second.known().copied();
        let flow = self.solution.bytes_per_second.known().copied();
        raised.zip(flow).map_or(0.0, |(raised, flow)| (raised - flow).max(0.0))
    }

    fn without_cut(&self, mut resources: Vec<Resource>) -> Solution {
        let mut lifted = self.solution.cut.clone();
        if let Some(of_others) = self.other_cores() {
            for cpu in resources.iter_mut().filter(|resource| resource.kind == ResourceKind::Cpu) {
                cpu.capacity = cpu.capacity.max(of_others);
                lifted.retain(|id| *id != cpu.id);
            }
        }
        Model::new(&resources).solve_without(&lifted)
    }

    /// What other cores allow, where one of interrupts is what limits.
    fn other_cores(&self) -> Option<f64> {
        let is_cut = |resource: &&Resource| {
            resource.kind == ResourceKind::Cpu && self.solution.cut.contains(&resource.id)
        };
        self.resources.iter().find(is_cut).and_then(|_| self.cpu.as_ref()?.of_others)
    }

    /// Every part carries at least what the path carried through it: for what would come next, never for what is
    /// predicted.
    fn carried_resources(&self, figures: &Figures) -> Vec<Resource> {
        let mut resources = self.resources.clone();
        let (path, flow) = (figures.path(self.protocol), self.solution.bytes_per_second.known().copied());
        let share =
            path.zip(flow).filter(|(_, flow)| *flow > 0.0).map(|(path, flow)| path.bytes_per_second / flow);
        for resource in &mut resources {
            let through = self.solution.through.get(&resource.id).copied().unwrap_or(0.0);
            let carried = share.map_or(0.0, |share| through * share);
            resource.capacity = if resource.capacity > 0.0 { resource.capacity.max(carried) } else { 0.0 };
        }
        resources
    }

    /// A resource by its id.
    pub(crate) fn resource(&self, id: &str) -> Option<&Resource> {
        self.resources.iter().find(|resource| resource.id == id)
    }
}

/// Measured capacities, the largest flow over them, and how much of each the path used.
pub(super) fn predict(
    machine: &Machine,
    goal: &Goal,
    plan: &Plan,
    figures: &Figures,
    protocol: Protocol,
) -> Prediction {
    let mut resources: Vec<Resource> = plan.resources.iter().map(declared).collect();
    let cpu = cpu_capacity(machine, plan, figures, protocol);
    for resource in &mut resources {
        match resource.kind {
            ResourceKind::Disk => {
                set_disk(resource, plan, figures);
                hold_to_what_lasts(resource, plan);
            }
            ResourceKind::Nic => set_nic(resource, plan, figures, protocol),
            ResourceKind::Memory => set_memory(resource, figures, goal, plan, protocol),
            ResourceKind::Cpu => set_cpu(resource, &cpu),
            ResourceKind::Receiver | ResourceKind::Sender => set_receiver(resource, plan, figures, protocol),
            _ => {}
        }
    }
    share_disks(machine, &mut resources, figures);
    share_nics(machine, &mut resources, figures, protocol);
    hold_network(&mut resources, figures, protocol, &CongestionControl::of(machine, goal));
    let sink = hold_to_sink(&mut resources, figures);
    hold_to_demand(&mut resources, goal);
    overrule_links(&mut resources);
    let model = Model::new(&resources);
    let solution = model.solve();
    let of_sink = sink.as_ref().is_some_and(|sink| solution.cut.contains(sink));
    let of_disks = if of_sink { DiskLimit::Disks } else { of_disks(&solution.cut, figures) };
    let mut prediction =
        Prediction { protocol, resources, model, solution, cpu: cpu.ok(), of_disks, sink, flow: goal.flow };
    set_utilisation(&mut prediction, plan, figures);
    prediction
}

/// What is behind disks that limit: by the trial of reads in flight, and by what the disks below volumes did while the
/// disks were measured.
fn of_disks(cut: &[String], figures: &Figures) -> DiskLimit {
    if let Some(reads) = figures.reads_in_flight().filter(ReadsEvidence::are_too_few) {
        return DiskLimit::Reads(reads);
    }
    let volumes = figures.whole_disk().map(Measurement::volume_evidence).unwrap_or_default();
    let disks = cut.iter().filter_map(|id| id.strip_prefix("disk:"));
    let of = |name: &str| volumes.iter().find(|volume| volume.name == name);
    let paused = disks.map(|name| {
        let volume = of(name)?;
        Some((volume.members.len(), volume.busiest_that_pauses()?))
    });
    let paused = paused.collect::<Option<Vec<(usize, f64)>>>().filter(|all| !all.is_empty());
    paused.map_or(DiskLimit::Disks, |all| DiskLimit::Volumes {
        members: all.iter().map(|(members, _)| members).sum(),
        busiest: all.iter().map(|(_, busiest)| *busiest).fold(0.0, f64::max),
    })
}

/// How many times as much of its own rate as the other of its a figure had in each round that has both; none where
/// a round failed. The path and what limits it have further rounds behind those of all.
pub(super) fn by_rounds(figure: &Measurement, other: &Measurement) -> Vec<f64> {
    let unlike = figure.samples.len() != other.samples.len();
    if unlike && [figure, other].iter().any(|figure| flagged(figure, CUT_SHORT)) {
        return Vec::new();
    }
    let shares = |figure: &Measurement| {
        let whole = figure.bytes_per_second;
        figure.samples.iter().map(|sample| sample / whole).collect::<Vec<f64>>()
    };
    let rounds = shares(figure).into_iter().zip(shares(other));
    rounds.map(|(share, other)| share / other).filter(|times| times.is_finite()).collect()
}

/// How much of each resource the path used: by its workers where they tell, else in proportion to the
/// predicted flow.
fn set_utilisation(prediction: &mut Prediction, plan: &Plan, figures: &Figures) {
    let path = figures.path(prediction.protocol);
    let predicted = prediction.solution.bytes_per_second.known().copied().filter(|rate| *rate > 0.0);
    for resource in &mut prediction.resources {
        let id = resource.id.clone();
        let expected = prediction.solution.through.get(&id).copied();
        let used = match (path, predicted) {
            (Some(path), _) => {
                let of_workers = workers_rate(path, |worker| match resource.kind {
                    ResourceKind::Disk => worker.source == id,
                    ResourceKind::Nic => worker.path.as_deref() == Some(&id),
                    ResourceKind::Receiver | ResourceKind::Sender => {
                        let leads = |nic: &str| {
                            plan.paths.iter().any(|path| path.resource == nic && path.receiver == id)
                        };
                        worker.path.as_deref().is_some_and(leads)
                    }
                    _ => false,
                });
                let part = expected.zip(predicted).map_or(1.0, |(part, whole)| part / whole);
                of_workers.unwrap_or(path.bytes_per_second * part)
            }
            (None, _) => expected.unwrap_or(0.0),
        };
        let binds = resource.capacity > 0.0 && resource.origin != Origin::Unknown;
        resource.utilisation = if binds { (used / resource.capacity).clamp(0.0, 1.0) } else { 0.0 };
    }
}
