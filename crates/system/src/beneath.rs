//! Files below one folder and nowhere else. Each is opened by openat2(2) with RESOLVE_BENEATH, so that neither
//! `..` nor a link leads out, also while somebody changes the folders on the way.

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// A look at the folders on the way that somebody changed meanwhile is repeated so often (EAGAIN, openat2(2)).
const LOOKS: u32 = 16;

/// An open folder; only what is below it can be had.
#[derive(Debug)]
pub struct ConfinedFolder(OwnedFd);

/// What a name below it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    File,
    Folder,
}

/// A regular file or a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfinedEntry {
    pub name: OsString,
    pub kind: EntryKind,
    pub bytes: u64,
    /// When its content was changed last, seconds since 1970; 0 before.
    pub modified: u64,
    /// The name is a link to it.
    pub is_link: bool,
}

impl ConfinedFolder {
    /// Opens it. `Unsupported` where the kernel has no openat2 (before Linux 5.6), or a filter refuses it.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = ConfinedFolder(rustix::fs::open(path, flags, Mode::empty())?);
        match folder.open_with(Path::new("."), OFlags::PATH) {
            Err(Errno::NOSYS | Errno::PERM) => Err(io::ErrorKind::Unsupported.into()),
            Err(error) => Err(error.into()),
            Ok(_) => Ok(folder),
        }
    }

    /// What a relative path names; links are followed as long as they stay below. `InvalidInput` for what is
    /// neither a regular file nor a folder; `CrossesDevices` for what leads out.
    pub fn kind(&self, path: &Path) -> io::Result<EntryKind> {
        kind_of(&self.open_with(path, OFlags::PATH)?)?.ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }

    /// Of what a relative path names, found as with [`ConfinedFolder::kind`].
    pub fn metadata(&self, path: &Path) -> io::Result<std::fs::Metadata> {
        File::from(self.open_with(path, OFlags::PATH)?).metadata()
    }

    /// Opens a regular file for reading; with `direct` past the page cache.
    pub fn open_file(&self, path: &Path, direct: bool) -> io::Result<File> {
        // Looked at first: to open a device may do something, and a FIFO waits.
        if self.kind(path)? != EntryKind::File {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let direct = if direct { OFlags::DIRECT } else { OFlags::empty() };
        let opened = self.open_with(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | direct)?;
        if kind_of(&opened)? != Some(EntryKind::File) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // For io_uring (see `file::open_to_read`).
        let kept = rustix::fs::fcntl_getfl(&opened)? - OFlags::NONBLOCK;
        rustix::fs::fcntl_setfl(&opened, kept)?;
        Ok(File::from(opened))
    }

    /// Opens a folder below this one, made with those above it where they are absent.
    pub fn make_folders(&self, path: &Path) -> io::Result<ConfinedFolder> {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let mut folder = ConfinedFolder(self.open_with(Path::new("."), flags)?);
        let mut way = PathBuf::new();
        for name in path {
            way.push(name);
            // From the top each time: a link on the way may lead up, as long as it stays below.
            let opened = match self.open_with(&way, flags) {
                Err(Errno::NOENT) => {
                    match rustix::fs::mkdirat(&folder.0, name, Mode::RWXU | Mode::RWXG | Mode::RWXO) {
                        Err(Errno::EXIST) | Ok(()) => {}
                        Err(error) => return Err(error.into()),
                    }
                    self.open_with(&way, flags)
                }
                opened => opened,
            };
            folder = ConfinedFolder(opened?);
        }
        Ok(folder)
    }

    /// A path to one name in this very folder, as long as it is open, wherever it is moved to.
    pub fn entry_path(&self, name: &OsStr) -> PathBuf {
        Path::new("/proc/self/fd").join(self.0.as_raw_fd().to_string()).join(name)
    }

    /// Regular files and folders in a folder, at most `most` of them, in no order; and whether there are more.
    pub fn list(&self, path: &Path, most: usize) -> io::Result<(Vec<ConfinedEntry>, bool)> {
        let folder = self.open_with(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut found = Vec::new();
        for entry in Dir::read_from(&folder)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            // What is gone meanwhile, or leads out, is not here.
            let Some(entry) = self.entry(&folder, path, name) else { continue };
            if found.len() == most {
                return Ok((found, true));
            }
            found.push(entry);
        }
        Ok((found, false))
    }

    fn entry(&self, folder: &OwnedFd, path: &Path, name: &OsStr) -> Option<ConfinedEntry> {
        let own = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let is_link = FileType::from_raw_mode(own.st_mode) == FileType::Symlink;
        let stat = match is_link {
            true => rustix::fs::fstat(self.open_with(&path.join(name), OFlags::PATH).ok()?).ok()?,
            false => own,
        };
        let kind = kind_from(stat.st_mode)?;
        let bytes = u64::try_from(stat.st_size).unwrap_or(0);
        let modified = u64::try_from(stat.st_mtime).unwrap_or(0);
        let name = OsString::from_vec(name.as_bytes().to_vec());
        Some(ConfinedEntry { name, kind, bytes, modified, is_link })
    }

    fn open_with(&self, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let mut looks = 0;
        loop {
            match rustix::fs::openat2(&self.0, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
                Err(Errno::AGAIN | Errno::INTR) if looks < LOOKS => looks += 1,
                opened => return opened,
            }
        }
    }
}

