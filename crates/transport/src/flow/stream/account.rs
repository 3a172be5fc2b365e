//! The receiver's account of numbered datagrams: which are missing, which came late, which came twice; and how
//! evenly they come, as interarrival jitter (RFC 3550) and the spread of their one-way delay (RFC 5481).
//!
//! What counts is kept exact: `sent = received − duplicated + lost` once the number sent is known (`finish`).
//! A bit a number of the last `WINDOW` says whether it is missing; where none of them is, which is nearly
//! always, a datagram costs a comparison and an addition.
//!
//! For delays the two hosts' clocks need not agree: only differences of (arrival − sending) are used. A train
//! of datagrams is handed to the kernel at once and comes at once, so it is one sample: its datagrams would
//! show each other no delay at all and hide that between trains.

use std::time::{Duration, Instant, SystemTime};

/// How far back a datagram may come late and still be told from a duplicate. Older ones count as duplicates,
/// so that the sum holds.
pub const WINDOW: u64 = 1 << 18;
const WORDS: usize = (WINDOW / 64) as usize;

/// What a datagram was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    /// The next, or one after a gap.
    InOrder,
    /// After one with a higher number: reordered as RFC 4737 counts it (type-P-reordered: its number is less
    /// than the next expected).
    Late,
    /// It had come before, or so long ago that nobody can tell.
    Duplicate,
}

/// The account of one stream.
#[derive(Debug)]
pub struct Account {
    /// The number that is expected next: the highest that came, plus one.
    next: u64,
    /// One bit for each of the last `WINDOW` numbers before `next`: it is missing.
    missing: Box<[u64]>,
    /// How many of those bits are set.
    missing_bits: u64,
    received: u64,
    lost: u64,
    reordered: u64,
    duplicated: u64,
}

impl Default for Account {
    /// Nothing came yet; the first number is 0.
    fn default() -> Self {
        Account {
            next: 0,
            missing: vec![0; WORDS].into_boxed_slice(),
            missing_bits: 0,
            received: 0,
            lost: 0,
            reordered: 0,
            duplicated: 0,
        }
    }
}

impl Account {
    /// A datagram with this number came. Numbers are below 2^63 (`datagram::MOST_DATAGRAMS`).
    #[inline]
    pub fn take(&mut self, number: u64) -> Came {
        self.received += 1;
        if number == self.next && self.missing_bits == 0 {
            self.next += 1;
            return Came::InOrder;
        }
        self.take_out_of_order(number)
    }

    fn take_out_of_order(&mut self, number: u64) -> Came {
        if number >= self.next {
            self.miss_until(number);
            self.forget(number);
            self.next = number + 1;
            return Came::InOrder;
        }
        let (word, bit) = word_and_bit(number);
        if number + WINDOW >= self.next && self.missing[word] & bit != 0 {
            self.missing[word] &= !bit;
            self.missing_bits -= 1;
            self.lost -= 1;
            self.reordered += 1;
            return Came::Late;
        }
        self.duplicated += 1;
        Came::Duplicate
    }

    /// All numbers from `next` up to `number` are missing.
    fn miss_until(&mut self, number: u64) {
        let gap = number - self.next;
        self.lost += gap;
        if gap >= WINDOW {
            self.missing.fill(u64::MAX);
            self.missing_bits = WINDOW;
        } else {
            for missed in self.next..number {
                let (word, bit) = word_and_bit(missed);
                self.missing_bits += u64::from(self.missing[word] & bit == 0);
                self.missing[word] |= bit;
            }
        }
        self.next = number;
    }

    /// The place of a number that comes now may still say that the one a window before it is missing: it
    /// stays lost.
    fn forget(&mut self, number: u64) {
        let (word, bit) = word_and_bit(number);
        self.missing_bits -= u64::from(self.missing[word] & bit != 0);
        self.missing[word] &= !bit;
    }

    /// The sender sent so many in all: those that never came are lost. Late ones may still be taken
    /// afterwards.
    pub fn finish(&mut self, sent: u64) {
        if sent > self.next {
            self.miss_until(sent);
        }
    }

