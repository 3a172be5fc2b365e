//! The plan's resources with measured capacities in place of declared ones, and the flow that they allow.
//!
//! A stage that something else held (the CPU, its quota, the generator, the receiver) says nothing about the
//! device: then the device keeps its effective figure, or, where there is none, has the measured one as a
//! lower bound that never binds.

use super::cost::{CpuCapacity, cpu_capacity};
use super::figures::{Figures, flagged, held, holder, workers_rate};
use super::product::Achieved;
use super::shared::{share_disks, share_nics};
use crate::measure::interval::Interval;
use crate::measure::statistics::middle_of_pairs;
use crate::measure::{CUT_SHORT, LimitedBy, Measurement};
use linerate_facts::protocol::Protocol;
use linerate_facts::units::show_bytes_rate;
use linerate_machine::probe::Machine;
use linerate_model::plan::capacity::{Model, Solution};
use linerate_model::plan::{
    Bound, Burst, Goal, Origin, Plan, Resource, ResourceKind, RunFlow, memory_touches, overrule_links,
};
use linerate_model::verdict::ReadsEvidence;
use linerate_model::verdict::thresholds::{FAR_SECONDS, LOST};

/// Samples wider apart than this have no middle that binds a flow: what the device did in the best of them it
/// can do.
const WILD_SPREAD: f64 = 0.5;

