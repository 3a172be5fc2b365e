//! How sure it is what limits the flow: the prediction as a claim, the path as its witness.

use super::figures::{Figures, flagged};
use super::others;
use super::predict::{DiskLimit, Prediction, are_full, by_rounds, is_far, loses_in_bursts, losses_explain};
use super::product::{Bottleneck, EvidenceFigure};
use crate::measure::statistics::Interval;
use crate::measure::{CUT_SHORT, LimitedBy, Measurement, Stage, StreamTrial};
use linerate_facts::usage::CoreUse;
use linerate_model::plan::schedule::LEAST_ROUNDS;
use linerate_model::plan::{Plan, Resource, ResourceKind};
use linerate_model::verdict::thresholds::{AGREES_FROM, AGREES_TO, SAME};
use linerate_model::verdict::{
    Claim, DiskEvidence, Distrust, Doubt, Evidence, Judgement, LimitKind, ReceiverEvidence, Verdict, judge,
    verdict,
};

/// Streams that send this part of what their pace lets them are at it: the pace has a tenth more than its share.
const AT_PACE: f64 = 0.85;

/// What was decided, and from what.
#[derive(Clone, Debug)]
pub(super) struct Judged {
    pub verdict: Verdict,
    pub doubt: Option<Doubt>,
    /// What the path says of itself.
    pub path: Judgement,
    /// Ids of the limit that cannot be told from the cut.
    pub tied: Vec<String>,
    /// What other programs took, as a sentence, and the ids and shares of what they took it of; none: nothing that can
    /// explain a part of the rate.
    pub others: Option<(String, Vec<(String, f64)>)>,
    pub evidence: Vec<EvidenceFigure>,
    /// Rounds of the path failed, or were interrupted.
    pub cut_short: bool,
}

impl Judged {
    /// The share that other programs took of what limits; of anything where that is no part of the server, for more reads
    /// and streams of the flow's get more of whatever it shares with others.
    pub(super) fn others_of(&self, limit: &Bottleneck) -> Option<f64> {
        let taken = self.others.iter().flat_map(|(_, taken)| taken);
        let is_of = |id: &str| limit.resources.iter().any(|of| kind_of(of) == kind_of(id));
        let of_limit = taken.filter(|(id, _)| limit.resources.is_empty() || is_of(id));
        of_limit.map(|(_, share)| *share).reduce(f64::max)
    }

    /// The same limit, with who else used it.
    pub(super) fn naming_others(&self, limit: Bottleneck) -> Bottleneck {
        let is_part = limit.kind != LimitKind::Others && self.others_of(&limit).is_some();
        let others = self.others.iter().filter(|_| is_part).map(|(sentence, _)| sentence.clone());
        let sentences = limit.sentences.into_iter().chain(others).collect();
        Bottleneck::new(limit.kind, limit.resources, sentences, limit.gain)
    }
}

/// `disk` of `disk:vda`.
fn kind_of(id: &str) -> &str {
    id.split(':').next().unwrap_or_default()
}

