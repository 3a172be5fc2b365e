//! What limited a transfer of files. No part was measured alone before it, so nothing is predicted, and there is
//! no certainty beyond what the transfer itself and this host showed: the judge of all other flows says what.

use super::both_ends::{both_ends, limit_of_both};
use super::certainty::listed;
use super::others::who;
use super::product::{Achieved, Bottleneck, Diagnosis};
use super::sane;
use crate::measure::{LimitedBy, Measurement, Measurements, Stage};
use linerate_facts::units::show_bytes_rate;
use linerate_model::plan::{Goal, Plan};
use linerate_model::verdict::{Evidence, Judgement, Limit, LimitKind, Missing, WorkerEvidence, judge};

/// Of less time nothing can be said: the kernel counts CPU time in steps of 10 ms.
const LEAST_SECONDS: f64 = 0.3;

/// What it showed from within, and what its user wished.
fn evidence(measurement: &Measurement, rate_limit: Option<f64>) -> Evidence {
    let evidence = measurement.evidence();
    let paced = rate_limit.is_some();
    // It kept to it for most of the time: it had that rate, whatever was before and after.
    let kept = rate_limit.filter(|_| measurement.held_by == Some(LimitedBy::Demand));
    let bytes_per_second = kept.or(evidence.bytes_per_second);
    let workers = evidence.workers.map(|workers| WorkerEvidence { paced, ..workers });
    Evidence { rate_limit, bytes_per_second, workers, ..evidence }
}

/// What limited a transfer; `rate_limit` is its user's.
pub fn judge_transfer(measurement: &Measurement, rate_limit: Option<f64>) -> Judgement {
    match measurement.seconds < LEAST_SECONDS {
        true => Judgement { limits: Vec::new(), missing: Some(Missing::TooShort) },
        false => judge(&evidence(measurement, rate_limit)),
    }
}

/// `probably limited by the network: …`, for it is inferred; what is missing where nothing can be named.
pub fn transfer_sentence(judged: &Judgement, measurement: &Measurement) -> String {
    match (judged.limit(), &judged.missing) {
        (Some(limit @ Limit::Others { .. }), _) => {
            let total = measurement.cpu_share.others * measurement.cpu_by_core.len() as f64;
            format!("probably limited by {limit}{}", who(measurement.others.as_ref(), total, |one| one.cpus))
        }
        (Some(limit), _) => {
            if let Some(rate) = server_rate_limit(limit) {
                let rate = show_bytes_rate(rate);
                return format!(
                    "limited by the server's --rate-limit: it sends no more than {rate} to all its clients together"
                );
            }
            match limit {
                _ if limit.names_a_part() => format!("probably limited by {limit}"),
                Limit::Demand { .. } => format!("what limited it: {limit}"),
                _ => format!("what probably limited it: {limit}"),
            }
        }
        (None, Some(missing)) => missing.to_string(),
        (None, None) => String::new(),
    }
}

/// What the server said that it sends at most, where that limits.
fn server_rate_limit(limit: &Limit) -> Option<f64> {
    match limit {
        Limit::Incoming { part: Some(part), .. } => server_rate_limit(part),
        Limit::OfSender(of) => match **of {
            Limit::ReceiverRateLimit { bytes_per_second } => Some(bytes_per_second),
            _ => None,
        },
        _ => None,
    }
}

/// Of the one transfer among the measurements; none where nothing was moved.
pub(crate) fn transfer_diagnosis(
    goal: &Goal,
    plan: Option<&Plan>,
    measurements: &Measurements,
) -> Option<Diagnosis> {
    let moved = measurements.iter().find(|one| matches!(one.stage, Stage::Get | Stage::Put))?;
    let (kind, resources, sentence) = match both_ends(measurements) {
        Some((own, other)) => {
            limit_of_both(own, other, |one| judge_transfer(one, goal.rate_limit), resources)
        }
        None => {
            let judged = judge_transfer(moved, goal.rate_limit);
            let resources = judged.limit().map(resources).unwrap_or_default();
            (judged.kind().unwrap_or(LimitKind::Unknown), resources, transfer_sentence(&judged, moved))
        }
    };
    Some(Diagnosis {
        ceiling: plan.map(|plan| sane(&plan.ceiling)),
        achieved: Some(Achieved {
            bytes_per_second: moved.bytes_per_second,
            interval: moved.interval,
            ..Achieved::default()
        }),
        bottleneck: Some(Bottleneck::new(kind, resources, vec![sentence], 0.0)),
        evidence: listed(&evidence(moved, goal.rate_limit), None),
        ..Diagnosis::default()
    })
}

