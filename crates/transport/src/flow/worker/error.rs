//! Why a worker ended early, in a user's words.

use linerate_system::Errno;
use std::io;

/// Why a worker ended before it was told to.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The source failed.
    #[error("reading {what}: {why}")]
    Source { what: String, why: String },
    /// The sink failed.
    #[error("sending to the peer: {why}")]
    Sink { why: String, error: io::Error },
    /// Nothing moved for long.
    #[error("no progress for {seconds} s while waiting for {what}")]
    Stalled { what: String, seconds: u64 },
    /// What came in could not be taken, or stored; a sentence.
    #[error("{why}")]
    Incoming { why: String },
    /// The disk that stores did not answer; a sentence.
    #[error("{why}")]
    SinkHangs { why: String },
    /// A stream that ended neither by its limit nor by a stop nor by its other end.
    #[error(transparent)]
    Stream(io::Error),
    /// io_uring or the threads failed.
    #[error("input/output: {0}")]
    Io(#[from] io::Error),
}

/// For callers that send by themselves: what the socket said, as it is.
impl From<WorkerError> for io::Error {
    fn from(error: WorkerError) -> Self {
        match error {
            WorkerError::Sink { error, .. } | WorkerError::Stream(error) | WorkerError::Io(error) => error,
            other => io::Error::other(other),
        }
    }
}

/// The errors that a user meets, in words.
pub(super) fn sink_error(error: io::Error) -> WorkerError {
    let why = match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
            format!("the peer closed the connection ({error}): did its agent end?")
        }
        // UDP: the other host answered that nobody listens on the port.
        io::ErrorKind::ConnectionRefused => {
            format!("the peer's receiver is gone ({error}): did its agent end?")
        }
        io::ErrorKind::NetworkDown | io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable => {
            format!("{error}: did the interface go down?")
        }
        _ if Errno::from_io_error(&error) == Some(Errno::MSGSIZE) => {
            format!(
                "{error}: is a datagram larger than the path's MTU carries? Name a smaller one with \
                 --datagram"
            )
        }
        _ => error.to_string(),
    };
    WorkerError::Sink { why, error }
}