/// Decides.
pub(super) fn judged(prediction: &Prediction, plan: &Plan, figures: &Figures) -> Judged {
    let path = figures.path(prediction.protocol);
    let evidence = path.map(|path| of_path(path, figures)).unwrap_or_default();
    let judgement = judge(&evidence);
    let tied = tied(prediction, figures);
    let tied_kinds: Vec<LimitKind> =
        part_kinds(prediction, &tied).into_iter().map(|kind| limit_kind(prediction, kind)).collect();
    let achieved = prediction.achieved(figures);
    let measured = path.is_some() && achieved.of_predicted > 0.0;
    let others = path.filter(|_| others::explain(&evidence, &judgement));
    let claim = Claim {
        kind: kind(prediction),
        of_sink: prediction.is_of_sink(),
        tied: &tied_kinds,
        rounds: path.map_or(0, |path| rounds(path, prediction, figures)),
        least_rounds: LEAST_ROUNDS,
        distrust: distrust(prediction, plan, figures, &evidence),
        others: others.is_some(),
        of_predicted: measured.then_some(achieved.of_predicted),
        of_predicted_interval: achieved.of_predicted_interval,
        burst: burst(prediction, figures),
    };
    let (verdict, doubt) = verdict(&claim, &judgement);
    let cut_short = path.is_some_and(|path| flagged(path, CUT_SHORT));
    // A flow that has what it asked for lacks nothing of it.
    let others = others.filter(|_| verdict != Verdict::Confirmed);
    let others = others
        .map(|path| (others::sentence(path, &evidence, &judgement), others::taken(&evidence, &judgement)));
    // What a part does by itself is not known: the prediction lacks it, or has put the limit elsewhere.
    let mistaken = measured
        && (verdict == Verdict::Contradicted || prediction.solution.bytes_per_second.known().is_none());
    let in_stage = figures.held_by_others().filter(|_| mistaken && others.is_none());
    let (verdict, doubt, others) = match in_stage.map(others::of_stage) {
        Some(of_stage) => (Verdict::Unexplained, Some(Doubt::Others), Some(of_stage)),
        None => (verdict, doubt, others),
    };
    Judged { verdict, doubt, path: judgement, tied, others, evidence: listed(&evidence, path), cut_short }
}

/// In which the path was measured beside its parts. With an experiment it has earlier samples, too.
fn rounds(path: &Measurement, prediction: &Prediction, figures: &Figures) -> u32 {
    let beside = path.experiment.as_ref().and_then(|_| figures.whole_network(prediction.protocol, false));
    path.samples.len().min(beside.map_or(usize::MAX, |network| network.samples.len())) as u32
}

/// What kind of thing the largest part of the cut is.
pub(super) fn kind(prediction: &Prediction) -> LimitKind {
    let largest = part_kinds(prediction, &prediction.solution.cut).pop();
    largest.map_or(LimitKind::Unknown, |kind| limit_kind(prediction, kind))
}

/// Kinds of these resources, that of the largest part last.
pub(super) fn part_kinds(prediction: &Prediction, ids: &[String]) -> Vec<ResourceKind> {
    let mut sums = std::collections::BTreeMap::<ResourceKind, f64>::new();
    let parts = ids.iter().filter_map(|id| prediction.resource(id));
    parts.for_each(|part: &Resource| *sums.entry(part.kind).or_default() += part.capacity);
    let mut sums: Vec<(ResourceKind, f64)> = sums.into_iter().collect();
    sums.sort_by(|a, b| a.1.total_cmp(&b.1));
    sums.into_iter().map(|(kind, _)| kind).collect()
}

fn limit_kind(prediction: &Prediction, kind: ResourceKind) -> LimitKind {
    match kind {
        ResourceKind::Cpu if prediction.cpu.as_ref().is_some_and(|cpu| cpu.is_quota()) => LimitKind::Quota,
        ResourceKind::Cpu if prediction.cpu.as_ref().is_some_and(|cpu| cpu.is_stolen()) => LimitKind::Steal,
        ResourceKind::Cpu if prediction.cpu.as_ref().is_some_and(|cpu| cpu.is_of_others()) => {
            LimitKind::Others
        }
        ResourceKind::Disk => match prediction.of_disks {
            DiskLimit::Disks => LimitKind::Disk,
            DiskLimit::Volumes { .. } => LimitKind::Volume,
            DiskLimit::Reads(_) => LimitKind::Pipeline,
        },
        kind => LimitKind::from(kind),
    }
}

