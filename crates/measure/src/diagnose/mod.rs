//! The fourth step, pure: predicted, bottleneck, findings from the machine, the plan and the measurements
//! alone.

mod both_ends;
mod bottleneck;
mod certainty;
mod cost;
mod experiment;
mod figures;
mod findings;
pub mod ledger;
mod others;
mod predict;
mod product;
mod transfer;

use crate::measure::Measurements;
pub use experiment::{MeasuredLimit, SharesVerdict};
use figures::Figures;
pub use findings::disk_findings;
pub use findings::map::map_findings;
pub use findings::{TwinComparison, finding_id};
pub(crate) use findings::{
    burst_of_network, compared_nodes, compared_paths, load_findings, others_findings, slow_nodes, slow_paths,
    stream_findings,
};
use linerate_facts::protocol::Protocol;
use linerate_machine::probe::Machine;
use linerate_model::plan::{Bound, Goal, Plan};
use linerate_model::shares::is_receiver_cpus;
use linerate_model::verdict::thresholds::OTHERS_LIMIT;
use linerate_model::verdict::{Limit, LimitKind, full_of_interrupts};
use predict::{Prediction, predict};
pub use product::*;
pub(crate) use transfer::transfer_diagnosis;
pub use transfer::{judge_transfer, resources as resources_of_limit, transfer_sentence};

/// What the figures mean. Pure: the same file gives the same diagnosis anywhere. Total: measurements that are
/// missing, zero or no numbers leave gaps in the diagnosis and nothing else.
pub fn diagnose(machine: &Machine, goal: &Goal, plan: &Plan, measurements: &Measurements) -> Diagnosis {
    let figures = Figures::new(measurements);
    let mut protocols: Vec<Protocol> = Vec::new();
    for protocol in goal.protocols.iter().copied() {
        if !protocols.contains(&protocol) {
            protocols.push(protocol);
        }
    }
    if protocols.is_empty() {
        protocols.push(Protocol::Tcp);
    }
    let predictions: Vec<Prediction> =
        protocols.iter().map(|protocol| predict(machine, goal, plan, &figures, *protocol)).collect();
    let twins = |prediction: &Prediction| findings::slow_twins(machine, plan, &figures, prediction);
    let by_protocol: Vec<ProtocolDiagnosis> = predictions
        .iter()
        .map(|prediction| {
            let judged = certainty::judged(prediction, plan, &figures);
            let twins = twins(prediction);
            let inferred = || {
                let inferred = bottleneck::bottleneck(prediction, plan, &figures, &judged, &twins);
                (judged.verdict, experiment::with_reason(inferred, prediction, &figures))
            };
            let measured = experiment::measured(prediction, &figures, &twins, &judged.path, inferred);
            let shares = measured.as_ref().map(|measured| measured.shares.clone()).unwrap_or_default();
            // What is taken from a NIC goes through what nothing is taken from, too.
            let takes_receiver =
                shares.iter().any(|share| share.share.is_some() && is_receiver_cpus(&share.resource));
            let is_untaken = match judged.path.limit() {
                Some(Limit::ReceiverThread { .. } | Limit::ReceiverQuota { .. } | Limit::ReceiverCpus) => {
                    !takes_receiver
                }
                Some(Limit::ReceiverRateLimit { .. } | Limit::ReceiverInterrupts { .. }) => true,
                limit => matches!(limit, Some(Limit::Quota { .. } | Limit::Steal { .. })),
            };
            // Interrupts, from which no thread takes, work on what a taker sends as on the flow.
            let interrupts =
                figures.path(prediction.protocol).map(|path| full_of_interrupts(&path.cpu_by_core));
            let is_nic = measured.as_ref().is_some_and(|it| it.bottleneck.kind == LimitKind::Nic);
            let is_untaken = is_untaken || is_nic && interrupts.flatten().is_some();
            // What other programs took of the limit is what the flow lacks; of anything else it does not matter.
            let is_own =
                |limit: &Bottleneck| judged.others_of(limit).is_none_or(|share| share < OTHERS_LIMIT);
            let measured = measured.filter(|measured| !is_untaken && is_own(&measured.bottleneck));
            let unpredicted =
                measured.as_ref().and_then(|it| prediction.unpredicted(&it.bottleneck.resources));
            let achieved = prediction.achieved(&figures);
            let (verdict, bottleneck) = measured.map_or_else(inferred, |measured| {
                (measured.verdict, judged.naming_others(measured.bottleneck))
            });
            ProtocolDiagnosis {
                protocol: prediction.protocol,
                achieved: match unpredicted {
                    Some(_) => Achieved { of_predicted: 0.0, of_predicted_interval: None, ..achieved },
                    None => achieved,
                },
                predicted: unpredicted.unwrap_or_else(|| prediction.bound()),
                verdict,
                bottleneck,
                shares,
                evidence: judged.evidence,
                resources: prediction.resources.clone(),
            }
        })
        .collect();
    let headline = by_protocol[0].clone();
    let context = findings::Context { machine, goal, plan, figures: &figures, predictions: &predictions };
    Diagnosis {
        ceiling: Some(sane(&plan.ceiling)),
        predicted: Some(headline.predicted),
        achieved: Some(headline.achieved),
        verdict: Some(headline.verdict),
        bottleneck: Some(headline.bottleneck),
        shares: headline.shares,
        evidence: headline.evidence,
        resources: headline.resources,
        findings: findings::all(&context),
        by_protocol: by_protocol
            .into_iter()
            .filter(|one| figures.all.iter().any(|figure| figure.protocol == Some(one.protocol)))
            .collect(),
    }
}

/// Which disks and NICs of a path did less than `ratio` of others like them.
pub(crate) fn compared_twins(
    machine: &Machine,
    goal: &Goal,
    plan: &Plan,
    measurements: &Measurements,
    ratio: f64,
) -> TwinComparison {
    let figures = Figures::new(measurements);
    let protocol = goal.first_protocol();
    let prediction = predict(machine, goal, plan, &figures, protocol);
    findings::compared_twins(machine, plan, &figures, &prediction, ratio)
}

/// The plan's ceiling, of which a file that somebody edited may hold anything.
fn sane(ceiling: &Bound) -> Bound {
    match ceiling.bytes_per_second.known() {
        Some(rate) if !rate.is_finite() || *rate < 0.0 => Bound::unknown("the plan holds no number"),
        _ => ceiling.clone(),
    }
}

#[cfg(test)]
mod tests;
