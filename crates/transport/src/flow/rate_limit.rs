//! The most that may move in a second: an [`Allowance`] is one rate, a [`RateLimit`] two of them, for what all workers of a
//! flow together read and send.
//!
//! What was moved beyond a rate is a debt, which time pays off. An allowance is the leaky bucket of ITU-T I.371 as virtual
//! scheduling (GCRA): it keeps the one moment until which everything moved so far has been paid. Any number of threads
//! charge it without a lock while another one sets its rate.
//!
//! Under a limit a read is charged when it is asked for, a send when it is handed to the kernel. Both allowances have the
//! same rate, so that neither end is flooded, not even at the start, when reads could run ahead.

use linerate_system::clock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// No debt lasts longer: a gigabyte at once under a limit of a megabit per second would else stop a flow for hours.
pub(crate) const LONGEST_DEBT: Duration = Duration::from_secs(30);
/// What a sleeper who reads by an allowance may catch up.
pub(crate) const CATCH_UP: Duration = Duration::from_millis(20);
/// Shorter sleeps cost more than they hold back: the debt of the next block is slept with it.
const SHORTEST_SLEEP: Duration = Duration::from_micros(200);
/// A send under a limit lasts this long at the rate.
const PIECE: Duration = Duration::from_micros(500);
/// Smaller sends cost more than they smooth.
const LEAST_PIECE_BYTES: usize = 64 << 10;

/// A rate, and what was moved beyond it.
#[derive(Debug)]
pub struct Allowance {
    /// Bytes per second, the bits of an `f64`.
    rate: AtomicU64,
    start: Instant,
    /// Nanoseconds by which payment may lie in the past.
    credit: u64,
    /// Nanoseconds since `start` until which all is paid.
    paid_until: AtomicU64,
    /// Nanoseconds since `start` from which on nothing more is allowed.
    closes: AtomicU64,
}

impl Allowance {
    /// Nothing is owed yet. Less than a byte a second counts as one.
    pub fn new(bytes_per_second: f64, start: Instant) -> Self {
        Allowance {
            rate: AtomicU64::new(bytes_per_second.max(1.0).to_bits()),
            start,
            credit: 0,
            paid_until: AtomicU64::new(0),
            closes: AtomicU64::new(u64::MAX),
        }
    }

    /// One that allows nothing until [`Allowance::open`] says so, and in which all that was missed since then may be
    /// caught up.
    pub(crate) fn closed(start: Instant) -> Self {
        let credit = LONGEST_DEBT;
        Allowance { closes: AtomicU64::new(0), ..Allowance::new(1.0, start).with_credit(credit) }
    }

    /// Allows this rate from `begin` to `end`, and nothing before or after.
    pub(crate) fn open(&self, bytes_per_second: f64, begin: Instant, end: Instant) {
        // Closed meanwhile, so that nobody pays the new price for the time before.
        self.closes.store(0, Ordering::Release);
        self.rate.store(bytes_per_second.max(1.0).to_bits(), Ordering::Release);
        self.paid_until.store(self.nanos(begin), Ordering::Release);
        self.closes.store(self.nanos(end), Ordering::Release);
    }

    /// What is open closes at `end` instead.
    pub(crate) fn close_at(&self, end: Instant) {
        self.closes.store(self.nanos(end), Ordering::Release);
    }

    /// Who keeps to it by sleeping wakes up late each time: so much of the time that it did not use is not
    /// lost to it.
    pub(crate) fn with_credit(mut self, credit: Duration) -> Self {
        self.credit = clock::nanos(credit);
        self
    }

    /// Bytes per second.
    pub fn bytes_per_second(&self) -> f64 {
        f64::from_bits(self.rate.load(Ordering::Acquire))
    }

    /// So much was moved, by `now`. Gives the time in which all of it will be paid.
    pub fn charge(&self, bytes: u64, now: Instant) -> Duration {
        let now = self.nanos(now);
        let most = now.saturating_add(clock::nanos(LONGEST_DEBT));
        // `as` saturates.
        let price = (bytes as f64 / self.bytes_per_second() * 1e9) as u64;
        let since = now.saturating_sub(self.credit);
        let charged = |paid: u64| paid.max(since).saturating_add(price).min(most.max(paid));
        let before = self
            .paid_until
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |paid| Some(charged(paid)))
            .unwrap_or_else(|paid| paid);
        Duration::from_nanos(charged(before).saturating_sub(now))
    }

    /// Time until everything is paid; zero: nothing is owed. The longest of all, where nothing is allowed any more.
    pub(crate) fn debt(&self, now: Instant) -> Duration {
        if self.nanos(now) >= self.closes.load(Ordering::Acquire) {
            return LONGEST_DEBT;
        }
        Duration::from_nanos(self.paid_until.load(Ordering::Acquire).saturating_sub(self.nanos(now)))
    }

    /// Rests until nothing is owed; `rest` sleeps for a while and says whether it is over.
    pub(crate) fn sleep_off(&self, rest: impl Fn(Duration) -> bool) {
        loop {
            let debt = self.debt(clock::now());
            if debt < SHORTEST_SLEEP || rest(debt) {
                return;
            }
        }
    }

    fn nanos(&self, now: Instant) -> u64 {
        clock::nanos(now.saturating_duration_since(self.start))
    }
}

