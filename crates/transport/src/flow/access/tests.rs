//! The loop on the seeded fake, with its faults and its own clock; and each engine on a real file.

use super::work::{AccessWork, blocks};
use super::*;
use linerate_system::buffers::{Lease, Pool};
use linerate_system::queue::fake::{FakeQueue, Faults};
use linerate_system::queue::{Completion, Queue, Transfer};
use proptest::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const TRANSFER: usize = 4096;
const FILE: usize = 256 * TRANSFER;

fn plan(order: AccessOrder, read_share: f64) -> AccessStart {
    let file = Arc::new(tempfile::tempfile().expect("a temporary file"));
    let files = vec![AccessFile { file, label: "/data/one".into() }];
    AccessStart {
        core: None,
        files,
        walk: Walk::new(vec![Area::whole(0, 0, FILE as u64)], order, TRANSFER as u64, 1).expect("room"),
        read_share,
        transfer_bytes: TRANSFER,
        queue_depth: 4,
        engine: Engine::IoUring,
        pace: Pace::Closed,
        amount_bytes: Some(FILE as u64),
        fsync_at_end: true,
        sync: None,
        stamp: Some(BlockStamp { seed: 3 }),
        seed: 5,
        io_uring: true,
        begin: Instant::now(),
    }
}

fn fake(seed: u64, content: Vec<u8>, faults: Faults) -> FakeQueue {
    FakeQueue::new(seed, vec![content], faults)
}

fn pool(start: &AccessStart) -> Pool {
    Pool::new(blocks(start), start.transfer_bytes).expect("a pool")
}

fn run_on(queue: &mut FakeQueue, mut start: AccessStart) -> (AccessOutcome, AccessCounters) {
    start.begin = queue.begin();
    let counters = AccessCounters::new(start.begin);
    let stop = AtomicBool::new(false);
    let outcome = AccessWork::new(queue, &mut pool(&start), start, &counters, &stop, 0.0)
        .expect("a worker")
        .run()
        .expect("turns");
    (outcome, counters)
}

/// What a whole pass of writes leaves.
fn written() -> Vec<u8> {
    let start = plan(AccessOrder::Sequential, 0.0);
    let mut queue = fake(1, vec![0; FILE], Faults::default());
    let (outcome, _) = run_on(&mut queue, start);
    assert!(outcome.whole, "{outcome:?}");
    queue.files.remove(0)
}

fn read_back(content: Vec<u8>) -> AccessOutcome {
    let start = plan(AccessOrder::Sequential, 1.0);
    let mut queue = fake(1, content, Faults::default());
    run_on(&mut queue, start).0
}