    /// Every number below this one came or is counted as lost.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Datagrams that came, doubles too.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Datagrams that are missing as of now.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Datagrams that came after one with a higher number.
    pub fn reordered(&self) -> u64 {
        self.reordered
    }

    /// Datagrams that came again.
    pub fn duplicated(&self) -> u64 {
        self.duplicated
    }
}

fn word_and_bit(number: u64) -> (usize, u64) {
    ((number / 64) as usize % WORDS, 1 << (number % 64))
}

/// A datagram that waited longer than this for its receiver was not: the clock was set meanwhile.
const LONGEST_HOLD: Duration = Duration::from_secs(10);

/// The account of one stream.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Delays {
    last_transit: Option<i128>,
    jitter: f64,
    shortest: i128,
    longest: i128,
}

impl Delays {
    /// A train that was sent and came at these times, nanoseconds, each on its own host's clock.
    pub(crate) fn take(&mut self, sent_nanos: u64, arrived_nanos: u64) {
        let transit = i128::from(arrived_nanos) - i128::from(sent_nanos);
        match self.last_transit {
            None => (self.shortest, self.longest) = (transit, transit),
            Some(last) => {
                // RFC 3550, 6.4.1: J += (|D| − J) / 16.
                self.jitter += ((transit - last).unsigned_abs() as f64 - self.jitter) / 16.0;
                self.shortest = self.shortest.min(transit);
                self.longest = self.longest.max(transit);
            }
        }
        self.last_transit = Some(transit);
    }

    /// Interarrival jitter, nanoseconds.
    pub(crate) fn jitter_nanos(&self) -> u64 {
        self.jitter as u64
    }

    /// The longest delay less the shortest, nanoseconds.
    pub(crate) fn variation_nanos(&self) -> u64 {
        u64::try_from(self.longest - self.shortest).unwrap_or(u64::MAX)
    }
}

