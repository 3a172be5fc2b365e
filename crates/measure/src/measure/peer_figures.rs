//! What the other ends counted of a running test: rates at the receivers, their hosts' CPUs, what a sink did.

use super::access::DeviceUse;
use super::peers::Peers;
use super::product::{ReceiverResult, SinkResult};
use super::samples::worker_samples;
use super::window::{Meter, WindowObservation};
use linerate_model::plan::WorkerPlan;
use linerate_transport::agent::{TestSample, WorkerSample};
use linerate_transport::flow::progress::Mark;
use std::time::Duration;

/// Reads the rates at the receivers.
pub(crate) struct PeerMeter<'a> {
    peers: &'a Peers,
    workers: &'a [WorkerPlan],
    first: Vec<Option<TestSample>>,
    last: Vec<Option<TestSample>>,
    hosts: Vec<(String, String)>,
}

impl<'a> PeerMeter<'a> {
    /// A meter over the running test of these workers.
    pub(crate) fn new(peers: &'a Peers, workers: &'a [WorkerPlan]) -> Self {
        let hosts = peers.sessions.iter().map(|session| {
            let hello = session.hello();
            (hello.instance.clone(), hello.host.clone())
        });
        PeerMeter { peers, workers, first: Vec::new(), last: Vec::new(), hosts: hosts.collect() }
    }

    /// What the other ends told between the first and the last marks.
    pub(crate) fn far(self) -> Far {
        let workers = worker_samples(&self.last, self.workers)
            .into_iter()
            .zip(worker_samples(&self.first, self.workers));
        Far { workers: workers.collect(), first: self.first, last: self.last, hosts: self.hosts }
    }
}

impl Meter for PeerMeter<'_> {
    fn marks(&mut self) -> Result<Vec<Mark>, String> {
        let samples = self.peers.samples()?;
        let workers = worker_samples(&samples, self.workers);
        self.last = samples;
        // A sink that is full, or a receiver that gave up, moves nothing from then on: no figure of anything.
        let failed = workers.iter().zip(self.workers).find_map(|(of, plan)| Some((of.error.as_ref()?, plan)));
        if let Some((why, worker)) = failed {
            let host = self.hosts.get(worker.path).map_or("", |(_, host)| host);
            return Err(format!("the peer {host}: {why}"));
        }
        Ok(workers.iter().map(|worker| Mark { bytes: worker.bytes, nanos: worker.bytes_nanos }).collect())
    }

    fn boundary(&mut self) {
        if self.first.is_empty() {
            self.first = self.peers.samples().unwrap_or_default();
        }
    }
}

/// The receivers' side of a measurement: samples at its begin and end, by path.
pub(crate) struct Far {
    workers: Vec<(WorkerSample, WorkerSample)>,
    first: Vec<Option<TestSample>>,
    last: Vec<Option<TestSample>>,
    hosts: Vec<(String, String)>,
}

impl Far {
    /// What the sink did; none where nothing was stored. `last`: the samples of the end of the test.
    pub(crate) fn sink(&self, last: &[Option<TestSample>]) -> Option<SinkResult> {
        let (path, (now, then)) = self
            .last
            .iter()
            .zip(&self.first)
            .enumerate()
            .find_map(|(path, (now, then))| Some((path, (now.as_ref()?, then.as_ref()?))))?;
        let span = Duration::from_nanos(now.nanos.saturating_sub(then.nanos));
        let disk = now.sink_disk.as_ref().zip(then.sink_disk.as_ref());
        let time = span.as_secs_f64().max(1e-9) * self.workers.len().max(1) as f64;
        let share = |of: fn(&WorkerSample) -> u64| {
            let waited = self.workers.iter().map(|(now, then)| of(now).saturating_sub(of(then)) as f64);
            (waited.sum::<f64>() * 1e-9 / time).min(1.0)
        };
        let syncs = last.iter().flatten().flat_map(|sample| &sample.workers).map(|worker| worker.sync_nanos);
        Some(SinkResult {
            host: self.hosts.get(path).map(|(_, host)| host.clone()).unwrap_or_default(),
            disk: disk.and_then(|(now, then)| DeviceUse::between(then, now, span)),
            waiting_network: share(|worker| worker.waiting_network_nanos),
            waiting_disk: share(|worker| worker.waiting_disk_nanos),
            sync_seconds: syncs.max().unwrap_or(0) as f64 * 1e-9,
        })
    }

