//! What all threads of an agent share.

use super::clients::Clients;
use super::host::InterfaceOf;
use super::key::Key;
use super::limits::AgentSettings;
use super::pending::PendingThreads;
use super::receivers::Receivers;
use super::tokens::Tokens;
use super::watched::Watched;
use crate::admission::Permits;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The key, the limits and what is in use of them.
pub(super) struct Shared {
    pub key: Key,
    pub receivers: Receivers,
    pub interface_of: InterfaceOf,
    /// Differs between any two starts.
    pub instance: String,
    pub settings: AgentSettings,
    pub tokens: Tokens,
    pub sessions: Arc<Permits>,
    pub tests: Arc<Permits>,
    pub clients: Arc<Clients>,
    pub streams: Arc<Permits>,
    pub watched: Watched,
    pub pending: Arc<PendingThreads>,
    pub stopping: AtomicBool,
}

impl Shared {
    /// The agent ends: every thread shall.
    pub(crate) fn stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}