/// What all workers of a flow together may read and send.
#[derive(Debug)]
pub struct RateLimit {
    reads: Allowance,
    sends: Allowance,
}

impl RateLimit {
    /// Bytes per second of each direction, from `start` on.
    pub fn new(bytes_per_second: f64, start: Instant) -> Self {
        let allowance = || Allowance::new(bytes_per_second, start).with_credit(CATCH_UP);
        RateLimit { reads: allowance(), sends: allowance() }
    }

    /// Allows nothing, but in the times that [`RateLimit::open`] names.
    pub fn closed(start: Instant) -> Self {
        RateLimit { reads: Allowance::closed(start), sends: Allowance::closed(start) }
    }

    /// Allows this rate from `begin` to `end`, with what was missed since `begin`.
    pub fn open(&self, bytes_per_second: f64, begin: Instant, end: Instant) {
        self.reads.open(bytes_per_second, begin, end);
        self.sends.open(bytes_per_second, begin, end);
    }

    /// What is open closes at `end` instead.
    pub(crate) fn close_at(&self, end: Instant) {
        self.reads.close_at(end);
        self.sends.close_at(end);
    }

    /// Bytes per second.
    pub fn bytes_per_second(&self) -> f64 {
        self.reads.bytes_per_second()
    }

    /// Bytes of a send.
    pub(crate) fn piece_bytes(&self) -> usize {
        ((self.bytes_per_second() * PIECE.as_secs_f64()) as usize).max(LEAST_PIECE_BYTES)
    }

    /// How long until the next read may be asked for; none: now.
    pub(crate) fn next_read(&self, now: Instant) -> Option<Duration> {
        Some(self.reads.debt(now)).filter(|debt| *debt >= SHORTEST_SLEEP)
    }

    /// How long until the next send may go out; none: now.
    pub(crate) fn next_send(&self, now: Instant) -> Option<Duration> {
        Some(self.sends.debt(now)).filter(|debt| *debt >= SHORTEST_SLEEP)
    }

    /// So much was asked for.
    pub(crate) fn charge_read(&self, bytes: usize, now: Instant) {
        self.reads.charge(bytes as u64, now);
    }

    /// So much was handed over.
    pub(crate) fn charge_send(&self, bytes: usize, now: Instant) {
        self.sends.charge(bytes as u64, now);
    }

