//! The bottleneck: the minimum cut of the prediction, in the words of the verdict; what raises the flow, and how
//! far.

use super::certainty::{Judged, kind, part_kinds};
use super::cost::Granted;
use super::figures::Figures;
use super::findings::SlowTwin;
use super::predict::{DiskLimit, Prediction};
use super::product::{Achieved, Bottleneck};
use crate::measure::ReceiverResult;
use linerate_facts::units::{show_bits_rate, show_bits_rate_within, show_bytes_rate, show_bytes_rate_within};
use linerate_facts::wording::counted;
use linerate_model::plan::capacity::Solution;
use linerate_model::plan::schedule::LEAST_ROUNDS;
use linerate_model::plan::wording::{in_words, listed, name, next_in_words, numbered, origin};
use linerate_model::plan::{Origin, Plan, Resource, ResourceKind};
use linerate_model::verdict::{
    Doubt, Evidence, FlowRate, Limit, LimitKind, NamedLimit, Statement, beside_others, judge,
};

/// A next limit that is closer than this is said to be the same.
const HARDLY: f64 = 1.02;

/// Kind, ids, gain and sentences of the cut.
pub(super) fn bottleneck(
    prediction: &Prediction,
    plan: &Plan,
    figures: &Figures,
    judged: &Judged,
    twins: &[SlowTwin],
) -> Bottleneck {
    // What they took is not a part that somebody could raise.
    if let Some((sentence, taken)) = judged.others.as_ref().filter(|_| judged.doubt == Some(Doubt::Others)) {
        let achieved = carried(prediction, &prediction.achieved(figures));
        let ids = taken.iter().map(|(id, _)| id.clone()).collect();
        return Bottleneck::new(LimitKind::Others, ids, beside_others(&achieved, sentence), 0.0);
    }
    let cut: Vec<&Resource> =
        prediction.solution.cut.iter().filter_map(|id| prediction.resource(id)).collect();
    let (Some(flow), Some(largest)) = (
        prediction.solution.bytes_per_second.known().copied(),
        part_kinds(prediction, &prediction.solution.cut).pop(),
    ) else {
        return nothing_known(prediction, figures);
    };
    let main: Vec<&Resource> = cut.iter().copied().filter(|part| part.kind == largest).collect();
    let mut limit = named_limit(largest, &main, prediction, plan, figures);
    for kind in part_kinds(prediction, &prediction.solution.cut).iter().rev().skip(1) {
        let parts: Vec<&Resource> = cut.iter().copied().filter(|part| part.kind == *kind).collect();
        limit.beside += &format!(", together with {}", shared(&parts));
    }
    let achieved = prediction.achieved(figures);
    let tied: Vec<&str> = judged.tied.iter().map(String::as_str).collect();
    let statement = Statement {
        kind: kind(prediction),
        limit,
        predicted: flow,
        achieved: carried(prediction, &achieved),
        of_predicted: achieved.of_predicted,
        verdict: judged.verdict,
        doubt: judged.doubt,
        flow: &judged.path,
        tied: in_words(&tied),
        headroom: headroom(
            prediction,
            largest,
            &prediction.of_disks,
            &prediction.solution.cut,
            flow,
            &prediction.raised(figures),
        ),
        unlike: twins.iter().find(|twin| main.iter().any(|part| part.id == twin.id)).map(SlowTwin::sentence),
        least_rounds: LEAST_ROUNDS,
        cut_short: judged.cut_short,
    };
    Bottleneck::new(
        kind(prediction),
        prediction.solution.cut.clone(),
        statement.sentences(),
        match kind(prediction) {
            LimitKind::Demand => 0.0,
            _ => prediction.gain(),
        },
    )
}

fn carried(prediction: &Prediction, achieved: &Achieved) -> FlowRate {
    let Achieved { bytes_per_second, interval, .. } = *achieved;
    FlowRate { bytes_per_second, interval, flow: prediction.flow }
}

