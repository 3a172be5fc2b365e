//! The journal's folder: the lock that keeps two from changing settings at once, and the file of lines; and
//! what its lines come to: for each setting, the values that linerate may have left there.

use super::{Bytes, Damage, Host, JournalEntry, Log, MOST_ENTRIES, Record, UndoResult, parse};
use linerate_facts::failure::Failure;
use linerate_system::file::is_ours;
use std::fs::{DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A journal of 65,536 settings takes some 40 MB.
const LARGEST_BYTES: u64 = 256 << 20;

/// The folder of the journal, locked until this is dropped.
#[derive(Debug)]
pub struct JournalLock {
    folder: PathBuf,
    name: String,
    _lock: File,
}

/// The file of lines, at its end.
#[derive(Debug)]
pub struct FileLog(File);

impl Log for FileLog {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)?;
        self.0.sync_data()
    }
}

impl JournalLock {
    /// Makes the folder where it is absent, and locks the journal of this name in it.
    pub fn lock(folder: &Path, name: &str) -> Result<JournalLock, Failure> {
        let lacks = |error: io::Error| {
            Failure::Lacks(format!(
                "the journal's folder {} cannot be used: {error}; start as root, or name another with \
                 --journal",
                folder.display()
            ))
        };
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(lacks)?;
        // Before anything is made in it: what is there already may be a link to elsewhere.
        let metadata = std::fs::metadata(folder).map_err(lacks)?;
        only_ours(&metadata, "the journal's folder", folder)?;
        let path = folder.join(format!("{name}.lock"));
        let lock = OpenOptions::new().create(true).write(true).truncate(false).mode(0o600).open(path);
        let lock = lock.map_err(lacks)?;
        match lock.try_lock() {
            Ok(()) => Ok(JournalLock { folder: folder.to_path_buf(), name: name.to_string(), _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(Failure::Lacks(format!(
                "another linerate is changing settings now (it holds {}/{name}.lock); wait until it is done",
                folder.display()
            ))),
            Err(TryLockError::Error(error)) => Err(lacks(error)),
        }
    }

    /// There is a journal of this name.
    pub fn is_there(folder: &Path, name: &str) -> bool {
        // Where that is not known, the one that locks it says why.
        folder.join(format!("{name}.journal")).try_exists().unwrap_or(true)
    }

    /// Takes an empty journal away.
    pub fn discard(&self) -> Result<(), Failure> {
        let path = self.path();
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Failure::Lacks(format!("{} cannot be removed: {error}", path.display())))
            }
            _ => Ok(()),
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.join(format!("{}.journal", self.name))
    }

    /// The lines of the journal, none where there is no journal; and what was cut short at its end.
    pub fn read(&self) -> Result<(Vec<Record>, usize), Failure> {
        let path = self.path();
        let (bytes, (records, good)) = read(&path)?;
        Ok((records, bytes - good))
    }

    /// Opens the file for appending, made where it is absent; what was cut short at its end is taken away.
    pub fn open(&self) -> Result<FileLog, Failure> {
        let path = self.path();
        let good = if path.exists() { read(&path)?.1.1 } else { 0 };
        let opened = || -> io::Result<FileLog> {
            let mut file =
                OpenOptions::new().create(true).write(true).truncate(false).mode(0o600).open(&path)?;
            file.set_len(good as u64)?;
            io::Seek::seek(&mut file, io::SeekFrom::End(0))?;
            file.sync_all()?;
            // A name is on the disk only when its folder is.
            File::open(&self.folder)?.sync_all()?;
            Ok(FileLog(file))
        };
        opened().map_err(|error| {
            Failure::Lacks(format!(
                "the journal {} cannot be written: {error}; nothing was changed",
                path.display()
            ))
        })
    }

    /// Puts the journal aside, once nothing in it is open: the last one is kept.
    pub fn put_aside(&self) -> Result<(), Failure> {
        let kept = self.folder.join(format!("{}.undone", self.name));
        let moved = std::fs::rename(self.path(), &kept)
            .and_then(|()| File::open(&self.folder).and_then(|folder| folder.sync_all()));
        moved.map_err(|error| {
            Failure::Lacks(format!("the journal {} cannot be put aside: {error}", self.path().display()))
        })
    }
}

