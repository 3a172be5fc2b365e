//! The other ends: one control session a path, data streams opened with its tickets, and their end.

use linerate_facts::failure::Failure;
use linerate_facts::protocol::Protocol;
use linerate_model::plan::{Goal, PathPlan, Plan, WorkerPlan};
use linerate_system::clock;
use linerate_system::socket::udp_headers;
use linerate_system::stop::Stop;
use linerate_transport::agent::{
    AgentSession, Hello, LocalBinding, OpenRequest, SinkRequest, StreamSocket, StreamTicket, TestSample,
};
use linerate_transport::flow::counters::WorkerCounters;
use linerate_transport::flow::start::Destination;
use linerate_transport::flow::stream::{StreamRole, StreamSample, StreamSpec};
use linerate_transport::flow::udp::UdpSender;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Larger than a jumbo frame brings nothing: only loopback has such an MTU.
const LARGEST_MTU: u32 = 9000;
/// A sink's disk keeps what was written within this, or the measurement has failed.
pub(super) const SETTLING: Duration = Duration::from_secs(30);

/// Why nothing is known of a flow at its peers.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PeerError {
    /// With the path.
    #[error("{0}")]
    Unanswered(String),
    #[error("no UDP path to {address}: {error}")]
    NoUdpPath { address: SocketAddr, error: io::Error },
    #[error("not opened")]
    NotOpened,
    /// Its agent's refusal, or the connection to it, in a sentence.
    #[error("{0}")]
    Agent(String),
    #[error("the peer {host}: {why}")]
    Failed { host: String, why: String },
    #[error(
        "the peer {host} ended its streams too early: was its agent stopped, or is its --time-limit short?"
    )]
    Ended { host: String },
}

impl PeerError {
    pub(super) fn of_agent(failure: Failure) -> Self {
        PeerError::Agent(failure.to_string())
    }
}

