//! What the shares say.

use super::estimate::{CarryOver, NoShare, ResourceShare, ShareReport};
use super::fit::Estimate;
use super::record::{LEAST_SLOTS, ShareRecord, TARGET_HALF_WIDTH};
use crate::plan::ResourceKind;

/// A share above this, beyond doubt, is the bottleneck's; all others lie below it, or below that share.
const LIMITS: f64 = 0.5;
/// A share above this, beyond doubt, is a share.
const MATTERS: f64 = 0.2;
/// A member of a pool whose share is within this of its part of the work is as full as the others.
const PART_OF_WORK: f64 = 0.05;
/// Shares that add up to less than this leave something out.
const COMPLETE: f64 = 0.8;
/// A setting that raises the flow by more than this part of it, beyond doubt, limits it.
const RAISES: f64 = 0.1;
/// Half of the interval to which the effect of a setting is to be known.
const RAISE_HALF_WIDTH: f64 = 0.05;
/// What is busy for less than this part of the time has room, and nothing needs to be taken from it.
const IDLE: f64 = 0.2;
/// A disk that pauses for this part of the time has room even for what costs it more than the taker does.
const HAS_ROOM: f64 = 0.5;
/// A window this near to a whole number of periods is one.
const NEARLY_WHOLE: f64 = 0.02;

/// What limits the flow, as far as taking can say.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// A flat statement.
    Measured(ShareLimit),
    /// Each of these (indexes of resources) has a share beyond doubt, and none has all of it: all must be raised.
    Tie(Vec<usize>),
    /// Nothing that was taken and nothing that was raised matters: demand, or what nobody took from.
    NothingFull,
    Undecided(Undecided),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareLimit {
    /// Index of the resource.
    Resource(usize),
    /// Like parts, none of which stands out: index of the pool.
    Pool(usize),
    /// Raising this setting (index) raises the flow, whatever is full beside it.
    Setting(usize),
}

/// Why the shares decide nothing; what is *observed* says more.
#[derive(Clone, Debug, PartialEq)]
pub enum Undecided {
    TooFewSlots {
        slots: usize,
        needed: usize,
    },
    /// The slots are too short. Settling and slot are to be doubled.
    CarryOver(CarryOver),
    /// The window is not a whole number of the shaper's periods.
    Aliased {
        window_ms: u32,
        period_ms: u32,
    },
    /// Observation finds these busy, and they could not be taken from.
    NotTaken(Vec<String>),
    /// The resource (index) has a small share, but moved more while it was taken from: the taker may be cheaper than
    /// the flow, so that it may be full all the same.
    CheapTaker(usize),
    /// Intervals of these resources (indexes) are too wide, or hold the threshold.
    Wide(Vec<usize>),
    /// The effect of raising this setting (index) is not known well enough.
    WideSetting(usize),
    /// Together the shares explain too little of the flow, or more than that nothing is full.
    Incomplete,
}

/// What limits the flow, or the subflow that the report is of.
pub fn decide(record: &ShareRecord, report: &ShareReport) -> Decision {
    if report.slots < LEAST_SLOTS {
        let too_few = Undecided::TooFewSlots { slots: report.slots, needed: LEAST_SLOTS };
        return Decision::Undecided(too_few);
    }
    if let Some(period_ms) = record.timing.period_ms.filter(|period| *period > 0) {
        let window_ms = record.timing.window_ms;
        let periods = f64::from(window_ms) / f64::from(period_ms);
        if periods < 1.0 - NEARLY_WHOLE || (periods - periods.round()).abs() > NEARLY_WHOLE * periods {
            return Decision::Undecided(Undecided::Aliased { window_ms, period_ms });
        }
    }
    if let Some(carry_over) = &report.carry_over {
        return Decision::Undecided(Undecided::CarryOver(carry_over.clone()));
    }
    let gains = || report.raised.iter().enumerate().filter_map(|(index, it)| Some((index, it.gain?)));
    let raises = gains().filter(|(_, gain)| gain.low() > RAISES);
    // A setting that raises the flow says so itself, whatever was taken.
    if let Some((index, _)) = raises.max_by(|a, b| a.1.value.total_cmp(&b.1.value)) {
        return Decision::Measured(ShareLimit::Setting(index));
    }
    // Twice of what limits doubles the flow: as a share, what raises it by a tenth is little beside a part that limits.
    let is_little = |(_, gain): (usize, Estimate)| (1.0 + gain.high()).log2() < MATTERS;
    let mut unclear = gains().filter(|(_, gain)| gain.high() > RAISES);
    let taken = by_taking(record, report);
    let decides = matches!(taken, Decision::Measured(_)) && unclear.clone().all(is_little);
    let doubt = unclear.next().filter(|_| !decides);
    doubt.map_or(taken, |(index, _)| Decision::Undecided(Undecided::WideSetting(index)))
}

