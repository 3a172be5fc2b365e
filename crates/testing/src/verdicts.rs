//! Situations, each with the one answer to what limits the flow. The tests of everything that asks the judge
//! (the result of a run, the panel and `watch`, the wall) go through this table with what they can observe.

use linerate_model::verdict::{
    Evidence, LeftOut, LimitKind, QuotaEvidence, ReceiverEvidence, Route, WorkerEvidence,
};

/// What was observed, and what kind of thing limits.
#[derive(Clone, Debug)]
pub struct Situation {
    pub name: &'static str,
    pub evidence: Evidence,
    pub limited_by: Option<LimitKind>,
}

/// All of them.
pub fn situations() -> Vec<Situation> {
    let mut all = of_quotas();
    all.extend(of_threads_and_waits());
    all.extend(of_receivers());
    all.extend(of_deadlines());
    all
}

/// Two workers that neither wait for one side nor are full.
fn calm() -> Evidence {
    Evidence {
        route: Route::Network,
        bytes_per_second: Some(1e9),
        workers: Some(workers(0.4, 0.4, 0.3, 0.3)),
        ..Evidence::default()
    }
}

fn workers(busy: f64, busiest: f64, waiting_source: f64, waiting_sink: f64) -> WorkerEvidence {
    WorkerEvidence { count: 2, busy, busiest, waiting_source, waiting_sink, paced: false }
}

fn situation(name: &'static str, evidence: Evidence, limited_by: Option<LimitKind>) -> Situation {
    Situation { name, evidence, limited_by }
}

fn of_quotas() -> Vec<Situation> {
    let quota = |throttled, used| Evidence { quota: Some(QuotaEvidence { throttled, used }), ..calm() };
    let limits = Some(LimitKind::Quota);
    let full = Evidence { workers: Some(workers(0.97, 0.97, 0.0, 0.03)), ..quota(0.3, None) };
    vec![
        situation("nothing is near its limit", calm(), None),
        situation("throttled in 4 % of the periods", quota(0.04, None), None),
        situation("throttled in 5 % of the periods", quota(0.05, None), limits),
        situation("throttled in 10 % of the periods", quota(0.10, None), limits),
        situation("throttled in 25 % of the periods", quota(0.25, None), limits),
        situation("84 % of the quota used", quota(0.0, Some(0.84)), None),
        situation("86 % of the quota used", quota(0.0, Some(0.86)), limits),
        situation("a throttled group whose threads look full", full, limits),
    ]
}

fn of_threads_and_waits() -> Vec<Situation> {
    let of = |busy, busiest, source, sink| Evidence {
        workers: Some(workers(busy, busiest, source, sink)),
        ..calm()
    };
    vec![
        situation("a thread at 89 %", of(0.89, 0.89, 0.05, 0.06), None),
        situation("a thread at 90 %", of(0.90, 0.90, 0.05, 0.05), Some(LimitKind::Cpu)),
        situation("a thread at 93 %", of(0.93, 0.93, 0.03, 0.04), Some(LimitKind::Cpu)),
        situation("a full thread beside a starved one", of(0.5, 0.95, 0.5, 0.0), Some(LimitKind::Cpu)),
        situation("workers that wait for disks", of(0.1, 0.1, 0.85, 0.05), Some(LimitKind::Disk)),
        situation("workers that wait for the network", of(0.1, 0.1, 0.02, 0.88), Some(LimitKind::Receiver)),
        situation("waits of less than half", of(0.1, 0.1, 0.45, 0.45), None),
    ]
}

fn of_receivers() -> Vec<Situation> {
    let of = |busiest_thread, throttled: f64, rate_limit| {
        let quota = (throttled > 0.0).then_some(QuotaEvidence { throttled, used: None });
        Evidence {
            receiver: Some(ReceiverEvidence {
                busiest_thread,
                quota,
                rate_limit,
                ..ReceiverEvidence::default()
            }),
            ..calm()
        }
    };
    let both = Evidence { workers: Some(workers(0.95, 0.95, 0.0, 0.05)), ..of(0.99, 0.0, None) };
    let limits = Some(LimitKind::Receiver);
    vec![
        situation("a receiver with time left", of(0.5, 0.04, None), None),
        situation("a receiver whose thread is full", of(0.9, 0.0, None), limits),
        situation("a receiver throttled in 10 % of its periods", of(0.2, 0.1, None), limits),
        situation("full threads at both ends", both, limits),
        situation("a receiver at its rate limit", of(0.2, 0.0, Some(1.1e9)), limits),
        situation("a receiver far below its rate limit", of(0.2, 0.0, Some(1e10)), None),
    ]
}

/// Flows that must be in time: a wall's.
fn of_deadlines() -> Vec<Situation> {
    let late = |by_disk, by_network, by_cpu| {
        let left_out = Some(LeftOut { by_disk, by_network, by_cpu });
        Evidence { route: Route::DisksToNetwork, left_out, ..Evidence::default() }
    };
    let paced = |waiting_sink| {
        let workers = WorkerEvidence { count: 1, paced: true, ..workers(0.1, 0.1, 0.0, waiting_sink) };
        Evidence { route: Route::Network, workers: Some(workers), ..Evidence::default() }
    };
    vec![
        situation("no frame left out", late(0, 0, 0), None),
        situation("most frames left out by the disks", late(7, 3, 1), Some(LimitKind::Disk)),
        situation("most frames left out by the network", late(1, 3, 0), Some(LimitKind::Nic)),
        situation("most frames left out by the CPU", late(1, 1, 2), Some(LimitKind::Cpu)),
        situation("as many by the network as by the disks", late(2, 2, 0), Some(LimitKind::Nic)),
        situation("a paced sender that waits a fifth of its time", paced(0.20), None),
        situation("a paced sender that waits a third of its time", paced(0.33), Some(LimitKind::Receiver)),
    ]
}
