//! What all threads of an agent share; among it the pending connections, each with a thread of its own, which
//! have shown neither key nor token yet.

use super::clients::Clients;
use super::host::AgentSettings;
use super::secret::{Key, OneTimeTokens, SECRET_BYTES, random, to_hex};
use super::session_stream::{SessionStream, WatchedStreams};
use crate::admission::{self, Permits, SharedPending};
use linerate_system::lock;
use linerate_system::stop::Stop;
use std::io;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::{Arc, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often all streams are looked after: what a client moves beyond its rate before that is noticed is what it can
/// move in this time.
pub(super) const TICK: Duration = Duration::from_millis(100);

/// All tests together may have so many times the streams of one.
const STREAMS_OF_ALL: usize = 4;

/// The key, the limits and what is in use of them.
pub(super) struct Shared {
    pub key: Key,
    /// Differs between any two starts.
    pub instance: String,
    pub settings: AgentSettings,
    pub tokens: OneTimeTokens<Arc<SessionStream>>,
    pub sessions: Arc<Permits>,
    pub tests: Arc<Permits>,
    pub clients: Arc<Clients>,
    pub streams: Arc<Permits>,
    pub watched: WatchedStreams,
    pub pending: Arc<PendingThreads>,
    /// Each session that takes of the CPUs has a copy.
    pub taking: Arc<()>,
    /// The agent ends: every thread shall.
    pub stopping: Stop,
}

impl Shared {
    /// Nobody is here yet.
    pub(super) fn new(key: Key, settings: AgentSettings) -> io::Result<Self> {
        let limits = settings.limits;
        Ok(Shared {
            key,
            instance: to_hex(&random::<8>()?),
            settings,
            tokens: OneTimeTokens::default(),
            sessions: Permits::shared(limits.sessions),
            tests: Permits::shared(limits.tests),
            clients: Clients::new(limits.client),
            // What one client takes of them is bounded by `ClientLimits::streams`.
            streams: Permits::open(limits.streams.saturating_mul(STREAMS_OF_ALL)),
            watched: WatchedStreams::default(),
            pending: Arc::new(PendingThreads::new(limits.unknown_connections, limits.admission)),
            taking: Arc::default(),
            stopping: Stop::new(),
        })
    }

    /// The stream that a connection may be which shows this token, once and in time.
    pub(super) fn claim(&self, token: &[u8; SECRET_BYTES]) -> Option<Arc<SessionStream>> {
        #[cfg(test)]
        planted!(TokenForEver, return self.tokens.claim(token));
        self.tokens.claim(token).filter(|stream| stream.is_awaited())
    }

    /// Looks after every stream, whether or not its client says anything: tokens that nobody used, time that is up, rates
    /// that are not kept.
    pub(super) fn look_after(&self, now: Instant) {
        // All are charged before one is judged: its client's other streams count.
        self.watched.each(|stream| stream.charge(now));
        self.watched.each(|stream| {
            stream.expire();
            stream.hold_to_time(now);
            stream.hold_to_share(now);
        });
        self.tokens.withdraw(|stream| !stream.is_awaited());
        self.clients.forget(now);
    }
}

/// Connections that have shown neither key nor token yet. Their number, and that of their threads, is bounded.
pub(crate) struct PendingThreads {
    list: SharedPending<Arc<PendingThread>>,
    /// Threads whose connection has ended by itself: they end at once, but on a busy machine they are there for a while.
    ending: Mutex<Vec<Arc<PendingThread>>>,
}

struct PendingThread {
    /// Its thread has it.
    stream: Weak<TcpStream>,
    /// None: it has not begun, or goes on with a connection that was admitted.
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// A connection's entry in the list; it is taken out when this is dropped.
pub(crate) struct PendingEntry {
    threads: Arc<PendingThreads>,
    entry: admission::PendingEntry<Arc<PendingThread>>,
}

impl PendingThreads {
    /// At most `bound` connections, each for `patience`.
    pub(crate) fn new(bound: usize, patience: Duration) -> Self {
        PendingThreads { list: SharedPending::new(bound, patience), ending: Mutex::default() }
    }

    /// Adds a connection, for which room is made, and serves it on a thread of its own.
    pub(crate) fn accept(
        self: &Arc<Self>,
        stream: TcpStream,
        address: IpAddr,
        serve: impl FnOnce(Arc<TcpStream>, PendingEntry) + Send + 'static,
    ) -> io::Result<()> {
        self.join_ending();
        let stream = Arc::new(stream);
        let pending = Arc::new(PendingThread { stream: Arc::downgrade(&stream), thread: Mutex::default() });
        let (entry, crowded_out) = self.list.add(address, pending.clone());
        if let Some(crowded_out) = crowded_out {
            tracing::warn!(%address, "a pending connection is crowded out: too many at once");
            crowded_out.end();
        }
        let entry = PendingEntry { threads: self.clone(), entry };
        // Held until the handle is there: who ends the thread waits for that.
        let mut thread = lock(&pending.thread);
        let begin = std::thread::Builder::new().name("pending".into());
        *thread = Some(begin.spawn(move || serve(stream, entry))?);
        Ok(())
    }

    /// Ends all of them.
    pub(crate) fn clear(&self) {
        self.list.take_all().iter().for_each(|pending| pending.end());
        self.join_ending();
    }

    /// Waits for the threads of those that ended: so the bound holds for threads, however fast connections come and go.
    fn join_ending(&self) {
        let ending = std::mem::take(&mut *lock(&self.ending));
        ending.iter().for_each(|pending| pending.join());
    }

    /// How many are pending.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }
}

impl PendingThread {
    /// Closes the connection and waits for its thread, which wakes at once: so the bound holds for threads, too.
    fn end(&self) {
        let _ = self.stream.upgrade().map(|stream| stream.shutdown(Shutdown::Both));
        self.join();
    }

    fn join(&self) {
        let thread = lock(&self.thread).take();
        let _ = thread.map(JoinHandle::join);
    }
}

impl PendingEntry {
    /// Until when key or token must be shown.
    pub(crate) fn deadline(&self) -> Instant {
        self.entry.deadline
    }

    /// Leaves the list because key or token were right. False: it was crowded out before, and must not go on.
    pub(crate) fn admit(self) -> bool {
        self.entry.take().is_some()
    }
}

impl Drop for PendingEntry {
    fn drop(&mut self) {
        lock(&self.threads.ending).extend(self.entry.take());
    }
}
