//! How much came, or went, in short windows of the beginning, with how many streams. The first stream begins alone: what one
//! gets beside what many get each is how a limit of each connection shows, and a shared one does not.

use linerate_model::verdict::ArrivalCount;
use linerate_system::{clock, lock};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A window is at least so long, and ends as bytes come: one that ends as the number of streams changes says nothing, for
/// they may come in large steps.
const WINDOW: Duration = Duration::from_millis(50);
/// Windows that are kept.
const MOST_WINDOWS: usize = 64;
// The first stream is alone for so long after its first bytes, and for so many windows, which are longer where it is
// looked less often; or until so much came: what is that fast needs no others to be judged.
const ALONE: Duration = Duration::from_millis(150);
const ALONE_WINDOWS: usize = 3;
pub(crate) const ALONE_BYTES: u64 = 4 << 20;
/// The others wait no longer than this for the first to begin.
const MOST_WAIT: Duration = Duration::from_secs(1);
/// Fewer bytes are not begun by one stream alone, nor files of fewer on the average: those are a matter of requests.
const LEAST_BYTES: u64 = 16 << 20;
const LEAST_FILE_BYTES: u64 = 128 << 10;

/// So many files of together so many bytes take long enough to see what one stream gets alone.
pub(crate) fn shows_one_alone(files: usize, bytes: u64) -> bool {
    bytes >= LEAST_BYTES && bytes / (files.max(1) as u64) >= LEAST_FILE_BYTES
}

/// Of one transfer.
pub(crate) struct StreamWindows {
    born: Instant,
    /// The others may begin.
    is_open: AtomicBool,
    /// What came so far.
    bytes: AtomicU64,
    /// When the present window is long enough, nanoseconds after the start; the end of time: none is kept any more.
    closes: AtomicU64,
    state: Mutex<WindowState>,
}

#[derive(Default)]
struct WindowState {
    streams: u32,
    window_start_nanos: u64,
    bytes_before: u64,
    /// When the first stream began.
    first: Option<u64>,
    windows: Vec<ArrivalCount>,
}

impl StreamWindows {
    /// `alone`: the first stream begins before the others.
    pub(crate) fn new(alone: bool) -> Self {
        let windows = Vec::with_capacity(MOST_WINDOWS);
        StreamWindows {
            born: clock::now(),
            is_open: AtomicBool::new(!alone),
            bytes: AtomicU64::new(0),
            closes: AtomicU64::new(u64::MAX),
            state: Mutex::new(WindowState { windows, ..WindowState::default() }),
        }
    }

    fn now(&self) -> u64 {
        clock::nanos(clock::since(self.born))
    }

    /// One stream more moves bytes, until it has nothing more to do.
    pub(crate) fn stream_started(&self) {
        self.close_window(false, |state, now| {
            state.streams += 1;
            state.first.get_or_insert(now);
        });
    }

    pub(crate) fn stream_ended(&self) {
        self.close_window(false, |state, _| state.streams = state.streams.saturating_sub(1));
        self.let_others_start();
    }

    pub(crate) fn let_others_start(&self) {
        self.is_open.store(true, Ordering::Release);
    }

    /// So much came.
    pub(crate) fn add_bytes(&self, bytes: u64) {
        let bytes = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if bytes >= ALONE_BYTES && !self.is_open.load(Ordering::Relaxed) {
            self.let_others_start();
        }
        if self.now() >= self.closes.load(Ordering::Relaxed) {
            self.close_window(true, |_, _| ());
        }
    }

    /// The present window ends, and another begins.
    fn close_window(&self, is_step: bool, change: impl FnOnce(&mut WindowState, u64)) {
        let mut state = lock(&self.state);
        let (now, bytes) = (self.now(), self.bytes.load(Ordering::Relaxed));
        let seconds = now.saturating_sub(state.window_start_nanos) as f64 * 1e-9;
        // Another stream's step may have ended it meanwhile.
        let is_whole = is_step && seconds >= WINDOW.as_secs_f64();
        if is_whole && state.streams > 0 && state.windows.len() < MOST_WINDOWS {
            let (streams, bytes) = (state.streams, bytes - state.bytes_before);
            state.windows.push(ArrivalCount { streams, seconds, bytes });
        }
        (state.window_start_nanos, state.bytes_before) = (now, bytes);
        change(&mut state, now);
        let is_kept = state.streams > 0 && state.windows.len() < MOST_WINDOWS;
        let closes = if is_kept { now.saturating_add(clock::nanos(WINDOW)) } else { u64::MAX };
        self.closes.store(closes, Ordering::Relaxed);
        let is_long = state.first.is_some_and(|first| now >= first.saturating_add(clock::nanos(ALONE)));
        if is_long && state.windows.len() >= ALONE_WINDOWS {
            self.let_others_start();
        }
    }

    /// Until streams beside the first may begin; `rests` waits a moment, and says whether all is over.
    pub(crate) fn wait_for_first(&self, rests: impl Fn() -> bool) {
        while !self.is_open.load(Ordering::Acquire) && clock::since(self.born) < MOST_WAIT {
            if rests() {
                return;
            }
        }
    }

    /// What was seen so far, in its order.
    pub(crate) fn windows(&self) -> Vec<ArrivalCount> {
        lock(&self.state).windows.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_system::clock::simulated::SimulatedClock;

    #[test]
    fn windows_have_one_number_of_streams_and_end_with_their_time() {
        let clock = SimulatedClock::new();
        let _entered = clock.enter();
        let windows = StreamWindows::new(true);
        let come = |millis: u64, bytes: u64| {
            clock.advance(Duration::from_millis(millis));
            windows.add_bytes(bytes);
        };
        clock.advance(Duration::from_millis(300));
        windows.stream_started();
        (0..14).for_each(|_| come(10, 100));
        assert!(!windows.is_open.load(Ordering::Relaxed), "140 ms");
        (0..2).for_each(|_| come(10, 100));
        assert!(windows.is_open.load(Ordering::Relaxed), "160 ms");
        // What is left of the fourth window is too short to say anything.
        windows.stream_started();
        (0..5).for_each(|_| come(10, 200));
        windows.stream_ended();
        windows.stream_ended();
        come(500, 100);
        let shown: Vec<_> = windows.windows().iter().map(|window| (window.streams, window.bytes)).collect();
        assert_eq!(shown, [(1, 500), (1, 500), (1, 500), (2, 1000)]);
        assert!(windows.windows().iter().all(|window| (window.seconds - 0.05).abs() < 1e-9));
    }

    #[test]
    fn what_is_fast_or_over_lets_the_others_begin() {
        let fast = StreamWindows::new(true);
        fast.stream_started();
        fast.add_bytes(ALONE_BYTES);
        assert!(fast.is_open.load(Ordering::Relaxed));
        let over = StreamWindows::new(true);
        over.stream_started();
        over.stream_ended();
        assert!(
            over.is_open.load(Ordering::Relaxed) && StreamWindows::new(false).is_open.load(Ordering::Relaxed)
        );
    }

    #[test]
    fn no_more_windows_are_kept_than_a_judgement_needs() {
        let clock = SimulatedClock::new();
        let _entered = clock.enter();
        let windows = StreamWindows::new(false);
        windows.stream_started();
        for _ in 0..2 * MOST_WINDOWS {
            clock.advance(WINDOW);
            windows.add_bytes(1);
        }
        assert_eq!(windows.windows().len(), MOST_WINDOWS);
        assert_eq!(windows.closes.load(Ordering::Relaxed), u64::MAX);
    }
}
