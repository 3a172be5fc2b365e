//! The members of a tarball, taken within the limits into a tree: the files of an archive by path, in memory.

use super::{ArchiveError, ArchiveLimits, Compression, ExceededLimit};
use crate::sysroot::LARGEST_ATTRIBUTE_BYTES;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;
use tar::EntryType;

/// Where a message says that no member was read yet.
const START: &str = "its start";

/// So many members that were left out are named.
const MOST_NAMED: usize = 8;

/// Members that were left out.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    named: Vec<String>,
    more: u64,
}

impl LeftOut {
    fn add(&mut self, path: &[u8], why: &str) {
        if self.named.len() < MOST_NAMED {
            self.named.push(format!("{} ({why})", shown_path(path)));
        } else {
            self.more += 1;
        }
    }

    pub(crate) fn said(mut self) -> Vec<String> {
        if self.more > 0 {
            self.named.push(format!("and {} more", self.more));
        }
        self.named
    }
}

/// Reads all members. The error names the member, or the one before it.
pub(super) fn read(
    plain: impl Read,
    compression: Compression,
    limits: &ArchiveLimits,
) -> Result<(Tree, LeftOut), ArchiveError> {
    let budget = Budget::new(limits);
    let mut archive = tar::Archive::new(Counted { inner: plain, budget: budget.clone() });
    let (mut tree, mut left_out) = (Tree::new(), LeftOut::default());
    let mut kept_bytes = 0;
    let mut before = String::from(START);
    let damaged = |error: io::Error, near: &str| match budget.exceeded.take() {
        Some(limit) => ArchiveError::Bomb { limit, near: near.into() },
        None if near == START && compression == Compression::None => ArchiveError::NoTarball(compression),
        None => ArchiveError::Damaged { near: near.into(), error, compression },
    };
    let mut entries = archive.entries().map_err(|error| damaged(error, &before))?;
    let mut members = 0;
    loop {
        budget.header();
        let Some(entry) = entries.next() else { break };
        let mut entry = entry.map_err(|error| damaged(error, &before))?;
        budget.content();
        members += 1;
        // One member of a deep path makes dozens of folders: what is counted is what takes memory.
        if members.max(tree.len() as u64) > limits.members {
            return Err(ArchiveError::TooMany(limits.members));
        }
        let name = entry.path_bytes().into_owned();
        before = shown_path(&name);
        let path = match path_in_tree(&name, limits) {
            Ok(path) => path,
            Err(why) => {
                left_out.add(&name, why);
                read_past(&mut entry, &budget).map_err(|error| damaged(error, &before))?;
                continue;
            }
        };
        let node = match entry.header().entry_type() {
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                let mut bytes = Vec::new();
                let kept = entry.by_ref().take(LARGEST_ATTRIBUTE_BYTES).read_to_end(&mut bytes);
                kept.map_err(|error| damaged(error, &before))?;
                kept_bytes += bytes.len() as u64;
                Node::File(bytes.into())
            }
            EntryType::Directory => Node::Directory(BTreeMap::new()),
            EntryType::Symlink => match link_target(&entry, limits) {
                Some(target) => {
                    kept_bytes += target.as_os_str().len() as u64;
                    Node::Link(target)
                }
                None => {
                    left_out.add(&name, "a link to a path that is empty or too long");
                    continue;
                }
            },
            other => {
                left_out.add(&name, what_it_is(other));
                read_past(&mut entry, &budget).map_err(|error| damaged(error, &before))?;
                continue;
            }
        };
        read_past(&mut entry, &budget).map_err(|error| damaged(error, &before))?;
        kept_bytes += name.len() as u64;
        if kept_bytes > limits.kept_bytes {
            return Err(ArchiveError::TooLarge(limits.kept_bytes));
        }
        tree.put(&path, node);
    }
    if members == 0 {
        return Err(ArchiveError::NoMembers(compression));
    }
    Ok((tree, left_out))
}

/// Reads on to the end of a member, so that the next call reads a header and nothing else. The holes of a
/// sparse file are read from nowhere and count like other bytes.
fn read_past(entry: &mut impl Read, budget: &Budget) -> io::Result<()> {
    let left = budget.content.get();
    let passed = io::copy(&mut entry.take(left.saturating_add(1)), &mut io::sink())?;
    budget.content.set(left.saturating_sub(passed));
    match passed > left {
        true => Err(budget.exceed(ExceededLimit::Unpacked(budget.limits.unpacked_bytes))),
        false => Ok(()),
    }
}

/// The path of a member without a leading slash; the error says why it has none in the tree.
fn path_in_tree(name: &[u8], limits: &ArchiveLimits) -> Result<PathBuf, &'static str> {
    use std::os::unix::ffi::OsStrExt;
    if name.len() > limits.path_bytes {
        return Err("its path is too long");
    }
    let mut inside = PathBuf::new();
    for part in Path::new(std::ffi::OsStr::from_bytes(name)).components() {
        match part {
            Component::Normal(part) => inside.push(part),
            Component::ParentDir => return Err("its path climbs out with “..”"),
            _ => {}
        }
    }
    match inside.components().count() > limits.depth {
        true => Err("it lies in too many folders"),
        false => Ok(inside),
    }
}

fn link_target<R: Read>(entry: &tar::Entry<'_, R>, limits: &ArchiveLimits) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    let target = entry.link_name_bytes()?;
    let usable = !target.is_empty() && target.len() <= limits.path_bytes;
    usable.then(|| PathBuf::from(std::ffi::OsStr::from_bytes(&target)))
}

fn what_it_is(kind: EntryType) -> &'static str {
    match kind {
        EntryType::Link => "a hard link",
        EntryType::Char | EntryType::Block => "a device",
        EntryType::Fifo => "a FIFO",
        _ => "no file, folder or link",
    }
}

