//! Files below one folder and nowhere else. Each is opened by openat2(2) with RESOLVE_BENEATH, so that neither
//! `..` nor a link leads out, also while somebody changes the folders on the way.

use crate::stop::Stop;
use rustix::fs::{AtFlags, Dir, DirEntry, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use std::ffi::{CStr, OsStr, OsString};
use std::fs::{File, TryLockError};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

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
        crate::file::blocking(File::from(opened))
    }

    /// Opens a folder below this one, made with those above it where they are absent.
    pub fn make_folders(&self, path: &Path) -> io::Result<ConfinedFolder> {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let mut folder = ConfinedFolder(self.open_with(Path::new("."), flags)?);
        let mut path_so_far = PathBuf::new();
        for name in path {
            path_so_far.push(name);
            // From the top each time: a link on the way may lead up, as long as it stays below.
            let opened = match self.open_with(&path_so_far, flags) {
                Err(Errno::NOENT) => {
                    match rustix::fs::mkdirat(&folder.0, name, Mode::RWXU | Mode::RWXG | Mode::RWXO) {
                        Err(Errno::EXIST) | Ok(()) => {}
                        Err(error) => return Err(error.into()),
                    }
                    self.open_with(&path_so_far, flags)
                }
                opened => opened,
            };
            folder = ConfinedFolder(opened?);
        }
        Ok(folder)
    }

    /// The folder at a relative path, with no link on the path to it.
    pub fn folder(&self, path: &Path) -> io::Result<ConfinedFolder> {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        Ok(ConfinedFolder(self.open_within(path, flags, ResolveFlags::NO_SYMLINKS)?))
    }

    /// A path to one name in this very folder, as long as it is open, wherever it is moved to.
    pub fn entry_path(&self, name: &OsStr) -> PathBuf {
        Path::new("/proc/self/fd").join(self.0.as_raw_fd().to_string()).join(name)
    }

    /// Regular files and folders in a folder, at most `most` of them, in no order; and whether there are more. A link is
    /// what it leads to, or with `keeps_links` an entry of its own.
    pub fn list(
        &self,
        path: &Path,
        most: usize,
        keeps_links: bool,
    ) -> io::Result<(Vec<ConfinedEntry>, bool)> {
        let folder = self.open_with(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut found = Vec::new();
        for entry in Dir::read_from(&folder)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            // What is gone meanwhile, or leads out, is not here.
            let Some(entry) = self.entry(&folder, path, name, keeps_links) else { continue };
            if found.len() == most {
                return Ok((found, true));
            }
            found.push(entry);
        }
        Ok((found, false))
    }

    fn entry(&self, folder: &OwnedFd, path: &Path, name: &OsStr, keeps_links: bool) -> Option<ConfinedEntry> {
        let own = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let is_link = FileType::from_raw_mode(own.st_mode) == FileType::Symlink;
        let is_kept = is_link && keeps_links;
        let stat = match is_link && !is_kept {
            true => rustix::fs::fstat(self.open_with(&path.join(name), OFlags::PATH).ok()?).ok()?,
            false => own,
        };
        let kind = if is_kept { EntryKind::File } else { kind_from(stat.st_mode)? };
        let bytes = u64::try_from(stat.st_size).unwrap_or(0);
        let modified = u64::try_from(stat.st_mtime).unwrap_or(0);
        let name = OsString::from_vec(name.as_bytes().to_vec());
        Some(ConfinedEntry { name, kind, bytes, modified, is_link })
    }

    /// Removes regular files of this process's user below it, of a name that `is_meant`, that were written last before
    /// this time and that no process has locked. No link is followed. Each with its path and its bytes.
    pub fn remove_old_files(
        &self,
        is_meant: impl Fn(&[u8]) -> bool,
        before: SystemTime,
        stop: &Stop,
    ) -> Vec<(PathBuf, u64)> {
        let (mut removed, mut pending) = (Vec::new(), vec![PathBuf::new()]);
        while let Some(path) = pending.pop() {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            // What cannot be read, or is gone meanwhile, is left alone.
            let Ok(folder) = self.open_within(&path, flags, ResolveFlags::NO_SYMLINKS) else { continue };
            for entry in Dir::read_from(&folder).into_iter().flatten().map_while(Result::ok) {
                if stop.is_ended() {
                    return removed;
                }
                let name = entry.file_name().to_bytes();
                let below = || path.join(OsStr::from_bytes(name));
                if is_meant(name) {
                    removed
                        .extend(remove_old(&folder, entry.file_name(), before).map(|bytes| (below(), bytes)));
                } else if name != b"." && name != b".." && is_folder(&folder, &entry) {
                    pending.push(below());
                }
            }
        }
        removed
    }

    fn open_with(&self, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        self.open_within(path, flags, ResolveFlags::NO_MAGICLINKS)
    }

    fn open_within(&self, path: &Path, flags: OFlags, more: ResolveFlags) -> rustix::io::Result<OwnedFd> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let resolve = ResolveFlags::BENEATH | more;
        let mut looks = 0;
        loop {
            match rustix::fs::openat2(&self.0, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
                Err(Errno::AGAIN | Errno::INTR) if looks < LOOKS => looks += 1,
                opened => return opened,
            }
        }
    }
}

fn is_folder(folder: &OwnedFd, entry: &DirEntry) -> bool {
    match entry.file_type() {
        // Not every file system says it in its lists.
        FileType::Unknown => rustix::fs::statat(folder, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory),
        file_type => file_type == FileType::Directory,
    }
}

