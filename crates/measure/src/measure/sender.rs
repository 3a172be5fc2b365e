//! The peer's side of a flow that comes in: its streams opened to send from memory, and what it reports of them and of
//! its host.

use super::Stages;
use super::peer_figures::FarHosts;
use super::peers::stream_samples;
use super::peers::{PeerError, Peers};
use super::product::ReceiverResult;
use super::tcp_figures::TcpFigures;
use super::window::{Meter, WindowObservation, WorkerCounts};
use linerate_facts::protocol::Protocol;
use linerate_model::plan::{Plan, WorkerPlan};
use linerate_system::clock;
use linerate_system::stop::Stop;
use linerate_transport::agent::{AgentSession, LocalBinding, StreamEnds, TestSample};
use linerate_transport::flow::counters::WorkerCounters;
use linerate_transport::flow::progress::Mark;
use linerate_transport::flow::stream::{StreamRole, StreamSample, StreamSpec};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes a write of the peer.
const WRITE_BYTES: u32 = 1 << 20;
/// How often a control session is asked for its round trip.
const PINGS: usize = 3;

impl Stages<'_> {
    /// What the peer does for each worker.
    pub(super) fn sending_spec(&self, verify: bool) -> StreamSpec {
        StreamSpec {
            write_bytes: WRITE_BYTES,
            congestion_control: self.goal.congestion_control.clone(),
            verify,
            ..StreamSpec::new(Protocol::Tcp, StreamRole::Send)
        }
    }
}

impl Peers {
    /// Opens a test in which the peers send; this end of a stream for each worker, in order, or why there is none.
    pub(super) fn open_senders(
        &mut self,
        workers: &[WorkerPlan],
        plan: &Plan,
        theirs: &StreamSpec,
        stop: &Stop,
    ) -> Vec<Result<TcpStream, PeerError>> {
        let ends = StreamEnds { own: theirs.other_end(), theirs: theirs.clone() };
        self.open_by_path(workers, |path, count, session| {
            let binding = LocalBinding { local: Some(plan.paths[path].local_socket()), device: None };
            let opened = session.open_streams(vec![ends.clone(); count], binding, stop)?;
            Ok(opened.into_iter().map(|opened| opened.and_then(|one| one.socket.into_tcp())).collect())
        })
    }

    /// The longest of the paths' round trips, as the shortest answers of their agents show it, seconds.
    pub(super) fn round_trip_seconds(&self) -> f64 {
        let ping = |session: &AgentSession| {
            let begun = clock::now();
            session.sample().ok().map(|_| clock::since(begun).as_secs_f64())
        };
        let shortest =
            |session: &AgentSession| (0..PINGS).filter_map(|_| ping(session)).fold(f64::INFINITY, f64::min);
        self.sessions.iter().map(shortest).filter(|trip| trip.is_finite()).fold(0.0, f64::max)
    }
}

/// Reads the rates at the workers here, and what the peers report with the first and the last of them.
pub(super) struct SenderMeter<'a> {
    counters: Vec<Arc<WorkerCounters>>,
    peers: &'a Peers,
    workers: &'a [WorkerPlan],
    hosts: FarHosts,
}

impl<'a> SenderMeter<'a> {
    pub(super) fn new(
        counters: Vec<Arc<WorkerCounters>>,
        peers: &'a Peers,
        workers: &'a [WorkerPlan],
    ) -> Self {
        SenderMeter { counters, peers, workers, hosts: FarHosts::new(&peers.sessions) }
    }

    /// Why the streams ended while they were watched: an error in any case.
    pub(super) fn why_ended(&mut self) -> Result<(), PeerError> {
        self.marks()?;
        let host = self.workers.first().map_or("", |worker| self.hosts.name(worker.path));
        Err(PeerError::Ended { host: host.into() })
    }

    /// What the peers reported between the first and the last marks.
    pub(super) fn far(self) -> FarSenders {
        FarSenders { workers: self.workers.to_vec(), hosts: self.hosts }
    }
}

impl Meter for SenderMeter<'_> {
    type Error = PeerError;

    fn marks(&mut self) -> Result<Option<Vec<Mark>>, PeerError> {
        let marks = self.counters.iter().map(|counters| counters.progress.mark()).collect();
        self.hosts.add(self.peers.samples()?);
        let failed = stream_samples(&self.hosts.last, self.workers).into_iter().zip(self.workers);
        if let Some((why, worker)) = failed.into_iter().find_map(|(stream, plan)| Some((stream.error?, plan)))
        {
            return Err(PeerError::Failed { host: self.hosts.name(worker.path).into(), why });
        }
        Ok(Some(marks))
    }

    fn has_one_clock(&self) -> bool {
        true
    }

    fn workers(&self) -> Vec<WorkerCounts> {
        WorkerCounts::of(&self.counters)
    }
}

