//! A screen without its socket: datagrams go in, frames come out at their time, and everything is counted.
//!
//! Nothing here looks at a clock or waits: the loop in `run` hands the time in. So every order of datagrams can be tried in tests.

use super::check::{Against, Checker, ServerSums};
use super::deadline::{Deadlines, Timing};
use super::frames::{Frames, Placed};
use super::gate::{Admission, Expected, Gate, Stream};
use super::opening::{Opening, RateGuess};
use super::order::ScreenOrder;
use super::output::{Output, Shown};
use super::sequence::{Counts, Sequence};
use super::tally::Tally;
use crate::failure::Failure;
use crate::wall::control::{Assignment, Message, Request};
use crate::wall::geometry::{FrameRate, Size, TileId};
use crate::wall::rtp::{Packet, parse};
use crate::wall::timeline::Timeline;
use std::net::SocketAddr;

/// Frame buffers of one screen, bytes at most: a rate from outside must not take the whole memory.
const MOST_BUFFER_BYTES: usize = 4 << 30;
const BUFFERS: std::ops::RangeInclusive<usize> = 4..=24;
/// Ticks between two frames that are looked at one by one.
const MOST_GAP: u64 = 100_000;

/// Where a size or a rate comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    Told,
    Server,
    Stream,
}

/// One screen.
pub struct Screen {
    pub(super) order: ScreenOrder,
    pub(super) tile: Option<TileId>,
    pub(super) gate: Gate,
    sequence: Sequence,
    /// Of streams that were shown before.
    earlier: Counts,
    pub(super) restarts: u64,
    pub(super) size: Option<(Size, Origin)>,
    pub(super) rate: Option<(FrameRate, Origin)>,
    opening: Opening,
    pub(super) frames: Option<Frames>,
    guess: RateGuess,
    /// Of the newest datagram.
    timestamp: Option<u32>,
    /// The stream's first: its frame may have begun before we listened.
    first: Option<u32>,
    pub(super) deadlines: Deadlines,
    pub(super) checker: Option<Checker>,
    pub(super) timeline: Option<Timeline>,
    outputs: Vec<Box<dyn Output>>,
    pub(super) tally: Tally,
    /// The newest frame that was shown: timestamp, and what was lost until then.
    newest: Option<(u32, u64)>,
    /// The tick that all screens may show.
    released: Option<u64>,
    /// What is to be said to the server.
    pub(super) requests: Vec<Request>,
    /// Set by an output that has gone, or failed.
    pub(super) closed: bool,
    pub(super) failed: Option<Failure>,
}

impl Screen {
    /// Made ready; the buffers now, where the size is told.
    pub fn new(order: ScreenOrder, outputs: Vec<Box<dyn Output>>) -> Screen {
        let latency = order.latency_at(order.rate);
        let mut screen = Screen {
            tile: order.tile,
            gate: Gate::new(order.payload_type),
            sequence: Sequence::new(),
            earlier: Counts::default(),
            restarts: 0,
            size: None,
            rate: order.rate.map(|rate| (rate, Origin::Told)),
            opening: Opening::default(),
            frames: None,
            guess: RateGuess::default(),
            timestamp: None,
            first: None,
            deadlines: Deadlines::new(order.rate, latency),
            checker: None,
            timeline: None,
            outputs,
            tally: Tally::default(),
            newest: None,
            released: None,
            requests: Vec::new(),
            closed: false,
            failed: None,
            order,
        };
        if let Some(size) = screen.order.size {
            screen.set_size(size, Origin::Told);
        }
        screen
    }

    /// A datagram that arrived at this time, nanoseconds since 1970.
    pub fn take(&mut self, datagram: &[u8], from: SocketAddr, arrived: i64) {
        let packet = match parse(datagram) {
            Ok(packet) => packet,
            Err(why) => {
                self.tally.malformed += 1;
                self.tally.newest_malformed = Some(why);
                return;
            }
        };
        match self.gate.admit(packet.payload_type, Stream { ssrc: packet.ssrc, from }, arrived) {
            Admission::Ours => {}
            Admission::First => self.begin_stream(packet.timestamp, arrived),
            Admission::Foreign => {
                self.tally.foreign += 1;
                return;
            }
        }
        let new = self.sequence.take(packet.sequence);
        if new {
            self.tally.bytes += datagram.len() as u64;
        }
        self.tally.heard(arrived);
        if self.timestamp != Some(packet.timestamp) {
            self.look_at_rate(packet.timestamp);
        }
        if self.frames.is_some() {
            self.place(&packet, arrived);
        } else if new && let Some(size) = self.opening.take(datagram, &packet, arrived) {
            self.open(size);
        }
    }

