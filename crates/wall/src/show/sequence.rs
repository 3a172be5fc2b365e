//! The account of a stream by its sequence numbers: what is lost, what came late, what came twice.
//!
//! RFC 4175 numbers datagrams with 32 bits. Two stock senders (GStreamer's and ffmpeg's) leave the upper half
//! at 0, so that their numbers wrap after 65,536; a sender that was started again begins anywhere. Both are
//! believed only when a second datagram says the same (as RFC 3550, appendix A.1, has it): a single stray
//! number costs no account.

use linerate_transport::flow::stream::account::{Account, Came, WINDOW};

/// So many before the first one that came may still come, late.
const BEFORE: u64 = 1 << 10;
/// A step back of nearly a whole 16-bit circle with the same upper half: a sender that leaves it alone has
/// wrapped.
const WRAP: i64 = 1 << 12;
/// Two datagrams so near to each other say the same.
const NEAR: u32 = 64;
/// So many in a row that seem to be duplicates are a sender that began again a little further back.
const ANEW: u64 = 512;

/// The account of one stream.
#[derive(Debug, Default)]
pub(crate) struct Sequence {
    account: Account,
    /// The highest sequence number, and the number in `account` that it has.
    highest: Option<(u32, u64)>,
    /// Of the `BEFORE` numbers before the first one: those that never came. Nobody knows whether they were
    /// sent.
    before: u64,
    /// The sender leaves the upper half alone.
    narrow: bool,
    /// One that does not fit: the next one tells whether it was a stray.
    doubtful: Option<u32>,
    /// The last duplicate, and how many in a row came before it, each following the one before.
    row: (u32, u64),
    /// What was counted before the sender began again.
    earlier: Counts,
    strays: u64,
    restarts: u64,
    deepest: u64,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Arrived, without duplicates.
    pub datagrams: u64,
    pub lost: u64,
    pub reordered: u64,
    pub doubled: u64,
}

impl Sequence {
    /// A datagram with this number came; false: it is a duplicate.
    #[inline]
    pub(crate) fn take(&mut self, sequence: u32) -> bool {
        if self.highest.is_none() {
            self.begin(sequence);
            return true;
        }
        if let Some(doubtful) = self.doubtful.take() {
            self.settle(doubtful, sequence);
        }
        if self.fits(sequence) {
            return self.enter(sequence);
        }
        self.doubtful = Some(sequence);
        true
    }

    /// It is not a stray, no wrap of a narrow sender and no new beginning.
    fn fits(&self, sequence: u32) -> bool {
        let Some((highest, _)) = self.highest else { return true };
        let same_half = sequence >> 16 == highest >> 16;
        let wide = i64::from(sequence.wrapping_sub(highest).cast_signed());
        match self.narrow {
            true => same_half,
            false => wide.unsigned_abs() <= WINDOW && !(same_half && wide < WRAP - (1 << 16)),
        }
    }

    /// Its number in the account, which counts on from the highest.
    fn number(&self, sequence: u32) -> Option<u64> {
        let (highest, number) = self.highest?;
        let distance = match self.narrow {
            true => i64::from((sequence as u16).wrapping_sub(highest as u16).cast_signed()),
            false => i64::from(sequence.wrapping_sub(highest).cast_signed()),
        };
        number.checked_add_signed(distance)
    }

    fn enter(&mut self, sequence: u32) -> bool {
        let Some(number) = self.number(sequence) else {
            self.strays += 1;
            return false;
        };
        let came = self.account.take(number);
        match came {
            Came::InOrder => self.highest = Some((sequence, number)),
            Came::Late => {
                self.before -= u64::from(number < BEFORE);
                let highest = self.highest.map_or(number, |(_, highest)| highest);
                self.deepest = self.deepest.max(highest.saturating_sub(number));
            }
            Came::Duplicate => return self.again(sequence),
        }
        self.row.1 = 0;
        true
    }

    /// A duplicate, unless so many come in a row that it must be a new beginning.
    fn again(&mut self, sequence: u32) -> bool {
        let (last, length) = self.row;
        self.row = (sequence, if sequence == last.wrapping_add(1) { length + 1 } else { 1 });
        if self.row.1 < ANEW {
            return false;
        }
        let mistaken = self.row.1;
        self.begin_anew(sequence);
        // They were not duplicates.
        self.earlier.doubled -= mistaken;
        self.earlier.datagrams += mistaken - 1;
        true
    }

    /// Whether a number that did not fit was the first of several.
    fn settle(&mut self, doubtful: u32, sequence: u32) {
        let step = sequence.wrapping_sub(doubtful).cast_signed().unsigned_abs();
        if sequence == doubtful || step > NEAR {
            self.strays += 1;
            return;
        }
        let Some((highest, _)) = self.highest else { return };
        let ahead = (doubtful as u16).wrapping_sub(highest as u16).cast_signed();
        if !self.narrow && doubtful >> 16 == highest >> 16 && ahead > 0 {
            self.narrow = true;
            self.enter(doubtful);
        } else {
            self.begin_anew(doubtful);
        }
    }

    fn begin(&mut self, sequence: u32) {
        self.account.finish(BEFORE);
        self.account.take(BEFORE);
        self.before = BEFORE;
        self.highest = Some((sequence, BEFORE));
        self.narrow = false;
        self.row = (sequence, 0);
    }

    fn begin_anew(&mut self, sequence: u32) {
        self.earlier = Counts { doubled: self.counts().doubled - self.strays, ..self.counts() };
        self.account = Account::default();
        self.restarts += 1;
        self.begin(sequence);
    }

