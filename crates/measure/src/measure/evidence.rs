//! What a measurement shows of its flow and of the hosts beside it, for the one judge.

use super::product::{
    DeviceUse, INTERFACE_NOT_SEEN, Measurement, ReceiverResult, Stage, VolumeUse, WorkerResult,
};
use linerate_facts::protocol::Protocol;
use linerate_facts::usage::CoreUse;
use linerate_machine::flow_devices::FlowDevices;
use linerate_model::plan::long_path::LossCount;
use linerate_model::verdict::thresholds::{CPU_OF_FLOW, CPU_WANTED};
use linerate_model::verdict::{
    CpuUsers, DiskEvidence, Evidence, LinkEvidence, QuotaEvidence, ReadsEvidence, ReceiverEvidence, Route,
    SinkEvidence, TcpEvidence, VolumeEvidence, WorkerEvidence, full_of_interrupts, is_full,
};

/// What a transfer of files waited for, as shares of the time of its workers, means over them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TransferWaits {
    pub network: f64,
    pub disk: f64,
}

impl Measurement {
    /// All that bears on what limited it.
    pub fn evidence(&self) -> Evidence {
        let share = self.cpu_share;
        let known = share.linerate + share.kernel + share.others > 0.0;
        Evidence {
            route: match self.stage {
                _ if self.incoming => Route::NetworkToDisks,
                Stage::Memory => Route::Memory,
                Stage::Disk | Stage::Load => Route::Disks,
                Stage::Network | Stage::Fleet => Route::Network,
                Stage::Path | Stage::Put => Route::DisksToNetwork,
                Stage::Get => Route::NetworkToDisks,
                Stage::Explain => Route::Unknown,
            },
            bytes_per_second: Some(self.bytes_per_second),
            receiver: self.receiver.as_ref().map(|receiver| receiver.evidence(self.bytes_per_second)),
            sender: self.sender.as_ref().map(|sender| sender.evidence(self.bytes_per_second)).or(self
                .sender_rate_limit
                .map(|rate| ReceiverEvidence { rate_limit: Some(rate), ..ReceiverEvidence::default() })),
            stream_windows: self.stream_windows.clone(),
            stream_rates: self.workers.iter().map(|worker| worker.active_bytes_per_second).collect(),
            sink: self.sink.as_ref().map(|sink| SinkEvidence {
                host: sink.host.clone(),
                disk: sink.disk.as_ref().map(|disk| disk.name.clone()),
                busy: sink.disk.as_ref().map(|disk| disk.utilisation),
                waiting_network: sink.waiting_network,
                waiting_disk: sink.waiting_disk,
            }),
            quota: self
                .quota
                .map(|quota| QuotaEvidence { throttled: quota.throttled, used: Some(quota.used) }),
            workers: self.worker_evidence(),
            cpus: self.cpu_by_core.clone(),
            worker_cpus: self.workers.iter().filter_map(|worker| worker.core).collect(),
            cpu_users: known.then_some(CpuUsers {
                own: share.linerate,
                kernel: share.kernel,
                others: share.others,
            }),
            others_by_cpu: self.others_by_cpu(),
            hidden_cpu: self.others.as_ref().and_then(|others| others.hidden.map(|_| others.hidden_cpu)),
            links: self.links.iter().map(LinkEvidence::from).collect(),
            disks: self.devices.iter().map(|device| self.disk(device)).collect(),
            volumes: self.volume_evidence(),
            reads: self.reads_evidence(),
            tcp: self.tcp(),
            devices: Some(self.used()),
            ..Evidence::default()
        }
    }

    /// All that is listed of links and disks is the flow's own.
    fn used(&self) -> FlowDevices {
        let unknown = self.not_seen.iter().filter_map(|what| what.strip_prefix(INTERFACE_NOT_SEEN));
        let volumes = self.volumes.iter().map(|volume| volume.name.clone());
        FlowDevices {
            interfaces: self.links.iter().map(|link| link.name.clone()).collect(),
            disks: self.devices.iter().map(|device| device.name.clone()).chain(volumes).collect(),
            unknown: unknown.map(str::to_string).collect(),
        }
    }

