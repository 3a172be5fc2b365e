//! The other ends: one control session a path, data streams opened with its tickets, and what the receivers
//! counted.

use super::access::DeviceUse;
use super::product::{ReceiverResult, SinkResult};
use super::window::{Meter, WindowObservation};
use linerate_facts::protocol::Protocol;
use linerate_model::plan::{Goal, PathPlan, Plan, WorkerPlan};
use linerate_transport::agent::{
    AgentSession, Hello, OpenRequest, SinkRequest, TestSample, WorkerRequest, WorkerTicket,
};
use linerate_transport::flow::counters::WorkerCounters;
use linerate_transport::flow::progress::Mark;
use linerate_transport::flow::start::Destination;
use linerate_transport::flow::udp::UdpSender;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Headers of IP and UDP within the MTU: 20 + 8, with IPv6 40 + 8 (RFC 791, 768, 8200).
pub(super) const IP_AND_UDP_V4_BYTES: u32 = 28;
pub(super) const IP_AND_UDP_V6_BYTES: u32 = 48;
/// Larger than a jumbo frame brings nothing: only loopback has such an MTU.
const LARGEST_MTU: u32 = 9000;
/// A sink's disk keeps what was written within this, or the measurement has failed.
pub(super) const SETTLING: Duration = Duration::from_secs(30);

/// Control sessions, one for each path of the plan.
pub struct Peers {
    pub(super) sessions: Vec<AgentSession>,
    /// Interface of each, for sentences.
    names: Vec<String>,
    /// How many workers of the running test each session has.
    pub(super) opened: Vec<usize>,
}

impl Peers {
    /// Sessions in the order of the plan's paths.
    pub fn new(sessions: Vec<AgentSession>, paths: &[PathPlan]) -> Self {
        let opened = vec![0; sessions.len()];
        Peers { sessions, names: paths.iter().map(|path| path.name.clone()).collect(), opened }
    }

    /// Nobody to send to.
    pub fn none() -> Self {
        Peers::new(Vec::new(), &[])
    }

    /// The sessions.
    pub fn sessions(&self) -> &[AgentSession] {
        &self.sessions
    }

    /// The least that an agent of our own lets one client move, bytes per second; none: no agent holds us.
    pub fn rate_limit(&self) -> Option<f64> {
        self.sessions.iter().filter_map(|session| session.hello().rate_limit).reduce(f64::min)
    }

    /// Keeps idle sessions alive (an agent drops one that says nothing for a minute).
    pub(crate) fn keep_alive(&self) {
        for session in &self.sessions {
            // A peer that is gone shows when it is needed.
            let _ = session.sample();
        }
    }

    /// Opens a test with these workers; a ticket for each, in order, or why there is none.
    pub(crate) fn open(
        &mut self,
        workers: &[WorkerPlan],
        protocol: Protocol,
        verify: bool,
        sink: Option<SinkRequest>,
    ) -> Vec<Result<WorkerTicket, String>> {
        let mut tickets: Vec<Result<WorkerTicket, String>> =
            workers.iter().map(|_| Err("not opened".into())).collect();
        for (path, session) in self.sessions.iter().enumerate() {
            let mine: Vec<usize> = (0..workers.len()).filter(|index| workers[*index].path == path).collect();
            self.opened[path] = mine.len();
            if mine.is_empty() {
                continue;
            }
            let request = OpenRequest {
                workers: mine.iter().map(|_| WorkerRequest { protocol }).collect(),
                verify,
                sink,
                sink_workers: self.sharing(path, workers),
                ..OpenRequest::default()
            };
            match session.open(request) {
                Ok(opened) => {
                    mine.iter().zip(opened.workers).for_each(|(index, ticket)| tickets[*index] = Ok(ticket))
                }
                Err(failure) => {
                    self.opened[path] = 0;
                    mine.iter().for_each(|index| tickets[*index] = Err(failure.to_string()));
                }
            }
        }
        tickets
    }

    /// Workers on this path and on those that are opened after it, at the same agent.
    fn sharing(&self, path: usize, workers: &[WorkerPlan]) -> u32 {
        let agent = |path: usize| self.sessions.get(path).map(|session| &session.hello().instance);
        let later = workers.iter().filter(|worker| worker.path >= path && agent(worker.path) == agent(path));
        u32::try_from(later.count()).unwrap_or(u32::MAX)
    }

