//! When a screen shows which of its frames, and what counts as late, torn or missing.

use super::ShowResult;
use super::frames::Frames;
use super::screen::Screen;
use crate::control::ControlRequest;

/// Ticks between two frames that are looked at one by one.
const MOST_GAP: u64 = 100_000;

impl Screen {
    /// A frame is whole: it is proven at once, so that this does not wait for its deadline.
    pub(super) fn look_at(&mut self, index: usize, now: i64) {
        let Some(frames) = &mut self.frames else { return };
        let slot = frames.slot(index);
        let tick = self.deadlines.tick(slot.timestamp, slot.start);
        slot.frame = match &mut self.checker {
            Some(checker) => checker.check(&slot.bytes, tick, self.timeline.as_ref(), now),
            None => None,
        };
        if slot.frame.is_none() {
            slot.frame =
                tick.zip(self.timeline.as_ref()).and_then(|(tick, timeline)| timeline.frame_of(tick));
        }
    }

    /// Shows every frame whose time has come; when to look again. What arrived until `heard` was taken: a
    /// frame is not torn while the rest of it may lie in the socket.
    pub(crate) fn present_due(&mut self, now: i64, heard: i64) -> Option<i64> {
        loop {
            let frames = self.frames.as_mut()?;
            let index = frames.oldest()?;
            let slot = frames.slot(index);
            let (due, period) = (self.deadlines.due(slot.start), self.deadlines.period());
            let until = match slot.whole_at {
                Some(_) if self.order.barrier => {
                    let tick = self.deadlines.tick(slot.timestamp, slot.start);
                    if let (Some(tick), Some(tile), false) = (tick, self.tile, slot.told_ready) {
                        self.requests.push(ControlRequest::Ready { tile, tick });
                        slot.told_ready = true;
                    }
                    let released = tick.zip(self.released).is_some_and(|(tick, released)| tick <= released);
                    // A server that says nothing does not stop the picture.
                    if released { now } else { due.saturating_add(period) }
                }
                Some(_) => due,
                // What is missing may still come; then the frame is late, not torn.
                None => due.saturating_add(period / 2),
            };
            let passed = if slot.whole_at.is_some() { now } else { now.min(heard) };
            if passed < until {
                return Some(until);
            }
            self.present(index, now);
        }
    }

    /// Shows everything that is there, whether its time has come or not.
    pub fn flush(&mut self, now: i64) {
        while let Some(index) = self.frames.as_ref().and_then(Frames::oldest) {
            self.present(index, now);
        }
    }

    pub(super) fn present(&mut self, index: usize, now: i64) {
        let Some(frames) = &mut self.frames else { return };
        let (size, lost) = (frames.size(), self.sequence.counts().lost);
        let slot = frames.slot(index);
        let (timestamp, start, whole_at, frame) = (slot.timestamp, slot.start, slot.whole_at, slot.frame);
        if whole_at.is_none() && self.first == Some(timestamp) {
            // It began before we listened: nobody promised the whole of it.
            self.tally.joined_within += 1;
            self.newest = Some((timestamp, lost));
            return frames.release(index);
        }
        self.tally.fullest = self.tally.fullest.max(slot.datagrams);
        for output in &mut self.outputs {
            match output.show(&mut slot.bytes, size) {
                Ok(ShowResult::Done) => {}
                Ok(ShowResult::Closed) => self.closed = true,
                Err(failure) => self.failed = Some(failure),
            }
        }
        frames.release(index);
        let due = self.deadlines.due(start);
        let (after, patience) = (now.saturating_sub(start), self.deadlines.period() / 2);
        let in_time = |whole_at: i64| whole_at <= due && (self.order.barrier || now <= due + patience);
        match whole_at {
            None => self.tally.torn += 1,
            Some(at) if in_time(at) => self.tally.shown += 1,
            Some(_) => self.tally.late += 1,
        }
        self.tally.early += u64::from(now < due && !self.order.barrier);
        self.tally.missing += self.missing_before(timestamp, start, lost);
        self.tally.presented(after);
        self.newest = Some((timestamp, lost));
        self.tally.tick = self.deadlines.tick(timestamp, start);
        self.tally.frame = frame;
    }

    /// Frames between the newest one that was shown and this one, of which nothing came.
    ///
    /// The timeline knows which there were. Without one the sequence numbers tell: a sender that left a frame
    /// out has a gap in its ticks and none in its numbers.
    fn missing_before(&self, timestamp: u32, start: i64, lost: u64) -> u64 {
        let Some((newest, lost_then)) = self.newest else { return 0 };
        let between = self.deadlines.ticks_between(newest, timestamp).unwrap_or(1).saturating_sub(1);
        if between == 0 {
            return 0;
        }
        if let (Some(tick), Some(timeline)) = (self.deadlines.tick(timestamp, start), &self.timeline) {
            let first = tick.saturating_sub(between.min(MOST_GAP));
            return (first..tick).filter(|tick| timeline.frame_of(*tick).is_some()).count() as u64;
        }
        let a_frame = self.tally.fullest.max(1);
        ((lost.saturating_sub(lost_then) + a_frame / 2) / a_frame).min(between)
    }
}
