//! What came back: counted, checked, sent again where it was short, or kept as an error. After the stop what
//! is under way comes home, files are flushed, what was owed is counted.

use super::{AccessWork, Alike, Flight, READ, TURN_WAIT, WRITE};
use crate::flow::access::{AccessError, AccessOutcome, AccessRequest, SyncMethod};
use linerate_system::Errno;
use linerate_system::buffers::Lease;
use linerate_system::queue::{Action, Completion, Queue, Transfer};
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

/// After a stop, what is under way is waited for as long as something comes back within so many times the
/// longest silence so far …
const SILENT_LATENCIES: u64 = 2;
/// … but for no less and no more than this: the throttle of a control group or of a cloud volume holds requests back for
/// a second and more.
const LEAST_PATIENCE_NANOS: u64 = 3_000_000_000;
const MOST_PATIENCE_NANOS: u64 = 20_000_000_000;
/// After a Ctrl-C this is all: with what follows, a second at most.
const ABANDON_NANOS: u64 = 200_000_000;
/// As many requests that were due but never sent are counted as late.
const MOST_OVERDUE: usize = 1_000_000;

impl<Q: Queue> AccessWork<'_, Q> {
    /// After the stop: what is under way comes home, as long as the device shows life.
    pub(super) fn drain(&mut self, stopped: u64, done: &mut Vec<Completion>) -> io::Result<u64> {
        let mut now = stopped;
        while self.queue.in_flight() > 0 {
            let silence = now.saturating_sub(self.life.max(stopped));
            let enough = if self.abandoned() {
                now - stopped >= ABANDON_NANOS
            } else {
                silence >= self.patience(stopped)
            };
            if enough {
                break;
            }
            now = self.turn(Some(TURN_WAIT), now, done)?;
        }
        let left = self.queue.in_flight();
        if let Some(number) = self.first_under_way().filter(|_| left > 0 && !self.abandoned()) {
            let waited = now.saturating_sub(self.life.max(stopped)) as f64 / 1e9;
            self.failed(
                number,
                &io::Error::other(format!(
                    "{left} requests did not come back within {waited:.1} s after the stop: the device hangs, or \
                     something above it holds them back"
                )),
            );
        }
        Ok(now)
    }

    /// The lowest block that did not come back.
    fn first_under_way(&self) -> Option<usize> {
        let mut home = vec![false; self.flights.len()];
        self.free.iter().flatten().for_each(|lease| home[lease.number()] = true);
        home.iter().position(|home| !home)
    }

    /// How long a device may be silent: as long again as it was before, since a deep queue of large requests
    /// on a slow one, or a throttle that deals by the second, is not a hang.
    fn patience(&self, stopped: u64) -> u64 {
        let before = self.longest_silence.max(stopped.saturating_sub(self.life));
        (SILENT_LATENCIES * before).clamp(LEAST_PATIENCE_NANOS, MOST_PATIENCE_NANOS)
    }

    /// Every file that may have been written goes to its device.
    pub(super) fn flush(&mut self, mut now: u64, done: &mut Vec<Completion>) -> io::Result<u64> {
        let mut block = self.free[WRITE].pop();
        for file in 0..self.start.files.len() {
            let Some(lease) = block.take() else { break };
            let flush =
                Transfer { action: Action::Flush { data_only: false }, file, offset: 0, from: 0, length: 0 };
            self.queue.submit(lease, flush);
            while self.queue.in_flight() > 0 {
                if self.abandoned() {
                    let abandoned = io::Error::other("abandoned before it was over");
                    self.error(file, 0, "flush", &abandoned);
                    return Ok(now);
                }
                self.queue.turn(Some(TURN_WAIT), done)?;
                now = self.nanos();
            }
            if let Some(Completion { lease, result }) = done.pop() {
                block = Some(lease);
                if let Err(error) = result {
                    self.error(file, 0, "flush", &error);
                }
            }
        }
        Ok(now)
    }

    /// What an open loop owed at the stop was late, though it was never sent.
    pub(super) fn count_overdue(&mut self, stopped: u64) {
        if self.all_asked() {
            return;
        }
        for late in self.schedule.overdue(stopped, MOST_OVERDUE) {
            self.lateness.saturating_record(late);
        }
    }

    /// `depths`: requests in flight, and requests that waited to be.
    pub(super) fn outcome(mut self, ended: u64, home: bool, depths: [f64; 2]) -> AccessOutcome {
        if self.more_corrupt > 0
            && let Some(last) = self.corrupt.last_mut()
        {
            last.why = format!("{}; and {} more damaged sectors", last.why, self.more_corrupt);
        }
        let cpu_seconds = self.cpu().as_secs_f64();
        let [reads, writes] = self.sides;
        AccessOutcome {
            reads,
            writes,
            syncs: self.syncs,
            lateness: self.lateness,
            mean_depth: depths[0],
            mean_waiting: depths[1],
            windows: self.windows,
            cpu_seconds,
            started_seconds: self.started as f64 / 1e9,
            ended_seconds: ended as f64 / 1e9,
            whole: self.errors.is_empty() && home,
            errors: self.errors,
            corrupt: self.corrupt,
            method: self.queue.method(),
        }
    }
}