/// A stage fails with a sentence.
impl From<PeerError> for String {
    fn from(error: PeerError) -> String {
        error.to_string()
    }
}

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

    /// The sessions.
    pub fn sessions(&self) -> &[AgentSession] {
        &self.sessions
    }

    /// The least that one of the linerate agents lets one client move, bytes per second; none: no agent sets a limit.
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

    /// Opens a test with these workers. `spec`: what the agent's end of each stream does. A ticket for each, in order, or
    /// why there is none.
    pub(crate) fn open(
        &mut self,
        workers: &[WorkerPlan],
        spec: &StreamSpec,
        sink: Option<SinkRequest>,
    ) -> Vec<Result<StreamTicket, PeerError>> {
        let paths = 0..self.sessions.len();
        let sink_workers: Vec<u32> = paths.map(|path| sharing(&self.sessions, path, workers)).collect();
        self.open_by_path(workers, |path, count, session| {
            let streams = vec![spec.clone(); count];
            let tickets = session.open(OpenRequest { streams, sink, sink_workers: sink_workers[path] })?;
            Ok(tickets.into_iter().map(|ticket| session.granted(&ticket).map(|_| ticket.clone())).collect())
        })
    }

    /// Opens something at the agent of each path for the workers there, so many; what each worker has of it, in their
    /// order, or why it has nothing.
    pub(super) fn open_by_path<T>(
        &mut self,
        workers: &[WorkerPlan],
        open: impl Fn(usize, usize, &AgentSession) -> Result<Vec<Result<T, Failure>>, Failure>,
    ) -> Vec<Result<T, PeerError>> {
        let mut all: Vec<Result<T, PeerError>> = workers.iter().map(|_| Err(PeerError::NotOpened)).collect();
        for (path, session) in self.sessions.iter().enumerate() {
            let mine: Vec<usize> = (0..workers.len()).filter(|index| workers[*index].path == path).collect();
            self.opened[path] = 0;
            if mine.is_empty() {
                continue;
            }
            match open(path, mine.len(), session) {
                Ok(opened) => {
                    self.opened[path] = mine.len();
                    let opened = opened.into_iter().map(|one| one.map_err(PeerError::of_agent));
                    mine.into_iter().zip(opened).for_each(|(index, one)| all[index] = one);
                }
                Err(failure) => {
                    let why = failure.to_string();
                    mine.into_iter().for_each(|index| all[index] = Err(PeerError::Agent(why.clone())));
                }
            }
        }
        all
    }

    /// After the workers have ended: the sinks take no more, and their disks keep what came. Waits for that; why
    /// it was not so, in a sentence.
    pub(crate) fn settle(&self, workers: &[WorkerPlan]) -> Result<(), SettleError> {
        let deadline = clock::now() + SETTLING;
        // The workers of a path that was given up never came.
        let works = |path: usize| workers.iter().any(|worker| worker.path == path);
        let opened = self.sessions.iter().enumerate().filter(|(path, _)| works(*path));
        let opened: Vec<&AgentSession> = opened.map(|(_, session)| session).collect();
        // All begin before one is waited for.
        for patience in [None, Some(deadline)] {
            for session in &opened {
                let left = patience.map_or(Duration::ZERO, |end| end.saturating_duration_since(clock::now()));
                let sample =
                    session.settle(left).map_err(|failure| SettleError::Session(failure.to_string()))?;
                if patience.is_some() {
                    check_kept(&sample, session.hello())?;
                }
            }
        }
        Ok(())
    }

    /// Opens the data stream of one worker; `stop` ends that.
    pub(crate) fn connect(
        &self,
        ticket: &StreamTicket,
        worker: &WorkerPlan,
        plan: &Plan,
        goal: &Goal,
        stop: &Stop,
    ) -> Result<Destination, PeerError> {
        let path = &plan.paths[worker.path];
        let session = &self.sessions[worker.path];
        let (token, udp_port) = session.granted(ticket).map_err(PeerError::of_agent)?;
        let Some(port) = udp_port else {
            let congestion_control = goal.congestion_control.clone();
            let own = StreamSpec { congestion_control, ..StreamSpec::new(Protocol::Tcp, StreamRole::Send) };
            let binding = LocalBinding { local: Some(path.local_socket()), device: None };
            let opened = session.connect_stream_until(ticket, &own, binding, stop);
            let stream = opened.and_then(StreamSocket::into_tcp);
            return stream.map(Destination::Tcp).map_err(PeerError::of_agent);
        };
        let mut address = session.address();
        address.set_port(port);
        let here = |error| PeerError::NoUdpPath { address, error };
        let socket = UdpSocket::bind(path.local_socket()).map_err(here)?;
        socket.connect(address).map_err(here)?;
        let datagram = datagram_bytes(path, goal);
        let sender = UdpSender::admit(socket, *token.bytes(), datagram, stop).map_err(here)?;
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
        let patience = clock::now() + Duration::from_secs(3);
        loop {
            let samples = self.samples().ok()?;
            let received = stream_samples(&samples, workers);
            if received.iter().all(|sample| sample.ended) {
                let equal = received.iter().zip(counters).all(|(sample, counters)| {
                    sample.bytes == counters.progress.mark().bytes
                        && sample.checksum == counters.checksum.load(Ordering::Relaxed)
                });
                return Some(equal && !received.is_empty());
            }
            // A receiver that still stores has no sum yet: that is not another sum.
            if clock::now() > patience {
                return None;
            }
            // What was sent is compared also after a stop: the receivers end within a moment.
            clock::sleep(Duration::from_millis(20));
        }
    }

    /// How far the running test is, by path.
    pub(super) fn samples(&self) -> Result<Vec<Option<TestSample>>, PeerError> {
        let sample = |(index, session): (usize, &AgentSession)| match self.opened.get(index) {
            None | Some(0) => Ok(None),
            Some(_) => session.sample().map(Some).map_err(|failure| {
                let name = self.names.get(index).map_or("the network", String::as_str);
                PeerError::Unanswered(format!("on {name}: {failure}"))
            }),
        };
        self.sessions.iter().enumerate().map(sample).collect()
    }
}