fn nothing_known(prediction: &Prediction, figures: &Figures) -> Bottleneck {
    let achieved = prediction.achieved(figures);
    let why = prediction.solution.bytes_per_second.why().unwrap_or("nothing is on the way");
    let unknown = format!("The bottleneck is unknown: {why}.");
    let sentences = carried(prediction, &achieved).sentence().into_iter().chain([unknown]).collect();
    Bottleneck::new(LimitKind::Unknown, Vec::new(), sentences, 0.0)
}

/// What limits the flow, with its figure.
fn named_limit(
    kind: ResourceKind,
    parts: &[&Resource],
    prediction: &Prediction,
    plan: &Plan,
    figures: &Figures,
) -> NamedLimit {
    let bytes = |one, many| rated_parts(one, many, parts, show_bytes_rate, show_bytes_rate_within);
    let bits = |one, many| rated_parts(one, many, parts, show_bits_rate, show_bits_rate_within);
    let one = parts[0];
    let in_bits = || show_bits_rate_within(one.capacity, one.interval);
    match kind {
        ResourceKind::Disk => match &prediction.of_disks {
            DiskLimit::Disks if prediction.is_of_sink() => {
                let (host, disk) = one.id.split_once("/disk:").unwrap_or(("the peer", &one.id));
                let name = format!("the sink's disk {disk} on {host}");
                NamedLimit { name, ..bytes("disk", "disks") }
            }
            DiskLimit::Disks => bytes("disk", "disks"),
            DiskLimit::Volumes { members, busiest } => {
                let below = format!(
                    "; none of its {members} disks is busy for more than {:.0} % of the time",
                    busiest * 100.0
                );
                let named = bytes("the volume", "volumes");
                NamedLimit { figure: named.figure.clone() + &below, ..named }
            }
            DiskLimit::Reads(_) => {
                let named = bytes("disk", "disks");
                let name = format!("too few reads in flight on {}", named.name);
                NamedLimit { name, several: true, ..named }
            }
        },
        ResourceKind::Volume => bytes("the volume", "volumes"),
        ResourceKind::Nic if plan.loopback => {
            NamedLimit::new("the host's own stack", format!("loopback, {}", in_bits()))
        }
        ResourceKind::Nic => bits("NIC", "NICs"),
        ResourceKind::Pcie => bytes("the PCIe link", "PCIe links"),
        ResourceKind::SocketLink => bytes("the link between the sockets", "links between the sockets"),
        ResourceKind::Memory => {
            let why = one.why.as_ref().map(|why| format!(", {why}")).unwrap_or_default();
            NamedLimit::new("the memory", show_bytes_rate_within(one.capacity, one.interval) + &why)
        }
        ResourceKind::Controller => NamedLimit::new(shared(parts), ""),
        ResourceKind::Cpu => cpu(prediction, plan),
        ResourceKind::Window if one.id.ends_with("udp") => {
            NamedLimit::new("UDP's window, which the receiver's buffer bounds", in_bits())
        }
        ResourceKind::Window => NamedLimit::new("TCP's window", in_bits()),
        ResourceKind::Loss => NamedLimit::new("the loss of packets on the way", in_bits()),
        ResourceKind::Demand => {
            let rate = format!("--rate-limit, {}", show_bytes_rate(one.capacity));
            NamedLimit::new("what was asked for", rate)
        }
        ResourceKind::Receiver => {
            let network = figures.whole_network(prediction.protocol, false);
            let report =
                network.and_then(|figure| Some((figure.receiver.as_ref()?, figure.bytes_per_second)));
            other_host("the receiver on", parts, report)
        }
        ResourceKind::Sender => {
            let network = figures.whole_network(prediction.protocol, false);
            let report = network.and_then(|figure| Some((figure.sender.as_ref()?, figure.bytes_per_second)));
            other_host("the sender on", parts, report)
        }
    }
}