/// A link that carries this share of what it can may lose packets because it is full.
const NEARLY_FULL: f64 = 0.9;
/// Figures of one NIC nearer than this are the same.
const NEARLY: f64 = 1.07;

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
        match self.of_rounds(figures, &self.solution.cut).map(|limiting| by_rounds(path, limiting)) {
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

    /// The model in which every part carries at least what the path carried through it: for what would come
    /// next, never for what is predicted.
    pub(crate) fn carried(&self, figures: &Figures) -> Model {
        let mut resources = self.resources.clone();
        let (path, flow) = (figures.path(self.protocol), self.solution.bytes_per_second.known().copied());
        let share =
            path.zip(flow).filter(|(_, flow)| *flow > 0.0).map(|(path, flow)| path.bytes_per_second / flow);
        for resource in &mut resources {
            let through = self.solution.through.get(&resource.id).copied().unwrap_or(0.0);
            let carried = share.map_or(0.0, |share| through * share);
            resource.capacity = if resource.capacity > 0.0 { resource.capacity.max(carried) } else { 0.0 };
        }
        Model::new(&resources)
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
    hold_network(&mut resources, figures, protocol);
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

/// A resource of the plan; what is no number in a file that somebody edited is unknown.
fn declared(resource: &Resource) -> Resource {
    let sane = |rate: &f64| rate.is_finite() && *rate >= 0.0;
    let mut resource = resource.clone();
    resource.rated = resource.rated.filter(sane);
    resource.effective = resource.effective.filter(sane);
    resource.measured = None;
    if !sane(&resource.capacity) {
        resource.capacity = 0.0;
        resource.origin = Origin::Unknown;
        resource.why = Some("the plan holds no number".into());
    }
    resource
}

/// Samples so far apart say little: a throttled device that was held up catches up in one of them.
fn wild(figure: &Measurement) -> bool {
    figure.spread > WILD_SPREAD
}

/// Sets a device's capacity from its own measurement.
fn apply(resource: &mut Resource, figure: Option<&Measurement>) {
    let Some(figure) = figure else { return };
    let rate = figure.bytes_per_second;
    if !held(figure) {
        set_measured(resource, rate);
        resource.interval = scaled(figure, rate);
        if wild(figure) {
            resource.why = Some(format!("its samples are {:.0} % apart", figure.spread * 100.0));
        }
        return;
    }
    resource.measured = Some(rate);
    let at_least = format!("measured ≥ {}, {}", show_bytes_rate(rate), holder(figure));
    match resource.effective.or(resource.rated).filter(|declared| *declared >= rate) {
        Some(declared) => {
            resource.capacity = declared;
            resource.why = Some(at_least);
        }
        None => set_lower_bound(resource, rate, at_least),
    }
}

/// The interval of a figure of which the resource's rate is a part.
pub(super) fn scaled(figure: &Measurement, rate: f64) -> Option<[f64; 2]> {
    let [low, high] = figure.interval?;
    let of = |end: f64| end * rate / figure.bytes_per_second;
    Some([of(low), of(high)]).filter(|ends| ends.iter().all(|end| end.is_finite()))
}

pub(super) fn set_measured(resource: &mut Resource, rate: f64) {
    resource.interval = None;
    resource.capacity = rate;
    resource.measured = Some(rate);
    resource.origin = Origin::Measured;
    resource.lower_bound = false;
    resource.why = None;
}

pub(super) fn set_lower_bound(resource: &mut Resource, rate: f64, why: String) {
    set_measured(resource, rate);
    resource.lower_bound = true;
    resource.why = Some(why);
}

/// A disk by its figure alone, unless that is wild; else by its workers' part of all together.
fn set_disk(resource: &mut Resource, plan: &Plan, figures: &Figures) {
    let alone = figures.disk_alone(&resource.id);
    if let Some(alone) = alone.filter(|alone| !wild(alone)) {
        return apply(resource, Some(alone));
    }
    let together = figures.disks_together().and_then(|together| {
        let only = plan.sources.iter().all(|source| source.resource == resource.id);
        let part = workers_rate(together, |worker| worker.source == resource.id);
        let bytes_per_second = only.then_some(together.bytes_per_second).or(part)?;
        Some(Measurement {
            bytes_per_second,
            interval: scaled(together, bytes_per_second),
            ..together.clone()
        })
    });
    apply(resource, together.as_ref().or(alone));
}

/// A disk whose writing emptied a bucket that reads may be paid from, too: its samples are of moments in which
/// some of it had come back.
fn hold_to_what_lasts(resource: &mut Resource, plan: &Plan) {
    let own = plan.sources.iter().filter(|source| source.resource == resource.id);
    let bursts = own.map(|source| source.writing.as_ref()?.burst_of_reads());
    let Some(bursts) = bursts.collect::<Option<Vec<_>>>().filter(|all| !all.is_empty()) else { return };
    let sum = |of: fn(&Burst) -> f64| bursts.iter().copied().map(of).sum::<f64>();
    let lasts = sum(|burst| burst.sustained_bytes_per_second);
    if lasts > 0.0 && lasts.is_finite() && resource.origin == Origin::Measured && resource.capacity > lasts {
        let measured = resource.measured;
        set_measured(resource, lasts);
        resource.measured = measured;
        resource.why = Some(format!(
            "written at {}, then at {}: what lasts counts",
            show_bytes_rate(sum(|burst| burst.burst_bytes_per_second)),
            show_bytes_rate(lasts)
        ));
    }
}

/// A NIC by what it carried in the rounds, unless it did clearly more alone; of figures that something else
/// limited only where nothing else is known, or where they are clearly above the rest.
fn set_nic(resource: &mut Resource, plan: &Plan, figures: &Figures, protocol: Protocol) {
    let files = || [false, true].into_iter();
    let only = plan.paths.iter().all(|path| path.resource == resource.id);
    let part = |figure: &Measurement| {
        let part = workers_rate(figure, |worker| worker.path.as_deref() == Some(&resource.id));
        let bytes_per_second = only.then_some(figure.bytes_per_second).or(part)?;
        let interval = scaled(figure, bytes_per_second);
        Some(Measurement { bytes_per_second, interval, ..figure.clone() })
    };
    let together = files().filter_map(|file| figures.networks_together(protocol, file).and_then(part));
    let alone = files().filter_map(|file| figures.network_alone(&resource.id, protocol, file).cloned());
    let (limited, free): (Vec<Measurement>, Vec<Measurement>) = together.chain(alone).partition(held);
    let best = |all: &[Measurement]| {
        all.iter().max_by(|a, b| a.bytes_per_second.total_cmp(&b.bytes_per_second)).cloned()
    };
    let in_rounds = free.iter().find(|figure| figure.together && !figure.with_file).cloned();
    let near =
        |one: &Measurement, other: &Measurement| one.bytes_per_second * NEARLY >= other.bytes_per_second;
    let free = match (in_rounds, best(&free)) {
        (Some(rounds), Some(best)) if near(&rounds, &best) => Some(rounds),
        (_, best) => best,
    };
    let chosen = match (free, best(&limited)) {
        (Some(free), Some(limited)) if !near(&free, &limited) => Some(limited),
        (free, limited) => free.or(limited),
    };
    apply(resource, chosen.as_ref());
}

/// A window of TCP, or loss, that limited the network is what limits all NICs together. Full links lose packets,
/// too, and many at a time: there the loss is an effect.
fn hold_network(resources: &mut Vec<Resource>, figures: &Figures, protocol: Protocol) {
    let Some(figure) = figures.whole_network(protocol, false) else { return };
    let (kind, id) = match figure.held_by {
        Some(LimitedBy::Window) => (ResourceKind::Window, format!("window:{protocol}")),
        Some(LimitedBy::Loss) if are_full(resources, figure) == Some(true) || loses_in_bursts(figure) => {
            return;
        }
        Some(LimitedBy::Loss) => (ResourceKind::Loss, format!("loss:{protocol}")),
        _ => return,
    };
    let Some(cpu) = resources.iter().position(|resource| resource.kind == ResourceKind::Cpu) else { return };
    let mut limit = Resource::unknown(id, kind, "");
    apply(&mut limit, Some(&Measurement { held_by: None, lower_bound: false, ..figure.clone() }));
    limit.next = std::mem::replace(&mut resources[cpu].next, vec![limit.id.clone()]);
    resources.insert(cpu + 1, limit);
}

/// All that arrives is written by the sink of the other host, where that stores. Gives its id.
fn hold_to_sink(resources: &mut Vec<Resource>, figures: &Figures) -> Option<String> {
    let figure = figures.sink_alone()?;
    let cpu = resources.iter().position(|resource| resource.kind == ResourceKind::Cpu)?;
    let mut sink = Resource::unknown(figure.resource.clone(), ResourceKind::Disk, "");
    apply(&mut sink, Some(figure));
    sink.next = std::mem::replace(&mut resources[cpu].next, vec![sink.id.clone()]);
    resources.insert(cpu + 1, sink);
    Some(figure.resource.clone())
}

/// A flow that is to move no more than so much.
fn hold_to_demand(resources: &mut Vec<Resource>, goal: &Goal) {
    let Some(limit) = goal.rate_limit.filter(|limit| limit.is_finite() && *limit > 0.0) else { return };
    let Some(cpu) = resources.iter().position(|resource| resource.kind == ResourceKind::Cpu) else { return };
    let mut demand = Resource::unknown("demand:rate-limit", ResourceKind::Demand, "--rate-limit");
    (demand.capacity, demand.origin, demand.rated) = (limit, Origin::Rated, Some(limit));
    demand.next = std::mem::replace(&mut resources[cpu].next, vec![demand.id.clone()]);
    resources.insert(cpu + 1, demand);
}

/// The links carry what they can: by their rates; where one is not known, by the queue before them. None: neither
/// says it.
pub(super) fn are_full(resources: &[Resource], figure: &Measurement) -> Option<bool> {
    let nics = resources.iter().filter(|resource| resource.kind == ResourceKind::Nic);
    let links: Option<f64> = nics.map(|nic| nic.effective).sum();
    let by_rate = links.map(|links| figure.bytes_per_second >= NEARLY_FULL * links);
    by_rate.or_else(|| figure.evidence().tcp.queue_stands(figure.bytes_per_second))
}

/// A link drops what its queue has no room for, many at a time, and is not full while that is sent again.
pub(super) fn loses_in_bursts(flow: &Measurement) -> bool {
    let tcp = flow.evidence().tcp;
    let far = tcp.least_round_trip_seconds.is_some_and(|trip| trip >= FAR_SECONDS);
    let many = tcp.retransmit_share.is_some_and(|share| share >= LOST);
    far && many && tcp.loses_in_bursts(flow.bytes_per_second)
}

/// All-core copy counts each byte once and moves it twice; a flow's byte moves `touches` times.
fn set_memory(resource: &mut Resource, figures: &Figures, goal: &Goal, plan: &Plan, protocol: Protocol) {
    // As in the network stage of the same rounds: what the path did is not asked.
    let sends = figures.whole_network(protocol, false).and_then(|network| network.zero_copy);
    let copied = sends.map_or(1.0, |sends| sends.copied_share());
    let touches = memory_touches(goal, &plan.sources, plan.loopback, copied);
    let copy = figures.memory("copy all cores").map(|figure| (figure, 2.0));
    let Some((figure, moves)) = copy.or(figures.memory("read all cores").map(|figure| (figure, 1.0))) else {
        return;
    };
    let rate = figure.bytes_per_second * moves / touches;
    let interval = scaled(figure, rate);
    apply(resource, Some(&Measurement { bytes_per_second: rate, interval, ..figure.clone() }));
    if resource.why.is_none() {
        resource.why = Some(format!("{} of the bus ÷ {touches} crossings", show_bytes_rate(rate * touches)));
    }
}

fn set_cpu(resource: &mut Resource, cpu: &Result<CpuCapacity, &'static str>) {
    match cpu {
        Ok(cpu) => {
            set_measured(resource, cpu.bytes_per_second);
            resource.lower_bound = cpu.lower_bound;
            let cost = format!(
                "{} ÷ {:.3} CPU seconds per GB ({})",
                cpu.granted.words(),
                cpu.seconds_per_gb,
                cpu.from
            );
            resource.why = Some(cost);
        }
        Err(why) => resource.why = Some(why.to_string()),
    }
}

/// The other host, where it held the network stage, takes or gives what it took then, over all paths that lead to it.
fn set_receiver(resource: &mut Resource, plan: &Plan, figures: &Figures, protocol: Protocol) {
    let by_peer = |figure: &&Measurement| matches!(figure.held_by, Some(LimitedBy::Peer | LimitedBy::Sender));
    let leads_here =
        |nic: &str| plan.paths.iter().any(|path| path.resource == nic && path.receiver == resource.id);
    let only = plan.paths.iter().all(|path| path.receiver == resource.id);
    let part = |figure: &Measurement| {
        let of_workers = workers_rate(figure, |worker| worker.path.as_deref().is_some_and(leads_here));
        if only { Some(figure.bytes_per_second) } else { of_workers }
    };
    // A starved receiver pays more or less for a byte by how the bytes come, from start to start: the lower
    // figure is sure.
    let both = [true, false].into_iter().filter_map(|file| figures.networks_together(protocol, file));
    let together = both.filter(by_peer).filter_map(part).min_by(f64::total_cmp);
    let alone =
        figures.network(protocol, false).filter(|figure| !figure.together && leads_here(&figure.resource));
    let most = alone.filter(by_peer).map(|figure| figure.bytes_per_second).fold(0.0, f64::max);
    // Together at most as much as one path alone reached without the receiver being the limit says nothing
    // about it.
    let not_together = figures.networks_together(protocol, false).is_none();
    if let Some(rate) = together.or((not_together && most > 0.0).then_some(most)) {
        set_measured(resource, rate);
    }
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
