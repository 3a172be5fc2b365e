//! Why a file was not put.

use crate::client::TransferError;
use crate::s3::S3Location;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use thiserror::Error;

/// Each with the likely cause and the remedy.
#[derive(Debug, Error)]
pub enum PutError {
    /// The connection, or what came over it.
    #[error(transparent)]
    Client(TransferError),
    #[error(
        "{url}: the server is read-only; start it with: linerate serve PATH --writable --token-file FILE"
    )]
    ReadOnly { url: String },
    #[error("{url}: the server takes no file there ({status}); does it take PUT, and is the path right?")]
    Refused { url: String, status: u16 },
    #[error(
        "{url}: the server answered {status} before it had the file, of which it may keep nothing; does it take PUT?"
    )]
    Early { url: String, status: u16 },
    #[error("{url}: the server refuses it ({status}); give its token with --token-file")]
    NotAllowed { url: String, status: u16 },
    #[error("{url}: there is another file of this name on the server; it was left as it is")]
    AlreadyThere { url: String },
    #[error("{url}: the server has no room for it (507)")]
    NoSpace { url: String },
    #[error(
        "{url}: what the server wrote is not what was sent, {times} times now; something on the way changes bytes"
    )]
    Differs { url: String, times: u32 },
    #[error("{}: it changed while it was sent, so it did not get its name on the server: put it again", path.display())]
    Changed { path: PathBuf },
    #[error("{}: {error}", path.display())]
    Source { path: PathBuf, error: io::Error },
    #[error("{}: folders are more than {most} deep", path.display())]
    TooDeep { path: PathBuf, most: usize },
    #[error("{}: it is neither a file nor a folder", path.display())]
    NoFile { path: PathBuf },
    #[error(
        "{place}: its upload could not be aborted ({why}), so the store keeps its parts, at a cost, until somebody does: {}",
        place.abort_command(id)
    )]
    NotAborted { place: Box<S3Location>, id: String, why: String },
    #[error("two of the paths would be {url}: put them one after another, to two folders")]
    SamePlace { url: String },
    #[error("{url}: a folder, or more than one file, goes into a folder: end the URL with a slash")]
    NoFolder { url: String },
    #[error("interrupted")]
    Interrupted,
}

impl From<TransferError> for PutError {
    fn from(error: TransferError) -> Self {
        match error {
            TransferError::Interrupted => PutError::Interrupted,
            error => PutError::Client(error),
        }
    }
}

impl PutError {
    /// Another try, over another connection, may put it. A server that is not there was mistyped, unless it was there
    /// at the first try: then it may come back.
    pub fn may_pass(&self, tries: u32) -> bool {
        match self {
            _ if self.is_unreachable() => tries > 1,
            PutError::Client(error) => error.may_pass(),
            PutError::Differs { times, .. } => *times < 3,
            _ => false,
        }
    }

    /// Nothing answers at the server's address.
    pub(crate) fn is_unreachable(&self) -> bool {
        matches!(self, PutError::Client(TransferError::Unreachable { .. }))
    }

    /// The server is busy, and named this time.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        if let PutError::Client(error) = self { error.retry_after() } else { None }
    }

    /// The words were wrong.
    pub fn is_usage(&self) -> bool {
        matches!(self, PutError::SamePlace { .. } | PutError::NoFolder { .. })
    }

    /// What was asked for is not there, as opposed to what went wrong meanwhile.
    pub fn is_lack(&self) -> bool {
        match self {
            PutError::Client(error) => error.is_lack(),
            PutError::Changed { .. } | PutError::Differs { .. } | PutError::Interrupted => false,
            _ => true,
        }
    }
}
