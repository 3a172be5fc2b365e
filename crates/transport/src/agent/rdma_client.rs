//! The client's side of a test by RDMA: the agent starts perftest's server, and says how that ended.

use super::client::AgentSession;
use super::protocol::{AgentRequest, RdmaReady, Reply};
use crate::perftest::PerftestSpec;
use linerate_facts::failure::Failure;
use std::time::Duration;

/// The agent gives a server four seconds to be ready.
const START: Duration = Duration::from_secs(7);
/// It waits two for the server's end.
const END: Duration = Duration::from_secs(5);

impl AgentSession {
    /// Has perftest's server started on the device that has the peer's address of this session.
    ///
    /// # Errors
    /// `Lacks`, a sentence: the agent is older, or says what its host has not.
    pub fn start_rdma(&self, spec: PerftestSpec) -> Result<RdmaReady, Failure> {
        self.check_rdma()?;
        match self.ask_within(&AgentRequest::Rdma(spec), START)? {
            Reply::RdmaReady(ready) => Ok(ready),
            _ => Err(self.out_of_turn()),
        }
    }

    /// The agent can be asked for it.
    ///
    /// # Errors
    /// `Lacks`: it is older.
    pub fn check_rdma(&self) -> Result<(), Failure> {
        if self.hello().rdma {
            return Ok(());
        }
        Err(Failure::Lacks(format!(
            "the agent at {} (linerate {}) cannot start perftest, which --protocol rdma needs at both hosts; install the \
             same version as here",
            self.address(),
            self.hello().version
        )))
    }

    /// The test is over: why its server did not end well there, a phrase; none where it did.
    ///
    /// # Errors
    /// The agent does not answer any more.
    pub fn end_rdma(&self) -> Result<Option<String>, Failure> {
        match self.ask_within(&AgentRequest::EndRdma, END)? {
            Reply::RdmaEnded { error } => Ok(error),
            _ => Err(self.out_of_turn()),
        }
    }
}
