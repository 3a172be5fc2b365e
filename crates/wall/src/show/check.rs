//! `--verify`: each whole frame is held against what the movie says of it.
//!
//! A stamped frame proves itself. Others are held against checksums (CRC-32C) of the server. Where the timeline
//! is known, the frame must also be the one of its tick. A change of the timeline may reach a screen after the first frame that it changed; so what does not fit waits a moment before it is
//! called wrong.

use crate::geometry::{Size, TileId};
use crate::picture::{prove, sum};
use crate::timeline::Timeline;
use std::collections::{HashMap, VecDeque};

/// What does not fit waits so long for news, nanoseconds.
const PATIENCE: i64 = 3_000_000_000;
/// Frames that wait at most.
const MOST_WAITING: usize = 512;
/// Checksums that are asked for at once.
const CHUNK: u32 = 256;
/// A movie of so many frames at most has its checksums kept: 9 hours at 120 a second.
const MOST_FRAMES: u32 = 1 << 22;

/// What frames are held against.
#[derive(Debug)]
pub(crate) enum Against {
    /// Their own stamps.
    Stamp,
    /// The server's checksums.
    Server(ServerSums),
}

/// Checksums as the server tells them.
#[derive(Debug, Default)]
pub(crate) struct ServerSums {
    sums: HashMap<u32, u32>,
    asked: HashMap<u32, bool>,
}

/// A frame that does not fit yet.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    tick: u64,
    /// Of the stamp.
    frame: Option<u32>,
    sum: u32,
    since: i64,
}

/// The frame that belongs to a tick, as far as a screen knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExpectedFrame {
    /// There is no timeline, or timestamps are not ticks.
    Nothing,
    /// The movie stands still then.
    Silence,
    Frame(u32),
}

/// Holds frames against what they should be.
#[derive(Debug)]
pub(crate) struct Checker {
    against: Against,
    size: Size,
    tile: Option<TileId>,
    waiting: VecDeque<Waiting>,
    /// First frames of the checksums to ask for, `CHUNK` each.
    wants: Vec<u32>,
    pub proven: u64,
    pub wrong: u64,
    /// Frames of which nobody says what they should be.
    pub unproven: u64,
    /// What the newest wrong frame was.
    pub newest_wrong: Option<String>,
}

impl Checker {
    pub(crate) fn new(against: Against, size: Size, tile: Option<TileId>) -> Checker {
        let (waiting, wants) = (VecDeque::new(), Vec::new());
        Checker { against, size, tile, waiting, wants, proven: 0, wrong: 0, unproven: 0, newest_wrong: None }
    }

    /// Frames of another size from now on.
    pub(crate) fn set_size(&mut self, size: Size) {
        self.size = size;
    }

    /// What frames are held against, in a word.
    pub(crate) fn by(&self) -> &'static str {
        match self.against {
            Against::Stamp => "stamp",
            Against::Server(_) => "server",
        }
    }

    /// Looks at a whole frame once; says which frame of the movie it is, where it can.
    pub(crate) fn check(
        &mut self,
        bytes: &[u8],
        tick: Option<u64>,
        timeline: Option<&Timeline>,
        now: i64,
    ) -> Option<u32> {
        let frame_expected = expected_frame(tick, timeline);
        let frame = match &self.against {
            Against::Stamp => match prove(bytes, self.size) {
                Err(why) => {
                    self.blame(why.to_string());
                    return None;
                }
                Ok(proof) if self.tile.is_some_and(|tile| tile != proof.tile) => {
                    let tile = self.tile.map(|tile| tile.to_string()).unwrap_or_default();
                    self.blame(format!("it is frame {} of tile {}, not of {tile}", proof.frame, proof.tile));
                    return Some(proof.frame);
                }
                Ok(proof) => {
                    self.tile = Some(proof.tile);
                    Some(proof.frame)
                }
            },
            _ => None,
        };
        let sum = if frame.is_some() { 0 } else { sum(bytes) };
        let pending = Waiting { tick: tick.unwrap_or(0), frame, sum, since: now };
        match self.fits(&pending, frame_expected) {
            Some(true) => self.proven += 1,
            _ if frame_expected == ExpectedFrame::Nothing => self.unproven += 1,
            _ => self.wait(pending, timeline),
        }
        match frame_expected {
            ExpectedFrame::Frame(expected) if frame.is_none() => Some(expected),
            _ => frame,
        }
    }

    /// The frame is the one that belongs there; none where nobody knows (yet).
    fn fits(&mut self, pending: &Waiting, expected_frame: ExpectedFrame) -> Option<bool> {
        match (&mut self.against, expected_frame) {
            (Against::Stamp, ExpectedFrame::Nothing) => pending.frame.map(|_| true),
            (Against::Stamp, ExpectedFrame::Frame(frame)) => Some(pending.frame == Some(frame)),
            (Against::Server(_), ExpectedFrame::Nothing) => None,
            (Against::Server(server), ExpectedFrame::Frame(frame)) => {
                if let Some(sum) = server.sums.get(&frame) {
                    return Some(*sum == pending.sum);
                }
                let chunk = frame / CHUNK * CHUNK;
                if frame < MOST_FRAMES && server.asked.insert(chunk, true).is_none() {
                    self.wants.push(chunk);
                }
                None
            }
            (_, ExpectedFrame::Silence) => Some(false),
        }
    }

    fn wait(&mut self, pending: Waiting, timeline: Option<&Timeline>) {
        if self.waiting.len() >= MOST_WAITING
            && let Some(oldest) = self.waiting.pop_front()
        {
            self.give_up(oldest, timeline);
        }
        self.waiting.push_back(pending);
    }

    /// News may have come, or time has passed: what waits is looked at again.
    pub(crate) fn look_again(&mut self, timeline: Option<&Timeline>, now: i64) {
        for _ in 0..self.waiting.len() {
            let Some(pending) = self.waiting.pop_front() else { return };
            match self.fits(&pending, expected_frame(Some(pending.tick), timeline)) {
                Some(true) => self.proven += 1,
                _ if now.saturating_sub(pending.since) > PATIENCE => self.give_up(pending, timeline),
                _ => self.waiting.push_back(pending),
            }
        }
    }

    /// Nothing more will come.
    pub(crate) fn finish(&mut self, timeline: Option<&Timeline>) {
        self.look_again(timeline, 0);
        while let Some(pending) = self.waiting.pop_front() {
            self.give_up(pending, timeline);
        }
    }

    /// Some frames wait for news.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn give_up(&mut self, pending: Waiting, timeline: Option<&Timeline>) {
        let frame_expected = expected_frame(Some(pending.tick), timeline);
        match (self.fits(&pending, frame_expected), frame_expected) {
            (Some(true), _) => self.proven += 1,
            (None, _) => self.unproven += 1,
            (_, ExpectedFrame::Frame(frame)) => {
                let is = pending.frame.map_or("it is another".into(), |is| format!("it is frame {is}"));
                self.blame(format!("tick {} shows frame {frame}, but {is}", pending.tick));
            }
            _ => self.blame(format!("tick {} shows none, but a frame came", pending.tick)),
        }
    }

    fn blame(&mut self, why: String) {
        self.wrong += 1;
        self.newest_wrong = Some(why);
    }

    /// The server's answer. None at all: it has no checksums of that tile.
    pub(crate) fn take_sums(&mut self, from: u32, sums: &[u32]) {
        if let Against::Server(server) = &mut self.against {
            server.sums.extend((from..MOST_FRAMES).zip(sums.iter().copied()));
        }
    }

    /// The timeline has changed, perhaps to another movie: its checksums are asked for again.
    pub(crate) fn forget_sums(&mut self) {
        if let Against::Server(server) = &mut self.against {
            *server = ServerSums::default();
        }
    }

    /// Checksums to ask the server for: first frame and number.
    pub(crate) fn wants(&mut self) -> impl Iterator<Item = (u32, u32)> + use<'_> {
        self.wants.drain(..).map(|from| (from, CHUNK))
    }
}

