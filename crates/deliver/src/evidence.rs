//! What this host shows of a transfer: its streams' waits, its CPUs, its disks and links, as a measurement, which is
//! judged as those of all other flows are, and can be kept.

use crate::stream_tally::{StreamFigures, StreamTally};
use crate::transfer_limit::TransferLimit;
use linerate_facts::counters::{
    AgentProcess, NicCounters, ProcessTable, ProcessesUse, net_dev, parse_diskstats, root_disciplines,
};
use linerate_facts::sysroot::Sysroot;
use linerate_facts::units::bytes_per_second;
use linerate_facts::usage::{CoreUse, CpuTimes, Throttle};
use linerate_machine::flow_devices::FlowDevices;
use linerate_measure::diagnose::{judge_transfer, transfer_sentence};
use linerate_measure::measure::access::{DeviceUse, Diskstats};
use linerate_measure::measure::{
    CpuShare, INTERFACE_NOT_SEEN, LimitedBy, LinkUse, Measurement, QuotaUse, Stage, WorkerResult,
};
use linerate_model::verdict::thresholds::WAITING;
use linerate_system::counters::process_cpu;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a packet costs on the wire beside what the interface counts: preamble, gap and checksum.
const PACKET_BYTES: f64 = 24.0;
/// A stream that was active for less than this share of the time of the busiest says nothing of the transfer.
const LEAST_ACTIVE: f64 = 0.1;
/// The processes are looked at again after so many times the time that it took, so that it costs 2 % of a CPU at most.
const PROCESSES_PAUSE: u32 = 50;

/// The counters of this host at one time.
pub(crate) struct HostSample {
    at: Instant,
    cpus: CpuTimes,
    cpu: Duration,
    disks: Diskstats,
    nics: Vec<NicCounters>,
    /// The outermost queueing discipline of each interface: its kind, and how often it held packets back.
    shapers: BTreeMap<String, (String, u64)>,
    throttle: Throttle,
    processes: Arc<ProcessTable>,
    /// Until then they are not looked at again.
    processes_until: Instant,
}

impl HostSample {
    pub(crate) fn take(sysroot: &Sysroot) -> Self {
        HostSample::with(sysroot, processes(sysroot))
    }

    /// A further one, which looks at the processes last: what that costs is not within the time.
    pub(crate) fn take_after(sysroot: &Sysroot, earlier: &HostSample) -> Self {
        let mut now = HostSample::with(sysroot, (Arc::clone(&earlier.processes), earlier.processes_until));
        if now.at >= earlier.processes_until {
            (now.processes, now.processes_until) = processes(sysroot);
        }
        now
    }

    fn with(sysroot: &Sysroot, (processes, processes_until): (Arc<ProcessTable>, Instant)) -> Self {
        let nics = net_dev(sysroot).known().cloned().unwrap_or_default();
        HostSample {
            at: Instant::now(),
            cpus: CpuTimes::read(sysroot),
            cpu: process_cpu(),
            disks: Diskstats::read(sysroot, &whole_disks(sysroot)),
            shapers: shapers(sysroot, &nics),
            nics,
            throttle: Throttle::read(sysroot),
            processes,
            processes_until,
        }
    }

    /// CPU time of this process since.
    pub(crate) fn cpu_since(&self) -> Duration {
        process_cpu().saturating_sub(self.cpu)
    }
}

/// All of them, and until when this is used for further samples.
fn processes(sysroot: &Sysroot) -> (Arc<ProcessTable>, Instant) {
    let begun = Instant::now();
    let table = Arc::new(ProcessTable::read(sysroot, true));
    (table, Instant::now() + begun.elapsed() * PROCESSES_PAUSE)
}

fn whole_disks(sysroot: &Sysroot) -> Vec<String> {
    let text = sysroot.text("/proc/diskstats").unwrap_or_default();
    let names = parse_diskstats(&text).unwrap_or_default().into_iter().map(|disk| disk.name);
    names.filter(|name| sysroot.is_directory(format!("/sys/block/{name}"))).collect()
}

fn shapers(sysroot: &Sysroot, nics: &[NicCounters]) -> BTreeMap<String, (String, u64)> {
    let names: Vec<&str> = nics.iter().map(|nic| nic.name.as_str()).collect();
    if names.is_empty() {
        return BTreeMap::new();
    }
    let roots = root_disciplines(sysroot, &names).into_iter();
    roots.filter_map(|(name, root)| Some((name, (root.kind, *root.overlimits.known()?)))).collect()
}

