//! A tarball of a recorded machine, read once into memory: nothing is unpacked to disk, so nothing in it can
//! land anywhere.
//!
//! What a hostile archive can cost is bounded by [`ArchiveLimits`]. Hard links, devices and FIFOs are left out
//! and said; a symbolic link is only a text here, which `Sysroot` follows inside the tree.
//!
//! Tarballs come in several compressions, each taken apart by a decoder whose memory is bounded.

mod members;

use super::UnreadReason;
use super::tree_location::NodeKind;
use lzma_rust2::XzReader;
use members::{Node, Tree};
use ruzstd::decoding::StreamingDecoder;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};
use std::path::{Path, PathBuf};
use thiserror::Error;

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
        let (plain, compression) = decompress(bytes)?;
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

/// A sentence for who named the file, without its name.
#[derive(Debug, Error)]
pub enum ArchiveError {
    #[error("not there; check the path")]
    Absent,
    #[error("{0}; name a folder or a tarball that you may read")]
    Unopened(io::Error),
    #[error("neither a folder nor a file; name a recorded machine's")]
    NoFile,
    #[error("cannot be read: {0}")]
    Unreadable(io::Error),
    #[error("is empty; name the tarball of a recorded machine")]
    Empty,
    #[error("holds neither sys/ nor proc/; name the tarball of a recorded machine")]
    NoTree,
    #[error("no tarball{}", .0.remedy())]
    NoTarball(Compression),
    #[error("no tarball: nothing in it can be read{}", .0.remedy())]
    NoMembers(Compression),
    /// `near` names the member, or the one before it.
    #[error("damaged near {near}: {error}{}", compression.remedy())]
    Damaged { near: String, error: io::Error, compression: Compression },
    #[error("{limit}, near {near}: no recorded machine; it may be a compression bomb")]
    Bomb { limit: ExceededLimit, near: String },
    #[error("more than {0} files and folders: no recorded machine")]
    TooMany(u64),
    #[error("its files hold more than {0} bytes: no recorded machine")]
    TooLarge(u64),
}

/// The limit that reading met.
#[derive(Clone, Copy, Debug, Error)]
pub enum ExceededLimit {
    #[error("unpacks to more than {0} bytes")]
    Unpacked(u64),
    #[error("a member's header is larger than {0} bytes")]
    Header(u64),
}

/// What xz may take for its dictionary: 64 MiB is what `xz -9` needs.
const XZ_MEMORY_KIB: u32 = 80 << 10;
/// The window that zstd may ask for: `zstd --long` needs 128 MiB, `-19` 8 MiB.
const ZSTD_WINDOW_BYTES: u64 = 128 << 20;

type Source<R> = BufReader<Chain<Cursor<Vec<u8>>, R>>;

/// What an archive was compressed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    None,
    Gzip,
    Bzip2,
    Xz,
    Zstd,
}

impl Compression {
    /// The end of a sentence about a damaged archive.
    fn remedy(self) -> &'static str {
        match self {
            Compression::None => "; name a tarball, plain or compressed with gzip, bzip2, xz or zstd",
            Compression::Gzip => "; copy it again, or try “gzip -t” on it",
            Compression::Bzip2 => "; copy it again, or try “bzip2 -t” on it",
            Compression::Xz => "; copy it again, or unpack it with “xz -d”",
            Compression::Zstd => "; copy it again, or unpack it with “zstd -d”",
        }
    }
}

/// The plain bytes, and what the archive was compressed with.
fn decompress<'a>(mut bytes: impl Read + 'a) -> Result<(Box<dyn Read + 'a>, Compression), ArchiveError> {
    let mut start = Vec::new();
    bytes.by_ref().take(6).read_to_end(&mut start).map_err(ArchiveError::Unreadable)?;
    let magic = start.clone();
    let source = BufReader::new(Cursor::new(start).chain(bytes));
    Ok(match magic.as_slice() {
        [] => return Err(ArchiveError::Empty),
        [0x1f, 0x8b, ..] => (Box::new(flate2::bufread::MultiGzDecoder::new(source)), Compression::Gzip),
        [b'B', b'Z', b'h', b'1'..=b'9', ..] => {
            (Box::new(bzip2::bufread::MultiBzDecoder::new(source)), Compression::Bzip2)
        }
        [0xfd, b'7', b'z', b'X', b'Z', 0] => {
            (Box::new(XzReader::new_mem_limit(source, true, XZ_MEMORY_KIB)), Compression::Xz)
        }
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            (Box::new(Zstd { source: Some(source), decoder: None }), Compression::Zstd)
        }
        _ => (Box::new(source), Compression::None),
    })
}

/// zstd may be cut into frames (`pzstd`), which the decoder takes one at a time.
struct Zstd<R: Read> {
    source: Option<Source<R>>,
    decoder: Option<StreamingDecoder<Source<R>, ruzstd::decoding::FrameDecoder>>,
}

impl<R: Read> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            if let Some(mut decoder) = self.decoder.take() {
                let read = decoder.read(buffer)?;
                if read > 0 {
                    self.decoder = Some(decoder);
                    return Ok(read);
                }
                self.source = Some(decoder.into_inner());
            }
            let Some(mut source) = self.source.take() else { return Ok(0) };
            if source.fill_buf()?.is_empty() {
                return Ok(0);
            }
            let decoder = StreamingDecoder::new_with_max_window_size(source, ZSTD_WINDOW_BYTES);
            self.decoder = Some(decoder.map_err(|error| io::Error::other(error.to_string()))?);
        }
    }
}

#[cfg(test)]
mod tests;
