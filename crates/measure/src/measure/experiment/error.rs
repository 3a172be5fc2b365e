//! Why nothing was taken, or why what was taken says nothing.

use linerate_model::shares::Hopeless;
use std::io;

/// In a sentence after `Not measured: `.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    #[error("the path is too far for slots of a second")]
    FarPath,
    #[error("a source cannot be read past the page cache (O_DIRECT): a taker would read memory")]
    CachedSource,
    #[error("the agent bounds what this host may move")]
    AgentRateLimit,
    /// Of the flow that is taken from, in its own words.
    #[error("{0}")]
    Flow(String),
    #[error("{path}: {error}")]
    UnreadSource { path: String, error: io::Error },
    #[error("a taker did not start: {0}")]
    NoTaker(io::Error),
    #[error("{0}")]
    Hopeless(Hopeless),
    #[error("nothing that it uses is busy and can be taken from")]
    NothingToTake,
    #[error("the flow ended before anything was taken")]
    FlowEnded,
    #[error(
        "in two slots the flow moved less than three quarters of what it had moved before, so no more was taken"
    )]
    Spared,
}
