//! The bottleneck in one sentence: the minimum cut of the prediction, what comes next, and what lifts it.

use super::cost::Granted;
use super::figures::Figures;
use super::predict::Prediction;
use super::product::Bottleneck;
use crate::measure::{ReceiverResult, receiver_evidence};
use linerate_facts::units::{show_bits_rate, show_bytes_rate};
use linerate_model::plan::wording::{counted, listed, name};
use linerate_model::plan::{Plan, Resource, ResourceKind};
use linerate_model::verdict::{Evidence, Limit, judge};
use std::collections::BTreeMap;

/// A next limit that is closer than this is said to be the same.
const HARDLY: f64 = 1.02;

/// Kind, ids, gain and sentence of the cut.
pub(super) fn bottleneck(prediction: &Prediction, plan: &Plan, figures: &Figures) -> Bottleneck {
    let cut: Vec<&Resource> =
        prediction.solution.cut.iter().filter_map(|id| prediction.resource(id)).collect();
    let (Some(flow), Some(kind)) =
        (prediction.solution.bytes_per_second.known().copied(), largest_kind(&cut))
    else {
        return nothing_known(prediction, figures);
    };
    let main: Vec<&Resource> = cut.iter().copied().filter(|part| part.kind == kind).collect();
    let others: Vec<&str> =
        cut.iter().filter(|part| part.kind != kind).map(|part| part.id.as_str()).collect();
    let (mut subject, mut plural) = subject(kind, &main, prediction, plan, figures);
    if !others.is_empty() {
        subject = format!("{subject}, together with {},", listed(&others, 3));
        plural = true;
    }
    let verb = if plural { "limit" } else { "limits" };
    let tail = what_next(prediction, kind, main.len(), flow, plan.loopback);
    Bottleneck {
        kind,
        resources: prediction.solution.cut.clone(),
        sentence: format!("{subject} {verb} the flow to {}; {tail}.", show_bytes_rate(flow)),
        gain: prediction.model.gain(&prediction.solution.cut).unwrap_or(0.0),
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
        kind: ResourceKind::Disk,
        resources: Vec::new(),
        sentence: format!("The bottleneck is unknown: {achieved}{why}."),
        gain: 0.0,
    }
}

/// The kind with the largest part of the cut.
fn largest_kind(cut: &[&Resource]) -> Option<ResourceKind> {
    let mut sums: BTreeMap<ResourceKind, f64> = BTreeMap::new();
    for part in cut {
        *sums.entry(part.kind).or_default() += part.capacity;
    }
    sums.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(kind, _)| kind)
}

/// What limits the flow, capital first, and whether it is more than one.
fn subject(
    kind: ResourceKind,
    parts: &[&Resource],
    prediction: &Prediction,
    plan: &Plan,
    figures: &Figures,
) -> (String, bool) {
    let plural = parts.len() > 1;
    let subject = match kind {
        ResourceKind::Disk => counted("disk", "disks", parts, show_bytes_rate),
        ResourceKind::Nic if plan.loopback => {
            format!("The host's own stack (loopback, {}, measured)", show_bits_rate(parts[0].capacity))
        }
        ResourceKind::Nic => counted("NIC", "NICs", parts, show_bits_rate),
        ResourceKind::Pcie => counted("PCIe link", "PCIe links", parts, show_bytes_rate),
        ResourceKind::SocketLink => {
            counted("link between the sockets", "links between the sockets", parts, show_bytes_rate)
        }
        ResourceKind::Memory => format!("The memory ({})", parts[0].why.as_deref().unwrap_or("measured")),
        ResourceKind::Controller => controller(parts[0]),
        ResourceKind::Cpu => cpu(prediction, plan),
        ResourceKind::Receiver => {
            let told =
                figures.whole_network(prediction.protocol, false).and_then(|figure| figure.receiver.as_ref());
            receiver(parts, told)
        }
    };
    (subject, plural)
}

