//! What this host shows of a transfer: its streams' waits, its CPUs, its disks and links. The judge of all other
//! flows says what limited it.

use super::product::TransferLimit;
use super::writer::StreamTally;
use linerate_facts::counters::{DiskCounters, NicCounters, parse_diskstats, parse_net_dev};
use linerate_facts::sysroot::Sysroot;
use linerate_facts::units::bytes_per_second;
use linerate_facts::usage::CpuTimes;
use linerate_model::verdict::{
    CpuUsers, DiskEvidence, Evidence, LinkEvidence, Route, TcpEvidence, WorkerEvidence, judge,
};
use linerate_system::counters::process_cpu;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// What a packet costs on the wire beside what the interface counts: preamble, gap and checksum.
const PACKET_BYTES: f64 = 24.0;
/// Of less time nothing can be said: the kernel counts CPU time in steps of 10 ms.
const LEAST_SECONDS: f64 = 0.3;

/// The counters of this host at one time.
pub(crate) struct TransferSample {
    at: Instant,
    cpus: CpuTimes,
    cpu: Duration,
    disks: Vec<DiskCounters>,
    nics: Vec<NicCounters>,
}

impl TransferSample {
    pub(crate) fn take(sysroot: &Sysroot) -> Self {
        let text = |path: &str| sysroot.text(path).unwrap_or_default();
        TransferSample {
            at: Instant::now(),
            cpus: CpuTimes::read(sysroot),
            cpu: process_cpu(),
            disks: parse_diskstats(&text("/proc/diskstats")).unwrap_or_default(),
            nics: parse_net_dev(&text("/proc/net/dev")).unwrap_or_default(),
        }
    }

    /// CPU time of this process since.
    pub(crate) fn cpu_since(&self) -> Duration {
        process_cpu().saturating_sub(self.cpu)
    }
}

/// What limited the streams between two samples.
pub(crate) fn limit_of(
    sysroot: &Sysroot,
    (before, after): (&TransferSample, &TransferSample),
    route: Route,
    streams: &[StreamTally],
    rate_limit: Option<f64>,
) -> TransferLimit {
    let comes_in = route == Route::NetworkToDisks;
    let seconds = after.at.saturating_duration_since(before.at).as_secs_f64();
    let workers = workers(streams, seconds, comes_in, rate_limit.is_some());
    let shares = TransferLimit {
        waiting_network: if comes_in { workers.waiting_source } else { workers.waiting_sink },
        waiting_disk: if comes_in { workers.waiting_sink } else { workers.waiting_source },
        working: workers.busy,
        ..TransferLimit::default()
    };
    if seconds < LEAST_SECONDS {
        return TransferLimit { sentence: "it was too short to tell what limited it".into(), ..shares };
    }
    let received: u64 = streams.iter().map(|one| one.received.load(Ordering::Relaxed)).sum();
    let cpus = after.cpus.since(&before.cpus);
    let evidence = Evidence {
        route,
        bytes_per_second: Some(received as f64 / seconds),
        rate_limit,
        workers: Some(workers),
        cpu_users: Some(users(&cpus, after.cpu.saturating_sub(before.cpu).as_secs_f64() / seconds)),
        cpus,
        links: links(sysroot, before, after, seconds, !comes_in),
        disks: disks(sysroot, before, after, seconds),
        tcp: TcpEvidence { connections: workers.count, ..TcpEvidence::default() },
        ..Evidence::default()
    };
    let judged = judge(&evidence);
    let sentence = match (judged.limit(), &judged.missing) {
        (Some(limit), _) => {
            let text = limit.to_string();
            // A thing, or a sentence.
            let is_thing =
                ["the network:", "the disks:", "the CPU:"].iter().any(|name| text.starts_with(name));
            if is_thing { format!("limited by {text}") } else { format!("what limited it: {text}") }
        }
        (None, Some(missing)) => missing.to_string(),
        (None, None) => String::new(),
    };
    TransferLimit { kind: judged.kind(), sentence, rule: judged.limit().map(|limit| limit.rule()), ..shares }
}

