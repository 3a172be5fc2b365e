//! Files that appear whole. At any place: a rename that replaces nothing, a first name for one that had none, and what
//! makes it last. In a folder that is this user's alone: opened by handle, so that what is checked is what is written to;
//! no link of another user on the way to it, no folder of another user.

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use thiserror::Error;

/// A new file has this before its name until it is whole.
const UNFINISHED: &str = ".new-";

/// Of a new file, less the umask.
const USUAL: Mode =
    Mode::RUSR.union(Mode::WUSR).union(Mode::RGRP).union(Mode::WGRP).union(Mode::ROTH).union(Mode::WOTH);

/// Why there is no such folder.
#[derive(Debug, Error)]
pub enum PrivateFolderError {
    #[error("{} is a link of another user (number {owner})", path.display())]
    Link { path: PathBuf, owner: u32 },
    #[error("{} belongs to another user (number {owner})", path.display())]
    Owner { path: PathBuf, owner: u32 },
    #[error("{}: {error}", path.display())]
    Unreachable { path: PathBuf, error: io::Error },
}

/// An open folder of this user.
#[derive(Debug)]
pub struct PrivateFolder(OwnedFd);

/// A file in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrivateFile {
    pub name: String,
    pub bytes: u64,
    /// When it was written last, seconds since 1970.
    pub written: i64,
}

impl PrivateFolder {
    /// Opens it; none where it is not there.
    pub fn open(path: &Path) -> Result<Option<Self>, PrivateFolderError> {
        let unreachable = |error: io::Error| PrivateFolderError::Unreachable { path: path.into(), error };
        refuse_links_of_others(path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = match rustix::fs::open(path, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            opened => opened.map_err(|error| unreachable(error.into()))?,
        };
        let owner = rustix::fs::fstat(&folder).map_err(|error| unreachable(error.into()))?.st_uid;
        if owner != rustix::process::geteuid().as_raw() {
            return Err(PrivateFolderError::Owner { path: path.into(), owner });
        }
        Ok(Some(PrivateFolder(folder)))
    }

    /// Opens it, made where it is absent, the folders above it, too: for nobody but this user.
    pub fn open_or_make(path: &Path) -> Result<Self, PrivateFolderError> {
        use std::os::unix::fs::DirBuilderExt;
        if let Some(folder) = Self::open(path)? {
            return Ok(folder);
        }
        let unreachable = |error: io::Error| PrivateFolderError::Unreachable { path: path.into(), error };
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(unreachable)?;
        Self::open(path)?.ok_or_else(|| unreachable(io::ErrorKind::NotFound.into()))
    }

    /// Regular files in it that are whole, in no order; what has a name that is not text is left out.
    pub fn files(&self) -> io::Result<Vec<PrivateFile>> {
        Ok(self.all()?.into_iter().filter(|file| !file.name.starts_with(UNFINISHED)).collect())
    }

    /// Removes files that were begun and not ended since `before` (seconds since 1970): what made them is
    /// gone.
    pub fn remove_unfinished(&self, before: i64) -> io::Result<()> {
        for file in self.all()?.iter().filter(|f| f.name.starts_with(UNFINISHED) && f.written < before) {
            self.remove(&file.name)?;
        }
        Ok(())
    }

    fn all(&self) -> io::Result<Vec<PrivateFile>> {
        let mut found = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            // What another process has removed meanwhile is not here.
            let Ok(state) = rustix::fs::statat(&self.0, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            if FileType::from_raw_mode(state.st_mode) == FileType::RegularFile {
                let (bytes, written) = (u64::try_from(state.st_size).unwrap_or(0), state.st_mtime);
                found.push(PrivateFile { name: name.into(), bytes, written });
            }
        }
        Ok(found)
    }

    /// All bytes of a file; one of more than `most`, one of another user and what is not a regular file is an
    /// error.
    pub fn read(&self, name: &str, most: u64) -> io::Result<Vec<u8>> {
        let file = self.open_own(name)?;
        if file.metadata()?.len() > most {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let mut bytes = Vec::new();
        file.take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// The first bytes of a file, this many at most; one of another user and what is not a regular file is an error.
    pub fn read_start(&self, name: &str, most: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(most);
        self.open_own(name)?.take(most as u64).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// A regular file of this user.
    fn open_own(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(&self.0, name, flags, Mode::empty())?);
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other("no regular file"));
        }
        if !crate::file::is_ours(metadata.uid()) {
            return Err(io::Error::other(format!("belongs to another user (number {})", metadata.uid())));
        }
        Ok(file)
    }

    /// A new file, seen by others only when it is whole. `AlreadyExists` where there is one of that name,
    /// which stays as it is.
    pub fn add(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let of_process = COUNT.fetch_add(1, Ordering::Relaxed);
        let new = format!("{UNFINISHED}{}-{of_process}-{name}", std::process::id());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.0, &new, flags, Mode::RUSR | Mode::WUSR)?;
        let added = File::from(file).write_all(bytes).and_then(|()| self.rename(&new, name));
        added.inspect_err(|_| {
            let _ = self.remove(&new);
        })
    }

