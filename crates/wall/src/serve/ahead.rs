//! Reading ahead: for each tick to come, in order, the frame that it shows, asked for as early as there is
//! memory for it.
//!
//! Where the disk is too slow, ticks are skipped when their frame would be asked for: what could not come in
//! time is not read at all, so the disk's time goes to frames that are shown, and those that are left out lie
//! evenly between them.

use super::FrameClock;
use super::compose::{ComposedJob, Composer, Job};
use super::counters::{SenderStage, TileCounters, bump};
use super::program::{Program, Shot};
use super::source::read_range;
use crate::control::View;
use linerate_system::buffers::{Lease, Pool};
use linerate_system::queue::{self, Action, Queue, Transfer};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// A read that failed or stayed short is tried so often.
const TRIES: u32 = 3;
/// Reads in flight are this part of the slots: more would only make each of them slower.
const READING_DIVISOR: usize = 2;
const FEWEST_READING: usize = 2;
/// Ticks that were missed in one go and are still counted one by one.
const MOST_MISSED: u64 = 100_000;

/// Where the frames of a movie are for this worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameLocation {
    /// Index among the files of its `Queue`.
    pub file: usize,
}

/// What a worker reads.
#[derive(Clone, Debug)]
pub(crate) struct FrameStore {
    pub frame_bytes: usize,
    /// By movie; none where the tile's file is not fit to be played.
    pub files: Vec<Option<FrameLocation>>,
    /// For errors.
    pub label: String,
}

/// A frame in memory: where in its lease.
#[derive(Debug)]
pub(crate) struct Picture {
    pub lease: Lease,
    pub bytes: Range<usize>,
    /// When it was there, nanoseconds since 1970.
    pub at: u64,
}

impl Picture {
    /// Its pixels.
    pub(crate) fn pixels(&self) -> &[u8] {
        &self.lease.bytes()[self.bytes.clone()]
    }
}

/// How far the frame of a tick is.
#[derive(Debug)]
pub(crate) enum FrameState {
    Reading {
        /// Number of its block.
        block: usize,
        asked: u64,
        tries: u32,
    },
    Ready(Picture),
    /// The tick before shows the same.
    Same,
    /// It will not be shown.
    Skipped(SenderStage),
}

/// One tick to come.
#[derive(Debug)]
pub(crate) struct Slot {
    pub tick: u64,
    pub shot: Shot,
    pub state: FrameState,
}

impl Slot {
    /// What its frame is read into.
    fn waits_for(&self, lease: &Lease) -> bool {
        matches!(self.state, FrameState::Reading { block, .. } if block == lease.number())
    }
}

/// The request for a frame.
fn read(place: FrameLocation, range: &Range<u64>) -> Transfer {
    let length = (range.end - range.start) as usize;
    Transfer { action: Action::Read, file: place.file, offset: range.start, from: 0, length }
}

/// When it is planned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub clock: FrameClock,
    /// Nanoseconds since 1970.
    pub now: u64,
    /// Who is to blame for ticks that passed by.
    pub culprit: SenderStage,
}

/// The frames to come of one tile.
#[derive(Debug)]
pub(crate) struct Ahead {
    frames: FrameStore,
    slots: VecDeque<Slot>,
    /// From before a change of the program: what may still be of use.
    kept: Vec<Slot>,
    /// The first tick that has no slot yet.
    next_tick: u64,
    /// The first tick that was not taken off yet.
    undone: u64,
    /// How long a read takes of late, nanoseconds.
    latency: u64,
    /// Frames for which there is memory.
    memory: usize,
    /// Puts frames together that are not a whole tile; none: such frames are left out.
    composer: Option<Composer>,
}

impl Ahead {
    /// Nothing is read yet; `memory` frames fit the pool.
    pub(crate) fn new(
        frames: FrameStore,
        memory: usize,
        first_tick: u64,
        composer: Option<Composer>,
    ) -> Self {
        Ahead {
            frames,
            slots: VecDeque::with_capacity(memory * 4),
            kept: Vec::with_capacity(memory * 4),
            next_tick: first_tick,
            undone: first_tick,
            latency: 0,
            memory,
            composer,
        }
    }

    /// The next tick.
    pub(crate) fn front(&self) -> Option<&Slot> {
        self.slots.front()
    }

    /// Takes the next tick off.
    pub(crate) fn pop(&mut self) -> Option<Slot> {
        let slot = self.slots.pop_front()?;
        self.undone = slot.tick + 1;
        Some(slot)
    }

    /// What was taken off is done with: a tick that shows the same takes it over, else its memory is free.
    pub(crate) fn hand_on(&mut self, state: FrameState, pool: &mut Pool) {
        match (self.slots.front_mut(), state) {
            (Some(next @ Slot { state: FrameState::Same, .. }), state) => next.state = state,
            (_, FrameState::Ready(picture)) => pool.give_back(picture.lease),
            _ => {}
        }
    }

