//! The files of an archive by path, in memory.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

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
