//! Putting a file that is whole at its place: a rename that replaces nothing, a first name for one that had none, and
//! what makes it last.

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::sync::OnceLock;

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

/// Of a new file, less the umask.
const USUAL: Mode =
    Mode::RUSR.union(Mode::WUSR).union(Mode::RGRP).union(Mode::WGRP).union(Mode::ROTH).union(Mode::WOTH);

/// Opens a file that is being written, made where it is absent; a link of its name is refused.
pub fn open_part(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(path, flags, USUAL)?))
}

/// Makes a file in a folder that [`name_new`] can give a name; it is gone with its last descriptor otherwise.
/// `Unsupported` where the file system knows no such file, or where /proc is not there.
pub fn open_nameless_part(folder: &Path) -> io::Result<File> {
    static HAS_PROC: OnceLock<bool> = OnceLock::new();
    if !HAS_PROC.get_or_init(|| Path::new("/proc/self/fd").is_dir()) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
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

/// Puts these bytes at a place where there may be a file, by way of a new one beside it: a reader finds the old one or
/// the new one, never half of one. What has the new one's name is removed and never opened: it may be a link that
/// another user laid there.
pub fn replace_whole(path: &Path, new: &Path, bytes: &[u8]) -> io::Result<()> {
    match std::fs::remove_file(new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = File::create_new(new)?;
    file.write_all(bytes).and_then(|()| std::fs::rename(new, path)).inspect_err(|_| {
        let _ = std::fs::remove_file(new);
    })
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
        sync_file_system(&File::open(place.path()).expect("opened")).expect("synced");
    }

    #[test]
    fn a_file_is_replaced_whole_and_no_link_beside_it_is_written_through() {
        let place = tempfile::tempdir().expect("a folder");
        let at = |name: &str| place.path().join(name);
        std::fs::write(at("victim"), "kept").expect("written");
        for link in ["figures", ".new"] {
            std::os::unix::fs::symlink("victim", at(link)).expect("a link");
        }
        for text in ["first", "second"] {
            replace_whole(&at("figures"), &at(".new"), text.as_bytes()).expect("replaced");
            assert_eq!(std::fs::read_to_string(at("figures")).expect("read"), text);
        }
        assert!(!at("figures").is_symlink() && !at(".new").exists());
        assert_eq!(std::fs::read(at("victim")).expect("read"), b"kept");
        std::fs::create_dir(at(".new")).expect("a folder of that name");
        assert!(replace_whole(&at("figures"), &at(".new"), b"third").is_err());
        assert_eq!(std::fs::read(at("figures")).expect("read"), b"second");
    }
}
