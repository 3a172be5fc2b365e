//! What is known of a transfer in the end. This host shows its streams' waits, its CPUs, its disks and links,
//! as a measurement, which is judged as those of all other flows are, and can be kept. Its server said the
//! rate limit that it has, and what came of it with few streams and with many.

use crate::http::head::HeaderLines;
use crate::stream_tally::{StreamFigures, StreamTally};
use crate::stream_windows::StreamWindows;
use linerate_facts::counters::AgentProcess;
use linerate_facts::host::HostUse;
use linerate_facts::sysroot::Sysroot;
use linerate_machine::flow_devices::FlowDevices;
use linerate_measure::diagnose::{judge_transfer, transfer_sentence};
use linerate_measure::measure::{
    CpuShare, INTERFACE_NOT_SEEN, LimitedBy, LinkUse, Measurement, QuotaUse, Stage, WorkerResult,
};
use linerate_model::verdict::LimitKind;
use linerate_model::verdict::thresholds::WAITING;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};

/// A stream that was active for less than this share of the time of the busiest says nothing of the transfer.
const LEAST_ACTIVE: f64 = 0.1;

/// What the host did meanwhile as a measurement of files that came (`Get`) or went (`Put`), with what of it they used.
pub(crate) fn measurement_of(
    host: &HostUse,
    stage: Stage,
    workers: Vec<WorkerResult>,
    moved: u64,
    flow: &FlowDevices,
) -> Measurement {
    let comes_in = stage == Stage::Get;
    let seconds = host.seconds.max(1e-9);
    let rate = moved as f64 / seconds;
    let count = host.cpus.len().max(1) as f64;
    let kernel = host.cpus.iter().map(|cpu| cpu.irq + cpu.softirq).sum::<f64>() / count;
    let (busy, own) = (host.busy_cpus() / count, host.cpu_seconds / seconds / count);
    let is_of_flow = |link: &&LinkUse| link.sends != comes_in && flow.interfaces.contains(&link.name);
    let links: Vec<LinkUse> = host.links.iter().filter(is_of_flow).cloned().collect();
    let is_gone = |name: &&String| !links.iter().any(|link| link.name == **name);
    let gone =
        flow.interfaces.iter().filter(is_gone).map(|name| format!("{name} was not there all the time"));
    let not_seen = flow.unknown.iter().cloned().chain(gone).map(|why| format!("{INTERFACE_NOT_SEEN}{why}"));
    let measured = Measurement {
        stage,
        name: stage.to_string(),
        resource: "all".into(),
        together: true,
        bytes_per_second: rate,
        samples: vec![rate],
        cpu_seconds_per_gb: if moved > 0 { host.cpu_seconds / (moved as f64 / 1e9) } else { 0.0 },
        cpu_share: CpuShare { linerate: own, kernel, others: (busy - own - kernel).max(0.0) },
        quota: QuotaUse::of(host),
        devices: host.disks.iter().filter(|disk| flow.disks.contains(&disk.name)).cloned().collect(),
        not_seen: not_seen.collect(),
        links,
        cpu_by_core: host.cpus.clone(),
        protocol: Some(linerate_facts::protocol::Protocol::Tcp),
        seconds: host.seconds,
        workers,
        ..Measurement::default()
    };
    if host.processes.seconds <= 0.0 {
        return measured;
    }
    let (mut processes, mut own_cpus) = (host.processes.clone(), host.cpu_seconds / seconds);
    // The other end of a flow over loopback, where it is this program as well, is no other program.
    if flow.interfaces.contains("lo")
        && let Some(current) = AgentProcess::current(&Sysroot::live())
    {
        let (ends, others): (Vec<_>, Vec<_>) =
            processes.others.into_iter().partition(|one| one.name == current.name);
        own_cpus += ends.iter().map(|one| one.cpus).sum::<f64>();
        processes.others = others;
    }
    measured.beside(own_cpus, &processes)
}

/// The streams that had something to do.
pub(crate) fn workers_of(streams: &[StreamTally], seconds: f64, comes_in: bool) -> Vec<WorkerResult> {
    let figures: Vec<StreamFigures> = streams.iter().map(StreamTally::figures).collect();
    let at_work = streams.iter().zip(&figures).filter(|(_, own)| was_at_work(own, &figures)).enumerate();
    at_work.map(|(number, (stream, _))| stream.worker(number, seconds, comes_in)).collect()
}

/// Of these streams, in some part of their time.
pub(crate) fn workers_within(figures: &[StreamFigures], seconds: f64, comes_in: bool) -> Vec<WorkerResult> {
    let at_work = figures.iter().filter(|own| was_at_work(own, figures)).enumerate();
    at_work.map(|(number, own)| own.worker(number, seconds, comes_in)).collect()
}

