//! A file that is put.

use crate::http::url::HttpUrl;
use std::path::PathBuf;

/// A file and its place on the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    pub path: PathBuf,
    pub url: HttpUrl,
    pub bytes: u64,
}
