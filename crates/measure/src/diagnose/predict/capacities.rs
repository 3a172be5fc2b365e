//! What each resource of a flow can carry: measured where a stage was held by it alone, else declared.

use super::super::cost::CpuCapacity;
use super::super::figures::{Figures, held, holder, workers_rate};
use crate::measure::{LimitedBy, Measurement};
use linerate_facts::protocol::Protocol;
use linerate_facts::units::show_bytes_rate;
use linerate_model::plan::long_path::CongestionControl;
use linerate_model::plan::{Burst, Goal, Origin, Plan, Resource, ResourceKind, memory_touches};
use linerate_model::verdict::thresholds::{
    FAR_SECONDS, LINK_NEARLY_FULL, LOSS_AGREES_FROM, LOSS_AGREES_TO, LOST,
};
use linerate_model::verdict::{full_of_interrupts, is_nearly_full_of_interrupts};

/// Losses that would let a flow keep so many times what it moves are not what holds it.
const MORE_THAN_MOVED: f64 = 1.25;

/// Samples wider apart than this have no middle that binds a flow: what the device did in the best of them it
/// can do.
const WILD_SPREAD: f64 = 0.5;

/// Figures of one NIC nearer than this are the same.
const NEARLY: f64 = 1.07;

/// A resource of the plan; what is not a number in a file that somebody edited is unknown.
pub(super) fn declared(resource: &Resource) -> Resource {
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
pub(in crate::diagnose) fn scaled(figure: &Measurement, rate: f64) -> Option<[f64; 2]> {
    let [low, high] = figure.interval?;
    let of = |end: f64| end * rate / figure.bytes_per_second;
    Some([of(low), of(high)]).filter(|ends| ends.iter().all(|end| end.is_finite()))
}

pub(in crate::diagnose) fn set_measured(resource: &mut Resource, rate: f64) {
    resource.interval = None;
    resource.capacity = rate;
    resource.measured = Some(rate);
    resource.origin = Origin::Measured;
    resource.lower_bound = false;
    resource.why = None;
}

pub(in crate::diagnose) fn set_lower_bound(resource: &mut Resource, rate: f64, why: String) {
    set_measured(resource, rate);
    resource.lower_bound = true;
    resource.why = Some(why);
}

/// A disk by its figure alone, unless that is wild; else by its workers' part of all together.
pub(super) fn set_disk(resource: &mut Resource, plan: &Plan, figures: &Figures) {
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
pub(super) fn hold_to_what_lasts(resource: &mut Resource, plan: &Plan) {
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
pub(super) fn set_nic(resource: &mut Resource, plan: &Plan, figures: &Figures, protocol: Protocol) {
    let files = || [false, true].into_iter();
    let only = plan.paths.iter().all(|path| path.resource == resource.id);
    let part = |figure: &Measurement| {
        let part = workers_rate(figure, |worker| worker.path.as_deref() == Some(&resource.id));
        // Workers have one rate over all of the time.
        let lasting = figure.burst.as_ref().and_then(|_| workers_rate(figure, |_| true));
        let lasting = lasting.map_or(1.0, |mean| figure.bytes_per_second / mean);
        let bytes_per_second = only.then_some(figure.bytes_per_second).or(part.map(|part| part * lasting))?;
        let interval = scaled(figure, bytes_per_second);
        Some(Measurement { bytes_per_second, interval, ..figure.clone() })
    };
    let together = files().filter_map(|file| figures.networks_together(protocol, file).and_then(part));
    let alone = files().filter_map(|file| figures.network_alone(&resource.id, protocol, file).cloned());
    let figures = together.chain(alone).map(|figure| match is_full_link(&figure, figures, protocol) {
        true => Measurement { held_by: None, lower_bound: false, ..figure },
        false => figure,
    });
    let figures: Vec<Measurement> = figures.collect();
    let lasting = figures.iter().filter(|figure| figure.burst.is_some());
    if let Some(figure) = lasting.min_by(|a, b| a.bytes_per_second.total_cmp(&b.bytes_per_second)) {
        // What it did before its credits were spent it does not do for long.
        return apply(resource, Some(figure));
    }
    let (limited, free) = by_interrupts(figures.into_iter().partition(held));
    let best = |all: &[Measurement]| {
        all.iter().max_by(|a, b| a.bytes_per_second.total_cmp(&b.bytes_per_second)).cloned()
    };
    let in_rounds = free.iter().find(|figure| figure.together && !figure.with_file).cloned();
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

/// At least as fast as the other one, as nearly as two figures of one NIC are known.
fn near(one: &Measurement, other: &Measurement) -> bool {
    one.bytes_per_second * NEARLY >= other.bytes_per_second
}

/// The CPU of the interrupts that held a NIC from memory held it beside a file, too, where it was as fast and that CPU
/// nearly as full: such figures are limited ones.
fn by_interrupts(
    (mut limited, free): (Vec<Measurement>, Vec<Measurement>),
) -> (Vec<Measurement>, Vec<Measurement>) {
    let from_memory = limited.iter().find(|figure| !figure.with_file).cloned();
    let (same, free): (Vec<_>, Vec<_>) = free.into_iter().partition(|figure| {
        from_memory.as_ref().is_some_and(|held| near(held, figure) && by_the_same_interrupts(held, figure))
    });
    limited.extend(same.into_iter().map(|figure| Measurement { lower_bound: true, ..figure }));
    (limited, free)
}

/// One was held by a CPU of either host that is full of interrupts, and in the other one this CPU is nearly full of
/// them.
fn by_the_same_interrupts(measurement: &Measurement, other: &Measurement) -> bool {
    let cpus = |figure: &Measurement| match measurement.held_by {
        Some(LimitedBy::Cpu) => figure.cpu_by_core.clone(),
        Some(LimitedBy::Peer) => {
            figure.receiver.as_ref().map(|it| it.cpu_by_core.clone()).unwrap_or_default()
        }
        _ => Vec::new(),
    };
    let full = full_of_interrupts(&cpus(measurement));
    full.is_some_and(|(core, _)| {
        cpus(other).iter().any(|cpu| cpu.core == core && is_nearly_full_of_interrupts(cpu))
    })
}

/// A window of TCP, or loss, that limited the network is what limits all NICs together. Full links lose packets,
/// too, and many at a time: there the loss is an effect.
pub(super) fn hold_network(
    resources: &mut Vec<Resource>,
    figures: &Figures,
    protocol: Protocol,
    congestion_control: &CongestionControl,
) {
    let Some(figure) = figures.whole_network(protocol, false) else { return };
    let (kind, id) = match figure.held_by {
        Some(LimitedBy::Window) => (ResourceKind::Window, format!("window:{protocol}")),
        Some(LimitedBy::Loss) if are_full(resources, figure) == Some(true) => return,
        Some(LimitedBy::Loss) if is_full_link(figure, figures, protocol) => return,
        Some(LimitedBy::Loss) if losses_explain(figure) == Some(false) => return,
        Some(LimitedBy::Loss) => (ResourceKind::Loss, format!("loss:{protocol}")),
        _ => return,
    };
    let Some(cpu) = resources.iter().position(|resource| resource.kind == ResourceKind::Cpu) else { return };
    let mut limit = Resource::unknown(id, kind, "");
    apply(&mut limit, Some(&Measurement { held_by: None, lower_bound: false, ..figure.clone() }));
    if kind == ResourceKind::Loss {
        hold_to_what_is_kept(&mut limit, figure, congestion_control);
    }
    limit.next = std::mem::replace(&mut resources[cpu].next, vec![limit.id.clone()]);
    resources.insert(cpu + 1, limit);
}

/// Samples of a flow that losses by chance hold wander by more than a factor of two; how many of its segments were
/// lost says better what the next flow will do.
fn hold_to_what_is_kept(limit: &mut Resource, figure: &Measurement, congestion_control: &CongestionControl) {
    let tcp = figure.evidence().tcp;
    let Some((flow, segment)) = tcp.lossy(congestion_control).zip(tcp.segment_bytes) else { return };
    let sampled = figure.bytes_per_second * figure.seconds / segment;
    let Some(kept) = flow.kept(figure.bytes_per_second, sampled) else { return };
    set_measured(limit, kept.bytes_per_second);
    (limit.measured, limit.interval) = (Some(figure.bytes_per_second), Some(kept.interval));
    limit.why = Some(format!(
        "{} losses in {:.0} segments by the response function of {}, joined with the samples",
        flow.loss.losses,
        flow.loss.segments,
        congestion_control.response_source()
    ));
}

/// All that arrives is written by the sink of the other host, where that stores. Gives its id.
pub(super) fn hold_to_sink(resources: &mut Vec<Resource>, figures: &Figures) -> Option<String> {
    let figure = figures.sink_alone()?;
    let cpu = resources.iter().position(|resource| resource.kind == ResourceKind::Cpu)?;
    let mut sink = Resource::unknown(figure.resource.clone(), ResourceKind::Disk, "");
    apply(&mut sink, Some(figure));
    sink.next = std::mem::replace(&mut resources[cpu].next, vec![sink.id.clone()]);
    resources.insert(cpu + 1, sink);
    Some(figure.resource.clone())
}

/// A flow that is to move no more than so much.
pub(super) fn hold_to_demand(resources: &mut Vec<Resource>, goal: &Goal) {
    let Some(limit) = goal.rate_limit.filter(|limit| limit.is_finite() && *limit > 0.0) else { return };
    let Some(cpu) = resources.iter().position(|resource| resource.kind == ResourceKind::Cpu) else { return };
    let mut demand = Resource::unknown("demand:rate-limit", ResourceKind::Demand, "--rate-limit");
    (demand.capacity, demand.origin, demand.rated) = (limit, Origin::Rated, Some(limit));
    demand.next = std::mem::replace(&mut resources[cpu].next, vec![demand.id.clone()]);
    resources.insert(cpu + 1, demand);
}

/// The links carry what they can: by their rates; where one is not known, by the queue before them. None: neither
/// says it.
pub(in crate::diagnose) fn are_full(resources: &[Resource], figure: &Measurement) -> Option<bool> {
    let nics = resources.iter().filter(|resource| resource.kind == ResourceKind::Nic);
    let links: Option<f64> = nics.map(|nic| nic.effective).sum();
    let by_rate = links.map(|links| figure.bytes_per_second >= LINK_NEARLY_FULL * links);
    by_rate.or_else(|| figure.evidence().tcp.queue_stands(figure.bytes_per_second))
}

/// A link drops what its queue has no room for, many at a time, and is not full while that is sent again.
pub(in crate::diagnose) fn loses_in_bursts(flow: &Measurement) -> bool {
    let tcp = flow.evidence().tcp;
    let many = tcp.retransmit_share.is_some_and(|share| share >= LOST);
    is_far(flow) && many && tcp.loses_in_bursts(flow.bytes_per_second)
}

/// Its way is so long that a queue, slow start and losses can be told apart.
pub(in crate::diagnose) fn is_far(flow: &Measurement) -> bool {
    flow.evidence().tcp.least_round_trip_seconds.is_some_and(|trip| trip >= FAR_SECONDS)
}

/// The losses that were counted one by one let a far flow keep no more than it moves; false where they let it keep
/// clearly more, so that something else holds it. None: nobody counted, or it cannot be told.
pub(in crate::diagnose) fn losses_explain(flow: &Measurement) -> Option<bool> {
    let tcp = flow.evidence().tcp;
    // No other control that answers losses keeps more.
    let lossy = tcp.lossy(&CongestionControl::Cubic)?;
    let moved = MORE_THAN_MOVED * flow.bytes_per_second;
    let keeps_more = lossy.keeps_at_least().is_some_and(|least| least > moved);
    let explains = lossy.response().is_some_and(|kept| kept <= moved);
    (keeps_more || explains).then_some(explains)
}

/// Loss is not what limits this flow: its own queue drops, or more streams carry no more.
fn is_full_link(flow: &Measurement, figures: &Figures, protocol: Protocol) -> bool {
    overflows(flow) || flow.held_by == Some(LimitedBy::Loss) && is_filled(flow, figures, protocol)
}

/// In the trials of numbers of streams more than were taken carried no more, and the flow carries as much: losses by
/// chance would let more streams carry more.
fn is_filled(flow: &Measurement, figures: &Figures, protocol: Protocol) -> bool {
    let trials = figures.path(protocol).map_or(&[][..], |path| &path.stream_trials);
    let Some(taken) = trials.iter().find(|trial| trial.chosen && trial.streams > 1) else { return false };
    let more = trials.iter().filter(|trial| trial.streams > taken.streams);
    let most = more.map(|trial| trial.bytes_per_second).reduce(f64::max);
    most.is_some_and(|most| taken.bytes_per_second * NEARLY >= most && flow.bytes_per_second * NEARLY >= most)
}

/// It loses so because it is full: whatever it sends again, it carries the same in each round, with a queue before it or
/// losses of many at a time. What packets lost at random leave of a flow wanders, and no queue stands.
fn overflows(flow: &Measurement) -> bool {
    let within = |from: f64, to: f64| {
        let rate = flow.bytes_per_second;
        flow.interval.is_some_and(|[low, high]| low >= from * rate && high <= to * rate)
    };
    let queue = flow.evidence().tcp.queue_stands(flow.bytes_per_second);
    flow.held_by == Some(LimitedBy::Loss)
        && (loses_in_bursts(flow) && within(LOSS_AGREES_FROM, LOSS_AGREES_TO)
            || is_far(flow) && queue != Some(false) && within(1.0 / NEARLY, NEARLY))
}

/// All-core copy counts each byte once and moves it twice; a flow's byte moves `touches` times.
pub(super) fn set_memory(
    resource: &mut Resource,
    figures: &Figures,
    goal: &Goal,
    plan: &Plan,
    protocol: Protocol,
) {
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

pub(super) fn set_cpu(resource: &mut Resource, cpu: &Result<CpuCapacity, &'static str>) {
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
pub(super) fn set_receiver(resource: &mut Resource, plan: &Plan, figures: &Figures, protocol: Protocol) {
    let by_peer = |figure: &&Measurement| matches!(figure.held_by, Some(LimitedBy::Peer | LimitedBy::Sender));
    let leads_here =
        |nic: &str| plan.paths.iter().any(|path| path.resource == nic && path.receiver == resource.id);
    let only = plan.paths.iter().all(|path| path.receiver == resource.id);
    let part = |figure: &Measurement| {
        let of_workers = workers_rate(figure, |worker| worker.path.as_deref().is_some_and(leads_here));
        let rate = if only { Some(figure.bytes_per_second) } else { of_workers }?;
        Some((rate, scaled(figure, rate)))
    };
    // That without a file is of the same rounds as the path; the other one of a few windows before them.
    let both = [false, true].into_iter().filter_map(|file| figures.networks_together(protocol, file));
    let together = both.filter(by_peer).find_map(part);
    let alone =
        figures.network(protocol, false).filter(|figure| !figure.together && leads_here(&figure.resource));
    let most = alone.filter(by_peer).map(|figure| figure.bytes_per_second).fold(0.0, f64::max);
    // Together at most as much as one path alone reached without the receiver being the limit says nothing
    // about it.
    let not_together = figures.networks_together(protocol, false).is_none();
    if let Some((rate, interval)) = together.or((not_together && most > 0.0).then_some((most, None))) {
        set_measured(resource, rate);
        resource.interval = interval;
    }
}