/// Ids of what it names; the other host has none here.
pub fn resources(limit: &Limit) -> Vec<String> {
    match limit {
        Limit::Source { disk: Some(disk), .. } | Limit::Written { disk: Some(disk), .. } => {
            vec![format!("disk:{}", disk.name)]
        }
        Limit::DiskBusy(disk) | Limit::DiskDeep(disk) | Limit::DiskPauses(disk) => {
            vec![format!("disk:{}", disk.name)]
        }
        Limit::Volume { name, .. } => vec![format!("disk:{name}")],
        Limit::Link(link) => vec![format!("nic:{}", link.nic)],
        Limit::Shaper { nic, .. } => vec![format!("nic:{nic}")],
        Limit::Sink { part: Some(part), .. } | Limit::Incoming { part: Some(part), .. } => resources(part),
        Limit::Thread { .. } | Limit::OwnCpu { .. } | Limit::Cpus { .. } => vec!["cpu".into()],
        Limit::Quota { .. } | Limit::Steal { .. } | Limit::Others { .. } => vec!["cpu".into()],
        _ => Vec::new(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::measure::access::DeviceUse;
    use crate::measure::{LinkUse, WorkerResult};
    use linerate_facts::counters::{ProcessUse, ProcessesUse};
    use linerate_facts::protocol::Protocol;
    use linerate_facts::usage::CoreUse;
    use linerate_model::verdict::ArrivalCount;

    pub(in super::super) fn moved(stage: Stage, waiting_source: f64, waiting_sink: f64) -> Measurement {
        let worker =
            WorkerResult { waiting_source, waiting_sink, cpu_share: 0.05, ..WorkerResult::default() };
        Measurement {
            stage,
            bytes_per_second: 1e8,
            seconds: 5.0,
            workers: vec![worker; 4],
            ..Measurement::default()
        }
    }

    fn diagnosed(goal: &Goal, measurement: Measurement) -> (LimitKind, Vec<String>, String) {
        let found = transfer_diagnosis(goal, None, &vec![measurement]).expect("something was moved");
        assert!(found.verdict.is_none() && found.predicted.is_none(), "nothing was predicted");
        let Bottleneck { kind, resources, sentence, .. } = found.bottleneck.expect("a sentence");
        (kind, resources, sentence)
    }

    #[test]
    fn other_programs_beside_a_transfer_have_names() {
        let core = CoreUse { user: 0.4, system: 0.5, softirq: 0.1, ..CoreUse::default() };
        let hog = ProcessUse {
            pid: 1673,
            name: "rustc".into(),
            cpus: 0.4,
            user_cpus: 0.4,
            ..ProcessUse::default()
        };
        let processes = ProcessesUse {
            seconds: 5.0,
            others: vec![hog],
            visible_user_cpus: 0.4,
            ..ProcessesUse::default()
        };
        let measured = Measurement { cpu_by_core: vec![core], ..moved(Stage::Put, 0.1, 0.1) };
        let (kind, _, sentence) = diagnosed(&Goal::default(), measured.beside(0.3, &processes));
        let named = "probably limited by other programs: they used 40 % of CPU 0, which the flow needs, most of it rustc (pid \
                     1673)";
        assert_eq!((kind, sentence.as_str()), (LimitKind::Others, named));
    }

    #[test]
    fn a_limit_of_each_connection_is_named_by_what_one_and_many_got() {
        let window = |streams: u32, each: f64| ArrivalCount {
            streams,
            seconds: 0.05,
            bytes: (each * 0.05) as u64 * u64::from(streams),
        };
        let worker = |each: f64, waiting_source: f64| WorkerResult {
            active_bytes_per_second: each,
            waiting_source,
            waiting_sink: 0.9 - waiting_source,
            ..WorkerResult::default()
        };
        let seen = |alone: f64, each: f64| Measurement {
            stream_windows: [vec![window(1, alone); 3], vec![window(16, each); 3]].concat(),
            workers: vec![worker(each, 0.9); 16],
            ..moved(Stage::Get, 0.9, 0.0)
        };
        let (kind, _, sentence) = diagnosed(&Goal::default(), seen(5.3e6, 5.2e6));
        let expected =
            "each connection gets 5.20 MB/s, one alone as well as each of 16: a limit of each connection";
        assert!(kind == LimitKind::Sender && sentence.contains(expected), "{sentence}");
        assert!(sentence.contains("--streams"), "{sentence}");
        let shared = diagnosed(&Goal::default(), seen(83e6, 5.2e6)).2;
        assert!(shared.contains("the server or the way from it"), "{shared}");
        // The same of files that go out: the server keeps TCP's window closed, or what is on the way lets no more through.
        for receiver_limited in [0.0, 0.95] {
            let sent = |alone: f64, each: f64| {
                let tcp = WorkerResult { receiver_limited, round_trip_seconds: 1e-4, ..worker(each, 0.0) };
                let (stage, protocol, workers) = (Stage::Put, Some(Protocol::Tcp), vec![tcp; 16]);
                let measured = Measurement { stage, protocol, workers, ..seen(alone, each) };
                diagnosed(&Goal::default(), measured)
            };
            let (kind, _, sentence) = sent(5.3e6, 5.2e6);
            assert!(kind == LimitKind::Receiver && sentence.contains(expected), "{sentence}");
            let (kind, _, shared) = sent(83e6, 5.2e6);
            assert!(kind == LimitKind::Receiver && !shared.contains("each connection"), "{shared}");
        }
        // A slow disk here makes all streams wait for it, whatever came alone.
        let mut written = seen(5.3e6, 5.2e6);
        for worker in &mut written.workers {
            (worker.waiting_source, worker.waiting_sink) = (0.1, 0.8);
        }
        assert_eq!(diagnosed(&Goal::default(), written).0, LimitKind::Disk);
    }

    #[test]
    fn a_transfer_is_judged_from_what_was_kept_of_it() {
        let disk =
            DeviceUse { name: "vda".into(), utilisation: 1.0, queue_depth: 8.0, ..DeviceUse::default() };
        let written = Measurement { devices: vec![disk], ..moved(Stage::Get, 0.1, 0.8) };
        let (kind, resources, sentence) = diagnosed(&Goal::default(), written);
        assert_eq!((kind, resources), (LimitKind::Disk, vec!["disk:vda".to_string()]));
        assert!(
            sentence.starts_with("probably limited by the disks: the workers wait for them 80 %"),
            "{sentence}"
        );
        let shaper = Some(("tbf".to_string(), 500.0));
        let link = LinkUse {
            name: "eth0".into(),
            sends: true,
            bytes_per_second: 1.02e8,
            shaper,
            ..LinkUse::default()
        };
        let put = Measurement { links: vec![link], ..moved(Stage::Put, 0.1, 0.8) };
        let (kind, resources, sentence) = diagnosed(&Goal::default(), put);
        assert_eq!((kind, resources), (LimitKind::Nic, vec!["nic:eth0".to_string()]), "{sentence}");
        let (kind, resources, sentence) = diagnosed(&Goal::default(), moved(Stage::Get, 0.9, 0.0));
        assert_eq!((kind, resources), (LimitKind::Sender, Vec::new()), "{sentence}");
        let goal = Goal { rate_limit: Some(1.01e8), ..Goal::default() };
        let (kind, _, sentence) = diagnosed(&goal, moved(Stage::Get, 0.9, 0.0));
        assert_eq!(kind, LimitKind::Demand);
        assert!(
            sentence.starts_with("what limited it: the flow asked for no more than 101 MB/s"),
            "{sentence}"
        );
        let held = Measurement { held_by: Some(LimitedBy::Demand), ..moved(Stage::Get, 0.1, 0.0) };
        assert_eq!(
            diagnosed(&Goal { rate_limit: Some(1.2e8), ..Goal::default() }, held).0,
            LimitKind::Demand
        );
        let limited = Measurement { sender_rate_limit: Some(1.05e8), ..moved(Stage::Get, 0.9, 0.0) };
        let (kind, _, sentence) = diagnosed(&Goal::default(), limited);
        let expected = "limited by the server's --rate-limit: it sends no more than 105 MB/s to all its clients together";
        assert_eq!((kind, sentence.as_str()), (LimitKind::Sender, expected));
        // Sums that it reads at the same rate make the whole longer.
        let begun = ArrivalCount { streams: 4, seconds: 2.0, bytes: 400_000_000 };
        let summed = Measurement {
            sender_rate_limit: Some(2e8),
            stream_windows: vec![begun],
            ..moved(Stage::Get, 0.9, 0.0)
        };
        let (kind, _, sentence) = diagnosed(&Goal::default(), summed);
        assert!(kind == LimitKind::Sender && sentence.contains("no more than 200 MB/s to all"), "{sentence}");
        // It has far more to give than came: something else is in the way.
        let far = Measurement { sender_rate_limit: Some(3e8), ..moved(Stage::Get, 0.9, 0.0) };
        assert!(diagnosed(&Goal::default(), far).2.contains("the server or the way from it"));
        let short = Measurement { seconds: 0.2, ..moved(Stage::Get, 0.9, 0.0) };
        assert_eq!(diagnosed(&Goal::default(), short).2, "it was too short to tell what limited it");
        assert!(transfer_diagnosis(&Goal::default(), None, &Vec::new()).is_none());
    }
}
