//! What is served: folders and files by the names that URLs have for them, and nothing beside them; of an open
//! file what tells its content from another, and its type for browsers.

use crate::archived::{Archived, MOST_LISTED_BYTES};
use crate::blocks::FileId;
use crate::get::names::is_unfinished;
use crate::get::part::part_path;
use crate::http::conditions::Validators;
use crate::http::url::{encoded, joined};
use crate::listing::{ListedKind, Listing};
use linerate_facts::failure::Failure;
use linerate_facts::wording::listed;
use linerate_system::beneath::{ConfinedEntry, ConfinedFolder, EntryKind};
use linerate_system::lock;
use linerate_system::stop::Stop;
use linerate_system::storage::{Opening, reopen};
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};
use std::time::SystemTime;

/// Folders and files that a server gives.
#[derive(Debug)]
pub struct ServedTree {
    roots: Vec<ServedRoot>,
    /// One folder: its names are at the top. Else the names of the roots are.
    is_one_folder: bool,
    /// Lists have what a copy keeps of each name, and links as such.
    is_archive: bool,
}

#[derive(Debug)]
struct ServedRoot {
    /// In URLs.
    name: OsString,
    folder: ConfinedFolder,
    /// It is this one file of the folder.
    file: Option<PathBuf>,
    /// Which has no name there, but is open.
    nameless: Option<File>,
}

/// What a URL names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServedKind {
    File,
    Folder,
}