/// What the path showed, with what its disks did alone beside it.
fn of_path(path: &Measurement, figures: &Figures) -> Evidence {
    let mut evidence = path.evidence();
    let by_peer = matches!(path.held_by, Some(LimitedBy::Peer | LimitedBy::Sender));
    if flagged(path, "agent-rate-limit") && by_peer {
        let rate_limit = Some(path.bytes_per_second);
        let other = if path.incoming { &mut evidence.sender } else { &mut evidence.receiver };
        *other = Some(ReceiverEvidence { rate_limit, ..other.unwrap_or_default() });
    }
    evidence.reads = figures.reads_in_flight();
    if path.held_by == Some(LimitedBy::Demand) {
        evidence.rate_limit = Some(path.bytes_per_second);
    }
    let alone = figures.disks_together().map(Measurement::evidence).unwrap_or_default();
    for disk in &mut evidence.disks {
        let same = alone.disks.iter().find(|other| other.name == disk.name);
        disk.best_bytes_per_second = same.map(|other| other.bytes_per_second);
        disk.alone = same.and_then(DiskEvidence::as_alone);
    }
    evidence
}

/// Another limit that the figures cannot tell from the cut: in the same rounds, where both were measured in them;
/// what changes with the minute changes both.
fn tied(prediction: &Prediction, figures: &Figures) -> Vec<String> {
    let cut = &prediction.solution.cut;
    let lifted = prediction.model.solve_without(cut);
    let rates = prediction.solution.bytes_per_second.known().zip(lifted.bytes_per_second.known());
    let Some((flow, next)) = rates else { return Vec::new() };
    let rounds = |ids| prediction.of_rounds(figures, ids);
    if let Some((cut, other)) = rounds(cut).zip(rounds(&lifted.cut))
        && let Some(times) = Interval::of(&by_rounds(other, cut))
    {
        return if times.low * (next / flow) <= 1.0 + SAME { lifted.cut } else { Vec::new() };
    }
    let ends = |ids: &[String], rate: f64| {
        let same = [rate * (1.0 - SAME / 2.0), rate * (1.0 + SAME / 2.0)];
        prediction.interval_of(ids).map_or(same, |[low, high]| [low.min(same[0]), high.max(same[1])])
    };
    let (cut, other) = (ends(&prediction.solution.cut, *flow), ends(&lifted.cut, *next));
    if other[0] <= cut[1] { lifted.cut } else { Vec::new() }
}

/// How many times what lasts disks, or NICs, give until a bucket is empty; 1 where they have one rate, or are not the
/// limit.
fn burst(prediction: &Prediction, figures: &Figures) -> f64 {
    let stage = match kind(prediction) {
        LimitKind::Disk if !prediction.is_of_sink() => Stage::Disk,
        LimitKind::Nic => Stage::Network,
        _ => return 1.0,
    };
    // The first look at them empties the bucket; what comes back between rounds is not seen as a level of its own.
    let of_it = figures.all.iter().filter(|figure| figure.stage == stage);
    let burst = of_it.filter_map(|figure| figure.burst.as_ref()).next_back();
    let times = burst.map(|burst| burst.burst_bytes_per_second / burst.sustained_bytes_per_second);
    times.filter(|times| times.is_finite()).map_or(1.0, |times| times.max(1.0))
}

/// All rounds moved the same: what drops many packets at a time was full all the while.
fn is_steady(flow: &Measurement) -> bool {
    flow.interval.is_some_and(|[low, high]| {
        low >= AGREES_FROM * flow.bytes_per_second && high <= AGREES_TO * flow.bytes_per_second
    })
}

/// A far flow that moves now more and now less, with no queue before the link or while it sends again what that has
/// dropped, does not fill it all the while.
fn leaves_room(flow: &Measurement) -> bool {
    let queue = || flow.evidence().tcp.queue_stands(flow.bytes_per_second);
    is_far(flow) && !is_steady(flow) && (loses_in_bursts(flow) || queue() == Some(false))
}

/// The trial by which a flow has several streams a NIC.
fn taken_streams(flow: &Measurement) -> Option<&StreamTrial> {
    flow.stream_trials.iter().find(|trial| trial.chosen && trial.streams > 1)
}