fn workers(streams: &[StreamTally], seconds: f64, comes_in: bool, paced: bool) -> WorkerEvidence {
    let share = |nanos: u64| (nanos as f64 / 1e9 / seconds.max(1e-9)).min(1.0);
    let cpu: Vec<f64> = streams.iter().map(|one| share(one.cpu.load(Ordering::Relaxed))).collect();
    let disk = streams.iter().map(|one| share(one.waited_disk.load(Ordering::Relaxed)));
    let count = streams.len().max(1) as f64;
    let busy = cpu.iter().sum::<f64>() / count;
    let waiting_disk = disk.sum::<f64>() / count;
    // A stream that neither works nor waits for the disk waits for the other host.
    let waiting_network = (1.0 - busy - waiting_disk).max(0.0);
    let (waiting_source, waiting_sink) = match comes_in {
        true => (waiting_network, waiting_disk),
        false => (waiting_disk, waiting_network),
    };
    WorkerEvidence {
        count: streams.len() as u32,
        busy,
        busiest: cpu.into_iter().fold(0.0, f64::max),
        waiting_source,
        waiting_sink,
        paced,
    }
}

fn users(cpus: &[linerate_facts::usage::CoreUse], own_cpus: f64) -> CpuUsers {
    let count = cpus.len().max(1) as f64;
    let mean = |of: &dyn Fn(&linerate_facts::usage::CoreUse) -> f64| cpus.iter().map(of).sum::<f64>() / count;
    let (busy, kernel) = (mean(&|cpu| cpu.busy()), mean(&|cpu| cpu.irq + cpu.softirq));
    let own = own_cpus / count;
    CpuUsers { own, kernel, others: (busy - own - kernel).max(0.0) }
}

/// Whole disks that have a queue of their own.
fn disks(
    sysroot: &Sysroot,
    before: &TransferSample,
    after: &TransferSample,
    seconds: f64,
) -> Vec<DiskEvidence> {
    let passes_on =
        |name: &str| ["loop", "ram", "zram", "md", "dm-"].iter().any(|start| name.starts_with(start));
    let one = |now: &DiskCounters| {
        let then = before.disks.iter().find(|then| then.name == now.name)?;
        if passes_on(&now.name) || !sysroot.is_directory(format!("/sys/block/{}", now.name)) {
            return None;
        }
        let since = |now: u64, then: u64| now.saturating_sub(then) as f64;
        let bytes = since(now.read_bytes, then.read_bytes) + since(now.written_bytes, then.written_bytes);
        let requests = since(now.reads, then.reads) + since(now.writes, then.writes);
        let waited = since(now.read_ms, then.read_ms) + since(now.write_ms, then.write_ms);
        Some(DiskEvidence {
            name: now.name.clone(),
            bytes_per_second: bytes / seconds,
            busy: Some((since(now.busy_ms, then.busy_ms) / 1e3 / seconds).min(1.0)),
            queue_depth: Some(since(now.weighted_ms, then.weighted_ms) / 1e3 / seconds),
            latency_seconds: (requests > 0.0).then(|| waited / 1e3 / requests),
            asked_depth: None,
            best_bytes_per_second: None,
        })
    };
    after.disks.iter().filter_map(one).collect()
}

/// What came in, or went out, by links whose rate is known.
fn links(
    sysroot: &Sysroot,
    before: &TransferSample,
    after: &TransferSample,
    seconds: f64,
    sends: bool,
) -> Vec<LinkEvidence> {
    let one = |now: &NicCounters| {
        let then = before.nics.iter().find(|then| then.name == now.name)?;
        // Megabits; -1 or nothing where the interface has none.
        let megabits = sysroot.parse::<i64>(format!("/sys/class/net/{}/speed", now.name));
        let megabits =
            megabits.known().copied().and_then(|rate| u64::try_from(rate).ok()).filter(|rate| *rate > 0)?;
        let of = |nic: &NicCounters| match sends {
            true => (nic.tx_bytes, nic.tx_packets),
            false => (nic.rx_bytes, nic.rx_packets),
        };
        let ((bytes, packets), (bytes_then, packets_then)) = (of(now), of(then));
        let bytes = bytes.saturating_sub(bytes_then) as f64
            + PACKET_BYTES * packets.saturating_sub(packets_then) as f64;
        let bits_per_second = megabits.saturating_mul(1_000_000);
        let share = bytes / seconds / bytes_per_second(bits_per_second);
        let bits_per_second = bits_per_second as f64;
        Some(LinkEvidence { nic: now.name.clone(), sends, share, bits_per_second })
    };
    after.nics.iter().filter_map(one).collect()
}
