//! A file that is coming in: its part, and the room for it, which is taken as the bytes come and given back
//! where they do not come. Parts that no client came back for go after a day.

use super::Shared;
use crate::client::TransferError;
use crate::get::part::PartFile;
use linerate_facts::room::StorageLimits;
use linerate_system::beneath::ConfinedFolder;
use linerate_system::file::reserve_to;
use linerate_system::{Errno, clock, lock};
use linerate_transport::admission::{NoPermit, Permit, Permits, origin};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Files that come at a time; one client gets half of them, as many as the streams that `linerate put` has at most.
const MOST_FILES: usize = 128;
/// So long after a file was refused for want of a permit those that hardly come are given up sooner.
const SHORT_TIME: Duration = Duration::from_secs(1);

/// Room is reserved ahead for as much as came, between these two: files that come side by side lie in large pieces on
/// the disk, and a client that sends little has little reserved.
const LEAST_AHEAD_BYTES: u64 = 1 << 20;
const MOST_AHEAD_BYTES: u64 = 64 << 20;

/// What clients may store, and how many at a time.
pub(super) struct Incoming {
    limits: StorageLimits,
    /// Bytes by which their files have grown since the server started. Fewer than none: what was there before went.
    grown: Mutex<i64>,
    permits: Arc<Permits>,
    /// When one was refused, and whose clients alone were; none: everybody's.
    refused: Mutex<Option<(Instant, Option<IpAddr>)>>,
}

impl Incoming {
    pub(super) fn new(limits: StorageLimits) -> Arc<Self> {
        let permits = Permits::shared(MOST_FILES);
        Arc::new(Incoming { limits, grown: Mutex::default(), permits, refused: Mutex::default() })
    }

    /// For one file of this client.
    pub(super) fn permit(&self, client: IpAddr) -> Result<Permit, NoPermit> {
        self.permits.take(client).inspect_err(|why| {
            let whose = matches!(why, NoPermit::OriginHasHalf { .. }).then(|| origin(client));
            let mut refused = lock(&self.refused);
            // Where all are refused, that one origin is too says nothing new.
            let is_of_all =
                refused.is_some_and(|(at, whose)| whose.is_none() && clock::since(at) < SHORT_TIME);
            if whose.is_none() || !is_of_all {
                *refused = Some((clock::now(), whose));
            }
        })
    }

    /// A client was refused a moment ago for want of what this one has.
    pub(super) fn is_short(&self, client: IpAddr) -> bool {
        lock(&self.refused).is_some_and(|(at, whose)| {
            clock::since(at) < SHORT_TIME && whose.is_none_or(|whose| whose == origin(client))
        })
    }

    /// An unfinished file of so many bytes is gone.
    fn gave_back(&self, bytes: u64) {
        let mut grown = lock(&self.grown);
        *grown = grown.saturating_sub_unsigned(bytes);
    }
}

/// A part, which one client writes. Where it does not get its name it goes, or what came of it stays.
pub(super) struct IncomingFile {
    part: PartFile,
    incoming: Arc<Incoming>,
    /// Its client goes on with what came.
    stays: bool,
    has_landed: bool,
    /// Bytes of the file, of which those that are not there yet are reserved.
    reserved: u64,
    /// The part's path leads through it.
    folder: ConfinedFolder,
}

impl IncomingFile {
    /// Opens the part of this name, with what is there of it. `stays`: what came is kept where the client leaves.
    pub(super) fn open(
        folder: ConfinedFolder,
        name: &OsStr,
        incoming: &Arc<Incoming>,
        stays: bool,
    ) -> Result<Self, TransferError> {
        let part = PartFile::open(&folder.entry_path(name))?;
        let length = part.file.metadata().map(|metadata| metadata.len());
        let reserved = length.map_err(|error| part.failed(error, 0))?;
        Ok(IncomingFile { part, incoming: Arc::clone(incoming), stays, has_landed: false, reserved, folder })
    }

    pub(super) fn file(&self) -> &File {
        &self.part.file
    }

    /// Keeps its first bytes, if there is room for so many more, of which nothing is reserved yet. False: it has fewer.
    pub(super) fn keep_first(&mut self, first: u64, more: u64) -> Result<bool, TransferError> {
        let wanted = first.saturating_add(more);
        let grown = *lock(&self.incoming.grown);
        let left = self.left(grown).map_err(|error| self.part.failed(error, wanted))?;
        // No file has 2^63 bytes and more.
        if i64::try_from(wanted).is_err() || more > left.saturating_add(self.reserved.saturating_sub(first)) {
            return Err(self.no_room(wanted));
        }
        if !self.part.keep_first(first, first)? {
            return Ok(false);
        }
        self.incoming.gave_back(self.reserved - first);
        self.reserved = first;
        Ok(true)
    }

