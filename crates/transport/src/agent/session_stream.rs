//! One data stream of a test: what an agent does with it once it is admitted, what its thread does and counts, its life,
//! and how it is ended from outside.

use super::allow::AllowList;
use super::clients::{AHEAD, AHEAD_FACTOR, Share};
use crate::admission::Permit;
use crate::flow::rate_limit::Allowance;
use crate::flow::receive::{Terms, receive_tcp};
use crate::flow::sink::SinkStore;
use crate::flow::store::{StoreFile, store};
use crate::flow::stream as engine;
use crate::flow::stream::{Content, StreamCounters, StreamRole, StreamSample, StreamSocket, StreamSpec};
use crate::flow::udp_receive::receive_udp;
use linerate_system::stop::Stop;
use linerate_system::{affinity, clock, lock};
use std::io;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// A data stream of a session, from its ticket to its last byte.
pub(crate) struct SessionStream {
    /// What its thread does.
    pub spec: StreamSpec,
    pub counters: StreamCounters,
    /// Where a worker's bytes go; none: nowhere.
    pub store: Option<SinkStore>,
    /// The client's address, as its control connection proved it.
    pub client: IpAddr,
    /// The ticket is not taken after this moment.
    expires: Instant,
    stop: Stop,
    /// Of the thread that works for it; 0: none yet.
    thread: AtomicU32,
    life: Mutex<Life>,
    changed: Condvar,
    /// What it takes from its client's share of this host.
    share: Share,
    /// What it moved, against the rate that it was dealt.
    allowance: Option<Allowance>,
    /// Bytes that its client was charged for.
    charged: AtomicU64,
    /// When its test must end, and how long that is, seconds.
    deadline: Option<(Instant, f64)>,
    _permit: Permit,
}

struct Life {
    phase: Phase,
    /// The stream in its thread's hands, to cut it.
    stream: Option<TcpStream>,
    /// UDP: somebody showed the token.
    met: bool,
    error: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The ticket is out.
    Waiting,
    /// A thread receives.
    Running,
    /// Nothing more will come.
    Finished,
}

/// Ends the worker when its thread does, whether by a panic.
struct Finish<'a>(&'a SessionStream);

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        let error = std::thread::panicking()
            .then(|| "its thread failed (a defect of linerate: please report it)".into());
        self.0.finish(error);
    }
}

impl SessionStream {
    /// A data stream whose ticket is good for `life`.
    pub(crate) fn new(
        spec: StreamSpec,
        counters: StreamCounters,
        (client, life): (IpAddr, Duration),
        share: Share,
        permit: Permit,
    ) -> Self {
        let fresh = Life { phase: Phase::Waiting, stream: None, met: false, error: None };
        SessionStream {
            spec,
            counters,
            store: None,
            client,
            expires: clock::now() + life,
            stop: Stop::new(),
            thread: AtomicU32::new(0),
            life: Mutex::new(fresh),
            changed: Condvar::new(),
            // Workers are dealt no rate: they share their client's pace.
            allowance: share
                .bytes_per_second()
                .filter(|rate| *rate > 0.0)
                .map(|rate| Allowance::new(rate * AHEAD_FACTOR, clock::now())),
            charged: AtomicU64::new(0),
            deadline: None,
            share,
            _permit: permit,
        }
    }

    /// The same, ended after `time` of a test that began then.
    pub(crate) fn ending(mut self, began: Instant, time: Option<Duration>) -> Self {
        self.deadline = time.and_then(|time| Some((began.checked_add(time)?, time.as_secs_f64())));
        self
    }

    /// It takes what a worker sends.
    pub(crate) fn is_worker(&self) -> bool {
        self.spec.role == StreamRole::Worker
    }

    /// On what terms a worker's bytes are taken. Under a limit all workers of a client read by one pace, which makes their
    /// senders wait.
    pub(crate) fn terms(&self, allow: &AllowList) -> Terms {
        let allow = allow.clone();
        Terms {
            verify: self.spec.verify,
            buffer_bytes: self.spec.receive_buffer_bytes,
            pace: self.share.pace(),
            memory_bytes: 0,
            admits: Some(Arc::new(move |address| allow.admits(address))),
        }
    }

    /// Does what it is for with its socket, on the calling thread.
    pub(crate) fn work(
        &self,
        socket: StreamSocket,
        receivers: Receivers,
        allow: &AllowList,
        stop: &Stop,
    ) -> io::Result<()> {
        let (counters, terms) = (&self.counters, || self.terms(allow));
        match (socket, &self.store) {
            (StreamSocket::Tcp(stream), Some(store)) => {
                (receivers.store)(Some(stream), store.file(), &terms(), counters, stop)
            }
            (socket, _) if self.is_worker() => (receivers.worker)(socket, &terms(), counters, stop),
            (socket, _) => (receivers.stream)(&self.spec, socket, counters, stop),
        }
    }

    /// Nobody has come for it before, and it has not ended. `stream`: a handle to cut it by.
    pub(crate) fn begins(&self, stream: Option<TcpStream>) -> bool {
        let mut life = lock(&self.life);
        let is_first = life.phase == Phase::Waiting;
        if is_first {
            *life = Life { phase: Phase::Running, met: stream.is_some(), stream, error: life.error.take() };
        }
        is_first
    }

