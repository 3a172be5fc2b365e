//! Where what comes in is stored: a directory that its owner named, files without a name in it, and what of its
//! file system stays free.
//!
//! A file has no name from its first byte on and ends with its flow: neither `kill -9` nor a lost connection
//! leaves it behind, and no file that was there is ever opened.

use super::store::{BLOCK_BYTES, StoreFile};
use linerate_facts::room::{FreeSpace, StorageLimits};
use linerate_facts::units::show_size;
use linerate_system::clock;
use linerate_system::file::{check_writable, grow_to};
use linerate_system::{lock, storage};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Files of one flow together: larger ones only take longer to lay out.
const MOST_BYTES: u64 = 4 << 30;
/// Of one worker; less is written over so soon that a cache may take it all.
const LEAST_BYTES: u64 = 16 << 20;

/// Room that is missing may come back within this: shorter than a client's patience.
const FREED: Duration = Duration::from_millis(1500);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Its files are made within this, or its disk hangs; also shorter than a client's patience.
const MADE: Duration = Duration::from_millis(2500);

/// What the owner of the directory lets be stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SinkSettings {
    pub directory: PathBuf,
    pub limits: StorageLimits,
    /// Block device below the directory, where it is known.
    pub disk: Option<String>,
}

/// Why nothing is stored.
#[derive(Debug, Error)]
pub enum SinkError {
    #[error("the sink {}: {why}", .directory.display())]
    Directory { directory: PathBuf, why: String },
    #[error("it throws away what it receives; start it with `linerate agent --sink DIR` to have it stored")]
    None,
    #[error("its sink takes what comes over TCP only; leave UDP out with --protocol tcp")]
    Datagrams,
    #[error(
        "the sink {} has too little room: {free} are free, of which {kept} are kept; make room there, or name another \
         --sink or --sink-limit",
        .directory.display()
    )]
    Room { directory: PathBuf, free: String, kept: String },
    #[error(
        "the sink {} takes {limit} in all (--sink-limit), and {taken} are taken; wait until a test has ended, or raise it",
        .directory.display()
    )]
    Limit { directory: PathBuf, limit: String, taken: String },
    #[error(
        "{sink} made no file within {} s; does its disk hang? Look at the kernel's messages there",
        MADE.as_secs_f64()
    )]
    Hangs { sink: String },
    #[error("the sink {} takes no file: {why}; look at the file system there", .directory.display())]
    File { directory: PathBuf, why: String },
}

/// The files that there are.
#[derive(Clone, Copy, Debug, Default)]
struct UsedBytes {
    bytes: u64,
    /// Of those whose room the file system does not take before it is written: it still counts as free.
    promised_bytes: u64,
}

/// The directory, open for flows.
#[derive(Debug)]
pub struct SinkFolder {
    settings: SinkSettings,
    taken: Mutex<UsedBytes>,
    /// Takes a file's room on the disk before it is written.
    reserve: fn(&File, u64) -> io::Result<()>,
    /// A thread makes files: one at a time, so that two clients do not count the same free bytes.
    making: AtomicBool,
}

