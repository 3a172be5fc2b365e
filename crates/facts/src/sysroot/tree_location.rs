//! The three places that a tree can lie in, and the four questions that each answers. Paths have no leading
//! slash; links are not followed but by the kernel of the live machine. Symbolic links of a recorded tree are
//! followed inside it. A [`Recording`] is a note of everything that readers asked a tree for: enough to lay down a tree
//! that answers the same.

use super::{Archive, LARGEST_ATTRIBUTE_BYTES, UnreadReason, Unreadable};
use linerate_system::lock;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

/// As many links as the kernel follows (`MAXSYMLINKS`).
const MOST_LINKS: u32 = 40;

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeKind {
    Directory,
    /// A file; on disk also a device or a FIFO.
    File,
}

/// A file that is read in pieces.
#[derive(Debug)]
pub enum PieceReader {
    Disk(std::fs::File),
    Memory(Vec<u8>),
}

impl PieceReader {
    /// The whole content now, into a buffer that is emptied first. A file of the kernel's is read again each
    /// time, without opening it again.
    pub fn read_whole(&self, into: &mut Vec<u8>) -> Result<(), UnreadReason> {
        into.clear();
        let file = match self {
            PieceReader::Memory(bytes) => {
                into.extend_from_slice(bytes);
                return Ok(());
            }
            PieceReader::Disk(file) => file,
        };
        let most = LARGEST_ATTRIBUTE_BYTES as usize;
        let mut filled = 0;
        while filled < most {
            if filled == into.len() {
                into.resize((filled * 2).clamp(4096, most), 0);
            }
            match file.read_at(&mut into[filled..], filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        into.truncate(filled);
        Ok(())
    }

    /// The four bytes at an offset; `None` where the file ends before or cannot be read there.
    pub fn four_bytes(&self, at: usize) -> Option<[u8; 4]> {
        match self {
            PieceReader::Memory(bytes) => bytes.get(at..)?.first_chunk().copied(),
            PieceReader::Disk(file) => {
                let mut bytes = [0; 4];
                file.read_exact_at(&mut bytes, u64::try_from(at).ok()?).ok()?;
                Some(bytes)
            }
        }
    }
}

/// Where a tree lies.
#[derive(Clone, Debug)]
pub(super) enum TreeLocation {
    Live,
    Directory(PathBuf),
    Archive(Arc<Archive>),
}

impl TreeLocation {
    /// The content of a file.
    pub(crate) fn read(&self, path: &Path) -> Result<Vec<u8>, UnreadReason> {
        use std::io::Read;
        if let TreeLocation::Archive(archive) = self {
            return archive.read(path);
        }
        // Room for what most attributes have: else the first read is one of 32 bytes.
        let mut bytes = Vec::with_capacity(4096);
        self.open(path)?.take(LARGEST_ATTRIBUTE_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// A file on disk.
    pub(crate) fn open(&self, path: &Path) -> Result<std::fs::File, UnreadReason> {
        let place = self.on_disk(path);
        // Opening a FIFO that somebody put into a recorded tree would wait for its writer.
        if !matches!(self, TreeLocation::Live) && !std::fs::metadata(&place)?.is_file() {
            return Err(UnreadReason::NoFile);
        }
        Ok(std::fs::File::open(place)?)
    }

    /// Names in a directory.
    pub(crate) fn names(&self, path: &Path) -> Option<Vec<OsString>> {
        match self {
            TreeLocation::Archive(archive) => archive.names(path),
            _ => Some(
                std::fs::read_dir(self.on_disk(path))
                    .ok()?
                    .flatten()
                    .map(|entry| entry.file_name())
                    .collect(),
            ),
        }
    }

    /// What a symbolic link points to; `None` where it is none.
    pub(crate) fn link(&self, path: &Path) -> Option<PathBuf> {
        match self {
            TreeLocation::Archive(archive) => archive.link(path),
            _ => std::fs::read_link(self.on_disk(path)).ok(),
        }
    }

    /// What is there.
    pub(crate) fn kind(&self, path: &Path) -> Option<NodeKind> {
        match self {
            TreeLocation::Archive(archive) => archive.kind(path),
            _ => {
                let directory = std::fs::metadata(self.on_disk(path)).ok()?.is_dir();
                Some(if directory { NodeKind::Directory } else { NodeKind::File })
            }
        }
    }

    fn on_disk(&self, path: &Path) -> PathBuf {
        match self {
            TreeLocation::Directory(root) => root.join(path),
            _ => Path::new("/").join(path),
        }
    }
}

/// Walks an absolute path component by component; a link that is absolute or climbs stays within the root.
/// `link` gives what the link at a path points to, `None` where it is not a link; paths are given, and returned,
/// without a leading slash.
pub(super) fn resolve(
    absolute: &Path,
    link: impl Fn(&Path) -> Option<PathBuf>,
) -> Result<PathBuf, Unreadable> {
    let mut inside = PathBuf::new();
    let mut pending: Vec<OsString> = components(absolute);
    let mut links = 0;
    while let Some(next) = pending.pop() {
        if next == ".." {
            inside.pop();
            continue;
        }
        inside.push(&next);
        let Some(target) = link(&inside) else { continue };
        links += 1;
        if links > MOST_LINKS {
            return Err(Unreadable::new(absolute, UnreadReason::TooManyLinks));
        }
        inside.pop();
        if target.is_absolute() {
            inside = PathBuf::new();
        }
        pending.extend(components(&target));
    }
    Ok(inside)
}

/// Components of a path, last first, without the root and `.`.
fn components(path: &Path) -> Vec<OsString> {
    let mut parts: Vec<_> = path
        .components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_os_string()),
            Component::ParentDir => Some("..".into()),
            _ => None,
        })
        .collect();
    parts.reverse();
    parts
}

/// What was found at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// A file with its content.
    File(Vec<u8>),
    /// A file that could not be read, or that nobody asked to read, with the reason.
    Unread(UnreadReason),
    /// A symbolic link and what it points to.
    Link(PathBuf),
    /// A directory.
    Directory,
}

