//! What all threads of an agent share.

use super::clients::Clients;
use super::host::InterfaceOf;
use super::key::Key;
use super::limits::AgentSettings;
use super::pending::PendingThreads;
use super::receivers::Receivers;
use super::secret::{SECRET_BYTES, random, to_hex};
use super::session_stream::{SessionStream, WatchedStreams};
use super::tokens::OneTimeTokens;
use crate::admission::Permits;
use linerate_system::stop::Stop;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often all streams are looked after: what a client moves beyond its rate before that is noticed is what it can
/// move in this time.
pub(super) const TICK: Duration = Duration::from_millis(100);

/// All tests together may have so many times the streams of one.
const STREAMS_OF_ALL: usize = 4;

/// The key, the limits and what is in use of them.
pub(super) struct Shared {
    pub key: Key,
    pub receivers: Receivers,
    pub interface_of: InterfaceOf,
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
    pub(super) fn new(
        key: Key,
        receivers: Receivers,
        interface_of: InterfaceOf,
        settings: AgentSettings,
    ) -> io::Result<Self> {
        let limits = settings.limits;
        Ok(Shared {
            key,
            receivers,
            interface_of,
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
