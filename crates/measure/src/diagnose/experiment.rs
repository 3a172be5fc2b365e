//! What limits a flow by experiment: what it lost while a little of each resource was taken from it. Where that decides,
//! nothing need be inferred from waits and from stages that were measured at other moments.

use super::bottleneck;
use super::certainty::part_kinds;
use super::figures::{Figures, workers_rate};
use super::findings::SlowTwin;
use super::predict::{DiskLimit, Prediction};
use super::product::{Bottleneck, ShareFigure};
use linerate_facts::units::show_bytes_rate;
use linerate_model::plan::ResourceKind;
use linerate_model::plan::wording::in_words;
use linerate_model::shares::{
    Decision, PoolShare, RaiseEffect, ResourceShare, ShareLimit, ShareRecord, ShareReport, TakenResource,
    Undecided, decide, estimate, planned_id,
};
use linerate_model::verdict::{Judgement, Limit, LimitKind, Verdict, share_sentence};

/// A disk that reads less than this part of what it reads alone, beside others that are full with it, shares with them
/// what limits them.
const BESIDE_OTHERS: f64 = 0.85;

/// A share that lies below this has room, whatever else is known.
const HAS_ROOM: f64 = 0.5;

/// The shares of a flow, and what limits it with them.
pub(super) struct Measured {
    pub verdict: Verdict,
    pub bottleneck: Bottleneck,
    pub shares: Vec<ShareFigure>,
}

/// What was taken from this path, where anything was; `inferred` is what its waits and its stages say, `shown` what it
/// showed from within.
pub(super) fn measured(
    prediction: &Prediction,
    figures: &Figures,
    twins: &[SlowTwin],
    shown: &Judgement,
    inferred: impl FnOnce() -> (Verdict, Bottleneck),
) -> Option<Measured> {
    let path = figures.path(prediction.protocol)?;
    let record = path.experiment.as_deref()?;
    let found = SharesVerdict::of(record, &costs(prediction, figures, record));
    let flow = prediction.achieved(figures).sentence_of(prediction.flow);
    let (verdict, bottleneck) = match found.limit.clone() {
        Some(mut limit) => {
            let shared = shared(figures, prediction, &limit);
            if shared.is_some() {
                limit.kind = LimitKind::Controller;
            }
            let held = shown.limit().filter(|held| limit.kind == LimitKind::Pipeline && holds_streams(held));
            limit.kind = held.map_or(limit.kind, Limit::kind);
            let held = held.map(|held| format!("What holds each stream: {}.", held.clause(false)));
            // Of what is slower than its like nothing is to be bought.
            let unlike = twins.iter().find(|twin| limit.ids.contains(&twin.id)).map(SlowTwin::sentence);
            let (headroom, gain) = headroom(prediction, &limit, path.bytes_per_second).unzip();
            let sentence = found.sentence.clone();
            let sentences = flow
                .into_iter()
                .chain([sentence])
                .chain(shared.or(held))
                .chain(unlike.or(headroom))
                .collect();
            (limit.verdict, Bottleneck::new(limit.kind, limit.ids, sentences, gain.unwrap_or(0.0)))
        }
        None => found.beside(inferred(), flow),
    };
    Some(Measured { verdict, bottleneck, shares: found.shares })
}

/// More streams raise the flow because each has a window, or losses, of its own.
fn holds_streams(limit: &Limit) -> bool {
    matches!(limit.kind(), LimitKind::Window | LimitKind::Loss)
}

/// What a byte of each resource cost the CPUs of this host while nothing else was moved, in nanoseconds.
fn costs(prediction: &Prediction, figures: &Figures, record: &ShareRecord) -> Vec<Option<f64>> {
    let protocol = prediction.protocol;
    let alone = |resource: &TakenResource| match resource.kind {
        ResourceKind::Cpu => None,
        ResourceKind::Nic => {
            let nic = figures.network_alone(&resource.id, protocol, false);
            nic.or_else(|| figures.whole_network(protocol, false))
        }
        _ => figures.disk_alone(&resource.id).or_else(|| figures.whole_disk()),
    };
    // CPU seconds of 10⁹ bytes are nanoseconds of one.
    let cost = |resource| Some(alone(resource)?.busy_seconds_per_gb).filter(|nanos| *nanos > 0.0);
    record.taken.iter().map(cost).collect()
}

