//! Why a transfer failed: the connection, what a server or a store answered, or the disk of this host.

use crate::blocks::BlockListError;
use crate::http::head::HeadError;
use crate::http::url::{HttpUrl, UrlError};
use crate::listing::ListingError;
use crate::patience::BUSY_TIME;
use crate::tls::TlsError;
use linerate_system::side_file::SideFileError;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;

/// The most bytes of an answer that is not a file: a store's list has 1000 keys of 1024 bytes, each letter of them in up
/// to three.
pub(crate) const MOST_ANSWER_BYTES: u64 = 8 << 20;

/// Each with the likely cause and the remedy, where there is one that the user has.
#[derive(Debug, Error)]
pub enum TransferError {
    #[error("{authority}: no connection: {why}; is the server running, and the port right?")]
    Unreachable { authority: String, why: String },
    #[error("{authority}: {why}")]
    Certificate { authority: String, why: String },
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Store(Box<crate::s3::S3Error>),
    #[error("{url}: the server has no such file (404); check the path")]
    NotFound { url: String },
    #[error("{url}: the server refuses it ({status}); give its token with --token-file")]
    NotAllowed { url: String, status: u16 },
    #[error(
        "{url}: the server does not answer to that name (421); use its address, or start it with --name and that name"
    )]
    OtherName { url: String },
    #[error("{url}: the server cannot do it now ({status}); try again later, or with fewer --streams")]
    Overloaded { url: String, status: u16, retry_after: Option<Duration> },
    #[error("{url}: the server was busy (503) for {} minutes; try again later", BUSY_TIME.as_secs() / 60)]
    AlwaysBusy { url: String },
    #[error("{url}: the server answered with status {status}; try again, or look at its log")]
    Status { url: String, status: u16 },
    #[error("{url}: more than {most} redirections; the server redirects in a circle")]
    Redirections { url: String, most: u32 },
    #[error("{url}: the server sends on to “{location}”: {why}")]
    Location { url: String, location: String, why: UrlError },
    #[error(
        "{url}: it is a folder, and its page is not a list of its files as nginx, Apache, Caddy and Python show one; name \
         its files"
    )]
    Folder { url: String },
    #[error("{url}: the last part of its path is not a name of a file here: {why}; name a file")]
    NoName { url: String, why: &'static str },
    #[error(
        "{url}: the server does not say how long the file is, so a broken connection would pass for its end"
    )]
    NoLength { url: String },
    #[error(
        "{url}: the server sends it packed ({encoding}) though that was not asked for; switch compression off for it"
    )]
    Packed { url: String, encoding: String },
    #[error("{url}: the server's answer is not HTTP: {why}; is this the port of an HTTP server?")]
    NoHttp { url: String, why: HeadError },
    #[error("{url}: the server's answer is longer than {} MiB", MOST_ANSWER_BYTES >> 20)]
    LongAnswer { url: String },
    #[error("{url}: the server sent another part than the one that was asked for")]
    OtherPart { url: String },
    #[error("{url}: the file changed on the server meanwhile; start again to fetch the new one")]
    Changed { url: String },
    #[error("{url}: the connection ended {missing} bytes early; try again, what came is kept")]
    CutShort { url: String, missing: u64 },
    #[error("{url}: the connection broke: {error}; try again, what came is kept")]
    Broken { url: String, error: io::Error },
    #[error("{url}: next to nothing came for {seconds} s; try again, what came is kept")]
    Stalled { url: String, seconds: u64 },
    #[error("{url}: the folder's list: {why}")]
    Listing { url: String, why: ListingError },
    #[error("{url}: the sums of its blocks: {why}")]
    Blocks { url: String, why: BlockListError },
    #[error(
        "{url}: block {block} differs from the server's, {times} times now; something on the way changes bytes"
    )]
    Differs { url: String, block: u64, times: u32 },
    #[error(
        "{url}: its {name} is {found}, and {wanted} at the store: something on the way or in this host changes bytes; \
         nothing of it was kept"
    )]
    OtherSum { url: String, name: &'static str, found: String, wanted: String },
    #[error("{url}: its SHA-256 is {found}, not {wanted}; nothing of it was kept")]
    Sha256 { url: String, found: String, wanted: String },
    #[error("{url}: folders are more than {most} deep; do links lead in a circle?")]
    TooDeep { url: String, most: usize },
    #[error("{}: there is a file already; --replace takes its place", path.display())]
    AlreadyThere { path: PathBuf },
    #[error("{}: another linerate fetches it just now; wait until it is done", path.display())]
    Busy { path: PathBuf },
    #[error("{}: the name is too long; shorten it, or give --output", path.display())]
    NameTooLong { path: PathBuf },
    #[error("{}: no space is left: {wanted} are needed, {free} are free", path.display())]
    NoSpace { path: PathBuf, wanted: String, free: String },
    #[error("{}: {error}", path.display())]
    Destination { path: PathBuf, error: io::Error },
    #[error(
        "{}: {why}, so it is not an unfinished file of this user, and was left as it is; remove it, or fetch to another \
         folder with --output",
        path.display()
    )]
    SideFile { path: PathBuf, why: SideFileError },
    #[error(
        "{}: another file was put in its place while it was fetched; other users can write to that folder: remove it, and \
         fetch to a folder of your own with --output",
        path.display()
    )]
    Swapped { path: PathBuf },
    #[error("{url}: {address} has another copy of it than the other addresses of this name")]
    OtherCopy { url: String, address: String },
    #[error("interrupted")]
    Interrupted,
    /// Another stream has what this one was at: nothing failed.
    #[error("given to another stream")]
    Revoked,
}

