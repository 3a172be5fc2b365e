//! The running test of a session: its workers and streams, from their tokens to their last samples.

use super::clients::{Rate, Share, ShareRefusal};
use super::deal::deal;
use super::host::congestion_controls;
use super::protocol::{OpenRequest, OpenedStreams, SinkRequest, StreamTicket, WorkerTicket};
use super::secret::OneTimeToken;
use super::session_stream::{Receive, SessionStream, Work};
use super::shared::Shared;
use super::sink;
use super::stream_request::{self, StreamSpecError};
use super::udp;
use crate::admission::{NoPermit, Permit};
use crate::flow::receive::{Received, Terms, UDP_BUFFER_BYTES};
use crate::flow::sink::{SinkError, SinkStore};
use crate::flow::store;
use crate::flow::stream::{StreamCounters, StreamRole, StreamSample, StreamSpec};
use linerate_facts::protocol::Protocol;
use linerate_facts::sysroot::Sysroot;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use thiserror::Error;

/// Receivers that were asked to stop end by themselves within this; then their streams are cut.
const GENTLE_END: Duration = Duration::from_millis(700);
/// All threads have ended within this.
const END: Duration = Duration::from_millis(1700);
/// What TCP's buffer of a worker may grow to where nobody says (tcp(7): tcp_rmem), or may be asked for by the
/// client without being told so.
const TCP_WORKER_BYTES: u64 = 16 << 20;
/// What the receiving thread of a worker has besides: the blocks that it reads into, its stack.
const THREAD_BYTES: u64 = 2 << 20;
/// A worker under a rate limit has a buffer for so much of a second: more would only hide from the sender
/// that it must wait.
const HELD_SECONDS: f64 = 0.05;
const LEAST_HELD_BYTES: u64 = 128 << 10;

/// Whose test it is, and on which clock and address.
#[derive(Clone, Copy)]
pub(crate) struct TestOwner {
    /// Our end of the control connection, as the client knows it.
    pub local: SocketAddr,
    /// The client's address.
    pub client: IpAddr,
    /// When its session began.
    pub start: Instant,
}