/// The senders' side of a measurement: samples at its begin and end, by path.
pub(super) struct FarSenders {
    workers: Vec<WorkerPlan>,
    hosts: FarHosts,
}

impl FarSenders {
    /// Begin and end of each worker's stream.
    fn streams(&self) -> impl Iterator<Item = (StreamSample, StreamSample)> {
        let of = |samples: &[Option<TestSample>]| stream_samples(samples, &self.workers);
        of(&self.hosts.first).into_iter().zip(of(&self.hosts.last))
    }

    /// What TCP counted at the senders; nothing where nobody sent.
    pub(super) fn tcp(&self) -> Vec<TcpFigures> {
        let of = |(first, last): (StreamSample, StreamSample)| {
            let mut figures = TcpFigures::of_stream(&last);
            figures.leave_out(&TcpFigures::of_stream(&first));
            figures
        };
        if self.hosts.last.iter().all(Option::is_none) {
            Vec::new()
        } else {
            self.streams().map(of).collect()
        }
    }

    /// One result for all senders; with several hosts the one that its quota holds most.
    pub(super) fn result(&self, observation: &WindowObservation) -> Option<ReceiverResult> {
        let mut result = self.hosts.result(observation.bytes)?;
        for (first, last) in self.streams() {
            let nanos = last.cpu_nanos.saturating_sub(first.cpu_nanos);
            let busy = nanos as f64 * 1e-9 / observation.host.seconds.max(1e-9);
            result.busiest_thread = result.busiest_thread.max(busy.min(1.0));
        }
        Some(result)
    }

    /// The senders' checksums against ours, after both have ended; `last` by path. None where one cannot be had.
    pub(super) fn verify(
        &self,
        last: &[Option<TestSample>],
        counters: &[Arc<WorkerCounters>],
    ) -> Option<bool> {
        let whole = counters.iter().all(|counters| counters.whole.load(Ordering::Acquire));
        let sent = stream_samples(last, &self.workers);
        if !whole || sent.is_empty() || !sent.iter().all(|stream| stream.ended && stream.error.is_none()) {
            return None;
        }
        Some(sent.iter().zip(counters).all(|(stream, counters)| {
            stream.bytes == counters.progress.mark().bytes
                && stream.checksum == counters.checksum.load(Ordering::Relaxed)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn streams_are_numbered_within_their_path() {
        let worker = |path| WorkerPlan { path, ..serde_json::from_str(WORKER).expect("a worker") };
        let stream = |bytes| StreamSample { bytes, ..StreamSample::default() };
        let sample = |streams: Vec<StreamSample>| Some(TestSample { streams, ..TestSample::default() });
        let samples = [sample(vec![stream(1), stream(2)]), None, sample(vec![stream(3)])];
        let workers = [worker(0), worker(2), worker(0), worker(1), worker(2)];
        let bytes: Vec<u64> = stream_samples(&samples, &workers).iter().map(|stream| stream.bytes).collect();
        assert_eq!(bytes, [1, 3, 2, 0, 0], "what an agent does not report is nothing");
    }

    /// What the other path's agent said is not taken for it.
    #[test]
    fn a_path_whose_agent_did_not_answer_at_the_end_is_not_verified() {
        let worker = |path| WorkerPlan { path, ..serde_json::from_str(WORKER).expect("a worker") };
        let far = FarSenders { workers: vec![worker(0), worker(1)], hosts: FarHosts::new(&[]) };
        let counters: Vec<Arc<WorkerCounters>> = [10, 20].map(received).into();
        let ended = |bytes| {
            let stream = StreamSample { bytes, checksum: bytes, ended: true, ..StreamSample::default() };
            Some(TestSample { streams: vec![stream], ..TestSample::default() })
        };
        assert_eq!(far.verify(&[ended(10), ended(20)], &counters), Some(true));
        assert_eq!(far.verify(&[ended(10), ended(21)], &counters), Some(false));
        assert_eq!(far.verify(&[None, ended(20)], &counters), None);
        assert_eq!(far.verify(&[ended(10), None], &counters), None);
    }

    fn received(bytes: u64) -> Arc<WorkerCounters> {
        let counters = WorkerCounters::new(Instant::now());
        counters.progress.add(bytes);
        counters.checksum.store(bytes, Ordering::Relaxed);
        counters.whole.store(true, Ordering::Relaxed);
        Arc::new(counters)
    }

    const WORKER: &str = r#"{"index":0,"source":0,"path":0,"core":0,"node":{"unknown":""},"block_bytes":1,"queue_depth":1,"share":1}"#;
}