/// What a journal says is written to the machine's settings with our rights: as ssh with its keys, nobody
/// else may have been able to write it. Root may anyway.
fn only_ours(metadata: &Metadata, what: &str, path: &Path) -> Result<(), Failure> {
    let (owner, mode) = (metadata.uid(), metadata.mode() & 0o7777);
    let why = if !is_ours(owner) {
        format!("belongs to another user (number {owner}), who could have written anything there")
    } else if mode & 0o022 != 0 {
        format!("can be written by others (mode {mode:04o})")
    } else {
        return Ok(());
    };
    Err(Failure::Lacks(format!(
        "{what} {0} {why}, and what it says would be done; nothing was changed. If you know that it is \
         yours, run `chown \"$(id -u)\" {0}` and `chmod go-w {0}`, else name another folder with --journal",
        path.display()
    )))
}

/// Bytes of a journal's file, its records, and how many of the bytes they are.
fn read(path: &Path) -> Result<(usize, (Vec<Record>, usize)), Failure> {
    let mut bytes = Vec::new();
    let lacks = |error: io::Error| {
        Failure::Lacks(format!(
            "the journal {} cannot be read: {error}; start as root, or name its folder with --journal",
            path.display()
        ))
    };
    match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(lacks(error)),
        Ok(file) => {
            only_ours(&file.metadata().map_err(lacks)?, "the journal", path)?;
            if let Some(folder) = path.parent() {
                only_ours(&std::fs::metadata(folder).map_err(lacks)?, "the journal's folder", folder)?;
            }
            file.take(LARGEST_BYTES + 1).read_to_end(&mut bytes).map_err(lacks)?;
        }
    }
    let damaged = |damage: Damage| {
        Failure::Lacks(format!(
            "the journal {} cannot be followed: {damage}. Nothing was changed by this; it is text: restore \
             by hand what it calls “old”, then move it away",
            path.display()
        ))
    };
    if bytes.len() as u64 > LARGEST_BYTES {
        return Err(damaged(Damage("it is larger than 256 MiB".into())));
    }
    Ok((bytes.len(), parse(&bytes).map_err(damaged)?))
}

/// Reads a journal that nobody need hold.
pub fn look(folder: &Path, name: &str) -> Result<Vec<Record>, Failure> {
    Ok(read(&folder.join(format!("{name}.journal")))?.1.0)
}

/// How far a setting has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingState {
    /// Announced; never written.
    Announced,
    /// The write may have happened.
    Intended,
    /// Written, and read back like this.
    Done(Bytes),
    /// The write was refused; read back like this, where it could be read.
    Failed(Option<Bytes>),
    /// It needs nothing more.
    Closed(UndoResult),
}

/// One setting of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Followed {
    pub entry: JournalEntry,
    /// The host as it was: the boot tells whether numbers of devices still hold.
    pub host: Host,
    pub step: SettingState,
    /// When it was announced, RFC 3339.
    pub started: String,
}

impl Followed {
    /// It may have another value than before by our hand.
    pub fn open(&self) -> bool {
        !matches!(self.step, SettingState::Closed(_))
    }

    /// The current value if nobody but linerate wrote; `None` where nothing was written.
    pub fn ours(&self) -> Option<&[u8]> {
        match &self.step {
            SettingState::Announced | SettingState::Closed(_) | SettingState::Failed(None) => None,
            SettingState::Intended => Some(self.entry.wanted.as_slice()),
            SettingState::Done(now) | SettingState::Failed(Some(now)) => Some(now.as_slice()),
        }
    }
}

/// All settings of a journal, in the order in which they were changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalState {
    pub steps: Vec<Followed>,
}

impl JournalState {
    /// Follows the lines.
    pub fn of(records: Vec<Record>) -> Result<JournalState, Damage> {
        let mut state = JournalState::default();
        for record in records {
            state.add(record)?;
        }
        Ok(state)
    }

    /// Follows one line more.
    pub fn add(&mut self, record: Record) -> Result<(), Damage> {
        let (n, step) = match record {
            Record::Begin { host, entries, started, .. } => return self.begin(&host, entries, &started),
            Record::Intent { n } => (n, Some(SettingState::Intended)),
            Record::Done { n, now } => (n, Some(SettingState::Done(now))),
            Record::Failed { n, now, .. } => (n, Some(SettingState::Failed(now))),
            // Until it is undone, the old value may still be there.
            Record::Undoing { n } => (n, None),
            Record::Undone { n, how } => (n, Some(SettingState::Closed(how))),
        };
        let Some(followed) = self.steps.get_mut(n) else {
            return Err(Damage(format!("it speaks of setting {n} and announced {}", self.steps.len())));
        };
        if let Some(step) = step {
            followed.step = step;
        }
        // Refused, and as it was: anyone who changes it later changes nothing of our own.
        if let (SettingState::Failed(Some(now)), Some(old)) = (&followed.step, &followed.entry.old)
            && followed.entry.shape.same(now.as_slice(), old.as_slice())
        {
            followed.step = SettingState::Closed(UndoResult::Untouched);
        }
        Ok(())
    }