/// Why a test, or one of its streams, cannot be.
#[derive(Debug, Error)]
pub(crate) enum TestRefusal {
    #[error("a test is running on this session; close it first")]
    Running,
    #[error("{wanted} streams were asked for; it takes 1 to {bound} in one test")]
    Count { wanted: usize, bound: usize },
    #[error("{bound} tests are running there already; wait until one has ended")]
    AllTests { bound: usize },
    #[error(
        "this client runs {own} of its {bound} tests already, which is the most for one; wait until one has \
         ended, or start the agent with a higher --tests"
    )]
    HalfOfTests { own: usize, bound: usize },
    #[error(transparent)]
    Spec(#[from] StreamSpecError),
    #[error(transparent)]
    Share(#[from] ShareRefusal),
    #[error("all its streams are taken; wait until another client has finished")]
    AllStreams,
    #[error(transparent)]
    Sink(#[from] SinkError),
    #[error("its kernel gives no random bytes: {0}")]
    NoRandom(io::Error),
    #[error("it has no thread for it: {0}")]
    NoThread(io::Error),
    #[error("no UDP socket for it there: {0}; too many open files? Raise `ulimit -n` there")]
    NoSocket(io::Error),
}

/// A test. Dropping it ends everything that it began.
pub(crate) struct AgentTest<'a> {
    shared: &'a Shared,
    whose: TestOwner,
    workers: Vec<Arc<SessionStream>>,
    /// A stream, or why there is none.
    streams: Vec<Result<Arc<SessionStream>, TestRefusal>>,
    began: Instant,
    _permit: Permit,
}

impl<'a> AgentTest<'a> {
    /// Gives every worker and stream its token. Workers: all or none, so that a run is not of fewer than were
    /// asked for unnoticed; a stream that cannot be is told with its reason, and the others go on.
    pub(crate) fn open(
        shared: &'a Shared,
        sysroot: &Sysroot,
        whose: TestOwner,
        request: OpenRequest,
    ) -> Result<(AgentTest<'a>, OpenedStreams), TestRefusal> {
        let bound = shared.settings.limits.streams;
        let wanted = request.workers.len() + request.streams.len();
        if !(1..=bound).contains(&wanted) {
            return Err(TestRefusal::Count { wanted, bound });
        }
        let permit = permit(shared, whose.client)?;
        let began = Instant::now();
        let mut trial =
            AgentTest { shared, whose, workers: Vec::new(), streams: Vec::new(), began, _permit: permit };
        let mut opened = OpenedStreams::default();
        let mut stores = sink::stores(shared.settings.sink.as_ref(), &request)?.into_iter();
        for worker in &request.workers {
            opened.workers.push(trial.open_worker(worker.protocol, &request, stores.next())?);
        }
        opened.streams = trial.open_streams(request.streams, sysroot);
        Ok((trial, opened))
    }

    /// A worker of a run: it is dealt no rate. Under a limit all workers of a client read by one pace, which
    /// makes their senders wait.
    fn open_worker(
        &mut self,
        protocol: Protocol,
        request: &OpenRequest,
        store: Option<SinkStore>,
    ) -> Result<WorkerTicket, TestRefusal> {
        let limit = self.shared.clients.limits().bytes_per_second;
        let buffer = worker_buffer(protocol, request.receive_buffer_bytes, limit, request.workers.len());
        let rate = limit.map_or(Rate::UNBOUND, |_| Rate::PACED);
        let blocks = if store.is_some() { store::BUFFER_BYTES } else { 0 };
        let socket = buffer.map_or(TCP_WORKER_BYTES, |bytes| bytes.saturating_mul(2));
        let share = self.share(socket.saturating_add(THREAD_BYTES + blocks), rate)?;
        let allow = self.shared.settings.allow.clone();
        let terms = Terms {
            verify: request.verify,
            buffer_bytes: buffer,
            pace: share.pace(),
            memory_bytes: 0,
            admits: Some(Arc::new(move |address| allow.admits(address))),
        };
        let received = Received::new(self.whose.start);
        let receive = Receive { protocol, receive_buffer_bytes: buffer, terms, received, store };
        let (stream, token, udp_port) = self.admit(Work::Receive(Box::new(receive)), share)?;
        if request.sink == Some(SinkRequest::WriteAlone) {
            sink::write_alone(&stream, self.shared.receivers.store).map_err(TestRefusal::NoThread)?;
        }
        self.workers.push(stream);
        Ok(WorkerTicket { token, udp_port })
    }

    /// What a stream takes of its client's share of this host.
    fn share(&self, memory_bytes: u64, rate: Rate) -> Result<Share, ShareRefusal> {
        self.shared.clients.take(self.whose.client, memory_bytes, rate)
    }

    fn open_streams(&mut self, specs: Vec<StreamSpec>, sysroot: &Sysroot) -> Vec<StreamTicket> {
        let controls = congestion_controls(sysroot);
        let checked: Vec<Result<(), StreamSpecError>> =
            specs.iter().map(|spec| stream_request::check(spec, &controls)).collect();
        let left = self.shared.clients.rate_left(self.whose.client).unwrap_or(f64::INFINITY);
        let wishes: Vec<f64> = specs
            .iter()
            .zip(&checked)
            .map(|(spec, checked)| checked.as_ref().map_or(0.0, |()| stream_request::rate(spec, left)))
            .collect();
        let dealt = deal(left, &wishes);
        let rates = wishes.into_iter().zip(dealt).map(|(wish, dealt)| Rate { wish, dealt });
        let tickets = specs.into_iter().zip(checked).zip(rates).map(|((spec, checked), rate)| match checked
            .map_err(TestRefusal::from)
            .and_then(|()| self.open_stream(spec, rate))
        {
            Ok((stream, ticket)) => {
                self.streams.push(Ok(stream));
                ticket
            }
            Err(why) => {
                let ticket = StreamTicket::Refused { why: why.to_string() };
                self.streams.push(Err(why));
                ticket
            }
        });
        tickets.collect()
    }

    fn open_stream(
        &self,
        mut spec: StreamSpec,
        rate: Rate,
    ) -> Result<(Arc<SessionStream>, StreamTicket), TestRefusal> {
        if !self.shared.settings.pin {
            spec.core = None;
        }
        let share = self.share(stream_request::memory_bytes(&spec), rate)?;
        // What was granted, which may be less than what was dealt: another session of the client may have
        // been faster.
        let bytes_per_second = share.bytes_per_second();
        if spec.role == StreamRole::Send {
            spec.bytes_per_second = bytes_per_second.or(spec.bytes_per_second);
        }
        let counters = Box::new(StreamCounters::new(self.whose.start));
        let (stream, token, udp_port) = self.admit(Work::Stream { spec: Box::new(spec), counters }, share)?;
        Ok((stream, StreamTicket::Granted { token, udp_port, bytes_per_second }))
    }

    /// Takes a permit for a data stream, and makes its token; over UDP also its socket and thread.
    fn admit(
        &self,
        work: Work,
        share: Share,
    ) -> Result<(Arc<SessionStream>, OneTimeToken, Option<u16>), TestRefusal> {
        let full = |_| TestRefusal::AllStreams;
        let permit = self.shared.streams.take(self.whose.client).map_err(full)?;
        let life = self.shared.settings.limits.token_life;
        let stream = SessionStream::new(work, self.whose.client, life, share, permit);
        let stream = Arc::new(stream.ending(self.began, self.shared.settings.limits.test_time));
        self.shared.watched.add(&stream);
        let token = OneTimeToken::random().map_err(TestRefusal::NoRandom)?;
        let udp_port = match stream.protocol() {
            Protocol::Tcp => {
                self.shared.tokens.issue(token.clone(), stream.clone());
                None
            }
            Protocol::Udp => {
                let started = udp::start(&stream, token.clone(), self.whose.local, self.shared);
                Some(started.map_err(TestRefusal::NoSocket)?)
            }
        };
        Ok((stream, token, udp_port))
    }

    /// It writes to the sink's disk.
    pub(crate) fn stores(&self) -> bool {
        let stores =
            |worker: &Arc<SessionStream>| matches!(&worker.work, Work::Receive(one) if one.store.is_some());
        self.workers.iter().any(stores)
    }

    /// Has the disk keep what the workers stored: they take no more.
    pub(crate) fn settle(&self) {
        self.workers.iter().for_each(|worker| worker.settle());
    }

    fn all(&self) -> impl Iterator<Item = &Arc<SessionStream>> {
        self.workers.iter().chain(self.streams.iter().flatten())
    }

    /// Datagrams go out of this host, to somebody who may be gone.
    pub(crate) fn sends_datagrams(&self) -> bool {
        self.streams.iter().flatten().any(|stream| match &stream.work {
            Work::Stream { spec, counters } => {
                spec.protocol == Protocol::Udp
                    && matches!(spec.role, StreamRole::Send | StreamRole::Ask)
                    && !counters.ended.load(std::sync::atomic::Ordering::Relaxed)
            }
            Work::Receive(_) => false,
        })
    }

    /// How far workers and streams are, each in the order of the request.
    pub(crate) fn samples(&self) -> (Vec<super::WorkerSample>, Vec<StreamSample>) {
        let workers = self.workers.iter().filter_map(|worker| match &worker.work {
            Work::Receive(receive) => Some(worker.sample(receive)),
            Work::Stream { .. } => None,
        });
        let streams = self.streams.iter().map(|stream| match stream {
            Ok(stream) => stream.stream_sample(),
            Err(why) => StreamSample { ended: true, error: Some(why.to_string()), ..StreamSample::default() },
        });
        (workers.collect(), streams.collect())
    }

    /// Takes back unused tokens, stops all threads, and cuts the streams of those that do not stop.
    pub(crate) fn end(&self) {
        let began = Instant::now();
        self.shared.tokens.withdraw(|stream| self.all().any(|ours| std::ptr::eq(&**ours, stream)));
        self.all().for_each(|stream| stream.stop());
        let all_ended = |deadline| self.all().all(|stream| stream.await_end(deadline));
        if !all_ended(began + GENTLE_END) {
            self.all().for_each(|stream| stream.cut());
            all_ended(began + END);
        }
    }
}

impl Drop for AgentTest<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

/// The right to one more test of this client.
pub(crate) fn permit(shared: &Shared, client: IpAddr) -> Result<Permit, TestRefusal> {
    shared.tests.take(client).map_err(|none| match none {
        NoPermit::AllTaken { bound } => TestRefusal::AllTests { bound },
        NoPermit::OriginHasHalf { own, bound } => TestRefusal::HalfOfTests { own, bound },
    })
}

/// What the receiver of a worker asks for as its socket's buffer, bytes; none: TCP's sizes itself. Never more
/// than the kernel's C int.
fn worker_buffer(protocol: Protocol, asked: Option<u64>, limit: Option<f64>, workers: usize) -> Option<u64> {
    const MOST: u64 = 1 << 30;
    let free = match protocol {
        Protocol::Tcp => asked,
        Protocol::Udp => Some(asked.unwrap_or(0).max(UDP_BUFFER_BYTES)),
    };
    let Some(limit) = limit else { return free.map(|bytes| bytes.min(MOST)) };
    let held = (limit / workers.max(1) as f64 * HELD_SECONDS) as u64;
    Some(free.unwrap_or(MOST).min(held.max(LEAST_HELD_BYTES)).min(MOST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buffer_of_a_worker_is_what_will_be_asked_for() {
        let buffer = worker_buffer;
        assert_eq!(buffer(Protocol::Tcp, None, None, 1), None);
        assert_eq!(buffer(Protocol::Tcp, Some(1 << 20), None, 1), Some(1 << 20));
        assert_eq!(buffer(Protocol::Udp, Some(1 << 20), None, 1), Some(UDP_BUFFER_BYTES));
        assert_eq!(buffer(Protocol::Udp, Some(u64::MAX), None, 1), Some(1 << 30));
        // 50 ms of a quarter of 8 Gb/s, and no less than a few trains.
        assert_eq!(buffer(Protocol::Udp, None, Some(1e9), 4), Some(12_500_000));
        assert_eq!(buffer(Protocol::Tcp, None, Some(1e6), 1), Some(LEAST_HELD_BYTES));
        assert_eq!(buffer(Protocol::Tcp, Some(4096), Some(1e9), 1), Some(4096));
    }
}