    /// Works on the calling thread until the stream ends or is stopped. `stream`: a handle to cut it by.
    pub(crate) fn run(&self, stream: Option<TcpStream>, work: impl FnOnce(&Stop) -> io::Result<()>) {
        if !self.begins(stream) {
            return;
        }
        self.thread.store(affinity::thread_number(), Ordering::Relaxed);
        let _finish = Finish(self);
        // After `stop` an error is only the way in which the thread was ended.
        if let Err(error) = work(&self.stop)
            && !self.stop.is_ended()
        {
            self.finish(Some(error.to_string()));
        }
    }

    /// UDP: somebody showed the token.
    pub(crate) fn met(&self) {
        lock(&self.life).met = true;
    }

    /// No more will come; the first reason stays.
    pub(crate) fn finish(&self, error: Option<String>) {
        let mut life = lock(&self.life);
        life.phase = Phase::Finished;
        life.stream = None;
        life.error = life.error.take().or(error);
        self.counters.ended.store(true, Ordering::Release);
        self.changed.notify_all();
    }

    /// Its token may still be used.
    pub(crate) fn is_awaited(&self) -> bool {
        clock::now() < self.expires
    }

    /// Ends a stream whose ticket nobody used in time.
    pub(crate) fn expire(&self) {
        if self.is_awaited() {
            return;
        }
        #[cfg(test)]
        planted!(UnusedStays, return);
        let unused = "its token was not used in time";
        let life = lock(&self.life);
        match life.phase {
            Phase::Waiting => {
                drop(life);
                self.finish(Some(unused.into()));
            }
            // A UDP thread runs from the start; that it admitted somebody shows in its counters.
            Phase::Running if !life.met && self.untouched() => {
                drop(life);
                self.end(unused);
            }
            _ => {}
        }
    }

    fn untouched(&self) -> bool {
        self.counters.datagrams.load(Ordering::Relaxed) == 0 && self.moved_bytes() == 0
    }

    fn moved_bytes(&self) -> u64 {
        self.counters.progress.mark().bytes
    }

    /// Charges its client, and itself, for what it moved since it was last done. Several may call it at once:
    /// each byte is charged once.
    pub(crate) fn charge(&self, now: Instant) {
        let moved = self.moved_bytes();
        let bytes = moved.saturating_sub(self.charged.fetch_max(moved, Ordering::AcqRel));
        if bytes > 0 {
            self.share.charge(bytes, self.is_worker(), now);
            if let Some(allowance) = &self.allowance {
                allowance.charge(bytes, now);
            }
        }
    }

    /// Has it end for a reason of our own, which its sample tells.
    pub(crate) fn end(&self, why: &str) {
        let mut life = lock(&self.life);
        if life.phase != Phase::Finished {
            life.error.get_or_insert_with(|| why.into());
            drop(life);
            self.stop();
        }
    }

    /// Ends a stream that moves more than its share, and one that is ahead of it while its client as a whole
    /// is over the limit: that is who opens and closes streams in turn.
    pub(crate) fn hold_to_share(&self, now: Instant) {
        let Some(allowance) = &self.allowance else { return };
        let debt = allowance.debt(now);
        if debt > AHEAD || (!debt.is_zero() && self.share.client_is_over(now)) {
            self.end(&format!(
                "it moved more than the {} that the agent allows it; start it there with a higher \
                 --rate-limit",
                linerate_facts::units::show_bits_rate(allowance.bytes_per_second() / AHEAD_FACTOR)
            ));
        }
    }

    /// Ends a stream whose test takes too long.
    pub(crate) fn hold_to_time(&self, now: Instant) {
        if let Some((_, seconds)) = self.deadline.filter(|(deadline, _)| now >= *deadline) {
            self.end(&format!(
                "the test took longer than the {seconds} s that the agent allows; start it there with a \
                 higher --time-limit"
            ));
        }
    }

    /// Asks the thread to end; a worker that nobody came to ends at once.
    pub(crate) fn stop(&self) {
        self.stop.end();
        if lock(&self.life).phase == Phase::Waiting {
            self.finish(None);
        }
    }

    /// Where it stores: no more is taken, and the disk keeps what came; one that nobody came to ends at once.
    pub(crate) fn settle(&self) {
        let Some(store) = &self.store else { return };
        store.settle();
        if lock(&self.life).phase == Phase::Waiting {
            self.finish(None);
        }
    }