impl SinkFolder {
    /// Looks whether it can be written to, by making a file there.
    pub fn open(settings: SinkSettings) -> Result<Arc<SinkFolder>, SinkError> {
        let of = |why: String| SinkError::Directory { directory: settings.directory.clone(), why };
        match std::fs::metadata(&settings.directory) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => return Err(of("it is not a directory; name one that the agent may fill".into())),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(of("it is not there; make it, or check the path".into()));
            }
            Err(error) => return Err(of(format!("{error}; check the path"))),
        }
        let refused = |error: io::Error| match error.kind() {
            ErrorKind::ReadOnlyFilesystem => {
                of("its file system is read-only; name another directory".into())
            }
            ErrorKind::PermissionDenied => {
                of("this user may not write there; change its owner, or name another directory".into())
            }
            _ => of(error.to_string()),
        };
        check_writable(&settings.directory).map_err(refused)?;
        storage::nameless(&settings.directory).map_err(refused)?;
        let (taken, making) = (Mutex::default(), AtomicBool::new(false));
        Ok(Arc::new(SinkFolder { settings, taken, reserve: grow_to, making }))
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.settings.directory
    }

    /// Block device below it, where it is known.
    pub fn disk(&self) -> Option<&str> {
        self.settings.disk.as_deref()
    }

    /// What may be written there now, bytes.
    pub fn free_bytes(&self) -> u64 {
        let taken = *lock(&self.taken);
        self.space(taken).map_or(0, |space| space.bytes).min(self.settings.limits.left(taken.bytes))
    }

    /// Files there are written past the page cache.
    pub fn is_direct(&self) -> bool {
        storage::nameless(&self.settings.directory).is_ok_and(|(_, direct)| direct)
    }

    /// For a sentence.
    fn name(&self) -> String {
        let disk = self.settings.disk.as_ref().map_or_else(String::new, |disk| format!(" (disk {disk})"));
        format!("the sink {}{disk}", self.settings.directory.display())
    }

    fn space(&self, used_bytes: UsedBytes) -> io::Result<FreeSpace> {
        let space = self.settings.limits.space_in(&self.settings.directory)?;
        Ok(FreeSpace { bytes: space.bytes.saturating_sub(used_bytes.promised_bytes), ..space })
    }

    /// A file for each of so many workers, with its room: an equal part of what there is for those who share it. What the
    /// files of an earlier test had comes back a moment after their end: XFS frees it in the background.
    pub fn take(self: &Arc<Self>, workers: usize, sharing: u32) -> Result<Vec<SinkStore>, SinkError> {
        let begun = clock::now();
        loop {
            match self.take_in_time(workers, sharing, begun + MADE) {
                Err(SinkError::Room { .. } | SinkError::Limit { .. }) if clock::since(begun) < FREED => {
                    clock::sleep(POLL_INTERVAL);
                }
                taken => return taken,
            }
        }
    }

    /// The same, made by a thread of its own, which a disk that hangs may keep.
    fn take_in_time(
        self: &Arc<Self>,
        workers: usize,
        sharing: u32,
        deadline: Instant,
    ) -> Result<Vec<SinkStore>, SinkError> {
        let hangs = || SinkError::Hangs { sink: self.name() };
        while self.making.swap(true, Ordering::AcqRel) {
            if clock::now() >= deadline {
                return Err(hangs());
            }
            clock::sleep(POLL_INTERVAL / 10);
        }
        let (tell, made) = channel();
        let sink = Arc::clone(self);
        let make = move || {
            let taken = sink.take_now(workers, sharing);
            sink.making.store(false, Ordering::Release);
            // Nobody waits any more: then the files go, and their room comes back.
            let _ = tell.send(taken);
        };
        if let Err(error) = std::thread::Builder::new().name("files".into()).spawn(make) {
            self.making.store(false, Ordering::Release);
            let directory = self.settings.directory.clone();
            return Err(SinkError::File { directory, why: format!("no thread makes it ({error})") });
        }
        made.recv_timeout(deadline.saturating_duration_since(clock::now())).unwrap_or_else(|_| Err(hangs()))
    }

    fn take_now(self: &Arc<Self>, workers: usize, sharing: u32) -> Result<Vec<SinkStore>, SinkError> {
        let directory = || self.settings.directory.clone();
        let file = |error: &io::Error| SinkError::File { directory: directory(), why: error.to_string() };
        // Files may go meanwhile, none come.
        let taken = *lock(&self.taken);
        let space = self.space(taken).map_err(|error| file(&error))?;
        let (free, kept) = (show_size(space.free), show_size(space.left_alone));
        let room = SinkError::Room { directory: directory(), free, kept };
        let workers = workers.max(1) as u64;
        let each = |bytes: u64| bytes / workers / BLOCK_BYTES * BLOCK_BYTES;
        // What there is becomes less with each flow that comes; the most of one flow does not.
        let free = space.bytes.min(self.settings.limits.left(taken.bytes));
        let all = MOST_BYTES.min(free);
        let part = (free / workers.max(sharing.into())).min(MOST_BYTES / workers) / BLOCK_BYTES * BLOCK_BYTES;
        // Where the parts are too small to be of use, those that come first have some that are.
        let length_bytes = part.max(LEAST_BYTES.min(each(all)));
        if each(space.bytes) < LEAST_BYTES {
            return Err(room);
        }
        if length_bytes < LEAST_BYTES {
            let limit = show_size(self.settings.limits.limit_bytes.unwrap_or(0));
            return Err(SinkError::Limit { directory: directory(), limit, taken: show_size(taken.bytes) });
        }
        let mut stores = Vec::new();
        let mut promised_bytes = 0;
        for _ in 0..workers {
            let (made, direct) = storage::nameless(&self.settings.directory).map_err(|error| file(&error))?;
            let promised = match (self.reserve)(&made, length_bytes) {
                Ok(()) => 0,
                // What cannot be taken before may run out in the middle, and says so then.
                Err(error) if error.kind() == ErrorKind::Unsupported => length_bytes,
                Err(error) if error.kind() == ErrorKind::StorageFull => return Err(room),
                Err(error) => return Err(file(&error)),
            };
            promised_bytes += promised;
            stores.push((made, direct, promised));
        }
        let mut taken = lock(&self.taken);
        taken.bytes = taken.bytes.saturating_add(length_bytes.saturating_mul(workers));
        taken.promised_bytes = taken.promised_bytes.saturating_add(promised_bytes);
        drop(taken);
        let store = |(file, direct, promised_bytes)| SinkStore {
            file: StoreFile {
                file,
                length_bytes,
                direct,
                name: self.name(),
                settles: AtomicBool::new(false),
            },
            promised_bytes,
            sink: Arc::clone(self),
        };
        Ok(stores.into_iter().map(store).collect())
    }
}

