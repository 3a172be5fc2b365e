//! The clock of the whole program: every reading and every sleep of product code goes through it. A test puts a
//! simulated one in its place, for its thread; the program itself has none of that code.

use std::time::{Duration, Instant, SystemTime};

/// A thread looks this often at what cannot wake it: at once for a user, and no load on a CPU.
pub const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Monotonic: CLOCK_MONOTONIC, which does not count a suspended machine.
#[inline]
pub fn now() -> Instant {
    #[cfg(any(test, feature = "testing"))]
    if let Some(now) = simulated::now() {
        return now;
    }
    Instant::now()
}

/// Zero where that moment is still to come.
#[inline]
pub fn since(moment: Instant) -> Duration {
    now().saturating_duration_since(moment)
}

/// Nanoseconds; the most that there are of a longer time.
pub fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// What a calendar shows; it may be set while the program runs, and jump.
pub fn date() -> SystemTime {
    #[cfg(any(test, feature = "testing"))]
    if let Some(date) = simulated::date() {
        return date;
    }
    SystemTime::now()
}

/// Sleeps at least so long, and no stop ends it: what may be stopped waits otherwise.
pub fn sleep(duration: Duration) {
    #[cfg(any(test, feature = "testing"))]
    if simulated::sleep(duration) {
        return;
    }
    std::thread::sleep(duration);
}

/// Time that passes only where a test says so.
#[cfg(any(test, feature = "testing"))]
pub mod simulated {
    use std::cell::RefCell;
    use std::sync::{Arc, Mutex};
    use std::time::{Duration, Instant, SystemTime};

    thread_local! {
        static OF_THIS_THREAD: RefCell<Option<SimulatedClock>> = const { RefCell::new(None) };
    }

    /// Threads that share it have the same time; a thread that sleeps lets it pass at once.
    #[derive(Clone)]
    pub struct SimulatedClock {
        begun: Instant,
        date: SystemTime,
        passed: Arc<Mutex<Duration>>,
    }

    impl SimulatedClock {
        /// One that stands still at the real time.
        pub fn new() -> Self {
            SimulatedClock { begun: Instant::now(), date: SystemTime::now(), passed: Arc::default() }
        }

        /// Lets time pass.
        pub fn advance(&self, duration: Duration) {
            *crate::lock(&self.passed) += duration;
        }

        /// What has passed since it was made.
        pub fn passed(&self) -> Duration {
            *crate::lock(&self.passed)
        }

        /// Makes it the clock of this thread, as long as the guard lives.
        #[must_use]
        pub fn enter(&self) -> Entered {
            Entered { before: OF_THIS_THREAD.replace(Some(self.clone())) }
        }
    }

    impl Default for SimulatedClock {
        fn default() -> Self {
            SimulatedClock::new()
        }
    }

    /// The clock before it comes back with its end.
    pub struct Entered {
        before: Option<SimulatedClock>,
    }

    impl Drop for Entered {
        fn drop(&mut self) {
            OF_THIS_THREAD.set(self.before.take());
        }
    }

    pub(super) fn now() -> Option<Instant> {
        OF_THIS_THREAD.with_borrow(|clock| clock.as_ref().map(|clock| clock.begun + clock.passed()))
    }

    pub(super) fn date() -> Option<SystemTime> {
        OF_THIS_THREAD.with_borrow(|clock| clock.as_ref().map(|clock| clock.date + clock.passed()))
    }

    /// Whether there is a simulated one; then the time has passed.
    pub(crate) fn sleep(duration: Duration) -> bool {
        OF_THIS_THREAD.with_borrow(|clock| clock.as_ref().map(|clock| clock.advance(duration)).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::simulated::SimulatedClock;
    use super::{date, now, since, sleep};
    use std::time::{Duration, Instant};

    #[test]
    fn simulated_time_passes_by_sleeping_and_only_for_its_threads() {
        let (clock, hour) = (SimulatedClock::new(), Duration::from_secs(3600));
        let (begun, began) = (now(), Instant::now());
        {
            let _entered = clock.enter();
            let (moment, day) = (now(), date());
            sleep(hour);
            assert_eq!(since(moment), hour);
            assert_eq!(date().duration_since(day).expect("a later date"), hour);
            let other = clock.clone();
            let times = std::thread::spawn(move || {
                let alone = now();
                let _entered = other.enter();
                other.advance(hour);
                (alone, now())
            });
            let (alone, shared) = times.join().expect("a time");
            assert!(alone < moment + hour && shared == moment + 2 * hour);
        }
        assert!(since(begun) < hour && began.elapsed() < hour, "the real clock again");
        assert_eq!(since(Instant::now() + hour), Duration::ZERO, "a moment to come");
    }
}
