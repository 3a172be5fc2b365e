//! Whether a figure is to be trusted: what held the stage instead of the thing that was measured, and flags
//! for the reader.

use super::product::{LimitedBy, Measurement, ReceiverResult};
use super::window::{WindowObservation, WorkerObservation};
use linerate_model::verdict::thresholds::LOST;
use linerate_model::verdict::{
    Evidence, Judgement, Limit, QuotaEvidence, ReceiverEvidence, Route, WorkerEvidence, is_full, is_stolen,
    judge,
};

/// Samples wider apart than this do not deserve one number.
pub(super) const SPREAD: f64 = 0.10;

/// What limited the stage, if not the thing measured. `rate_limit` is what the receiver was told to take at
/// most, bytes per second.
pub(crate) fn held_by(
    seen: &WindowObservation,
    receiver: Option<&ReceiverResult>,
    rate_limit: Option<f64>,
) -> Option<LimitedBy> {
    match judged(seen, receiver, rate_limit).limit()? {
        Limit::ReceiverRateLimit { .. } | Limit::ReceiverQuota { .. } | Limit::ReceiverThread { .. } => {
            Some(LimitedBy::Peer)
        }
        Limit::Quota { .. } => Some(LimitedBy::Quota),
        Limit::Thread { .. } => Some(LimitedBy::Cpu),
        // What was measured limits itself.
        _ => None,
    }
}

fn judged(seen: &WindowObservation, receiver: Option<&ReceiverResult>, rate_limit: Option<f64>) -> Judgement {
    let mut receiver = receiver.map(receiver_evidence);
    if rate_limit.is_some() {
        receiver = Some(ReceiverEvidence { rate_limit, ..receiver.unwrap_or_default() });
    }
    judge(&Evidence {
        receiver,
        bytes_per_second: Some(super::statistics::median(&seen.samples)),
        ..evidence(seen)
    })
}

/// What a stage shows of this host. Of the machine beside it only what the stage itself was held up by: which
/// part it measured is the plan's affair.
fn evidence(seen: &WindowObservation) -> Evidence {
    let workers = &seen.workers;
    let mean = |of: fn(&WorkerObservation) -> f64| workers.iter().map(of).sum::<f64>() / workers.len() as f64;
    let used = seen.cpu_seconds / seen.seconds.max(1e-9) / seen.quota_cores;
    Evidence {
        route: Route::Unknown,
        quota: quota(seen.throttled, seen.quota_cores)
            .map(|quota| QuotaEvidence { used: Some(used), ..quota }),
        workers: (!workers.is_empty()).then(|| WorkerEvidence {
            count: u32::try_from(workers.len()).unwrap_or(u32::MAX),
            busy: mean(|worker| worker.cpu_share),
            busiest: workers.iter().map(|worker| worker.cpu_share).fold(0.0, f64::max),
            waiting_source: mean(|worker| worker.waiting_source),
            waiting_sink: mean(|worker| worker.waiting_sink),
            paced: false,
        }),
        ..Evidence::default()
    }
}

/// What a receiver reported of itself.
pub(crate) fn receiver_evidence(receiver: &ReceiverResult) -> ReceiverEvidence {
    ReceiverEvidence {
        busiest_thread: receiver.busiest_thread,
        quota: quota(receiver.throttled, receiver.quota_cores),
        rate_limit: None,
    }
}

fn quota(throttled: f64, cores: f64) -> Option<QuotaEvidence> {
    (cores > 0.0).then_some(QuotaEvidence { throttled, used: None })
}

