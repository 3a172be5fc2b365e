//! Why a file of the tree is not read. Every text is a phrase for `Fact::Unknown`.

use crate::fact::NOT_RECORDED;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

const NOT_THERE: &str = "not there";

/// A file that cannot be read, and why: `/proc/none: not there`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}: {reason}", path.display())]
pub struct Unreadable {
    pub path: PathBuf,
    pub reason: UnreadReason,
}

impl Unreadable {
    pub(super) fn new(path: &Path, reason: UnreadReason) -> Self {
        Unreadable { path: path.to_path_buf(), reason }
    }

    /// Of a path that does not exist.
    pub fn absent(path: impl AsRef<Path>) -> Self {
        Unreadable::new(path.as_ref(), UnreadReason::Absent)
    }

    /// Whether a phrase is that of a file that does not exist; a saved run has the phrase alone.
    pub fn is_absent(why: &str) -> bool {
        why.strip_suffix(NOT_THERE).is_some_and(|path| path.ends_with(": "))
    }
}

/// Why a file cannot be read, without its name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UnreadReason {
    #[error("{}", NOT_THERE)]
    Absent,
    #[error("permission denied")]
    NotPermitted,
    /// A directory, a device, a FIFO.
    #[error("no regular file")]
    NoFile,
    #[error("too many symbolic links")]
    TooManyLinks,
    /// A capture lists it, and nobody asked to read it.
    #[error("{}", NOT_RECORDED)]
    NotRecorded,
    /// What the kernel said, or the reason that a capture recorded.
    #[error("{0}")]
    Other(String),
}

/// Without the number that the standard library adds to the two usual ones.
impl From<io::Error> for UnreadReason {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => UnreadReason::Absent,
            io::ErrorKind::PermissionDenied => UnreadReason::NotPermitted,
            _ => UnreadReason::Other(error.to_string()),
        }
    }
}

/// As a capture wrote it down.
impl From<String> for UnreadReason {
    fn from(recorded: String) -> Self {
        use UnreadReason::{Absent, NoFile, NotPermitted, NotRecorded, TooManyLinks};
        let known = [Absent, NotPermitted, NoFile, TooManyLinks, NotRecorded];
        let same = known.into_iter().find(|reason| reason.to_string() == recorded);
        same.unwrap_or(UnreadReason::Other(recorded))
    }
}