    /// Not over a file that is there.
    fn rename(&self, new: &str, name: &str) -> io::Result<()> {
        rename_new_at(&self.0, Path::new(new), &self.0, Path::new(name))
    }

    /// Removes a file; one that is gone already is removed.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        match rustix::fs::unlinkat(&self.0, name, AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            removed => Ok(removed?),
        }
    }
}

/// Whoever owns a link decides where it leads, now and later.
fn refuse_links_of_others(path: &Path) -> Result<(), PrivateFolderError> {
    for part in path.ancestors() {
        // What cannot be looked at cannot be opened either, and says so then.
        let Ok(state) = part.symlink_metadata() else { continue };
        if state.is_symlink() && !crate::file::is_ours(state.uid()) {
            return Err(PrivateFolderError::Link { path: part.into(), owner: state.uid() });
        }
    }
    Ok(())
}

/// Renames within two open folders; `AlreadyExists` where there is something of the new name, which stays.
fn rename_new_at(from_folder: impl AsFd, from: &Path, to_folder: impl AsFd, to: &Path) -> io::Result<()> {
    match rustix::fs::renameat_with(&from_folder, from, &to_folder, to, RenameFlags::NOREPLACE) {
        // Not every file system can (NFS, renameat2(2)): then two at once may take the same name.
        Err(Errno::INVAL | Errno::NOSYS) => {
            match rustix::fs::statat(&to_folder, to, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => Ok(rustix::fs::renameat(&from_folder, from, &to_folder, to)?),
                Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
                Err(error) => Err(error.into()),
            }
        }
        renamed => Ok(renamed?),
    }
}

/// Renames; `AlreadyExists` where there is something of the new name, also a link to nowhere.
pub fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    rename_new_at(CWD, from, CWD, to)
}

/// Gives a file that was made for its owner alone the mode of any new file in this folder: of its default ACL, where it
/// has one, else of the umask. A file system that has no modes has its own.
pub fn set_usual_mode(file: &File, folder: &Path) {
    let mode = open_nameless_part(folder).and_then(|new| Ok(new.metadata()?.mode() & 0o777));
    let mode = mode.unwrap_or_else(|_| USUAL.bits() & !umask());
    let _ = rustix::fs::fchmod(file, Mode::from_raw_mode(mode));
}

/// That of this process; where /proc does not say, none but the owner may write.
fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    line.and_then(|digits| u32::from_str_radix(digits.trim(), 8).ok()).unwrap_or(0o022)
}

/// Makes a file in a folder that [`name_new`] can give a name; it is gone with its last descriptor otherwise.
/// `Unsupported` where the file system knows no such file, or where /proc is not there.
pub fn open_nameless_part(folder: &Path) -> io::Result<File> {
    static HAS_PROC: OnceLock<bool> = OnceLock::new();
    if !HAS_PROC.get_or_init(|| Path::new("/proc/self/fd").is_dir()) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    match rustix::fs::open(folder, OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC, USUAL) {
        // What open(2) says of an old kernel, or of a file system without them.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => Err(io::ErrorKind::Unsupported.into()),
        opened => Ok(File::from(opened?)),
    }
}

/// Gives such a file its name; `AlreadyExists` where there is something of that name, which stays.
pub fn name_new(file: &File, to: &Path) -> io::Result<()> {
    let from = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(rustix::fs::linkat(CWD, from, CWD, to, AtFlags::SYMLINK_FOLLOW)?)
}

