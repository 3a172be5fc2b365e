//! A tarball of a recorded machine, read once into memory: nothing is unpacked to disk, so nothing in it can
//! land anywhere.
//!
//! What a hostile archive can cost is bounded by [`Limits`]. Hard links, devices and FIFOs are left out and
//! said; a symbolic link is only a text here, which `Sysroot` follows inside the tree.

mod compression;
mod members;
mod tree;

use super::tree_location::NodeKind;
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
    /// Reads a tarball, plain or compressed with gzip, bzip2, xz or zstd, told by its first bytes. The tree
    /// is the folder in it that holds `sys` or `proc`. The error is a sentence with the file's name.
    pub fn open(file: &Path, limits: &ArchiveLimits) -> Result<Self, String> {
        let say = |why: String| format!("{}: {why}", file.display());
        let opened = std::fs::File::open(file).map_err(|error| say(unopened(&error)))?;
        match opened.metadata() {
            Ok(metadata) if metadata.is_file() => {}
            _ => return Err(say("neither a folder nor a file; name a recorded machine's".into())),
        }
        Archive::read_from(opened, limits).map_err(say)
    }

    /// The same from any bytes. The error is a sentence without a file's name.
    pub fn read_from(bytes: impl std::io::Read, limits: &ArchiveLimits) -> Result<Self, String> {
        let (plain, compression) = compression::decompress(bytes)?;
        let (mut tree, left_out) = members::read(plain, compression, limits)?;
        if !tree.descend_to_root() {
            return Err("holds neither sys/ nor proc/; name the tarball of a recorded machine".into());
        }
        Ok(Archive { tree, left_out: left_out.said() })
    }

    /// What was left out, and why; the first few.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    pub(super) fn read(&self, path: &Path) -> Result<Vec<u8>, String> {
        match self.tree.find(path) {
            Some(Node::File(bytes)) => Ok(bytes.to_vec()),
            Some(_) => Err("no regular file".into()),
            None => Err("not there".into()),
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

fn unopened(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "not there; check the path".into(),
        _ => format!("{error}; name a folder or a tarball that you may read"),
    }
}

#[cfg(test)]
mod tests;
