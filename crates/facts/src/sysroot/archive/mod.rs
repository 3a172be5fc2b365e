//! A tarball of a recorded machine, read once into memory: nothing is unpacked to disk, so nothing in it can
//! land anywhere.
//!
//! What a hostile archive can cost is bounded by [`ArchiveLimits`]. Hard links, devices and FIFOs are left out and
//! said; a symbolic link is only a text here, which `Sysroot` follows inside the tree.

mod compression;
mod error;
mod members;
mod tree;

use super::UnreadReason;
use super::tree_location::NodeKind;
pub use error::ArchiveError;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use tree::{Node, Tree};

/// How much an archive may hold. The defaults are ten times what a server's whole `/sys` and `/proc` come to.
#[derive(Clone, Debug)]
pub struct ArchiveLimits {
    /// Bytes after decompression, padding and members that are left out included.
    pub unpacked_bytes: u64,
    /// Bytes of all names, link targets and file contents kept in memory.
    pub kept_bytes: u64,
    /// Members, and files, links and folders that they make.
    pub members: u64,
    /// Bytes of one member's header: its name and what it links to.
    pub header_bytes: u64,
    /// Bytes of a path, and of what a link points to.
    pub path_bytes: usize,
    /// Folders above each other.
    pub depth: usize,
}

impl Default for ArchiveLimits {
    fn default() -> Self {
        ArchiveLimits {
            unpacked_bytes: 1 << 30,
            kept_bytes: 256 << 20,
            members: 1 << 20,
            header_bytes: 64 << 10,
            path_bytes: 4096,
            depth: 64,
        }
    }
}

/// A tree of files in memory.
#[derive(Debug)]
pub struct Archive {
    tree: Tree,
    left_out: Vec<String>,
}

impl Archive {
    /// Reads a tarball, plain or compressed with gzip, bzip2, xz or zstd, known by its first bytes. The tree
    /// is the folder in it that holds `sys` or `proc`.
    pub fn open(file: &Path, limits: &ArchiveLimits) -> Result<Self, ArchiveError> {
        let opened = std::fs::File::open(file).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => ArchiveError::Absent,
            _ => ArchiveError::Unopened(error),
        })?;
        match opened.metadata() {
            Ok(metadata) if metadata.is_file() => Archive::read_from(opened, limits),
            _ => Err(ArchiveError::NoFile),
        }
    }

    /// The same from any bytes.
    pub fn read_from(bytes: impl std::io::Read, limits: &ArchiveLimits) -> Result<Self, ArchiveError> {
        let (plain, compression) = compression::decompress(bytes)?;
        let (mut tree, left_out) = members::read(plain, compression, limits)?;
        if !tree.descend_to_root() {
            return Err(ArchiveError::NoTree);
        }
        Ok(Archive { tree, left_out: left_out.said() })
    }

    /// These files and the folders above them.
    pub(super) fn of_files(files: impl IntoIterator<Item = (PathBuf, Vec<u8>)>) -> Self {
        let mut tree = Tree::new();
        for (path, bytes) in files {
            tree.put(&path, Node::File(bytes.into_boxed_slice()));
        }
        Archive { tree, left_out: Vec::new() }
    }

    /// What was left out, and why; the first few.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    pub(super) fn read(&self, path: &Path) -> Result<Vec<u8>, UnreadReason> {
        match self.tree.find(path) {
            Some(Node::File(bytes)) => Ok(bytes.to_vec()),
            Some(_) => Err(UnreadReason::NoFile),
            None => Err(UnreadReason::Absent),
        }
    }

    pub(super) fn names(&self, path: &Path) -> Option<Vec<OsString>> {
        self.tree.names(path)
    }

    pub(super) fn link(&self, path: &Path) -> Option<PathBuf> {
        match self.tree.find(path) {
            Some(Node::Link(target)) => Some(target.clone()),
            _ => None,
        }
    }

    pub(super) fn kind(&self, path: &Path) -> Option<NodeKind> {
        match self.tree.find(path)? {
            Node::Directory(_) => Some(NodeKind::Directory),
            Node::File(_) => Some(NodeKind::File),
            Node::Link(_) => None,
        }
    }
}

#[cfg(test)]
mod tests;
