//! Why bytes are no archive of a recorded machine.

use super::compression::Compression;
use std::io;
use thiserror::Error;

/// A sentence for who named the file, without its name.
#[derive(Debug, Error)]
pub enum ArchiveError {
    #[error("not there; check the path")]
    Absent,
    #[error("{0}; name a folder or a tarball that you may read")]
    Unopened(io::Error),
    #[error("neither a folder nor a file; name a recorded machine's")]
    NoFile,
    #[error("cannot be read: {0}")]
    Unreadable(io::Error),
    #[error("is empty; name the tarball of a recorded machine")]
    Empty,
    #[error("holds neither sys/ nor proc/; name the tarball of a recorded machine")]
    NoTree,
    #[error("no tarball{}", .0.remedy())]
    NoTarball(Compression),
    #[error("no tarball: nothing in it can be read{}", .0.remedy())]
    NoMembers(Compression),
    /// `near` names the member, or the one before it.
    #[error("damaged near {near}: {error}{}", compression.remedy())]
    Damaged { near: String, error: io::Error, compression: Compression },
    #[error("{limit}, near {near}: no recorded machine; it may be a compression bomb")]
    Bomb { limit: ExceededLimit, near: String },
    #[error("more than {0} files and folders: no recorded machine")]
    TooMany(u64),
    #[error("its files hold more than {0} bytes: no recorded machine")]
    TooLarge(u64),
}

/// The limit that reading met.
#[derive(Clone, Copy, Debug, Error)]
pub enum ExceededLimit {
    #[error("unpacks to more than {0} bytes")]
    Unpacked(u64),
    #[error("a member's header is larger than {0} bytes")]
    Header(u64),
}
