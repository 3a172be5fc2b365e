//! A screen against every order of datagrams: shuffled, doubled, dropped, forged. What it counts is right,
//! whole frames are exact, nothing panics.

use super::screen::Screen;
use super::{Output, ScreenEnd, ScreenSpec, ShowResult};
use crate::geometry::{FrameRate, Size};
use crate::rtp::{DatagramStamp, FrameLayout};
use linerate_facts::failure::Failure;
use proptest::prelude::*;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const FILM: FrameRate = FrameRate { numerator: 24, denominator: 1 };
const SIZE: Size = Size { width: 37, height: 11 };
const MOST_BYTES: usize = 200;
/// Any time after 2020.
const TICK: u64 = 24 * 1_700_000_000;
const MS: i64 = 1_000_000;

/// Keeps what was shown.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<Vec<u8>>>>);

impl Output for Kept {
    fn show(&mut self, frame: &mut Vec<u8>, _size: Size) -> Result<ShowResult, Failure> {
        self.0.lock().expect("a lock").push(frame.clone());
        Ok(ShowResult::Done)
    }
}

impl Kept {
    fn frames(&self) -> Vec<Vec<u8>> {
        self.0.lock().expect("a lock").clone()
    }
}

fn order(size: Option<Size>, rate: Option<FrameRate>) -> ScreenSpec {
    ScreenSpec {
        interface: None,
        listen: here(0),
        tile: None,
        server: None,
        size,
        rate,
        payload_type: None,
        verify: false,
        latency: Some(Duration::from_millis(50)),
        barrier: false,
        end: ScreenEnd::default(),
    }
}

fn screen(size: Option<Size>, rate: Option<FrameRate>) -> (Screen, Kept) {
    let kept = Kept::default();
    (Screen::new(order(size, rate), vec![Box::new(kept.clone())]), kept)
}

/// All that arrived was taken.
fn look(screen: &mut Screen, now: i64) -> Option<i64> {
    screen.present_due(now, now)
}

