//! A note of everything that readers asked a tree for: enough to lay down a tree that answers the same.

use super::UnreadReason;
use super::tree_location::{NodeKind, TreeLocation};
use linerate_system::lock;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

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