    /// Another stream is believed from now on.
    fn begin_stream(&mut self, timestamp: u32, now: i64) {
        self.flush(now);
        self.tally.streams += 1;
        self.earlier = self.counts();
        self.restarts += self.sequence.restarts();
        self.sequence = Sequence::new();
        self.begin_run(timestamp);
        if self.size.is_some_and(|(_, origin)| origin == Origin::Stream) {
            (self.size, self.frames) = (None, None);
            self.opening = Opening::default();
        }
        if self.rate.is_some_and(|(_, origin)| origin == Origin::Stream) {
            self.rate = None;
            self.guess = RateGuess::default();
        }
    }

    /// Timestamps begin anew.
    fn begin_run(&mut self, timestamp: u32) {
        self.deadlines.begin_anew();
        self.first = Some(timestamp);
        self.newest = None;
        if let Some(frames) = &mut self.frames {
            frames.begin_anew();
        }
    }

    fn look_at_rate(&mut self, timestamp: u32) {
        let newer = self.timestamp.is_none_or(|last| timestamp.wrapping_sub(last).cast_signed() > 0);
        if !newer {
            return;
        }
        self.timestamp = Some(timestamp);
        if self.rate.is_none_or(|(_, origin)| origin == Origin::Stream)
            && let Some(rate) = self.guess.take(timestamp)
        {
            self.set_rate(rate, Origin::Stream);
        }
    }

    fn set_rate(&mut self, rate: FrameRate, origin: Origin) {
        self.rate = Some((rate, origin));
        self.deadlines.set_rate(rate, self.order.latency_at(Some(rate)));
    }

    /// The size is known: buffers, and what frames are held against.
    fn set_size(&mut self, size: Size, origin: Origin) {
        self.size = Some((size, origin));
        let period = self.deadlines.period().max(1);
        let waiting = usize::try_from(self.deadlines.due(0) / period).unwrap_or(usize::MAX);
        let most = (MOST_BUFFER_BYTES / size.frame_bytes()).max(*BUFFERS.start());
        let buffers = waiting.saturating_add(4).clamp(*BUFFERS.start(), *BUFFERS.end()).min(most);
        self.frames = Some(Frames::new(size, buffers));
        match &mut self.checker {
            Some(checker) => checker.set_size(size),
            None if self.order.verify => {
                let against = self.order.against.take().map_or(Against::Stamp, Against::File);
                self.checker = Some(Checker::new(against, size, self.tile));
            }
            None => {}
        }
    }

    /// The stream has told its size: the datagrams that were kept are placed.
    fn open(&mut self, size: Size) {
        self.set_size(size, Origin::Stream);
        let opening = std::mem::take(&mut self.opening);
        for (datagram, arrived) in opening.datagrams() {
            if let Ok(packet) = parse(datagram) {
                self.place(&packet, arrived);
            }
        }
    }

    fn place(&mut self, packet: &Packet<'_>, arrived: i64) {
        // Twice at most: where there is no room, room is made.
        for _ in 0..3 {
            let Some(frames) = &mut self.frames else { return };
            match frames.place(packet, arrived, &mut self.deadlines) {
                Placed::Taken => return,
                Placed::Whole(index) => return self.look_at(index, arrived),
                Placed::Old => {
                    self.tally.late_datagrams += 1;
                    return;
                }
                Placed::Outside => {
                    self.tally.outside += 1;
                    return;
                }
                Placed::Full => {
                    if let Some(index) = frames.oldest() {
                        self.tally.crowded += 1;
                        self.present(index, arrived);
                    }
                }
                Placed::Jump => {
                    self.flush(arrived);
                    self.begin_run(packet.timestamp);
                    self.tally.jumps += 1;
                }
            }
        }
    }