impl ServedTree {
    /// Opens what is to be served.
    pub fn open(paths: &[PathBuf]) -> Result<Self, Failure> {
        let roots = paths.iter().map(|path| served_root(path)).collect::<Result<Vec<_>, Failure>>()?;
        let mut names: Vec<&OsStr> = roots.iter().map(|root| root.name.as_os_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Failure::Usage(format!(
                "two of the paths are called {}, and there is one name for each: name the folder above them, or one \
                 after the other",
                twice[0].to_string_lossy()
            )));
        }
        let is_one_folder = roots.len() == 1 && roots.iter().all(|root| root.file.is_none());
        Ok(ServedTree { roots, is_one_folder, is_archive: false })
    }

    /// The same with all that `copy --archive` keeps.
    pub fn archiving(self) -> Self {
        ServedTree { is_archive: true, ..self }
    }

    /// The same, and each path has its name at the top, also the only one.
    pub fn open_named(paths: &[PathBuf]) -> Result<Self, Failure> {
        Ok(ServedTree { is_one_folder: false, ..ServedTree::open(paths)? })
    }

    /// A file of this folder that has no name there; it has this one here.
    pub fn of_nameless(file: File, name: OsString, folder: &Path) -> io::Result<Self> {
        let folder = ConfinedFolder::open(folder)?;
        let root = ServedRoot { file: Some(PathBuf::from(&name)), name, folder, nameless: Some(file) };
        Ok(ServedTree { roots: vec![root], is_one_folder: false, is_archive: false })
    }

    /// The paths at the top, as URLs have them.
    pub fn tops(&self) -> Vec<String> {
        if self.is_one_folder {
            return vec!["/".into()];
        }
        let path = |root: &ServedRoot| {
            joined(&[root.name.as_bytes().to_vec()]) + if root.file.is_none() { "/" } else { "" }
        };
        self.roots.iter().map(path).collect()
    }

    /// What these names lead to.
    pub(super) fn kind(&self, names: &[Vec<u8>]) -> io::Result<ServedKind> {
        let Some((root, path)) = self.place(names)? else { return Ok(ServedKind::Folder) };
        Ok(match root.nameless.as_ref().map_or_else(|| root.folder.kind(&path), |_| Ok(EntryKind::File))? {
            EntryKind::File => ServedKind::File,
            EntryKind::Folder => ServedKind::Folder,
        })
    }

    /// Opens a file; with `direct` past the page cache.
    pub(super) fn open_file(&self, names: &[Vec<u8>], direct: bool) -> io::Result<File> {
        let (root, path) = self.place(names)?.ok_or(io::ErrorKind::NotFound)?;
        root.open_file(&path, direct)
    }

    /// The folder in which a file of these names is made, and its name there. Folders on the way are made
    /// where they are absent.
    pub(super) fn folder_for(&self, names: &[Vec<u8>]) -> io::Result<(ConfinedFolder, OsString)> {
        let (root, path) = self.place(names)?.ok_or(io::ErrorKind::NotFound)?;
        let name = path.file_name().filter(|_| root.file.is_none()).ok_or(io::ErrorKind::NotFound)?;
        let folder = root.folder.make_folders(path.parent().unwrap_or(Path::new("")))?;
        Ok((folder, name.to_os_string()))
    }

    /// What came so far of a file of these names that a client puts.
    pub(super) fn open_unfinished(&self, names: &[Vec<u8>]) -> io::Result<File> {
        let (root, path) = self.place(names)?.ok_or(io::ErrorKind::NotFound)?;
        if root.file.is_some() || path.file_name().is_none() {
            return Err(io::ErrorKind::NotFound.into());
        }
        root.folder.open_file(&part_path(&path), false)
    }

    /// Removes what is unfinished and was written last before this time, of this process's user and held by nobody, in
    /// all folders that are served: its path below one, and its bytes.
    pub(super) fn remove_unfinished(&self, before: SystemTime, stop: &Stop) -> Vec<(PathBuf, u64)> {
        let folders = self.roots.iter().filter(|root| root.file.is_none());
        folders.flat_map(|root| root.folder.remove_old_files(is_unfinished, before, stop)).collect()
    }

    /// What tells a folder's content from another; none at the top of several roots.
    pub(super) fn folder_id(&self, names: &[Vec<u8>]) -> io::Result<Option<FileId>> {
        let Some((root, path)) = self.place(names)? else { return Ok(None) };
        Ok(Some(FileId::new(&root.folder.metadata(&path)?)))
    }

    /// The names in a folder, and whether there are more.
    pub(super) fn list(&self, names: &[Vec<u8>], most: usize) -> io::Result<(Vec<ConfinedEntry>, bool)> {
        let Some((root, path)) = self.place(names)? else {
            return Ok((self.roots.iter().filter_map(ServedRoot::entry).collect(), false));
        };
        let (mut found, more) = root.folder.list(&path, most, self.is_archive)?;
        found.retain(|entry| !is_unfinished(entry.name.as_bytes()));
        Ok((found, more))
    }

    /// Adds to the list of a folder what a copy keeps; what is gone meanwhile has none.
    pub(super) fn add_archived(&self, names: &[Vec<u8>], list: &mut Listing) -> io::Result<()> {
        if !self.is_archive {
            return Ok(());
        }
        let mut room_bytes = MOST_LISTED_BYTES;
        let Some((root, path)) = self.place(names)? else {
            // Folders have theirs in their own lists.
            for (root, file) in self.roots.iter().filter_map(|root| Some((root, root.file.as_ref()?))) {
                let (href, path) = (encoded(root.name.as_bytes()), root.folder.entry_path(file.as_os_str()));
                let named = list.entries.iter_mut().filter(|entry| entry.href == href);
                named.for_each(|entry| entry.archived = Archived::read(&path, &mut room_bytes).ok());
            }
            return Ok(());
        };
        let folder = root.folder.folder(&path)?;
        list.archived = Archived::read(&folder.entry_path(OsStr::new(".")), &mut room_bytes).ok();
        for entry in &mut list.entries {
            let Ok(name) = entry.file_name() else { continue };
            entry.archived =
                Archived::read(&folder.entry_path(OsStr::from_bytes(&name)), &mut room_bytes).ok();
            if entry.link {
                entry.kind = ListedKind::Link;
            }
        }
        Ok(())
    }

    /// The root and the path below it; none at the top of several roots.
    fn place(&self, names: &[Vec<u8>]) -> io::Result<Option<(&ServedRoot, PathBuf)>> {
        if names.iter().any(|name| is_unfinished(name)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let (root, below) = match (self.is_one_folder, names) {
            (true, below) => (self.roots.first().ok_or(io::ErrorKind::NotFound)?, below),
            (false, []) => return Ok(None),
            (false, [first, below @ ..]) => {
                let named = self.roots.iter().find(|root| root.name.as_bytes() == first.as_slice());
                (named.ok_or(io::ErrorKind::NotFound)?, below)
            }
        };
        match &root.file {
            None => Ok(Some((root, below.iter().map(|name| OsStr::from_bytes(name)).collect()))),
            Some(file) if below.is_empty() => Ok(Some((root, file.clone()))),
            Some(_) => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

impl ServedRoot {
    fn open_file(&self, path: &Path, direct: bool) -> io::Result<File> {
        match &self.nameless {
            Some(file) => reopen(file, Opening { direct, ..Opening::default() }),
            None => self.folder.open_file(path, direct),
        }
    }

    fn entry(&self) -> Option<ConfinedEntry> {
        let (name, is_link) = (self.name.clone(), false);
        let Some(file) = &self.file else {
            return Some(ConfinedEntry { name, kind: EntryKind::Folder, bytes: 0, modified: 0, is_link });
        };
        let metadata = self.open_file(file, false).and_then(|file| file.metadata()).ok()?;
        let (bytes, modified) = (metadata.len(), FileId::new(&metadata).seconds());
        Some(ConfinedEntry { name, kind: EntryKind::File, bytes, modified, is_link })
    }
}

fn served_root(path: &Path) -> Result<ServedRoot, Failure> {
    let lacks = |why: &dyn std::fmt::Display| Failure::Lacks(format!("{}: {why}", path.display()));
    // What the user names may be a link; what is below it may not lead out.
    let real = path.canonicalize().map_err(|error| lacks(&why_unreachable(&error)))?;
    let name = path.file_name().or(real.file_name()).unwrap_or(OsStr::new("root")).to_os_string();
    let is_folder = real.metadata().map_err(|error| lacks(&why_unreachable(&error)))?.is_dir();
    let (folder, file) = match (is_folder, real.parent(), real.file_name()) {
        (true, ..) => (real.as_path(), None),
        (false, Some(parent), Some(file)) => (parent, Some(PathBuf::from(file))),
        (false, ..) => return Err(lacks(&"it is neither a file nor a folder")),
    };
    let folder = ConfinedFolder::open(folder).map_err(|error| match error.kind() {
        io::ErrorKind::Unsupported => lacks(
            &"this kernel has no openat2, without which nothing is served: Linux 5.6 or newer is needed, \
                    in a container or service whose filter allows it (systemd's RestrictSUIDSGID= and DynamicUser= do not)",
        ),
        _ => lacks(&why_unreachable(&error)),
    })?;
    if let Some(file) = &file {
        folder.open_file(file, false).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => lacks(&"only regular files and folders are served"),
            _ => lacks(&why_unreachable(&error)),
        })?;
    }
    Ok(ServedRoot { name, folder, file, nameless: None })
}

fn why_unreachable(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "not there; check the path".into(),
        io::ErrorKind::PermissionDenied => "no permission to read it; start as a user who may".into(),
        _ => error.to_string(),
    }
}

