//! The bottleneck in two sentences: the minimum cut of the prediction; what raises the flow, and how far.

use super::certainty::{Judged, kind, part_kinds};
use super::cost::Granted;
use super::figures::Figures;
use super::predict::Prediction;
use super::product::{Achieved, Bottleneck};
use crate::measure::ReceiverResult;
use linerate_facts::units::{show_bits_rate, show_bytes_rate};
use linerate_model::plan::schedule::LEAST_ROUNDS;
use linerate_model::plan::wording::{counted, in_words, listed, name};
use linerate_model::plan::{Plan, Resource, ResourceKind};
use linerate_model::verdict::{Doubt, Evidence, Limit, LimitKind, Verdict, judge};

/// A next limit that is closer than this is said to be the same.
const HARDLY: f64 = 1.02;

/// Kind, ids, gain and sentence of the cut.
pub(super) fn bottleneck(
    prediction: &Prediction,
    plan: &Plan,
    figures: &Figures,
    judged: &Judged,
) -> Bottleneck {
    let cut: Vec<&Resource> =
        prediction.solution.cut.iter().filter_map(|id| prediction.resource(id)).collect();
    let (Some(flow), Some(largest)) = (
        prediction.solution.bytes_per_second.known().copied(),
        part_kinds(prediction, &prediction.solution.cut).pop(),
    ) else {
        return nothing_known(prediction, figures);
    };
    let main: Vec<&Resource> = cut.iter().copied().filter(|part| part.kind == largest).collect();
    let mut subject = subject(largest, &main, prediction, plan, figures);
    for kind in part_kinds(prediction, &prediction.solution.cut).iter().rev().skip(1) {
        let parts: Vec<&Resource> = cut.iter().copied().filter(|part| part.kind == *kind).collect();
        subject = format!("{subject}, together with {}", beside(&parts));
    }
    let limits = if cut.len() > 1 { "limit" } else { "limits" };
    let headroom = headroom(prediction, figures, largest, main.len(), flow, plan.loopback);
    let said = BottleneckSentence {
        kind: kind(prediction),
        subject,
        limits,
        flow,
        headroom,
        judged,
        achieved: prediction.achieved(figures),
    };
    Bottleneck {
        kind: kind(prediction),
        resources: prediction.solution.cut.clone(),
        sentence: said.sentence(),
        gain: match kind(prediction) {
            LimitKind::Demand => 0.0,
            _ => prediction.model.gain(&prediction.solution.cut).unwrap_or(0.0),
        },
    }
}

/// What there is to be said.
struct BottleneckSentence<'a> {
    kind: LimitKind,
    subject: String,
    limits: &'static str,
    flow: f64,
    headroom: String,
    judged: &'a Judged,
    achieved: Achieved,
}