#[test]
fn what_was_written_reads_back_and_damage_is_located() {
    let content = written();
    let outcome = read_back(content.clone());
    assert_eq!((outcome.corrupt.len(), outcome.reads.operations), (0, 256));
    let mut flipped = content.clone();
    flipped[20_000] ^= 0x10;
    let outcome = read_back(flipped);
    assert_eq!(outcome.corrupt.len(), 1, "{:?}", outcome.corrupt);
    let found = &outcome.corrupt[0];
    assert_eq!((found.label.as_str(), found.offset), ("/data/one", 16_384));
    assert!(found.why.contains("at byte 20000"), "{}", found.why);
    let mut misplaced = content;
    misplaced.copy_within(8192..12_288, 40_960);
    let outcome = read_back(misplaced);
    assert_eq!((outcome.corrupt.len(), outcome.corrupt[0].offset), (1, 40_960));
    assert!(outcome.corrupt[0].why.contains("offset 8192"), "{:?}", outcome.corrupt);
    assert!(outcome.whole, "it did its amount");
    let outcome = read_back(vec![0; FILE]);
    assert_eq!(outcome.corrupt.len(), 100, "no more are kept");
    assert!(outcome.corrupt[99].why.contains("156 more"), "{:?}", outcome.corrupt[99]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn short_and_late_transfers_are_completed(seed: u64, read_share in 0.0..=1.0f64, zipf: bool) {
        let order = if zipf { AccessOrder::Zipf { theta: 1.1 } } else { AccessOrder::Sequential };
        let start = plan(order, read_share);
        let faults = Faults { short: 200, late: 50, ..Faults::default() };
        let mut queue = fake(seed, written(), faults);
        let (outcome, counters) = run_on(&mut queue, start);
        prop_assert!(outcome.whole && outcome.errors.is_empty(), "{:?}", outcome.errors);
        prop_assert_eq!(outcome.corrupt, vec![]);
        let bytes = outcome.reads.bytes + outcome.writes.bytes;
        prop_assert_eq!(bytes, FILE as u64);
        prop_assert_eq!(counters.progress.mark().bytes, bytes);
        prop_assert_eq!(outcome.reads.latency.len() + outcome.writes.latency.len(), 256);
        prop_assert_eq!(queue.in_flight(), 0);
        prop_assert!(outcome.mean_depth > 1.0 && outcome.mean_depth <= 4.0, "{}", outcome.mean_depth);
    }

    #[test]
    fn an_error_names_file_and_place_and_loses_nothing(seed: u64, writes: bool) {
        let start = plan(AccessOrder::Random, if writes { 0.0 } else { 1.0 });
        let faults = Faults { read_errors: 100, full: 100, late: 100, ..Faults::default() };
        let mut queue = fake(seed, written(), faults);
        let (outcome, counters) = run_on(&mut queue, start);
        prop_assert!(!outcome.whole && !outcome.errors.is_empty());
        let error = &outcome.errors[0];
        prop_assert!(error.label == "/data/one" && error.offset < FILE as u64);
        let said = if writes { "write: No space left" } else { "read: Input/output error" };
        prop_assert!(error.why.starts_with(said), "{}", error.why);
        prop_assert_eq!(queue.in_flight(), 0);
        let operations = outcome.reads.operations + outcome.writes.operations;
        prop_assert_eq!(counters.operations.load(Ordering::Relaxed), operations);
    }

    /// It was silent for nearly all of the two seconds before the stop, so that it gets twice as long to show
    /// life; not for ever.
    #[test]
    fn a_stop_gives_up_a_device_that_hangs(seed: u64) {
        let start = AccessStart { amount_bytes: None, ..plan(AccessOrder::Random, 1.0) };
        let inner = fake(seed, written(), Faults { lost: 20, ..Faults::default() });
        let mut queue = Scripted::new(inner, Duration::from_secs(2));
        let outcome = queue.run(start);
        prop_assert_eq!(queue.in_flight(), 4, "all of its depth is lost");
        prop_assert!(!outcome.whole);
        prop_assert!(outcome.errors[0].why.contains("4 requests did not come back"), "{:?}", outcome.errors);
        prop_assert!((2.0..6.2).contains(&outcome.ended_seconds), "{}", outcome.ended_seconds);
    }
}

#[test]
fn a_stop_waits_for_a_slow_device_as_its_silence_asks() {
    let start = AccessStart { amount_bytes: None, ..plan(AccessOrder::Random, 1.0) };
    // Silent from 1 s on; the stop comes after one second of that, and the device shows life after 1.9 s
    // more.
    let stall = Some(Duration::from_secs(1)..Duration::from_millis(3900));
    let inner = fake(1, written(), Faults { stall, ..Faults::default() });
    let mut queue = Scripted::new(inner, Duration::from_secs(2));
    let outcome = queue.run(start);
    assert!(outcome.whole && outcome.errors.is_empty(), "{:?}", outcome.errors);
    assert_eq!(queue.in_flight(), 0);
}

#[test]
fn after_a_ctrl_c_a_user_is_not_kept_waiting() {
    let start = AccessStart { amount_bytes: None, ..plan(AccessOrder::Random, 1.0) };
    let stall = Some(Duration::from_secs(1)..Duration::from_secs(100));
    let inner = fake(1, written(), Faults { stall, ..Faults::default() });
    let mut queue = Scripted::new(inner, Duration::from_secs(2));
    queue.interrupts = true;
    let outcome = queue.run(start);
    assert_eq!(queue.in_flight(), 4);
    assert!(!outcome.whole && outcome.errors.is_empty(), "what was asked for is not an error: {outcome:?}");
    assert!((2.0..2.4).contains(&outcome.ended_seconds), "{}", outcome.ended_seconds);
}

/// A fake whose process is frozen for a while, and told to stop, at moments of the fake's own clock.
struct Scripted {
    inner: FakeQueue,
    freeze: Option<(Duration, Duration)>,
    /// When windows begin, and the last ends.
    windows: Vec<Duration>,
    stop_at: Duration,
    stop: Arc<AtomicBool>,
    /// The stop is a Ctrl-C.
    interrupts: bool,
    counters: Option<Arc<AccessCounters>>,
}

impl Scripted {
    fn new(inner: FakeQueue, stop_at: Duration) -> Self {
        let (windows, stop) = (Vec::new(), Arc::default());
        Scripted { inner, freeze: None, windows, stop_at, stop, interrupts: false, counters: None }
    }

    fn run(&mut self, mut start: AccessStart) -> AccessOutcome {
        start.begin = self.inner.begin();
        let counters = Arc::new(AccessCounters::new(start.begin));
        self.counters = Some(Arc::clone(&counters));
        let stop = Arc::clone(&self.stop);
        AccessWork::new(self, &mut pool(&start), start, &counters, &stop, 0.0)
            .expect("a worker")
            .run()
            .expect("turns")
    }
}

impl Queue for Scripted {
    fn submit(&mut self, lease: Lease, transfer: Transfer) {
        self.inner.submit(lease, transfer);
    }

    fn turn(&mut self, wait: Option<Duration>, done: &mut Vec<Completion>) -> std::io::Result<()> {
        let now = self.inner.now() - self.inner.begin();
        if let Some((_, time)) = self.freeze.take_if(|(at, _)| *at <= now) {
            self.inner.freeze(time);
        }
        if let Some(counters) = &self.counters {
            self.windows.extract_if(.., |at| *at <= now).for_each(|_| counters.next_window());
        }
        if now >= self.stop_at {
            self.stop.store(true, Ordering::Relaxed);
            if let Some(counters) = &self.counters {
                counters.abandon.store(self.interrupts, Ordering::Relaxed);
            }
        }
        self.inner.turn(wait, done)
    }

    fn in_flight(&self) -> usize {
        self.inner.in_flight()
    }

    fn now(&self) -> Instant {
        self.inner.now()
    }

    fn method(&self) -> String {
        self.inner.method()
    }
}

/// One write at a time, as a log is written.
fn log(every: u32) -> AccessStart {
    let sync = Some(WriteSync { method: SyncMethod::Data, every });
    AccessStart { queue_depth: 1, sync, ..plan(AccessOrder::Sequential, 0.0) }
}

#[test]
fn a_write_is_over_when_its_sync_is() {
    let slow_flush = Duration::from_millis(5);
    for (every, syncs) in [(1, 256), (10, 25), (1000, 0)] {
        let mut queue = fake(1, vec![0; FILE], Faults { slow_flush, ..Faults::default() });
        let (outcome, _) = run_on(&mut queue, log(every));
        let SyncTally { alone, with_write } = &outcome.syncs;
        assert!(outcome.whole && outcome.writes.operations == 256, "{outcome:?}");
        assert_eq!((alone.operations, with_write.bytes), (syncs, syncs * TRANSFER as u64));
        let least = |tally: &AccessTally| Duration::from_nanos(tally.latency.min());
        assert!(syncs == 0 || least(alone) >= slow_flush && least(with_write) > least(alone));
        // A write without a sync of its own waits for none.
        assert_eq!(every == 1, least(&outcome.writes) > slow_flush, "{every}");
        assert!(queue.submitted.len() == 256 && outcome.mean_depth > 0.9, "{}", outcome.mean_depth);
    }
}

#[test]
fn a_sync_that_fails_ends_the_log_and_is_named() {
    let mut queue = fake(1, vec![0; FILE], Faults { flush_errors: 1000, ..Faults::default() });
    let (outcome, _) = run_on(&mut queue, log(3));
    let [error] = &outcome.errors[..] else { panic!("{:?}", outcome.errors) };
    assert!(error.why.starts_with("fdatasync: ") && error.errno == Some(Errno::IO), "{error:?}");
    assert_eq!((error.offset, outcome.writes.operations, outcome.whole), (2 * TRANSFER as u64, 2, false));
    assert_eq!(queue.submitted.len(), 3, "nothing is written after it");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn every_nth_write_of_a_worker_is_synced(seed: u64, depth in 1..=8usize, every in 1..=9u32, reads: bool) {
        let share = if reads { 0.5 } else { 0.0 };
        let start = AccessStart { queue_depth: depth, read_share: share, stamp: None, ..log(every) };
        let faults = Faults { short: 200, late: 50, ..Faults::default() };
        let (outcome, counters) = run_on(&mut fake(seed, vec![0; FILE], faults), start);
        prop_assert!(outcome.whole, "{:?}", outcome.errors);
        let (reads, writes) = (outcome.reads.operations, outcome.writes.operations);
        prop_assert_eq!((reads + writes, counters.progress.mark().bytes), (256, FILE as u64));
        prop_assert_eq!(outcome.syncs.alone.operations, writes / u64::from(every));
        prop_assert_eq!(outcome.writes.latency.len(), writes);
    }
}

/// How users come to ask.
#[derive(Clone, Copy, Debug)]
enum Users {
    Closed,
    /// So much of what the device can do, on schedule or held.
    Open(f64),
    Held(f64),
}

fn users() -> impl Strategy<Value = Users> {
    prop_oneof![
        Just(Users::Closed),
        (0.05..0.8f64).prop_map(Users::Open),
        (0.05..2.0f64).prop_map(Users::Held)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Little's law: rate × mean latency of a window are the requests under way, whether the device takes all of
    /// them or fewer than the users ask.
    #[test]
    fn rate_times_latency_is_what_is_under_way(
        seed: u64, depth in 1..=12usize, room in 1..=12usize, short in 0..200u32, users in users(),
    ) {
        // What came short is asked for once more.
        let mean_service = 150e-6 * (1.0 + f64::from(short) / 1000.0);
        let capacity = depth.min(room) as f64 / mean_service;
        let pace = match users {
            Users::Closed => Pace::Closed,
            Users::Open(share) => Pace::Open { requests_per_second: share * capacity },
            Users::Held(share) => Pace::Held { bytes_per_second: share * capacity * 512.0 },
        };
        let share = match users { Users::Open(share) | Users::Held(share) => share.min(1.0), Users::Closed => 1.0 };
        let window = 100.0 * depth as f64 / (capacity * share);
        let warm = Duration::from_secs_f64(window / 5.0);
        let walk = Walk::new(vec![Area::whole(0, 0, 8 * 512)], AccessOrder::Random, 512, 1).expect("room");
        let start = AccessStart {
            walk, transfer_bytes: 512, queue_depth: depth, pace, amount_bytes: None, stamp: None, fsync_at_end: false,
            ..plan(AccessOrder::Random, 1.0)
        };
        let faults = Faults { room, short, ..Faults::default() };
        let end = warm + Duration::from_secs_f64(window);
        let mut queue = Scripted::new(fake(seed, vec![0; 8 * 512], faults), end);
        queue.windows = vec![warm, end];
        let outcome = queue.run(start);
        let [answered] = outcome.windows[..] else { panic!("{:?}", outcome.windows) };
        let rate = answered.operations as f64 / window;
        let little = rate * answered.latency_nanos as f64 / answered.operations as f64 * 1e-9;
        let under_way = outcome.mean_depth + outcome.mean_waiting;
        // What began before the window or ended after it is one request of a user among a hundred.
        prop_assert!((little / under_way - 1.0).abs() < 0.05, "{little} by latency, {under_way} counted");
        if let Users::Closed = users {
            prop_assert!((little / depth as f64 - 1.0).abs() < 0.05, "{little} of {depth} users");
            prop_assert!(outcome.mean_depth < (room as f64 + 32.0).min(depth as f64 + 0.01));
        }
    }
}

#[test]
fn users_wait_for_a_device_that_is_full() {
    let walk = Walk::new(vec![Area::whole(0, 0, FILE as u64)], AccessOrder::Random, TRANSFER as u64, 1);
    let start = AccessStart {
        walk: walk.expect("room"),
        queue_depth: 512,
        amount_bytes: None,
        stamp: None,
        ..plan(AccessOrder::Random, 1.0)
    };
    let inner = fake(1, vec![0; FILE], Faults { room: 16, ..Faults::default() });
    let outcome = Scripted::new(inner, Duration::from_secs(1)).run(start);
    // 16 at a time of 150 µs each: 512 users wait for 32 of them.
    let (mean, p99) = (outcome.reads.latency.mean() / 1e9, seconds_at(&outcome.reads.latency, 0.99));
    assert!((mean / 0.0048 - 1.0).abs() < 0.05 && p99 < 1.2 * mean, "{mean} s, {p99} s");
    let counted = outcome.mean_depth + outcome.mean_waiting;
    assert!(outcome.mean_depth < 100.0 && (counted / 512.0 - 1.0).abs() < 0.03, "{outcome:?}");
}

fn open_loop() -> AccessStart {
    AccessStart {
        pace: Pace::Open { requests_per_second: 1000.0 },
        amount_bytes: None,
        queue_depth: 16,
        ..plan(AccessOrder::Random, 1.0)
    }
}

fn seconds_at(histogram: &hdrhistogram::Histogram<u64>, quantile: f64) -> f64 {
    histogram.value_at_quantile(quantile) as f64 / 1e9
}

#[test]
fn a_stalled_device_is_paid_by_all_that_it_held_up() {
    let start = open_loop();
    let stall = Some(Duration::from_secs(4)..Duration::from_secs(6));
    let inner = fake(1, written(), Faults { stall, ..Faults::default() });
    let outcome = Scripted::new(inner, Duration::from_secs(10)).run(start);
    assert!((9990..=10_010).contains(&outcome.reads.operations), "{}", outcome.reads.operations);
    let latency = &outcome.reads.latency;
    let (p50, p99) = (seconds_at(latency, 0.5), seconds_at(latency, 0.99));
    assert!(p50 < 0.001 && p99 > 1.5 && latency.max() < 2_100_000_000, "{p50} s and {p99} s");
    assert!(seconds_at(&outcome.lateness, 0.99) > 1.5, "with 16 in flight, the others waited");
}

#[test]
fn a_frozen_process_pays_too() {
    let start = open_loop();
    let mut queue = Scripted::new(fake(1, written(), Faults::default()), Duration::from_secs(10));
    queue.freeze = Some((Duration::from_secs(3), Duration::from_secs(2)));
    let outcome = queue.run(start);
    assert!((9990..=10_010).contains(&outcome.reads.operations), "{}", outcome.reads.operations);
    assert!(seconds_at(&outcome.reads.latency, 0.99) > 1.5);
    assert!(seconds_at(&outcome.lateness, 0.99) > 1.5);
    assert!(seconds_at(&outcome.lateness, 0.5) < 0.001);
}

#[test]
fn what_was_never_sent_was_late() {
    let start = open_loop();
    let stall = Some(Duration::from_secs(1)..Duration::from_secs(100));
    let inner = fake(1, written(), Faults { stall, ..Faults::default() });
    let outcome = Scripted::new(inner, Duration::from_secs(5)).run(start);
    assert!(seconds_at(&outcome.lateness, 0.99) > 3.5, "though none of them was sent");
}

#[test]
fn a_limit_is_even_in_every_window() {
    let limit = 8.0 * 1024.0 * 1024.0;
    let start = AccessStart {
        pace: Pace::Held { bytes_per_second: limit },
        amount_bytes: None,
        ..plan(AccessOrder::Sequential, 0.5)
    };
    let mut queue = Scripted::new(fake(1, written(), Faults::default()), Duration::from_secs(5));
    queue.freeze = Some((Duration::from_secs(2), Duration::from_millis(700)));
    queue.run(start);
    let sends = &queue.inner.submitted;
    let window = Duration::from_millis(100);
    let share = limit * window.as_secs_f64();
    for (index, (from, _)) in sends.iter().enumerate() {
        let within = sends[index..].iter().take_while(|(at, _)| *at < *from + window);
        let bytes: usize = within.map(|(_, bytes)| bytes).sum();
        assert!((bytes as f64) < share * 1.06 + TRANSFER as f64, "{bytes} bytes from {from:?} on");
    }
    let all: usize = sends.iter().map(|(_, bytes)| bytes).sum();
    let expected = limit * 4.3;
    assert!((all as f64 / expected - 1.0).abs() < 0.02, "{all} bytes, not {expected}");
}

#[test]
fn a_mix_keeps_its_share() {
    let start = AccessStart { amount_bytes: Some(4000 * TRANSFER as u64), ..plan(AccessOrder::Random, 0.7) };
    let mut queue = fake(9, written(), Faults::default());
    let (outcome, _) = run_on(&mut queue, start);
    let share = outcome.reads.operations as f64 / 4000.0;
    assert!((share - 0.7).abs() < 0.04, "{share}");
    assert_eq!(outcome.writes.operations, 4000 - outcome.reads.operations);
}

#[test]
fn each_engine_writes_and_reads_a_real_file() {
    let content = written();
    for (engine, io_uring) in
        [(Engine::IoUring, true), (Engine::IoUring, false), (Engine::Psync, true), (Engine::Mmap, true)]
    {
        let file = tempfile::tempfile().expect("a temporary file");
        for read_share in [0.0, 1.0] {
            let mut plan = plan(AccessOrder::Sequential, read_share);
            plan.files[0].file = Arc::new(file.try_clone().expect("the same file"));
            let plan = AccessStart { engine, io_uring, ..plan };
            let counters = Arc::new(AccessCounters::new(plan.begin));
            let running = start(plan, Arc::clone(&counters), Arc::default()).expect("a thread");
            let outcome = running.join().expect("a worker");
            assert!(outcome.whole && outcome.corrupt.is_empty(), "{outcome:?}");
            let bytes = outcome.reads.bytes + outcome.writes.bytes;
            assert_eq!((bytes, counters.progress.mark().bytes), (FILE as u64, FILE as u64), "{engine:?}");
            assert!(counters.ended.load(Ordering::Acquire));
        }
        let mut got = vec![0; FILE];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut got, 0).expect("read");
        assert!(got == content, "{engine:?} wrote something else");
    }
}