    /// After the workers have ended: the sinks take no more, and their disks keep what came. Waits for that; why
    /// it was not so, in a sentence.
    pub(crate) fn settle(&self, workers: &[WorkerPlan]) -> Result<(), SettleError> {
        let deadline = Instant::now() + SETTLING;
        // The workers of a path that was given up never came.
        let works = |path: usize| workers.iter().any(|worker| worker.path == path);
        let opened = self.sessions.iter().enumerate().filter(|(path, _)| works(*path));
        let opened: Vec<&AgentSession> = opened.map(|(_, session)| session).collect();
        // All begin before one is waited for.
        for patience in [None, Some(deadline)] {
            for session in &opened {
                let left =
                    patience.map_or(Duration::ZERO, |end| end.saturating_duration_since(Instant::now()));
                let sample =
                    session.settle(left).map_err(|failure| SettleError::Session(failure.to_string()))?;
                if patience.is_some() {
                    kept(&sample, session.hello())?;
                }
            }
        }
        Ok(())
    }

    /// Opens the data stream of one worker.
    pub(crate) fn connect(
        &self,
        ticket: &WorkerTicket,
        worker: &WorkerPlan,
        plan: &Plan,
        goal: &Goal,
    ) -> Result<Destination, String> {
        let path = &plan.paths[worker.path];
        let session = &self.sessions[worker.path];
        let Some(address) = session.udp_address(ticket) else {
            let stream = session.connect_tcp(ticket, |socket| {
                if let Some(name) = &goal.congestion_control {
                    socket.set_tcp_congestion(name.as_bytes())?;
                }
                socket.bind(&path.local_socket().into())
            });
            return stream.map(Destination::Tcp).map_err(|failure| failure.to_string());
        };
        let here = |error: std::io::Error| format!("no UDP path to {address}: {error}");
        let socket = UdpSocket::bind(path.local_socket()).map_err(here)?;
        socket.connect(address).map_err(here)?;
        let datagram = datagram_bytes(path, goal);
        let sender = UdpSender::admit(socket, *ticket.token.bytes(), datagram).map_err(here)?;
        Ok(Destination::Udp(Box::new(sender)))
    }

    /// Ends the running test at every agent; their last samples, by path: none where no test was open, or its agent
    /// did not answer.
    pub fn close(&mut self) -> Vec<Option<TestSample>> {
        let each = self.sessions.iter().zip(&mut self.opened);
        each.map(|(session, opened)| match std::mem::take(opened) {
            0 => None,
            _ => session.close().ok(),
        })
        .collect()
    }

    /// After the workers have ended: the receivers' checksums against ours. None where one cannot be had.
    pub fn verify(&self, workers: &[WorkerPlan], counters: &[Arc<WorkerCounters>]) -> Option<bool> {
        // A send that did not come back before the worker's end is at the receiver, or is not: nothing to
        // compare.
        if !counters.iter().all(|counters| counters.whole.load(Ordering::Relaxed)) {
            return None;
        }
        let patience = Instant::now() + Duration::from_secs(3);
        loop {
            let samples = self.samples().ok()?;
            let received: Vec<_> = worker_samples(&samples, workers);
            if received.iter().all(|sample| sample.ended) {
                let equal = received.iter().zip(counters).all(|(sample, counters)| {
                    sample.bytes == counters.progress.mark().bytes
                        && sample.checksum == counters.checksum.load(Ordering::Relaxed)
                });
                return Some(equal && !received.is_empty());
            }
            // A receiver that still stores has no sum yet: that is no other sum.
            if Instant::now() > patience {
                return None;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// How far the running test is, by path.
    pub(super) fn samples(&self) -> Result<Vec<Option<TestSample>>, String> {
        let sample = |(index, session): (usize, &AgentSession)| match self.opened.get(index) {
            None | Some(0) => Ok(None),
            Some(_) => session.sample().map(Some).map_err(|failure| {
                let name = self.names.get(index).map_or("the network", String::as_str);
                format!("on {name}: {failure}")
            }),
        };
        self.sessions.iter().enumerate().map(sample).collect()
    }
}

/// Why it is not known that a sink's disk keeps what came.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SettleError {
    /// In the agent's own words.
    #[error("the peer {host}: {why}")]
    Failed { host: String, why: String },
    #[error(
        "the {disk} on {host} did not keep within {seconds} s what was written (fsync): does it hang? Look at the \
         kernel's messages there"
    )]
    Late { disk: String, host: String, seconds: u64 },
    /// The agent could not be asked.
    #[error("{0}")]
    Session(String),
}