/// What the shares of a flow say by themselves.
pub struct SharesVerdict {
    pub shares: Vec<ShareFigure>,
    /// What was taken, what that cost, and what follows.
    pub sentence: String,
    /// None: they decide nothing.
    pub limit: Option<MeasuredLimit>,
    report: ShareReport,
    decision: Decision,
    /// Of which pool each is.
    pools: Vec<Option<String>>,
}

impl SharesVerdict {
    /// `costs`: CPU nanoseconds of a byte of each resource, where they are known.
    pub fn of(record: &ShareRecord, costs: &[Option<f64>]) -> Self {
        let report = estimate(record, costs);
        let decision = decide(record, &report);
        let raised = report.raised.iter().map(raise_figure);
        let together = report.pools.iter().map(|pool| pool_figure(&report, pool));
        SharesVerdict {
            shares: together.chain(report.resources.iter().map(share_figure)).chain(raised).collect(),
            sentence: share_sentence(record, &report, &decision),
            limit: limit(&report, &decision),
            pools: record.taken.iter().map(|taken| taken.pool.clone()).collect(),
            report,
            decision,
        }
    }

    /// The shares decide nothing: what is inferred stands, with why nothing was measured, unless a share says that it has
    /// room. `flow`: what it moves.
    pub fn beside(
        &self,
        (verdict, inferred): (Verdict, Bottleneck),
        flow: Option<String>,
    ) -> (Verdict, Bottleneck) {
        if self.have_room(&inferred.resources) {
            let sentences = flow.into_iter().chain([self.sentence.clone()]).collect();
            return (Verdict::Unexplained, Bottleneck::new(LimitKind::Unknown, Vec::new(), sentences, 0.0));
        }
        let Bottleneck { kind, resources, mut sentences, gain, .. } = inferred;
        sentences.push(self.sentence.clone());
        (verdict, Bottleneck::new(kind, resources, sentences, gain))
    }

    /// One of these has room, by its share.
    fn have_room(&self, resources: &[String]) -> bool {
        use Undecided::{Aliased, CarryOver, TooFewSlots};
        let shares_hold =
            !matches!(self.decision, Decision::Undecided(TooFewSlots { .. } | CarryOver(_) | Aliased { .. }));
        // Its small share may be the taker's price.
        let is_in_doubt = |at: usize| self.decision == Decision::Undecided(Undecided::CheapTaker(at));
        // Like parts that are all full have a part of the share each; where one of them is not known, nor is their share.
        let share = |at: usize| match &self.pools[at] {
            Some(_) => {
                self.report.pools.iter().find(|pool| pool.members.contains(&at)).map(|pool| pool.share)
            }
            None => self.report.resources[at].share.ok(),
        };
        let has_room = |id: &String| {
            let of_it = (0..self.report.resources.len())
                .filter(|at| self.report.resources[*at].ids().contains(id) && !is_in_doubt(*at));
            of_it.filter_map(share).any(|share| share.high() < HAS_ROOM)
        };
        shares_hold && resources.iter().any(has_room)
    }
}

/// What is inferred, and why nothing was taken from this path, where something was to be.
pub(super) fn with_reason(inferred: Bottleneck, prediction: &Prediction, figures: &Figures) -> Bottleneck {
    let path = figures.path(prediction.protocol);
    let Some(why) = path.and_then(|path| path.no_experiment.as_deref()) else { return inferred };
    let Bottleneck { kind, resources, mut sentences, gain, .. } = inferred;
    sentences.push(format!("Not measured: {why}."));
    Bottleneck::new(kind, resources, sentences, gain)
}

/// What the shares say limits.
#[derive(Clone, Debug)]
pub struct MeasuredLimit {
    pub verdict: Verdict,
    pub kind: LimitKind,
    pub ids: Vec<String>,
}

