//! What the other ends counted of a running test: rates at the receivers, their hosts' CPUs, what a sink did.

use super::peers::{PeerError, Peers, stream_samples};
use super::product::{ReceiverResult, SinkResult};
use super::window::{Meter, WindowObservation};
use linerate_model::plan::WorkerPlan;
use linerate_transport::agent::{AgentSession, TestSample};
use linerate_transport::flow::progress::Mark;
use linerate_transport::flow::stream::StreamSample;

/// What the other ends of a flow reported at its first marks and at its last, by path.
pub(crate) struct FarHosts {
    pub first: Vec<Option<TestSample>>,
    pub last: Vec<Option<TestSample>>,
    /// Instance and name of each.
    hosts: Vec<(String, String)>,
}

impl FarHosts {
    /// Nothing yet.
    pub(crate) fn new(sessions: &[AgentSession]) -> Self {
        let host = |session: &AgentSession| (session.hello().instance.clone(), session.hello().host.clone());
        let hosts = sessions.iter().map(host).collect();
        FarHosts { first: Vec::new(), last: Vec::new(), hosts }
    }

    /// Takes what they report now.
    pub(crate) fn add(&mut self, samples: Vec<Option<TestSample>>) {
        if self.first.is_empty() {
            self.first.clone_from(&samples);
        }
        self.last = samples;
    }

    /// Name of the host that this path leads to.
    pub(crate) fn name(&self, path: usize) -> &str {
        self.hosts.get(path).map_or("", |(_, host)| host)
    }

    /// What the hosts did in between. Several addresses of one agent count once; of several hosts the one whose quota
    /// holds it most is shown. None where there is no agent.
    pub(crate) fn result(&self, bytes: u64) -> Option<ReceiverResult> {
        let mut result = ReceiverResult::default();
        let mut counted: Vec<&str> = Vec::new();
        let mut cpu_seconds = 0.0;
        for ((first, last), (instance, host)) in self.first.iter().zip(&self.last).zip(&self.hosts) {
            let (Some(first), Some(last)) = (first, last) else { continue };
            if counted.contains(&instance.as_str()) {
                continue;
            }
            counted.push(instance);
            let used = last.host.since(&first.host);
            cpu_seconds += used.cpu_seconds;
            if used.throttled >= result.throttled {
                result.throttled = used.throttled;
                result.quota_cores = used.quota_cores;
                result.cpu_by_core = used.cpus;
                result.host.clone_from(host);
            }
        }
        if bytes > 0 {
            result.cpu_seconds_per_gb = cpu_seconds * 1e9 / bytes as f64;
        }
        (!counted.is_empty()).then_some(result)
    }
}

/// Reads the rates at the receivers.
pub(crate) struct PeerMeter<'a> {
    peers: &'a Peers,
    workers: &'a [WorkerPlan],
    hosts: FarHosts,
}

impl<'a> PeerMeter<'a> {
    /// A meter over the running test of these workers.
    pub(crate) fn new(peers: &'a Peers, workers: &'a [WorkerPlan]) -> Self {
        PeerMeter { peers, workers, hosts: FarHosts::new(&peers.sessions) }
    }

    /// Lets the agents know that somebody is still there.
    pub(crate) fn keep_alive(&self) {
        self.peers.keep_alive();
    }

    /// What the other ends told between the first and the last marks.
    pub(crate) fn far(self) -> Far {
        let of = |samples: &[Option<TestSample>]| stream_samples(samples, self.workers);
        let workers = of(&self.hosts.last).into_iter().zip(of(&self.hosts.first)).collect();
        Far { workers, hosts: self.hosts }
    }
}