/// `disk vda`, `2.64 ± 0.06 GB/s`; `the four disks`, `loop0–loop3, 50.0 MB/s each, together 200 ± 1 MB/s`.
fn rated_parts(
    one: &str,
    many: &str,
    parts: &[&Resource],
    show: fn(f64) -> String,
    show_within: fn(f64, Option<[f64; 2]>) -> String,
) -> NamedLimit {
    let (name, rates) = numbered(one, many, parts, show);
    let sum = |of: &dyn Fn(&Resource) -> Option<f64>| parts.iter().map(|part| of(part)).sum::<Option<f64>>();
    let end = |index: usize| sum(&|part: &Resource| part.interval.map(|ends| ends[index]));
    let interval = end(0).zip(end(1)).map(|(low, high)| [low, high]);
    let total = show_within(parts.iter().map(|part| part.capacity).sum(), interval);
    let several = parts.len() > 1;
    let figure = if several { format!("{rates}, together {total}") } else { total };
    let by = parts.iter().find(|part| part.origin != Origin::Measured);
    let by = by.map(|part| format!(", {}", origin(part))).unwrap_or_default();
    NamedLimit { name, figure: figure + &by, several, ..NamedLimit::default() }
}

/// Parts by their names; what devices share by what is known of it.
fn shared(parts: &[&Resource]) -> String {
    let ids: Vec<&str> = parts.iter().map(|part| part.id.as_str()).collect();
    match parts {
        [one] if one.kind == ResourceKind::Controller => one.why.clone().unwrap_or_else(|| in_words(&ids)),
        _ => in_words(&ids),
    }
}

fn cpu(prediction: &Prediction, plan: &Plan) -> NamedLimit {
    let Some(cpu) = &prediction.cpu else { return NamedLimit::new("the CPU", "") };
    let cost = format!("{:.2} CPU seconds per GB", cpu.seconds_per_gb);
    if cpu.is_stolen() {
        let taken = format!("{:.0} % of it went to others, {cost}", cpu.stolen * 100.0);
        return NamedLimit::new("the CPU time that the hypervisor leaves", taken);
    }
    if cpu.is_of_others() {
        let used = format!("they used {:.0} % of all CPUs, {cost}", cpu.others * 100.0);
        return NamedLimit::new("the CPU time that other programs leave", used);
    }
    match cpu.granted {
        Granted::Quota(cores) => {
            NamedLimit::new("the control group's CPU quota", format!("{cores:.2} cores, {cost}"))
        }
        Granted::WorkerCores(1) if plan.workers.len() > 1 => {
            NamedLimit::new(format!("the one core that all {} workers share", plan.workers.len()), cost)
        }
        Granted::WorkerCores(1) => NamedLimit::new("the core of the one worker", cost),
        Granted::WorkerCores(cores) => {
            NamedLimit::new("the CPU", format!("{cores} cores of the workers, {cost}"))
        }
        Granted::AllCores(cores) => {
            let cores = counted(cores.round() as u64, "core");
            NamedLimit::new("the CPU", format!("{cores}, {cost} with interrupts and kernel threads"))
        }
        Granted::InterruptCore(core) => {
            NamedLimit::new(format!("CPU {core}, which takes the interrupts of the network"), cost)
        }
    }
}

fn other_host(what: &str, parts: &[&Resource], report: Option<(&ReceiverResult, f64)>) -> NamedLimit {
    let names: Vec<&str> = parts.iter().map(|part| name(&part.id)).collect();
    let limit = report.and_then(|(report, rate)| {
        let receiver = Some(report.evidence(rate));
        judge(&Evidence { receiver, ..Evidence::default() }).limits.into_iter().next()
    });
    let why = match (report, limit) {
        (Some((report, _)), Some(Limit::ReceiverQuota { .. })) => {
            format!(", with a CPU quota of {:.2} cores", report.quota_cores)
        }
        (_, Some(Limit::ReceiverCpus)) => ", with all of its CPUs full".into(),
        (_, Some(Limit::ReceiverThread { .. })) => ", with a thread that fills a core".into(),
        (_, Some(Limit::ReceiverInterrupts { cpu, .. })) => {
            format!(", with CPU {cpu} full of the network's interrupts")
        }
        _ => String::new(),
    };
    let rate = show_bytes_rate(parts.iter().map(|part| part.capacity).sum());
    let figure = format!("{rate}{why}; not the NIC, not the disks");
    NamedLimit::new(format!("{what} {}", listed(&names, 3)), figure)
}

