//! A file that is not whole yet: beside its destination, under a name of its own, written by one process and by nobody
//! but this user; a small one without a name, which spares the folder two changes.

use super::names::{JOURNAL, PART};
use crate::client::TransferError;
use linerate_facts::units::show_size;
use linerate_system::Errno;
use linerate_system::file::{folder_of, grow_to, reserve_to};
use linerate_system::private_folder::{name_new, open_nameless_part, rename_new, set_usual_mode};
use linerate_system::side_file::{OldSideFile, make, open_old, remove};
use linerate_system::storage::{Opening, reopen};
use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// The longest name of which a part can be made.
pub(crate) const MOST_RESUMABLE_NAME_BYTES: usize = 255 - 1 - JOURNAL.len();
/// By which a file system says that it cannot promise room (fallocate(2)).
const NO_RESERVING: [Errno; 3] = [Errno::OPNOTSUPP, Errno::NOSYS, Errno::INVAL];

/// `.NAME.linerate-part` beside the place.
pub(crate) fn part_path(destination: &Path) -> PathBuf {
    path_beside(destination, PART)
}

/// `.NAME.linerate-journal` beside the place.
pub(crate) fn journal_path(destination: &Path) -> PathBuf {
    path_beside(destination, JOURNAL)
}

fn path_beside(destination: &Path, end: &str) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(destination.file_name().unwrap_or_default());
    name.push(end);
    destination.with_file_name(name)
}

/// An open part that this process alone writes.
#[derive(Debug)]
pub(crate) struct PartFile {
    path: PathBuf,
    destination: PathBuf,
    pub(crate) file: Arc<File>,
    /// It has no name yet, and nothing of it stays without one.
    is_nameless: bool,
}