    fn begin(&mut self, host: &Host, entries: Vec<JournalEntry>, started: &str) -> Result<(), Damage> {
        if self.steps.len() + entries.len() > MOST_ENTRIES {
            return Err(Damage(format!("it announces more than {MOST_ENTRIES} settings")));
        }
        if self.steps.iter().any(|before| !before.host.is_same_machine(host)) {
            return Err(Damage("it is of two machines".into()));
        }
        self.steps.extend(entries.into_iter().map(|entry| Followed {
            entry,
            host: host.clone(),
            step: SettingState::Announced,
            started: started.to_string(),
        }));
        Ok(())
    }

    /// Settings that may have another value than before by our hand.
    pub fn open(&self) -> impl DoubleEndedIterator<Item = (usize, &Followed)> {
        self.steps.iter().enumerate().filter(|(_, followed)| followed.open())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_may_hold_it() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let held = JournalLock::lock(folder.path(), "tune").expect("the first");
        let second = JournalLock::lock(folder.path(), "tune").expect_err("the second");
        assert!(second.to_string().contains("another linerate is changing settings"), "{second}");
        JournalLock::lock(folder.path(), "tune-other").expect("another namespace's");
        drop(held);
        JournalLock::lock(folder.path(), "tune").expect("free again");
    }

    #[test]
    fn a_journal_that_others_could_have_written_is_not_believed() {
        use std::os::unix::fs::{PermissionsExt, chown};
        let folder = tempfile::tempdir().expect("a temporary directory");
        let first = crate::journal::journal_line(&Record::Intent { n: 0 }).expect("JSON");
        let held = JournalLock::lock(folder.path(), "tune").expect("held");
        held.open().expect("made").append(&first).expect("written");
        let path = held.path();
        drop(held);
        let mode = |path: &Path, mode: u32| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("a mode");
        };
        let refused = |why: &str| {
            let lock = JournalLock::lock(folder.path(), "tune").and_then(|held| held.read().map(drop));
            for refused in [lock, look(folder.path(), "tune").map(drop)] {
                let text = refused.expect_err(why).to_string();
                assert!(text.contains(why) && text.contains("chmod go-w"), "{text}");
            }
        };
        for open in [0o777, 0o1777, 0o770, 0o702] {
            mode(folder.path(), open);
            refused(&format!("mode {open:04o}"));
        }
        mode(folder.path(), 0o755);
        for open in [0o666, 0o620] {
            mode(&path, open);
            refused(&format!("mode {open:04o}"));
        }
        mode(&path, 0o644);
        assert_eq!(look(folder.path(), "tune").expect("read").len(), 1, "to be read by others does no harm");
        if chown(&path, Some(12_345), None).is_err() {
            eprintln!("skipped: only root can give a file away");
            return;
        }
        refused("another user (number 12345)");
        chown(&path, Some(0), None).expect("root's again");
        chown(folder.path(), Some(12_345), None).expect("given away");
        refused("another user (number 12345)");
        assert!(!folder.path().join("other.lock").exists());
        assert!(JournalLock::lock(folder.path(), "other").is_err());
        assert!(!folder.path().join("other.lock").exists(), "nothing is made there");
    }

    #[test]
    fn what_was_cut_short_is_taken_away_before_the_next_line() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let held = JournalLock::lock(folder.path(), "tune").expect("held");
        let first = crate::journal::journal_line(&Record::Intent { n: 0 }).expect("JSON");
        held.open().expect("made").append(&first).expect("written");
        std::fs::write(held.path(), [&first[..], b"0000 half a li"].concat()).expect("written");
        assert_eq!(held.read().expect("read").1, 14);
        held.open().expect("opened").append(&first).expect("written");
        assert_eq!(held.read().expect("read"), (vec![Record::Intent { n: 0 }, Record::Intent { n: 0 }], 0));
        std::fs::write(held.path(), [b"x\n", &first[..]].concat()).expect("written");
        let damaged = held.read().expect_err("damaged").to_string();
        assert!(damaged.contains("line 1 cannot be used"), "{damaged}");
        std::fs::write(held.path(), &first).expect("written");
        held.put_aside().expect("moved");
        assert_eq!(held.read().expect("read"), (vec![], 0));
    }
}
