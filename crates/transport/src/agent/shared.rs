//! What all threads of an agent share.

use super::clients::Clients;
use super::host::InterfaceOf;
use super::key::Key;
use super::limits::AgentSettings;
use super::pending::PendingThreads;
use super::receivers::Receivers;
use super::session_stream::SessionStream;
use super::tokens::OneTimeTokens;
use super::watched::Watched;
use crate::admission::Permits;
use linerate_system::stop::Stop;
use std::sync::Arc;

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
    pub watched: Watched,
    pub pending: Arc<PendingThreads>,
    /// The agent ends: every thread shall.
    pub stopping: Stop,
}