    /// Means over its workers; none without any.
    pub fn worker_evidence(&self) -> Option<WorkerEvidence> {
        let workers = &self.workers;
        let mean = |of: fn(&WorkerResult) -> f64| workers.iter().map(of).sum::<f64>() / workers.len() as f64;
        (!workers.is_empty()).then(|| WorkerEvidence {
            count: u32::try_from(workers.len()).unwrap_or(u32::MAX),
            busy: mean(|worker| worker.cpu_share),
            busiest: workers.iter().map(|worker| worker.cpu_share).fold(0.0, f64::max),
            waiting_source: mean(|worker| worker.waiting_source),
            waiting_sink: mean(|worker| worker.waiting_sink),
            paced: false,
        })
    }

    /// What its workers waited for, where it is a transfer of files: what comes in has the network as its source.
    pub fn transfer_waits(&self) -> TransferWaits {
        let workers = self.worker_evidence().unwrap_or_default();
        match self.stage {
            Stage::Get => TransferWaits { network: workers.waiting_source, disk: workers.waiting_sink },
            _ => TransferWaits { network: workers.waiting_sink, disk: workers.waiting_source },
        }
    }

    fn disk(&self, device: &DeviceUse) -> DiskEvidence {
        let id = format!("disk:{}", device.name);
        let own = self.workers.iter().filter(|worker| worker.source == id);
        let asked: f64 = own.map(|worker| requests_of(worker, device)).sum();
        DiskEvidence {
            name: device.name.clone(),
            bytes_per_second: device.bytes_per_second(),
            busy: Some(device.utilisation),
            queue_depth: Some(device.queue_depth),
            latency_seconds: device.latency_seconds(),
            asked_depth: (asked > 0.0).then_some(asked),
            others_bytes_per_second: self.others_bytes_of(device),
            ..DiskEvidence::default()
        }
    }

    /// Volumes with the disks below them.
    pub(crate) fn volume_evidence(&self) -> Vec<VolumeEvidence> {
        let members = |volume: &VolumeUse| volume.members.iter().map(|device| self.disk(device)).collect();
        let of = |volume: &VolumeUse| VolumeEvidence { name: volume.name.clone(), members: members(volume) };
        self.volumes.iter().map(of).collect()
    }

    /// The most reads in flight that were tried on this path, against the next fewer; none where single trials of
    /// both overlap.
    pub(crate) fn reads_evidence(&self) -> Option<ReadsEvidence> {
        let [.., fewer, most] = &self.reads_in_flight[..] else { return None };
        let highest = fewer.samples.iter().copied().fold(fewer.bytes_per_second, f64::max);
        let lowest = most.samples.iter().copied().fold(most.bytes_per_second, f64::min);
        let gain = most.bytes_per_second / fewer.bytes_per_second;
        let apart = lowest > highest && gain.is_finite();
        apart.then_some(ReadsEvidence { reads: most.queue_depth, fewer: fewer.queue_depth, gain })
    }

    fn losses(&self) -> Option<LossCount> {
        let mut all = LossCount::default();
        for worker in &self.workers {
            all.join(LossCount { losses: worker.losses, segments: worker.loss_segments });
        }
        (all.segments > 0.0).then_some(all)
    }

    fn tcp(&self) -> TcpEvidence {
        let Some(protocol) = self.protocol.filter(|_| !self.workers.is_empty()) else {
            return TcpEvidence::default();
        };
        let mean = |of: fn(&WorkerResult) -> f64| {
            self.workers.iter().map(of).sum::<f64>() / self.workers.len() as f64
        };
        let connections = u32::try_from(self.workers.len()).unwrap_or(u32::MAX);
        let trip = |of: fn(&WorkerResult) -> f64| Some(mean(of)).filter(|time| *time > 0.0);
        let round_trip_seconds = trip(|worker| worker.round_trip_seconds);
        let least_round_trip_seconds = trip(|worker| worker.least_round_trip_seconds);
        if protocol == Protocol::Udp {
            return TcpEvidence {
                datagrams: true,
                receive_window_share: round_trip_seconds.map(|_| mean(|worker| worker.receiver_limited)),
                round_trip_seconds,
                least_round_trip_seconds,
                connections,
                ..TcpEvidence::default()
            };
        }
        let known = !self.is_without_tcp_limits();
        let retransmits: f64 = self.workers.iter().map(|worker| worker.retransmits as f64).sum();
        let buffer = self.receiver.as_ref().map(|receiver| receiver.receive_buffer_bytes);
        TcpEvidence {
            zero_windows_per_second: None,
            retransmits_per_second: Some(retransmits / self.seconds.max(1e-9)),
            retransmit_share: Some(mean(|worker| worker.retransmit_share)),
            receive_window_share: known.then(|| mean(|worker| worker.receiver_limited)),
            send_buffer_share: known.then(|| mean(|worker| worker.send_buffer_limited)),
            round_trip_seconds,
            least_round_trip_seconds,
            receive_buffer_bytes: buffer.filter(|bytes| *bytes > 0).map(|bytes| bytes as f64),
            segment_bytes: trip(|worker| f64::from(worker.segment_bytes)),
            losses: self.losses(),
            connections,
            ..TcpEvidence::default()
        }
    }
}

