//! The plan's resources with measured capacities in place of declared ones, and the flow that they allow; what devices
//! share is found by measuring them alone and together.
//!
//! A stage that something else held (the CPU, its quota, the generator, the receiver) says nothing about the
//! device: then the device keeps its effective figure, or, where there is none, has the measured one as a
//! lower bound that never binds.

pub(super) mod capacities;

use super::cost::{CpuCapacity, cpu_capacity};
use super::figures::{Figures, flagged, held, workers_rate};
use super::product::Achieved;
use crate::measure::statistics::{Interval, middle_of_pairs};
use crate::measure::{CUT_SHORT, Measurement};
pub(super) use capacities::{are_full, is_far, loses_in_bursts, losses_explain};
use capacities::{
    declared, hold_network, hold_to_demand, hold_to_sink, hold_to_what_lasts, scaled, set_cpu, set_disk,
    set_measured, set_memory, set_nic, set_receiver,
};
use linerate_facts::protocol::Protocol;
use linerate_facts::units::show_bytes_rate;
use linerate_machine::probe::Machine;
use linerate_machine::topology::Topology;
use linerate_model::plan::capacity::{Model, Solution};
use linerate_model::plan::long_path::CongestionControl;
use linerate_model::plan::wording::in_words;
use linerate_model::plan::{Bound, Goal, Origin, Plan, Resource, ResourceKind, RunFlow, overrule_links};
use linerate_model::verdict::ReadsEvidence;

