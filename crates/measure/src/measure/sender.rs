//! The peer's side of a flow that comes in: its streams opened to send from memory, and what it reports of them and of
//! its host.

use super::Stages;
use super::peers::Peers;
use super::product::ReceiverResult;
use super::samples::samples_of;
use super::tcp_figures::TcpFigures;
use super::window::{Meter, WindowObservation};
use linerate_facts::protocol::Protocol;
use linerate_model::plan::{Plan, WorkerPlan};
use linerate_transport::agent::{
    AgentSession, LocalBinding, OpenRequest, StreamSocket, StreamTicket, TestSample,
};
use linerate_transport::flow::counters::WorkerCounters;
use linerate_transport::flow::progress::Mark;
use linerate_transport::flow::stream::{StreamRole, StreamSample, StreamSpec};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

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
    /// Opens a test in which the peers send; a ticket for each worker, in order, or why there is none.
    pub(super) fn open_senders(
        &mut self,
        workers: &[WorkerPlan],
        spec: &StreamSpec,
    ) -> Vec<Result<StreamTicket, String>> {
        let mut tickets: Vec<Result<StreamTicket, String>> =
            workers.iter().map(|_| Err("not opened".into())).collect();
        for (path, session) in self.sessions.iter().enumerate() {
            let mine: Vec<usize> = (0..workers.len()).filter(|index| workers[*index].path == path).collect();
            self.opened[path] = mine.len();
            if mine.is_empty() {
                continue;
            }
            let streams = vec![spec.clone(); mine.len()];
            match session.open(OpenRequest { streams, ..OpenRequest::default() }) {
                Ok(opened) => {
                    mine.iter().zip(opened.streams).for_each(|(index, ticket)| tickets[*index] = Ok(ticket));
                }
                Err(failure) => {
                    self.opened[path] = 0;
                    mine.iter().for_each(|index| tickets[*index] = Err(failure.to_string()));
                }
            }
        }
        tickets
    }

    /// This end of a stream that the peer sends.
    pub(super) fn connect_sender(
        &self,
        ticket: &StreamTicket,
        worker: &WorkerPlan,
        plan: &Plan,
        spec: &StreamSpec,
        stop: &AtomicBool,
    ) -> Result<TcpStream, String> {
        let own = StreamSpec { role: spec.role.other(), ..spec.clone() };
        let way = LocalBinding { local: Some(plan.paths[worker.path].local_socket()), device: None };
        let socket = self.sessions[worker.path].connect_stream_until(ticket, &own, way, stop);
        match socket.map_err(|failure| failure.to_string())? {
            StreamSocket::Tcp(stream) => Ok(stream),
            StreamSocket::Udp { .. } => Err("the agent answered with a stream of datagrams".into()),
        }
    }

    /// The longest of the paths' round trips, as the shortest answers of their agents show it, seconds.
    pub(super) fn round_trip_seconds(&self) -> f64 {
        let ping = |session: &AgentSession| {
            let begun = Instant::now();
            session.sample().ok().map(|_| begun.elapsed().as_secs_f64())
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
    first: Vec<Option<TestSample>>,
    last: Vec<Option<TestSample>>,
}

impl<'a> SenderMeter<'a> {
    pub(super) fn new(
        counters: Vec<Arc<WorkerCounters>>,
        peers: &'a Peers,
        workers: &'a [WorkerPlan],
    ) -> Self {
        SenderMeter { counters, peers, workers, first: Vec::new(), last: Vec::new() }
    }

    /// Why the streams ended while they were watched: an error in any case.
    pub(super) fn why_ended(&mut self) -> Result<(), String> {
        self.marks()?;
        let first = self.workers.first().and_then(|worker| self.peers.sessions.get(worker.path));
        let host = first.map_or("", |session| &session.hello().host);
        Err(format!(
            "the peer {host} ended its streams too early: was its agent stopped, or is its --time-limit short?"
        ))
    }

    /// What the peers reported between the first and the last marks.
    pub(super) fn far(self) -> FarSenders {
        let host = |session: &AgentSession| (session.hello().instance.clone(), session.hello().host.clone());
        let hosts = self.peers.sessions.iter().map(host).collect();
        FarSenders { first: self.first, last: self.last, workers: self.workers.to_vec(), hosts }
    }
}

impl Meter for SenderMeter<'_> {
    fn marks(&mut self) -> Result<Vec<Mark>, String> {
        let marks = self.counters.iter().map(|counters| counters.progress.mark()).collect();
        self.last = self.peers.samples()?;
        let failed = stream_samples(&self.last, self.workers).into_iter().zip(self.workers);
        if let Some((why, worker)) = failed.into_iter().find_map(|(stream, plan)| Some((stream.error?, plan)))
        {
            let host = &self.peers.sessions[worker.path].hello().host;
            return Err(format!("the peer {host}: {why}"));
        }
        Ok(marks)
    }

    fn boundary(&mut self) {
        if self.first.is_empty() {
            self.first = self.peers.samples().unwrap_or_default();
        }
    }
}

/// The streams of the plan's workers, in their order.
fn stream_samples(samples: &[Option<TestSample>], workers: &[WorkerPlan]) -> Vec<StreamSample> {
    samples_of(samples, workers, |sample| &sample.streams)
}

/// The senders' side of a measurement: samples at its begin and end, by path.
pub(super) struct FarSenders {
    first: Vec<Option<TestSample>>,
    last: Vec<Option<TestSample>>,
    workers: Vec<WorkerPlan>,
    hosts: Vec<(String, String)>,
}

impl FarSenders {
    /// Begin and end of each worker's stream.
    fn streams(&self) -> impl Iterator<Item = (StreamSample, StreamSample)> {
        let of = |samples: &[Option<TestSample>]| stream_samples(samples, &self.workers);
        of(&self.first).into_iter().zip(of(&self.last))
    }

    /// What TCP counted at the senders; nothing where nobody sent.
    pub(super) fn tcp(&self) -> Vec<TcpFigures> {
        let of = |(first, last): (StreamSample, StreamSample)| {
            let mut figures = TcpFigures::of_stream(&last);
            figures.leave_out(&TcpFigures::of_stream(&first));
            figures
        };
        if self.last.iter().all(Option::is_none) { Vec::new() } else { self.streams().map(of).collect() }
    }

    /// One result for all senders; with several hosts the one that its quota holds most.
    pub(super) fn result(&self, seen: &WindowObservation) -> Option<ReceiverResult> {
        let hosts = self.first.iter().zip(&self.last).zip(&self.hosts);
        let told = hosts.filter_map(|((first, last), (instance, host))| {
            Some((instance.as_str(), host.as_str(), first.as_ref()?, last.as_ref()?))
        });
        let mut result = ReceiverResult::of_hosts(told, seen.bytes)?;
        for (first, last) in self.streams() {
            let nanos = last.cpu_nanos.saturating_sub(first.cpu_nanos);
            let busy = nanos as f64 * 1e-9 / seen.seconds.max(1e-9);
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
        let far = FarSenders {
            first: Vec::new(),
            last: vec![Some(TestSample::default()), Some(TestSample::default())],
            workers: vec![worker(0), worker(1)],
            hosts: Vec::new(),
        };
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