    /// A frame is whole: it is proven at once, so that this does not wait for its deadline.
    fn look_at(&mut self, index: usize, now: i64) {
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

    /// Shows every frame whose time has come; when to look again. What arrived until `heard` was taken: a frame is not torn while the rest of it may
    /// lie in the socket.
    pub fn present_due(&mut self, now: i64, heard: i64) -> Option<i64> {
        loop {
            let frames = self.frames.as_mut()?;
            let index = frames.oldest()?;
            let slot = frames.slot(index);
            let (due, period) = (self.deadlines.due(slot.start), self.deadlines.period());
            let until = match slot.whole_at {
                Some(_) if self.order.barrier => {
                    let tick = self.deadlines.tick(slot.timestamp, slot.start);
                    if let (Some(tick), Some(tile), false) = (tick, self.tile, slot.told_ready) {
                        self.requests.push(Request::Ready { tile, tick });
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

    fn present(&mut self, index: usize, now: i64) {
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
                Ok(Shown::Done) => {}
                Ok(Shown::Closed) => self.closed = true,
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
    /// The timeline knows which there were. Without one the sequence numbers tell: a sender that left a frame out has a gap in its ticks and none in
    /// its numbers.
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

    /// What the server says.
    pub fn hear(&mut self, message: Message, now: i64) {
        match message {
            Message::Assignment(assignment) => self.assign(assignment),
            Message::Timeline(timeline) => self.follow(timeline),
            // For servers that follow.
            Message::Lead(_) => {}
            Message::Show { tick } => self.released = self.released.max(Some(tick)),
            Message::Sums { from, sums, .. } => {
                if let Some(checker) = &mut self.checker {
                    checker.take_sums(from, &sums);
                }
            }
            Message::Refused { why } => self.tally.problem(format!("the server says: {why}")),
            Message::Done | Message::Status(_) | Message::Movies { .. } => {}
        }
        if let Some(checker) = &mut self.checker {
            checker.look_again(self.timeline.as_ref(), now);
        }
    }

    fn assign(&mut self, assignment: Assignment) {
        let Assignment { tile, size, ssrc, from, timeline, stamped } = assignment;
        self.tile = Some(tile);
        self.tally.assigned = true;
        self.gate.expect(Expected { ssrc, from });
        if self.order.rate.is_none() || self.order.rate == Some(timeline.frames_per_second) {
            self.set_rate(timeline.frames_per_second, Origin::Server);
        }
        if size.width == 0 || size.height == 0 || self.order.size.is_some_and(|told| told != size) {
            self.tally.problem(format!("the server sends {size}, another size was told here: that is kept"));
        } else if self.size.is_none_or(|(known, _)| known != size) {
            self.set_size(size, Origin::Server);
        }
        if self.order.verify && self.checker.as_ref().is_none_or(|checker| checker.by() == "stamp") {
            let server = || Against::Server(ServerSums::default());
            let fresh = self.checker.as_ref().is_none_or(|checker| checker.proven + checker.wrong == 0);
            if !stamped && fresh {
                self.checker = Some(Checker::new(server(), size, Some(tile)));
            }
        }
        self.timeline = Some(timeline);
    }

    fn follow(&mut self, timeline: Timeline) {
        if self.timeline.as_ref().is_some_and(|known| known.generation != timeline.generation)
            && let Some(checker) = &mut self.checker
        {
            checker.forget_sums();
        }
        self.timeline = Some(timeline);
    }

    /// What is to be said to the server.
    pub fn requests(&mut self) -> impl Iterator<Item = Request> + use<'_> {
        if let (Some(checker), Some(tile)) = (&mut self.checker, self.tile) {
            self.requests.extend(checker.wants().map(|(from, count)| Request::Sums { tile, from, count }));
        }
        self.requests.drain(..)
    }

    /// What has waited too long for news is judged now.
    pub fn look_again(&mut self, now: i64) {
        if let Some(checker) = self.checker.as_mut().filter(|checker| checker.is_waiting()) {
            checker.look_again(self.timeline.as_ref(), now);
        }
    }

    /// Of all streams that were shown.
    pub fn counts(&self) -> Counts {
        let (now, earlier) = (self.sequence.counts(), self.earlier);
        Counts {
            datagrams: earlier.datagrams + now.datagrams,
            lost: earlier.lost + now.lost,
            reordered: earlier.reordered + now.reordered,
            doubled: earlier.doubled + now.doubled,
        }
    }

    /// How often a sender began to count anew.
    pub fn restarts(&self) -> u64 {
        self.restarts + self.sequence.restarts()
    }

    /// A frame is being put together, or waits for its time.
    pub fn is_busy(&self) -> bool {
        self.frames.as_ref().is_some_and(|frames| frames.oldest().is_some())
    }

    /// Nothing more will come.
    pub fn finish(&mut self) {
        if let Some(checker) = &mut self.checker {
            checker.finish(self.timeline.as_ref());
        }
    }

    /// Frames are timed by our clock.
    pub fn is_on_clock(&self) -> bool {
        self.deadlines.timing() == Timing::Clock
    }
}
