//! What limited a tool's flow, by the one judge and from the tool's own figures; and what to try, in its words.

use linerate_facts::units::{show_bits_rate, show_bytes_rate};
use linerate_measure::diagnose::{Bottleneck, Diagnosis, Finding, Severity};
use linerate_measure::measure::streams::{StreamDirection, StreamsResult};
use linerate_measure::measure::{Measurement, Stage};
use linerate_measure::run::Run;
use linerate_model::verdict::{Evidence, Judgement, Limit, LimitKind, Missing, RequestsEvidence, judge};
use serde_json::json;

/// The least quota of a control group, 1 ms, in its usual period of 100 ms (`min_cfs_quota_period` of Linux).
const LEAST_CPU_QUOTA: f64 = 0.01;

/// What of a figure bears on its limit and has no field in it.
#[derive(Debug, Default)]
pub(crate) struct FigureContext {
    /// The user's, bytes per second.
    pub(crate) rate_limit: Option<f64>,
    pub(crate) requests: Option<RequestsEvidence>,
    /// Losses are those of the path, and not of a queue of the flow's own.
    pub(crate) loss_is_of_path: bool,
    pub(crate) full_path: Option<FullPath>,
    pub(crate) window_bytes: Option<f64>,
    pub(crate) window_was_set: bool,
    /// Why nothing but the CPUs and the user's own limit can be named.
    pub(crate) unknown: Option<String>,
    /// Past the page cache.
    pub(crate) is_direct: bool,
    /// CPUs that all of it used.
    pub(crate) cpus: Option<f64>,
    /// Its threads work while they wait: full CPUs of theirs are not a limit.
    pub(crate) polls: bool,
}

/// What shows that a path took no more, where its threads waited for it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FullPath {
    /// The shortest and the longest round trip, seconds, between which more under way brought no more.
    RoundTrips([f64; 2]),
    /// Datagrams were asked for at one rate, and went out at another, always the same one, bytes per second: nothing but
    /// the queue of its own host makes a sender of datagrams wait.
    Datagrams { asked: f64, sent: f64 },
}

/// Takes the figures into the run, with what limited the fastest of them.
pub(crate) fn judge_all(run: &mut Run, figures: Vec<(Measurement, FigureContext)>) {
    let rate = |figure: &(Measurement, FigureContext)| figure.0.bytes_per_second;
    let fastest = figures.iter().max_by(|one, other| rate(one).total_cmp(&rate(other)));
    let judged = fastest.map(|(figure, beside)| diagnosis(figure, beside)).unwrap_or_default();
    run.diagnosis = Some(judged);
    run.measurements = figures.into_iter().map(|(figure, _)| figure).collect();
}

fn diagnosis(figure: &Measurement, beside: &FigureContext) -> Diagnosis {
    let judged = judge(&evidence_in_context(figure, beside));
    let kind = match throttled_disk(&judged, figure, beside) {
        Some(_) => LimitKind::Quota,
        None => limit_kind(&judged, beside),
    };
    let sentence = sentence(&judged, figure, beside);
    let resources = match judged.limit() {
        Some(Limit::DiskBusy(disk) | Limit::DiskPauses(disk)) => vec![format!("disk:{}", disk.name)],
        Some(Limit::FewRequests { name, .. }) => vec![format!("disk:{name}")],
        Some(Limit::Thread { .. }) => vec!["cpu".into()],
        _ => Vec::new(),
    };
    let finding = Finding {
        id: "observed-limit".into(),
        severity: if matches!(kind, LimitKind::Demand | LimitKind::Unknown) {
            Severity::Note
        } else {
            Severity::Slow
        },
        text: format!("“{}”: {}", figure.name, sentence.trim_end_matches('.')),
        evidence: json!({ "measurement": figure.name, "bytes_per_second": figure.bytes_per_second }),
        remedy: remedy(&judged, figure, beside),
        gain: 0.0,
    };
    Diagnosis {
        bottleneck: Some(Bottleneck::new(kind, resources, vec![sentence], 0.0)),
        findings: Some(finding).filter(|finding| !finding.remedy.is_empty()).into_iter().collect(),
        ..Diagnosis::default()
    }
}

/// That its threads wait for the network does not show what of it is full: nothing of its links is in the file.
fn limit_kind(judged: &Judgement, beside: &FigureContext) -> LimitKind {
    match judged.limit() {
        _ if full_path(judged, beside).is_some() => LimitKind::Nic,
        Some(Limit::Sink { part, .. } | Limit::Incoming { part, .. }) => part
            .as_deref()
            .filter(|part| matches!(part, Limit::Retransmits { .. }))
            .map_or(LimitKind::Unknown, Limit::kind),
        limit => limit.map_or(LimitKind::Unknown, Limit::kind),
    }
}