impl BottleneckSentence<'_> {
    /// A flat statement only where it is confirmed.
    fn sentence(&self) -> String {
        let BottleneckSentence { subject, limits, headroom, judged, .. } = self;
        let rate = show_bytes_rate(self.flow);
        let shown = judged.path.limit();
        match judged.verdict {
            Verdict::Confirmed if self.kind == LimitKind::Demand => format!(
                "The flow asked for no more than {rate} (--rate-limit) and had it: nothing of this server limited \
                 it. What it can do beyond that was not measured."
            ),
            Verdict::Confirmed => {
                let evidence = shown.map(|limit| format!(": {}", limit.clause())).unwrap_or_default();
                // What a CPU carries follows from a cost that is an estimate, and what loss leaves wanders; what
                // was carried does not.
                let rate = match self.kind.is_of_cpu() || self.kind == LimitKind::Loss {
                    true => show_bytes_rate(self.achieved.bytes_per_second),
                    false => rate,
                };
                format!(
                    "The bottleneck is {subject}, which {limits} the flow to {rate}{evidence}. {headroom}."
                )
            }
            Verdict::Tie => {
                let tied: Vec<&str> = judged.tied.iter().map(String::as_str).collect();
                format!(
                    "The bottleneck is {subject} or {}: the measurements cannot tell them apart. Both must be \
                     raised.",
                    in_words(&tied)
                )
            }
            Verdict::Contradicted => {
                let shown = shown.map(Limit::to_string).unwrap_or_default();
                format!(
                    "Not explained: by its parts {subject} {limits} the flow to {rate}, but the path, at {}, \
                     showed another limit: {shown}.",
                    show_bytes_rate(self.achieved.bytes_per_second)
                )
            }
            Verdict::Unexplained => format!("{}. {headroom}.", self.unexplained(&rate)),
        }
    }

    fn unexplained(&self, rate: &str) -> String {
        let BottleneckSentence { subject, limits, judged, achieved, .. } = self;
        let claim = format!("the bottleneck is {subject}, which {limits} the flow to {rate}");
        let share = (achieved.of_predicted * 100.0).round();
        let missing =
            || judged.path.missing.as_ref().map(|missing| format!(": {missing}")).unwrap_or_default();
        match judged.doubt {
            Some(Doubt::NotMeasured) | None => {
                format!("By the stages alone {claim}; the path was not measured")
            }
            Some(Doubt::FewRounds { measured }) => format!(
                "Not confirmed: {claim}. {} measured, {LEAST_ROUNDS} are needed (a longer --budget)",
                match measured {
                    1 => "1 round was".into(),
                    more => format!("{more} rounds were"),
                }
            ),
            Some(Doubt::Untrusted) if self.kind == LimitKind::Loss => format!(
                "Not confirmed: {claim}, but the link's rate is not known, and a full link loses packets, too"
            ),
            Some(Doubt::Untrusted) => {
                format!(
                    "Not confirmed: {claim}, but a cache answered some of its reads, and the device is another"
                )
            }
            Some(Doubt::NothingSeen) => {
                format!("Not confirmed: by the stages {claim}; the path did {share} % of it{}", missing())
            }
            Some(Doubt::Ratio) => {
                let evidence = judged.path.limit().map(|limit| format!(": {}", limit.clause()));
                format!(
                    "Not explained: {claim}, and the path agrees{}, but it did {share} % of that",
                    evidence.unwrap_or_default()
                )
            }
        }
    }
}

fn nothing_known(prediction: &Prediction, figures: &Figures) -> Bottleneck {
    let at_least = prediction.achieved(figures).bytes_per_second;
    let achieved = if at_least > 0.0 {
        format!("the path carried {}; ", show_bytes_rate(at_least))
    } else {
        String::new()
    };
    let why = prediction.solution.bytes_per_second.why().unwrap_or("nothing is on the way");
    Bottleneck {
        kind: LimitKind::Unknown,
        resources: Vec::new(),
        sentence: format!("The bottleneck is unknown: {achieved}{why}."),
        gain: 0.0,
    }
}

/// What limits the flow, with the evidence.
fn subject(
    kind: ResourceKind,
    parts: &[&Resource],
    prediction: &Prediction,
    plan: &Plan,
    figures: &Figures,
) -> String {
    match kind {
        ResourceKind::Disk => counted("disk", "disks", parts, show_bytes_rate),
        ResourceKind::Nic if plan.loopback => {
            format!("the host's own stack (loopback, {}, measured)", show_bits_rate(parts[0].capacity))
        }
        ResourceKind::Nic => counted("NIC", "NICs", parts, show_bits_rate),
        ResourceKind::Pcie => counted("the PCIe link", "PCIe links", parts, show_bytes_rate),
        ResourceKind::SocketLink => {
            counted("the link between the sockets", "links between the sockets", parts, show_bytes_rate)
        }
        ResourceKind::Memory => format!("the memory ({})", parts[0].why.as_deref().unwrap_or("measured")),
        ResourceKind::Controller => beside(parts),
        ResourceKind::Cpu => cpu(prediction, plan),
        ResourceKind::Window => format!("TCP's window ({}, measured)", show_bits_rate(parts[0].capacity)),
        ResourceKind::Loss => {
            format!("the loss of packets on the way ({}, measured)", show_bits_rate(parts[0].capacity))
        }
        ResourceKind::Demand => {
            format!("what was asked for (--rate-limit, {})", show_bytes_rate(parts[0].capacity))
        }
        ResourceKind::Receiver => {
            let report =
                figures.whole_network(prediction.protocol, false).and_then(|figure| figure.receiver.as_ref());
            receiver(parts, report)
        }
    }
}

/// Parts by their names; what devices share by what is known of it.
fn beside(parts: &[&Resource]) -> String {
    let ids: Vec<&str> = parts.iter().map(|part| part.id.as_str()).collect();
    match parts {
        [one] if one.kind == ResourceKind::Controller => one.why.clone().unwrap_or_else(|| in_words(&ids)),
        _ => in_words(&ids),
    }
}

