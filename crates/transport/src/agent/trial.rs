//! The running test of a session: its streams, from their tokens to their last samples.

use super::clients::{Rate, Share, ShareRefusal, deal};
use super::data_streams;
use super::host::{self, congestion_controls};
use super::network_stream::{self, StreamSpecError, worker_buffer};
use super::protocol::{OpenRequest, SinkRequest, StreamTicket};
use super::secret::OneTimeToken;
use super::session_stream::SessionStream;
use super::shared::Shared;
use crate::admission::{NoPermit, Permit};
use crate::flow::sink::{SinkError, SinkStore};
use crate::flow::store;
use crate::flow::stream::{StreamCounters, StreamRole, StreamSample, StreamSpec};
use linerate_facts::counters::parse_process_stat;
use linerate_facts::protocol::Protocol;
use linerate_facts::sysroot::Sysroot;
use linerate_system::clock;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use thiserror::Error;

/// Receivers that were asked to stop end by themselves within this; then their streams are cut.
const GENTLE_END: Duration = Duration::from_millis(700);
/// All threads have ended within this.
const END: Duration = Duration::from_millis(1700);
/// Of more streams the first stand for all where they are asked for their CPUs.
const MOST_THREADS: usize = 64;
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
         ended"
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
    /// A stream, or why there is none.
    streams: Vec<Result<Arc<SessionStream>, TestRefusal>>,
    began: Instant,
    _permit: Permit,
}

impl<'a> AgentTest<'a> {
    /// Gives every stream its token; one that cannot be is reported with its reason, and the others go on.
    pub(crate) fn open(
        shared: &'a Shared,
        sysroot: &Sysroot,
        whose: TestOwner,
        request: OpenRequest,
    ) -> Result<(AgentTest<'a>, Vec<StreamTicket>), TestRefusal> {
        let (wanted, bound) = (request.streams.len(), shared.settings.limits.streams);
        if !(1..=bound).contains(&wanted) {
            return Err(TestRefusal::Count { wanted, bound });
        }
        let permit = permit(shared, whose.client)?;
        let began = clock::now();
        let stores = host::stores_for(shared.settings.sink.as_ref(), &request)?;
        let mut trial = AgentTest { shared, whose, streams: Vec::new(), began, _permit: permit };
        let tickets = trial.open_streams(request, stores, sysroot);
        Ok((trial, tickets))
    }

    /// What a stream takes of its client's share of this host.
    fn share(&self, memory_bytes: u64, rate: Rate) -> Result<Share, ShareRefusal> {
        self.shared.clients.take(self.whose.client, memory_bytes, rate)
    }

    fn open_streams(
        &mut self,
        request: OpenRequest,
        stores: Vec<SinkStore>,
        sysroot: &Sysroot,
    ) -> Vec<StreamTicket> {
        let (controls, mut stores) = (congestion_controls(sysroot), stores.into_iter());
        let writes_alone = request.sink == Some(SinkRequest::WriteAlone);
        let specs = self.with_buffers(request.streams);
        let checked: Vec<Result<(), StreamSpecError>> =
            specs.iter().map(|spec| network_stream::check_stream(spec, &controls)).collect();
        let left = self.shared.clients.rate_left(self.whose.client).unwrap_or(f64::INFINITY);
        let wishes: Vec<f64> = specs
            .iter()
            .zip(&checked)
            .map(|(spec, checked)| {
                checked.as_ref().map_or(0.0, |()| network_stream::rate_of_stream(spec, left))
            })
            .collect();
        let dealt = deal(left, &wishes);
        let rates = wishes.into_iter().zip(dealt).map(|(wish, dealt)| Rate { wish, dealt });
        let tickets = specs.into_iter().zip(checked).zip(rates).map(|((spec, checked), rate)| {
            let store = if spec.role == StreamRole::Worker { stores.next() } else { None };
            let opened = checked
                .map_err(TestRefusal::from)
                .and_then(|()| self.open_stream(spec, rate, store, writes_alone));
            match opened {
                Ok((stream, ticket)) => {
                    self.streams.push(Ok(stream));
                    ticket
                }
                Err(why) => {
                    let ticket = StreamTicket::Refused { why: why.to_string() };
                    self.streams.push(Err(why));
                    ticket
                }
            }
        });
        tickets.collect()
    }

    /// Workers share their buffers' room under a rate limit.
    fn with_buffers(&self, mut specs: Vec<StreamSpec>) -> Vec<StreamSpec> {
        let limit = self.shared.clients.limits().bytes_per_second;
        let is_worker = |spec: &StreamSpec| spec.role == StreamRole::Worker;
        let count = specs.iter().filter(|spec| is_worker(spec)).count();
        for spec in specs.iter_mut().filter(|spec| is_worker(spec)) {
            let asked = spec.receive_buffer_bytes;
            spec.receive_buffer_bytes = worker_buffer(spec.protocol, asked, limit, count);
        }
        specs
    }