/// Where its threads wait for the network, and more of them would bring no more.
fn full_path(judged: &Judgement, beside: &FigureContext) -> Option<FullPath> {
    let waits = matches!(judged.limit(), Some(Limit::Sink { .. } | Limit::Incoming { .. }));
    beside.full_path.filter(|_| waits)
}

/// Reads past the page cache that wait before the disk gets them, of jobs that needed less of a CPU than any quota leaves
/// them: neither the cache, a file system's locks nor their CPU held them back. The disk, and the milliseconds that they
/// take and wait.
fn throttled_disk<'j>(
    judged: &'j Judgement,
    figure: &Measurement,
    beside: &FigureContext,
) -> Option<(&'j str, f64, f64)> {
    let Some(Missing::HeldBefore { name, waiting_seconds, of_seconds }) = &judged.missing else {
        return None;
    };
    let only_reads = figure.access.as_ref().is_some_and(|access| access.writes.is_none());
    let has_cpu = beside.cpus.is_some_and(|cpus| cpus > 0.0 && cpus < LEAST_CPU_QUOTA);
    // An md of an old kernel does not count for how long it has requests.
    let is_counted = figure.devices.iter().all(|disk| disk.queue_depth > 0.0);
    let found = (name.as_str(), of_seconds * 1e3, waiting_seconds * 1e3);
    (beside.is_direct && only_reads && has_cpu && is_counted).then_some(found)
}

/// The figure's own evidence with what is beside it. By which interface it went no tool reports.
fn evidence_in_context(figure: &Measurement, beside: &FigureContext) -> Evidence {
    let mut evidence = figure.evidence();
    evidence.rate_limit = beside.rate_limit;
    evidence.requests = beside.requests;
    evidence.tcp.window_bytes = beside.window_bytes;
    evidence.tcp.window_was_set = beside.window_was_set;
    // bbr is not slowed down by losses: they count where the rate is what they leave of it.
    if !beside.loss_is_of_path || !evidence.tcp.loss_explains(figure.bytes_per_second) {
        evidence.tcp.retransmit_share = None;
    }
    if beside.polls {
        evidence.workers = None;
    }
    if beside.unknown.is_some() {
        evidence.disks.clear();
        evidence.tcp = Default::default();
    }
    evidence
}

/// Probably limited by what; or why it is unknown. An observation is never a flat statement.
fn sentence(judged: &Judgement, figure: &Measurement, beside: &FigureContext) -> String {
    let limited = |by: String| format!("Probably limited by {by}.");
    let unknown = |why: &str| format!("What limited it is unknown: {why}.");
    match full_path(judged, beside) {
        Some(FullPath::RoundTrips([least, most])) => {
            return limited(format!(
                "a link of the path, or a limit before it: round trips of {:.1} to {:.1} ms had the same rate, so that what \
                 is more under way only waits in a queue",
                least * 1e3,
                most * 1e3
            ));
        }
        Some(FullPath::Datagrams { asked, sent }) => {
            let (asked, sent) = (show_bits_rate(asked), show_bits_rate(sent));
            return limited(format!(
                "the sender's own interface, or a shaper before it: of the {asked} that were asked for {sent} went out, in \
                 each interval the same, with CPU left: a sender of datagrams waits for nothing but its host's own queue"
            ));
        }
        None => {}
    }
    if let Some((name, all, waiting)) = throttled_disk(judged, figure, beside) {
        return limited(format!(
            "a throttle of its control group: of the {all:.2} ms that a read takes it waits {waiting:.2} ms before {name} gets it"
        ));
    }
    match (judged.limit(), &judged.missing) {
        (Some(Limit::Demand { bytes_per_second }), _) => {
            let rate = show_bytes_rate(*bytes_per_second);
            limited(format!("the rate that was asked for, {rate}"))
        }
        (Some(Limit::Sink { part: Some(part), .. } | Limit::Incoming { part: Some(part), .. }), _)
            if matches!(**part, Limit::Retransmits { .. }) =>
        {
            limited(format!("lost packets: {part}"))
        }
        (Some(limit @ Limit::FullWindow { was_set: false, .. }), _) => unknown(&limit.to_string()),
        (Some(Limit::Sink { share, .. } | Limit::Incoming { share, .. }), _) => unknown(
            &beside.unknown.clone().unwrap_or_else(|| {
                format!(
                    "its threads waited for the network {:.0} % of the time, and the file does not say what of it is full",
                    share * 100.0
                )
            }),
        ),
        (Some(limit), _) => limited(limit.to_string()),
        (None, missing) => match (&beside.unknown, missing) {
            (Some(why), _) => unknown(why),
            (None, Some(Missing::BytesOfNoDisk)) if figure.devices.is_empty() => {
                unknown("the file holds no counters of a disk of that host")
            }
            (None, Some(Missing::OtherHost)) => unknown("the file does not say what of the network is full"),
            (None, Some(missing)) => unknown(&missing.to_string()),
            (None, None) => unknown("the file does not say"),
        },
    }
}