fn by_taking(record: &ShareRecord, report: &ShareReport) -> Decision {
    let known: Vec<(usize, Estimate)> = known(report).collect();
    let those = |test: &dyn Fn(Estimate) -> bool| -> Vec<usize> {
        known.iter().filter(|(_, share)| test(*share)).map(|(index, _)| *index).collect()
    };
    let limits = those(&|share| share.low() > LIMITS);
    let open = those(&|share| share.low() <= LIMITS && share.high() >= LIMITS);
    let is_sure = |share: Estimate| share.low() > LIMITS || share.half_width <= TARGET_HALF_WIDTH;
    let matters = those(&|share| share.low() > MATTERS && is_sure(share));
    let not_taken = not_taken(record, report);
    let unless_not_taken = |decision: Decision| match not_taken.is_empty() {
        true => decision,
        false => Decision::Undecided(Undecided::NotTaken(not_taken.clone())),
    };
    if let Some(pool) = limiting_pool(report, &known).filter(|pool| none_stands_out(record, report, *pool)) {
        return unless_not_taken(Decision::Measured(ShareLimit::Pool(pool)));
    }
    if let &[index] = limits.as_slice()
        && let Ok(most) = report.resources[index].share
        && open.iter().all(|other| report.resources[*other].share.is_ok_and(|share| is_less(share, most)))
    {
        return unless_not_taken(Decision::Measured(ShareLimit::Resource(index)));
    }
    if let Some(pool) = limiting_pool(report, &known) {
        return unless_not_taken(Decision::Measured(ShareLimit::Pool(pool)));
    }
    // All that is open has a share: how large does not matter any more.
    if matters.len() > 1 && open.iter().all(|index| matters.contains(index)) && is_most(report) {
        return unless_not_taken(Decision::Tie(matters));
    }
    if !open.is_empty() {
        return Decision::Undecided(Undecided::Wide(open));
    }
    let nothing_matters = matters.is_empty() && report.sum.is_none_or(|sum| sum.high() < COMPLETE);
    match known.iter().find(|(index, _)| may_be_cheap(&report.resources[*index])) {
        _ if !nothing_matters => Decision::Undecided(Undecided::Incomplete),
        Some((index, _)) => Decision::Undecided(Undecided::CheapTaker(*index)),
        None => unless_not_taken(Decision::NothingFull),
    }
}

fn known(report: &ShareReport) -> impl Iterator<Item = (usize, Estimate)> {
    report.resources.iter().enumerate().filter_map(|(index, it)| Some((index, it.share.ok()?)))
}

/// The shares together are more than half of the flow.
fn is_most(report: &ShareReport) -> bool {
    report.sum.is_some_and(|sum| sum.low() > LIMITS)
}

/// Beyond doubt, and by so much that it is not a tie. Masks are on and off independently of each other, so errors are, too.
fn is_less(share: Estimate, most: Estimate) -> bool {
    most.low() > LIMITS && most.value - share.value - most.half_width.hypot(share.half_width) > MATTERS
}

/// Like parts whose share together is above the threshold, while all other resources lie below.
fn limiting_pool(report: &ShareReport, known: &[(usize, Estimate)]) -> Option<usize> {
    let is_limiting = |pool: &super::estimate::PoolShare| {
        let mut others = known.iter().filter(|(index, _)| !pool.members.contains(index));
        pool.share.low() > LIMITS
            && others.all(|(_, share)| share.high() < LIMITS || is_less(*share, pool.share))
    };
    report.pools.iter().position(is_limiting)
}

/// Each member has as much of the pool's share as it does of the pool's work: all are full, and the largest is no more
/// the limit than the others.
fn none_stands_out(record: &ShareRecord, report: &ShareReport, pool: usize) -> bool {
    let pool = &report.pools[pool];
    let work = |index: usize| {
        let own = |slot: &super::record::SlotRecord| {
            let of = |amounts: &[u64]| amounts.get(index).copied().unwrap_or(0);
            of(&slot.counted.used).saturating_sub(of(&slot.counted.taken)) as f64
        };
        record.slots.iter().map(own).sum::<f64>()
    };
    let all: f64 = pool.members.iter().map(|index| work(*index)).sum();
    pool.members.iter().all(|index| {
        let expected = pool.share.value * work(*index) / all.max(1.0);
        let is_as_expected =
            |share: Estimate| (share.value - expected).abs() <= share.half_width + PART_OF_WORK;
        report.resources[*index].share.is_ok_and(is_as_expected)
    })
}

/// What was busy, or may have been, and has no share.
fn not_taken(record: &ShareRecord, report: &ShareReport) -> Vec<String> {
    let may_be_busy = |it: &&ResourceShare| {
        let is_unknown = it.share.is_err_and(|why| why != NoShare::Unused);
        is_unknown && it.busy.is_none_or(|busy| busy >= IDLE)
    };
    let unknown = report.resources.iter().filter(may_be_busy).map(|it| it.id.clone());
    record.busy_untaken.iter().cloned().chain(unknown).collect()
}

/// A busy disk that moved more while it was taken from: a request's cost depends on more than its bytes.
fn may_be_cheap(resource: &ResourceShare) -> bool {
    let is_disk =
        matches!(resource.kind, ResourceKind::Disk | ResourceKind::Volume | ResourceKind::Controller);
    let rises = resource.rise.is_some_and(|rise| rise.low() > 0.0);
    is_disk && rises && resource.busy.is_none_or(|busy| busy >= HAS_ROOM)
}

/// Whether taking may end: asked at the ends of cycles only, with the report of this one and of the one before.
pub fn may_stop(before: &ShareReport, now: &ShareReport) -> bool {
    now.slots >= LEAST_SLOTS && is_narrow(before) && is_narrow(now)
}

/// All that is known is known well enough, or does not matter beside what is.
pub fn is_narrow(report: &ShareReport) -> bool {
    let has_fit = report.sum.is_some() || report.raised.iter().any(|it| it.gain.is_some());
    let is_known = |share: &Estimate| share.half_width <= TARGET_HALF_WIDTH;
    let most =
        known(report).map(|(_, share)| share).filter(is_known).max_by(|a, b| a.value.total_cmp(&b.value));
    let mut gains = report.raised.iter().filter_map(|it| it.gain);
    has_fit
        && known(report).all(|(_, share)| is_known(&share) || most.is_some_and(|most| is_less(share, most)))
        && gains.all(|gain| gain.half_width <= RAISE_HALF_WIDTH || gain.high() < RAISES)
}
