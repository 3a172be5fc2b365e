//! How a command fails, in the exit statuses of the contract: 2 wrong use, 3 the machine lacks what was asked
//! for.
//!
//! (0 is done; 1 is "measured, but something failed along the way": that is a `Run` with `errors`, not a
//! `Failure`.)

use thiserror::Error;

/// A command that cannot go on. The text names the thing, the likely cause and the remedy.
#[derive(Debug, Error)]
pub enum Failure {
    /// The words of the command are wrong or contradict each other: exit status 2.
    #[error("{0}")]
    Usage(String),
    /// What was named is not there, not readable or not enough: exit status 3.
    #[error("{0}")]
    Lacks(String),
    /// The user asked to stop (Ctrl-C) before there was a result: exit status 1. Later it is an error of the
    /// run, which is saved.
    #[error("interrupted before anything was measured: nothing was saved")]
    Interrupted,
}

impl Failure {
    /// An error that says so in its text.
    pub fn usage(why: impl ToString) -> Self {
        Failure::Usage(why.to_string())
    }

    /// An error that says so in its text.
    pub fn lacks(why: impl ToString) -> Self {
        Failure::Lacks(why.to_string())
    }

    /// Exit status of the contract.
    pub fn exit_status(&self) -> u8 {
        match self {
            Failure::Usage(_) => 2,
            Failure::Lacks(_) => 3,
            Failure::Interrupted => 1,
        }
    }
}
