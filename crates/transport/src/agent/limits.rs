//! Bounds on everything that comes from outside, and who may come at all.

use super::allow::AllowList;
use super::clients::ClientLimits;
use crate::admission::{PENDING_CONNECTIONS, TIME_TO_PROVE};
use crate::flow::sink::SinkFolder;
use std::sync::Arc;
use std::time::Duration;

/// How an agent behaves beyond its defaults.
#[derive(Clone, Debug)]
pub struct AgentSettings {
    pub limits: AgentLimits,
    /// Who may connect; empty: everybody (and show the key).
    pub allow: AllowList,
    /// Where bytes that a client sends may be stored; none: nothing is.
    pub sink: Option<Arc<SinkFolder>>,
    /// A client's experiment may take a little of the CPUs that receive from it.
    pub experiments: bool,
}

impl Default for AgentSettings {
    fn default() -> Self {
        AgentLimits::default().into()
    }
}

impl From<AgentLimits> for AgentSettings {
    fn from(limits: AgentLimits) -> Self {
        AgentSettings { limits, allow: AllowList::default(), sink: None, experiments: true }
    }
}

/// Bounds on everything that comes from outside.
#[derive(Clone, Copy, Debug)]
pub struct AgentLimits {
    /// Connections that have shown neither key nor token.
    pub unknown_connections: usize,
    /// Time that such a connection has to show one.
    pub admission: Duration,
    /// Control connections at once; one client has half of them at most.
    pub sessions: usize,
    /// Tests at once; each session has one at most, and one client half of all.
    pub tests: usize,
    /// Data streams of one test. All tests together may have four times as many.
    pub streams: usize,
    /// Time in which a token must be used.
    pub token_life: Duration,
    /// Time between two requests after which a session is dropped.
    pub idle: Duration,
    /// The same while the agent sends datagrams: nobody may be there any more to take them.
    pub idle_sending: Duration,
    /// Length of one test; none: as long as the client likes.
    pub test_time: Option<Duration>,
    /// What one client may take.
    pub client: ClientLimits,
}

impl Default for AgentLimits {
    fn default() -> Self {
        AgentLimits {
            unknown_connections: PENDING_CONNECTIONS,
            admission: TIME_TO_PROVE,
            sessions: 128,
            tests: 64,
            streams: 256,
            token_life: Duration::from_secs(10),
            idle: Duration::from_secs(60),
            idle_sending: Duration::from_secs(10),
            test_time: None,
            client: ClientLimits::default(),
        }
    }
}
