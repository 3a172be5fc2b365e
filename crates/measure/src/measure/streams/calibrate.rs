//! Short trials before the figures: which way of sending is the fastest here, and whether another congestion
//! control would be faster.
//!
//! Trials are run one after another on the same path with everything else equal. What wins by less than their
//! noise does not count: then the way that costs less CPU time is taken.

use super::job::{Handover, SenderSource, StreamDirection, StreamsJob};
use super::{StreamBench, measure_quietly};
use crate::measure::product::Measurement;
use crate::measure::window::WindowSpec;
use linerate_facts::protocol::Protocol;
use linerate_machine::probe::Machine;
use linerate_transport::flow::stream::SendMethod;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// One trial: long enough for TCP's slow start on a path within a country.
const TRIAL: WindowSpec =
    WindowSpec { warm_up: Duration::from_millis(200), window: Duration::from_millis(150), repeats: 3 };
/// Rates closer than this are equal.
const NOISE: f64 = 0.05;

/// A way that was tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MethodTrial {
    pub method: SendMethod,
    pub write_bytes: u32,
    /// Where it was named; none: the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion_control: Option<String>,
    pub bytes_per_second: f64,
    /// Of the sending host.
    pub cpu_seconds_per_gb: f64,
    /// The agent sent, and not we.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_peer: bool,
    /// Taken for the figures.
    #[serde(default)]
    pub chosen: bool,
}

/// Ways of sending from memory over TCP.
const FROM_MEMORY: [(SendMethod, u32); 4] = [
    (SendMethod::Write, 128 << 10),
    (SendMethod::Write, 512 << 10),
    (SendMethod::Sendfile, 512 << 10),
    (SendMethod::Zerocopy, 512 << 10),
];
/// Of a file that the page cache holds.
const FROM_CACHE: [(SendMethod, u32); 3] =
    [(SendMethod::Write, 1 << 20), (SendMethod::Sendfile, 1 << 20), (SendMethod::Splice, 1 << 20)];

/// Tries the ways of sending that there are for this job, sets the best one in it, and gives all.
pub(crate) fn choose_method(bench: &mut StreamBench<'_>, job: &mut StreamsJob) -> Vec<MethodTrial> {
    let ways: &[(SendMethod, u32)] = match (job.protocol, &job.behind) {
        // The engine segments where the kernel can, and a file past the cache is read into buffers of its
        // own.
        (Protocol::Udp, _) | (_, SenderSource::Cold(_)) => &[],
        (Protocol::Tcp, SenderSource::Memory) => &FROM_MEMORY,
        (Protocol::Tcp, SenderSource::Cached(_)) => &FROM_CACHE,
    };
    let mut trials: Vec<MethodTrial> = Vec::new();
    for (method, write_bytes) in ways {
        // Zerocopy towards this very machine is copied, always: not worth a trial.
        if bench.stopped() || (*method == SendMethod::Zerocopy && bench.loopback) {
            continue;
        }
        let tried = StreamsJob { method: *method, write_bytes: *write_bytes, ..trial_of(job) };
        trials.extend(attempt(bench, &tried));
    }
    if let Some(best) = best(&trials) {
        trials[best].chosen = true;
        (job.method, job.write_bytes) = (trials[best].method, trials[best].write_bytes);
    }
    trials
}

/// The same for what the agent sends to us: another host, another kernel, perhaps another best way. What won
/// is the job's `peer`.
pub(crate) fn choose_peer_method(bench: &mut StreamBench<'_>, job: &mut StreamsJob) -> Vec<MethodTrial> {
    let mut asked = StreamsJob {
        direction: StreamDirection::Receive,
        behind: SenderSource::Memory,
        peer: None,
        ..job.clone()
    };
    let trials = choose_method(bench, &mut asked);
    if trials.iter().any(|trial| trial.chosen) {
        job.peer = Some(Handover { method: asked.method, write_bytes: asked.write_bytes });
    }
    trials
}

/// The system's congestion control beside the others that this kernel has, by the job's own method; empty
/// where there is no other. Nothing is chosen: what applications get is the system's.
pub(crate) fn compare_congestion_controls(bench: &mut StreamBench<'_>, job: &StreamsJob) -> Vec<MethodTrial> {
    let others = others(bench.machine);
    let mut trials = Vec::new();
    for name in std::iter::once(None).chain(others.iter().map(Some)).filter(|_| !others.is_empty()) {
        if bench.stopped() {
            break;
        }
        let tried = StreamsJob { congestion_control: name.cloned(), ..trial_of(job) };
        trials.extend(attempt(bench, &tried));
    }
    trials
}

/// Of the two that most systems choose between, the ones that are there and not the system's own.
fn others(machine: &Machine) -> Vec<String> {
    let kernel = &machine.kernel;
    let system = kernel.tcp_congestion_control.known().cloned().unwrap_or_default();
    let there = kernel.tcp_available_congestion_control.known().cloned().unwrap_or_default();
    ["cubic", "bbr"]
        .map(String::from)
        .into_iter()
        .filter(|name| *name != system && there.contains(name))
        .collect()
}

/// The job as a trial: without what only the figure needs.
fn trial_of(job: &StreamsJob) -> StreamsJob {
    StreamsJob { verify: false, latency: false, ..job.clone() }
}

fn attempt(bench: &mut StreamBench<'_>, job: &StreamsJob) -> Option<MethodTrial> {
    let windows = std::mem::replace(&mut bench.windows, TRIAL);
    if job.behind.file().is_some() {
        bench.windows.repeats = 1;
    }
    let measured: Option<Measurement> = measure_quietly(bench, job).measurement;
    bench.windows = windows;
    let measurement = measured?;
    let by_peer = job.direction == StreamDirection::Receive;
    Some(MethodTrial {
        method: job.method,
        write_bytes: job.write_bytes,
        congestion_control: job.congestion_control.clone(),
        bytes_per_second: measurement.bytes_per_second,
        cpu_seconds_per_gb: sender_cost(&measurement, by_peer),
        by_peer,
        chosen: false,
    })
}

/// CPU seconds per GB of the host that sent.
fn sender_cost(measurement: &Measurement, by_peer: bool) -> f64 {
    let peer = measurement.receiver.as_ref().filter(|_| by_peer);
    peer.map_or(measurement.cpu_seconds_per_gb, |peer| peer.cpu_seconds_per_gb)
}

/// The fastest; of those within the noise of it, the one that costs its sender least.
fn best(trials: &[MethodTrial]) -> Option<usize> {
    let most = trials.iter().map(|trial| trial.bytes_per_second).fold(0.0, f64::max);
    let near = |index: &usize| trials[*index].bytes_per_second > most * (1.0 - NOISE);
    (0..trials.len())
        .filter(near)
        .min_by(|a, b| trials[*a].cpu_seconds_per_gb.total_cmp(&trials[*b].cpu_seconds_per_gb))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(bytes_per_second: f64, cpu_seconds_per_gb: f64) -> MethodTrial {
        MethodTrial {
            method: SendMethod::Write,
            write_bytes: 1,
            congestion_control: None,
            bytes_per_second,
            cpu_seconds_per_gb,
            by_peer: false,
            chosen: false,
        }
    }

    #[test]
    fn the_fastest_wins_and_of_equals_the_cheapest() {
        assert_eq!(best(&[trial(5e9, 0.1), trial(9e9, 0.3), trial(8.8e9, 0.1)]), Some(2));
        assert_eq!(best(&[trial(5e9, 0.1), trial(9e9, 0.3), trial(8e9, 0.1)]), Some(1));
        assert_eq!(best(&[]), None);
    }
}
