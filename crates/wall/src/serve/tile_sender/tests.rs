//! The worker's loop on a kernel and a network that fail now and then: whatever goes wrong, what is on the
//! wire is whole frames, in order.

use super::{RouteSource, TileSender};
use crate::geometry::{FrameRate, Size};
use crate::rtp::{FrameLayout, parse};
use crate::serve::FrameClock;
use crate::serve::ahead::{FrameLocation, FrameStore};
use crate::serve::counters::TileCounters;
use crate::serve::program::{LatestProgram, Program};
use crate::serve::source::slot_bytes;
use crate::serve::wire::{SendOutcome, Wire};
use crate::timeline::Timeline;
use linerate_facts::random::Random;
use linerate_system::buffers::Pool;
use linerate_system::queue::fake::{FakeQueue, Faults};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::io::IoSlice;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const SIZE: Size = Size { width: 41, height: 7 };
/// Fast, so that a case takes some tens of milliseconds.
const RATE: FrameRate = FrameRate { numerator: 400, denominator: 1 };
const FRAMES: u32 = 20;
/// The movie's, behind others of the queue.
const FILE: usize = 3;

/// The byte at an offset of the movie's file.
fn content(offset: u64) -> u8 {
    (offset * 31 + (offset >> 12)) as u8
}

/// The files of the queue.
fn files() -> Vec<Vec<u8>> {
    // Reads are of whole pages.
    let bytes = (u64::from(FRAMES) * SIZE.frame_bytes() as u64).next_multiple_of(4096) + 4096;
    let mut files = vec![Vec::new(); FILE];
    files.push((0..bytes).map(content).collect());
    files
}

/// Everything that was sent, and a network that hesitates.
#[derive(Clone)]
struct TestWire {
    sent: Arc<Mutex<Vec<Vec<u8>>>>,
    random: Random,
    /// Thousandths of the trains.
    hesitates: u64,
}

impl Wire for TestWire {
    fn most_datagrams(&self) -> usize {
        4
    }

