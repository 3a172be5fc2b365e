//! Tells one content of a file from another.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;

/// One content of one file, or of one folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FileId {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) bytes: u64,
    pub(crate) modified: (i64, i64),
}

impl FileId {
    pub(crate) fn of(file: &File) -> io::Result<Self> {
        Ok(FileId::new(&file.metadata()?))
    }

    pub(crate) fn new(metadata: &Metadata) -> Self {
        FileId {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}