/// The streams of the plan's workers, in their order; each session counts its own from 0.
pub(super) fn stream_samples(samples: &[Option<TestSample>], workers: &[WorkerPlan]) -> Vec<StreamSample> {
    let paths = workers.iter().map(|worker| worker.path + 1).max().unwrap_or(0);
    let mut next = vec![0; paths];
    let each = workers.iter().map(|worker| {
        let number = next[worker.path];
        next[worker.path] += 1;
        let sample = samples.get(worker.path).and_then(Option::as_ref);
        sample.and_then(|sample| sample.streams.get(number)).cloned().unwrap_or_default()
    });
    each.collect()
}

/// Workers on this path and on those that are opened after it, at the same agent.
fn sharing(sessions: &[AgentSession], path: usize, workers: &[WorkerPlan]) -> u32 {
    let agent = |path: usize| sessions.get(path).map(|session| &session.hello().instance);
    let later = workers.iter().filter(|worker| worker.path >= path && agent(worker.path) == agent(path));
    u32::try_from(later.count()).unwrap_or(u32::MAX)
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
fn check_kept(sample: &TestSample, hello: &Hello) -> Result<(), SettleError> {
    let host = hello.host.clone();
    if let Some(why) = sample.streams.iter().find_map(|stream| stream.error.clone()) {
        return Err(SettleError::Failed { host, why });
    }
    if sample.streams.iter().all(|stream| stream.ended) {
        return Ok(());
    }
    let disk = hello.sink.as_ref().and_then(|sink| sink.disk.as_ref());
    let disk = disk.map_or_else(|| "disk of the sink".to_string(), |disk| format!("sink's disk {disk}"));
    Err(SettleError::Late { disk, host, seconds: SETTLING.as_secs() })
}

/// The payload of a datagram that crosses the path in one frame.
pub(crate) fn datagram_bytes(path: &PathPlan, goal: &Goal) -> usize {
    if let Some(bytes) = goal.datagram_bytes {
        return bytes.clamp(16, 65_507) as usize;
    }
    largest_datagram_bytes(path) as usize
}

/// The largest payload of a datagram that is one frame of the path, by what both ends' interfaces say.
pub(super) fn largest_datagram_bytes(path: &PathPlan) -> u32 {
    let ours = path.mtu.known().copied().unwrap_or(1500);
    let theirs = path.peer_mtu.known().copied().unwrap_or(ours);
    ours.min(theirs).min(LARGEST_MTU).saturating_sub(udp_headers(path.peer.is_ipv6())).max(64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_transport::agent::SinkOffer;

    #[test]
    fn a_sink_that_keeps_nothing_is_one_sentence_with_its_host_and_disk() {
        let offer = SinkOffer { disk: Some("vdb".into()), bytes: 1 };
        let hello = Hello {
            host: "store7".into(),
            sink: Some(offer),
            ..serde_json::from_str(HELLO).expect("a hello")
        };
        let sample = |ended, error: Option<&str>| {
            let stream = StreamSample { ended, error: error.map(str::to_string), ..StreamSample::default() };
            TestSample {
                streams: vec![StreamSample { ended: true, ..stream.clone() }, stream],
                ..TestSample::default()
            }
        };
        assert_eq!(check_kept(&sample(true, None), &hello), Ok(()));
        let late = check_kept(&sample(false, None), &hello).expect_err("it hangs").to_string();
        assert!(late.starts_with("the sink's disk vdb on store7 did not keep within 30 s"), "{late}");
        let failed = check_kept(&sample(true, Some("the fsync of the sink /srv failed")), &hello);
        assert_eq!(
            failed.expect_err("it failed").to_string(),
            "the peer store7: the fsync of the sink /srv failed"
        );
    }

    const HELLO: &str = r#"{"protocol":2,"version":"0","host":"","instance":"","cores":1}"#;
}