/// What was asked for, by path without a leading slash. Clones share one note.
#[derive(Clone, Debug, Default)]
pub struct Recording(Arc<Mutex<BTreeMap<PathBuf, Recorded>>>);

impl Recording {
    /// What was noted so far.
    pub fn entries(&self) -> BTreeMap<PathBuf, Recorded> {
        self.lock().clone()
    }

    pub(super) fn file(&self, path: PathBuf, read: &Result<Vec<u8>, UnreadReason>) {
        let mut entries = self.lock();
        match read {
            // A file that changes while it is recorded keeps its first content, as far as that was read.
            Ok(bytes) if !matches!(entries.get(&path), Some(Recorded::File(_))) => {
                entries.insert(path, Recorded::File(bytes.clone()));
            }
            Ok(_) => {}
            Err(UnreadReason::Absent) => {}
            Err(why) => match entries.get(&path) {
                None | Some(Recorded::Unread(UnreadReason::NotRecorded)) => {
                    entries.insert(path, Recorded::Unread(why.clone()));
                }
                Some(_) => {}
            },
        }
    }

    pub(super) fn link(&self, path: &Path, target: &Path) {
        self.lock().insert(path.to_path_buf(), Recorded::Link(target.to_path_buf()));
    }

    pub(super) fn seen(&self, path: PathBuf, kind: NodeKind) {
        self.lock().entry(path).or_insert_with(|| match kind {
            NodeKind::Directory => Recorded::Directory,
            NodeKind::File => Recorded::Unread(UnreadReason::NotRecorded),
        });
    }

    /// A directory with all its names, so that it lists the same again.
    pub(super) fn directory(&self, path: &Path, names: &[OsString], place: &TreeLocation) {
        self.seen(path.to_path_buf(), NodeKind::Directory);
        for name in names {
            let below = path.join(name);
            match place.link(&below) {
                Some(target) => self.link(&below, &target),
                None => {
                    if let Some(kind) = place.kind(&below) {
                        self.seen(below, kind);
                    }
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Recorded>> {
        // Nothing panics while it is held; a poisoned note is as good as another.
        lock(&self.0)
    }
}