/// None: the shares alone decide nothing.
fn limit(report: &ShareReport, decision: &Decision) -> Option<MeasuredLimit> {
    let of = |resources: &[usize], verdict| {
        let largest = |at: &&usize| report.resources[**at].share.map_or(0.0, |share| share.value);
        let first = resources.iter().max_by(|a, b| largest(a).total_cmp(&largest(b)))?;
        Some(MeasuredLimit {
            verdict,
            kind: LimitKind::from(report.resources[*first].kind),
            ids: resources
                .iter()
                .flat_map(|at| report.resources[*at].ids())
                .map(|id| planned_id(id))
                .collect(),
        })
    };
    match decision {
        Decision::Measured(ShareLimit::Resource(one)) => of(&[*one], Verdict::Confirmed),
        Decision::Measured(ShareLimit::Pool(pool)) => {
            of(&report.pools.get(*pool)?.members, Verdict::Confirmed)
        }
        Decision::Measured(ShareLimit::Setting(_)) => {
            Some(MeasuredLimit { verdict: Verdict::Confirmed, kind: LimitKind::Pipeline, ids: Vec::new() })
        }
        Decision::Tie(all) => of(all, Verdict::Tie),
        Decision::NothingFull | Decision::Undecided(_) => None,
    }
}

/// Disks that limit the flow together, while one of them alone reads clearly more than beside the others: what they
/// share limits them, of which nobody takes.
fn shared(figures: &Figures, prediction: &Prediction, limit: &MeasuredLimit) -> Option<String> {
    if limit.kind != LimitKind::Disk || limit.ids.len() < 2 {
        return None;
    }
    let beside = [figures.disks_together(), figures.path(prediction.protocol)];
    let part = |id: &str| {
        let rates = beside.iter().flatten().filter_map(|all| workers_rate(all, |worker| worker.source == id));
        rates.reduce(f64::max)
    };
    limit.ids.iter().find_map(|id| {
        let (alone, part) = (figures.disk_alone(id)?, part(id)?);
        let at_least = alone.interval.map_or(alone.bytes_per_second, |[low, _]| low);
        (part < BESIDE_OTHERS * at_least).then(|| {
            format!(
                "What {} shares with others limits it: alone it reads {}, beside them {}.",
                in_words(&[id]),
                show_bytes_rate(alone.bytes_per_second),
                show_bytes_rate(part)
            )
        })
    })
}

/// What raises the flow, and by how much at least; none where all must be raised, or nothing else is known.
fn headroom(prediction: &Prediction, limit: &MeasuredLimit, flow: f64) -> Option<(String, f64)> {
    let of_parts = part_kinds(prediction, &limit.ids).pop().filter(|_| limit.verdict != Verdict::Tie)?;
    let kind = if limit.kind == LimitKind::Controller { ResourceKind::Controller } else { of_parts };
    let lifted = prediction.model.solve_without(&limit.ids);
    let next = lifted.bytes_per_second.known().filter(|_| !lifted.cut.is_empty())?.max(flow);
    let sentence = bottleneck::headroom(prediction, kind, &DiskLimit::Disks, &limit.ids, flow, &lifted);
    Some((sentence + ".", next - flow))
}

fn share_figure(one: &ResourceShare) -> ShareFigure {
    let (resource, members) = (one.id.clone(), one.members.clone());
    let figure = ShareFigure { resource, members, taken: one.taken, ..ShareFigure::default() };
    match one.share {
        Ok(share) => {
            ShareFigure { share: Some(share.value), interval: Some([share.low(), share.high()]), ..figure }
        }
        Err(why) => ShareFigure { why: Some(why.to_string()), ..figure },
    }
}

/// What like parts have together.
fn pool_figure(report: &ShareReport, pool: &PoolShare) -> ShareFigure {
    let members = pool.members.iter().flat_map(|index| report.resources[*index].ids()).cloned().collect();
    let PoolShare { name, share, taken, .. } = pool;
    let interval = Some([share.low(), share.high()]);
    ShareFigure {
        resource: name.clone(),
        members,
        share: Some(share.value),
        interval,
        taken: *taken,
        why: None,
    }
}

fn raise_figure(raised: &RaiseEffect) -> ShareFigure {
    let figure = ShareFigure { resource: format!("raise:{}", raised.id), ..ShareFigure::default() };
    match raised.gain {
        Some(gain) => {
            ShareFigure { share: Some(gain.value), interval: Some([gain.low(), gain.high()]), ..figure }
        }
        None => figure,
    }
}