/// Devices that together reach less than this share of the sum of each alone share something that binds.
/// Below 0.97 ÷ 1.03: two figures that are each 3 % off do not make a controller.
const SHARED_BELOW: f64 = 0.93;

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
    pub loopback: bool,
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

    /// Why nothing is predicted of a flow that these limit, where only a least is known of them: what lies behind them would
    /// be predicted, and the flow would be said to be a small part of that.
    pub(crate) fn unpredicted(&self, limiting: &[String]) -> Option<Bound> {
        let is_cut = limiting.iter().any(|id| self.solution.cut.contains(id));
        let at_least = |id: &String| self.resource(id).filter(|part| part.lower_bound && !is_cut);
        let why = limiting.iter().find_map(at_least)?.why.as_deref().unwrap_or("not measured");
        let parts: Vec<&str> = limiting.iter().map(String::as_str).collect();
        let why = format!("of {} only a least is known: {why}", in_words(&parts));
        Some(Bound { cut: limiting.to_vec(), ..Bound::unknown(why) })
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
    let mut prediction = Prediction {
        loopback: plan.loopback,
        flow: goal.flow,
        cpu: cpu.ok(),
        protocol,
        resources,
        model,
        solution,
        of_disks,
        sink,
    };
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

/// Devices that did clearly less beside each other than alone.
struct Slowed {
    /// Their ids, and those of the devices that did as much as alone.
    ids: Vec<String>,
    others: Vec<String>,
    /// What they did together, bytes per second, and the sum of each alone.
    together: f64,
    alone: f64,
    interval: Option<[f64; 2]>,
}

/// Disks that together read less than each alone share something; less than 7 % apart, the figure of all
/// together is the better one.
fn share_disks(machine: &Machine, resources: &mut Vec<Resource>, figures: &Figures) {
    let Some(together) = figures.disks_together().filter(|figure| !held(figure)) else { return };
    let of = |id: &str| workers_rate(together, |worker| worker.source == id);
    let Some(slowed) = slowed(resources, ResourceKind::Disk, together, of) else { return };
    let mut controller = slowed.controller("controller:disks", machine);
    let mut last = 0;
    for (at, disk) in resources.iter_mut().enumerate().filter(|(_, one)| slowed.ids.contains(&one.id)) {
        for next in std::mem::replace(&mut disk.next, vec![controller.id.clone()]) {
            if !controller.next.contains(&next) {
                controller.next.push(next);
            }
        }
        last = at;
    }
    resources.insert(last + 1, controller);
}

/// NICs that together send less than each alone share something, too.
fn share_nics(machine: &Machine, resources: &mut Vec<Resource>, figures: &Figures, protocol: Protocol) {
    let together = [false, true].into_iter().filter_map(|file| figures.networks_together(protocol, file));
    let carried = together.filter(|figure| !held(figure));
    let Some(together) = carried.max_by(|a, b| a.bytes_per_second.total_cmp(&b.bytes_per_second)) else {
        return;
    };
    let of = |id: &str| workers_rate(together, |worker| worker.path.as_deref() == Some(id));
    let Some(slowed) = slowed(resources, ResourceKind::Nic, together, of) else { return };
    let mut controller = slowed.controller("controller:network", machine);
    for resource in resources.iter_mut() {
        let before = resource.next.len();
        resource.next.retain(|next| !slowed.ids.contains(next));
        if resource.next.len() < before {
            resource.next.push(controller.id.clone());
        }
    }
    controller.next.clone_from(&slowed.ids);
    let first = resources.iter().position(|resource| slowed.ids.contains(&resource.id)).unwrap_or(0);
    resources.insert(first, controller);
}

/// Which devices, all of them measured, reach clearly less together than alone; `part` is what one did beside the
/// others. Else their capacities are scaled to what they reached together, if that is near.
fn slowed(
    resources: &mut [Resource],
    kind: ResourceKind,
    together: &Measurement,
    part: impl Fn(&str) -> Option<f64>,
) -> Option<Slowed> {
    let mut devices: Vec<&mut Resource> =
        resources.iter_mut().filter(|resource| resource.kind == kind).collect();
    let measured = |device: &&mut Resource| device.origin == Origin::Measured && !device.lower_bound;
    if devices.len() < 2 || !devices.iter().all(measured) {
        return None;
    }
    let sum: f64 = devices.iter().map(|device| device.capacity).sum();
    let ratio = together.bytes_per_second / sum;
    if (SHARED_BELOW..=1.0 / SHARED_BELOW).contains(&ratio) {
        devices.iter_mut().for_each(|device| set_part(device, device.capacity * ratio, together));
    }
    if ratio >= SHARED_BELOW {
        return None;
    }
    let did = |device: &&mut Resource| part(&device.id).unwrap_or(0.0);
    let fell = |device: &&mut Resource| did(device) < SHARED_BELOW * device.capacity;
    match devices.iter().filter(|device| fell(device)).count() {
        // Nothing says with what a single one shares: it counts by what it did beside the others.
        1 => {
            let device = devices.into_iter().find(|device| fell(device))?;
            let rate = did(&device);
            set_part(device, rate, together);
            None
        }
        // Where no part says which, all of them.
        0 => Some(Slowed::of(&devices, &[], together.bytes_per_second, together)),
        _ => {
            let (less, others): (Vec<_>, Vec<_>) = devices.into_iter().partition(fell);
            let rate = if others.is_empty() { together.bytes_per_second } else { less.iter().map(did).sum() };
            Some(Slowed::of(&less, &others, rate, together))
        }
    }
}

/// A device that does this much of what all did together.
fn set_part(device: &mut Resource, rate: f64, together: &Measurement) {
    set_measured(device, rate);
    device.interval = scaled(together, rate);
}

impl Slowed {
    fn of(less: &[&mut Resource], others: &[&mut Resource], rate: f64, together: &Measurement) -> Slowed {
        let ids = |devices: &[&mut Resource]| devices.iter().map(|device| device.id.clone()).collect();
        Slowed {
            ids: ids(less),
            others: ids(others),
            together: rate,
            alone: less.iter().map(|device| device.capacity).sum(),
            interval: scaled(together, rate),
        }
    }

    /// What they share, by the machine's tree where that shows it.
    fn controller(&self, id: &str, machine: &Machine) -> Resource {
        let names = |ids: &'_ [String]| -> Vec<String> {
            ids.iter()
                .map(|id| id.split_once(':').map_or(id.as_str(), |(_, name)| name).to_string())
                .collect()
        };
        let (own, others) = (names(&self.ids), names(&self.others));
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        let others: Vec<&str> = others.iter().map(String::as_str).collect();
        let shared = Topology::new(machine).shared_by(&own, &others);
        let shared = shared.map_or("a controller or a link".into(), |shared| shared.to_string());
        let ids: Vec<&str> = self.ids.iter().map(String::as_str).collect();
        let why = format!(
            "what {} share, {shared} (together {}, one by one {})",
            in_words(&ids),
            show_bytes_rate(self.together),
            show_bytes_rate(self.alone)
        );
        Resource {
            capacity: self.together,
            origin: Origin::Measured,
            measured: Some(self.together),
            interval: self.interval,
            ..Resource::unknown(id, ResourceKind::Controller, why)
        }
    }
}