/// Sets the flags that follow from the figures themselves; the stages add their own (`page-cache`,
/// `short-file`).
pub(crate) fn flag(measurement: &mut Measurement, seen: &WindowObservation, cores_used: &[u32]) {
    let mut add = |condition: bool, flag: &str| {
        if condition && !measurement.flags.iter().any(|known| known == flag) {
            measurement.flags.push(flag.to_string());
        }
    };
    let used = || seen.cores.iter().filter(|core| cores_used.is_empty() || cores_used.contains(&core.core));
    add(used().any(is_full), "core-saturated");
    add(used().any(is_stolen), "steal");
    add(judge(&Evidence { workers: None, ..evidence(seen) }).limit().is_some(), "quota");
    add(measurement.spread > SPREAD, "spread");
    add(measurement.loss >= LOST, "loss");
    add(seen.cut_short, "cut-short");
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_model::verdict::LimitKind;
    use linerate_testing::verdicts::{Situation, situations};
    use proptest::prelude::*;

    fn seen(cpu_share: f64, quota_cores: f64, throttled: f64) -> WindowObservation {
        let worker = WorkerObservation { cpu_share, ..WorkerObservation::default() };
        WindowObservation {
            seconds: 1.0,
            cpu_seconds: cpu_share,
            quota_cores,
            throttled,
            workers: vec![worker],
            ..WindowObservation::default()
        }
    }

    #[test]
    fn names_what_limited_the_stage() {
        let by = |seen: &WindowObservation| held_by(seen, None, None);
        assert_eq!(by(&seen(0.3, 0.0, 0.0)), None);
        assert_eq!(by(&seen(0.97, 0.0, 0.0)), Some(LimitedBy::Cpu));
        assert_eq!(by(&seen(0.39, 0.4, 0.9)), Some(LimitedBy::Quota));
        assert_eq!(by(&seen(0.1, 0.4, 0.0)), None);
        assert_eq!(by(&seen(0.35, 0.4, 0.0)), Some(LimitedBy::Quota), "most of it is used");
        let starved = ReceiverResult { throttled: 0.8, quota_cores: 0.1, ..ReceiverResult::default() };
        assert_eq!(held_by(&seen(0.97, 0.0, 0.0), Some(&starved), None), Some(LimitedBy::Peer));
        let limited = WindowObservation { samples: vec![9e6, 9.5e6], ..seen(0.3, 0.0, 0.0) };
        assert_eq!(held_by(&limited, None, Some(10e6)), Some(LimitedBy::Peer));
        assert_eq!(held_by(&limited, None, Some(100e6)), None);
    }

    /// The stage with what it can observe of a situation.
    fn stage(evidence: &Evidence) -> WindowObservation {
        let (quota, workers) = (evidence.quota, evidence.workers.unwrap_or_default());
        let worker = |cpu_share| WorkerObservation {
            cpu_share,
            waiting_source: workers.waiting_source,
            waiting_sink: workers.waiting_sink,
            ..WorkerObservation::default()
        };
        WindowObservation {
            samples: evidence.bytes_per_second.into_iter().collect(),
            seconds: 1.0,
            cpu_seconds: quota.and_then(|quota| quota.used).unwrap_or(0.0),
            quota_cores: quota.map_or(0.0, |_| 1.0),
            throttled: quota.map_or(0.0, |quota| quota.throttled),
            workers: vec![worker(workers.busiest), worker(2.0 * workers.busy - workers.busiest)],
            ..WindowObservation::default()
        }
    }

    /// As the panel, `watch` and the wall answer.
    #[test]
    fn the_result_answers_as_the_judge_does() {
        for Situation { name, evidence, limited_by } in situations() {
            // Frames and a pace are a wall's alone.
            if evidence.left_out.is_some() || evidence.workers.is_some_and(|workers| workers.paced) {
                continue;
            }
            let receiver = evidence.receiver.map(|receiver| ReceiverResult {
                busiest_thread: receiver.busiest_thread,
                throttled: receiver.quota.map_or(0.0, |quota| quota.throttled),
                quota_cores: receiver.quota.map_or(0.0, |_| 1.0),
                ..ReceiverResult::default()
            });
            let rate_limit = evidence.receiver.and_then(|receiver| receiver.rate_limit);
            let expected = match limited_by {
                Some(LimitKind::Receiver) if receiver.is_some() => Some(LimitedBy::Peer),
                Some(LimitKind::Quota) => Some(LimitedBy::Quota),
                Some(LimitKind::Cpu) => Some(LimitedBy::Cpu),
                _ => None,
            };
            assert_eq!(held_by(&stage(&evidence), receiver.as_ref(), rate_limit), expected, "{name}");
        }
    }

    proptest! {
        #[test]
        fn any_stage_is_judged_by_the_one_judge(
            throttled in 0.0f64..1.0, used in 0.0f64..1.0, busiest in 0.0f64..1.0, part in 0.5f64..1.0,
        ) {
            let busy = busiest * part;
            let workers = WorkerEvidence { count: 2, busy, busiest, ..WorkerEvidence::default() };
            let quota = Some(QuotaEvidence { throttled, used: Some(used) });
            let evidence =
                Evidence { route: Route::Unknown, quota, workers: Some(workers), ..Evidence::default() };
            let expected = judge(&evidence).kind().map(|kind| match kind {
                LimitKind::Quota => LimitedBy::Quota,
                _ => LimitedBy::Cpu,
            });
            prop_assert_eq!(held_by(&stage(&evidence), None, None), expected);
        }
    }

    /// The panel said “the CPU quota” and the result did not; the flag stood from the first throttled period
    /// on.
    #[test]
    fn a_quota_limits_from_a_twentieth_of_its_periods_on() {
        for (throttled, limits) in [(0.0, false), (0.04, false), (0.05, true), (0.1, true), (0.25, true)] {
            let seen = seen(0.1, 1.0, throttled);
            let mut figure = Measurement::of(super::super::Stage::Disk, String::new(), String::new(), &seen);
            flag(&mut figure, &seen, &[]);
            let flagged = figure.flags.iter().any(|flag| flag == "quota");
            let quota = held_by(&seen, None, None) == Some(LimitedBy::Quota);
            assert_eq!((quota, flagged), (limits, limits), "{throttled}");
        }
    }
}