    /// Frames that are there.
    pub(crate) fn ready(&self) -> usize {
        self.slots.iter().filter(|slot| matches!(slot.state, FrameState::Ready(_) | FrameState::Same)).count()
    }

    fn reading(&self) -> usize {
        self.slots.iter().filter(|slot| matches!(slot.state, FrameState::Reading { .. })).count()
    }

    /// The program has changed: what still holds is kept, the rest is thrown away at the next
    /// [`Ahead::plan`].
    pub(crate) fn replan(&mut self) {
        self.next_tick = self.undone;
        self.kept.extend(self.slots.drain(..));
        // What reads took under the old load says little about the first ones now.
        self.latency = 0;
    }

    /// The clock was put back: what was planned for later times is planned again from now on.
    pub(crate) fn begin_again(&mut self, tick: u64) {
        self.replan();
        (self.next_tick, self.undone) = (tick, tick);
    }

    /// The first tick that has no slot yet.
    pub(crate) fn next_tick(&self) -> u64 {
        self.next_tick
    }

    /// Asks for frames as far ahead as there is memory.
    pub(crate) fn plan(
        &mut self,
        program: &Program,
        Moment { clock, now, culprit }: Moment,
        queue: &mut (impl Queue + ?Sized),
        pool: &mut Pool,
        counters: &TileCounters,
    ) {
        let first = clock.first_in_time(now);
        self.skip_missed(program, first, culprit);
        let horizon = first + self.memory as u64 + self.latency / clock.period + 1;
        self.forget_unwanted(program, horizon, pool);
        let most_reading = (self.memory / READING_DIVISOR).max(FEWEST_READING);
        // (A tick that shows nothing now may show something after a change: it does not count as planned.)
        for tick in self.next_tick..=horizon {
            let Some(shot) = program.shot(tick) else { continue };
            let shows_the_same =
                |last: &Slot| last.shot == shot && !matches!(last.state, FrameState::Skipped(_));
            let state = if self.slots.back().is_some_and(shows_the_same) {
                FrameState::Same
            } else if let Some(kept) = self.kept.iter().position(|kept| kept.shot == shot) {
                self.kept.swap_remove(kept).state
            } else if clock.due(tick) + clock.grace() < now + self.latency {
                FrameState::Skipped(SenderStage::Disk)
            } else if self.reading() >= most_reading {
                break;
            } else {
                let Some(state) = self.read(shot, now, queue, pool, counters) else { break };
                state
            };
            self.slots.push_back(Slot { tick, shot, state });
            self.next_tick = tick + 1;
        }
        counters.prefetched.store(self.ready() as u32, Ordering::Relaxed);
    }

    /// Ticks that have passed by before anything was asked for.
    fn skip_missed(&mut self, program: &Program, first: u64, culprit: SenderStage) {
        if first.saturating_sub(self.next_tick) > MOST_MISSED {
            self.next_tick = first;
        }
        while self.next_tick < first {
            if let Some(shot) = program.shot(self.next_tick) {
                self.slots.push_back(Slot {
                    tick: self.next_tick,
                    shot,
                    state: FrameState::Skipped(culprit),
                });
            } else if self.slots.is_empty() {
                // Nothing was to be shown: a program that comes later and says otherwise of this tick left
                // nothing out.
                self.undone = self.next_tick + 1;
            }
            self.next_tick += 1;
        }
    }

    fn forget_unwanted(&mut self, program: &Program, horizon: u64, pool: &mut Pool) {
        if self.kept.is_empty() {
            return;
        }
        let next = self.next_tick;
        for index in (0..self.kept.len()).rev() {
            let shot = self.kept[index].shot;
            let useful = matches!(self.kept[index].state, FrameState::Ready(_) | FrameState::Reading { .. });
            if useful && (next..=horizon).any(|tick| program.shot(tick) == Some(shot)) {
                continue;
            }
            if let FrameState::Ready(picture) = self.kept.swap_remove(index).state {
                pool.give_back(picture.lease);
            }
        }
    }

    /// Asks for one frame; none where there is no memory for it now.
    fn read(
        &mut self,
        shot: Shot,
        now: u64,
        queue: &mut (impl Queue + ?Sized),
        pool: &mut Pool,
        counters: &TileCounters,
    ) -> Option<FrameState> {
        let Some(place) = self.frames.files.get(shot.movie).copied().flatten() else {
            return Some(FrameState::Skipped(SenderStage::Disk));
        };
        if shot.view != View::WHOLE {
            return self.compose(shot, now, pool);
        }
        let lease = pool.take()?;
        let range = read_range(shot.frame, self.frames.frame_bytes);
        let length = (range.end - range.start) as usize;
        if length > lease.len() {
            pool.give_back(lease);
            counters
                .tell_problem(format!("{}: its frames are larger than the pool's blocks", self.frames.label));
            return Some(FrameState::Skipped(SenderStage::Disk));
        }
        let block = lease.number();
        queue.submit(lease, read(place, &range));
        Some(FrameState::Reading { block, asked: now, tries: 1 })
    }