/// Each stream may send no more than linerate lets it (SO_MAX_PACING_RATE), and they send nearly that.
fn is_at_own_pace(flow: &Measurement) -> bool {
    let pace = taken_streams(flow).and_then(|trial| trial.pacing_bytes_per_second);
    pace.is_some_and(|pace| flow.bytes_per_second >= AT_PACE * pace * flow.workers.len() as f64)
}

/// Why the figures of what limits may not be its own: a cache may have answered for the disks, or, where packets
/// were lost, a link of unknown rate may have been full.
fn distrust(
    prediction: &Prediction,
    plan: &Plan,
    figures: &Figures,
    evidence: &Evidence,
) -> Option<Distrust> {
    let path = figures.path(prediction.protocol);
    match kind(prediction) {
        kind if kind.is_of_own_cpu() && evidence.cpu_is_hidden() => Some(Distrust::HiddenProcesses),
        _ if prediction.is_of_sink() => None,
        // What was written and flushed no cache of reads answers.
        LimitKind::Disk | LimitKind::Controller | LimitKind::Volume if prediction.flow.receives() => None,
        LimitKind::Loss => {
            let network = figures.whole_network(prediction.protocol, false);
            let full = network.and_then(|network| are_full(&prediction.resources, network));
            let bursts = path.is_some_and(loses_in_bursts);
            let paced = path.is_some_and(is_at_own_pace).then_some(Distrust::OwnPace);
            // Far away, where some losses are of a queue that the flow itself fills, they have to be counted for it.
            let counted = path.is_some_and(|path| is_far(path) && path.evidence().tcp.losses.is_some());
            let unexplained = counted && path.and_then(losses_explain) != Some(true);
            (full != Some(false) || bursts || unexplained).then_some(Distrust::MaybeFull).or(paced)
        }
        LimitKind::Nic => {
            // Where its rate is known, that says whether it is full.
            let mut nics = prediction.resources.iter().filter(|part| part.kind == ResourceKind::Nic);
            let unknown = nics.any(|nic| nic.effective.is_none());
            let leaves_room = path.is_some_and(leaves_room);
            // That more streams carried no more may have had another reason than this link.
            let by_trials = path
                .is_some_and(|path| path.held_by == Some(LimitedBy::Loss) && taken_streams(path).is_some());
            (unknown && (leaves_room || by_trials)).then_some(Distrust::MaybeFull)
        }
        LimitKind::Disk | LimitKind::Controller | LimitKind::Volume => {
            let buffered = plan.sources.iter().any(|source| !source.direct);
            let shown = figures.whole_disk().and_then(Measurement::distrust);
            shown.or_else(|| buffered.then_some(Distrust::Cache))
        }
        _ => None,
    }
}

