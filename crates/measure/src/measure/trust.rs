//! Whether a figure is to be trusted: what held the stage instead of the thing that was measured, and flags
//! for the reader.

use super::product::{LimitedBy, Measurement};
use super::window::WindowObservation;
use linerate_model::verdict::thresholds::{CPU_OF_OTHERS, LOST, OTHERS_EXPLAIN};
use linerate_model::verdict::{Evidence, Limit, LimitKind, ReceiverEvidence, is_full, is_stolen, judge};

/// Samples wider apart than this do not deserve one number.
pub const SPREAD: f64 = 0.10;

/// Rates that a flow was not to pass, bytes per second.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RateLimits {
    /// What the receiver takes at most.
    pub receiver: Option<f64>,
    /// What was asked for here (`--rate-limit`).
    pub own: Option<f64>,
}

/// What limited the stage, if not the thing measured.
pub(crate) fn held_by(measurement: &Measurement, limits: RateLimits) -> Option<LimitedBy> {
    let mut evidence = measurement.evidence();
    evidence.rate_limit = limits.own;
    if let Some(rate_limit) = limits.receiver {
        let rate_limit = Some(rate_limit);
        let other = if measurement.incoming { &mut evidence.sender } else { &mut evidence.receiver };
        *other = Some(ReceiverEvidence { rate_limit, ..other.unwrap_or_default() });
    }
    let by = match judge(&evidence).limits.into_iter().next() {
        // The network's own word comes after its part.
        Some(Limit::Sink { part: Some(part), .. } | Limit::Incoming { part: Some(part), .. }) => {
            limited_by(&part)
        }
        limit => limit.as_ref().and_then(limited_by),
    };
    // What was measured may limit itself, and did so with what others left of it.
    by.or_else(|| evidence.others_explain().then_some(LimitedBy::Others))
}

/// None where what was measured limits itself.
fn limited_by(limit: &Limit) -> Option<LimitedBy> {
    match limit {
        Limit::Demand { .. } => Some(LimitedBy::Demand),
        Limit::ReceiverRateLimit { .. } | Limit::ReceiverQuota { .. } => Some(LimitedBy::Peer),
        Limit::ReceiverThread { .. } | Limit::ReceiverCpus => Some(LimitedBy::Peer),
        Limit::ReceiverInterrupts { .. } => Some(LimitedBy::Peer),
        Limit::OfSender(limit) => match limited_by(limit) {
            Some(LimitedBy::Peer) => Some(LimitedBy::Sender),
            other => other,
        },
        Limit::Quota { .. } => Some(LimitedBy::Quota),
        Limit::Thread { .. } | Limit::OwnCpu { .. } | Limit::Cpus { .. } => Some(LimitedBy::Cpu),
        Limit::Others { .. } => Some(LimitedBy::Others),
        Limit::Steal { share, .. } if *share >= CPU_OF_OTHERS => Some(LimitedBy::Cpu),
        Limit::Window { .. } => Some(LimitedBy::Window),
        Limit::Retransmits { .. } => Some(LimitedBy::Loss),
        _ => None,
    }
}

