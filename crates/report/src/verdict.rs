//! What the run says as a whole: what was run, ceiling, predicted, achieved, which resources are the cut, in
//! which words.

use super::figure::{Figure, Unit, rate};
use linerate_facts::printable::printable;
use linerate_facts::wording::in_order;
use linerate_measure::diagnose::{Achieved, Bottleneck};
use linerate_measure::run::Run;
use linerate_model::plan::{Bound, Origin, Resource, ResourceKind, RunFlow};
use linerate_model::verdict::{FlowRate, Verdict};
use std::collections::BTreeSet;

/// The three figures that a run is about, and why the flow is no faster.
#[derive(Clone, Debug)]
pub(super) struct RunVerdict {
    pub(super) ceiling: Figure,
    pub(super) predicted: Figure,
    pub(super) achieved: Figure,
    /// Achieved ÷ predicted, where both are known.
    pub(super) of_predicted: Option<f64>,
    /// Ids of the minimum cut.
    pub(super) cut: BTreeSet<String>,
    /// The path showed that this cut is what limits it; else it is what the stages predict.
    pub(super) confirmed: bool,
    /// `2.61 ± 0.05 GB/s (20.9 Gb/s) from disk to network.`; none where the path was not measured.
    pub(super) achieved_sentence: Option<String>,
    /// What limits it, with the evidence; always there.
    pub(super) bottleneck: String,
    /// What raises it, and what limits next; empty where that is not known.
    pub(super) headroom: String,
    /// Bytes per second gained where all of the cut is lifted away.
    pub(super) gain: Option<f64>,
}

/// Says what the run says.
pub(super) fn verdict(run: &Run) -> RunVerdict {
    let Some(diagnosis) = &run.diagnosis else { return undiagnosed(run) };
    let Some(bottleneck) = &diagnosis.bottleneck else { return undiagnosed(run) };
    let achieved = diagnosis.achieved.unwrap_or_default();
    let measured = achieved.bytes_per_second > 0.0;
    let mut cut: BTreeSet<String> = bottleneck.resources.iter().cloned().collect();
    // Where it was measured what limits, the stages' prediction is not a second answer.
    let measured_limit = !diagnosis.shares.is_empty() && diagnosis.verdict == Some(Verdict::Confirmed);
    if !measured_limit {
        cut.extend(diagnosis.predicted.iter().flat_map(|predicted| predicted.cut.iter().cloned()));
    }
    let mut sentences = sentences(bottleneck, &achieved, run.goal.flow).into_iter();
    let achieved_sentence = sentences.next().flatten();
    let limit = sentences.next().flatten().unwrap_or_else(|| "The bottleneck is unknown.".into());
    let headroom = sentences.next().flatten().unwrap_or_default();
    let known = |found: &Option<Bound>, origin| {
        found
            .as_ref()
            .map_or_else(|| Figure::unknown(Some("it is not in the file".into())), |it| bound(it, origin))
    };
    RunVerdict {
        ceiling: known(&diagnosis.ceiling, Origin::Effective),
        predicted: known(&diagnosis.predicted, Origin::Measured),
        achieved: if measured {
            Figure::of(Some(achieved.bytes_per_second), Origin::Measured)
        } else {
            Figure::unknown(Some("the path was not measured".into()))
        },
        of_predicted: Some(achieved.of_predicted).filter(|share| share.is_finite() && *share > 0.0),
        cut,
        confirmed: matches!(diagnosis.verdict, Some(Verdict::Confirmed | Verdict::Tie)),
        achieved_sentence,
        bottleneck: limit,
        headroom,
        gain: Some(bottleneck.gain).filter(|gain| gain.is_finite() && *gain > 0.0 && *gain < 1e21),
    }
}

impl RunVerdict {
    /// All of it in one line.
    pub(super) fn in_words(&self) -> String {
        let headroom = Some(self.headroom.clone()).filter(|text| !text.is_empty());
        let all = self.achieved_sentence.iter().cloned().chain([self.bottleneck.clone()]).chain(headroom);
        all.collect::<Vec<_>>().join(" ")
    }
}

/// What was achieved, what limits it, what raises it.
fn sentences(bottleneck: &Bottleneck, achieved: &Achieved, flow: RunFlow) -> [Option<String>; 3] {
    let Achieved { bytes_per_second, interval, .. } = *achieved;
    let measured =
        rate(bytes_per_second).map(|bytes_per_second| FlowRate { bytes_per_second, interval, flow });
    let achieved = measured.and_then(|measured| measured.sentence());
    let text = |sentence: &str| Some(printable(sentence.trim())).filter(|text| !text.is_empty());
    let all = &bottleneck.sentences[..];
    let rest = &all[usize::from(achieved.is_some() && all.len() > 1)..];
    let (limit, headroom) = rest.split_first().map_or(("", &[][..]), |(limit, more)| (limit, more));
    [achieved, text(limit), text(&headroom.join(" "))]
}

/// What limits a flow and what raises it, without what was achieved.
pub(super) fn without_achieved(bottleneck: &Bottleneck, achieved: &Achieved) -> String {
    let [_, limit, headroom] = sentences(bottleneck, achieved, RunFlow::default());
    limit.into_iter().chain(headroom).collect::<Vec<_>>().join(" ")
}

