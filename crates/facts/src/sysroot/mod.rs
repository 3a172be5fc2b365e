//! The one door to `/sys` and `/proc`: the live system, a directory where somebody recorded them, or a tarball
//! of one.
//!
//! Readers ask for absolute paths (`/sys/class/net`); the root is put before them. Symbolic links of a
//! recorded tree are resolved inside that tree, so that a reading never leaves it.

mod archive;
mod tree_location;
mod write;

use crate::fact::{Fact, NOT_RECORDED};
use crate::failure::Failure;
pub use archive::{Archive, ArchiveError, ArchiveLimits};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use thiserror::Error;
use tree_location::{NodeKind, TreeLocation};
pub use tree_location::{PieceReader, Recorded, Recording};
pub use write::{ReadOnlyTree, Writer};

/// No attribute of `/sys` or `/proc` that linerate reads is larger; more is cut off, so that a hostile tree
/// costs no memory.
pub(crate) const LARGEST_ATTRIBUTE_BYTES: u64 = 4 << 20;

/// In a tree that `linerate probe --capture` made: the files that could not be read or were not asked for, each with
/// the reason, as one JSON object. They lie in the tree as empty files.
pub const UNREAD: &str = "linerate/unread.json";

/// Where readers read from.
#[derive(Clone, Debug)]
pub struct Sysroot {
    place: TreeLocation,
    /// Reasons of a captured tree's unread files, by path without the leading slash.
    unread: Arc<BTreeMap<PathBuf, UnreadReason>>,
    /// Notes what is asked for.
    recording: Option<Recording>,
}

impl Sysroot {
    /// The machine that linerate runs on.
    pub fn live() -> Self {
        Sysroot { place: TreeLocation::Live, unread: Arc::default(), recording: None }
    }

    /// A recorded tree that holds `sys/` and `proc/`.
    pub fn recorded(root: impl Into<PathBuf>) -> Self {
        Sysroot::of(TreeLocation::Directory(root.into()))
    }

    /// A recorded tree in an archive, held in memory.
    pub fn archive(archive: Archive) -> Self {
        Sysroot::of(TreeLocation::Archive(Arc::new(archive)))
    }

    /// A tree of these files alone, in memory: absolute paths and contents.
    pub fn files(files: impl IntoIterator<Item = (PathBuf, Vec<u8>)>) -> Self {
        Sysroot::archive(Archive::of_files(files))
    }

    /// What `tune --root` or a file of `probe` names: a directory that holds `sys/` or `proc/`, or a tarball with them.
    pub fn at(root: &Path) -> Result<Self, Failure> {
        if root.is_dir() {
            return match root.join("sys").is_dir() || root.join("proc").is_dir() {
                true => Ok(Sysroot::recorded(root)),
                false => Err(Failure::Lacks(format!(
                    "{}: holds neither sys/ nor proc/; name the folder of a recorded machine, or its tarball",
                    root.display()
                ))),
            };
        }
        let archive = Archive::open(root, &ArchiveLimits::default());
        archive.map(Sysroot::archive).map_err(|why| Failure::Lacks(format!("{}: {why}", root.display())))
    }

    fn of(place: TreeLocation) -> Self {
        let text = place.read(Path::new(UNREAD)).unwrap_or_default();
        // A list that is damaged says nothing: those files are then empty.
        let unread: BTreeMap<PathBuf, String> = serde_json::from_slice(&text).unwrap_or_default();
        let unread = unread.into_iter().map(|(path, why)| (path, why.into())).collect();
        Sysroot { place, unread: Arc::new(unread), recording: None }
    }

    /// The same tree, with everything that is asked for noted. A live machine counts as recorded here, so
    /// that readers ask for the files that they will ask for when the recording is read.
    pub fn record(&self) -> (Self, Recording) {
        let recording = Recording::default();
        (Sysroot { recording: Some(recording.clone()), ..self.clone() }, recording)
    }

    /// True for the machine itself: then system calls may be asked, too.
    pub fn is_live(&self) -> bool {
        matches!(self.place, TreeLocation::Live) && self.recording.is_none()
    }

    /// What was left out when an archive was read, for the user: `proc/kcore (hard link)`. At most a few,
    /// then how many more.
    pub fn left_out(&self) -> &[String] {
        match &self.place {
            TreeLocation::Archive(archive) => archive.left_out(),
            _ => &[],
        }
    }

    /// A file that `linerate probe --capture` laid beside the recorded `sys` and `proc` (its path without a leading
    /// slash). A live machine has none, nor has a tree that is being recorded again.
    pub fn beside(&self, path: &str) -> Option<Vec<u8>> {
        let recorded = !matches!(self.place, TreeLocation::Live) && self.recording.is_none();
        recorded.then(|| self.place.read(Path::new(path)).ok())?
    }

    /// The text of a file, trimmed at the end.
    pub fn text(&self, absolute: impl AsRef<Path>) -> Result<String, Unreadable> {
        let bytes = self.bytes(absolute)?;
        // Strings of the device tree end in a zero byte.
        Ok(String::from_utf8_lossy(&bytes)
            .trim_end_matches(|c: char| c == '\0' || c.is_whitespace())
            .to_string())
    }

