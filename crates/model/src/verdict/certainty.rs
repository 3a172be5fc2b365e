//! How sure it is what limits a flow: what the parts predict against what the flow itself showed.
//!
//! The prediction is made before the flow is looked at, and never changed by it. What the flow waited for, whose
//! CPUs were full, what TCP was held by must agree with it. How near the flow came to the prediction is judged
//! afterwards, and can only take certainty away.

use super::limit::{Judgement, Limit, LimitKind};
use super::thresholds::*;
use serde::{Deserialize, Serialize};

/// How sure it is what limits the flow. Only `Confirmed` is a flat statement.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr, strum::Display,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Verdict {
    /// What the flow showed agrees with what its parts predict.
    Confirmed,
    /// Two limits that the measurements cannot tell apart.
    Tie,
    /// The flow showed another limit than its parts predict.
    Contradicted,
    /// The flow showed no limit, or too little was measured, or the prediction is far off.
    #[default]
    Unexplained,
}

/// Why a verdict is not confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// The whole flow was not measured.
    NotMeasured,
    /// Fewer rounds than an interval needs.
    FewRounds { measured: u32 },
    /// Other programs had a part of what the flow needs.
    Others,
    /// The limiting part's own figure is not to be trusted.
    Untrusted(Distrust),
    /// The flow shows no limit.
    NothingSeen,
    /// It agrees, but the flow did less, or more, than the part allows.
    Ratio,
    /// It agrees, and so may what the flow did, but that lies no closer than between these shares of what the part did
    /// in the same rounds, percent.
    Unsteady { low: u32, high: u32 },
}

/// Why a figure is not that of the part itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distrust {
    /// The device read less than was read of it.
    Cache,
    /// Nothing counts what the device reads itself.
    Uncounted,
    /// What was read again came faster than at first.
    FasterAgain,
    /// All of it was read again: a cache below it cannot be ruled out.
    NoFirstReading,
    /// Packets were lost, and a link of unknown rate may have been full.
    MaybeFull,
    /// linerate's own pace may have been the limit.
    OwnPace,
    /// CPUs were busy with work of processes that cannot be seen.
    HiddenProcesses,
}

/// What the parts predict.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Claim<'a> {
    /// Kind of what limits.
    pub kind: LimitKind,
    /// It is the sink of the other host.
    pub of_sink: bool,
    /// Kinds of other limits whose interval meets this one's.
    pub tied: &'a [LimitKind],
    /// Rounds that were measured, and rounds that a figure needs.
    pub rounds: u32,
    pub least_rounds: u32,
    /// Why the limiting part's figure may not be trusted; none: it may.
    pub distrust: Option<Distrust>,
    /// Achieved ÷ predicted; none where the flow was not measured.
    pub of_predicted: Option<f64>,
    /// Its 95 % interval, over rounds.
    pub of_predicted_interval: Option<[f64; 2]>,
    /// What other programs took of the CPUs and disks that the flow needs can explain some of its rate.
    pub others: bool,
    /// A part that has two rates (a bucket of credits that fills while it rests) gives this many times what is
    /// predicted of it, which is what lasts; 1: it has one.
    pub burst: f64,
}

/// The verdict over a claim, from what the flow showed; with what speaks against certainty.
pub fn verdict(claim: &Claim<'_>, flow: &Judgement) -> (Verdict, Option<Doubt>) {
    // A flow that has what it asked for, or all that its NIC carries, lacks nothing that others took.
    let lacks_nothing =
        matches!(claim.kind, LimitKind::Demand | LimitKind::Nic) && flow.kind() == Some(claim.kind);
    if claim.others && !lacks_nothing {
        return (Verdict::Unexplained, Some(Doubt::Others));
    }
    let Some(ratio) = claim.of_predicted else {
        return (Verdict::Unexplained, Some(Doubt::NotMeasured));
    };
    if claim.rounds < claim.least_rounds {
        return (Verdict::Unexplained, Some(Doubt::FewRounds { measured: claim.rounds }));
    }
    let Some(limit) = flow.limit() else { return (Verdict::Unexplained, Some(Doubt::NothingSeen)) };
    let same_end = matches!(limit, Limit::Stored { .. }) == claim.of_sink;
    let agrees_tied = claim.tied.iter().any(|kind| agrees(*kind, limit));
    if !(agrees_tied || same_end && agrees(claim.kind, limit)) {
        return (Verdict::Contradicted, None);
    }
    if !claim.tied.is_empty() {
        return (Verdict::Tie, None);
    }
    if let Some(why) = claim.distrust {
        return (Verdict::Unexplained, Some(Doubt::Untrusted(why)));
    }
    let near = match claim.kind {
        kind if kind.is_of_cpu() || limit.is_small_window() => CPU_AGREES_FROM..=CPU_AGREES_TO,
        LimitKind::Loss => LOSS_AGREES_FROM..=LOSS_AGREES_TO,
        _ => AGREES_FROM..=AGREES_TO * claim.burst.max(1.0),
    };
    if !near.contains(&ratio) {
        let meets = |[low, high]: &[f64; 2]| *low <= *near.end() && *high >= *near.start();
        let doubt = claim.of_predicted_interval.filter(meets).map(|[low, high]| {
            let percent = |share: f64| (share * 100.0).round() as u32;
            Doubt::Unsteady { low: percent(low), high: percent(high) }
        });
        return (Verdict::Unexplained, Some(doubt.unwrap_or(Doubt::Ratio)));
    }
    (Verdict::Confirmed, None)
}

/// What the flow showed is what this kind of limit looks like from within.
fn agrees(kind: LimitKind, limit: &Limit) -> bool {
    use LimitKind as K;
    let shown = limit.kind();
    // A full link loses packets.
    let full = |part: &Limit| matches!(part, Limit::Retransmits { .. });
    let sink = matches!(
        limit, Limit::Sink { part, .. } | Limit::Incoming { part, .. } if part.as_deref().is_none_or(full)
    );
    match kind {
        // How busy disks are below a volume is near the threshold at times.
        K::Disk | K::Controller | K::Volume => matches!(shown, K::Disk | K::Volume),
        K::Pipeline => matches!(shown, K::Pipeline | K::Disk),
        K::Nic => shown == K::Nic || sink,
        // On either side of memory.
        K::Pcie | K::SocketLink => {
            matches!(limit, Limit::Source { .. } | Limit::Written { .. }) || shown == K::Nic || sink
        }
        // A CPU that waits for memory counts as busy.
        K::Memory => matches!(shown, K::Memory | K::Cpu),
        K::Cpu => matches!(shown, K::Cpu | K::Quota | K::Steal),
        K::Others => matches!(shown, K::Others | K::Cpu),
        K::Steal => matches!(shown, K::Steal | K::Cpu),
        // Not by what nothing of this host explains alone.
        K::Receiver | K::Sender => shown == kind && !sink,
        _ => shown == kind,
    }
}
