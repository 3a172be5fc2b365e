//! What is taken when: pairs of a mask and its complement, next to each other in random order, so that what drifts
//! falls out of their difference and each slot informs every share.

use super::record::Timing;
use linerate_facts::random::Random;

/// Pairs of a cycle, at least.
const PAIRS: usize = 8;
/// A mask has 32 bits.
const MOST_COLUMNS: usize = 31;

/// A slot that is to come: it settles, is counted for the window, and then waits for a random time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotPlan {
    /// Who takes, and what is raised: bits in the order of the record's `taken`, then `raised`.
    pub mask: u32,
    /// Not counted, so that slots cannot lock to a shaper's period.
    pub unused_ms: u32,
}

/// An endless sequence of cycles.
#[derive(Clone, Debug)]
pub struct SlotSchedule {
    timing: Timing,
    columns: usize,
    random: Random,
}

impl SlotSchedule {
    /// For so many takers and raised settings together, at most 31. The same seed gives the same sequence.
    pub fn new(timing: Timing, columns: usize, seed: u64) -> Self {
        SlotSchedule { timing, columns: columns.min(MOST_COLUMNS), random: Random::new(seed) }
    }

    /// The slots until shares may be looked at next: whole pairs, 16 slots for up to 7 columns.
    pub fn next_cycle(&mut self) -> Vec<SlotPlan> {
        let all = (1u32 << self.columns) - 1;
        let mut pairs: Vec<[u32; 2]> = self.hadamard().into_iter().map(|mask| [mask, all & !mask]).collect();
        self.shuffle(&mut pairs);
        let mut slots = Vec::with_capacity(2 * pairs.len());
        for mut pair in pairs {
            self.shuffle(&mut pair);
            let mut unused_ms = || self.random.below(u64::from(most_unused_ms(&self.timing)) + 1) as u32;
            slots.extend(pair.map(|mask| SlotPlan { mask, unused_ms: unused_ms() }));
        }
        slots
    }

    /// Masks by the rows of Sylvester's matrix: each column is on in half of the rows, each two columns are both on in
    /// a quarter of them. Which of the matrix's columns is whose changes with every cycle.
    fn hadamard(&mut self) -> Vec<u32> {
        let size = (self.columns as u32 + 1).next_power_of_two().max(PAIRS as u32);
        let mut columns: Vec<u32> = (1..size).collect();
        self.shuffle(&mut columns);
        let bit = |row: u32, index: usize| ((row & columns[index]).count_ones() & 1) << index;
        (0..size).map(|row| (0..self.columns).map(|index| bit(row, index)).sum()).collect()
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.random.below(last as u64 + 1) as usize);
        }
    }
}

/// The longest random wait at the end of a slot.
fn most_unused_ms(timing: &Timing) -> u32 {
    timing.window_ms / 4
}

/// A slot's length in the mean, with what is not counted.
pub(super) fn mean_slot_ms(timing: &Timing) -> f64 {
    f64::from(timing.settling_ms.saturating_add(timing.window_ms)) + f64::from(most_unused_ms(timing)) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Timing = Timing { settling_ms: 40, window_ms: 60, period_ms: None };

    #[test]
    fn pairs_are_complements_and_columns_are_balanced() {
        for columns in 1..=15 {
            let mut schedule = SlotSchedule::new(SHORT, columns, columns as u64);
            for _ in 0..3 {
                let slots = schedule.next_cycle();
                assert_eq!(slots.len(), if columns <= 7 { 16 } else { 32 });
                assert!(slots.chunks(2).all(|pair| pair[0].mask ^ pair[1].mask == (1 << columns) - 1));
                assert!(slots.iter().all(|slot| slot.unused_ms <= 15));
                let sign = |slot: &SlotPlan, column: usize| 1 - 2 * (slot.mask >> column & 1) as i32;
                for (a, b) in (0..columns).flat_map(|a| (0..a).map(move |b| (a, b))) {
                    assert_eq!(slots.iter().map(|slot| sign(slot, a) * sign(slot, b)).sum::<i32>(), 0);
                }
            }
        }
    }

    #[test]
    fn a_seed_repeats_itself() {
        let cycles = |seed| {
            let mut schedule = SlotSchedule::new(SHORT, 5, seed);
            [schedule.next_cycle(), schedule.next_cycle()]
        };
        let [first, second] = cycles(7);
        assert_eq!(cycles(7), [first.clone(), second.clone()]);
        assert!(first != second && cycles(8)[0] != first);
        assert_eq!(SlotSchedule::new(SHORT, 99, 1).next_cycle().len(), 64);
    }
}