fn kind_of(file: &impl AsFd) -> rustix::io::Result<Option<EntryKind>> {
    Ok(kind_from(rustix::fs::fstat(file)?.st_mode))
}

fn kind_from(mode: u32) -> Option<EntryKind> {
    match FileType::from_raw_mode(mode) {
        FileType::RegularFile => Some(EntryKind::File),
        FileType::Directory => Some(EntryKind::Folder),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::fs::symlink;

    fn tree() -> (tempfile::TempDir, ConfinedFolder) {
        let place = tempfile::tempdir().expect("a folder");
        let root = place.path().join("root");
        std::fs::create_dir_all(root.join("sub")).expect("folders");
        std::fs::write(root.join("file"), "inside").expect("a file");
        std::fs::write(place.path().join("secret"), "outside").expect("a file");
        symlink("../file", root.join("sub/in")).expect("a link");
        symlink("../secret", root.join("out")).expect("a link");
        symlink(place.path().join("secret"), root.join("absolute")).expect("a link");
        symlink("..", root.join("up")).expect("a link");
        symlink("loop", root.join("loop")).expect("a link");
        rustix::fs::mknodat(rustix::fs::CWD, root.join("fifo"), FileType::Fifo, Mode::RUSR, 0)
            .expect("a FIFO");
        let folder = ConfinedFolder::open(&root).expect("opened");
        (place, folder)
    }

    #[test]
    fn what_is_below_is_read_and_links_that_stay_there_are_followed() {
        let (_place, folder) = tree();
        for path in ["file", "sub/in", "./file", "sub/../file"] {
            let mut text = String::new();
            folder.open_file(Path::new(path), false).expect(path).read_to_string(&mut text).expect("read");
            assert_eq!(text, "inside", "{path}");
        }
        assert_eq!(folder.kind(Path::new("")).expect("itself"), EntryKind::Folder);
    }

    #[test]
    fn nothing_leads_out() {
        let (place, folder) = tree();
        let absolute = place.path().join("root/file");
        let ways = ["out", "absolute", "../secret", "up/secret", "up/root/file", "sub/../../secret", "loop"];
        for path in ways.map(Path::new).into_iter().chain([absolute.as_path(), Path::new("/etc/passwd")]) {
            assert!(folder.open_file(path, false).is_err(), "{}", path.display());
            assert!(folder.kind(path).is_err(), "{}", path.display());
        }
        assert_eq!(
            folder.kind(Path::new("out")).map_err(|error| error.kind()).expect_err("out"),
            io::ErrorKind::CrossesDevices
        );
    }

    #[test]
    fn folders_are_made_below_and_nowhere_else() {
        let (place, folder) = tree();
        let made = folder.make_folders(Path::new("new/deep")).expect("made");
        std::fs::write(made.entry_path(OsStr::new("file")), "text").expect("written");
        folder.make_folders(Path::new("new/deep")).expect("there already");
        assert_eq!(folder.kind(Path::new("new/deep/file")).expect("there"), EntryKind::File);
        symlink(place.path(), place.path().join("loop")).expect("a link");
        std::fs::create_dir(place.path().join("beside")).expect("a folder");
        let below = ConfinedFolder::open(&place.path().join("beside")).expect("opened");
        symlink("..", place.path().join("beside/up")).expect("a link");
        for wrong in ["..", "../x", "up", "up/x", "/tmp/x"] {
            assert!(below.make_folders(Path::new(wrong)).is_err(), "{wrong}");
        }
        assert!(!place.path().join("x").exists());
    }

    #[test]
    fn a_fifo_is_no_file_and_nobody_waits_for_it() {
        let (_place, folder) = tree();
        let error = folder.open_file(Path::new("fifo"), false).map_err(|error| error.kind());
        assert_eq!(error.expect_err("a FIFO"), io::ErrorKind::InvalidInput);
        assert!(folder.open_file(Path::new("sub"), false).is_err(), "a folder is no file");
    }

    #[test]
    fn a_list_has_files_and_folders_alone() {
        let (_place, folder) = tree();
        let (mut entries, more) = folder.list(Path::new(""), 100).expect("a list");
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        let names: Vec<_> = entries.iter().map(|entry| entry.name.to_string_lossy().into_owned()).collect();
        assert_eq!((names, more), (vec!["file".into(), "sub".to_string()], false));
        assert_eq!((entries[0].kind, entries[0].bytes), (EntryKind::File, 6));
        let (links, _) = folder.list(Path::new("sub"), 100).expect("a list");
        assert!(links[0].is_link && links[0].kind == EntryKind::File);
        assert!(folder.list(Path::new(""), 1).expect("a list").1);
        assert!(folder.list(Path::new("up"), 1).is_err() && folder.list(Path::new("file"), 1).is_err());
    }
}