fn expected_frame(tick: Option<u64>, timeline: Option<&Timeline>) -> ExpectedFrame {
    match tick.zip(timeline) {
        None => ExpectedFrame::Nothing,
        Some((tick, timeline)) => {
            timeline.frame_of(tick).map_or(ExpectedFrame::Silence, ExpectedFrame::Frame)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picture::{Proof, stamp};

    const SIZE: Size = Size { width: 64, height: 16 };

    fn stamped(frame: u32) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..SIZE.frame_bytes()).map(|index| (index * 7) as u8).collect();
        stamp(&mut bytes, SIZE, Proof { tile: TileId { row: 1, column: 2 }, frame });
        bytes
    }

    fn film() -> Timeline {
        Timeline::new("24".parse().expect("a rate"), 10, 1000, true)
    }

    #[test]
    fn a_stamp_proves_frame_tile_and_place_in_time() {
        let mut checker = Checker::new(Against::Stamp, SIZE, Some(TileId { row: 1, column: 2 }));
        assert_eq!(checker.check(&stamped(3), None, None, 0), Some(3));
        assert_eq!(checker.check(&stamped(3), Some(1003), Some(&film()), 0), Some(3));
        let mut damaged = stamped(4);
        damaged[SIZE.frame_bytes() - 1] ^= 1;
        checker.check(&damaged, Some(1004), Some(&film()), 0);
        assert_eq!((checker.proven, checker.wrong), (2, 1));
        // Another frame than that of its tick: wrong, unless the timeline has changed.
        checker.check(&stamped(7), Some(1005), Some(&film()), 0);
        assert!(checker.is_waiting());
        checker.look_again(Some(&film().seek(1005, 7)), 1);
        assert_eq!((checker.proven, checker.wrong), (3, 1));
        checker.check(&stamped(8), Some(1005), Some(&film()), 0);
        checker.look_again(Some(&film()), PATIENCE + 1);
        assert_eq!((checker.proven, checker.wrong), (3, 2));
        assert!(checker.newest_wrong.as_deref().is_some_and(|why| why.contains("shows frame 5")));
        let mut elsewhere = Checker::new(Against::Stamp, SIZE, Some(TileId { row: 0, column: 0 }));
        elsewhere.check(&stamped(3), None, None, 0);
        assert_eq!((elsewhere.proven, elsewhere.wrong), (0, 1));
    }

    #[test]
    fn the_servers_checksums_are_asked_for_and_believed() {
        let mut checker = Checker::new(Against::Server(ServerSums::default()), SIZE, None);
        let frames: Vec<Vec<u8>> = (0..3).map(|frame| vec![frame; SIZE.frame_bytes()]).collect();
        for (tick, frame) in (1000..).zip(&frames) {
            checker.check(frame, Some(tick), Some(&film()), 0);
        }
        assert_eq!(checker.wants().collect::<Vec<_>>(), [(0, CHUNK)]);
        let mut sums: Vec<u32> = frames.iter().map(|frame| sum(frame)).collect();
        sums[2] ^= 1;
        checker.take_sums(0, &sums);
        checker.finish(Some(&film()));
        assert_eq!((checker.proven, checker.wrong, checker.unproven), (2, 1, 0));
    }
}