fn was_at_work(own: &StreamFigures, all: &[StreamFigures]) -> bool {
    let most = all.iter().map(|figures| figures.active).max().unwrap_or(0);
    own.active as f64 >= LEAST_ACTIVE * most as f64
}

/// Streams that kept to their user's rate limit for most of the time were limited by it, also where what began before
/// and ended after them makes the whole a little slower.
pub(crate) fn held_by(streams: &[StreamFigures]) -> Option<LimitedBy> {
    let active: u64 = streams.iter().map(|stream| stream.active).sum();
    let paced: u64 = streams.iter().map(|stream| stream.paced).sum();
    (active > 0 && paced as f64 >= WAITING * active as f64).then_some(LimitedBy::Demand)
}

/// What limited a transfer, as far as this host shows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TransferLimit {
    /// The words of `bottleneck.kind` in run.json; none: no single part.
    pub kind: Option<LimitKind>,
    pub sentence: String,
    /// The rule that says so.
    pub rule: Option<String>,
    /// Shares of the time of all streams.
    pub waiting_network: f64,
    pub waiting_disk: f64,
    pub working: f64,
}

/// What limited a transfer that was measured so.
pub(crate) fn limit_of(measurement: &Measurement, rate_limit: Option<f64>) -> TransferLimit {
    let judged = judge_transfer(measurement, rate_limit);
    let waits = measurement.transfer_waits();
    TransferLimit {
        kind: judged.kind(),
        sentence: transfer_sentence(&judged, measurement),
        rule: judged.limit().map(|limit| limit.rule()),
        waiting_network: waits.network,
        waiting_disk: waits.disk,
        working: measurement.worker_evidence().unwrap_or_default().busy,
    }
}

/// The header line by which `linerate serve` says its limit, bytes per second for all its clients together.
pub(crate) const RATE_LIMIT_LINE: &str = "Linerate-Rate-Limit";

/// Of one transfer.
pub(crate) struct ServerFacts {
    /// Bytes per second; 0: it says none.
    rate_limit: AtomicU64,
    pub(crate) windows: StreamWindows,
}

impl ServerFacts {
    /// `alone`: the first stream begins before the others.
    pub(crate) fn new(alone: bool) -> Self {
        ServerFacts { rate_limit: AtomicU64::new(0), windows: StreamWindows::new(alone) }
    }

    /// What an answer said last.
    pub(crate) fn learn(&self, rate_limit: Option<u64>) {
        self.rate_limit.store(rate_limit.unwrap_or(0), Ordering::Relaxed);
    }

    /// A measurement, with these facts.
    pub(crate) fn beside(&self, measurement: Measurement) -> Measurement {
        let rate_limit = Some(self.rate_limit.load(Ordering::Relaxed)).filter(|rate| *rate > 0);
        Measurement {
            sender_rate_limit: rate_limit.map(|rate| rate as f64),
            stream_windows: self.windows.windows(),
            ..measurement
        }
    }
}

/// The limit that an answer's head says; none: nothing, or what is not a rate.
pub(crate) fn rate_limit_of(headers: &HeaderLines) -> Option<u64> {
    let text = headers.text(&RATE_LIMIT_LINE.to_ascii_lowercase())?;
    text.parse().ok().filter(|rate| *rate > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_facts::counters::{ProcessUse, ProcessesUse};
    use linerate_facts::usage::CoreUse;

    #[test]
    fn other_programs_are_those_that_serve_no_end_of_the_flow() {
        let own = AgentProcess::current(&Sysroot::live()).expect("a process").name;
        let program = |name: &str, cpus| ProcessUse { name: name.into(), cpus, ..ProcessUse::default() };
        let host = HostUse {
            seconds: 2.0,
            cpu_seconds: 0.6,
            cpus: vec![CoreUse { user: 0.4, system: 0.5, softirq: 0.1, ..CoreUse::default() }],
            processes: ProcessesUse {
                seconds: 2.0,
                others: vec![program("sha256sum", 0.3), program(&own, 0.2)],
                visible_user_cpus: 0.4,
                ..ProcessesUse::default()
            },
            ..HostUse::default()
        };
        let shares = |interface: &str| {
            let flow = FlowDevices { interfaces: [interface.to_string()].into(), ..FlowDevices::default() };
            let CpuShare { linerate, kernel, others } =
                measurement_of(&host, Stage::Get, Vec::new(), 1000, &flow).cpu_share;
            [linerate, kernel, others].map(|share| (share * 100.0).round())
        };
        assert_eq!((shares("lo"), shares("eth0")), ([50.0, 20.0, 30.0], [30.0, 20.0, 50.0]));
    }
}
