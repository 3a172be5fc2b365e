//! Side files: what linerate keeps beside a file under a name that others can guess, so that they can plant something
//! under it. Every one is opened here: a new one is made and never found, an old one is used only where nobody else can
//! have written it, and no link is followed.

use crate::file::{blocking, is_ours};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::{File, Metadata};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Bits of a mode that let the group or others write.
const OTHERS_WRITE: u32 = 0o022;

/// Why something that has the name of a side file is neither used nor replaced.
#[derive(Debug, Error)]
pub enum SideFileError {
    #[error("it is a link")]
    Link,
    #[error("it is not a regular file")]
    NotRegular,
    #[error("it belongs to another user (number {0})")]
    Owner(u32),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A side file of an earlier process.
#[derive(Debug)]
pub enum OldSideFile {
    /// Nobody but this user, or root, can have written it.
    Sound(File),
    /// It is this user's, but others may have written it: the group or others may write, or it has a second name.
    Doubtful(File),
}

/// Whether nobody else can have written a file; an error where it is not for us to touch.
fn is_sound(metadata: &Metadata) -> Result<bool, SideFileError> {
    if metadata.is_symlink() {
        return Err(SideFileError::Link);
    }
    if !metadata.is_file() {
        return Err(SideFileError::NotRegular);
    }
    if !is_ours(metadata.uid()) {
        return Err(SideFileError::Owner(metadata.uid()));
    }
    Ok(metadata.mode() & OTHERS_WRITE == 0 && metadata.nlink() <= 1)
}

/// Opens the one of an earlier process for reading and writing; none where the name is free.
pub fn open_old(path: &Path) -> Result<Option<OldSideFile>, SideFileError> {
    // Before it is opened: opening a device can have an effect, and of another user's file the owner is the reason.
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        metadata => is_sound(&metadata?)?,
    };
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::LOOP) => return Err(SideFileError::Link),
        opened => blocking(File::from(opened.map_err(io::Error::from)?))?,
    };
    Ok(Some(match is_sound(&file.metadata()?)? {
        true => OldSideFile::Sound(file),
        false => OldSideFile::Doubtful(file),
    }))
}

/// Makes a new one, for its owner alone; `AlreadyExists` where there is anything of its name.
pub fn make(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).create_new(true).mode(0o600).open(path)
}

/// Removes the name of an old one, in whatever state it is, and of nothing that is not this user's regular file.
pub fn remove(path: &Path) -> Result<(), SideFileError> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        metadata => is_sound(&metadata?)?,
    };
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// A new file that takes another's name once it is whole, so that a reader finds the old one or the new one, and a link
/// of that name is replaced rather than followed. Until then its own name cannot be guessed; it goes with the value.
#[derive(Debug)]
pub struct ReplacingFile {
    path: PathBuf,
    pub file: File,
}

impl ReplacingFile {
    /// In the folder of `destination`; `mode` less the umask.
    pub fn beside(destination: &Path, mode: u32) -> io::Result<Self> {
        let random = RandomState::new().build_hasher().finish();
        let path = destination.with_file_name(format!(".linerate-new-{random:016x}"));
        let file = File::options().write(true).create_new(true).mode(mode).open(&path)?;
        Ok(ReplacingFile { path, file })
    }

    /// Gives it its name, where there is nothing of that name yet, not even a link; else `AlreadyExists`.
    pub fn put_first(self, destination: &Path) -> io::Result<()> {
        std::fs::hard_link(&self.path, destination)
    }

    /// Gives it its name.
    pub fn put(self, destination: &Path) -> io::Result<()> {
        std::fs::rename(&self.path, destination)
    }
}