/// Whether a sink's disk keeps what came; why not.
fn kept(sample: &TestSample, hello: &Hello) -> Result<(), SettleError> {
    let host = hello.host.clone();
    if let Some(why) = sample.workers.iter().find_map(|worker| worker.error.clone()) {
        return Err(SettleError::Failed { host, why });
    }
    if sample.workers.iter().all(|worker| worker.ended) {
        return Ok(());
    }
    let disk = hello.sink.as_ref().and_then(|sink| sink.disk.as_ref());
    let disk = disk.map_or_else(|| "disk of the sink".to_string(), |disk| format!("sink's disk {disk}"));
    Err(SettleError::Late { disk, host, seconds: SETTLING.as_secs() })
}

/// The payload of a datagram that crosses the path in one frame.
pub(crate) fn datagram_bytes(path: &linerate_model::plan::PathPlan, goal: &Goal) -> usize {
    if let Some(bytes) = goal.datagram_bytes {
        return bytes.clamp(16, 65_507) as usize;
    }
    largest_datagram_bytes(path) as usize
}

/// The largest payload of a datagram that is one frame of the path, by what both ends' interfaces say.
pub(super) fn largest_datagram_bytes(path: &linerate_model::plan::PathPlan) -> u32 {
    let ours = path.mtu.known().copied().unwrap_or(1500);
    let theirs = path.peer_mtu.known().copied().unwrap_or(ours);
    let overhead = if path.peer.is_ipv6() { IP_AND_UDP_V6_BYTES } else { IP_AND_UDP_V4_BYTES };
    ours.min(theirs).min(LARGEST_MTU).saturating_sub(overhead).max(64)
}

/// The samples of the plan's workers, in their order; each session counts its own workers from 0.
fn worker_samples(
    samples: &[Option<TestSample>],
    workers: &[WorkerPlan],
) -> Vec<linerate_transport::agent::WorkerSample> {
    let paths = workers.iter().map(|worker| worker.path + 1).max().unwrap_or(0);
    let mut next = vec![0; paths];
    let each = workers.iter().map(|worker| {
        let number = next[worker.path];
        next[worker.path] += 1;
        let sample = samples.get(worker.path).and_then(Option::as_ref);
        sample.and_then(|sample| sample.workers.get(number)).cloned().unwrap_or_default()
    });
    each.collect()
}

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
    workers: Vec<(linerate_transport::agent::WorkerSample, linerate_transport::agent::WorkerSample)>,
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
        let share = |of: fn(&linerate_transport::agent::WorkerSample) -> u64| {
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
    use linerate_transport::agent::{SinkOffer, WorkerSample};

    #[test]
    fn a_sink_that_keeps_nothing_is_one_sentence_with_its_host_and_disk() {
        let offer = SinkOffer { disk: Some("vdb".into()), bytes: 1 };
        let hello = Hello {
            host: "store7".into(),
            sink: Some(offer),
            ..serde_json::from_str(HELLO).expect("a hello")
        };
        let sample = |ended, error: Option<&str>| {
            let worker = WorkerSample { ended, error: error.map(str::to_string), ..WorkerSample::default() };
            TestSample {
                workers: vec![WorkerSample { ended: true, ..worker.clone() }, worker],
                ..TestSample::default()
            }
        };
        assert_eq!(kept(&sample(true, None), &hello), Ok(()));
        let late = kept(&sample(false, None), &hello).expect_err("it hangs").to_string();
        assert!(late.starts_with("the sink's disk vdb on store7 did not keep within 30 s"), "{late}");
        let failed = kept(&sample(true, Some("the fsync of the sink /srv failed")), &hello);
        assert_eq!(
            failed.expect_err("it failed").to_string(),
            "the peer store7: the fsync of the sink /srv failed"
        );
    }

    const HELLO: &str = r#"{"protocol":2,"version":"0","host":"","instance":"","cores":1}"#;

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