/// The file of one worker; it ends with this.
#[derive(Debug)]
pub struct SinkStore {
    file: StoreFile,
    promised_bytes: u64,
    sink: Arc<SinkFolder>,
}

impl SinkStore {
    /// The file.
    pub fn file(&self) -> &StoreFile {
        &self.file
    }

    /// No more is taken, and the disk keeps what came.
    pub fn settle(&self) {
        self.file.settles.store(true, Ordering::Relaxed);
    }
}

impl Drop for SinkStore {
    fn drop(&mut self) {
        let mut taken = lock(&self.sink.taken);
        taken.bytes = taken.bytes.saturating_sub(self.file.length_bytes);
        taken.promised_bytes = taken.promised_bytes.saturating_sub(self.promised_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_makes_no_file_is_given_up_and_keeps_one_thread() {
        let folder = tempfile::tempdir().expect("a folder");
        let directory = folder.path().to_path_buf();
        let settings = SinkSettings { directory, disk: Some("sda".into()), ..SinkSettings::default() };
        let sink = SinkFolder::open(settings).expect("a sink");
        // As a thread has it that hangs.
        sink.making.store(true, Ordering::Release);
        let begun = Instant::now();
        let late = sink.take(1, 1).expect_err("it hangs").to_string();
        assert!(begun.elapsed() >= MADE && begun.elapsed() < MADE * 2, "{:?}", begun.elapsed());
        assert!(late.contains(" (disk sda) made no file within 2.5 s; does its disk hang?"), "{late}");
        assert!(sink.free_bytes() > 0, "who asks for its room does not wait");
        sink.making.store(false, Ordering::Release);
        assert_eq!(sink.take(1, 1).expect("it goes on").len(), 1);
    }

    /// ext4 without extents and many network file systems: all of the first flow's room still counts as free.
    #[test]
    fn what_is_kept_stays_free_where_no_room_can_be_taken_before() {
        const ROOM: u64 = 512 << 20;
        let folder = tempfile::tempdir().expect("a folder");
        let directory = folder.path().to_path_buf();
        let free = linerate_facts::room::space_in(&directory, 1).expect("its space").free;
        let limits = StorageLimits { keep_bytes: Some(free.saturating_sub(ROOM)), limit_bytes: None };
        let settings = SinkSettings { directory, limits, ..SinkSettings::default() };
        let opened = SinkFolder::open(settings).expect("a sink");
        let mut sink = Arc::try_unwrap(opened).expect("nobody else has it");
        sink.reserve = |_, _| Err(ErrorKind::Unsupported.into());
        let sink = Arc::new(sink);
        let Ok(first) = sink.take_now(1, 1) else {
            eprintln!("skipped: no room here");
            return;
        };
        let second = sink.take_now(1, 1).unwrap_or_default();
        let all: u64 = lengths(&first).iter().chain(&lengths(&second)).sum();
        // Others may free some room meanwhile.
        assert!(all < (ROOM >> 20) * 3 / 2, "{all} MiB");
        drop((first, second));
        assert_eq!(lock(&sink.taken).promised_bytes, 0);
    }

    fn lengths(stores: &[SinkStore]) -> Vec<u64> {
        stores.iter().map(|store| store.file.length_bytes >> 20).collect()
    }

    #[test]
    fn flows_that_come_together_get_equal_parts_of_little_room() {
        let folder = tempfile::tempdir().expect("a folder");
        let open = |limit: u64| {
            let directory = folder.path().to_path_buf();
            let limits = StorageLimits { keep_bytes: Some(0), limit_bytes: Some(limit << 20) };
            let settings = SinkSettings { directory, limits, disk: None };
            SinkFolder::open(settings).expect("a sink")
        };
        let sink = open(128);
        // Three flows of one, two and one worker.
        let first = sink.take_now(1, 4).expect("a part");
        let second = sink.take_now(2, 3).expect("a part");
        let third = sink.take_now(1, 1).expect("the rest");
        assert_eq!((lengths(&first), lengths(&second), lengths(&third)), (vec![32], vec![32, 32], vec![32]));
        drop((first, second, third));
        assert_eq!(lengths(&sink.take_now(2, 0).expect("all of it: they alone")), [64, 64]);
        // Too little for all of them: some have what is of use.
        let sink = open(40);
        let first = sink.take_now(1, u32::MAX).expect("the least");
        let second = sink.take_now(1, 2).expect("the least");
        assert_eq!((lengths(&first), lengths(&second)), (vec![16], vec![16]));
        assert!(matches!(sink.take_now(1, 1), Err(SinkError::Limit { .. })));
    }
}
