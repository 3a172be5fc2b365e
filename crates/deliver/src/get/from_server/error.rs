//! Why a flow from a server was not measured, or ended early.

use linerate_transport::flow::sink::SinkError;
use linerate_transport::flow::worker::WorkerError;
use std::io;
use thiserror::Error;

/// One sentence of the result.
#[derive(Debug, Error)]
pub(super) enum ServerFlowError {
    #[error("a worker did not start: {0}")]
    NoThread(io::Error),
    #[error("no worker has room: this process may use too few CPUs, or too little memory")]
    NoRoom,
    #[error(transparent)]
    Sink(#[from] SinkError),
    #[error(transparent)]
    Worker(#[from] WorkerError),
}
