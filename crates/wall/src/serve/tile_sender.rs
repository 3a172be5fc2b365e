//! A tile's worker: reads ahead, and sends each frame when it is due, spread over its period.
//!
//! Generic over what reads and what sends, so that the same loop runs on io_uring, on threads and on the
//! seeded fake with its faults. While it plays, nothing here allocates, logs or locks. `sending` is the frame
//! that is on its way out.

mod sending;

use super::ahead::{Ahead, FrameState, FrameStore, Moment, Picture, Slot};
use super::compose::Composer;
use super::counters::{SenderStage, TileCounters, bump};
use super::program::{LatestProgram, Program};
use super::wire::{Headers, Wire};
use super::{FrameClock, nanos_now};
use crate::rtp::FrameLayout;
use linerate_system::buffers::Pool;
use linerate_system::clock;
use linerate_system::counters::thread_cpu;
use linerate_system::queue::{Completion, Queue};
use sending::Sending;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The worker looks at the latest and at its route at least this often, nanoseconds.
const LOOK: u64 = 10_000_000;
/// So often while somebody puts frames together for it, who cannot wake it up.
const LOOK_COMPOSING: u64 = 2_000_000;
/// After the end what is in flight comes home for this long at most: Ctrl-C ends within a second.
const DRAIN: u64 = 400_000_000;
/// The CPU clock is read this often: a system call a train would cost what it measures.
const CPU_EVERY: u64 = 5_000_000;

/// Where a worker's routes come from.
pub(crate) trait RouteSource {
    type Wire: Wire;
    /// A new route since the last call, if there is one: `Some(None)` takes the old one away.
    fn look(&mut self) -> Option<Option<(Self::Wire, Arc<FrameLayout>)>>;
}

/// One tile's worker.
#[derive(Debug)]
pub(crate) struct TileSender<'a, D: RouteSource> {
    pub latest: &'a LatestProgram,
    pub counters: &'a TileCounters,
    pub routes: D,
    pub frames: FrameStore,
    pub clock: FrameClock,
    pub ssrc: u32,
    /// The first sequence number.
    pub sequence: u32,
    /// Frames that fit the pool.
    pub memory: usize,
    /// For views that are not a whole tile.
    pub composer: Option<Composer>,
}

/// What to do next.
enum Step {
    Now,
    /// Nothing is due for so long.
    Rest(u64),
    /// A frame is due that the disk has not brought; wait for it, for so long at most.
    Starve(u64),
    /// The network takes nothing.
    Block(u64),
}

struct TileWork<'a, D: RouteSource, Q: Queue + ?Sized> {
    sender: TileSender<'a, D>,
    queue: &'a mut Q,
    pool: &'a mut Pool,
    ahead: Ahead,
    program: Arc<Program>,
    generation: u64,
    route: Option<(D::Wire, Arc<FrameLayout>)>,
    sending: Option<Sending>,
    headers: Headers,
    done: Vec<Completion>,
    /// Sums of waiting since a frame last began in time, to find who is to blame for a late one.
    starved: u64,
    blocked: u64,
    cpu_read: u64,
    cpu_start: Duration,
    reaped: u64,
}

impl<'a, D: RouteSource> TileSender<'a, D> {
    /// Plays until the latest says stop.
    pub(crate) fn run<Q: Queue + ?Sized>(mut self, queue: &'a mut Q, pool: &'a mut Pool) -> io::Result<()> {
        let now = nanos_now();
        let (program, generation) = (self.latest.program(), self.latest.generation());
        let ahead =
            Ahead::new(self.frames.clone(), self.memory, self.clock.first_in_time(now), self.composer.take());
        let done = Vec::with_capacity(pool.blocks());
        let mut work = TileWork {
            ahead,
            program,
            generation,
            queue,
            pool,
            route: None,
            sending: None,
            headers: Headers::default(),
            done,
            starved: 0,
            blocked: 0,
            cpu_read: now,
            cpu_start: thread_cpu(),
            reaped: now,
            sender: self,
        };
        work.sender.counters.stands.store(true, Ordering::Release);
        let result = work.play();
        let drained = work.drain();
        work.store_cpu();
        result.and(drained)
    }
}

/// What is being sent at the end may take so long; nanoseconds.
const LONGEST_END: u64 = 500_000_000;

