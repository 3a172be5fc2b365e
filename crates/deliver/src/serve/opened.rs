//! An open file of the tree: what tells its content from another, and its type for browsers.

use crate::file_id::FileId;
use crate::http::conditions::Validators;
use linerate_system::lock;
use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, Weak};

/// Open files that connections have in common.
#[derive(Debug, Default)]
pub(super) struct SharedFiles(Mutex<HashMap<FileId, Weak<File>>>);

/// A file that is open, as it was then.
#[derive(Debug)]
pub(super) struct OpenedFile {
    pub(super) file: Arc<File>,
    pub(super) id: FileId,
    pub(super) validators: Validators,
}

impl OpenedFile {
    pub(super) fn new(file: File) -> io::Result<Self> {
        let id = FileId::of(&file)?;
        let modified = seconds_of(&file.metadata()?);
        let FileId { device, inode, bytes, modified: (seconds, nanos) } = id;
        let entity_tag = format!("\"{device:x}-{inode:x}-{bytes:x}-{seconds:x}.{nanos:x}\"");
        Ok(OpenedFile { file: Arc::new(file), id, validators: Validators { entity_tag, modified } })
    }

    /// Has the descriptor in common with all others that wait with the same content.
    pub(super) fn share(&mut self, files: &SharedFiles) {
        let mut files = lock(&files.0);
        if let Some(file) = files.get(&self.id).and_then(Weak::upgrade) {
            self.file = file;
            return;
        }
        // Now and then, so that each look at all of them is paid for by as many files.
        if files.len().is_power_of_two() {
            files.retain(|_, file| file.strong_count() > 0);
        }
        files.insert(self.id, Arc::downgrade(&self.file));
    }

    /// The content is the one that it was when it was opened.
    pub(super) fn is_unchanged(&self) -> bool {
        FileId::of(&self.file).is_ok_and(|now| now == self.id)
    }
}

/// When the content was changed last, seconds since 1970; 0 before.
pub(super) fn seconds_of(metadata: &Metadata) -> u64 {
    u64::try_from(metadata.mtime()).unwrap_or(0)
}

/// What a browser shows rather than saves; all else is bytes.
pub(super) fn content_type(name: &[u8]) -> &'static str {
    let extension = name.rsplit(|byte| *byte == b'.').next().unwrap_or_default().to_ascii_lowercase();
    match extension.as_slice() {
        b"txt" | b"log" | b"md" | b"csv" => "text/plain; charset=utf-8",
        b"json" => "application/json",
        b"png" => "image/png",
        b"jpg" | b"jpeg" => "image/jpeg",
        b"mp4" => "video/mp4",
        b"pdf" => "application/pdf",
        _ => "application/octet-stream",
    }
}