/// The evidence as figures.
pub(super) fn listed(evidence: &Evidence, path: Option<&Measurement>) -> Vec<EvidenceFigure> {
    let mut all = Vec::new();
    let mut add = |host: &str, resource: &str, what: &str, value: Option<f64>| {
        let Some(value) = value.filter(|value| value.is_finite()) else { return };
        all.push(EvidenceFigure { host: host.into(), resource: resource.into(), what: what.into(), value });
    };
    if let Some(workers) = evidence.workers {
        add("", "", "wait-source", Some(workers.waiting_source));
        add("", "", "wait-sink", Some(workers.waiting_sink));
        add("", "", "busy", Some(workers.busy));
        add("", "", "busiest-worker", Some(workers.busiest));
    }
    for disk in &evidence.disks {
        let id = format!("disk:{}", disk.name);
        add("", &id, "busy", disk.busy);
        add("", &id, "queue-depth", disk.queue_depth);
        add("", &id, "latency-seconds", disk.latency_seconds);
        add("", &id, "bytes-per-second", Some(disk.bytes_per_second));
    }
    for volume in &evidence.volumes {
        for disk in &volume.members {
            add("", &format!("disk:{}", disk.name), "busy", disk.busy);
            add("", &format!("disk:{}", disk.name), "bytes-per-second", Some(disk.bytes_per_second));
        }
    }
    if let Some(reads) = evidence.reads {
        add("", "", "reads-in-flight", Some(f64::from(reads.reads)));
        add("", "", "gain-of-more-reads", Some(reads.gain));
    }
    if let Some(users) = evidence.cpu_users {
        add("", "cpu", "linerate", Some(users.own));
        add("", "cpu", "kernel", Some(users.kernel));
        add("", "cpu", "others", Some(users.others));
    }
    let most = |of: fn(&CoreUse) -> f64| evidence.cpus.iter().map(of).max_by(f64::total_cmp);
    add("", "cpu", "fullest", most(|cpu| cpu.busy()));
    add("", "cpu", "steal", most(|cpu| cpu.steal));
    if let Some(quota) = evidence.quota {
        add("", "cpu", "throttled", Some(quota.throttled));
    }
    add("", "", "receive-window", evidence.tcp.receive_window_share);
    add("", "", "send-buffer", evidence.tcp.send_buffer_share);
    add("", "", "round-trip-seconds", evidence.tcp.round_trip_seconds);
    add("", "", "least-round-trip-seconds", evidence.tcp.least_round_trip_seconds);
    add("", "", "retransmits", evidence.tcp.retransmit_share);
    if let Some(sink) = &evidence.sink {
        let id = sink.disk.as_ref().map(|disk| format!("disk:{disk}")).unwrap_or_default();
        add(&sink.host, &id, "busy", sink.busy);
        add(&sink.host, "", "wait-source", Some(sink.waiting_network));
        add(&sink.host, "", "wait-sink", Some(sink.waiting_disk));
    }
    for receiver in path.iter().flat_map(|path| path.receiver.iter().chain(&path.sender)) {
        add(&receiver.host, "cpu", "busiest-thread", Some(receiver.busiest_thread));
        add(&receiver.host, "cpu", "throttled", Some(receiver.throttled));
        let most = |of: fn(&CoreUse) -> f64| receiver.cpu_by_core.iter().map(of).max_by(f64::total_cmp);
        add(&receiver.host, "cpu", "fullest", most(CoreUse::busy));
        add(&receiver.host, "cpu", "softirq", most(|cpu| cpu.softirq + cpu.irq));
        add(&receiver.host, "cpu", "steal", most(|cpu| cpu.steal));
        add(&receiver.host, "", "dropped-by-sockets", receiver.dropped());
        let buffer = Some(receiver.receive_buffer_bytes).filter(|bytes| *bytes > 0);
        add(&receiver.host, "", "receive-buffer-bytes", buffer.map(|bytes| bytes as f64));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose::predict::predict;
    use crate::diagnose::tests::{Lab, record};
    use linerate_facts::protocol::Protocol;

    #[test]
    fn rounds_are_those_beside_the_network_where_an_experiment_ran() {
        let mut case = Lab { disks: vec![300.0], nics: vec![1237.5], ..Lab::default() }.measured();
        let mut counted = |experiment: bool, network: usize| {
            for figure in &mut case.measurements {
                let is_path = figure.stage == Stage::Path;
                figure.samples.resize(if is_path { 8 } else { network }, 1e8);
                figure.experiment = (is_path && experiment).then(|| Box::new(record(0.0, 0.0, 1)));
            }
            let figures = Figures::new(&case.measurements);
            let prediction = predict(&case.machine, &case.goal, &case.plan, &figures, Protocol::Tcp);
            rounds(figures.path(Protocol::Tcp).expect("a path"), &prediction, &figures)
        };
        assert_eq!([counted(false, 3), counted(true, 3), counted(true, 9)], [8, 3, 8]);
    }
}