    fn open_stream(
        &self,
        mut spec: StreamSpec,
        rate: Rate,
        store: Option<SinkStore>,
        writes_alone: bool,
    ) -> Result<(Arc<SessionStream>, StreamTicket), TestRefusal> {
        let blocks = if store.is_some() { store::BUFFER_BYTES } else { 0 };
        let share = self.share(network_stream::memory_of_stream(&spec) + blocks, rate)?;
        // What was granted, which may be less than what was dealt: another session of the client may have
        // been faster. Workers are dealt none.
        let bytes_per_second = share.bytes_per_second().filter(|_| spec.role != StreamRole::Worker);
        if spec.role == StreamRole::Send {
            spec.bytes_per_second = bytes_per_second.or(spec.bytes_per_second);
        }
        let (stream, token, udp_port) = self.admit(spec, store, share)?;
        if writes_alone {
            let store = self.shared.settings.receivers.store;
            let written = host::write_alone(&stream, store, &self.shared.settings.allow);
            written.map_err(TestRefusal::NoThread)?;
        }
        Ok((stream, StreamTicket::Granted { token, udp_port, bytes_per_second }))
    }

    /// Takes a permit for a data stream, and makes its token; over UDP also its socket and thread.
    fn admit(
        &self,
        spec: StreamSpec,
        store: Option<SinkStore>,
        share: Share,
    ) -> Result<(Arc<SessionStream>, OneTimeToken, Option<u16>), TestRefusal> {
        let full = |_| TestRefusal::AllStreams;
        let permit = self.shared.streams.take(self.whose.client).map_err(full)?;
        let limits = self.shared.settings.limits;
        let counters = StreamCounters::new(self.whose.start);
        let whose = (self.whose.client, limits.token_life);
        let stream = SessionStream::new(spec, counters, whose, share, permit);
        let mut stream = stream.ending(self.began, limits.test_time);
        stream.store = store;
        let stream = Arc::new(stream);
        self.shared.watched.add(&stream);
        let token = OneTimeToken::random().map_err(TestRefusal::NoRandom)?;
        let udp_port = match stream.spec.protocol {
            Protocol::Tcp => {
                self.shared.tokens.issue(token.clone(), stream.clone());
                None
            }
            Protocol::Udp => {
                let started = data_streams::start_udp(&stream, token.clone(), self.whose.local, self.shared);
                Some(started.map_err(TestRefusal::NoSocket)?)
            }
        };
        Ok((stream, token, udp_port))
    }

    /// The CPU that each of its streams was last on, and the CPU time that it has had, nanoseconds.
    pub(crate) fn cpus(&self, sysroot: &Sysroot) -> Vec<(u32, u64)> {
        let cpu = |stream: &Arc<SessionStream>| {
            let stat = sysroot.text(format!("/proc/self/task/{}/stat", stream.thread()?)).ok()?;
            Some((parse_process_stat(&stat)?.last_cpu?, stream.counters.cpu_nanos.load(Ordering::Relaxed)))
        };
        self.all().take(MOST_THREADS).filter_map(cpu).collect()
    }

    /// It writes to the sink's disk.
    pub(crate) fn stores(&self) -> bool {
        self.all().any(|stream| stream.store.is_some())
    }

    /// Has the disk keep what the workers stored: they take no more.
    pub(crate) fn settle(&self) {
        self.all().for_each(|stream| stream.settle());
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<SessionStream>> {
        self.streams.iter().flatten()
    }

    /// Datagrams go out of this host, to somebody who may be gone.
    pub(crate) fn sends_datagrams(&self) -> bool {
        self.all().any(|stream| {
            stream.spec.protocol == Protocol::Udp
                && matches!(stream.spec.role, StreamRole::Send | StreamRole::Ask)
                && !stream.counters.ended.load(Ordering::Relaxed)
        })
    }

    /// How far the streams are, in the order of the request.
    pub(crate) fn samples(&self) -> Vec<StreamSample> {
        let sample = |stream: &Result<Arc<SessionStream>, TestRefusal>| match stream {
            Ok(stream) => stream.sample(),
            Err(why) => StreamSample { ended: true, error: Some(why.to_string()), ..StreamSample::default() },
        };
        self.streams.iter().map(sample).collect()
    }

    /// Takes back unused tokens, stops all threads, and cuts the streams of those that do not stop.
    pub(crate) fn end(&self) {
        let began = clock::now();
        self.shared.tokens.withdraw(|stream| self.all().any(|ours| Arc::ptr_eq(ours, stream)));
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
