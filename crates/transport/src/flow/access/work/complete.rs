//! What came back: counted, checked, sent again where it was short, or kept as an error.

use super::{AccessWork, Alike, Flight, READ, WRITE};
use crate::flow::access::{AccessError, AccessRequest, SyncMethod};
use linerate_system::Errno;
use linerate_system::buffers::Lease;
use linerate_system::queue::{Completion, Queue};
use std::io;
use std::sync::atomic::Ordering;

/// No more errors, and no more damaged blocks, are kept of a worker.
const MOST_ERRORS: usize = 8;
const MOST_CORRUPT: usize = 100;

impl<Q: Queue> AccessWork<'_, Q> {
    pub(super) fn complete_all(&mut self, done: &mut Vec<Completion>, now: u64) {
        let mut completed = 0;
        for ended in done.drain(..) {
            completed += u64::from(self.complete(ended, now));
        }
        for side in [READ, WRITE] {
            self.count(side);
        }
        if completed > 0 {
            self.counters.progress.add_at(completed * self.start.transfer_bytes as u64, now);
            self.operations += completed;
            self.counters.operations.store(self.operations, Ordering::Relaxed);
        }
    }

    /// True if a request is over in full.
    fn complete(&mut self, completion: Completion, now: u64) -> bool {
        let Completion { lease, result } = completion;
        let number = lease.number();
        let side = usize::from(number >= self.read_blocks);
        let flight = &mut self.flights[number];
        match result {
            Ok(moved) if flight.moved + moved >= self.start.transfer_bytes => {
                flight.moved = self.start.transfer_bytes;
                let Flight { request, since, sync_since, .. } = *flight;
                let nanos = now.saturating_sub(since);
                if let Some(began) = sync_since {
                    self.syncs.add(self.start.transfer_bytes as u64, now.saturating_sub(began), nanos);
                } else if side == WRITE && self.is_sync_due() {
                    self.flights[number].sync_since = Some(now);
                    self.submit(lease);
                    return false;
                }
                if self.alike[side].nanos != nanos {
                    self.count(side);
                    self.alike[side].nanos = nanos;
                }
                self.alike[side].count += 1;
                let mut free = now;
                if side == READ && self.stamper.is_some() {
                    self.check(&lease, request);
                    free = self.nanos();
                }
                self.set_free(side, lease, free);
                return true;
            }
            Ok(moved) if moved > 0 => flight.moved += moved,
            Ok(_) => {
                let why = if side == READ { "the file ends here" } else { "nothing was taken" };
                self.failed(number, &io::Error::other(why));
                self.set_free(side, lease, now);
                return false;
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {}
            Err(error) => {
                self.failed(number, &error);
                self.set_free(side, lease, now);
                return false;
            }
        }
        // The rest of a short transfer; after an error of another request it is not worth the while.
        if self.errors.is_empty() {
            self.submit(lease);
        } else {
            self.set_free(side, lease, now);
        }
        false
    }

    /// The write that has ended is the last of those that one sync brings to the device.
    fn is_sync_due(&mut self) -> bool {
        let Some(sync) = self.start.sync.filter(|sync| sync.method != SyncMethod::Direct) else {
            return false;
        };
        self.unsynced += 1;
        let due = self.unsynced >= sync.every && self.errors.is_empty();
        if due {
            self.unsynced = 0;
        }
        due
    }

    /// Its user may ask for the next.
    fn set_free(&mut self, side: usize, lease: Lease, now: u64) {
        self.free[side].push(lease);
        self.asking.push_back(now);
    }

    fn count(&mut self, side: usize) {
        let Alike { count, nanos } = std::mem::take(&mut self.alike[side]);
        if count > 0 {
            self.sides[side].add_alike(count, self.start.transfer_bytes as u64, nanos);
            self.answered.operations += count;
            self.answered.latency_nanos =
                self.answered.latency_nanos.saturating_add(count.saturating_mul(nanos));
        }
    }

    pub(super) fn failed(&mut self, number: usize, error: &io::Error) {
        let Flight { request, moved, sync_since, .. } = self.flights[number];
        let sync = self.start.sync.filter(|_| sync_since.is_some());
        let verb =
            sync.map_or(if number < self.read_blocks { "read" } else { "write" }, |sync| sync.method.word());
        let offset = if sync.is_some() { request.offset } else { request.offset + moved as u64 };
        self.error(request.file, offset, verb, error);
    }

    pub(super) fn error(&mut self, file: usize, offset: u64, verb: &str, error: &io::Error) {
        if self.errors.len() < MOST_ERRORS {
            let label = self.start.files[file].label.clone();
            let (why, errno) = (format!("{verb}: {error}"), Errno::from_io_error(error));
            self.errors.push(AccessError { label, offset, why, errno });
        }
    }

    fn check(&mut self, lease: &Lease, request: AccessRequest) {
        let Some(stamper) = &self.stamper else { return };
        let (label, corrupt) = (&self.start.files[request.file].label, &mut self.corrupt);
        let more = &mut self.more_corrupt;
        stamper.check(self.numbers[request.file], request.offset, lease.bytes(), |damage| {
            if corrupt.len() < MOST_CORRUPT {
                let (label, offset) = (label.clone(), damage.offset);
                corrupt.push(AccessError { label, offset, why: damage.why, errno: None });
            } else {
                *more += 1;
            }
        });
    }
}
