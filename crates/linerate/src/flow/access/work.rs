//! The loop of a worker: send what is due, reap what is over, count it. One look at the clock and one system call serve a batch.
//!
//! Generic over `Queue`, so that the same loop runs on io_uring, on threads, on blocking calls, on a mapping, and on the seeded fake.

use super::draw::Random;
use super::schedule::Schedule;
use super::stamp::{Stamper, file_number};
use super::{AccessCounters, AccessError, AccessStart, Outcome, Pace, Request, Tally, tally};
use hdrhistogram::Histogram;
use linerate_system::counters::thread_cpu;
use linerate_system::queue::{Action, Done, Queue, Transfer};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Requests that are handed to the kernel in one call.
const BATCH: usize = 32;
/// The worker looks at `stop` at least this often.
const TURN_WAIT: Duration = Duration::from_millis(50);
/// After a stop, what is under way is waited for as long as something comes back within this time; a second is all that Ctrl-C may take.
const DRAIN_NANOS: u64 = 600_000_000;
/// The same after a Ctrl-C, all in all.
const ABANDON_NANOS: u64 = 200_000_000;
/// How often the CPU time is looked at.
const CPU_NANOS: u64 = 5_000_000;
/// No more errors, and no more damaged blocks, are kept of a worker.
const MOST_ERRORS: usize = 8;
const MOST_CORRUPT: usize = 100;
/// As many requests that were due but never sent are counted as late.
const MOST_OVERDUE: usize = 1_000_000;

/// A request under way.
#[derive(Clone, Copy, Debug)]
struct Flight {
    request: Request,
    /// From which its latency counts, nanoseconds.
    since: u64,
    /// Bytes that are done.
    moved: usize,
}

/// Completed requests of one direction that took equally long: with the clock read once a batch, many do.
#[derive(Clone, Copy, Debug, Default)]
struct Alike {
    count: u64,
    nanos: u64,
}

/// The flags that end the loop.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends<'a> {
    /// No new requests.
    pub stop: &'a AtomicBool,
    /// Set here once the stop was seen: from then on the worker ends by itself.
    pub ending: &'a AtomicBool,
}

/// The working state.
pub(super) struct Work<'a, Q: Queue> {
    queue: &'a mut Q,
    start: AccessStart,
    counters: &'a AccessCounters,
    ends: Ends<'a>,
    schedule: Schedule,
    phase: f64,
    stamper: Option<Stamper>,
    /// Of each file, in its stamps.
    numbers: Vec<u64>,
    mix: Random,
    flights: Vec<Flight>,
    /// Slots below this read, the others write.
    read_slots: usize,
    free: [Vec<usize>; 2],
    sides: [Tally; 2],
    alike: [Alike; 2],
    lateness: Histogram<u64>,
    asked_bytes: u64,
    /// Requests in flight × nanoseconds.
    depth_nanos: u128,
    errors: Vec<AccessError>,
    corrupt: Vec<AccessError>,
    more_corrupt: u64,
    cpu_told: u64,
    cpu_before: Duration,
}

/// Index of each direction in the arrays above.
const READ: usize = 0;
const WRITE: usize = 1;

/// Blocks that a worker needs: reads and writes have their own, so that what was read is never written.
pub(super) fn slots(start: &AccessStart) -> usize {
    read_slots(start) + if start.read_share < 1.0 { start.queue_depth.max(1) } else { 0 }
}

fn read_slots(start: &AccessStart) -> usize {
    if start.read_share > 0.0 { start.queue_depth.max(1) } else { 0 }
}

