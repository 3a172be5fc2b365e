//! A file of our own: made so that nothing that is there is touched, without a name unless it is to be kept.

use super::target::AccessTarget;
use linerate_facts::failure::Failure;
use linerate_system::file::{grow_to, lies_in_memory};
use linerate_system::storage::{Opening, create, create_nameless, reopen};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// What the names of our files begin with.
pub(super) const PREFIX: &str = "linerate-disk-";

/// A file of our own.
#[derive(Debug)]
pub(super) struct OwnFile {
    pub(super) source: usize,
    pub(super) index: usize,
    /// Its name, or the one that it would have.
    pub(super) path: PathBuf,
    pub(super) named: bool,
    pub(super) file: File,
    /// Bytes that hold data.
    pub(super) written: u64,
    /// Bytes that it may grow to.
    pub(super) length: u64,
    /// Written as a log is: emptied before each job.
    pub(super) is_log: bool,
    /// Data was stamped, in sectors of this size.
    pub(super) stamped: Option<u64>,
}

impl OwnFile {
    /// Makes one in the directory that is this source; nothing is written yet.
    pub(super) fn make(
        target: &AccessTarget,
        (source, index, is_log): (usize, usize, bool),
        number: usize,
        keep: bool,
    ) -> Result<Self, Failure> {
        let directory = &target.path;
        let log = if is_log { "-log" } else { "" };
        let beside = if number > 0 { format!("-{number}") } else { String::new() };
        let path = directory.join(format!("{PREFIX}{}-{source}-{index}{log}{beside}", std::process::id()));
        let nameless = if keep { None } else { create_nameless(directory, false).ok() };
        let file = match nameless {
            Some(file) => file,
            None => create(&path, false).map_err(|error| not_made(directory, &error))?,
        };
        let mut named = keep;
        // The name lives for the blink between the two calls, where the file system makes no file without
        // one.
        if !named && path.symlink_metadata().is_ok_and(|there| is_same(&there, &file)) {
            named = std::fs::remove_file(&path).is_err();
        }
        Ok(OwnFile { source, index, path, named, file, written: 0, length: 0, is_log, stamped: None })
    }

    /// What it is called in an error.
    pub(super) fn label(&self) -> String {
        self.path.display().to_string()
    }

    /// A handle of its own, past the page cache where that is wished and works.
    pub(super) fn open(&self, how: Opening) -> io::Result<File> {
        let again = reopen(&self.file, how);
        match again {
            Err(error) if how.direct && error.kind() == ErrorKind::InvalidInput => {
                self.open(Opening { direct: false, ..how })
            }
            // Where a nameless file cannot be opened again (some network file systems), its one handle serves
            // all.
            Err(_) if !how.direct && !how.synced => self.file.try_clone(),
            again => again,
        }
    }

    /// Takes what it holds away and reserves its length: what is written next is written as for the first time.
    pub(super) fn empty(&self) -> io::Result<()> {
        self.file.set_len(0)?;
        // In memory room that is reserved is memory that is filled.
        let reserved = if lies_in_memory(&self.file) { Ok(()) } else { grow_to(&self.file, self.length) };
        // Not every file system reserves.
        reserved.or_else(|error| if error.kind() == ErrorKind::StorageFull { Err(error) } else { Ok(()) })?;
        self.file.set_len(self.length)?;
        self.file.sync_all()
    }
}

fn is_same(there: &std::fs::Metadata, file: &File) -> bool {
    use std::os::unix::fs::MetadataExt;
    file.metadata().is_ok_and(|own| own.ino() == there.ino() && own.dev() == there.dev())
}

/// Why no file can be made in a place.
pub(super) fn not_made(place: &Path, error: &io::Error) -> Failure {
    let why = match error.kind() {
        ErrorKind::ReadOnlyFilesystem => {
            "its file system is mounted read-only; remount it, or name another directory".into()
        }
        ErrorKind::PermissionDenied => {
            "no permission to make files there; name a directory that you may write".into()
        }
        ErrorKind::AlreadyExists => {
            "a file of that name is there and is not ours to write over; name another directory".into()
        }
        ErrorKind::StorageFull => "the disk is full; make room, or name another directory".into(),
        _ => format!("{error}; name another directory"),
    };
    Failure::Lacks(format!("no file can be made in {}: {why}", place.display()))
}
