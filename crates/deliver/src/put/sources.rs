//! Which files are put, and where each goes; and why one was not put.

use crate::client::TransferError;
use crate::get::is_unfinished;
use crate::http::url::{HttpUrl, encoded};
use crate::s3::S3Location;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;

/// The deepest folder that is put.
const MOST_DEPTH: usize = 64;

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

/// A file that is being put.
pub(crate) struct OpenSource {
    /// Its length is that of `before`.
    pub(crate) file: SourceFile,
    pub(crate) content: File,
    /// As the file was when it was opened.
    pub(crate) before: Metadata,
}

impl OpenSource {
    pub(crate) fn open(file: &SourceFile) -> Result<Self, PutError> {
        let of_source = |error| file.failed(error);
        let content = File::open(&file.path).map_err(of_source)?;
        let before = content.metadata().map_err(of_source)?;
        let file = SourceFile { bytes: before.len(), ..file.clone() };
        Ok(OpenSource { file, content, before })
    }
}

/// All of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceSelection {
    pub files: Vec<SourceFile>,
    /// Links to folders, and what is neither a file nor a folder.
    pub left_out: u64,
}

impl SourceSelection {
    /// Bytes of all of them.
    pub fn bytes(&self) -> u64 {
        self.files.iter().fold(0, |sum, file| sum.saturating_add(file.bytes))
    }
}

/// Looks what there is; nothing is opened or sent. `to`: a folder with a slash at its end, or the place of one file.
pub fn select(paths: &[PathBuf], to: &HttpUrl) -> Result<SourceSelection, PutError> {
    let mut selection = SourceSelection::default();
    let into_folder = to.path().ends_with('/');
    for path in paths {
        let metadata = std::fs::metadata(path).map_err(|error| source_error(path, error))?;
        if !into_folder {
            if paths.len() > 1 || !metadata.is_file() {
                return Err(PutError::NoFolder { url: to.to_string() });
            }
            add_path(path, &metadata, to, &mut selection)?;
            continue;
        }
        // `.` and `a/..` have names, too.
        let real = path.canonicalize().map_err(|error| source_error(path, error))?;
        let name = path.file_name().or(real.file_name()).unwrap_or(OsStr::new("root"));
        let url = url_below(to, name, metadata.is_dir());
        match metadata.is_dir() {
            true => walk(path, &url, 0, &mut selection)?,
            false => add_path(path, &metadata, &url, &mut selection)?,
        }
    }
    let mut places = BTreeSet::new();
    match selection.files.iter().find(|file| !places.insert(file.url.target.as_str())) {
        Some(twice) => Err(PutError::SamePlace { url: twice.url.to_string() }),
        None => Ok(selection),
    }
}

fn add_path(
    path: &Path,
    metadata: &Metadata,
    url: &HttpUrl,
    selection: &mut SourceSelection,
) -> Result<(), PutError> {
    if !metadata.is_file() {
        return Err(PutError::NoFile { path: path.into() });
    }
    selection.files.push(SourceFile { path: path.into(), url: url.clone(), bytes: metadata.len() });
    Ok(())
}

fn walk(folder: &Path, url: &HttpUrl, depth: usize, selection: &mut SourceSelection) -> Result<(), PutError> {
    if depth > MOST_DEPTH {
        return Err(PutError::TooDeep { path: folder.into(), most: MOST_DEPTH });
    }
    let entries = std::fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let mut entries = entries.map_err(|error| source_error(folder, error))?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let (path, name) = (entry.path(), entry.file_name());
        if is_unfinished(name.as_bytes()) {
            continue;
        }
        let is_link = entry.file_type().map_err(|error| source_error(&path, error))?.is_symlink();
        // A link to nowhere is not a file.
        let Ok(metadata) = std::fs::metadata(&path) else {
            selection.left_out += 1;
            continue;
        };
        match (metadata.is_dir(), metadata.is_file()) {
            (true, _) if !is_link => walk(&path, &url_below(url, &name, true), depth + 1, selection)?,
            (_, true) => add_path(&path, &metadata, &url_below(url, &name, false), selection)?,
            _ => selection.left_out += 1,
        }
    }
    Ok(())
}

fn url_below(folder: &HttpUrl, name: &OsStr, is_folder: bool) -> HttpUrl {
    let slash = if is_folder { "/" } else { "" };
    folder.with_target(&format!("{}{}{slash}", folder.path(), encoded(name.as_bytes())))
}

fn source_error(path: &Path, error: io::Error) -> PutError {
    PutError::Source { path: path.into(), error }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn selected(paths: &[PathBuf], to: &str) -> Result<SourceSelection, PutError> {
        select(paths, &to.parse().expect("a URL"))
    }

    #[test]
    fn folders_go_with_all_that_is_below_them() {
        let place = tempfile::tempdir().expect("a folder");
        let at = |name: &str| place.path().join(name);
        std::fs::create_dir_all(at("set/a b")).expect("folders");
        for name in ["set/one", "set/a b/two", "set/.x.linerate-part"] {
            std::fs::write(at(name), name).expect("written");
        }
        symlink("one", at("set/link")).expect("a link");
        symlink("a b", at("set/to-folder")).expect("a link");
        symlink("nowhere", at("set/broken")).expect("a link");
        let found = selected(&[at("set")], "http://h/in/").expect("files");
        let targets: Vec<&str> = found.files.iter().map(|file| file.url.target.as_str()).collect();
        assert_eq!(targets, ["/in/set/a%20b/two", "/in/set/link", "/in/set/one"]);
        assert_eq!((found.left_out, found.bytes()), (2, 11 + 7 + 7));
        let one = selected(&[at("set/one")], "http://h/in/other").expect("one file");
        assert_eq!(one.files[0].url.target, "/in/other");
        for (paths, url) in
            [(vec![at("set")], "http://h/in"), (vec![at("set/one"), at("set/link")], "http://h/in")]
        {
            assert!(matches!(selected(&paths, url), Err(PutError::NoFolder { .. })));
        }
        let twice = selected(&[at("set/one"), at("set/one")], "http://h/");
        assert!(matches!(twice, Err(PutError::SamePlace { .. })));
        let device = selected(&["/dev/null".into()], "http://h/");
        assert!(matches!(device, Err(PutError::NoFile { .. })));
    }
}