impl std::fmt::Display for ServedTree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<String> =
            self.roots.iter().map(|root| root.name.to_string_lossy().into_owned()).collect();
        f.write_str(&listed(&names.iter().map(String::as_str).collect::<Vec<_>>(), 3))
    }
}

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
        let FileId { device, inode, bytes, modified: (seconds, nanos) } = id;
        let entity_tag = format!("\"{device:x}-{inode:x}-{bytes:x}-{seconds:x}.{nanos:x}\"");
        let validators = Validators { entity_tag, modified: id.seconds() };
        Ok(OpenedFile { file: Arc::new(file), id, validators })
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

#[cfg(test)]
mod tests {
    use super::*;

    fn names(path: &str) -> Vec<Vec<u8>> {
        path.split('/').filter(|name| !name.is_empty()).map(|name| name.as_bytes().to_vec()).collect()
    }

    #[test]
    fn one_folder_is_the_top_and_several_have_names() {
        let place = tempfile::tempdir().expect("a folder");
        let at = |name: &str| place.path().join(name);
        std::fs::create_dir_all(at("a/sub")).expect("folders");
        for file in ["a/sub/f", "b", "a/.x.linerate-part"] {
            std::fs::write(at(file), "text").expect("a file");
        }
        let one = ServedTree::open(&[at("a")]).expect("opened");
        assert_eq!(one.tops(), ["/"]);
        assert_eq!(one.kind(&names("sub")).expect("there"), ServedKind::Folder);
        assert_eq!(one.kind(&names("sub/f")).expect("there"), ServedKind::File);
        assert_eq!(one.list(&[], 9).expect("a list").0.len(), 1, "what is unfinished is not there");
        assert!(one.kind(&names(".x.linerate-part")).is_err() && one.kind(&names("a")).is_err());
        let two = ServedTree::open(&[at("a"), at("b")]).expect("opened");
        assert_eq!(two.tops(), ["/a/", "/b"]);
        assert_eq!(two.kind(&[]).expect("the top"), ServedKind::Folder);
        assert_eq!(two.list(&[], 9).expect("a list").0.len(), 2);
        two.open_file(&names("b"), false).expect("the file");
        two.open_file(&names("a/sub/f"), false).expect("the file");
        for wrong in ["c", "b/x", "sub/f"] {
            assert!(two.open_file(&names(wrong), false).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_cannot_be_served_is_said_at_the_start() {
        let place = tempfile::tempdir().expect("a folder");
        let status = |paths: &[PathBuf]| ServedTree::open(paths).expect_err("refused").exit_status();
        assert_eq!(status(&[place.path().join("nothing")]), 3);
        assert_eq!(status(&[PathBuf::from("/dev/null")]), 3);
        std::fs::create_dir_all(place.path().join("x/same")).expect("folders");
        std::fs::create_dir_all(place.path().join("y/same")).expect("folders");
        assert_eq!(status(&[place.path().join("x/same"), place.path().join("y/same")]), 2);
    }
}