    /// Has a frame put together that is not a whole tile.
    fn compose(&mut self, shot: Shot, now: u64, pool: &mut Pool) -> Option<FrameState> {
        let Some(composer) = &mut self.composer else { return Some(FrameState::Skipped(SenderStage::Cpu)) };
        let lease = pool.take()?;
        let block = lease.number();
        match composer.submit(Job { shot, lease }) {
            Ok(()) => Some(FrameState::Reading { block, asked: now, tries: TRIES }),
            Err(lease) => {
                pool.give_back(lease);
                None
            }
        }
    }

    /// Frames are being put together.
    pub(crate) fn is_composing(&self) -> bool {
        self.composer.as_ref().is_some_and(|composer| composer.in_flight() > 0)
    }

    /// Takes over what was put together since.
    pub(crate) fn take_composed(&mut self, now: u64, pool: &mut Pool, counters: &TileCounters) {
        while let Some(ComposedJob { lease, result }) = self.composer.as_mut().and_then(Composer::poll) {
            let Some(slot) = self.slots.iter_mut().chain(&mut self.kept).find(|slot| slot.waits_for(&lease))
            else {
                pool.give_back(lease);
                continue;
            };
            let FrameState::Reading { asked, .. } = slot.state else { continue };
            match result {
                Ok(read) => {
                    bump(&counters.read_bytes, read);
                    slot.state =
                        FrameState::Ready(Picture { lease, bytes: 0..self.frames.frame_bytes, at: now });
                    self.learn(now.saturating_sub(asked), counters);
                }
                Err(why) => {
                    pool.give_back(lease);
                    bump(&counters.read_errors, 1);
                    slot.state = FrameState::Skipped(SenderStage::Disk);
                    counters.tell_problem(why.to_string());
                }
            }
        }
    }

    /// A read has come to its end.
    pub(crate) fn complete(
        &mut self,
        done: queue::Completion,
        now: u64,
        queue: &mut (impl Queue + ?Sized),
        pool: &mut Pool,
        counters: &TileCounters,
    ) {
        let queue::Completion { lease, result } = done;
        if let Ok(moved) = &result {
            bump(&counters.read_bytes, *moved as u64);
        }
        let Some(slot) = self.slots.iter_mut().chain(&mut self.kept).find(|slot| slot.waits_for(&lease))
        else {
            // Its tick was given up, or is no longer wanted.
            pool.give_back(lease);
            return;
        };
        let FrameState::Reading { block, asked, tries } = slot.state else { return };
        let frame_bytes = self.frames.frame_bytes;
        let range = read_range(slot.shot.frame, frame_bytes);
        let from = (u64::from(slot.shot.frame) * frame_bytes as u64 - range.start) as usize;
        let wanted = from..from + frame_bytes;
        match result {
            Ok(moved) if moved >= wanted.end => {
                slot.state = FrameState::Ready(Picture { lease, bytes: wanted, at: now });
                self.learn(now.saturating_sub(asked), counters);
            }
            result => {
                bump(&counters.read_errors, 1);
                if let Some(place) = self.frames.files.get(slot.shot.movie).copied().flatten()
                    && tries < TRIES
                {
                    queue.submit(lease, read(place, &range));
                    slot.state = FrameState::Reading { block, asked, tries: tries + 1 };
                    return;
                }
                pool.give_back(lease);
                let why = match result {
                    Ok(moved) => format!("only {moved} of {} bytes came", wanted.end),
                    Err(error) => error.to_string(),
                };
                counters.tell_problem(format!("{}: frame {}: {why}", self.frames.label, slot.shot.frame));
                slot.state = FrameState::Skipped(SenderStage::Disk);
            }
        }
    }

    /// Reads have got slower: believed at once by half; faster: little by little.
    fn learn(&mut self, took: u64, counters: &TileCounters) {
        self.latency = match took.checked_sub(self.latency) {
            Some(more) => self.latency + more / 2,
            None => self.latency - (self.latency - took) / 5,
        };
        counters.read_latency_nanos.store(self.latency, Ordering::Relaxed);
    }

    /// Everything goes back to the pool; what is in flight comes home with its completion.
    pub(crate) fn clear(&mut self, pool: &mut Pool) {
        for slot in self.slots.drain(..).chain(self.kept.drain(..)) {
            if let FrameState::Ready(picture) = slot.state {
                pool.give_back(picture.lease);
            }
        }
    }
}