/// When a train that the kernel took at `arrived` came, on the steady clock that began at `start`,
/// nanoseconds. The kernel stamps by the clock of the day, which may be set at any time; so only how long the
/// train has waited is taken from it.
pub(crate) fn arrival_nanos(
    start: Instant,
    now: Instant,
    clock: SystemTime,
    arrived: Option<SystemTime>,
) -> u64 {
    let hold_time = arrived.and_then(|arrived| clock.duration_since(arrived).ok()).unwrap_or_default();
    let hold_time = if hold_time > LONGEST_HOLD { Duration::ZERO } else { hold_time };
    u64::try_from(now.saturating_duration_since(start).saturating_sub(hold_time).as_nanos())
        .unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    /// The same by a set of all numbers: slow, plain, without a window.
    #[derive(Default)]
    struct Naive {
        seen: HashSet<u64>,
        next: u64,
        reordered: u64,
        duplicated: u64,
    }

    impl Naive {
        fn take(&mut self, number: u64) -> Came {
            if !self.seen.insert(number) {
                self.duplicated += 1;
                return Came::Duplicate;
            }
            let late = number < self.next;
            self.next = self.next.max(number + 1);
            self.reordered += u64::from(late);
            if late { Came::Late } else { Came::InOrder }
        }

        fn lost(&self) -> u64 {
            self.next - self.seen.len() as u64
        }
    }

    /// What a bad network makes of numbers 0..sent: some lost, some doubled, some put off.
    fn mangle(sent: u64, dice: &[(u8, u8)]) -> Vec<u64> {
        let mut arriving: Vec<(u64, u64)> = Vec::new();
        for number in 0..sent {
            let (fate, far) = dice[number as usize % dice.len()];
            let late = u64::from(far) * 8;
            match fate {
                0..20 => {}
                20..40 => arriving.extend([(number * 8, number), (number * 8 + late, number)]),
                40..70 => arriving.push((number * 8 + late, number)),
                _ => arriving.push((number * 8, number)),
            }
        }
        arriving.sort_by_key(|(due, _)| *due);
        arriving.into_iter().map(|(_, number)| number).collect()
    }

    proptest! {
        #[test]
        fn agrees_with_a_set_of_all_numbers(sent in 1u64..3000, dice in proptest::collection::vec(any::<(u8, u8)>(), 1..300)) {
            let (mut account, mut naive) = (Account::default(), Naive::default());
            for number in mangle(sent, &dice) {
                prop_assert_eq!(account.take(number), naive.take(number), "{}", number);
                prop_assert_eq!(account.lost(), naive.lost());
            }
            prop_assert_eq!((account.reordered(), account.duplicated()), (naive.reordered, naive.duplicated));
            account.finish(sent);
            prop_assert_eq!(account.received() - account.duplicated() + account.lost(), sent);
            prop_assert_eq!(account.lost(), sent - naive.seen.len() as u64);
        }

        /// Gaps as large as the window and beyond: only the sum is certain then.
        #[test]
        fn the_sum_holds_whatever_comes(numbers in proptest::collection::vec((0u64..5, 0u64..WINDOW), 1..60)) {
            let mut account = Account::default();
            for (windows, rest) in &numbers {
                account.take(windows * WINDOW + rest);
                prop_assert_eq!(account.received() - account.duplicated() + account.lost(), account.next());
            }
            let bits: u64 = account.missing.iter().map(|word| u64::from(word.count_ones())).sum();
            prop_assert_eq!(bits, account.missing_bits);
            account.finish(6 * WINDOW);
            prop_assert_eq!(account.received() - account.duplicated() + account.lost(), 6 * WINDOW);
        }
    }

    #[test]
    fn a_gap_slides_out_of_the_window_and_stays_lost() {
        let mut account = Account::default();
        account.take(5);
        assert_eq!((account.lost(), account.take(3)), (5, Came::Late));
        for number in 6..WINDOW + 10 {
            assert_eq!(account.take(number), Came::InOrder);
        }
        assert_eq!((account.lost(), account.missing_bits), (4, 0));
        assert_eq!(account.take(2), Came::Duplicate, "nobody can tell any more");
        assert_eq!(account.lost(), 4);
    }

    #[test]
    fn an_even_stream_has_no_jitter_whatever_the_clocks() {
        let mut delays = Delays::default();
        for step in 0..1000u64 {
            delays.take(step * 1000, (1 << 60) + step * 1000);
        }
        assert_eq!((delays.jitter_nanos(), delays.variation_nanos()), (0, 0));
    }

    #[test]
    fn every_other_one_late_by_a_millisecond_is_a_jitter_of_one() {
        let mut delays = Delays::default();
        for step in 0..1000u64 {
            delays.take(step * 10_000_000, step * 10_000_000 + (step % 2) * 1_000_000);
        }
        assert!((990_000..=1_000_000).contains(&delays.jitter_nanos()), "{delays:?}");
        assert_eq!(delays.variation_nanos(), 1_000_000);
    }

    #[test]
    fn a_clock_that_jumps_is_no_delay() {
        let (start, clock) = (Instant::now(), SystemTime::now());
        let now = start + Duration::from_millis(5);
        let at = |arrived| arrival_nanos(start, now, clock, Some(arrived));
        assert_eq!(at(clock - Duration::from_millis(2)), 3_000_000);
        assert_eq!(at(clock + Duration::from_secs(3600)), 5_000_000);
        assert_eq!(at(clock - Duration::from_secs(3600)), 5_000_000);
    }

    proptest! {
        #[test]
        fn any_times_will_do(times in proptest::collection::vec(any::<(u64, u64)>(), 0..50)) {
            let mut delays = Delays::default();
            times.iter().for_each(|(sent, arrived)| delays.take(*sent, *arrived));
            let spread = times.iter().map(|(sent, arrived)| i128::from(*arrived) - i128::from(*sent));
            let widest = spread.clone().max().unwrap_or(0) - spread.min().unwrap_or(0);
            prop_assert_eq!(delays.variation_nanos(), u64::try_from(widest).unwrap_or(u64::MAX));
            prop_assert!(u128::from(delays.jitter_nanos()) <= widest.unsigned_abs() + 1);
        }
    }
}
