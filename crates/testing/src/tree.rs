//! A recorded system made by hand.

use crate::folder_in_memory;
use linerate_facts::sysroot::Sysroot;
use std::path::{Path, PathBuf};

/// A small tree of `/proc` and `/sys` made by hand, in a folder that goes with it.
pub struct Tree(tempfile::TempDir);

impl Tree {
    /// Files by path (without a leading slash) and text.
    pub fn new(files: &[(&str, &str)]) -> Self {
        let mut tree = Tree(folder_in_memory());
        for (path, text) in files {
            tree.put(path, text);
        }
        tree
    }

    /// One more file.
    pub fn put(&mut self, path: &str, text: &str) {
        std::fs::write(self.place(path), text).expect("a file");
    }

    /// One more file, of any bytes.
    pub fn put_bytes(&mut self, path: &str, bytes: &[u8]) {
        std::fs::write(self.place(path), bytes).expect("a file");
    }

    /// A symbolic link.
    pub fn link(&mut self, path: &str, target: &str) {
        std::os::unix::fs::symlink(target, self.place(path)).expect("a link");
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn sysroot(&self) -> Sysroot {
        Sysroot::recorded(self.0.path())
    }

    fn place(&self, path: &str) -> PathBuf {
        let place = self.0.path().join(path);
        std::fs::create_dir_all(place.parent().expect("a parent")).expect("directories");
        place
    }
}