/// All that was written to the file system of this file or folder goes to its device (syncfs(2)): one call for
/// many small files.
pub fn sync_file_system(of: &File) -> io::Result<()> {
    Ok(rustix::fs::syncfs(of)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).expect("there").permissions().mode() & 0o777
    }

    #[test]
    fn folders_and_files_are_for_their_owner_alone_and_files_are_never_replaced() {
        let place = tempfile::tempdir().expect("a folder");
        let path = place.path().join("state/linerate/results");
        assert!(PrivateFolder::open(&path).expect("nothing in the way").is_none());
        let folder = PrivateFolder::open_or_make(&path).expect("made");
        folder.add("1", b"one").expect("written");
        let again = folder.add("1", b"two").map_err(|error| error.kind());
        assert_eq!(again, Err(io::ErrorKind::AlreadyExists));
        assert_eq!(folder.read("1", 3).expect("read"), b"one");
        assert_eq!(folder.read("1", 2).map_err(|error| error.kind()), Err(io::ErrorKind::FileTooLarge));
        let names: Vec<_> = std::fs::read_dir(&path).expect("a list").flatten().collect();
        assert_eq!(names.len(), 1, "nothing unfinished is left: {names:?}");
        for above in [&path, path.parent().expect("above"), &place.path().join("state")] {
            assert_eq!(mode(above), 0o700, "{}", above.display());
        }
        assert_eq!(mode(&path.join("1")), 0o600);
        folder.remove("1").and_then(|()| folder.remove("1")).expect("removed");
        assert_eq!(folder.files().expect("a list"), []);
    }

    #[test]
    fn only_regular_files_are_listed_and_read() {
        let place = tempfile::tempdir().expect("a folder");
        let folder = PrivateFolder::open_or_make(place.path()).expect("a folder");
        folder.add("file", b"text").expect("written");
        symlink("file", place.path().join("link")).expect("a link");
        std::fs::create_dir(place.path().join("folder")).expect("a folder");
        let files = folder.files().expect("a list");
        assert_eq!(
            files.iter().map(|file| (file.name.as_str(), file.bytes)).collect::<Vec<_>>(),
            [("file", 4)]
        );
        assert!(folder.read("link", 9).is_err() && folder.read("folder", 9).is_err());
    }

    #[test]
    fn what_was_left_unfinished_goes_once_it_is_old() {
        let place = tempfile::tempdir().expect("a folder");
        let folder = PrivateFolder::open_or_make(place.path()).expect("a folder");
        let left = place.path().join(".new-1-2");
        std::fs::write(&left, "half").expect("written");
        assert_eq!(folder.files().expect("a list"), []);
        folder.remove_unfinished(0).expect("nothing is that old");
        assert!(left.exists());
        folder.remove_unfinished(i64::MAX).expect("removed");
        assert!(!left.exists());
    }

    #[test]
    fn links_and_folders_of_other_users_are_refused() {
        let place = tempfile::tempdir().expect("a folder");
        let (mine, link) = (place.path().join("mine"), place.path().join("link"));
        std::fs::create_dir(&mine).expect("a folder");
        symlink(&mine, &link).expect("a link");
        assert!(PrivateFolder::open(&link).is_ok_and(|found| found.is_some()), "one's own link is followed");
        if std::os::unix::fs::lchown(&link, Some(12_345), None).is_err() {
            eprintln!("skipped: only root can give a link away");
            return;
        }
        let refused = PrivateFolder::open_or_make(&link.join("below"));
        assert!(matches!(refused, Err(PrivateFolderError::Link { owner: 12_345, .. })), "{refused:?}");
        std::os::unix::fs::chown(&mine, Some(12_345), None).expect("given away");
        let refused = PrivateFolder::open_or_make(&mine);
        assert!(matches!(refused, Err(PrivateFolderError::Owner { owner: 12_345, .. })), "{refused:?}");
    }

    #[test]
    fn nothing_is_replaced() {
        let place = tempfile::tempdir().expect("a folder");
        let at = |name: &str| place.path().join(name);
        std::fs::write(at("new"), "new").expect("written");
        std::fs::write(at("old"), "old").expect("written");
        std::os::unix::fs::symlink("nowhere", at("link")).expect("a link");
        for there in ["old", "link"] {
            let refused = rename_new(&at("new"), &at(there)).map_err(|error| error.kind());
            assert_eq!(refused, Err(io::ErrorKind::AlreadyExists), "{there}");
        }
        assert_eq!(std::fs::read(at("old")).expect("read"), b"old");
        rename_new(&at("new"), &at("free")).expect("renamed");
        assert_eq!(std::fs::read(at("free")).expect("read"), b"new");
        let nameless = open_nameless_part(place.path()).expect("made");
        std::io::Write::write_all(&mut &nameless, b"whole").expect("written");
        for there in ["old", "link"] {
            let refused = name_new(&nameless, &at(there)).map_err(|error| error.kind());
            assert_eq!(refused, Err(io::ErrorKind::AlreadyExists), "{there}");
        }
        name_new(&nameless, &at("named")).expect("named");
        assert_eq!(std::fs::read(at("named")).expect("read"), b"whole");
        let absent = open_nameless_part(&at("absent")).map_err(|error| error.kind());
        assert_eq!(absent.err(), Some(io::ErrorKind::NotFound));
        let usual = File::create(at("usual")).and_then(|file| file.metadata()).expect("made").mode();
        assert_eq!(USUAL.bits() & !umask(), usual & 0o777);
        let part = crate::side_file::make(&at("part")).expect("made");
        set_usual_mode(&part, place.path());
        assert_eq!(part.metadata().expect("its mode").mode(), usual);
        sync_file_system(&File::open(place.path()).expect("opened")).expect("synced");
    }
}