impl<'a, Q: Queue> Work<'a, Q> {
    /// `phase` moves an open loop's schedule by a part of its interval. The queue has `slots(&start)` slots.
    pub fn new(
        queue: &'a mut Q,
        mut start: AccessStart,
        counters: &'a AccessCounters,
        ends: Ends<'a>,
        phase: f64,
    ) -> io::Result<Self> {
        start.queue_depth = start.queue_depth.max(1);
        let stamper = match start.stamp {
            Some(stamp) => Some(Stamper::new(stamp, start.transfer_bytes).ok_or_else(|| {
                let why = "verified data needs requests of a multiple of 512 bytes";
                io::Error::new(io::ErrorKind::InvalidInput, why)
            })?),
            None => None,
        };
        let read_slots = read_slots(&start);
        // Their first bytes differ, so that devices that look for equal blocks find none.
        for slot in read_slots..queue.slots() {
            if let Some(block) = queue.block(slot) {
                Random::new(start.seed.wrapping_add(slot as u64)).fill(block);
            }
        }
        let nowhere = Flight { request: Request { file: 0, offset: 0 }, since: 0, moved: 0 };
        Ok(Work {
            schedule: Schedule::new(start.pace, start.transfer_bytes, 0, phase),
            phase,
            stamper,
            numbers: start.files.iter().map(|file| file_number(&file.label)).collect(),
            mix: Random::new(!start.seed),
            flights: vec![nowhere; queue.slots()],
            read_slots,
            // The lowest last: they are taken first, and stay in the processor's caches.
            free: [(0..read_slots).rev().collect(), (read_slots..queue.slots()).rev().collect()],
            sides: [Tally::new(), Tally::new()],
            alike: [Alike::default(); 2],
            lateness: tally::histogram(),
            asked_bytes: 0,
            depth_nanos: 0,
            errors: Vec::new(),
            corrupt: Vec::new(),
            more_corrupt: 0,
            cpu_told: 0,
            cpu_before: thread_cpu(),
            queue,
            start,
            counters,
            ends,
        })
    }

    /// Until the part is done, the stop, or an error; then waits for what is under way, and flushes.
    pub fn run(mut self) -> io::Result<Outcome> {
        self.wait_for_begin()?;
        let started = self.nanos();
        self.schedule = Schedule::new(self.start.pace, self.start.transfer_bytes, started, self.phase);
        let mut done = Vec::with_capacity(self.flights.len());
        let mut now = started;
        while !self.over() {
            now = self.send(now);
            now = self.turn(self.wait(now), now, &mut done)?;
        }
        self.ends.ending.store(true, Ordering::Release);
        let stopped = now;
        now = self.drain(now, &mut done)?;
        let home = self.queue.in_flight() == 0;
        if self.start.fsync_at_end && home && self.errors.is_empty() {
            now = self.flush(now, &mut done)?;
        }
        let ended = self.nanos().max(now);
        self.count_overdue(stopped);
        Ok(self.outcome(started, ended, home))
    }

    fn nanos(&self) -> u64 {
        self.queue.now().saturating_duration_since(self.start.begin).as_nanos() as u64
    }

    fn stopped(&self) -> bool {
        self.ends.stop.load(Ordering::Relaxed) || self.abandoned()
    }

    fn abandoned(&self) -> bool {
        self.counters.abandon.load(Ordering::Relaxed)
    }

    fn over(&self) -> bool {
        let part_done = self.all_asked() && self.queue.in_flight() == 0;
        part_done || !self.errors.is_empty() || self.stopped()
    }

    fn all_asked(&self) -> bool {
        self.start.amount_bytes.is_some_and(|amount| self.asked_bytes >= amount)
    }

    /// A common start that lies ahead.
    fn wait_for_begin(&mut self) -> io::Result<()> {
        while !self.stopped() {
            let ahead = self.start.begin.saturating_duration_since(self.queue.now());
            if ahead.is_zero() {
                break;
            }
            self.queue.turn(Some(ahead.min(TURN_WAIT)), &mut Vec::new())?;
        }
        Ok(())
    }

    /// Queues what is due, as far as depth and batch allow; the time of the last look at the clock.
    fn send(&mut self, mut now: u64) -> u64 {
        if self.stamper.is_some() {
            now = self.nanos();
        }
        let room = self.start.queue_depth.saturating_sub(self.queue.in_flight()).min(BATCH);
        for _ in 0..room {
            if self.all_asked() || self.schedule.due(now).is_none() {
                break;
            }
            let side = self.next_side();
            let Some(slot) = self.free[side].pop() else { break };
            let request = self.start.walk.step();
            if side == WRITE
                && let (Some(stamper), Some(block)) = (&self.stamper, self.queue.block(slot))
            {
                stamper.fill(self.numbers[request.file], request.offset, block);
                now = self.nanos();
            }
            let since = self.schedule.due(now).unwrap_or(now);
            self.schedule.sent(now);
            if let Pace::Open { .. } = self.start.pace {
                self.lateness.saturating_record(now - since);
            }
            self.flights[slot] = Flight { request, since, moved: 0 };
            self.asked_bytes += self.start.transfer_bytes as u64;
            self.submit(slot);
        }
        now
    }

