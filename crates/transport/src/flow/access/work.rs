//! The loop of a worker: send what is due, reap what is over, count it. One look at the clock and one system
//! call serve a batch.
//!
//! Generic over `Queue`, so that the same loop runs on io_uring, on threads, on blocking calls, on a mapping,
//! and on the seeded fake.

mod complete;

use super::schedule::Schedule;
use super::stamp::{Stamper, file_number};
use super::{
    AccessCounters, AccessError, AccessOutcome, AccessRequest, AccessStart, AccessTally, AnsweredRequests,
    Pace, SyncMethod, SyncTally, tally,
};
use hdrhistogram::Histogram;
use linerate_facts::random::Random;
use linerate_system::buffers::{Lease, Pool};
use linerate_system::counters::thread_cpu;
use linerate_system::queue::{Action, Completion, Queue, Transfer};
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Requests that are handed to the kernel in one call.
const BATCH: usize = 32;
/// In a closed loop this part of the depth may come back together: at depth 64 that spares a sixth of the CPU
/// time of a request. One that came back waits for half as many others on average, which makes no latency longer
/// by more than a sixteenth of the mean.
const GATHERED: usize = 8;
/// The worker looks at `stop` at least this often.
const TURN_WAIT: Duration = Duration::from_millis(50);

/// A request under way.
#[derive(Clone, Copy, Debug)]
struct Flight {
    request: AccessRequest,
    /// When it was asked for, nanoseconds: its latency counts from then.
    since: u64,
    /// Bytes that are done.
    moved: usize,
    /// All are, and the sync that this write waits for began then, nanoseconds.
    sync_since: Option<u64>,
}

/// Completed requests of one direction that took equally long: with the clock read once a batch, many do.
#[derive(Clone, Copy, Debug, Default)]
struct Alike {
    count: u64,
    nanos: u64,
}

/// The working state.
pub(super) struct AccessWork<'a, Q: Queue> {
    queue: &'a mut Q,
    start: AccessStart,
    counters: &'a AccessCounters,
    /// No new requests.
    stop: &'a AtomicBool,
    schedule: Schedule,
    phase: f64,
    stamper: Option<Stamper>,
    /// Of each file, in its stamps.
    numbers: Vec<u64>,
    mix: Random,
    flights: Vec<Flight>,
    /// Blocks below this number read, the others write.
    read_blocks: usize,
    free: [Vec<Lease>; 2],
    /// When each user without a request under way was free to ask for the next, the earliest first.
    asking: VecDeque<u64>,
    sides: [AccessTally; 2],
    syncs: SyncTally,
    /// Writes since the last sync.
    unsynced: u32,
    alike: [Alike; 2],
    lateness: Histogram<u64>,
    asked_bytes: u64,
    /// When counting began: the start, or the end of the warm-up.
    started: u64,
    /// Requests in flight × nanoseconds, and requests that waited to be × nanoseconds.
    depth_nanos: u128,
    waited_nanos: u128,
    /// All that were answered, also in the warm-up.
    operations: u64,
    /// The window that is being measured, what it has answered, and those before it.
    window: u32,
    answered: AnsweredRequests,
    windows: Vec<AnsweredRequests>,
    errors: Vec<AccessError>,
    corrupt: Vec<AccessError>,
    more_corrupt: u64,
    /// When the device last showed life, and the longest that it did not while it had something to do,
    /// nanoseconds.
    life: u64,
    longest_silence: u64,
    cpu_before: Duration,
}

/// Index of each direction in the arrays above.
const READ: usize = 0;
const WRITE: usize = 1;

/// Blocks that a worker needs: reads and writes have their own, so that what was read is never written.
pub(super) fn blocks(start: &AccessStart) -> usize {
    read_blocks(start) + if start.read_share < 1.0 { start.queue_depth.max(1) } else { 0 }
}

fn read_blocks(start: &AccessStart) -> usize {
    if start.read_share > 0.0 { start.queue_depth.max(1) } else { 0 }
}

impl<'a, Q: Queue> AccessWork<'a, Q> {
    /// `phase` moves an open loop's schedule by a part of its interval. The pool, which is the queue's, has
    /// `blocks(&start)` blocks.
    pub(crate) fn new(
        queue: &'a mut Q,
        pool: &mut Pool,
        mut start: AccessStart,
        counters: &'a AccessCounters,
        stop: &'a AtomicBool,
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
        let read_blocks = read_blocks(&start);
        let mut reads: Vec<Lease> = std::iter::from_fn(|| pool.take()).collect();
        let mut writes = reads.split_off(read_blocks);
        // Their first bytes differ, so that devices that look for equal blocks find none.
        for lease in &mut writes {
            let seed = start.seed.wrapping_add(lease.number() as u64);
            Random::new(seed).fill(lease.bytes_mut());
        }
        // The lowest last: they are taken first, and stay in the processor's caches.
        reads.reverse();
        writes.reverse();
        if start.pace == Pace::Closed && start.sync.is_none() {
            queue.gather(start.queue_depth / GATHERED);
        }
        let nowhere =
            Flight { request: AccessRequest { file: 0, offset: 0 }, since: 0, moved: 0, sync_since: None };
        Ok(AccessWork {
            schedule: Schedule::new(start.pace, start.transfer_bytes, 0, phase),
            phase,
            stamper,
            numbers: start.files.iter().map(|file| file_number(&file.label)).collect(),
            mix: Random::new(!start.seed),
            flights: vec![nowhere; pool.blocks()],
            read_blocks,
            free: [reads, writes],
            asking: VecDeque::with_capacity(start.queue_depth),
            sides: [AccessTally::default(), AccessTally::default()],
            syncs: SyncTally::default(),
            unsynced: 0,
            alike: [Alike::default(); 2],
            lateness: tally::histogram(),
            asked_bytes: 0,
            started: 0,
            depth_nanos: 0,
            waited_nanos: 0,
            operations: 0,
            window: 0,
            answered: AnsweredRequests::default(),
            windows: Vec::new(),
            errors: Vec::new(),
            corrupt: Vec::new(),
            more_corrupt: 0,
            life: 0,
            longest_silence: 0,
            cpu_before: thread_cpu(),
            queue,
            start,
            counters,
            stop,
        })
    }