fn shown_path(path: &[u8]) -> String {
    let text = String::from_utf8_lossy(path);
    match text.chars().count() {
        0..=120 => text.into_owned(),
        _ => text.chars().take(117).chain("...".chars()).collect(),
    }
}

/// What may still be read: in all, and of the header that is being read.
struct Budget {
    unpacked: Cell<u64>,
    /// Of the members' contents.
    content: Cell<u64>,
    header: Cell<Option<u64>>,
    limits: ArchiveLimits,
    exceeded: Cell<Option<ExceededLimit>>,
}

impl Budget {
    fn new(limits: &ArchiveLimits) -> Rc<Self> {
        let all = limits.unpacked_bytes;
        Rc::new(Budget {
            unpacked: Cell::new(all),
            content: Cell::new(all),
            header: Cell::new(None),
            limits: limits.clone(),
            exceeded: Cell::new(None),
        })
    }

    /// What comes now is a header: names, which the reader of tarballs holds in memory.
    fn header(&self) {
        self.header.set(Some(self.limits.header_bytes));
    }

    /// What comes now is a member's content.
    fn content(&self) {
        self.header.set(None);
    }

    /// Notes which limit was met, for the message.
    fn exceed(&self, what: ExceededLimit) -> io::Error {
        self.exceeded.set(Some(what));
        io::Error::other("limit")
    }

    /// Most bytes that may be read now.
    fn left(&self) -> io::Result<u64> {
        let left = self.unpacked.get().min(self.header.get().unwrap_or(u64::MAX));
        if left > 0 {
            return Ok(left);
        }
        let what = match self.unpacked.get() {
            0 => ExceededLimit::Unpacked(self.limits.unpacked_bytes),
            _ => ExceededLimit::Header(self.limits.header_bytes),
        };
        Err(self.exceed(what))
    }

    fn take(&self, read: u64) {
        self.unpacked.set(self.unpacked.get().saturating_sub(read));
        self.header.set(self.header.get().map(|left| left.saturating_sub(read)));
    }
}

/// Reads within the budget.
struct Counted<R> {
    inner: R,
    budget: Rc<Budget>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = self.budget.left()?.min(buffer.len() as u64) as usize;
        let read = self.inner.read(&mut buffer[..most])?;
        self.budget.take(read as u64);
        Ok(read)
    }
}

/// Folders above `sys/` and `proc/` in an archive (`server7/`, `home/x/server7/`).
const DEEPEST_ROOT: usize = 4;

/// What is at a path; folders hold the places of what is in them.
#[derive(Debug)]
pub(super) enum Node {
    File(Box<[u8]>),
    Link(PathBuf),
    Directory(BTreeMap<OsString, usize>),
}

/// All nodes, and which of them is the root.
#[derive(Debug)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    root: usize,
}

impl Tree {
    pub(crate) fn new() -> Self {
        Tree { nodes: vec![Node::Directory(BTreeMap::new())], root: 0 }
    }

    /// Puts a node at a path of plain names. Folders above it are made; one that was another thing before
    /// becomes a folder, so that a link never has anything below it. A folder that is there already stays.
    pub(crate) fn put(&mut self, path: &Path, node: Node) {
        let mut at = 0;
        for name in path.components().filter_map(plain_name) {
            if !matches!(self.nodes[at], Node::Directory(_)) {
                self.nodes[at] = Node::Directory(BTreeMap::new());
            }
            let new = self.nodes.len();
            let Node::Directory(below) = &mut self.nodes[at] else { return };
            at = *below.entry(name.to_os_string()).or_insert(new);
            if at == new {
                self.nodes.push(Node::Directory(BTreeMap::new()));
            }
        }
        if at != 0 && !matches!((&self.nodes[at], &node), (Node::Directory(_), Node::Directory(_))) {
            self.nodes[at] = node;
        }
    }

    /// Files, links and folders, those among them that no member named.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Makes the nearest folder that holds `sys` or `proc` the root; false where there is none.
    pub(crate) fn descend_to_root(&mut self) -> bool {
        let mut level = vec![self.root];
        for _ in 0..=DEEPEST_ROOT {
            let is_root = |at: &&usize| ["sys", "proc"].iter().any(|name| self.is_folder(**at, name));
            if let Some(root) = level.iter().find(is_root) {
                self.root = *root;
                return true;
            }
            level = level.iter().flat_map(|at| self.below(*at)).copied().collect();
        }
        false
    }

    /// The node at a path below the root; links on the way are not followed.
    pub(crate) fn find(&self, path: &Path) -> Option<&Node> {
        let mut at = self.root;
        for name in path.components().filter_map(plain_name) {
            let Node::Directory(below) = &self.nodes[at] else { return None };
            at = *below.get(name)?;
        }
        Some(&self.nodes[at])
    }

    /// Names in a folder below the root.
    pub(crate) fn names(&self, path: &Path) -> Option<Vec<OsString>> {
        match self.find(path)? {
            Node::Directory(below) => Some(below.keys().cloned().collect()),
            _ => None,
        }
    }

    fn below(&self, at: usize) -> impl Iterator<Item = &usize> {
        let below = match &self.nodes[at] {
            Node::Directory(below) => Some(below.values()),
            _ => None,
        };
        below.into_iter().flatten()
    }

    fn is_folder(&self, at: usize, name: &str) -> bool {
        match &self.nodes[at] {
            Node::Directory(below) => {
                below.get(OsStr::new(name)).is_some_and(|at| matches!(self.nodes[*at], Node::Directory(_)))
            }
            _ => false,
        }
    }
}

fn plain_name(part: Component<'_>) -> Option<&OsStr> {
    match part {
        Component::Normal(name) => Some(name),
        _ => None,
    }
}