/// A run that stopped before its diagnosis.
fn undiagnosed(run: &Run) -> RunVerdict {
    let sentence = match (&run.plan, run.measurements.len()) {
        (None, _) => "The machine was probed; nothing was planned or measured.".to_string(),
        (Some(_), 0) => "The flow was planned; nothing was measured.".to_string(),
        (Some(_), 1) => "One measurement was taken; there is no diagnosis.".to_string(),
        (Some(_), count) => format!("{count} measurements were taken; there is no diagnosis."),
    };
    let why = || Figure::unknown(Some("there is no diagnosis".into()));
    RunVerdict {
        ceiling: run.plan.as_ref().map_or_else(why, |plan| bound(&plan.ceiling, Origin::Effective)),
        predicted: why(),
        achieved: why(),
        of_predicted: None,
        cut: run.plan.iter().flat_map(|plan| plan.ceiling.cut.iter().cloned()).collect(),
        confirmed: false,
        achieved_sentence: None,
        bottleneck: sentence,
        headroom: String::new(),
        gain: None,
    }
}

fn bound(bound: &Bound, origin: Origin) -> Figure {
    Figure::of_fact(&bound.bytes_per_second, origin)
}

/// `loop0` of `disk:loop0`, fit to be shown.
pub(super) fn device(id: &str) -> String {
    printable(id.split_once(':').map_or(id, |(_, name)| name))
}

/// Everything on the way: the diagnosis' view where there is one, else the plan's.
pub(super) fn resources(run: &Run) -> Vec<&Resource> {
    let planned = || run.plan.iter().flat_map(|plan| &plan.resources).collect();
    match &run.diagnosis {
        Some(diagnosis) if !diagnosis.resources.is_empty() => diagnosis.resources.iter().collect(),
        _ => planned(),
    }
}

/// `4 disks to 10.0.0.2 over eth0`, `10.0.0.2 to memory over eth0`; on loopback it says that this is not a NIC.
pub(super) fn subject(run: &Run) -> String {
    let Some(plan) = &run.plan else { return "probed, not planned".into() };
    let disks: BTreeSet<&str> = plan.sources.iter().map(|source| source.resource.as_str()).collect();
    let receives = run.goal.flow.receives();
    let here = match disks.len() {
        0 => "no source".to_string(),
        1 if disks.contains("memory") => "memory".to_string(),
        1 => format!("disk {}", disks.first().map(|id| device(id)).unwrap_or_default()),
        count => format!("{count} disks"),
    };
    if plan.loopback {
        let way = if receives { format!("loopback to {here}") } else { format!("{here} to loopback") };
        return format!("{way}: the host's own network stack, not a NIC");
    }
    let peers: BTreeSet<String> = plan.paths.iter().map(|path| device(&path.receiver)).collect();
    let there = match peers.len() {
        0 => "no peer".to_string(),
        1 => peers.first().cloned().unwrap_or_default(),
        count => format!("{count} peers"),
    };
    let over = match plan.paths.len() {
        0 => String::new(),
        1 => format!(" over {}", printable(&plan.paths[0].name)),
        count => format!(" over {count} network paths"),
    };
    let (from, to) = if receives { (there, here) } else { (here, there) };
    format!("{from} to {to}{over}")
}

/// A rate as disks and as links show it: `190 MB/s (1.52 Gb/s)`.
pub(super) fn both(figure: &Figure) -> String {
    match figure.value {
        Some(value) => format!("{} ({})", figure.show(Unit::Bytes), Unit::Bits.show(value)),
        None => "unknown".into(),
    }
}

/// Some ids in few words: `loop0, loop1`; many of one kind as `64 disks (nvme0n1 … nvme63n1)`.
pub(super) fn named(ids: &BTreeSet<String>, known: &[&Resource]) -> String {
    let mut ids: Vec<&String> = ids.iter().collect();
    ids.sort_by(|one, other| in_order(one, other));
    if ids.len() <= 4 {
        return ids.iter().map(|id| device(id)).collect::<Vec<_>>().join(", ");
    }
    let kinds: BTreeSet<_> = known.iter().filter(|r| ids.contains(&&r.id)).map(|r| r.kind).collect();
    let what = match kinds.first() {
        Some(kind) if kinds.len() == 1 => plural(*kind),
        _ => "resources",
    };
    format!("{} {what} ({} … {})", ids.len(), device(ids[0]), device(ids[ids.len() - 1]))
}

/// The kind in the plural.
pub(super) fn plural(kind: ResourceKind) -> &'static str {
    match kind {
        ResourceKind::Disk => "disks",
        ResourceKind::Controller => "controllers",
        ResourceKind::Volume => "volumes",
        ResourceKind::Pcie => "PCIe links",
        ResourceKind::SocketLink => "socket links",
        ResourceKind::Memory => "memories",
        ResourceKind::Cpu => "CPUs",
        ResourceKind::Nic => "NICs",
        ResourceKind::Receiver => "receivers",
        ResourceKind::Sender => "senders",
        ResourceKind::Window => "windows",
        ResourceKind::Loss => "losses",
        ResourceKind::Demand => "rate limits",
    }
}
