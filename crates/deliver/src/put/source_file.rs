//! A file that is put.

use super::error::PutError;
use crate::http::url::HttpUrl;
use std::io;
use std::path::PathBuf;

/// A file and its place on the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    pub path: PathBuf,
    pub url: HttpUrl,
    pub bytes: u64,
}

impl SourceFile {
    /// It cannot be read; one that is shorter than it was has changed.
    pub(crate) fn failed(&self, error: io::Error) -> PutError {
        let path = self.path.clone();
        match error.kind() {
            io::ErrorKind::UnexpectedEof => PutError::Changed { path },
            _ => PutError::Source { path, error },
        }
    }
}