impl PartFile {
    /// Makes one that no other start goes on with: without a name, or under the usual one where the file system has no files
    /// without names.
    pub(crate) fn fleeting(destination: &Path) -> Result<Self, TransferError> {
        match open_nameless_part(folder_of(destination)) {
            Ok(file) => Ok(PartFile {
                path: part_path(destination),
                destination: destination.into(),
                file: Arc::new(file),
                is_nameless: true,
            }),
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                let part = PartFile::open(destination)?;
                part.file.set_len(0).map_err(|error| part.failed(error, 0))?;
                Ok(part)
            }
            Err(error) => Err(TransferError::Destination { path: destination.into(), error }),
        }
    }

    /// Opens it, made where it is absent. One that others may have written is begun again, and what belongs to others is
    /// an error.
    pub(crate) fn open(destination: &Path) -> Result<Self, TransferError> {
        let path = part_path(destination);
        let name_bytes = destination.file_name().map_or(0, |name| name.as_bytes().len());
        if name_bytes > MOST_RESUMABLE_NAME_BYTES {
            return Err(TransferError::NameTooLong { path: destination.into() });
        }
        let failed = |error: io::Error| TransferError::Destination { path: destination.into(), error };
        // Whoever held it may have renamed it meanwhile: then it is another file that has the name.
        for _ in 0..16 {
            let (file, is_sound) =
                match open_old(&path).map_err(|why| TransferError::side_file(&path, why))? {
                    Some(OldSideFile::Sound(file)) => (file, true),
                    Some(OldSideFile::Doubtful(file)) => (file, false),
                    None => match make(&path) {
                        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                        made => (made.map_err(failed)?, true),
                    },
                };
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    return Err(TransferError::Busy { path: destination.into() });
                }
                // A file system without locks: nothing can be known of others.
                Err(TryLockError::Error(_)) => {}
            }
            if !is_at(&file, &path).map_err(failed)? {
                continue;
            }
            if is_sound {
                let file = Arc::new(file);
                return Ok(PartFile { path, destination: destination.into(), file, is_nameless: false });
            }
            remove(&path).map_err(|why| TransferError::side_file(&path, why))?;
        }
        Err(TransferError::Busy { path: destination.into() })
    }

    /// Gives it its whole length, with room on the disk where the file system can promise that; one with holes gets no room.
    pub(crate) fn reserve(&self, bytes: u64, has_holes: bool) -> Result<(), TransferError> {
        // What an earlier start left may be longer than the file is now.
        let reserved = self.file.set_len(self.file.metadata().map_or(0, |now| now.len()).min(bytes));
        let room = || if has_holes { self.file.set_len(bytes) } else { grow_to(&self.file, bytes) };
        let reserved = reserved.and_then(|()| match room() {
            Err(error) if is_any_of(&error, &NO_RESERVING) => self.file.set_len(bytes),
            grown => grown,
        });
        reserved.map_err(|error| self.failed(error, bytes))
    }

    /// Keeps its first bytes, with room for `bytes` in all; its length says from now on how far it was written. False:
    /// it has fewer.
    pub(crate) fn keep_first(&self, first: u64, bytes: u64) -> Result<bool, TransferError> {
        let failed = |error| self.failed(error, bytes);
        if self.file.metadata().map_err(failed)?.len() < first {
            return Ok(false);
        }
        self.file.set_len(first).map_err(failed)?;
        match reserve_to(&self.file, bytes) {
            Err(error) if is_any_of(&error, &NO_RESERVING) => Ok(true),
            reserved => reserved.map(|()| true).map_err(failed),
        }
    }

    /// The same file past the page cache; none where the file system has no such way.
    pub(crate) fn direct(&self) -> Option<File> {
        if linerate_system::file::lies_in_memory(&self.file) {
            return None;
        }
        // Not by its name, which may be that of another file meanwhile.
        reopen(&self.file, Opening { write: true, direct: true, ..Opening::default() }).ok()
    }

    /// An error of a write, with what it means for the user.
    pub(crate) fn failed(&self, error: io::Error, bytes: u64) -> TransferError {
        if is_any_of(&error, &[Errno::NOSPC, Errno::DQUOT]) {
            let free = linerate_system::file::space_at(self.folder()).map(|(free, _)| show_size(free));
            return TransferError::NoSpace {
                path: self.destination.clone(),
                wanted: show_size(bytes),
                free: free.unwrap_or_else(|_| "an unknown amount".into()),
            };
        }
        TransferError::Destination { path: self.destination.clone(), error }
    }

    /// Removes it and its journal; what others put in their places meanwhile stays.
    pub(crate) fn discard(&self) {
        if !self.is_nameless {
            let _ = (remove(&self.path), remove(&journal_path(&self.destination)));
        }
    }

    /// Removes it where nothing was written to it.
    pub(crate) fn discard_empty(&self) {
        if self.file.metadata().is_ok_and(|metadata| metadata.len() == 0) {
            self.discard();
        }
    }

    /// It is as old as the server's file is.
    pub(crate) fn set_modified(&self, seconds: Option<u64>) {
        if let Some(seconds) = seconds {
            // A file system that keeps no times keeps none.
            let _ = self.file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        }
    }

    /// Puts the whole file at its destination, with the mode of any new file; what is there already is replaced only
    /// where that is wanted.
    pub(crate) fn land(&self, replace: bool) -> Result<(), TransferError> {
        if !self.is_nameless {
            set_usual_mode(&self.file, self.folder());
        }
        self.land_as_it_is(replace)
    }

    /// The same with the mode that it has.
    pub(crate) fn land_as_it_is(&self, replace: bool) -> Result<(), TransferError> {
        let renamed = match replace {
            false if self.is_nameless => name_new(&self.file, &self.destination),
            true if self.is_nameless => {
                // What is there keeps its name until there is another of it.
                remove(&self.path).map_err(|why| TransferError::side_file(&self.path, why))?;
                name_new(&self.file, &self.path).and_then(|()| {
                    let replaced = std::fs::rename(&self.path, &self.destination);
                    replaced.inspect_err(|_| drop(remove(&self.path)))
                })
            }
            true => std::fs::rename(&self.path, &self.destination),
            false => rename_new(&self.path, &self.destination),
        };
        renamed.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => TransferError::AlreadyThere { path: self.destination.clone() },
            _ => TransferError::Destination { path: self.destination.clone(), error },
        })?;
        if !self.is_nameless {
            let _ = remove(&journal_path(&self.destination));
        }
        // A name can be given to another file between two calls.
        match is_at(&self.file, &self.destination) {
            Ok(false) => Err(TransferError::Swapped { path: self.destination.clone() }),
            _ => Ok(()),
        }
    }

    /// The new name is on the disk.
    pub(crate) fn sync_folder(&self) -> io::Result<()> {
        File::open(self.folder())?.sync_all()
    }

    pub(super) fn folder(&self) -> &Path {
        folder_of(&self.destination)
    }
}

