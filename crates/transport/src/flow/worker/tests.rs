//! A worker on a source and a sink that fail, come late and come short.

use super::super::rate_limit::RateLimit;
use super::super::source::Cursor;
use super::super::udp::PathFacts;
use super::*;
use linerate_system::Errno;
use linerate_system::queue::fake::{FakeQueue, Faults};
use linerate_system::segmentation::Segmentation;
use proptest::prelude::*;
use std::sync::Arc;

const BLOCK: usize = 4096;
const BLOCKS: u64 = 10;

/// The file: each place differs from its neighbours.
fn content() -> Vec<u8> {
    (0..BLOCKS * BLOCK as u64).map(|offset| (offset * 31 + (offset >> 12)) as u8).collect()
}

/// Over TCP without a copy.
fn worker<'a>(source: &'a Source, counters: &'a WorkerCounters, stop: &'a AtomicBool) -> Worker<'a> {
    Worker {
        source,
        sink: Sink::Tcp,
        block_bytes: BLOCK,
        depth: 4,
        verify: false,
        patience: Duration::from_secs(1),
        rate_limit: None,
        zero_copy: true,
        counters,
        stop,
    }
}

fn run_on_fake(
    seed: u64,
    faults: Faults,
    sink: Sink,
    turns: u64,
) -> (Result<(), WorkerError>, FakeQueue, WorkerCounters, usize) {
    run_with(seed, faults, sink, turns, Duration::from_millis(300), false)
}

/// Over TCP without a copy.
fn run_zero_copy(
    seed: u64,
    faults: Faults,
    turns: u64,
) -> (Result<(), WorkerError>, FakeQueue, WorkerCounters, usize) {
    run_with(seed, faults, Sink::Tcp, turns, Duration::from_millis(300), true)
}

fn run_with(
    seed: u64,
    faults: Faults,
    sink: Sink,
    turns: u64,
    patience: Duration,
    zero_copy: bool,
) -> (Result<(), WorkerError>, FakeQueue, WorkerCounters, usize) {
    let cursor = Arc::new(Cursor::new(BLOCKS * BLOCK as u64, BLOCK as u64));
    let file = tempfile::tempfile().expect("a temporary file");
    let source = Source::File { file, cursor: Arc::clone(&cursor), label: "fake".into() };
    let counters = WorkerCounters::new(Instant::now());
    let stop = Arc::new(AtomicBool::new(false));
    // The file, and the socket behind it.
    let mut fake = FakeQueue::new(seed, vec![content(), Vec::new()], faults);
    let mut pool = Pool::new(4, BLOCK).expect("a pool");
    let stopper = {
        let (stop, cursor) = (Arc::clone(&stop), Arc::clone(&cursor));
        std::thread::spawn(move || {
            let patience = Instant::now() + Duration::from_secs(3);
            let enough = || cursor.rounds() * BLOCKS as f64 >= turns as f64 || stop.load(Ordering::Relaxed);
            while !enough() && Instant::now() < patience {
                std::thread::sleep(Duration::from_micros(200));
            }
            stop.store(true, Ordering::Relaxed);
        })
    };
    let worker = Worker { sink, verify: true, patience, zero_copy, ..worker(&source, &counters, &stop) };
    let result = worker.run(&mut fake, &mut pool);
    stop.store(true, Ordering::Relaxed);
    stopper.join().expect("the stopper");
    let free = pool.free();
    (result, fake, counters, free)
}

/// What the fake sent is the file from its start, over and over, without a gap: in order, whatever the
/// completions' order.
fn assert_stream_is_the_file(fake: &FakeQueue) {
    let sent: Vec<u8> = fake.sent.iter().flat_map(|(_, bytes)| bytes).copied().collect();
    for (round, bytes) in sent.chunks(content().len()).enumerate() {
        assert!(bytes == &content()[..bytes.len()], "round {round}");
    }
}

fn assert_sent_is_counted(fake: &FakeQueue, counters: &WorkerCounters) {
    let sent: usize = fake.sent.iter().map(|(_, bytes)| bytes.len()).sum();
    assert_eq!(counters.progress.mark().bytes, sent as u64);
    let mut digest = linerate_sums::Crc::new(linerate_sums::CrcAlgorithm::Crc64Nvme);
    fake.sent.iter().for_each(|(_, bytes)| digest.update(bytes));
    assert_eq!(counters.checksum.load(Ordering::Relaxed), digest.finalize());
}