    /// One result for all receivers; with several hosts the busiest one's CPU is told.
    pub(crate) fn result(&self, seen: &WindowObservation) -> Option<ReceiverResult> {
        let hosts = self.first.iter().zip(&self.last).zip(&self.hosts);
        let told = hosts.filter_map(|((first, last), (instance, host))| {
            Some((instance.as_str(), host.as_str(), first.as_ref()?, last.as_ref()?))
        });
        let mut result = ReceiverResult::of_hosts(told, seen.bytes)?;
        for (last, first) in &self.workers {
            let busy = last.cpu_nanos.saturating_sub(first.cpu_nanos) as f64 * 1e-9 / seen.seconds.max(1e-9);
            result.busiest_thread = result.busiest_thread.max(busy.min(1.0));
            result.datagrams =
                result.datagrams.saturating_add(last.datagrams.saturating_sub(first.datagrams));
            result.socket_drops =
                result.socket_drops.saturating_add(last.socket_drops.saturating_sub(first.socket_drops));
            result.receive_buffer_bytes = result.receive_buffer_bytes.max(last.buffer_bytes);
        }
        Some(result)
    }
}

impl SinkResult {
    /// A later look; means by the bytes of each.
    pub(super) fn join(&mut self, bytes: f64, later: SinkResult, later_bytes: f64) {
        let (now, then) = (bytes.max(1.0), later_bytes.max(1.0));
        let mean = |a: f64, b: f64| (a * now + b * then) / (now + then);
        self.waiting_network = mean(self.waiting_network, later.waiting_network);
        self.waiting_disk = mean(self.waiting_disk, later.waiting_disk);
        self.sync_seconds = self.sync_seconds.max(later.sync_seconds);
        if let (Some(disk), Some(other)) = (&mut self.disk, &later.disk) {
            *disk = disk.mean(now, other, then);
        }
    }
}

impl ReceiverResult {
    /// A later look; means by the bytes of each.
    pub(super) fn join(&mut self, bytes: f64, later: ReceiverResult, later_bytes: f64) {
        let mean = |a: f64, b: f64| (a * bytes + b * later_bytes) / (bytes + later_bytes).max(1.0);
        self.cpu_seconds_per_gb = mean(self.cpu_seconds_per_gb, later.cpu_seconds_per_gb);
        self.busiest_thread = mean(self.busiest_thread, later.busiest_thread);
        self.throttled = mean(self.throttled, later.throttled);
        self.quota_cores = later.quota_cores;
        self.datagrams = self.datagrams.saturating_add(later.datagrams);
        self.socket_drops = self.socket_drops.saturating_add(later.socket_drops);
        self.receive_buffer_bytes = self.receive_buffer_bytes.max(later.receive_buffer_bytes);
        self.verified = self.verified.zip(later.verified).map(|(a, b)| a && b);
        for core in &mut self.cpu_by_core {
            let Some(other) = later.cpu_by_core.iter().find(|other| other.core == core.core) else {
                continue;
            };
            *core = core.mean(bytes.max(1.0), other, later_bytes.max(1.0));
        }
    }

    /// What agents reported of their hosts: instance, host, first and last sample. Several addresses of one agent count
    /// once; of several hosts the one whose quota holds it most is shown. None where there is no agent.
    pub(super) fn of_hosts<'a>(
        told: impl Iterator<Item = (&'a str, &'a str, &'a TestSample, &'a TestSample)>,
        bytes: u64,
    ) -> Option<ReceiverResult> {
        let mut result = ReceiverResult::default();
        let mut counted: Vec<&str> = Vec::new();
        let mut cpu_nanos = 0u64;
        for (instance, host, first, last) in told {
            if counted.contains(&instance) {
                continue;
            }
            counted.push(instance);
            // Sums of what peers report: those that cannot be true must not overflow either.
            cpu_nanos =
                cpu_nanos.saturating_add(last.process_cpu_nanos.saturating_sub(first.process_cpu_nanos));
            let throttled = last.throttle.share_since(&first.throttle);
            if throttled >= result.throttled {
                result.throttled = throttled;
                result.quota_cores = last.throttle.quota_cores;
                result.cpu_by_core = last.cpu_times.since(&first.cpu_times);
                result.host = host.to_string();
            }
        }
        if bytes > 0 {
            result.cpu_seconds_per_gb = cpu_nanos as f64 / bytes as f64;
        }
        (!counted.is_empty()).then_some(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_peers_claim_does_not_overflow() {
        let boast = WorkerSample { datagrams: u64::MAX, socket_drops: u64::MAX, ..WorkerSample::default() };
        let sample = || Some(TestSample { process_cpu_nanos: u64::MAX, ..TestSample::default() });
        let far = Far {
            workers: vec![(boast.clone(), WorkerSample::default()), (boast, WorkerSample::default())],
            first: vec![Some(TestSample::default()), Some(TestSample::default())],
            last: vec![sample(), sample()],
            hosts: vec![("one".into(), "a".into()), ("other".into(), "b".into())],
        };
        let seen = WindowObservation { bytes: 1, seconds: 1.0, ..WindowObservation::default() };
        let result = far.result(&seen).expect("a result");
        assert_eq!((result.datagrams, result.socket_drops), (u64::MAX, u64::MAX));
        assert!(result.cpu_seconds_per_gb.is_finite());
    }
}