    /// Writes what came for `at`, of a file that will have `end` bytes.
    pub(super) fn write(&mut self, bytes: &[u8], at: u64, end: u64) -> Result<(), TransferError> {
        let to = at + bytes.len() as u64;
        if to > self.reserved {
            self.reserve(to, end)?;
        }
        self.part.file.write_all_at(bytes, at).map_err(|error| self.part.failed(error, end))
    }

    /// Room up to `to`, and for what follows. One file at a time, so that two do not count the same free bytes.
    fn reserve(&mut self, to: u64, end: u64) -> Result<(), TransferError> {
        let incoming = Arc::clone(&self.incoming);
        let mut grown = lock(&incoming.grown);
        let left = self.left(*grown).map_err(|error| self.part.failed(error, end))?;
        if to - self.reserved > left {
            return Err(self.no_room(end));
        }
        let ahead = to.clamp(LEAST_AHEAD_BYTES, MOST_AHEAD_BYTES);
        let wanted = end.min(to.saturating_add(ahead)).min(self.reserved.saturating_add(left));
        // What is written at once needs no reservation.
        if wanted > to {
            match reserve_to(&self.part.file, wanted) {
                Err(error) if [Errno::OPNOTSUPP, Errno::NOSYS, Errno::INVAL].contains(&errno(&error)) => {}
                reserved => reserved.map_err(|error| self.part.failed(error, end))?,
            }
        }
        *grown += (wanted - self.reserved) as i64;
        self.reserved = wanted;
        Ok(())
    }

    fn left(&self, grown: i64) -> io::Result<u64> {
        let folder: PathBuf = self.folder.entry_path(OsStr::new("."));
        let free = self.incoming.limits.space_in(&folder)?.bytes;
        Ok(free.min(self.incoming.limits.left(u64::try_from(grown).unwrap_or(0))))
    }

    fn no_room(&self, wanted: u64) -> TransferError {
        self.part.failed(Errno::NOSPC.into(), wanted)
    }

    /// Nothing of it is kept.
    pub(super) fn discard(mut self) {
        self.stays = false;
    }

    /// On the disk, then under its name, if nothing has that.
    pub(super) fn land(
        &mut self,
        modified: Option<u64>,
        at_disk: impl FnOnce(&File) -> io::Result<()>,
    ) -> Result<(), TransferError> {
        self.part.set_modified(modified);
        at_disk(&self.part.file).map_err(|error| self.part.failed(error, self.reserved))?;
        self.part.land(false)?;
        self.has_landed = true;
        // The name, too; where that fails it is there all the same, until the power goes.
        let _ = self.part.sync_folder();
        Ok(())
    }
}

impl Drop for IncomingFile {
    fn drop(&mut self) {
        if self.has_landed {
            return;
        }
        let came = self.part.file.metadata().map_or(0, |metadata| metadata.len());
        let kept = if self.stays { came } else { 0 };
        match kept {
            0 => self.part.discard(),
            // What was reserved behind it is free again. Where that fails it is free in a day, with the part.
            _ => drop(self.part.file.set_len(kept)),
        }
        self.incoming.gave_back(self.reserved.saturating_sub(kept));
    }
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// A client that goes on with a part does so within this.
const STALE: Duration = Duration::from_secs(24 * 3600);

/// Removes those that are old, now and each time that `every` is over, until the server ends.
pub(super) fn remove_old_parts(shared: &Shared<'_>, every: Duration) {
    let started = clock::date();
    loop {
        let removed = shared.tree.remove_unfinished(clock::date() - STALE, shared.stop);
        for (path, bytes) in removed {
            tracing::info!(path = %path.display(), bytes, "an unfinished file of more than a day was removed");
            // What was there before the start was never counted.
            if clock::date() - STALE > started {
                shared.incoming.gave_back(bytes);
            }
        }
        if shared.stop.wait(every) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{FileServerSettings, ServedTree};
    use super::*;
    use linerate_facts::room::StorageLimits;
    use linerate_system::stop::Stop;
    use std::time::{Instant, SystemTime};

    #[test]
    fn old_parts_go_each_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let tree = ServedTree::open(&[folder.path().to_path_buf()]).expect("a tree");
        let writable = Some(StorageLimits::default());
        let settings = FileServerSettings { connections: 2, handshakes: 2, writable, ..Default::default() };
        let stop = Stop::new();
        let shared = Shared::new(&tree, &settings, &stop);
        let left = std::thread::scope(|scope| {
            scope.spawn(|| remove_old_parts(&shared, Duration::from_millis(5)));
            let left = (0..3).find(|number| {
                let path = folder.path().join(format!(".{number}.linerate-part"));
                std::fs::write(&path, "text").expect("written");
                let file = std::fs::File::open(&path).expect("opened");
                file.set_modified(SystemTime::now() - STALE - Duration::from_secs(2)).expect("a time");
                let begun = Instant::now();
                while path.exists() && begun.elapsed() < Duration::from_secs(60) {
                    std::thread::sleep(Duration::from_millis(2));
                }
                path.exists()
            });
            stop.end();
            left
        });
        assert_eq!(left, None);
    }
}