/// What this host did between two samples, or in several such times together.
#[derive(Clone, Debug, Default)]
pub(crate) struct HostUse {
    pub(crate) seconds: f64,
    cpu_seconds: f64,
    cores: Vec<CoreUse>,
    devices: Vec<DeviceUse>,
    /// Both ways of each interface.
    links: Vec<LinkUse>,
    throttled: f64,
    quota_cores: f64,
    /// As far as they were looked at.
    processes: ProcessesUse,
}

impl HostUse {
    pub(crate) fn between(sysroot: &Sysroot, before: &HostSample, after: &HostSample) -> Self {
        let seconds = after.at.saturating_duration_since(before.at).as_secs_f64();
        HostUse {
            seconds,
            cpu_seconds: after.cpu.saturating_sub(before.cpu).as_secs_f64(),
            cores: after.cpus.since(&before.cpus),
            devices: after.disks.since(&before.disks),
            links: links(sysroot, before, after, seconds),
            throttled: after.throttle.share_since(&before.throttle),
            quota_cores: after.throttle.quota_cores,
            processes: after.processes.since(&before.processes, std::process::id(), &[]),
        }
    }

    /// Another time: means by their lengths.
    pub(crate) fn join(&mut self, later: HostUse) {
        let (now, then) = (self.seconds, later.seconds);
        if now <= 0.0 {
            *self = later;
            return;
        }
        let mean = |a: f64, b: f64| (a * now + b * then) / (now + then).max(1e-9);
        self.seconds += then;
        self.cpu_seconds += later.cpu_seconds;
        self.throttled = mean(self.throttled, later.throttled);
        self.quota_cores = later.quota_cores;
        self.processes.join(later.processes);
        for core in &mut self.cores {
            let other = later.cores.iter().find(|other| other.core == core.core);
            *core = other.map_or(*core, |other| core.mean(now, other, then));
        }
        for device in &mut self.devices {
            let Some(other) = later.devices.iter().find(|other| other.name == device.name) else { continue };
            *device = device.mean(now, other, then);
        }
        for link in &mut self.links {
            let same = |other: &&LinkUse| other.name == link.name && other.sends == link.sends;
            let Some(other) = later.links.iter().find(same) else { continue };
            link.bytes_per_second = mean(link.bytes_per_second, other.bytes_per_second);
            link.utilisation = mean(link.utilisation, other.utilisation);
            if let (Some((_, held)), Some((_, others))) = (&mut link.shaper, &other.shaper) {
                *held = mean(*held, *others);
            }
        }
    }