/// Sets the flags that follow from the figures themselves; the stages add their own (`page-cache`,
/// `short-file`).
pub(crate) fn flag(measurement: &mut Measurement, observation: &WindowObservation, cores_used: &[u32]) {
    let evidence = measurement.evidence();
    let quota = Evidence { quota: evidence.quota, ..Evidence::default() };
    let mut add = |condition: bool, flag: &str| {
        if condition && !measurement.flags.iter().any(|known| known == flag) {
            measurement.flags.push(flag.to_string());
        }
    };
    let used = || {
        observation.host.cpus.iter().filter(|core| cores_used.is_empty() || cores_used.contains(&core.core))
    };
    // By linerate's own work, that of the kernel for it included: others' is another reason, with a flag of its own.
    add(used().any(|core| is_full(core) && evidence.others_of(core) < OTHERS_EXPLAIN), "core-saturated");
    add(evidence.others_explain(), "others");
    add(used().any(is_stolen), "steal");
    add(judge(&quota).kind() == Some(LimitKind::Quota), "quota");
    add(measurement.spread > SPREAD, "spread");
    add(measurement.loss >= LOST, "loss");
    add(observation.cut_short, "cut-short");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{CpuShare, QuotaUse, ReceiverResult, Stage, WorkerResult};
    use linerate_facts::host::HostUse;
    use linerate_model::verdict::{QuotaEvidence, Route, WorkerEvidence};
    use linerate_testing::verdicts::{Situation, situations};
    use proptest::prelude::*;

    fn by_itself(figure: &Measurement) -> Option<LimitedBy> {
        held_by(figure, RateLimits::default())
    }

    fn taken(rate: f64) -> RateLimits {
        RateLimits { receiver: Some(rate), own: None }
    }

    fn worker(cpu_share: f64, waiting_source: f64, waiting_sink: f64) -> WorkerResult {
        let source = "memory".into();
        WorkerResult { source, cpu_share, waiting_source, waiting_sink, ..WorkerResult::default() }
    }

    fn stage(of: Stage) -> Measurement {
        let mut figure = Measurement::of(of, String::new(), String::new(), &WindowObservation::default());
        figure.seconds = 1.0;
        figure
    }

    fn seen(cpu_share: f64, cores: f64, throttled: f64) -> Measurement {
        let quota = (cores > 0.0).then(|| QuotaUse { cores, throttled, used: cpu_share / cores });
        Measurement { quota, workers: vec![worker(cpu_share, 0.3, 0.3)], ..stage(Stage::Network) }
    }

    #[test]
    fn names_what_limited_the_stage() {
        let by = |figure: &Measurement| by_itself(figure);
        assert_eq!(by(&seen(0.3, 0.0, 0.0)), None);
        assert_eq!(by(&seen(0.97, 0.0, 0.0)), Some(LimitedBy::Cpu));
        assert_eq!(by(&seen(0.39, 0.4, 0.9)), Some(LimitedBy::Quota));
        assert_eq!(by(&seen(0.1, 0.4, 0.0)), None);
        assert_eq!(by(&seen(0.35, 0.4, 0.0)), Some(LimitedBy::Quota), "most of it is used");
        let starved = ReceiverResult { throttled: 0.8, quota_cores: 0.1, ..ReceiverResult::default() };
        let starved = Measurement { receiver: Some(starved), ..seen(0.97, 0.0, 0.0) };
        assert_eq!(by(&starved), Some(LimitedBy::Peer));
        let limited = Measurement { bytes_per_second: 9.25e6, ..seen(0.3, 0.0, 0.0) };
        assert_eq!(held_by(&limited, taken(10e6)), Some(LimitedBy::Peer));
        assert_eq!(held_by(&limited, taken(100e6)), None);
        let own = |rate| held_by(&limited, RateLimits { own: Some(rate), receiver: Some(10e6) });
        assert_eq!((own(9.3e6), own(20e6)), (Some(LimitedBy::Demand), Some(LimitedBy::Peer)));
    }

    /// No limit was set anywhere, and both CPUs were full: half of their time was interrupts and kernel threads,
    /// and the stage was called the capacity of its NIC.
    #[test]
    fn full_cpus_limit_a_stage_that_wants_them() {
        let full = |core| crate::measure::CoreUse {
            core,
            system: 0.7,
            softirq: 0.28,
            idle: 0.02,
            ..Default::default()
        };
        let mut figure = Measurement { cpu_by_core: vec![full(0), full(1)], ..seen(0.5, 0.0, 0.0) };
        figure.cpu_share = CpuShare { linerate: 0.5, kernel: 0.48, others: 0.0 };
        assert_eq!(by_itself(&figure), Some(LimitedBy::Cpu));
        // Others fill them: what was measured may be the limit, with what they left of it.
        for core in &mut figure.cpu_by_core {
            (core.user, core.system, core.softirq) = (0.88, 0.08, 0.02);
        }
        figure.cpu_share = CpuShare { linerate: 0.05, kernel: 0.05, others: 0.88 };
        figure.workers = vec![worker(0.1, 0.05, 0.45)];
        assert_eq!(by_itself(&figure), Some(LimitedBy::Others));
        // They fill the worker's own, and it wants more.
        figure.workers = vec![WorkerResult { core: Some(0), ..worker(0.5, 0.0, 0.4) }];
        assert_eq!(by_itself(&figure), Some(LimitedBy::Others));
    }

    /// `core-saturated` stood beside figures for which linerate used 2 % of the CPUs.
    #[test]
    fn a_core_is_saturated_by_linerates_own_work_alone() {
        let flags = |linerate: f64, others: f64| {
            let idle = 1.0 - linerate - others;
            let core = crate::measure::CoreUse { user: others, system: linerate, idle, ..Default::default() };
            let mut figure = Measurement { cpu_by_core: vec![core], ..seen(linerate, 0.0, 0.0) };
            figure.cpu_share = CpuShare { linerate, kernel: 0.0, others };
            let observed = WindowObservation {
                host: HostUse { cpus: vec![core], ..HostUse::default() },
                ..WindowObservation::default()
            };
            flag(&mut figure, &observed, &[]);
            figure.flags
        };
        assert_eq!(flags(0.99, 0.0), ["core-saturated"]);
        assert_eq!(flags(0.23, 0.75), ["others"]);
        assert_eq!(flags(0.23, 0.1), [""; 0]);
    }

    #[test]
    fn a_window_and_loss_limit_a_stage() {
        let mut figure = Measurement {
            protocol: Some(linerate_facts::protocol::Protocol::Tcp),
            bytes_per_second: 17e6,
            workers: vec![WorkerResult {
                receiver_limited: 0.9,
                round_trip_seconds: 0.001,
                ..worker(0.1, 0.0, 0.9)
            }],
            ..stage(Stage::Network)
        };
        assert_eq!(by_itself(&figure), Some(LimitedBy::Window));
        figure.workers[0].receiver_limited = 0.0;
        assert_eq!(by_itself(&figure), None);
        (figure.workers[0].retransmits, figure.workers[0].retransmit_share) = (5000, 0.02);
        assert_eq!(by_itself(&figure), Some(LimitedBy::Loss));
    }

    /// Before Linux 4.10 TCP_INFO has no times: a window that was closed cannot be told from one that was not.
    #[test]
    fn a_kernel_without_the_times_of_tcp_leaves_them_unknown() {
        let mut figure = Measurement {
            protocol: Some(linerate_facts::protocol::Protocol::Tcp),
            workers: vec![WorkerResult {
                bytes_per_second: 1e9,
                segment_bytes: 1448,
                ..worker(0.1, 0.0, 0.9)
            }],
            ..stage(Stage::Path)
        };
        assert_eq!(figure.evidence().tcp.receive_window_share, None);
        figure.workers[0].sending_seconds = 0.5;
        assert_eq!(figure.evidence().tcp.receive_window_share, Some(0.0));
    }

    /// The stage with what it can observe of a situation.
    fn of_situation(evidence: &Evidence) -> Measurement {
        let workers = evidence.workers.unwrap_or_default();
        let one = |cpu_share| worker(cpu_share, workers.waiting_source, workers.waiting_sink);
        let quota = evidence.quota.map(|quota| QuotaUse {
            cores: 1.0,
            throttled: quota.throttled,
            used: quota.used.unwrap_or(0.0),
        });
        Measurement {
            bytes_per_second: evidence.bytes_per_second.unwrap_or(0.0),
            quota,
            workers: vec![one(workers.busiest), one(2.0 * workers.busy - workers.busiest)],
            ..stage(Stage::Network)
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
            let figure = Measurement { receiver, ..of_situation(&evidence) };
            assert_eq!(held_by(&figure, RateLimits { receiver: rate_limit, own: None }), expected, "{name}");
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
                Evidence { route: Route::Network, quota, workers: Some(workers), ..Evidence::default() };
            let expected = judge(&evidence).kind().map(|kind| match kind {
                LimitKind::Quota => LimitedBy::Quota,
                _ => LimitedBy::Cpu,
            });
            prop_assert_eq!(by_itself(&of_situation(&evidence)), expected);
        }
    }

    /// The panel said “the CPU quota” and the result did not; the flag stood from the first throttled period
    /// on.
    #[test]
    fn a_quota_limits_from_a_twentieth_of_its_periods_on() {
        for (throttled, limits) in [(0.0, false), (0.04, false), (0.05, true), (0.1, true), (0.25, true)] {
            let mut figure = seen(0.1, 1.0, throttled);
            flag(&mut figure, &WindowObservation::default(), &[]);
            let flagged = figure.flags.iter().any(|flag| flag == "quota");
            let quota = by_itself(&figure) == Some(LimitedBy::Quota);
            assert_eq!((quota, flagged), (limits, limits), "{throttled}");
        }
    }
}