fn controller(part: &Resource) -> String {
    if part.id == "controller:network" {
        "What the NICs share (all together send less than the sum of each alone)".into()
    } else {
        "What the disks share, a controller or a link (all together read less than the sum of each alone),"
            .into()
    }
}

fn cpu(prediction: &Prediction, plan: &Plan) -> String {
    let Some(cpu) = &prediction.cpu else { return "The CPU".into() };
    let cost = format!("{:.2} CPU seconds per GB", cpu.seconds_per_gb);
    match cpu.granted {
        Granted::Quota(cores) => format!("The control group's CPU quota ({cores:.2} cores, {cost})"),
        Granted::WorkerCores(1) if plan.workers.len() > 1 => {
            format!("The one core that all {} workers share ({cost})", plan.workers.len())
        }
        Granted::WorkerCores(1) => format!("The core of the one worker ({cost})"),
        Granted::WorkerCores(cores) => format!("The CPU ({cores} cores of the workers, {cost})"),
        Granted::AllCores(cores) => format!("The CPU ({cores} cores for sender and receiver, {cost})"),
    }
}

fn receiver(parts: &[&Resource], told: Option<&ReceiverResult>) -> String {
    let names: Vec<&str> = parts.iter().map(|part| name(&part.id)).collect();
    let limit = told.and_then(|told| {
        let receiver = Some(receiver_evidence(told));
        judge(&Evidence { receiver, ..Evidence::default() }).limits.into_iter().next()
    });
    let why = match (told, limit) {
        (Some(told), Some(Limit::ReceiverQuota { .. })) => {
            format!("its CPU quota of {:.2} cores, measured; ", told.quota_cores)
        }
        (_, Some(Limit::ReceiverThread { .. })) => "one of its threads fills a core, measured; ".into(),
        _ => "measured; ".into(),
    };
    format!("The receiver on {} ({why}not the NIC, not the disks)", listed(&names, 3))
}

/// What limits next, and what lifts the cut.
fn what_next(prediction: &Prediction, kind: ResourceKind, parts: usize, flow: f64, loopback: bool) -> String {
    let lift = remedy(prediction, kind, parts, loopback);
    let lifted = prediction.model.solve_without(&prediction.solution.cut);
    let Some(next) = lifted.bytes_per_second.known().copied() else {
        return format!("no other limit is known: {lift} raise it");
    };
    let ids: Vec<&str> = lifted.cut.iter().map(String::as_str).collect();
    let by = if ids.len() > 1 { "limits are" } else { "limit is" };
    let limit = format!("the next {by} {} at {}", listed(&ids, 2), show_bytes_rate(next));
    if next < flow * HARDLY {
        return format!("{limit}, nearly the same: raising only the one gains little");
    }
    let times = next / flow;
    let gain = if flow <= 0.0 {
        "raise it to that".to_string()
    } else if times >= 1.95 {
        format!("raise it up to {times:.0} times")
    } else {
        format!("raise it by up to {:.0} %", (times - 1.0) * 100.0)
    };
    format!("{limit}: {lift} {gain}")
}

fn remedy(prediction: &Prediction, kind: ResourceKind, parts: usize, loopback: bool) -> &'static str {
    match kind {
        ResourceKind::Disk if parts > 1 => "faster or more disks",
        ResourceKind::Disk => "a faster disk or further ones",
        ResourceKind::Nic if loopback => "faster cores or more workers",
        ResourceKind::Nic if parts > 1 => "faster or more NICs",
        ResourceKind::Nic => "a faster NIC or further ones",
        ResourceKind::Pcie => "wider or faster slots",
        ResourceKind::SocketLink => "NICs and disks on one socket",
        ResourceKind::Memory => "more memory channels or fewer copies",
        ResourceKind::Controller => "further controllers or links",
        ResourceKind::Receiver => "more CPU for the receiver or a further peer",
        ResourceKind::Cpu => match prediction.cpu.as_ref().map(|cpu| cpu.granted) {
            Some(Granted::Quota(_)) => "more cores in the quota",
            Some(Granted::WorkerCores(_)) => "workers on more cores",
            _ => "more or faster cores",
        },
    }
}
