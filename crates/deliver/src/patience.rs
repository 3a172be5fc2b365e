//! What is tried again, and how long an other end that does next to nothing is waited for: counts and times, no I/O.

use linerate_system::clock;
use std::time::{Duration, Instant};

/// The first wait after a failure; each further one is twice as long, up to the longest.
const WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_millis(1600);
/// A server that is busy all this time is given up.
pub(crate) const BUSY_TIME: Duration = Duration::from_secs(300);
/// It is asked again after this, whatever time it names.
pub(crate) const LONGEST_BUSY_WAIT: Duration = Duration::from_secs(10);
/// A client that has not taken, or sent, so much …
pub(crate) const SLOW_BYTES: u64 = 64 << 10;
/// … in so long a time of waiting for it is given up.
pub(crate) const SLOW_TIME: Duration = Duration::from_secs(30);

/// Before the next try, after so many failures in a row.
pub(crate) fn wait_after(failures: u32) -> Duration {
    #[cfg(test)]
    planted!(NoWait, return Duration::ZERO);
    LONGEST_WAIT.min(WAIT * 2u32.saturating_pow(failures.saturating_sub(1)))
}

/// Before a server is asked again that is busy since then, by its `Retry-After`; none: it is given up.
pub(crate) fn busy_wait(since: Instant, retry_after: Duration) -> Option<Duration> {
    #[cfg(test)]
    planted!(BusyAskedAtOnce, return Some(WAIT));
    // One that names no time at all is not asked as fast as it answers.
    (clock::since(since) < BUSY_TIME).then_some(retry_after.clamp(WAIT, LONGEST_BUSY_WAIT))
}

/// Tries of one thing, until it has failed too often.
pub(crate) struct Retries {
    most_failures: u32,
    /// A server that went away may be so for this time: how fast it starts again is up to its machine, so no try counts.
    /// Nor does one that a busy server answered.
    away_time: Duration,
    /// The try at hand, from 1.
    pub(crate) tries: u32,
    failures: u32,
    away_since: Option<Instant>,
    busy_since: Option<Instant>,
}

impl Retries {
    pub(crate) fn new(most_failures: u32, away_time: Duration) -> Self {
        Retries { most_failures, away_time, tries: 1, failures: 0, away_since: None, busy_since: None }
    }

    /// It failed; `is_away`: nothing answered; `retry_after`: the server is busy, and named this time. How long to wait
    /// before the next try; none: it is given up.
    pub(crate) fn failed(
        &mut self,
        may_pass: bool,
        is_away: bool,
        retry_after: Option<Duration>,
    ) -> Option<Duration> {
        if let Some(retry_after) = retry_after {
            self.tries += 1;
            return busy_wait(*self.busy_since.get_or_insert_with(clock::now), retry_after);
        }
        let is_last = if is_away {
            clock::since(*self.away_since.get_or_insert_with(clock::now)) >= self.away_time
        } else {
            (self.failures, self.away_since, self.busy_since) = (self.failures + 1, None, None);
            self.failures >= self.most_failures
        };
        self.tries += 1;
        #[cfg(test)]
        planted!(EndlessTries, return may_pass.then_some(WAIT));
        (may_pass && !is_last).then(|| wait_after(self.tries - 1))
    }
}

/// For how long next to nothing has come: fewer bytes than these.
pub(crate) struct Quiet {
    least_bytes: u64,
    since: Instant,
    bytes: u64,
}

impl Quiet {
    pub(crate) fn new(least_bytes: u64) -> Self {
        Quiet { least_bytes, since: clock::now(), bytes: 0 }
    }

    pub(crate) fn came(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        #[cfg(test)]
        planted!(EachByteIsProgress, self.bytes = self.least_bytes);
        if self.bytes >= self.least_bytes {
            *self = Quiet::new(self.least_bytes);
        }
    }

    pub(crate) fn time(&self) -> Duration {
        clock::since(self.since)
    }

    /// For this time the other end is not to blame.
    pub(crate) fn excuse(&mut self, time: Duration) {
        self.since += time;
    }
}

/// How long was waited for one answer's client since it took something worth it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Patience {
    waited: Duration,
    taken: u64,
}

impl Patience {
    /// It took these bytes in this time.
    pub(crate) fn took(&mut self, bytes: u64, time: Duration) {
        self.waited += time;
        self.taken += bytes;
        if self.taken >= SLOW_BYTES {
            *self = Patience::default();
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.waited >= SLOW_TIME
    }

    /// Time until it is over, if nothing is taken.
    pub(crate) fn left(&self) -> Duration {
        SLOW_TIME.saturating_sub(self.waited)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_system::clock::simulated::SimulatedClock;

    /// Whether a server was away is said of each try; how many there were, and the time that they took.
    fn tried(most_failures: u32, away_time: Duration, is_away: impl Fn(u32) -> bool) -> (u32, Duration) {
        let clock = SimulatedClock::new();
        let _entered = clock.enter();
        let mut retries = Retries::new(most_failures, away_time);
        while let Some(wait) = retries.failed(true, is_away(retries.tries), None) {
            clock::sleep(wait);
        }
        (retries.tries - 1, clock.passed())
    }

    #[test]
    fn a_server_that_went_away_is_waited_for_by_the_clock_and_one_that_refuses_by_tries() {
        let away_time = Duration::from_secs(30);
        let (tries, passed) = tried(6, away_time, |tries| tries > 1);
        assert!(tries > 16 && passed >= away_time && passed < Duration::from_secs(34), "{tries} {passed:?}");
        assert_eq!(tried(6, away_time, |_| false), (6, Duration::from_millis(100 + 200 + 400 + 800 + 1600)));
        assert_eq!(tried(6, Duration::ZERO, |_| true), (1, Duration::ZERO));
        assert!(Retries::new(6, away_time).failed(false, false, None).is_none(), "it may not pass");
    }

    #[test]
    fn a_client_that_takes_a_little_in_time_is_not_given_up() {
        let mut patience = Patience::default();
        patience.took(SLOW_BYTES - 1, SLOW_TIME - Duration::from_secs(1));
        assert_eq!((patience.is_over(), patience.left()), (false, Duration::from_secs(1)));
        patience.took(1, Duration::from_millis(900));
        assert_eq!(patience.left(), SLOW_TIME, "it took enough");
        patience.took(SLOW_BYTES - 1, SLOW_TIME);
        assert!(patience.is_over());
    }
}