fn assert_all_is_sent<T>(result: &Result<T, WorkerError>, fake: &FakeQueue, counters: &WorkerCounters) {
    assert!(result.is_ok());
    assert_stream_is_the_file(fake);
    assert_sent_is_counted(fake, counters);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn blocks_leave_in_order_whatever_the_completions_do(seed: u64, late in 0u32..300) {
        let faults = Faults { late, ..Faults::default() };
        let (result, fake, counters, _) = run_on_fake(seed, faults, Sink::Tcp, 50);
        assert_all_is_sent(&result, &fake, &counters);
    }

    #[test]
    fn a_read_error_ends_the_worker_and_names_the_source(seed: u64) {
        let faults = Faults { read_errors: 200, ..Faults::default() };
        let (result, fake, _, free) = run_on_fake(seed, faults, Sink::Null { reads: false }, 500);
        prop_assert!(matches!(result, Err(WorkerError::Source { ref what, .. }) if what == "fake"), "{result:?}");
        prop_assert_eq!(fake.in_flight(), 0);
        prop_assert_eq!(free, 4);
    }

    #[test]
    fn what_the_kernel_did_not_take_goes_out_next(seed: u64) {
        let faults = Faults { short_sends: 500, late: 100, ..Faults::default() };
        let (result, fake, counters, _) = run_on_fake(seed, faults, Sink::Tcp, 50);
        assert_all_is_sent(&result, &fake, &counters);
        prop_assert!(counters.whole.load(Ordering::Relaxed));
    }

    /// Blocks come back late, and part of some sends is not taken: still the file in its order, and each block back.
    #[test]
    fn without_a_copy_blocks_leave_in_order_and_all_come_back(
        seed: u64, late in 0u32..300, late_notices in 0u32..500, short_sends in 0u32..300,
    ) {
        let faults = Faults { late, late_notices, short_sends, ..Faults::default() };
        let (result, fake, counters, free) = run_zero_copy(seed, faults, 50);
        assert_all_is_sent(&result, &fake, &counters);
        prop_assert!(counters.whole.load(Ordering::Relaxed));
        prop_assert!(counters.zero_copy_sends.load(Ordering::Relaxed) > 0);
        // Those that the next reads were asked into are not free.
        prop_assert!(free <= 4 && fake.in_flight() == 0);
    }

    /// Late, never and twice: a block is read into again only after the notification of its own send.
    #[test]
    fn no_block_is_used_again_before_its_own_notification(
        seed: u64, late in 0u32..300, late_notices in 0u32..500, lost_notices in 0u32..20, doubled_notices in 1u32..600,
    ) {
        let faults = Faults { late, late_notices, lost_notices, doubled_notices, ..Faults::default() };
        let (result, fake, counters, _) = run_zero_copy(seed, faults, 200);
        prop_assert!(matches!(result, Ok(()) | Err(WorkerError::Stalled { .. })), "{result:?}");
        prop_assert_eq!(fake.used_too_early, 0);
        assert_stream_is_the_file(&fake);
        assert_sent_is_counted(&fake, &counters);
        let unexpected = counters.unexpected_completions.load(Ordering::Relaxed);
        prop_assert_eq!(unexpected, fake.zero_copy_sends().unexpected);
        // A request's notification is awaited, however often another's comes.
        prop_assert!(doubled_notices < 300 || fake.sent.len() < 50 || unexpected > 0, "{}", fake.sent.len());
    }

    /// A copy does instead, from the block that was refused on.
    #[test]
    fn where_sends_without_a_copy_are_refused_they_are_copied(seed: u64, late in 0u32..300) {
        let faults = Faults { zero_copy_refused: true, late, ..Faults::default() };
        let (result, fake, counters, _) = run_zero_copy(seed, faults, 50);
        assert_all_is_sent(&result, &fake, &counters);
        prop_assert!(counters.zero_copy_refused.load(Ordering::Relaxed));
        prop_assert_eq!(counters.zero_copy_sends.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_connection_that_is_reset_ends_a_send_without_a_copy(seed: u64) {
        let faults = Faults { send_errors: 100, late_notices: 300, ..Faults::default() };
        let (result, fake, ..) = run_zero_copy(seed, faults, 1000);
        prop_assert!(matches!(result, Err(WorkerError::Sink { .. })), "{result:?}");
        assert_stream_is_the_file(&fake);
    }

    #[test]
    fn short_reads_are_counted_as_what_they_were(seed: u64) {
        let faults = Faults { short: 300, ..Faults::default() };
        let (result, fake, counters, _) = run_on_fake(seed, faults, Sink::Tcp, 50);
        prop_assert!(result.is_ok(), "{result:?}");
        let sent: usize = fake.sent.iter().map(|(_, bytes)| bytes.len()).sum();
        prop_assert_eq!(counters.progress.mark().bytes, sent as u64);
    }
}

#[test]
fn a_lost_completion_is_a_stall_not_a_hang() {
    let faults = Faults { lost: 1000, ..Faults::default() };
    let (result, _, counters, _) = run_on_fake(1, faults, Sink::Null { reads: false }, 1000);
    assert!(matches!(result, Err(WorkerError::Stalled { .. })), "{result:?}");
    assert!(!counters.whole.load(Ordering::Relaxed));
}

/// The device that keeps all blocks is on the way to the peer, and what it took is counted.
#[test]
fn blocks_that_never_come_back_are_a_stall_of_the_peer() {
    let faults = Faults { lost_notices: 1000, ..Faults::default() };
    let (result, fake, counters, _) = run_zero_copy(1, faults, 1000);
    let peer = |what: &str| what.contains("the peer");
    assert!(matches!(result, Err(WorkerError::Stalled { ref what, .. }) if peer(what)), "{result:?}");
    assert_eq!((fake.sent.len(), fake.in_flight()), (4, 4));
    assert_sent_is_counted(&fake, &counters);
    assert!(counters.whole.load(Ordering::Relaxed), "nothing that went out is missing in the count");
    let waited = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    assert!(
        waited(&counters.waiting_sink_nanos) > 10 * waited(&counters.waiting_source_nanos),
        "{counters:?}"
    );
}

/// Of eight blocks so many are lent and so many being read, nothing is ready: the reads that could not be asked for are
/// the sink's fault.
#[test]
fn a_wait_with_most_blocks_lent_is_the_sinks() {
    let part = |depth, lent, reading| {
        let cursor = Arc::new(Cursor::new(BLOCKS * BLOCK as u64, BLOCK as u64));
        let file = tempfile::tempfile().expect("a temporary file");
        let source = Source::File { file, cursor, label: "fake".into() };
        let (counters, stop) = (WorkerCounters::new(Instant::now()), AtomicBool::new(false));
        let faults = Faults { lost: 1000, ..Faults::default() };
        let mut queue = FakeQueue::new(1, vec![content(), Vec::new()], faults);
        let mut pool = Pool::new(8, BLOCK).expect("a pool");
        let worker = Worker { depth, ..worker(&source, &counters, &stop) };
        let mut state = LoopState::new(&worker, &queue, &pool);
        let mut work = worker.begin(&mut queue, &mut pool, &mut state);
        for number in 0..lent {
            let lease = work.pool.take().expect("a block");
            let action = Action::Send { train_bytes: 0, zero_copy: true };
            work.state.lent.add(lease.number());
            assert_eq!(lease.number(), number);
            work.queue.submit(lease, Transfer { action, file: 1, offset: 0, from: 0, length: BLOCK });
        }
        let most = work.worker.depth;
        work.worker.depth = most.min(reading);
        work.ask_for_blocks();
        work.worker.depth = most;
        assert_eq!(work.reading(), reading);
        work.part_of_sink()
    };
    assert_eq!(part(8, 8, 0), 1.0, "all are lent");
    assert_eq!(part(8, 7, 1), 0.875, "one read is not a full depth");
    assert_eq!(part(8, 2, 6), 0.25);
    assert_eq!(part(4, 4, 4), 0.0, "as many reads as are wanted");
    assert_eq!(part(8, 0, 8), 0.0, "nothing is lent");
    assert_eq!(part(4, 2, 4), 0.0, "there are free blocks, too");
}

/// For five seconds of its own clock.
#[test]
fn a_device_that_stalls_goes_on_unless_patience_ends() {
    let stall = Some(Duration::from_millis(5)..Duration::from_millis(5005));
    let run = |patience| {
        let faults = Faults { stall: stall.clone(), ..Faults::default() };
        run_with(3, faults, Sink::Null { reads: false }, 500, Duration::from_secs(patience), false)
    };
    let (result, _, counters, _) = run(6);
    assert!(result.is_ok(), "{result:?}");
    assert!(counters.progress.mark().bytes >= 490 * BLOCK as u64, "{counters:?}");
    let waited = Duration::from_nanos(counters.waiting_source_nanos.load(Ordering::Relaxed));
    assert!(waited >= Duration::from_millis(4900), "the wait is the source's: {waited:?}");
    let (result, ..) = run(4);
    assert!(matches!(result, Err(WorkerError::Stalled { ref what, .. }) if what == "fake"), "{result:?}");
}

#[test]
fn a_failed_send_ends_the_worker() {
    let faults = Faults { send_errors: 1000, ..Faults::default() };
    let (result, ..) = run_on_fake(1, faults, Sink::Tcp, 1000);
    assert!(matches!(result, Err(WorkerError::Sink { ref why, .. }) if why.contains("agent")), "{result:?}");
}

/// Trains to a NIC that cannot cut them, a full queue, a datagram larger than the MTU.
#[test]
fn a_refused_train_ends_the_worker_only_where_nothing_else_helps() {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let segmentation = Segmentation::new(&socket, 1000, 8);
    let path = PathFacts { receiver_buffer_bytes: 1 << 20, trip: Duration::from_micros(100) };
    let mut sink = Sink::Udp(Box::new(UdpSender::over(socket, [7; 32], segmentation, path)));
    let mut refuse = |errno: Errno| sink.go_on_after(errno.into()).map_err(sink_error);
    assert!(matches!(refuse(Errno::NOBUFS), Ok(0)), "a moment later it has room");
    if segmentation.is_on() {
        assert!(matches!(refuse(Errno::IO), Ok(0)), "single datagrams may pass");
    }
    let why = refuse(Errno::MSGSIZE).expect_err("too large, and alone").to_string();
    assert!(why.contains("--datagram"), "{why}");
    let why = refuse(Errno::CONNREFUSED).expect_err("nobody listens").to_string();
    assert!(why.contains("agent"), "{why}");
    assert!(matches!(&sink, Sink::Udp(udp) if udp.train_bytes() == 1000), "{sink:?}");
}

/// On a device that answers within 0.2 ms, by the queue's own clock: what is read and what is sent keep to the
/// rate in every stretch of time, the first one included, and neither end is blamed for the wait.
#[test]
fn a_rate_limit_is_kept_from_the_first_block_on() {
    const LIMIT: f64 = 20e6;
    for sink in [Sink::Tcp, Sink::Null { reads: false }] {
        let cursor = Arc::new(Cursor::new(BLOCKS * BLOCK as u64, BLOCK as u64));
        let file = tempfile::tempfile().expect("a temporary file");
        let source = Source::File { file, cursor: Arc::clone(&cursor), label: "fake".into() };
        let stop = AtomicBool::new(false);
        let mut fake = FakeQueue::new(7, vec![content(), Vec::new()], Faults::default());
        let limit = RateLimit::new(LIMIT, fake.begin());
        let counters = WorkerCounters::new(fake.begin());
        let mut pool = Pool::new(4, BLOCK).expect("a pool");
        let (patience, rate_limit) = (Duration::from_millis(300), Some(&limit));
        let worker = Worker { sink, patience, rate_limit, ..worker(&source, &counters, &stop) };
        // Its clock does not wait: the seconds of the flow are over in an instant.
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while cursor.rounds() * ((BLOCKS * BLOCK as u64) as f64) < 10e6 {
                    std::thread::yield_now();
                }
                stop.store(true, Ordering::Relaxed);
            });
            worker.run(&mut fake, &mut pool).expect("a run");
        });
        let end = fake.now() - fake.begin();
        let moved = counters.progress.mark().bytes as f64;
        assert!((moved / end.as_secs_f64() / LIMIT - 1.0).abs() < 0.02, "{moved} in {end:?}");
        // Reads and sends are told together: each keeps to the rate.
        let share = if fake.sent.is_empty() { 1.0 } else { 2.0 };
        for window in [Duration::from_millis(50), Duration::from_millis(200)] {
            for (at, (from, _)) in fake.submitted.iter().enumerate().step_by(64) {
                let within = fake.submitted[at..].iter().take_while(|(then, _)| *then < *from + window);
                let bytes: usize = within.map(|(_, bytes)| bytes).sum();
                let most = share * LIMIT * (window + Duration::from_millis(22)).as_secs_f64();
                assert!(bytes as f64 <= most, "{bytes} bytes in {window:?} from {from:?}");
            }
        }
        let waited = counters.waiting_source_nanos.load(Ordering::Relaxed)
            + counters.waiting_sink_nanos.load(Ordering::Relaxed);
        assert!((waited as f64) < 0.2 * end.as_nanos() as f64, "{waited} ns of {end:?}");
    }
}