fn here(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn start(tick: u64) -> i64 {
    super::deadline::nanos(FILM.start_of(tick))
}

fn picture(size: Size, frame: u32) -> Vec<u8> {
    (0..size.frame_bytes()).map(|index| (index as u32 * 31 + index as u32 / 7 + frame * 101) as u8).collect()
}

/// The datagrams of a frame.
fn datagrams(size: Size, frame: u32, sequence: u32, timestamp: u32) -> Vec<Vec<u8>> {
    let layout = FrameLayout::new(size, MOST_BYTES).expect("a layout");
    let pixels = picture(size, frame);
    let one = |index: usize| {
        let mut datagram = Vec::new();
        let sequence = sequence.wrapping_add(index as u32);
        layout.write_header(index, DatagramStamp { sequence, timestamp, ssrc: 7 }, &mut datagram);
        datagram.extend(&pixels[layout.payload(index)]);
        datagram.extend(layout.padding(index));
        datagram
    };
    (0..layout.datagrams()).map(one).collect()
}

/// Frames from `TICK` on, each with the time at which it is sent.
fn stream(size: Size, frames: u32, sequence: u32) -> Vec<(i64, Vec<Vec<u8>>)> {
    let mut next = sequence;
    (0..frames)
        .map(|frame| {
            let tick = TICK + u64::from(frame);
            let parts = datagrams(size, frame, next, FILM.timestamp_of(tick));
            next = next.wrapping_add(parts.len() as u32);
            (start(tick), parts)
        })
        .collect()
}

#[test]
fn frames_come_out_exact_at_their_time_in_their_order() {
    let (mut screen, kept) = screen(Some(SIZE), Some(FILM));
    for (at, parts) in stream(SIZE, 5, u32::MAX - 20) {
        // The last first; all but the first frame's are there before the deadline of the frame before.
        parts.iter().rev().for_each(|part| screen.take(part, here(1), at + 10 * MS));
        look(&mut screen, at + 10 * MS);
        let next = look(&mut screen, at + 49 * MS).expect("one waits");
        assert!((next - at - 50 * MS).abs() < MS, "{}", next - at);
        look(&mut screen, at + 51 * MS);
    }
    assert!(kept.frames() == (0..5).map(|frame| picture(SIZE, frame)).collect::<Vec<_>>());
    let report = screen.report();
    assert_eq!(
        (report.frames_shown, report.frames_late, report.frames_torn, report.frames_missing),
        (5, 0, 0, 0)
    );
    assert_eq!((report.datagrams_lost, report.tick), (0, Some(TICK + 4)));
    assert!(report.presented_p50_ms.is_some_and(|ms| (50.9..51.2).contains(&ms)), "{report:?}");
}

#[test]
fn what_nobody_reported_is_taken_from_the_stream() {
    let (mut screen, kept) = screen(None, None);
    let frames = stream(SIZE, 6, 5);
    // Joined within the first frame.
    for (index, (at, parts)) in frames.iter().enumerate() {
        let skip = if index == 0 { parts.len() / 2 } else { 0 };
        parts.iter().skip(skip).for_each(|part| screen.take(part, here(1), *at));
        look(&mut screen, at + 60 * MS);
    }
    assert_eq!(screen.size.map(|(size, _)| size), Some(SIZE));
    assert_eq!(screen.rate.map(|(rate, _)| rate), Some(FILM));
    assert!(kept.frames() == (1..6).map(|frame| picture(SIZE, frame)).collect::<Vec<_>>());
    let report = screen.report();
    assert_eq!((report.frames_shown, report.frames_torn, report.datagrams_lost), (5, 0, 0));
}

#[test]
fn late_torn_and_missing_frames_are_distinguished() {
    let (mut screen, kept) = screen(Some(SIZE), Some(FILM));
    let frames = stream(SIZE, 6, 0);
    for (index, (at, parts)) in frames.iter().enumerate() {
        match index {
            // Its last datagram comes 10 ms after its deadline.
            1 => {
                parts[1..].iter().for_each(|part| screen.take(part, here(1), *at));
                assert!(look(&mut screen, at + 51 * MS).is_some());
                screen.take(&parts[0], here(1), at + 60 * MS);
            }
            // One never comes: a sender that stops within a frame is the same.
            2 => parts[1..].iter().for_each(|part| screen.take(part, here(1), *at)),
            3 => {}
            _ => parts.iter().for_each(|part| screen.take(part, here(1), *at)),
        }
        look(&mut screen, at + 60 * MS);
        look(&mut screen, at + 80 * MS);
    }
    let report = screen.report();
    assert_eq!(
        (report.frames_shown, report.frames_late, report.frames_torn, report.frames_missing),
        (3, 1, 1, 1)
    );
    assert_eq!(report.datagrams_lost, 1 + frames[3].1.len() as u64);
    assert_eq!(kept.frames().len(), 5);
    // What comes of a frame that was shown changes nothing.
    screen.take(&frames[2].1[0], here(1), start(TICK + 6));
    let report = screen.report();
    assert_eq!((report.datagrams_lost, report.datagrams_reordered), (frames[3].1.len() as u64, 2));
    assert_eq!((screen.tally.late_datagrams, screen.is_busy()), (1, false));
}

#[test]
fn a_frame_that_its_sender_left_out_is_not_missing() {
    let (mut screen, _) = screen(Some(SIZE), Some(FILM));
    let mut sequence = 0;
    for frame in [0, 1, 4, 5] {
        let tick = TICK + u64::from(frame);
        let parts = datagrams(SIZE, frame, sequence, FILM.timestamp_of(tick));
        sequence += parts.len() as u32;
        parts.iter().for_each(|part| screen.take(part, here(1), start(tick)));
        look(&mut screen, start(tick) + 50 * MS);
    }
    let report = screen.report();
    assert_eq!((report.frames_shown, report.frames_missing, report.datagrams_lost), (4, 0, 0));
}

#[test]
fn forged_datagrams_are_counted_and_not_believed() {
    let (mut screen, kept) = screen(Some(SIZE), Some(FILM));
    let mut forged = 0;
    for (at, parts) in stream(SIZE, 3, 0) {
        for part in &parts {
            screen.take(part, here(1), at);
            // Black pixels from elsewhere, of another stream, of another version, and one that is cut short.
            let mut black = part.clone();
            black[40..].fill(0);
            screen.take(&black, here(2), at);
            let mut other = black.clone();
            other[8] ^= 1;
            screen.take(&other, here(1), at);
            let mut version = black.clone();
            version[0] ^= 0xc0;
            screen.take(&version, here(1), at);
            screen.take(&part[..part.len() - 1], here(1), at);
            forged += 4;
        }
        look(&mut screen, at + 50 * MS);
    }
    assert!(kept.frames() == (0..3).map(|frame| picture(SIZE, frame)).collect::<Vec<_>>());
    let report = screen.report();
    assert_eq!((report.frames_shown, report.datagrams_foreign, report.datagrams_doubled), (3, forged, 0));
}

#[test]
fn lines_beyond_the_frame_are_refused_and_a_larger_stream_is_reported() {
    let small = Size { width: 30, height: 8 };
    let (mut screen, kept) = screen(Some(small), Some(FILM));
    for (at, parts) in stream(SIZE, 3, 0) {
        parts.iter().for_each(|part| screen.take(part, here(1), at));
        look(&mut screen, at + 80 * MS);
    }
    assert!(screen.tally.outside > 0);
    assert!(kept.frames().iter().all(|frame| frame.len() == small.frame_bytes()));
}

#[test]
fn another_stream_takes_over_after_a_silence_also_with_another_size() {
    let (mut screen, kept) = screen(None, None);
    for (at, parts) in stream(SIZE, 3, 0) {
        parts.iter().for_each(|part| screen.take(part, here(1), at));
        look(&mut screen, at + 80 * MS);
    }
    let large = Size { width: 70, height: 20 };
    let late = 3_000 * MS;
    for (at, parts) in stream(large, 3, 900_000) {
        parts.iter().for_each(|part| screen.take(part, here(2), at + late));
        look(&mut screen, at + late + 80 * MS);
    }
    screen.flush(start(TICK) + 2 * late);
    let sizes: Vec<usize> = kept.frames().iter().map(Vec::len).collect();
    let (small, large) = (SIZE.frame_bytes(), large.frame_bytes());
    assert_eq!(sizes, [small, small, small, large, large, large]);
    let report = screen.report();
    assert_eq!((report.frames_torn, report.datagrams_lost, screen.tally.streams), (0, 0, 2));
}

/// What a bad network makes of a stream: (when, frame, datagram), in the order of arrival.
fn mangle(frames: &[(i64, Vec<Vec<u8>>)], dice: &[(u8, u8)]) -> Vec<(usize, usize)> {
    let all = frames
        .iter()
        .enumerate()
        .flat_map(|(frame, (_, parts))| (0..parts.len()).map(move |part| (frame, part)));
    let mut arriving = Vec::new();
    for (index, place) in all.enumerate() {
        let (fate, far) = dice[index % dice.len()];
        let (now, later) = (index * 4, index * 4 + usize::from(far % 60));
        match fate {
            0..16 => {}
            16..40 => arriving.extend([(now, place), (later, place)]),
            40..90 => arriving.push((later, place)),
            _ => arriving.push((now, place)),
        }
    }
    arriving.sort();
    arriving.into_iter().map(|(_, place)| place).collect()
}

proptest! {
    #[test]
    fn whatever_the_network_does_the_counts_are_right_and_whole_frames_exact(
        width in 1u32..60, height in 1u32..12, sequence: u32, dice in prop::collection::vec(any::<(u8, u8)>(), 1..120), told: bool,
    ) {
        let size = Size { width, height };
        // As many as there are buffers.
        let frames = stream(size, 5, sequence);
        let arriving = mangle(&frames, &dice);
        prop_assume!(!arriving.is_empty());
        let (mut screen, kept) = screen(told.then_some(size), Some(FILM));
        // All within one latency: nothing is shown before all has come.
        for (frame, part) in &arriving {
            screen.take(&frames[*frame].1[*part], here(1), start(TICK) + MS);
        }
        screen.flush(start(TICK) + 2 * MS);
        let came: std::collections::BTreeSet<_> = arriving.iter().copied().collect();
        let report = screen.report();
        prop_assert_eq!(report.datagrams, came.len() as u64);
        prop_assert_eq!(report.datagrams_doubled, (arriving.len() - came.len()) as u64);
        let of = |frame: usize| came.iter().filter(|(of, _)| *of == frame).count();
        let whole: Vec<u32> = (0..5).filter(|frame| of(*frame as usize) == frames[*frame as usize].1.len()).collect();
        let shown = kept.frames();
        // Each whole frame is there, exact and in order, unless the size was not known yet when it went by.
        let exact: Vec<u32> = shown.iter().filter_map(|bytes| whole.iter().copied().find(|frame| *bytes == picture(size, *frame))).collect();
        prop_assert!(exact.windows(2).all(|pair| pair[0] <= pair[1]), "{:?}", exact);
        let counted = report.frames_shown + report.frames_late;
        prop_assert_eq!(counted + report.frames_torn, shown.len() as u64);
        if told {
            prop_assert_eq!(counted, whole.len() as u64);
            prop_assert!(whole.iter().all(|frame| exact.contains(frame)));
        } else {
            prop_assert!(counted <= whole.len() as u64);
        }
    }

    #[test]
    fn any_datagrams_at_all_do_no_harm(
        frames in 1u32..4,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 0..200),
        told: bool,
    ) {
        let (mut screen, _) = screen(told.then_some(SIZE), None);
        let mut all: Vec<(i64, Vec<u8>)> =
            stream(SIZE, frames, 0).into_iter().flat_map(|(at, parts)| parts.into_iter().map(move |part| (at, part))).collect();
        for (datagram, byte, value) in changes {
            let (_, datagram) = &mut all[datagram.index(frames as usize)];
            let at = byte.index(datagram.len());
            datagram[at] = value;
        }
        for (at, datagram) in &all {
            screen.take(datagram, here(1), *at);
            look(&mut screen, *at);
        }
        screen.flush(start(TICK + 100));
        prop_assert!(!screen.is_busy());
        let report = screen.report();
        let told = report.datagrams + report.datagrams_doubled + report.datagrams_foreign;
        prop_assert!(told == all.len() as u64 || told + 1 == all.len() as u64);
    }
}