/// The bytes of the file, if it is such a one and gone now.
fn remove_old(folder: &OwnedFd, name: &CStr, before: SystemTime) -> Option<u64> {
    let seconds = before.duration_since(UNIX_EPOCH).ok()?.as_secs();
    let is_old = |stat: &Stat| {
        FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
            && stat.st_uid == rustix::process::geteuid().as_raw()
            && u64::try_from(stat.st_mtime).unwrap_or(0) < seconds
    };
    // Looked at before it is opened: to open a device may do something.
    rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok().filter(is_old)?;
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::openat(folder, name, flags, Mode::empty()).ok()?);
    if let Err(TryLockError::WouldBlock) = file.try_lock() {
        return None;
    }
    // Under the lock it is the file of that name, and nobody has begun to write it meanwhile.
    let own = rustix::fs::fstat(&file).ok().filter(is_old)?;
    let named = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    if (own.st_dev, own.st_ino) != (named.st_dev, named.st_ino) {
        return None;
    }
    rustix::fs::unlinkat(folder, name, AtFlags::empty()).ok()?;
    u64::try_from(own.st_size).ok()
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
    use std::io::{Read, Write};
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
        let paths = ["out", "absolute", "../secret", "up/secret", "up/root/file", "sub/../../secret", "loop"];
        for path in paths.map(Path::new).into_iter().chain([absolute.as_path(), Path::new("/etc/passwd")]) {
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
    fn old_files_of_a_name_go_and_nothing_else_does() {
        let (place, folder) = tree();
        let now = SystemTime::now();
        let made = |path: &str, days: u64| {
            let file = File::create(place.path().join(path)).expect(path);
            let age = std::time::Duration::from_secs(days * 24 * 3600 + 60);
            (&file).write_all(b"text").expect("written");
            file.set_modified(now - age).expect("a time");
            file
        };
        std::fs::create_dir_all(place.path().join("root/sub/deep")).expect("folders");
        std::fs::create_dir(place.path().join("beside")).expect("a folder");
        let (old, deep) = (made("root/old.part", 1), made("root/sub/deep/old.part", 9));
        let _others =
            [made("root/new.part", 0), made("root/old", 9), made("beside/old.part", 9), made("link", 9)];
        let locked = made("root/locked.part", 9);
        locked.lock().expect("a lock");
        symlink(place.path().join("beside"), place.path().join("root/link")).expect("a link");
        symlink(place.path().join("link"), place.path().join("root/link.part")).expect("a link");
        let name = rustix::fs::CWD;
        rustix::fs::mknodat(name, place.path().join("root/fifo.part"), FileType::Fifo, Mode::RUSR, 0)
            .expect("a FIFO");
        let day = std::time::Duration::from_secs(24 * 3600);
        let (never, ended) = (Stop::new(), Stop::new());
        ended.end();
        let remove = |stop: &Stop| {
            let is_meant = |name: &[u8]| name.ends_with(b".part");
            let mut removed = folder.remove_old_files(is_meant, now - day, stop);
            removed.sort();
            removed
        };
        assert!(remove(&ended).is_empty(), "it ends where it is to stop");
        assert_eq!(remove(&never), [(PathBuf::from("old.part"), 4), (PathBuf::from("sub/deep/old.part"), 4)]);
        drop((old, deep));
        for left in
            ["root/new.part", "root/old", "root/locked.part", "root/fifo.part", "beside/old.part", "link"]
        {
            assert!(place.path().join(left).symlink_metadata().is_ok(), "{left}");
        }
        drop(locked);
        assert_eq!(remove(&never), [(PathBuf::from("locked.part"), 4)]);
        if std::os::unix::fs::chown(place.path().join("root/new.part"), Some(12_345), None).is_ok() {
            let later = now + day;
            assert!(folder.remove_old_files(|name| name == b"new.part", later, &never).is_empty());
        }
    }

    #[test]
    fn a_fifo_is_no_file_and_nobody_waits_for_it() {
        let (_place, folder) = tree();
        let error = folder.open_file(Path::new("fifo"), false).map_err(|error| error.kind());
        assert_eq!(error.expect_err("a FIFO"), io::ErrorKind::InvalidInput);
        assert!(folder.open_file(Path::new("sub"), false).is_err(), "a folder is not a file");
    }

    #[test]
    fn a_list_has_files_and_folders_alone() {
        let (_place, folder) = tree();
        let (mut entries, more) = folder.list(Path::new(""), 100, false).expect("a list");
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        let names: Vec<_> = entries.iter().map(|entry| entry.name.to_string_lossy().into_owned()).collect();
        assert_eq!((names, more), (vec!["file".into(), "sub".to_string()], false));
        assert_eq!((entries[0].kind, entries[0].bytes), (EntryKind::File, 6));
        let (links, _) = folder.list(Path::new("sub"), 100, false).expect("a list");
        assert!(links[0].is_link && links[0].kind == EntryKind::File);
        let (listed, _) = folder.list(Path::new(""), 100, true).expect("a list");
        let mut names: Vec<_> =
            listed.iter().filter(|entry| entry.is_link).map(|entry| entry.name.as_bytes()).collect();
        names.sort_unstable();
        assert_eq!(names, [&b"absolute"[..], b"loop", b"out", b"up"], "links that lead out, too, as links");
        assert!(folder.folder(Path::new("sub")).is_ok() && folder.folder(Path::new("up")).is_err());
        assert!(folder.list(Path::new(""), 1, false).expect("a list").1);
        assert!(
            folder.list(Path::new("up"), 1, false).is_err()
                && folder.list(Path::new("file"), 1, false).is_err()
        );
    }
}