impl Drop for ReplacingFile {
    fn drop(&mut self) {
        // Where it got its name there is nothing of this one any more.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Puts these bytes under a name, where there may be a file already: a reader finds the old one or the new one, never half
/// of one.
pub fn replace_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut new = ReplacingFile::beside(path, 0o666)?;
    new.file.write_all(bytes)?;
    new.put(path)
}

/// All of a file that others may have put there: at most `most_bytes` of a regular file, and nothing that a link leads
/// to or that would be waited for.
pub fn read_bounded(path: &Path, most_bytes: u64) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Err(Errno::LOOP) => return Err(io::Error::other("it is a link")),
        opened => File::from(opened?),
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(most_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most_bytes { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    fn fifo(path: &Path) {
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, path, kind, Mode::RUSR | Mode::WUSR, 0).expect("a FIFO");
    }

    #[test]
    fn an_old_one_is_used_only_where_nobody_else_can_have_written_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        assert!(open_old(&at("side")).expect("nothing is there").is_none());
        make(&at("side")).expect("made").write_all(b"ours").expect("written");
        assert_eq!(std::fs::metadata(at("side")).expect("there").mode() & 0o777, 0o600);
        assert_eq!(make(&at("side")).map_err(|error| error.kind()).err(), Some(io::ErrorKind::AlreadyExists));
        assert!(matches!(open_old(&at("side")), Ok(Some(OldSideFile::Sound(_)))));
        for mode in [0o620, 0o602] {
            std::fs::set_permissions(at("side"), std::fs::Permissions::from_mode(mode)).expect("a mode");
            assert!(matches!(open_old(&at("side")), Ok(Some(OldSideFile::Doubtful(_)))), "{mode:o}");
        }
        std::fs::set_permissions(at("side"), std::fs::Permissions::from_mode(0o600)).expect("a mode");
        std::fs::hard_link(at("side"), at("second")).expect("a second name");
        assert!(matches!(open_old(&at("side")), Ok(Some(OldSideFile::Doubtful(_)))));
        remove(&at("side")).expect("its name goes");
        assert_eq!(std::fs::read(at("second")).expect("its content stays"), b"ours");
        remove(&at("side")).expect("it is gone already");
    }

    #[test]
    fn what_is_not_ours_is_neither_opened_nor_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("victim"), "victim").expect("written");
        symlink(at("victim"), at("link")).expect("a link");
        symlink("nowhere", at("dangling")).expect("a link");
        fifo(&at("fifo"));
        std::fs::create_dir(at("folder")).expect("a folder");
        for (name, why) in [
            ("link", "it is a link"),
            ("dangling", "it is a link"),
            ("fifo", "it is not a regular file"),
            ("folder", "it is not a regular file"),
        ] {
            let refused = open_old(&at(name)).map(|_| ()).map_err(|error| error.to_string());
            assert_eq!(refused, Err(why.into()), "{name}");
            assert!(remove(&at(name)).is_err() && make(&at(name)).is_err(), "{name}");
            assert!(at(name).symlink_metadata().is_ok(), "{name} stays");
        }
        assert!(!at("nowhere").exists());
        if chown(at("victim"), Some(12_345), None).is_err() {
            eprintln!("skipped: only root can give a file away");
            return;
        }
        assert!(matches!(open_old(&at("victim")), Err(SideFileError::Owner(12_345))));
        assert!(matches!(remove(&at("victim")), Err(SideFileError::Owner(12_345))));
        assert_eq!(std::fs::read(at("victim")).expect("there"), b"victim");
    }

    #[test]
    fn a_link_is_replaced_and_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("victim"), "victim").expect("written");
        symlink(at("victim"), at("file")).expect("a link");
        let mut new = ReplacingFile::beside(&at("file"), 0o644).expect("made");
        new.file.write_all(b"new").expect("written");
        new.put(&at("file")).expect("renamed");
        drop(ReplacingFile::beside(&at("file"), 0o644).expect("made"));
        assert_eq!(std::fs::read(at("file")).expect("read"), b"new");
        assert_eq!(std::fs::read(at("victim")).expect("read"), b"victim");
        assert_eq!(std::fs::read_dir(folder.path()).expect("a list").count(), 2, "nothing is left");
    }

    #[test]
    fn a_foreign_file_is_read_up_to_a_bound_and_nothing_is_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), "four").expect("written");
        symlink(at("file"), at("link")).expect("a link");
        fifo(&at("fifo"));
        assert_eq!(read_bounded(&at("file"), 4).expect("read"), b"four");
        let kind = |name: &str, most| read_bounded(&at(name), most).map_err(|error| error.kind()).err();
        assert_eq!(kind("file", 3), Some(io::ErrorKind::FileTooLarge));
        assert_eq!(kind("absent", 3), Some(io::ErrorKind::NotFound));
        for name in ["link", "fifo", ""] {
            assert_eq!(kind(name, 9), Some(io::ErrorKind::Other), "{name}");
        }
    }
}