/// What to try next with the same tool, and what linerate answers itself.
fn remedy(judged: &Judgement, figure: &Measurement, beside: &FigureContext) -> String {
    let is_network = figure.stage == Stage::Network;
    let streams = figure.streams.as_deref();
    let plan = streams.and_then(|streams| plan_of(figure, streams));
    let limit = match judged.limit() {
        Some(Limit::Sink { part: Some(part), .. } | Limit::Incoming { part: Some(part), .. }) => {
            Some(&**part)
        }
        limit => limit,
    };
    match limit {
        _ if matches!(full_path(judged, beside), Some(FullPath::Datagrams { .. })) => {
            "compare the rate with that of the sender's interface (ethtool), of its queueing disciplines (`tc -s qdisc`) and \
             with a cloud's limit of the instance"
                .into()
        }
        _ if full_path(judged, beside).is_some() => {
            "compare the rate with that of each link of the path, and of shapers, policers and a cloud's limit of the \
             instance: more streams or larger windows bring no more"
                .into()
        }
        _ if throttled_disk(judged, figure, beside).is_some() => {
            "look at io.max of its control group (systemd: IOReadBandwidthMax, IOReadIOPSMax), or blkio.throttle of version 1"
                .into()
        }
        Some(Limit::DiskBusy(_)) => {
            "try a larger iodepth once: where the rate stays, only a faster device, or more of them, brings more; where it is \
             a volume of a cloud, its limit"
                .into()
        }
        Some(Limit::FewRequests { .. } | Limit::DiskPauses(_)) => {
            "try ioengine=libaio with iodepth=8, or numjobs=8; `linerate disk --queue-depth 1,8,32` shows where it levels off"
                .into()
        }
        Some(Limit::Thread { .. }) if is_network => {
            "try -P 4 with iperf3 3.16 or newer, which has a thread for each stream, or `linerate network`; jumbo frames cost \
             less CPU"
                .into()
        }
        Some(Limit::Thread { .. }) => "try more jobs (numjobs) or larger requests (bs)".into(),
        Some(Limit::ReceiverThread { .. }) => {
            "look at the receiver's CPU: try -P 4 with iperf3 3.16 or newer at both ends, or `linerate network`".into()
        }
        Some(Limit::OfSender(_)) => {
            "look at the sender's CPU: try -P 4 with iperf3 3.16 or newer at both ends, or `linerate network`".into()
        }
        Some(Limit::FullWindow { was_set: true, .. }) => {
            format!("leave -w away, or make it larger{}", plan.unwrap_or_default())
        }
        Some(Limit::FullWindow { .. }) => {
            format!("ping the other host while nothing runs, and compare the round trips{}", plan.unwrap_or_default())
        }
        Some(Limit::Retransmits { .. }) => {
            format!("look for where packets are lost with `linerate network`{}", plan.unwrap_or_default())
        }
        Some(Limit::Demand { .. }) if is_network => "leave -b away to see what is possible".into(),
        Some(Limit::Demand { .. }) => "leave rate and rate_iops away to see what is possible".into(),
        _ => String::new(),
    }
}

/// What it takes over that round trip.
fn plan_of(figure: &Measurement, streams: &StreamsResult) -> Option<String> {
    let trip = figure.evidence().tcp.round_trip_seconds.filter(|trip| *trip >= 1e-3)?;
    let is_one_way = streams.job.direction != StreamDirection::Both;
    let (count, milliseconds) = (streams.job.streams, trip * 1e3);
    is_one_way.then(|| {
        format!("; `linerate plan --rtt {milliseconds:.0}ms --streams {count}` says which windows and streams fill it")
    })
}