fn cpu(prediction: &Prediction, plan: &Plan) -> String {
    let Some(cpu) = &prediction.cpu else { return "the CPU".into() };
    let cost = format!("{:.2} CPU seconds per GB", cpu.seconds_per_gb);
    match cpu.granted {
        Granted::Quota(cores) => format!("the control group's CPU quota ({cores:.2} cores, {cost})"),
        Granted::WorkerCores(1) if plan.workers.len() > 1 => {
            format!("the one core that all {} workers share ({cost})", plan.workers.len())
        }
        Granted::WorkerCores(1) => format!("the core of the one worker ({cost})"),
        Granted::WorkerCores(cores) => format!("the CPU ({cores} cores of the workers, {cost})"),
        Granted::AllCores(cores) => {
            format!("the CPU ({cores:.0} cores, {cost} with interrupts and kernel threads)")
        }
    }
}

fn receiver(parts: &[&Resource], report: Option<&ReceiverResult>) -> String {
    let names: Vec<&str> = parts.iter().map(|part| name(&part.id)).collect();
    let limit = report.and_then(|report| {
        let receiver = Some(report.evidence());
        judge(&Evidence { receiver, ..Evidence::default() }).limits.into_iter().next()
    });
    let why = match (report, limit) {
        (Some(report), Some(Limit::ReceiverQuota { .. })) => {
            format!("its CPU quota of {:.2} cores, measured; ", report.quota_cores)
        }
        (_, Some(Limit::ReceiverCpus)) => "all of its CPUs are full, measured; ".into(),
        (_, Some(Limit::ReceiverThread { .. })) => "one of its threads fills a core, measured; ".into(),
        _ => "measured; ".into(),
    };
    format!("the receiver on {} ({why}not the NIC, not the disks)", listed(&names, 3))
}

/// What raises the flow, how far, and what limits it there.
fn headroom(
    prediction: &Prediction,
    figures: &Figures,
    kind: ResourceKind,
    parts: usize,
    flow: f64,
    loopback: bool,
) -> String {
    let remedy = remedy(prediction, kind, parts, loopback);
    let lifted = prediction.carried(figures).solve_without(&prediction.solution.cut);
    let Some(next) = lifted.bytes_per_second.known().copied() else {
        return format!("{remedy} would raise it; no other limit is known");
    };
    let ids: Vec<&str> = lifted.cut.iter().map(String::as_str).collect();
    let (names, rate) = (in_words(&ids), show_bytes_rate(next));
    if next < flow * HARDLY {
        return format!("{remedy} alone would gain little: at {rate} {names} {} next", is(&ids));
    }
    let times = next / flow;
    let gain = if flow <= 0.0 {
        String::new()
    } else if times >= 1.95 {
        format!(" ({times:.0} times)")
    } else {
        format!(" (+{:.0} %)", (times - 1.0) * 100.0)
    };
    let verb = if ids.len() > 1 { "limit" } else { "limits" };
    format!("{remedy} would raise it to {rate}{gain}, where {names} {verb}")
}

fn is(ids: &[&str]) -> &'static str {
    if ids.len() > 1 { "are" } else { "is" }
}

fn remedy(prediction: &Prediction, kind: ResourceKind, parts: usize, loopback: bool) -> &'static str {
    match kind {
        ResourceKind::Disk if parts > 1 => "Faster or more disks",
        ResourceKind::Disk => "A faster disk or further ones",
        ResourceKind::Nic if loopback => "Faster cores or more workers",
        ResourceKind::Nic if parts > 1 => "Faster or more NICs",
        ResourceKind::Nic => "A faster NIC or further ones",
        ResourceKind::Pcie => "Wider or faster slots",
        ResourceKind::SocketLink => "NICs and disks on one socket",
        ResourceKind::Memory => "More memory channels or fewer copies",
        ResourceKind::Controller => "Further controllers or links",
        ResourceKind::Receiver => "More CPU for the receiver or a further peer",
        ResourceKind::Window => "A larger window",
        ResourceKind::Loss => "A way without loss",
        ResourceKind::Demand => "A higher --rate-limit",
        ResourceKind::Cpu => match prediction.cpu.as_ref().map(|cpu| cpu.granted) {
            Some(Granted::Quota(_)) => "More cores in the quota",
            Some(Granted::WorkerCores(_)) => "Workers on more cores",
            _ => "More or faster cores",
        },
    }
}