    /// The bytes of a file, [`LARGEST_ATTRIBUTE_BYTES`] of them at most.
    pub fn bytes(&self, absolute: impl AsRef<Path>) -> Result<Vec<u8>, Unreadable> {
        let absolute = absolute.as_ref();
        let path = self.resolve(absolute)?;
        let read = self.unread.get(&path).map_or_else(|| self.place.read(&path), |why| Err(why.clone()));
        if let Some(recording) = &self.recording {
            recording.file(path, &read);
        }
        read.map_err(|reason| Unreadable::new(absolute, reason))
    }

    /// A file of which only pieces are read: of some files each byte costs a register access.
    pub fn open(&self, absolute: impl AsRef<Path>) -> Result<PieceReader, Unreadable> {
        let absolute = absolute.as_ref();
        // In an archive it is in memory already; a recording wants it whole.
        if matches!(self.place, TreeLocation::Archive(_)) || self.recording.is_some() {
            return self.bytes(absolute).map(PieceReader::Memory);
        }
        let path = self.resolve(absolute)?;
        let opened = self.unread.get(&path).map_or_else(|| self.place.open(&path), |why| Err(why.clone()));
        opened.map(PieceReader::Disk).map_err(|reason| Unreadable::new(absolute, reason))
    }

    /// A file's text as a fact.
    pub fn fact(&self, absolute: impl AsRef<Path>) -> Fact<String> {
        self.text(absolute).into()
    }

    /// A file's text parsed as a number or the like.
    pub fn parse<T: FromStr>(&self, absolute: impl AsRef<Path>) -> Fact<T> {
        let absolute = absolute.as_ref();
        let no_number = |text: &str| format!("{}: “{}” is not a number", absolute.display(), shorten(text));
        self.fact(absolute).and_then(|text| match text.trim().parse() {
            Ok(value) => Fact::Known(value),
            Err(_) => Fact::unknown(no_number(&text)),
        })
    }

    /// Names in a directory, sorted; empty where it cannot be read.
    pub fn list(&self, absolute: impl AsRef<Path>) -> Vec<String> {
        let Ok(path) = self.resolve(absolute.as_ref()) else { return Vec::new() };
        let Some(names) = self.place.names(&path) else { return Vec::new() };
        if let Some(recording) = &self.recording {
            recording.directory(&path, &names, &self.place);
        }
        let mut names: Vec<String> = names.iter().map(|name| name.to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// The absolute path (without the root) that a path leads to after all its symbolic links.
    pub fn follow(&self, absolute: impl AsRef<Path>) -> Option<PathBuf> {
        let absolute = absolute.as_ref();
        if self.is_live() {
            return absolute.canonicalize().ok();
        }
        Some(Path::new("/").join(self.resolve(absolute).ok()?))
    }

    /// Something is there.
    pub fn exists(&self, absolute: impl AsRef<Path>) -> bool {
        self.kind(absolute.as_ref()).is_some()
    }

    /// A directory is there (symbolic links followed).
    pub fn is_directory(&self, absolute: impl AsRef<Path>) -> bool {
        self.kind(absolute.as_ref()) == Some(NodeKind::Directory)
    }

    /// Last component of what a symbolic link points to (`device/driver` → `mlx5_core`), which need not be
    /// there; `None` where the path is not a link.
    pub fn link_name(&self, absolute: impl AsRef<Path>) -> Option<String> {
        Some(self.link(absolute)?.file_name()?.to_string_lossy().into_owned())
    }

    /// What a symbolic link points to, as it is written; `None` where the path is not a link, or may not be read.
    pub fn link(&self, absolute: impl AsRef<Path>) -> Option<PathBuf> {
        let absolute = absolute.as_ref();
        let link = self.resolve(absolute.parent()?).ok()?.join(absolute.file_name()?);
        let target = self.place.link(&link)?;
        if let Some(recording) = &self.recording {
            recording.link(&link, &target);
        }
        Some(target)
    }

    fn kind(&self, absolute: &Path) -> Option<NodeKind> {
        let path = self.resolve(absolute).ok()?;
        let kind = self.place.kind(&path)?;
        if let Some(recording) = &self.recording {
            recording.seen(path, kind);
        }
        Some(kind)
    }

    /// The path below the root, without a leading slash; its symbolic links are followed here, or by the
    /// kernel of the live machine.
    fn resolve(&self, absolute: &Path) -> Result<PathBuf, Unreadable> {
        if self.is_live() {
            return Ok(absolute.strip_prefix("/").unwrap_or(absolute).to_path_buf());
        }
        tree_location::resolve(absolute, |path| {
            let target = self.place.link(path)?;
            if let Some(recording) = &self.recording {
                recording.link(path, &target);
            }
            Some(target)
        })
    }
}

fn shorten(text: &str) -> String {
    text.chars().take(40).collect()
}

const NOT_THERE: &str = "not there";

/// A file that cannot be read, and why: `/proc/none: not there`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}: {reason}", path.display())]
pub struct Unreadable {
    pub path: PathBuf,
    pub reason: UnreadReason,
}

impl Unreadable {
    fn new(path: &Path, reason: UnreadReason) -> Self {
        Unreadable { path: path.to_path_buf(), reason }
    }

    /// Of a path that does not exist.
    pub fn absent(path: impl AsRef<Path>) -> Self {
        Unreadable::new(path.as_ref(), UnreadReason::Absent)
    }

    /// Whether a phrase is that of a file that does not exist; a saved run has the phrase alone.
    pub fn is_absent(why: &str) -> bool {
        why.strip_suffix(NOT_THERE).is_some_and(|path| path.ends_with(": "))
    }
}

/// Why a file cannot be read, without its name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UnreadReason {
    #[error("{}", NOT_THERE)]
    Absent,
    #[error("permission denied")]
    NotPermitted,
    /// A directory, a device, a FIFO.
    #[error("no regular file")]
    NoFile,
    #[error("too many symbolic links")]
    TooManyLinks,
    /// A capture lists it, and nobody asked to read it.
    #[error("{}", NOT_RECORDED)]
    NotRecorded,
    /// What the kernel said, or the reason that a capture recorded.
    #[error("{0}")]
    Other(String),
}

/// Without the number that the standard library adds to the two usual ones.
impl From<io::Error> for UnreadReason {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => UnreadReason::Absent,
            io::ErrorKind::PermissionDenied => UnreadReason::NotPermitted,
            _ => UnreadReason::Other(error.to_string()),
        }
    }
}