/// The name is that of the open file.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let own = file.metadata()?;
    let named = std::fs::symlink_metadata(path);
    Ok(named.is_ok_and(|named| named.ino() == own.ino() && named.dev() == own.dev()))
}

fn is_any_of(error: &io::Error, of: &[Errno]) -> bool {
    of.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::get::names::is_unfinished;

    #[test]
    fn a_part_is_held_by_one_and_lands_on_nothing() {
        let place = tempfile::tempdir().expect("a folder");
        let destination = place.path().join("file");
        let part = PartFile::open(&destination).expect("opened");
        assert!(matches!(PartFile::open(&destination), Err(TransferError::Busy { .. })));
        part.reserve(10_000, false).expect("room");
        assert_eq!(part.file.metadata().expect("its length").len(), 10_000);
        part.reserve(5000, true).expect("shorter");
        assert_eq!(part.file.metadata().expect("its length").len(), 5000);
        assert!(
            part.keep_first(3000, 9000).expect("room") && !part.keep_first(3001, 9000).expect("looked at")
        );
        assert_eq!(part.file.metadata().expect("its length").len(), 3000);
        std::fs::write(&destination, "old").expect("written");
        assert!(matches!(part.land(false), Err(TransferError::AlreadyThere { .. })));
        assert_eq!(std::fs::read(&destination).expect("read"), b"old");
        part.set_modified(Some(784_111_777));
        part.land(true).expect("replaced");
        assert_eq!(std::fs::metadata(&destination).expect("there").mtime(), 784_111_777);
        part.sync_folder().expect("synced");
        let names: Vec<_> = std::fs::read_dir(place.path()).expect("a list").flatten().collect();
        assert_eq!(names.len(), 1, "{names:?}");
    }

    /// Each of them as somebody else may have laid it there.
    #[test]
    fn a_part_of_others_is_neither_used_nor_harmed() {
        use std::os::unix::fs::{PermissionsExt, chown, symlink};
        let place = tempfile::tempdir().expect("a folder");
        let (destination, victim) = (place.path().join("file"), place.path().join("victim"));
        let part = part_path(&destination);
        std::fs::write(&victim, "victim").expect("written");
        symlink(&victim, &part).expect("a link");
        for remedy in ["it is a link", "remove it"] {
            let refused = PartFile::open(&destination).expect_err("refused").to_string();
            assert!(refused.contains(remedy) && refused.contains(".file.linerate-part"), "{refused}");
        }
        std::fs::remove_file(&part).expect("removed");
        // Ours, but written by others, perhaps, or another file as well: begun again.
        std::fs::hard_link(&victim, &part).expect("a second name");
        let opened = PartFile::open(&destination).expect("opened");
        opened.reserve(10, false).expect("room");
        assert_eq!(std::fs::read(&victim).expect("there"), b"victim");
        std::fs::write(&part, "planted").expect("written");
        drop(opened);
        std::fs::set_permissions(&part, std::fs::Permissions::from_mode(0o666)).expect("a mode");
        let opened = PartFile::open(&destination).expect("opened");
        assert_eq!(opened.file.metadata().expect("its length").len(), 0);
        opened.discard();
        assert!(!part.exists());
        if chown(&victim, Some(12_345), None).is_err() {
            eprintln!("skipped: only root can give a file away");
            return;
        }
        std::fs::rename(&victim, &part).expect("renamed");
        assert!(matches!(PartFile::open(&destination), Err(TransferError::SideFile { .. })));
        assert_eq!(std::fs::read(&part).expect("it stays"), b"victim");
    }

    #[test]
    fn a_part_in_the_current_folder_has_a_folder_whose_room_is_known() {
        let part = PartFile {
            path: part_path(Path::new("bare")),
            destination: "bare".into(),
            file: Arc::new(tempfile::tempfile().expect("a file")),
            is_nameless: true,
        };
        part.sync_folder().expect("synced");
        let full = part.failed(io::Error::from_raw_os_error(Errno::NOSPC.raw_os_error()), 1).to_string();
        assert!(!full.contains("unknown"), "{full}");
        // More than the file system has in one file, however much is free.
        let large = part.failed(io::Error::from_raw_os_error(Errno::FBIG.raw_os_error()), 1).to_string();
        assert!(large.contains("File too large"), "{large}");
    }

    #[test]
    fn a_file_put_in_the_place_of_a_part_does_not_pass_for_it() {
        let place = tempfile::tempdir().expect("a folder");
        let destination = place.path().join("file");
        let part = PartFile::open(&destination).expect("opened");
        std::fs::write(place.path().join("other"), "of another").expect("written");
        std::fs::rename(place.path().join("other"), part_path(&destination)).expect("renamed");
        assert!(matches!(part.land(false), Err(TransferError::Swapped { .. })));
    }

    #[test]
    fn a_landed_file_has_the_mode_of_any_new_file() {
        let place = tempfile::tempdir().expect("a folder");
        let usual = File::create(place.path().join("usual")).and_then(|file| file.metadata());
        let part = PartFile::open(&place.path().join("file")).expect("opened");
        assert_eq!(part.file.metadata().expect("its mode").mode() & 0o777, 0o600);
        part.land(false).expect("landed");
        assert_eq!(part.file.metadata().expect("its mode").mode(), usual.expect("made").mode());
    }

    #[test]
    fn a_fleeting_part_has_no_name_before_it_lands() {
        let place = tempfile::tempdir().expect("a folder");
        let destination = place.path().join("file");
        let names = || std::fs::read_dir(place.path()).expect("a list").count();
        let fleeting = |text: &str| {
            let part = PartFile::fleeting(&destination).expect("made");
            std::io::Write::write_all(&mut &*part.file, text.as_bytes()).expect("written");
            part
        };
        fleeting("nothing of it stays").discard();
        let (first, second) = (fleeting("first"), fleeting("second"));
        assert_eq!(names(), 0);
        first.land(false).expect("landed");
        assert!(matches!(second.land(false), Err(TransferError::AlreadyThere { .. })));
        assert_eq!(std::fs::read(&destination).expect("read"), b"first");
        std::fs::write(&second.path, "of an earlier death").expect("written");
        second.land(true).expect("replaced");
        assert_eq!(std::fs::read(&destination).expect("read"), b"second");
        assert_eq!(names(), 1);
        std::fs::remove_file(&destination)
            .and_then(|()| std::fs::create_dir(&destination))
            .expect("a folder");
        fleeting("third").land(true).expect_err("a folder is there");
        assert_eq!(names(), 1, "nothing of it stays");
    }

    #[test]
    fn names_of_parts_are_known_and_long_ones_are_refused() {
        assert_eq!(part_path(Path::new("a/b")), Path::new("a/.b.linerate-part"));
        assert!(is_unfinished(b".b.linerate-part") && is_unfinished(b".b.linerate-journal"));
        assert!(!is_unfinished(b"b.linerate-part") && !is_unfinished(b".b"));
        let long = "x".repeat(MOST_RESUMABLE_NAME_BYTES + 1);
        let place = tempfile::tempdir().expect("a folder");
        let refused = PartFile::open(&place.path().join(long));
        assert!(matches!(refused, Err(TransferError::NameTooLong { .. })));
    }
}