    fn send(&mut self, train: &[IoSlice<'_>]) -> SendOutcome {
        if self.random.below(1000) < self.hesitates {
            return match self.random.below(3) {
                0 => SendOutcome::Blocked,
                1 => SendOutcome::Refused,
                _ => SendOutcome::Again,
            };
        }
        // A datagram begins with its header: version 2, and its parts follow until the next one.
        let mut datagrams: Vec<Vec<u8>> = Vec::new();
        for part in train {
            match datagrams.last_mut() {
                Some(datagram) if datagram.len() < self.full(datagram) => datagram.extend_from_slice(part),
                _ => datagrams.push(part.to_vec()),
            }
        }
        self.sent.lock().expect("the wire").extend(datagrams);
        SendOutcome::All
    }

    fn wait_for_room(&mut self, time: Duration) {
        std::thread::sleep(time.min(Duration::from_micros(200)));
    }
}

impl TestWire {
    /// What a datagram with this header must have in all: its line headers say so.
    fn full(&self, datagram: &[u8]) -> usize {
        let (mut at, mut pixels) = (14, 0);
        loop {
            pixels += usize::from(u16::from_be_bytes([datagram[at], datagram[at + 1]]));
            let more = datagram[at + 4] & 0x80 != 0;
            at += 6;
            if !more {
                let bytes = at + pixels;
                // Padding is a part of its own.
                return bytes + if datagram[0] & 0x20 != 0 { 1 } else { 0 };
            }
        }
    }
}

/// Gives its wire once.
struct Once(Option<(TestWire, Arc<FrameLayout>)>);

impl RouteSource for Once {
    type Wire = TestWire;
    fn look(&mut self) -> Option<Option<(TestWire, Arc<FrameLayout>)>> {
        self.0.take().map(Some)
    }
}

/// What came of a run.
struct Outcome {
    /// By timestamp.
    frames: BTreeMap<u32, Vec<u8>>,
    sequences: Vec<u32>,
    counters: Arc<TileCounters>,
    /// All programs that hung there, oldest first.
    programs: Vec<Program>,
    pool_is_whole: bool,
}

/// Plays the movie once on a fake kernel; `changes` happen at these times.
fn play(seed: u64, faults: Faults, hesitates: u64, memory: usize, changes: &[(u64, u32)]) -> Outcome {
    // As the player does: it begins when the worker stands. What a worker could not see is none of its
    // frames.
    let latest = Arc::new(LatestProgram::new(Program::new(Timeline::new(RATE, FRAMES, u64::MAX, false), 0)));
    let counters: Arc<TileCounters> = Arc::default();
    let sent = Arc::default();
    let wire = TestWire { sent: Arc::clone(&sent), random: Random::new(seed), hesitates };
    let layout = Arc::new(FrameLayout::new(SIZE, 120).expect("a layout"));
    let sender = {
        let (latest, counters, layout) = (Arc::clone(&latest), Arc::clone(&counters), Arc::clone(&layout));
        std::thread::spawn(move || {
            let mut pool = Pool::new(memory, slot_bytes(SIZE.frame_bytes())).expect("a pool");
            let mut queue = FakeQueue::new(seed, files(), faults).in_real_time();
            let sender = TileSender {
                latest: &latest,
                counters: &counters,
                routes: Once(Some((wire, layout))),
                frames: FrameStore {
                    frame_bytes: SIZE.frame_bytes(),
                    files: vec![Some(FrameLocation { file: FILE })],
                    label: "fake".into(),
                },
                clock: FrameClock::new(RATE, 300_000),
                ssrc: 7,
                sequence: u32::MAX - 5,
                memory,
                composer: None,
            };
            sender.run(&mut queue, &mut pool).expect("the worker");
            pool.free() == memory
        })
    };
    while !counters.stands.load(Ordering::Acquire) && !sender.is_finished() {
        std::thread::sleep(Duration::from_micros(200));
    }
    let first = RATE.tick_at(std::time::SystemTime::now() + Duration::from_millis(15));
    latest.change(|program| program.with_timeline(Timeline::new(RATE, FRAMES, first, false)));
    let mut programs = vec![(*latest.program()).clone()];
    let began = Instant::now();
    for (millis, frame) in changes {
        std::thread::sleep(Duration::from_millis(*millis));
        let tick = RATE.tick_at(std::time::SystemTime::now()) + 3;
        latest.change(|program| {
            let timeline = &program.timeline;
            program.with_timeline(match frame {
                0 => timeline.pause(tick),
                frame => timeline.play(tick).seek(tick, *frame),
            })
        });
        programs.push((*latest.program()).clone());
    }
    if !changes.is_empty() {
        let tick = RATE.tick_at(std::time::SystemTime::now()) + 1;
        latest.change(|program| program.with_timeline(program.timeline.play(tick)));
        programs.push((*latest.program()).clone());
    }
    while began.elapsed() < Duration::from_secs(10) {
        let tick = RATE.tick_at(std::time::SystemTime::now());
        if latest.program().timeline.is_over(tick.saturating_sub(2)) && counters.over.load(Ordering::Relaxed)
        {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    latest.stop();
    let pool_is_whole = sender.join().expect("the worker's thread");
    let (mut frames, mut sequences) = (BTreeMap::new(), Vec::new());
    for datagram in sent.lock().expect("the wire").iter() {
        let packet = parse(datagram).expect("ours");
        sequences.push(packet.sequence);
        let frame: &mut Vec<u8> = frames.entry(packet.timestamp).or_default();
        for line in packet.lines() {
            assert_eq!(
                frame.len(),
                usize::from(line.number) * SIZE.line_bytes() + usize::from(line.offset) * 3,
                "a part is missing"
            );
            frame.extend_from_slice(line.bytes);
        }
    }
    Outcome { frames, sequences, counters, programs, pool_is_whole }
}

/// Every frame is whole and the right one, and the numbers have no gap.
fn holds(outcome: &Outcome) -> Result<(), TestCaseError> {
    let now = std::time::SystemTime::now();
    for (timestamp, pixels) in &outcome.frames {
        let tick = RATE.tick_of(*timestamp, now);
        prop_assert_eq!(pixels.len(), SIZE.frame_bytes(), "a frame is not whole");
        let is = |frame: u32| {
            let start = u64::from(frame) * SIZE.frame_bytes() as u64;
            pixels.iter().enumerate().all(|(index, byte)| *byte == content(start + index as u64))
        };
        let meant: Vec<u32> =
            outcome.programs.iter().filter_map(|program| program.timeline.frame_of(tick)).collect();
        prop_assert!(meant.iter().any(|frame| is(*frame)), "tick {} shows none of {:?}", tick, meant);
    }
    for pair in outcome.sequences.windows(2) {
        prop_assert_eq!(pair[0].wrapping_add(1), pair[1]);
    }
    prop_assert_eq!(outcome.frames.len() as u64, outcome.counters.frames_sent.load(Ordering::Relaxed));
    Ok(())
}

#[test]
fn without_faults_every_frame_is_accounted_for() {
    let outcome = play(1, Faults::default(), 0, 6, &[]);
    holds(&outcome).expect("whole frames");
    let sent = outcome.counters.frames_sent.load(Ordering::Relaxed);
    assert_eq!(sent + outcome.counters.dropped(), u64::from(FRAMES));
    assert!(sent > 0 && outcome.pool_is_whole);
}

#[test]
fn a_disk_that_always_fails_drops_all_and_says_so() {
    let outcome = play(1, Faults { read_errors: 1000, ..Faults::default() }, 0, 4, &[]);
    assert_eq!(outcome.frames.len(), 0);
    assert!(outcome.counters.dropped_by_disk.load(Ordering::Relaxed) > 0);
    assert_eq!(outcome.counters.dropped(), u64::from(FRAMES));
    assert!(outcome.counters.problem().is_some_and(|problem| problem.contains("fake: frame")));
    assert!(outcome.pool_is_whole);
}

#[test]
fn a_network_that_never_takes_anything_drops_all_and_is_named() {
    let outcome = play(1, Faults::default(), 1000, 4, &[]);
    let by_network = outcome.counters.dropped_by_network.load(Ordering::Relaxed);
    // (Refused and Again are tried again at once; the first that is blocked holds it.)
    assert!(by_network > 0 && outcome.frames.is_empty(), "{by_network}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, max_shrink_iters: 0, ..ProptestConfig::default() })]

    #[test]
    fn whatever_fails_frames_are_whole_and_counted(
        seed: u64, short_reads in 0u32..300, read_errors in 0u32..200, late in 0u32..200, hesitates in 0u64..300, memory in 3usize..9,
    ) {
        let faults = Faults { short: short_reads, read_errors, late, ..Faults::default() };
        let outcome = play(seed, faults, hesitates, memory, &[]);
        holds(&outcome)?;
        let sent = outcome.counters.frames_sent.load(Ordering::Relaxed);
        prop_assert_eq!(sent + outcome.counters.dropped(), u64::from(FRAMES));
        prop_assert!(outcome.pool_is_whole);
    }

    #[test]
    fn changes_leave_whole_frames_and_no_gap(
        seed: u64, late in 0u32..100, memory in 3usize..9,
        changes in prop::collection::vec((1u64..20, 0u32..FRAMES), 1..4),
    ) {
        let outcome = play(seed, Faults { late, ..Faults::default() }, 50, memory, &changes);
        holds(&outcome)?;
        prop_assert!(outcome.pool_is_whole);
    }
}