    fn next_side(&mut self) -> usize {
        let share = self.start.read_share;
        let reads = share >= 1.0 || share > 0.0 && self.mix.chance(share);
        if reads { READ } else { WRITE }
    }

    /// What is left of the slot's request.
    fn submit(&mut self, slot: usize) {
        let Flight { request, moved, .. } = self.flights[slot];
        let action = if slot < self.read_slots { Action::Read } else { Action::Write };
        let length = self.start.transfer_bytes - moved;
        let offset = request.offset + moved as u64;
        self.queue.submit(slot, Transfer { action, file: request.file, offset, from: moved, length });
    }

    /// How long the next turn may wait; none if more is to be sent at once.
    fn wait(&self, now: u64) -> Option<Duration> {
        let may_send = self.queue.in_flight() < self.start.queue_depth && !self.all_asked();
        match self.schedule.wait(now) {
            0 if may_send => None,
            nanos if may_send => Some(Duration::from_nanos(nanos).min(TURN_WAIT)),
            _ => Some(TURN_WAIT),
        }
    }

    /// One call of the kernel and what came of it; the time after it.
    fn turn(&mut self, wait: Option<Duration>, before: u64, done: &mut Vec<Done>) -> io::Result<u64> {
        let in_flight = self.queue.in_flight();
        self.queue.turn(wait, done)?;
        let now = self.nanos();
        self.depth_nanos += in_flight as u128 * u128::from(now.saturating_sub(before));
        if !done.is_empty() {
            self.complete_all(done, now);
        }
        if now - self.cpu_told.min(now) > CPU_NANOS {
            self.tell_cpu(now);
        }
        Ok(now)
    }

    fn complete_all(&mut self, done: &mut Vec<Done>, now: u64) {
        let mut completed = 0;
        for ended in done.drain(..) {
            completed += u64::from(self.complete(ended, now));
        }
        for side in [READ, WRITE] {
            self.count(side);
        }
        if completed > 0 {
            self.counters.progress.add_at(completed * self.start.transfer_bytes as u64, now);
            let operations = self.sides[READ].operations + self.sides[WRITE].operations;
            self.counters.operations.store(operations, Ordering::Relaxed);
        }
    }