    /// As a measurement of files that came (`Get`) or went (`Put`), with what of the host they used.
    pub(crate) fn measurement(
        &self,
        stage: Stage,
        workers: Vec<WorkerResult>,
        moved: u64,
        flow: &FlowDevices,
    ) -> Measurement {
        let comes_in = stage == Stage::Get;
        let seconds = self.seconds.max(1e-9);
        let rate = moved as f64 / seconds;
        let count = self.cores.len().max(1) as f64;
        let mean = |of: &dyn Fn(&CoreUse) -> f64| self.cores.iter().map(of).sum::<f64>() / count;
        let (busy, kernel) = (mean(&|cpu| cpu.busy()), mean(&|cpu| cpu.irq + cpu.softirq));
        let own = self.cpu_seconds / seconds / count;
        let used = self.cpu_seconds / seconds / self.quota_cores;
        let is_of_flow = |link: &&LinkUse| link.sends != comes_in && flow.interfaces.contains(&link.name);
        let links: Vec<LinkUse> = self.links.iter().filter(is_of_flow).cloned().collect();
        let gone = |name: &&String| !links.iter().any(|link| link.name == **name);
        let gone =
            flow.interfaces.iter().filter(gone).map(|name| format!("{name} was not there all the time"));
        let not_seen =
            flow.unknown.iter().cloned().chain(gone).map(|why| format!("{INTERFACE_NOT_SEEN}{why}"));
        let measured = Measurement {
            stage,
            name: stage.to_string(),
            resource: "all".into(),
            together: true,
            bytes_per_second: rate,
            samples: vec![rate],
            cpu_seconds_per_gb: if moved > 0 { self.cpu_seconds / (moved as f64 / 1e9) } else { 0.0 },
            cpu_share: CpuShare { linerate: own, kernel, others: (busy - own - kernel).max(0.0) },
            quota: (self.quota_cores > 0.0).then_some(QuotaUse {
                cores: self.quota_cores,
                throttled: self.throttled,
                used,
            }),
            devices: self
                .devices
                .iter()
                .filter(|device| flow.disks.contains(&device.name))
                .cloned()
                .collect(),
            not_seen: not_seen.collect(),
            links,
            cpu_by_core: self.cores.clone(),
            protocol: Some(linerate_facts::protocol::Protocol::Tcp),
            seconds: self.seconds,
            workers,
            ..Measurement::default()
        };
        if self.processes.seconds <= 0.0 {
            return measured;
        }
        let (mut processes, mut own_cpus) = (self.processes.clone(), self.cpu_seconds / seconds);
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

/// Both directions of every interface.
fn links(sysroot: &Sysroot, before: &HostSample, after: &HostSample, seconds: f64) -> Vec<LinkUse> {
    let mut links = Vec::new();
    for now in &after.nics {
        let Some(then) = before.nics.iter().find(|then| then.name == now.name) else { continue };
        // Megabits; -1 or nothing where the interface has none.
        let megabits = sysroot.parse::<i64>(format!("/sys/class/net/{}/speed", now.name));
        let bits = megabits.known().and_then(|rate| u64::try_from(*rate).ok()).unwrap_or(0) * 1_000_000;
        let held = |nic: &HostSample| nic.shapers.get(&now.name).cloned();
        let shaper = held(before).zip(held(after)).map(|((_, earlier), (kind, later))| {
            (kind, later.saturating_sub(earlier) as f64 / seconds.max(1e-9))
        });
        for sends in [true, false] {
            let of = |nic: &NicCounters| match sends {
                true => (nic.tx_bytes, nic.tx_packets),
                false => (nic.rx_bytes, nic.rx_packets),
            };
            let ((bytes, packets), (bytes_then, packets_then)) = (of(now), of(then));
            let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds.max(1e-9);
            let moved = rate(bytes, bytes_then);
            let on_wire = moved + PACKET_BYTES * rate(packets, packets_then);
            links.push(LinkUse {
                name: now.name.clone(),
                sends,
                bytes_per_second: moved,
                utilisation: if bits > 0 { on_wire / bytes_per_second(bits) } else { 0.0 },
                bits_per_second: bits as f64,
                shaper: shaper.clone().filter(|(_, held)| sends && *held > 0.0),
            });
        }
    }
    links
}

/// What limited a transfer that was measured so.
pub(crate) fn limit_of(measurement: &Measurement, rate_limit: Option<f64>) -> TransferLimit {
    let judged = judge_transfer(measurement, rate_limit);
    let workers = &measurement.workers;
    let count = workers.len().max(1) as f64;
    let source = workers.iter().map(|worker| worker.waiting_source).sum::<f64>() / count;
    let sink = workers.iter().map(|worker| worker.waiting_sink).sum::<f64>() / count;
    let (waiting_network, waiting_disk) =
        if measurement.stage == Stage::Get { (source, sink) } else { (sink, source) };
    TransferLimit {
        kind: judged.kind(),
        sentence: transfer_sentence(&judged, measurement),
        rule: judged.limit().map(|limit| limit.rule()),
        nics: Vec::new(),
        waiting_network,
        waiting_disk,
        working: workers.iter().map(|worker| worker.cpu_share).sum::<f64>() / count,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_facts::counters::ProcessUse;

    #[test]
    fn other_programs_are_those_that_serve_no_end_of_the_flow() {
        let own = AgentProcess::current(&Sysroot::live()).expect("a process").name;
        let program = |name: &str, cpus| ProcessUse { name: name.into(), cpus, ..ProcessUse::default() };
        let host = HostUse {
            seconds: 2.0,
            cpu_seconds: 0.6,
            cores: vec![CoreUse { user: 0.4, system: 0.5, softirq: 0.1, ..CoreUse::default() }],
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
                host.measurement(Stage::Get, Vec::new(), 1000, &flow).cpu_share;
            [linerate, kernel, others].map(|share| (share * 100.0).round())
        };
        assert_eq!((shares("lo"), shares("eth0")), ([50.0, 20.0, 30.0], [30.0, 20.0, 50.0]));
    }
}
