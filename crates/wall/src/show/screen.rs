//! A screen without its socket: datagrams go in, frames come out at their time, and everything is counted and
//! reported.
//!
//! Nothing here looks at a clock or waits: the loop in `run` hands the time in. So every order of datagrams
//! can be tried in tests.

use super::check::{Against, Checker};
use super::deadline::Deadlines;
use super::describe::{Opening, RateGuess};
use super::frames::{Frames, Placed};
use super::gate::{Admission, Gate, Stream};
use super::sequence::{Counts, Sequence};
use super::{Output, ScreenSpec, ScreenTally, ShowResult, WindowSummary};
use crate::control::{ControlRequest, ScreenReport};
use crate::geometry::{FrameRate, Size, TileId};
use crate::rtp::{Packet, parse};
use crate::timeline::Timeline;
use linerate_facts::failure::Failure;
use std::net::SocketAddr;

/// Frame buffers of one screen, bytes at most: a rate from outside must not take the whole memory.
const MOST_BUFFER_BYTES: usize = 4 << 30;
const BUFFERS: std::ops::RangeInclusive<usize> = 4..=24;

/// Where a size or a rate comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum Origin {
    Told,
    Server,
    Stream,
}

/// One screen.
pub struct Screen {
    pub(super) order: ScreenSpec,
    pub(super) tile: Option<TileId>,
    pub(super) gate: Gate,
    pub(super) sequence: Sequence,
    /// Of streams that were shown before.
    earlier: Counts,
    pub(super) restarts: u64,
    deepest: u64,
    pub(super) size: Option<(Size, Origin)>,
    pub(super) rate: Option<(FrameRate, Origin)>,
    opening: Opening,
    pub(super) frames: Option<Frames>,
    guess: RateGuess,
    /// Of the newest datagram.
    timestamp: Option<u32>,
    /// The stream's first: its frame may have begun before we listened.
    pub(super) first: Option<u32>,
    pub(super) deadlines: Deadlines,
    pub(super) checker: Option<Checker>,
    pub(super) timeline: Option<Timeline>,
    pub(super) outputs: Vec<Box<dyn Output>>,
    pub(super) tally: ScreenTally,
    /// The newest frame that was shown: timestamp, and what was lost until then.
    pub(super) newest: Option<(u32, u64)>,
    /// The tick that all screens may show.
    pub(super) released: Option<u64>,
    /// What is to be said to the server.
    pub(super) requests: Vec<ControlRequest>,
    /// Set by an output that has gone, or failed.
    pub(super) closed: bool,
    pub(super) failed: Option<Failure>,
}

impl Screen {
    /// Made ready; the buffers now, where the size is known.
    pub fn new(order: ScreenSpec, outputs: Vec<Box<dyn Output>>) -> Screen {
        let latency = order.latency_at(order.rate);
        let mut screen = Screen {
            tile: order.tile,
            gate: Gate::new(order.payload_type),
            sequence: Sequence::default(),
            earlier: Counts::default(),
            restarts: 0,
            deepest: 0,
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
            tally: ScreenTally::new(),
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
        self.deepest = self.reorder_depth();
        self.sequence = Sequence::default();
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

    /// Timestamps begin again.
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

    pub(super) fn set_rate(&mut self, rate: FrameRate, origin: Origin) {
        self.rate = Some((rate, origin));
        self.deadlines.set_rate(rate, self.order.latency_at(Some(rate)));
    }

    /// The size is known: buffers, and what frames are held against.
    pub(super) fn set_size(&mut self, size: Size, origin: Origin) {
        self.size = Some((size, origin));
        let period = self.deadlines.period().max(1);
        let waiting = usize::try_from(self.deadlines.due(0) / period).unwrap_or(usize::MAX);
        let most = (MOST_BUFFER_BYTES / size.frame_bytes()).max(*BUFFERS.start());
        let buffers = waiting.saturating_add(4).clamp(*BUFFERS.start(), *BUFFERS.end()).min(most);
        self.frames = Some(Frames::new(size, buffers));
        match &mut self.checker {
            Some(checker) => checker.set_size(size),
            None if self.order.verify => {
                self.checker = Some(Checker::new(Against::Stamp, size, self.tile));
            }
            None => {}
        }
    }

    /// The stream has shown its size: the datagrams that were kept are placed.
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

    /// How often a sender began to count again.
    pub(crate) fn restarts(&self) -> u64 {
        self.restarts + self.sequence.restarts()
    }

    /// How many datagrams of its stream the latest one of all was behind the newest.
    pub fn reorder_depth(&self) -> u64 {
        self.deepest.max(self.sequence.reorder_depth())
    }

    /// A frame is being put together, or waits for its time.
    pub fn is_busy(&self) -> bool {
        self.frames.as_ref().is_some_and(|frames| frames.oldest().is_some())
    }

    /// Looks whether the outputs are still there, also while no frame comes.
    pub(crate) fn look_at_outputs(&mut self) {
        for output in &mut self.outputs {
            match output.look() {
                Ok(ShowResult::Done) => {}
                Ok(ShowResult::Closed) => self.closed = true,
                Err(failure) => self.failed = Some(failure),
            }
        }
    }

    /// Tells the outputs how it goes.
    pub fn tell(&mut self, report: &ScreenReport) {
        let rate = self.rate.map(|(rate, _)| rate);
        self.outputs.iter_mut().for_each(|output| output.tell(report, rate));
    }

    /// What became of the frames in its window, where it has one.
    pub fn window(&self) -> Option<WindowSummary> {
        self.outputs.iter().find_map(|output| output.window())
    }

    /// Nothing more will come.
    pub fn finish(&mut self) {
        self.outputs.iter_mut().for_each(|output| output.finish());
        if let Some(checker) = &mut self.checker {
            checker.finish(self.timeline.as_ref());
        }
    }
}

impl Screen {
    /// What it tells of itself.
    pub fn report(&self) -> ScreenReport {
        let (counts, tally) = (self.counts(), &self.tally);
        ScreenReport {
            tile: self.tile,
            datagrams: counts.datagrams,
            bytes: tally.bytes,
            datagrams_lost: counts.lost,
            datagrams_reordered: counts.reordered,
            datagrams_doubled: counts.doubled,
            datagrams_foreign: tally.foreign + tally.malformed,
            frames_shown: tally.shown,
            frames_late: tally.late,
            frames_torn: tally.torn,
            frames_missing: tally.missing,
            frames_window_dropped: self.window().map(|window| window.frames_dropped),
            frames_proven: self.checker.as_ref().map_or(0, |checker| checker.proven),
            frames_wrong: self.checker.as_ref().map_or(0, |checker| checker.wrong),
            frame: tally.frame,
            tick: tally.tick,
            presented_ms: tally.newest_presented_ms,
            presented_p50_ms: tally.presented_ms(0.5),
            presented_p99_ms: tally.presented_ms(0.99),
        }
    }
}