impl TransferError {
    pub(crate) fn broken(url: &HttpUrl, error: io::Error) -> Self {
        let is_late = error.kind() == io::ErrorKind::WouldBlock;
        let error = if is_late { io::ErrorKind::TimedOut.into() } else { error };
        TransferError::Broken { url: url.to_string(), error }
    }

    /// By the server, in place of an answer.
    pub(crate) fn closed(url: &HttpUrl) -> Self {
        let error = io::Error::new(io::ErrorKind::UnexpectedEof, "it was closed without an answer");
        TransferError::broken(url, error)
    }

    /// There was no connection, or it broke: the NIC or the path to the server may be to blame.
    pub(crate) fn is_of_route(&self) -> bool {
        use TransferError::{Broken, CutShort, Stalled, Unreachable};
        matches!(self, Broken { .. } | CutShort { .. } | Stalled { .. } | Unreachable { .. })
    }

    /// It is of the copy that one address of a server has: another may have the file as it was.
    pub(crate) fn is_of_copy(&self) -> bool {
        use TransferError::{Changed, NotFound, OtherPart};
        matches!(self, Changed { .. } | NotFound { .. } | OtherPart { .. })
    }

    /// What came of the file is of no use to another start.
    pub(crate) fn spoils_part(&self) -> bool {
        use TransferError::{Changed, Differs, NotFound, OtherSum, Sha256};
        matches!(self, Changed { .. } | OtherSum { .. } | Sha256 { .. } | Differs { .. } | NotFound { .. })
    }

    /// It is of this host's disk: the connection is as good as before.
    pub(crate) fn is_of_disk(&self) -> bool {
        use TransferError::{Destination, NameTooLong, NoSpace, SideFile};
        matches!(self, Destination { .. } | NameTooLong { .. } | NoSpace { .. } | SideFile { .. })
    }

    /// It is of one folder: others beside it may be listed.
    pub(crate) fn is_of_folder(&self) -> bool {
        use TransferError::{Folder, Listing, NotAllowed, NotFound};
        matches!(self, Folder { .. } | Listing { .. } | NotAllowed { .. } | NotFound { .. })
    }

    /// Of what has the name of a part or a journal, and cannot be one.
    pub(crate) fn side_file(path: &Path, why: SideFileError) -> Self {
        match why {
            SideFileError::Io(error) => TransferError::Destination { path: path.into(), error },
            why => TransferError::SideFile { path: path.into(), why },
        }
    }

    /// Another try, over another connection, may have it.
    pub fn may_pass(&self) -> bool {
        use TransferError::{NoHttp, OtherCopy, OtherPart, OtherSum, Overloaded, Revoked, Status};
        #[cfg(test)]
        planted!(RefusedAskedAgain, return true);
        match self {
            _ if self.is_of_route() => true,
            NoHttp { .. } | OtherPart { .. } | OtherSum { .. } | Overloaded { .. } => true,
            OtherCopy { .. } | Revoked => true,
            Status { status, .. } => *status >= 500,
            TransferError::Store(error) => error.may_pass(),
            _ => false,
        }
    }

    /// The server is busy, and named this time.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            TransferError::Overloaded { retry_after, .. } => *retry_after,
            TransferError::Store(error) => error.retry_after(),
            _ => None,
        }
    }

    /// It failed before anything came: what was asked for is not there, or cannot be had; as opposed to what went wrong
    /// while it came.
    pub fn is_lack(&self) -> bool {
        use TransferError::*;
        match self {
            Broken { .. } | Changed { .. } | CutShort { .. } | Differs { .. } | Interrupted => false,
            OtherCopy { .. } | OtherPart { .. } | OtherSum { .. } | Revoked | Sha256 { .. } => false,
            Stalled { .. } | Swapped { .. } => false,
            AlreadyThere { .. } | AlwaysBusy { .. } | Blocks { .. } | Busy { .. } => true,
            Certificate { .. } | Destination { .. } | Folder { .. } | Listing { .. } => true,
            Location { .. } | LongAnswer { .. } | NameTooLong { .. } | NoHttp { .. } => true,
            NoLength { .. } | NoName { .. } | NoSpace { .. } | NotAllowed { .. } | NotFound { .. } => true,
            OtherName { .. } | Overloaded { .. } | Packed { .. } | Redirections { .. } => true,
            SideFile { .. } | Status { .. } | Store(_) | Tls(_) | TooDeep { .. } | Unreachable { .. } => true,
        }
    }
}
