//! What a kept run says of the cost of a worker, for the number of workers of the next one.

use super::Run;
use crate::measure::{Measurement, Stage, WorkerResult};
use linerate_facts::protocol::Protocol;
use linerate_machine::probe::Machine;
use linerate_model::plan::{Goal, PathPlan, WorkerCost};
use std::collections::BTreeMap;

/// A worker that works for less of its time shows no cost that could be counted on.
const LEAST_CPU_SHARE: f64 = 0.05;

/// The cost of a worker by the id of the NIC that it sent through, from the path of a run; none where a rate limit,
/// idle priority or a flow that came in made it another one.
pub fn worker_costs(run: &Run, protocol: Protocol) -> BTreeMap<String, WorkerCost> {
    let goal = &run.goal;
    if goal.flow.receives() || goal.rate_limit.is_some() || goal.idle {
        return BTreeMap::new();
    }
    let of_protocol =
        |figure: &&Measurement| figure.stage == Stage::Path && figure.protocol == Some(protocol);
    let Some(path) = run.measurements.iter().find(of_protocol) else { return BTreeMap::new() };
    let mut by_nic: BTreeMap<&str, Vec<&WorkerResult>> = BTreeMap::new();
    for worker in &path.workers {
        by_nic.entry(worker.path.as_deref().unwrap_or_default()).or_default().push(worker);
    }
    let peer = path.receiver.as_ref().map_or(0.0, |receiver| receiver.cpu_seconds_per_gb);
    let cost = |workers: &[&WorkerResult]| {
        let sum = |of: fn(&WorkerResult) -> f64| workers.iter().map(|worker| of(worker)).sum::<f64>();
        let (cpu, rate) = (sum(|worker| worker.cpu_share), sum(|worker| worker.bytes_per_second));
        let most = workers.iter().map(|worker| worker.bytes_per_second).fold(0.0, f64::max);
        let own = cpu / rate * 1e9;
        let known = own.is_finite() && own > 0.0 && peer.is_finite() && most.is_finite();
        (known && cpu >= LEAST_CPU_SHARE * workers.len() as f64).then(|| WorkerCost {
            seconds_per_gb: own.max(peer),
            at_peer: peer > own,
            most_bytes_per_second: most,
            started: run.started.clone(),
        })
    };
    let found = by_nic.into_iter().filter(|(nic, _)| !nic.is_empty());
    found.filter_map(|(nic, workers)| Some((nic.to_string(), cost(&workers)?))).collect()
}

/// Gives the paths what an earlier run measured, where that was done as this one will be.
pub(super) fn take_over(earlier: &Run, machine: &Machine, goal: &Goal, paths: &mut [PathPlan]) {
    let same_way = (earlier.goal.verify, earlier.goal.zero_copy) == (goal.verify, goal.zero_copy);
    let same_cpu = earlier.machine.cpu.model == machine.cpu.model;
    let Some(protocol) = goal.protocols.first().filter(|_| same_way && same_cpu) else { return };
    let costs = worker_costs(earlier, *protocol);
    for path in paths {
        path.worker_cost = costs.get(&path.resource).cloned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::ReceiverResult;
    use linerate_facts::fact::Fact;
    use linerate_testing::{machine, paths};

    fn worker(nic: &str, cpu_share: f64, bytes_per_second: f64) -> WorkerResult {
        WorkerResult { path: Some(nic.into()), cpu_share, bytes_per_second, ..WorkerResult::default() }
    }

    fn run_of(workers: Vec<WorkerResult>, peer_seconds_per_gb: f64) -> Run {
        let receiver =
            ReceiverResult { cpu_seconds_per_gb: peer_seconds_per_gb, ..ReceiverResult::default() };
        let path = Measurement {
            stage: Stage::Path,
            protocol: Some(Protocol::Tcp),
            workers,
            receiver: Some(receiver),
            ..Measurement::default()
        };
        let goal = Goal { protocols: vec![Protocol::Tcp], ..Goal::default() };
        let mut run = Run::begin(machine(4), goal);
        run.measurements = vec![path];
        run
    }

    #[test]
    fn the_dearer_end_of_a_stream_is_its_cost() {
        let workers = vec![
            worker("nic:eth0", 0.5, 1e9),
            worker("nic:eth0", 0.7, 2e9),
            worker("nic:eth1", 0.9, 1e9),
            worker("nic:eth2", 0.01, 1e9),
        ];
        let costs = worker_costs(&run_of(workers, 0.6), Protocol::Tcp);
        let of = |nic: &str| costs.get(nic).map(|cost| (cost.seconds_per_gb, cost.at_peer));
        assert_eq!(of("nic:eth0"), Some((0.6, true)), "0.4 here, 0.6 there");
        assert_eq!(of("nic:eth1"), Some((0.9, false)));
        assert_eq!(of("nic:eth2"), None, "a hundredth of a CPU shows no cost");
        assert_eq!(costs["nic:eth0"].most_bytes_per_second, 2e9);
    }

    #[test]
    fn only_a_run_of_the_same_kind_counts() {
        let run = run_of(vec![worker("nic:eth0", 0.5, 1e9)], 0.0);
        let goal = run.goal.clone();
        let taken = |earlier: &Run, goal: &Goal| {
            let mut paths = paths(2);
            take_over(earlier, &run.machine, goal, &mut paths);
            paths.iter().filter(|path| path.worker_cost.is_some()).count()
        };
        assert_eq!(taken(&run, &goal), 1, "eth1 was not measured");
        assert_eq!(taken(&run, &Goal { verify: true, ..goal.clone() }), 0);
        assert_eq!(taken(&run, &Goal { zero_copy: Some(true), ..goal.clone() }), 0);
        assert_eq!(taken(&run, &Goal { protocols: vec![Protocol::Udp], ..goal.clone() }), 0);
        let mut limited = run.clone();
        limited.goal.rate_limit = Some(1e9);
        assert_eq!(taken(&limited, &goal), 0);
        let mut other = run.clone();
        other.machine.cpu.model = Fact::Known("another CPU".into());
        assert_eq!(taken(&other, &goal), 0);
    }
}