impl ReceiverResult {
    /// What a receiver reported of itself while so much came.
    pub(crate) fn evidence(&self, bytes_per_second: f64) -> ReceiverEvidence {
        let quota = QuotaEvidence { throttled: self.throttled, used: None };
        ReceiverEvidence {
            busiest_thread: self.busiest_thread,
            quota: (self.quota_cores > 0.0).then_some(quota),
            rate_limit: None,
            full: self.is_full(bytes_per_second),
            interrupts: full_of_interrupts(&self.cpu_by_core),
        }
    }
}

impl ReceiverResult {
    /// All of its CPUs are full, and not of others' work alone: the agent and the interrupts have the larger part, or
    /// a receiving thread wants more than it gets.
    fn is_full(&self, bytes_per_second: f64) -> bool {
        let cpus = &self.cpu_by_core;
        let own = self.cpu_seconds_per_gb * bytes_per_second * 1e-9;
        let interrupts: f64 = cpus.iter().map(|cpu| cpu.irq + cpu.softirq).sum();
        let busy: f64 = cpus.iter().map(CoreUse::busy).sum();
        let of_flow = own + interrupts >= CPU_OF_FLOW * busy || self.busiest_thread >= CPU_WANTED;
        !cpus.is_empty() && cpus.iter().all(is_full) && of_flow
    }

    /// Share of the datagrams that its sockets had no room for; both are counted in trains.
    pub(crate) fn dropped(&self) -> Option<f64> {
        let all = self.datagrams.saturating_add(self.socket_drops);
        (all > 0).then(|| self.socket_drops as f64 / all as f64)
    }
}

/// What a worker's reads in flight are at the device: the kernel joins reads that follow each other, and cuts
/// those that are larger than the device takes.
fn requests_of(worker: &WorkerResult, device: &DeviceUse) -> f64 {
    let bytes = device.bytes_per_second();
    let each = bytes / device.operations_per_second;
    let reads = f64::from(worker.queue_depth);
    let in_flight = reads * worker.block_bytes as f64;
    if in_flight > 0.0 && each.is_finite() && each > 0.0 { in_flight / each } else { reads }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_that_the_kernel_joins_or_cuts_are_as_many_requests_at_the_device() {
        let worker = WorkerResult { queue_depth: 8, block_bytes: 1 << 20, ..WorkerResult::default() };
        let device = |bytes: f64| DeviceUse {
            read_bytes_per_second: 100.0 * bytes,
            operations_per_second: 100.0,
            ..DeviceUse::default()
        };
        assert_eq!(requests_of(&worker, &device(2.0 * 1048576.0)), 4.0);
        assert_eq!(requests_of(&worker, &device(262144.0)), 32.0);
        assert_eq!(requests_of(&worker, &device(0.0)), 8.0, "nothing was read");
        let unknown = WorkerResult { block_bytes: 0, ..worker };
        assert_eq!(requests_of(&unknown, &device(262144.0)), 8.0, "the size of its reads is not known");
    }

    #[test]
    fn a_receiver_whose_cpus_others_fill_is_not_full_of_the_flow() {
        let cpu = |softirq| CoreUse {
            core: 0,
            user: 0.9 - softirq,
            softirq,
            system: 0.09,
            idle: 0.01,
            ..CoreUse::default()
        };
        let receiver = |softirq, busiest_thread, cpu_seconds_per_gb| ReceiverResult {
            cpu_by_core: vec![cpu(softirq), CoreUse { core: 1, ..cpu(softirq) }],
            busiest_thread,
            cpu_seconds_per_gb,
            ..ReceiverResult::default()
        };
        let full = |receiver: ReceiverResult| receiver.evidence(125e6).full;
        assert!(!full(receiver(0.02, 0.03, 0.3)), "programs beside it have them");
        assert!(full(receiver(0.02, 0.3, 0.3)), "its thread wants more");
        assert!(full(receiver(0.6, 0.03, 0.3)), "the network's interrupts have them");
        assert!(full(receiver(0.02, 0.03, 9.0)), "the agent has them");
    }
}