    /// Until the part is done, the stop, or an error; then waits for what is under way, and flushes.
    pub(crate) fn run(mut self) -> io::Result<AccessOutcome> {
        self.wait_for_begin()?;
        self.started = self.nanos();
        self.asking.resize(self.start.queue_depth, self.started);
        self.schedule = Schedule::new(self.start.pace, self.start.transfer_bytes, self.started, self.phase);
        let mut done = Vec::with_capacity(self.flights.len());
        let mut now = self.started;
        while !self.over() {
            if self.window != self.counters.window() {
                self.begin_window(now);
            }
            now = self.send(now);
            now = self.turn(self.wait(now), now, &mut done)?;
        }
        if self.window > 0 && self.window != self.counters.window() {
            self.begin_window(now);
        }
        let stopped = now;
        let depths = [self.depth_nanos, self.waited_nanos];
        now = self.drain(now, &mut done)?;
        let home = self.queue.in_flight() == 0;
        if self.start.fsync_at_end && home && self.errors.is_empty() {
            now = self.flush(now, &mut done)?;
        }
        let ended = self.nanos().max(now);
        self.count_overdue(stopped);
        let span = stopped.saturating_sub(self.started).max(1) as f64;
        Ok(self.outcome(ended, home, depths.map(|nanos| nanos as f64 / span)))
    }

    /// The first forgets the warm-up, so that rates and latencies are of the same time.
    fn begin_window(&mut self, now: u64) {
        let window = self.counters.window();
        if self.window == 0 {
            self.sides.iter_mut().for_each(AccessTally::clear);
            self.syncs.clear();
            self.lateness.reset();
            (self.depth_nanos, self.waited_nanos, self.started) = (0, 0, now);
        } else {
            self.windows.push(self.answered);
        }
        // Those that passed while the kernel kept this thread.
        self.windows.resize(window.saturating_sub(1) as usize, AnsweredRequests::default());
        self.answered = AnsweredRequests::default();
        self.window = window;
    }

    fn nanos(&self) -> u64 {
        self.queue.now().saturating_duration_since(self.start.begin).as_nanos() as u64
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.abandoned()
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
        if self.queue.in_flight() == 0 {
            self.life = now;
        }
        let room = self.start.queue_depth.saturating_sub(self.queue.in_flight()).min(BATCH);
        for _ in 0..room {
            if self.all_asked() {
                break;
            }
            let Some(due) = self.schedule.due(now) else { break };
            let side = self.next_side();
            let Some(mut lease) = self.free[side].pop() else { break };
            let request = self.start.walk.step();
            let mut free = self.asking.pop_front().unwrap_or(now);
            if side == WRITE
                && let Some(stamper) = &self.stamper
            {
                stamper.fill(self.numbers[request.file], request.offset, lease.bytes_mut());
                let filled = self.nanos();
                // Whoever still makes its data has not asked yet.
                free += filled.saturating_sub(now);
                now = filled;
            }
            self.schedule.sent(now);
            let since = match self.start.pace {
                Pace::Open { .. } => due,
                Pace::Closed | Pace::Held { .. } => free.max(due),
            };
            let waited = now.saturating_sub(since);
            self.waited_nanos += u128::from(waited);
            if let Pace::Open { .. } = self.start.pace {
                self.lateness.saturating_record(waited);
            }
            self.flights[lease.number()] = Flight { request, since, moved: 0, sync_since: None };
            self.asked_bytes += self.start.transfer_bytes as u64;
            self.submit(lease);
        }
        now
    }

    fn next_side(&mut self) -> usize {
        let share = self.start.read_share;
        let reads = share >= 1.0 || share > 0.0 && self.mix.chance(share);
        if reads { READ } else { WRITE }
    }

    /// What is left of the block's request.
    fn submit(&mut self, lease: Lease) {
        let Flight { request, moved, sync_since, .. } = self.flights[lease.number()];
        let data_only = self.start.sync.is_some_and(|sync| sync.method == SyncMethod::Data);
        let action = match sync_since {
            Some(_) => Action::Flush { data_only },
            None if lease.number() < self.read_blocks => Action::Read,
            None => Action::Write,
        };
        let length = self.start.transfer_bytes - moved;
        let offset = request.offset + moved as u64;
        self.queue.submit(lease, Transfer { action, file: request.file, offset, from: moved, length });
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
    fn turn(&mut self, wait: Option<Duration>, before: u64, done: &mut Vec<Completion>) -> io::Result<u64> {
        let in_flight = self.queue.in_flight();
        self.queue.turn(wait, done)?;
        let now = self.nanos();
        self.depth_nanos += in_flight as u128 * u128::from(now.saturating_sub(before));
        if !done.is_empty() {
            self.longest_silence = self.longest_silence.max(now.saturating_sub(self.life));
            self.life = now;
            self.complete_all(done, now);
        }
        Ok(now)
    }

    fn cpu(&self) -> Duration {
        thread_cpu().saturating_sub(self.cpu_before) + self.queue.helpers_cpu()
    }
}
