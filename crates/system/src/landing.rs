//! Putting a file that is whole at its place: a rename that replaces nothing, and what makes it last.

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

/// Renames within two open folders; `AlreadyExists` where there is something of the new name, which stays.
pub(crate) fn rename_new_at(
    from_folder: impl AsFd,
    from: &Path,
    to_folder: impl AsFd,
    to: &Path,
) -> io::Result<()> {
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

/// Opens a file that is being written, made where it is absent; a link of its name is refused.
pub fn open_part(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let usual = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP | Mode::ROTH | Mode::WOTH;
    Ok(File::from(rustix::fs::open(path, flags, usual)?))
}

/// All that was written to the file system of this file or folder goes to its device (syncfs(2)): one call for
/// many small files.
pub fn sync_file_system(of: &File) -> io::Result<()> {
    Ok(rustix::fs::syncfs(of)?)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(open_part(&at("link")).is_err() && !at("nowhere").exists());
        assert_eq!(open_part(&at("old")).expect("opened").metadata().expect("its length").len(), 3);
        rename_new(&at("new"), &at("free")).expect("renamed");
        assert_eq!(std::fs::read(at("free")).expect("read"), b"new");
        sync_file_system(&File::open(place.path()).expect("opened")).expect("synced");
    }
}