    /// What was counted until now.
    pub(crate) fn counts(&self) -> Counts {
        let Sequence { account, earlier, .. } = self;
        Counts {
            datagrams: earlier.datagrams + account.received() - account.duplicated(),
            lost: earlier.lost + account.lost() - self.before,
            reordered: earlier.reordered + account.reordered(),
            doubled: earlier.doubled + account.duplicated() + self.strays,
        }
    }

    /// How many numbers the latest of all that came was behind the newest.
    pub(crate) fn reorder_depth(&self) -> u64 {
        self.deepest
    }

    /// How often the sender began again.
    pub(crate) fn restarts(&self) -> u64 {
        self.restarts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn counts(numbers: impl IntoIterator<Item = u32>) -> (Counts, u64) {
        let mut sequence = Sequence::default();
        for number in numbers {
            sequence.take(number);
        }
        (sequence.counts(), sequence.restarts())
    }

    #[test]
    fn numbers_wrap_at_32_bits_and_at_16() {
        let clean = |datagrams| (Counts { datagrams, ..Counts::default() }, 0);
        assert_eq!(counts((0..200_000).map(|n| 0xffff_0000u32.wrapping_add(n))), clean(200_000));
        // GStreamer and ffmpeg: the upper half stays.
        assert_eq!(counts((0..200_000u32).map(|n| 60_000u32.wrapping_add(n) & 0xffff)), clean(200_000));
        // With one lost right at the wrap, and the next two in the wrong order.
        let lossy = (0..200_000u32).filter(|n| *n != 5_536).map(|n| (60_000 + n) & 0xffff);
        assert_eq!(counts(lossy).0, Counts { datagrams: 199_999, lost: 1, ..Counts::default() });
        let swapped = (0..10_000u32).map(|n| (60_000 + if n & !1 == 5_536 { n ^ 1 } else { n }) & 0xffff);
        assert_eq!(counts(swapped).0, Counts { datagrams: 10_000, reordered: 1, ..Counts::default() });
    }

    #[test]
    fn a_sender_that_restarts_has_lost_nothing_and_a_stray_moves_nothing() {
        let (counted, restarts) = counts((5_000_000..5_001_000).chain(7..1_007));
        assert_eq!((counted, restarts), (Counts { datagrams: 2_000, ..Counts::default() }, 1));
        let (counted, restarts) = counts((0..1_000).chain([0x8000_0000]).chain(1_000..2_000));
        assert_eq!((counted, restarts), (Counts { datagrams: 2_000, doubled: 1, ..Counts::default() }, 0));
        // A little further back: told apart from duplicates by their number.
        let (counted, restarts) = counts((0..5_000).chain(0..5_000));
        assert_eq!((counted.lost, counted.datagrams + counted.doubled, restarts), (0, 10_000, 1));
        assert_eq!(counted.doubled, 0, "{counted:?}");
    }

    #[test]
    fn what_comes_before_the_first_one_is_late_not_lost() {
        let (counted, _) = counts([10, 8, 9, 11, 8]);
        assert_eq!(counted, Counts { datagrams: 4, lost: 0, reordered: 2, doubled: 1 });
    }

    #[test]
    fn the_depth_is_that_of_the_latest_one() {
        let depth = |numbers: &[u32]| {
            let mut sequence = Sequence::default();
            numbers.iter().for_each(|number| {
                sequence.take(*number);
            });
            sequence.reorder_depth()
        };
        assert_eq!(depth(&[1, 2, 3, 4]), 0);
        assert_eq!(depth(&[1, 3, 2, 7, 5, 6]), 2);
        assert_eq!(depth(&[u32::MAX, 4, 0, 1]), 4, "over the end of the numbers");
        assert_eq!(depth(&[1, 2, 3, 1]), 0, "a duplicate is not late");
    }

    proptest! {
        #[test]
        fn agrees_with_a_set(start: u32, shifts in prop::collection::vec((0u32..40, 0u8..10), 1..400)) {
            // Some are put off, some doubled, some dropped.
            let mut arriving: Vec<(u32, u32)> = Vec::new();
            for (index, (shift, fate)) in (0u32..).zip(&shifts) {
                let copies = match fate { 0 => 0, 1 => 2, _ => 1 };
                (0..copies).for_each(|copy| arriving.push((index + if *fate < 4 { shift + copy } else { 0 }, index)));
            }
            arriving.sort();
            let (mut sequence, mut seen, mut highest, mut late) = (Sequence::default(), HashSet::new(), None, 0);
            for (_, index) in &arriving {
                let new = seen.insert(*index);
                prop_assert_eq!(sequence.take(start.wrapping_add(*index)), new);
                late += u64::from(new && highest.is_some_and(|highest| highest > *index));
                highest = highest.max(Some(*index));
            }
            let counted = sequence.counts();
            // Between the first that came and the highest; what was before the first is not loss.
            let first = arriving.first().map_or(0, |first| first.1);
            let span = highest.map_or(0, |highest| u64::from(highest - first) + 1);
            let within = seen.iter().filter(|index| **index >= first).count() as u64;
            prop_assert_eq!(counted.lost, span - within);
            prop_assert_eq!((counted.datagrams, counted.reordered), (seen.len() as u64, late));
            prop_assert_eq!(counted.doubled, (arriving.len() - seen.len()) as u64);
        }

        #[test]
        fn whatever_comes_all_is_counted(numbers in prop::collection::vec(prop_oneof![any::<u32>(), 0u32..200, 65_000u32..66_000], 0..300)) {
            let (counted, _) = counts(numbers.iter().copied());
            // One may still be in doubt.
            let all = counted.datagrams + counted.doubled;
            prop_assert!(all == numbers.len() as u64 || all + 1 == numbers.len() as u64);
        }
    }
}