    #[cfg(test)]
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.is_ended()
    }

    /// Cuts the stream under a receiver that does not look at `stop`.
    pub(crate) fn cut(&self) {
        if let Some(stream) = &lock(&self.life).stream {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// The number of the thread that works for it; none where nothing does.
    pub(crate) fn thread(&self) -> Option<u32> {
        let thread = self.thread.load(Ordering::Relaxed);
        (lock(&self.life).phase == Phase::Running && thread > 0).then_some(thread)
    }

    /// Waits for the end of its thread, at most until `deadline`.
    pub(crate) fn await_end(&self, deadline: Instant) -> bool {
        let life = lock(&self.life);
        let left = deadline.saturating_duration_since(clock::now());
        let waited = self.changed.wait_timeout_while(life, left, |life| life.phase != Phase::Finished);
        waited.unwrap_or_else(PoisonError::into_inner).0.phase == Phase::Finished
    }

    /// Whether its thread is done, and why. Asked before its figures, which are final then; an end without its error
    /// would be a good one.
    fn end_of_life(&self) -> (bool, Option<String>) {
        let life = lock(&self.life);
        (life.phase == Phase::Finished, life.error.clone())
    }

    /// How far it is.
    pub(crate) fn sample(&self) -> StreamSample {
        let (ended, error) = self.end_of_life();
        StreamSample { ended, error, ..self.counters.sample() }
    }
}

impl Drop for SessionStream {
    /// What it moved since somebody last looked stays on its client's account.
    fn drop(&mut self) {
        self.charge(clock::now());
    }
}

/// The streams to look after: all that an agent has given a ticket for.
#[derive(Default)]
pub(crate) struct WatchedStreams(Mutex<Vec<Weak<SessionStream>>>);

impl WatchedStreams {
    /// One more; it leaves by itself.
    pub(crate) fn add(&self, stream: &Arc<SessionStream>) {
        lock(&self.0).push(Arc::downgrade(stream));
    }

    /// None is left.
    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.0).iter().all(|stream| stream.strong_count() == 0)
    }

    /// Each in turn, and held no longer than it is looked at: who holds the last of a stream keeps its place
    /// from the next one.
    pub(crate) fn each(&self, look: impl Fn(&SessionStream)) {
        let mut watched = lock(&self.0);
        watched.retain(|stream| stream.strong_count() > 0);
        let streams = watched.clone();
        drop(watched);
        streams.iter().filter_map(Weak::upgrade).for_each(|stream| look(&stream));
    }
}

/// A receiver that stores.
pub type StoreReceiver = fn(Option<TcpStream>, &StoreFile, &Terms, &StreamCounters, &Stop) -> io::Result<()>;

/// What to do with a data stream; the default is what `flow` does. Each gets its counters and its stop last.
#[derive(Clone, Copy)]
pub struct Receivers {
    /// Takes what a worker sends: an admitted TCP stream until its end, or the datagrams of whoever shows the token.
    pub worker: fn(StreamSocket, &Terms, &StreamCounters, &Stop) -> io::Result<()>,
    /// Stores a TCP stream, or blocks of its own, in a file until its end, or until the file settles.
    pub store: StoreReceiver,
    /// This end of any other admitted stream.
    pub stream: fn(&StreamSpec, StreamSocket, &StreamCounters, &Stop) -> io::Result<()>,
}

impl Default for Receivers {
    fn default() -> Self {
        Receivers { worker: receive_from_worker, store, stream: receive_stream }
    }
}

fn receive_from_worker(
    socket: StreamSocket,
    terms: &Terms,
    counters: &StreamCounters,
    stop: &Stop,
) -> io::Result<()> {
    match socket {
        StreamSocket::Tcp(stream) => receive_tcp(stream, terms, counters, stop),
        StreamSocket::Udp { socket, token } => receive_udp(socket, &token, terms, counters, stop),
    }
}

/// An agent sends what it makes in memory: never a file of its host.
fn receive_stream(
    spec: &StreamSpec,
    socket: StreamSocket,
    counters: &StreamCounters,
    stop: &Stop,
) -> io::Result<()> {
    if let Some(core) = spec.core {
        // A core that is not there, or not ours: run anywhere rather than not at all.
        let _ = linerate_system::affinity::pin_within_allowed(core);
    }
    engine::run(spec, socket, Content::Memory, counters, stop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::stream::StreamRole;
    use linerate_facts::protocol::Protocol;
    use linerate_system::affinity;
    use std::net::TcpListener;
    use std::time::Instant;

    fn cpus_of_this_thread() -> String {
        let status = std::fs::read_to_string("/proc/thread-self/status").expect("its status");
        let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        line.expect("the line").trim().to_string()
    }

    /// A client asks for a CPU by its own view of the machine.
    #[test]
    fn a_stream_stays_on_the_cpus_that_the_agent_was_given() {
        let allowed = cpus_of_this_thread();
        let ends = allowed.split([',', '-']).map(|end| end.parse().expect("a number"));
        let (first, other): (u32, u32) = (ends.clone().min().expect("one"), ends.max().expect("one"));
        if first == other {
            eprintln!("skipped: one CPU alone");
            return;
        }
        affinity::pin_to(first).expect("pinned");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        drop(TcpStream::connect(listener.local_addr().expect("an address")).expect("connected"));
        let (socket, _) = listener.accept().expect("accepted");
        let spec = StreamSpec { core: Some(other), ..StreamSpec::new(Protocol::Tcp, StreamRole::Receive) };
        let counters = StreamCounters::new(Instant::now());
        let stop = Stop::new();
        receive_stream(&spec, StreamSocket::Tcp(socket), &counters, &stop).expect("it ends with its sender");
        assert_eq!(cpus_of_this_thread(), first.to_string());
    }
}