    /// True if a request is over in full.
    fn complete(&mut self, ended: Done, now: u64) -> bool {
        let Done { slot, result } = ended;
        let side = usize::from(slot >= self.read_slots);
        let flight = &mut self.flights[slot];
        match result {
            Ok(moved) if flight.moved + moved >= self.start.transfer_bytes => {
                let nanos = now.saturating_sub(flight.since);
                let request = flight.request;
                if self.alike[side].nanos != nanos {
                    self.count(side);
                    self.alike[side].nanos = nanos;
                }
                self.alike[side].count += 1;
                if side == READ && self.stamper.is_some() {
                    self.check(slot, request);
                }
                self.free[side].push(slot);
                return true;
            }
            Ok(moved) if moved > 0 => flight.moved += moved,
            Ok(_) => {
                let why = if side == READ { "the file ends here" } else { "nothing was taken" };
                self.failed(slot, why);
                return false;
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {}
            Err(error) => {
                self.failed(slot, &error.to_string());
                return false;
            }
        }
        // The rest of a short transfer; after an error of another request it is not worth the while.
        if self.errors.is_empty() {
            self.submit(slot);
        }
        false
    }

    fn count(&mut self, side: usize) {
        let Alike { count, nanos } = std::mem::take(&mut self.alike[side]);
        if count > 0 {
            self.sides[side].add_alike(count, self.start.transfer_bytes as u64, nanos);
        }
    }

    fn failed(&mut self, slot: usize, why: &str) {
        let Flight { request, moved, .. } = self.flights[slot];
        let verb = if slot < self.read_slots { "read" } else { "write" };
        let offset = request.offset + moved as u64;
        self.error(request.file, offset, format!("{verb}: {why}"));
    }

    fn error(&mut self, file: usize, offset: u64, why: String) {
        if self.errors.len() < MOST_ERRORS {
            let label = self.start.files[file].label.clone();
            self.errors.push(AccessError { label, offset, why });
        }
    }

    fn check(&mut self, slot: usize, request: Request) {
        let (Some(stamper), Some(block)) = (&self.stamper, self.queue.block(slot)) else { return };
        let (label, corrupt) = (&self.start.files[request.file].label, &mut self.corrupt);
        let more = &mut self.more_corrupt;
        stamper.check(self.numbers[request.file], request.offset, block, |damage| {
            if corrupt.len() < MOST_CORRUPT {
                corrupt.push(AccessError { label: label.clone(), offset: damage.offset, why: damage.why });
            } else {
                *more += 1;
            }
        });
    }

    fn tell_cpu(&mut self, now: u64) {
        self.cpu_told = now;
        self.counters.cpu_nanos.store(self.cpu().as_nanos() as u64, Ordering::Relaxed);
    }

    fn cpu(&self) -> Duration {
        thread_cpu().saturating_sub(self.cpu_before) + self.queue.helpers_cpu()
    }

    /// After the stop: what is under way comes home, as long as the device shows life.
    fn drain(&mut self, mut now: u64, done: &mut Vec<Done>) -> io::Result<u64> {
        let (stopped, mut life) = (now, now);
        while self.queue.in_flight() > 0 {
            let (since, patience) =
                if self.abandoned() { (stopped, ABANDON_NANOS) } else { (life, DRAIN_NANOS) };
            if now - since >= patience {
                break;
            }
            let before = self.queue.in_flight();
            now = self.turn(Some(TURN_WAIT), now, done)?;
            if self.queue.in_flight() < before {
                life = now;
            }
        }
        if self.queue.in_flight() > 0 && !self.abandoned() {
            let left = self.queue.in_flight();
            let slot = (0..self.flights.len()).find(|slot| self.queue.block(*slot).is_none());
            if let Some(slot) = slot {
                self.failed(
                    slot,
                    &format!("{left} requests did not come back after the stop: does the device hang?"),
                );
            }
        }
        Ok(now)
    }

    /// Every file that may have been written goes to its device.
    fn flush(&mut self, mut now: u64, done: &mut Vec<Done>) -> io::Result<u64> {
        let Some(slot) = self.free[WRITE].last().copied() else { return Ok(now) };
        for file in 0..self.start.files.len() {
            self.queue.submit(slot, Transfer { action: Action::Flush, file, offset: 0, from: 0, length: 0 });
            while self.queue.in_flight() > 0 {
                if self.abandoned() {
                    self.error(file, 0, "flush: abandoned before it was over".into());
                    return Ok(now);
                }
                self.queue.turn(Some(TURN_WAIT), done)?;
                now = self.nanos();
            }
            if let Some(Done { result: Err(error), .. }) = done.pop() {
                self.error(file, 0, format!("flush: {error}"));
            }
        }
        Ok(now)
    }

    /// What an open loop owed at the stop was late, though it was never sent.
    fn count_overdue(&mut self, stopped: u64) {
        if self.all_asked() {
            return;
        }
        for late in self.schedule.overdue(stopped, MOST_OVERDUE) {
            self.lateness.saturating_record(late);
        }
    }

    fn outcome(mut self, started: u64, ended: u64, home: bool) -> Outcome {
        self.tell_cpu(ended);
        if self.more_corrupt > 0
            && let Some(last) = self.corrupt.last_mut()
        {
            last.why = format!("{}; and {} more damaged sectors", last.why, self.more_corrupt);
        }
        let span = ended.saturating_sub(started).max(1);
        let cpu_seconds = self.cpu().as_secs_f64();
        let [reads, writes] = self.sides;
        Outcome {
            reads,
            writes,
            lateness: self.lateness,
            mean_depth: self.depth_nanos as f64 / span as f64,
            cpu_seconds,
            started_seconds: started as f64 / 1e9,
            ended_seconds: ended as f64 / 1e9,
            whole: self.errors.is_empty() && home,
            errors: self.errors,
            corrupt: self.corrupt,
            method: self.queue.method(),
        }
    }
}
