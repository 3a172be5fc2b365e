//! Putting a file that is whole at its place: a rename that replaces nothing, a first name for one that had none, and
//! what makes it last.

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
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