impl<D: RouteSource, Q: Queue + ?Sized> TileWork<'_, D, Q> {
    fn play(&mut self) -> io::Result<()> {
        while !self.sender.latest.stopped() || self.is_to_be_finished() {
            let now = nanos_now();
            self.look_around(now);
            self.account_cpu(now);
            match self.step(now) {
                Step::Now => self.reap_sometimes(now)?,
                Step::Rest(time) => self.wait(time)?,
                Step::Starve(time) => {
                    let waited = self.timed_wait(time, now)?;
                    bump(&self.sender.counters.starved_nanos, waited);
                    self.starved += waited;
                }
                Step::Block(time) => {
                    if let Some((wire, _)) = &mut self.route {
                        wire.wait_for_room(Duration::from_nanos(time));
                    }
                    let waited = nanos_now().saturating_sub(now);
                    bump(&self.sender.counters.blocked_nanos, waited);
                    self.blocked += waited;
                    self.reap_sometimes(now)?;
                }
            }
        }
        Ok(())
    }

    /// Told to end in the middle of a frame: never a part of one, unless it takes long.
    fn is_to_be_finished(&self) -> bool {
        self.sending.as_ref().is_some_and(|sending| {
            let rest = (sending.began + 2 * sending.span).saturating_sub(nanos_now());
            sending.blocked_since.is_none() && (1..LONGEST_END).contains(&rest)
        })
    }

    /// The latest, the route (between frames only, so that none is cut otherwise than it began), and what is
    /// to be read.
    fn look_around(&mut self, now: u64) {
        if self.ahead.is_composing() {
            self.ahead.take_composed(now, self.pool, self.sender.counters);
        }
        let generation = self.sender.latest.generation();
        if generation != self.generation {
            self.program = self.sender.latest.program();
            self.generation = generation;
            self.ahead.replan();
        }
        if self.sending.is_some() {
            return;
        }
        if let Some(route) = self.sender.routes.look() {
            self.route = route;
        }
        self.plan(now);
    }

    fn plan(&mut self, now: u64) {
        let clock = self.sender.clock;
        // A clock that was put back would let the wall wait for the time that it was.
        let far = self.sender.memory as u64 * 2 + 2 + 2_000_000_000 / clock.period;
        let first = clock.first_in_time(now);
        if self.ahead.next_tick() > first + far {
            self.ahead.begin_again(first);
        }
        let moment = Moment { clock, now, culprit: self.culprit() };
        self.ahead.plan(&self.program, moment, self.queue, self.pool, self.sender.counters);
    }

    /// Who held the worker most since a frame last began in time.
    fn culprit(&self) -> SenderStage {
        if self.route.is_none() {
            return SenderStage::Network;
        }
        let enough = self.sender.clock.grace() / 2;
        match (self.starved, self.blocked) {
            (starved, blocked) if starved.max(blocked) < enough => SenderStage::Cpu,
            (starved, blocked) if blocked >= starved => SenderStage::Network,
            _ => SenderStage::Disk,
        }
    }

    fn step(&mut self, now: u64) -> Step {
        if self.sending.is_some() {
            return self.go_on_sending(now);
        }
        let clock = self.sender.clock;
        let Some(slot) = self.ahead.front() else {
            let over = self.program.timeline.is_over(clock.first_in_time(now));
            self.sender.counters.over.store(over, Ordering::Relaxed);
            return Step::Rest(LOOK.min(clock.period / 2).max(100_000));
        };
        let due = clock.due(slot.tick);
        let latest = due + clock.grace();
        match &slot.state {
            FrameState::Skipped(stage) => {
                let stage = *stage;
                self.leave_out(stage)
            }
            _ if now < due => Step::Rest(due - now),
            FrameState::Reading { .. } if now > latest => self.leave_out(SenderStage::Disk),
            FrameState::Reading { .. } => Step::Starve(latest - now + 1),
            // It would have been taken over by now.
            FrameState::Same => self.leave_out(SenderStage::Disk),
            FrameState::Ready(picture) if now > latest => {
                let late_from_disk = picture.at > due;
                let stage = if late_from_disk { SenderStage::Disk } else { self.culprit() };
                self.leave_out(stage)
            }
            FrameState::Ready(_) if self.route.is_none() => self.leave_out(SenderStage::Network),
            FrameState::Ready(_) => self.begin(now, due),
        }
    }

    fn leave_out(&mut self, stage: SenderStage) -> Step {
        if let Some(slot) = self.ahead.pop() {
            self.sender.counters.drop_frame(stage);
            self.ahead.hand_on(slot.state, self.pool);
        }
        Step::Now
    }

    fn timed_wait(&mut self, time: u64, from: u64) -> io::Result<u64> {
        self.wait(time)?;
        Ok(nanos_now().saturating_sub(from))
    }

    /// Waits for a completion, but no longer than this.
    fn wait(&mut self, nanos: u64) -> io::Result<()> {
        let longest = if self.ahead.is_composing() { LOOK_COMPOSING } else { LOOK };
        let time = Duration::from_nanos(nanos.min(longest));
        if self.queue.in_flight() == 0 {
            // So short that the end and a new program are seen in time.
            clock::sleep(time);
            return Ok(());
        }
        self.reap(Some(time))
    }

    /// A worker that never rests takes home what was read all the same.
    fn reap_sometimes(&mut self, now: u64) -> io::Result<()> {
        if self.queue.in_flight() > 0 && now.saturating_sub(self.reaped) > 1_000_000 {
            return self.reap(None);
        }
        Ok(())
    }

    fn reap(&mut self, wait: Option<Duration>) -> io::Result<()> {
        self.queue.turn(wait, &mut self.done)?;
        let now = nanos_now();
        self.reaped = now;
        let mut all_done = std::mem::take(&mut self.done);
        for done in all_done.drain(..) {
            self.ahead.complete(done, now, self.queue, self.pool, self.sender.counters);
        }
        self.done = all_done;
        Ok(())
    }

    fn account_cpu(&mut self, now: u64) {
        if now.saturating_sub(self.cpu_read) >= CPU_EVERY {
            self.cpu_read = now;
            self.store_cpu();
        }
    }

    fn store_cpu(&self) {
        let used = thread_cpu().saturating_sub(self.cpu_start) + self.queue.helpers_cpu();
        self.sender.counters.cpu_nanos.store(used.as_nanos() as u64, Ordering::Relaxed);
    }

    /// After the end: what is in flight comes home.
    fn drain(&mut self) -> io::Result<()> {
        if let Some(Sending { slot: Slot { state: FrameState::Ready(Picture { lease, .. }), .. }, .. }) =
            self.sending.take()
        {
            self.pool.give_back(lease);
        }
        self.ahead.clear(self.pool);
        let patience = nanos_now() + DRAIN;
        while self.queue.in_flight() > 0 && nanos_now() < patience {
            self.reap(Some(Duration::from_millis(20)))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