/// What raises a flow that these parts limit, how far, and what limits it there; by the stages of this run.
pub(super) fn headroom(
    prediction: &Prediction,
    kind: ResourceKind,
    of_disks: &DiskLimit,
    cut: &[String],
    flow: f64,
    lifted: &Solution,
) -> String {
    let parts = cut.iter().filter(|id| prediction.resource(id).is_some_and(|part| part.kind == kind)).count();
    let remedy = remedy(prediction, kind, of_disks, parts);
    let Some(next) = lifted.bytes_per_second.known().copied() else {
        return format!("{remedy} would raise this; no other limit is known");
    };
    let ids: Vec<&str> = lifted.cut.iter().map(String::as_str).collect();
    let own_stack = prediction.loopback && lifted.cut.iter().all(|id| id.starts_with("nic:"));
    let cut: Vec<&str> = cut.iter().map(String::as_str).collect();
    let names = if own_stack { "the host's own stack".into() } else { next_in_words(&cut, &ids) };
    if next < flow * HARDLY {
        // What limits next was measured at another moment: less than what flows it cannot be.
        let rate =
            if next < flow { "the same rate".into() } else { format!("about {}", show_bytes_rate(next)) };
        return format!("{remedy} would gain little: {names} would limit at {rate}");
    }
    let rate = show_bytes_rate(next);
    let verb = if ids.len() > 1 { "limit" } else { "limits" };
    format!("{remedy} would raise this to about {rate}, where {names} {verb}")
}

fn remedy(prediction: &Prediction, kind: ResourceKind, of_disks: &DiskLimit, parts: usize) -> &'static str {
    match kind {
        ResourceKind::Disk if matches!(of_disks, DiskLimit::Reads(_)) => {
            "More reads in flight (--queue-depth)"
        }
        ResourceKind::Disk if matches!(of_disks, DiskLimit::Volumes { .. }) => {
            "Another layout of the volume, or none"
        }
        ResourceKind::Cpu if prediction.cpu.as_ref().is_some_and(|cpu| cpu.is_of_others()) => {
            "CPUs that other programs leave alone"
        }
        ResourceKind::Cpu if prediction.cpu.as_ref().is_some_and(|cpu| cpu.is_stolen()) => {
            "CPUs that the hypervisor gives to nobody else"
        }
        ResourceKind::Disk if parts > 1 => "Faster or more disks",
        ResourceKind::Disk => "A faster disk or further ones",
        ResourceKind::Nic if prediction.loopback => "Faster cores or more workers",
        ResourceKind::Nic if parts > 1 => "Faster or more NICs",
        ResourceKind::Nic => "A faster NIC or further ones",
        ResourceKind::Pcie => "Wider or faster slots",
        ResourceKind::SocketLink => "NICs and disks on one socket",
        ResourceKind::Memory => "More memory channels or fewer copies",
        ResourceKind::Controller => "Further controllers or links",
        ResourceKind::Volume => "Another layout of the volume, or none",
        ResourceKind::Receiver => "More CPU for the receiver or a further peer",
        ResourceKind::Sender => "More CPU for the sender or a further peer",
        ResourceKind::Window => "A larger window",
        ResourceKind::Loss => "A way without loss",
        ResourceKind::Demand => "A higher --rate-limit",
        ResourceKind::Cpu => match prediction.cpu.as_ref().map(|cpu| cpu.granted) {
            Some(Granted::Quota(_)) => "More cores in the quota",
            Some(Granted::WorkerCores(_)) => "Workers on more cores",
            Some(Granted::InterruptCore(_)) => "The network's interrupts on more cores",
            _ => "More or faster cores",
        },
    }
}