    /// For bytes that others than the workers move. Waits until earlier bytes are paid, then charges these; `rest` sleeps
    /// for a while and says whether it is over.
    pub fn pay(&self, bytes: u64, rest: impl Fn(Duration) -> bool) {
        self.reads.sleep_off(rest);
        self.reads.charge(bytes, clock::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_system::stop::Stop;
    use proptest::prelude::*;

    #[test]
    fn time_pays_and_no_credit_is_saved() {
        let start = Instant::now();
        let allowance = Allowance::new(1000.0, start);
        let at = |millis| start + Duration::from_millis(millis);
        assert_eq!(allowance.charge(500, at(0)), Duration::from_millis(500));
        assert_eq!(allowance.debt(at(200)), Duration::from_millis(300));
        assert_eq!(allowance.charge(100, at(200)), Duration::from_millis(400));
        assert_eq!(allowance.debt(at(600)), Duration::ZERO);
        // A quiet hour gives no right to a burst.
        assert_eq!(allowance.charge(1000, at(3_600_000)), Duration::from_secs(1));
    }

    #[test]
    fn a_late_sleeper_keeps_the_rate_and_a_long_one_loses_the_rest() {
        let start = Instant::now();
        let allowance = Allowance::new(1e6, start).with_credit(Duration::from_millis(20));
        let (mut now, mut moved) = (start, 0);
        while now < start + Duration::from_secs(1) {
            moved += 1000;
            allowance.charge(1000, now);
            // Three milliseconds late each time.
            now += allowance.debt(now) + Duration::from_millis(3);
            while allowance.debt(now).is_zero() && now < start + Duration::from_secs(1) {
                moved += 1000;
                allowance.charge(1000, now);
            }
        }
        assert!((980_000..=1_024_000).contains(&moved), "{moved}");
        let later = now + Duration::from_secs(60);
        assert_eq!(allowance.charge(50_000, later), Duration::from_millis(30));
    }

    #[test]
    fn a_debt_ends() {
        let start = Instant::now();
        let allowance = Allowance::new(0.0, start);
        assert_eq!(allowance.charge(u64::MAX, start), LONGEST_DEBT);
        assert_eq!(allowance.charge(u64::MAX, start + LONGEST_DEBT / 2), LONGEST_DEBT);
        assert_eq!(allowance.debt(start + LONGEST_DEBT * 2), Duration::ZERO);
    }

    #[test]
    fn a_sleeper_wakes_for_the_end() {
        let (allowance, stop) = (Allowance::new(1.0, Instant::now()), Stop::new());
        allowance.charge(1000, Instant::now());
        let began = Instant::now();
        std::thread::scope(|scope| {
            let asleep = scope.spawn(|| allowance.sleep_off(|time| stop.wait(time)));
            std::thread::sleep(Duration::from_millis(60));
            assert!(!asleep.is_finished());
            stop.end();
        });
        assert!(began.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn what_opens_for_a_time_lets_its_rate_by_from_its_begin_to_its_end() {
        let start = Instant::now();
        let allowance = Allowance::closed(start);
        let at = |millis| start + Duration::from_millis(millis);
        assert_eq!(allowance.debt(at(0)), LONGEST_DEBT);
        allowance.open(1000.0, at(100), at(500));
        assert_eq!(allowance.debt(at(40)), Duration::from_millis(60), "a sleeper wakes for the begin");
        // Who comes 200 ms late catches up.
        assert_eq!(allowance.charge(200, at(300)), Duration::ZERO);
        assert_eq!(allowance.debt(at(300)), Duration::ZERO);
        assert_eq!(allowance.charge(100, at(300)), Duration::from_millis(100));
        assert_eq!(allowance.debt(at(500)), LONGEST_DEBT);
        allowance.open(2000.0, at(700), at(900));
        assert_eq!(
            allowance.charge(100, at(700)),
            Duration::from_millis(50),
            "no credit from the time before"
        );
    }

    proptest! {
        /// Who waits out each debt of more than `tolerance` moves, in any time, no more than its rate × (time
        /// + tolerance + credit) and one block.
        #[test]
        fn anyone_who_pays_before_going_on_keeps_the_rate(
            rate in 1.0e3..1e10f64,
            steps in prop::collection::vec((0u64..1 << 20, 0u64..50_000), 1..200),
            (tolerance_millis, credit_millis) in (0u64..500, 0u64..100),
        ) {
            let (start, credit) = (Instant::now(), Duration::from_millis(credit_millis));
            let tolerance = Duration::from_millis(tolerance_millis);
            let allowance = Allowance::new(rate, start).with_credit(credit);
            let (mut now, mut moved, mut largest) = (start, 0u64, 0u64);
            for (bytes, idle_micros) in steps {
                now += Duration::from_micros(idle_micros);
                now += allowance.debt(now).saturating_sub(tolerance);
                // Beyond the longest debt the rest is forgiven.
                let bytes = bytes.min((rate * 20.0) as u64);
                allowance.charge(bytes, now);
                moved += bytes;
                largest = largest.max(bytes);
                let time = now.duration_since(start) + tolerance + credit;
                let most = rate * time.as_secs_f64() + largest as f64;
                prop_assert!(moved as f64 <= most * (1.0 + 1e-6) + 1.0, "{moved} of {most}");
            }
        }

        /// A debt neither grows by waiting nor is lost by asking, whatever the order of threads.
        #[test]
        fn a_debt_is_what_was_moved_less_what_was_paid(bytes in prop::collection::vec(0u64..1 << 30, 1..20), millis in 0u64..1000) {
            let start = Instant::now();
            let allowance = Allowance::new(1e9, start);
            for bytes in &bytes {
                allowance.charge(*bytes, start);
            }
            let owed = Duration::from_nanos(bytes.iter().sum()).min(LONGEST_DEBT);
            let later = Duration::from_millis(millis);
            let left = allowance.debt(start + later);
            let expected = owed.saturating_sub(later);
            prop_assert!(left.abs_diff(expected) < Duration::from_micros(1), "{left:?} {expected:?}");
        }
    }
}