impl Meter for PeerMeter<'_> {
    type Error = PeerError;

    fn marks(&mut self) -> Result<Option<Vec<Mark>>, PeerError> {
        let samples = self.peers.samples()?;
        let workers = stream_samples(&samples, self.workers);
        self.hosts.add(samples);
        // A sink that is full, or a receiver that gave up, moves nothing from then on: no figure of anything.
        let failed = workers.iter().zip(self.workers).find_map(|(of, plan)| Some((of.error.as_ref()?, plan)));
        if let Some((why, worker)) = failed {
            let (host, why) = (self.hosts.name(worker.path).to_string(), why.clone());
            return Err(PeerError::Failed { host, why });
        }
        Ok(Some(workers.iter().map(StreamSample::mark).collect()))
    }

    /// Each agent has its own.
    fn has_one_clock(&self) -> bool {
        self.peers.sessions.len() == 1
    }
}

/// The receivers' side of a measurement: samples at its begin and end, by path.
pub(crate) struct Far {
    workers: Vec<(StreamSample, StreamSample)>,
    hosts: FarHosts,
}

impl Far {
    /// What the sink did; none where nothing was stored. `last`: the samples of the end of the test.
    pub(crate) fn sink(&self, last: &[Option<TestSample>]) -> Option<SinkResult> {
        let mut reported = self.hosts.last.iter().zip(&self.hosts.first).enumerate();
        let (path, host) = reported
            .find_map(|(path, (now, then))| Some((path, now.as_ref()?.host.since(&then.as_ref()?.host))))?;
        let time = host.seconds.max(1e-9) * self.workers.len().max(1) as f64;
        let share = |of: fn(&StreamSample) -> u64| {
            let waited = self.workers.iter().map(|(now, then)| of(now).saturating_sub(of(then)) as f64);
            (waited.sum::<f64>() * 1e-9 / time).min(1.0)
        };
        let syncs = last.iter().flatten().flat_map(|sample| &sample.streams).map(|stream| stream.sync_nanos);
        Some(SinkResult {
            host: self.hosts.name(path).to_string(),
            disk: host.disks.into_iter().next(),
            waiting_network: share(|worker| worker.waiting_network_nanos),
            waiting_disk: share(|worker| worker.waiting_disk_nanos),
            sync_seconds: syncs.max().unwrap_or(0) as f64 * 1e-9,
        })
    }

    /// One result for all receivers; with several hosts the busiest one's CPU is told.
    pub(crate) fn result(&self, observation: &WindowObservation) -> Option<ReceiverResult> {
        let mut result = self.hosts.result(observation.bytes)?;
        for (last, first) in &self.workers {
            let busy = last.cpu_nanos.saturating_sub(first.cpu_nanos) as f64 * 1e-9
                / observation.host.seconds.max(1e-9);
            result.busiest_thread = result.busiest_thread.max(busy.min(1.0));
            result.datagrams =
                result.datagrams.saturating_add(last.datagrams.saturating_sub(first.datagrams));
            result.socket_drops =
                result.socket_drops.saturating_add(last.socket_drops.saturating_sub(first.socket_drops));
            result.receive_buffer_bytes = result.receive_buffer_bytes.max(last.receive_buffer_bytes);
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_facts::host::HostUse;

    #[test]
    fn what_peers_claim_does_not_overflow() {
        let boast = StreamSample { datagrams: u64::MAX, socket_drops: u64::MAX, ..StreamSample::default() };
        let reply = r#"{"host":{"process_cpu_nanos":18446744073709551615},"streams":[]}"#;
        let sample = || Some(serde_json::from_str::<TestSample>(reply).expect("a sample"));
        let far = Far {
            workers: vec![(boast.clone(), StreamSample::default()), (boast, StreamSample::default())],
            hosts: FarHosts {
                first: vec![Some(TestSample::default()), Some(TestSample::default())],
                last: vec![sample(), sample()],
                hosts: vec![("one".into(), "a".into()), ("other".into(), "b".into())],
            },
        };
        let host = HostUse { seconds: 1.0, ..HostUse::default() };
        let watched = WindowObservation { bytes: 1, host, ..WindowObservation::default() };
        let result = far.result(&watched).expect("a result");
        assert_eq!((result.datagrams, result.socket_drops), (u64::MAX, u64::MAX));
        assert!(result.cpu_seconds_per_gb.is_finite());
    }
}