/// As a capture wrote it down.
impl From<String> for UnreadReason {
    fn from(recorded: String) -> Self {
        use UnreadReason::{Absent, NoFile, NotPermitted, NotRecorded, TooManyLinks};
        let known = [Absent, NotPermitted, NoFile, TooManyLinks, NotRecorded];
        let same = known.into_iter().find(|reason| reason.to_string() == recorded);
        same.unwrap_or(UnreadReason::Other(recorded))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn tree() -> (tempfile::TempDir, Sysroot) {
        let root = tempfile::tempdir().expect("a temporary directory");
        let real = root.path().join("sys/devices/pci0000:00/0000:00:03.0/net/eth0");
        std::fs::create_dir_all(&real).expect("directories");
        std::fs::create_dir_all(root.path().join("sys/class/net")).expect("directories");
        std::fs::write(real.join("mtu"), "9000\n\0").expect("a file");
        symlink("../../devices/pci0000:00/0000:00:03.0/net/eth0", root.path().join("sys/class/net/eth0"))
            .expect("a link");
        symlink("../../../bus/pci/drivers/mlx5_core", real.join("driver")).expect("a link");
        let sysroot = Sysroot::recorded(root.path());
        (root, sysroot)
    }

    #[test]
    fn links_are_followed_within_the_tree() {
        let (_root, sysroot) = tree();
        assert_eq!(sysroot.parse::<u32>("/sys/class/net/eth0/mtu"), Fact::Known(9000));
        assert_eq!(
            sysroot.follow("/sys/class/net/eth0"),
            Some(PathBuf::from("/sys/devices/pci0000:00/0000:00:03.0/net/eth0"))
        );
        assert_eq!(sysroot.link_name("/sys/class/net/eth0/driver").as_deref(), Some("mlx5_core"));
        assert_eq!(sysroot.link_name("/sys/class/net/eth0/mtu"), None);
        assert!(sysroot.is_directory("/sys/class/net/eth0"));
        assert!(!sysroot.is_directory("/sys/class/net/eth0/mtu"));
        assert_eq!(sysroot.list("/sys/class/net"), ["eth0"]);
    }

    #[test]
    fn a_link_never_leads_out_of_a_recorded_tree() {
        let (root, sysroot) = tree();
        let out = |name: &str, target: &str| symlink(target, root.path().join(name)).expect("a link");
        out("absolute", "/proc/version");
        out("climbing", "../../../../../../../../../../proc/version");
        out("loop", "loop");
        for name in ["/absolute", "/climbing", "/loop"] {
            assert!(sysroot.text(name).is_err(), "{name} was read");
        }
        assert!(sysroot.text("/sys").expect_err("a directory").reason == UnreadReason::NoFile);
    }

    #[test]
    fn bytes_are_not_changed() {
        let (root, sysroot) = tree();
        std::fs::write(root.path().join("config"), [0x86, 0x80, 0xff, 0x00]).expect("a file");
        assert_eq!(sysroot.bytes("/config"), Ok(vec![0x86, 0x80, 0xff, 0x00]));
        assert_eq!(sysroot.bytes("/none"), Err(Unreadable::new("/none".as_ref(), UnreadReason::Absent)));
    }

    #[test]
    fn what_is_not_there_says_so() {
        let (_root, sysroot) = tree();
        assert_eq!(sysroot.parse::<u32>("/proc/none").why(), Some("/proc/none: not there"));
        assert!(sysroot.list("/proc/none").is_empty());
        assert!(!sysroot.exists("/proc/none"));
    }
}
