//! What is taken when: pairs of a mask and its complement, next to each other in random order, so that what drifts
//! falls out of their difference and each slot informs every share. What is taken from CPUs comes and goes slowly: it has
//! slots of its own, so that all others can be short.

use super::record::Timing;
use linerate_facts::random::Random;

/// Pairs of a cycle, at least; and those of CPUs beside them: more where they take twice as long as the others, and so much
/// of the time that all shares become known alike.
const PAIRS: usize = 8;
const PAIRS_OF_CPUS: usize = 2;
const PAIRS_OF_CPUS_BESIDE_SHORT: usize = 4;
/// A mask has 32 bits.
const MOST_COLUMNS: usize = 31;
/// The scheduler needs so long until it has rebalanced threads.
const SETTLING_OF_CPU_MS: u32 = 250;

/// A slot that is to come: it settles, is counted for the window, and then waits for a random time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotPlan {
    /// Who takes, and what is raised: bits in the order of the record's `taken`, then `raised`.
    pub mask: u32,
    pub settling_ms: u32,
    /// Not counted, so that slots cannot lock to a shaper's period.
    pub unused_ms: u32,
}

/// An endless sequence of cycles.
#[derive(Clone, Debug)]
pub struct SlotSchedule {
    timing: Timing,
    columns: Vec<usize>,
    of_cpus: Vec<usize>,
    /// The next slot follows one of the CPUs'.
    follows_cpus: bool,
    random: Random,
}

/// What a cycle is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cycle {
    timing: Timing,
    pub slots: usize,
    pub slots_of_cpus: usize,
}

impl Cycle {
    /// For so many takers and raised settings together, and for so many that take from CPUs.
    pub(super) fn of(timing: Timing, columns: usize, of_cpus: usize) -> Self {
        let pairs = |columns: usize, least: usize| {
            if columns == 0 { 0 } else { (columns + 1).next_power_of_two().max(least) }
        };
        let settling_twice = timing.settling_ms.saturating_mul(2);
        let are_short = timing.window_ms.saturating_add(settling_twice) <= SETTLING_OF_CPU_MS;
        let least_of_cpus = match columns {
            0 => PAIRS,
            _ if are_short => PAIRS_OF_CPUS_BESIDE_SHORT,
            _ => PAIRS_OF_CPUS,
        };
        let slots_of_cpus = 2 * pairs(of_cpus, least_of_cpus);
        Cycle { timing, slots: 2 * pairs(columns, PAIRS) + slots_of_cpus, slots_of_cpus }
    }

    /// Of all its slots in the mean, with what is not counted, in milliseconds.
    pub(super) fn mean_slot_ms(self) -> f64 {
        let timing = &self.timing;
        let of_cpus =
            self.slots_of_cpus + usize::from(self.slots_of_cpus > 0 && self.slots_of_cpus < self.slots);
        let longer = SETTLING_OF_CPU_MS.saturating_sub(timing.settling_ms);
        let slot = f64::from(timing.settling_ms.saturating_add(timing.window_ms))
            + f64::from(most_unused_ms(timing)) / 2.0;
        slot + f64::from(longer) * of_cpus as f64 / self.slots.max(1) as f64
    }
}

/// The longest random wait at the end of a slot.
fn most_unused_ms(timing: &Timing) -> u32 {
    timing.window_ms / 4
}

impl SlotSchedule {
    /// For these places of takers and raised settings, at most 31 of either, and those of takers of CPU time. The same seed
    /// gives the same sequence.
    pub fn new(timing: Timing, mut columns: Vec<usize>, mut of_cpus: Vec<usize>, seed: u64) -> Self {
        columns.truncate(MOST_COLUMNS);
        of_cpus.truncate(MOST_COLUMNS);
        SlotSchedule { timing, columns, of_cpus, follows_cpus: false, random: Random::new(seed) }
    }

    /// The slots until shares may be looked at next: whole pairs, 16 slots for up to 7 columns, and those of CPUs one after
    /// the other.
    pub fn next_cycle(&mut self) -> Vec<SlotPlan> {
        let cycle = Cycle::of(self.timing, self.columns.len(), self.of_cpus.len());
        let mut pairs = self.hadamard(&self.columns.clone(), (cycle.slots - cycle.slots_of_cpus) / 2);
        let pairs_of_cpus = self.hadamard(&self.of_cpus.clone(), cycle.slots_of_cpus / 2);
        let first = self.random.below(pairs.len() as u64 + 1) as usize;
        let places = first..first + pairs_of_cpus.len();
        pairs.splice(first..first, pairs_of_cpus);
        let mut slots = Vec::with_capacity(cycle.slots);
        for (place, mut pair) in pairs.into_iter().enumerate() {
            self.shuffle(&mut pair);
            slots.extend(pair.map(|mask| self.slot(mask, places.contains(&place))));
        }
        slots
    }

    fn slot(&mut self, mask: u32, is_of_cpus: bool) -> SlotPlan {
        let follows_cpus = std::mem::replace(&mut self.follows_cpus, is_of_cpus);
        let least = if is_of_cpus || follows_cpus { SETTLING_OF_CPU_MS } else { 0 };
        SlotPlan {
            mask,
            settling_ms: self.timing.settling_ms.max(least),
            unused_ms: self.random.below(u64::from(most_unused_ms(&self.timing)) + 1) as u32,
        }
    }

    /// Masks by the rows of Sylvester's matrix, and their complements, in random order: each column is on in half of the
    /// rows, each two columns are both on in a quarter of them. Which of the matrix's columns is whose changes every time.
    fn hadamard(&mut self, columns: &[usize], size: usize) -> Vec<[u32; 2]> {
        let mut of_matrix: Vec<u32> = (1..size as u32).collect();
        self.shuffle(&mut of_matrix);
        let bits = |row: u32| {
            let is_on = |(_, of_matrix): &(&usize, &u32)| (row & **of_matrix).count_ones() & 1 == 1;
            columns.iter().zip(&of_matrix).filter(is_on).fold(0, |mask, (column, _)| mask | 1 << column)
        };
        let all = columns.iter().fold(0, |mask, column| mask | 1 << column);
        let mut pairs: Vec<[u32; 2]> = (0..size as u32).map(|row| [bits(row), all & !bits(row)]).collect();
        self.shuffle(&mut pairs);
        pairs
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.random.below(last as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Timing = Timing { settling_ms: 40, window_ms: 60, period_ms: None };

    #[test]
    fn pairs_are_complements_and_columns_are_balanced() {
        for columns in 1..=15 {
            let mut schedule = SlotSchedule::new(SHORT, (0..columns).collect(), Vec::new(), columns as u64);
            for _ in 0..3 {
                let slots = schedule.next_cycle();
                assert_eq!(slots.len(), if columns <= 7 { 16 } else { 32 });
                assert!(slots.chunks(2).all(|pair| pair[0].mask ^ pair[1].mask == (1 << columns) - 1));
                assert!(slots.iter().all(|slot| slot.unused_ms <= 15 && slot.settling_ms == 40));
                let sign = |slot: &SlotPlan, column: usize| 1 - 2 * (slot.mask >> column & 1) as i32;
                for (a, b) in (0..columns).flat_map(|a| (0..a).map(move |b| (a, b))) {
                    assert_eq!(slots.iter().map(|slot| sign(slot, a) * sign(slot, b)).sum::<i32>(), 0);
                }
            }
        }
    }

    #[test]
    fn cpus_have_slots_of_their_own_that_settle_for_longer() {
        let mut schedule = SlotSchedule::new(SHORT, vec![0, 2, 3], vec![1], 3);
        let slots: Vec<SlotPlan> = (0..20).flat_map(|_| schedule.next_cycle()).collect();
        let cycle = Cycle::of(SHORT, 3, 1);
        assert_eq!((slots.len(), cycle.slots_of_cpus), (20 * cycle.slots, 8));
        let long = Timing { settling_ms: 100, window_ms: 400, period_ms: Some(100) };
        assert_eq!(Cycle::of(long, 3, 1).slots_of_cpus, 4);
        let is_of_cpus = |pair: &[SlotPlan]| pair[0].mask | pair[1].mask == 2;
        for pair in slots.chunks(2) {
            let both = (pair[0].mask ^ pair[1].mask, pair[0].mask & pair[1].mask);
            assert_eq!(both, (if is_of_cpus(pair) { 2 } else { 13 }, 0));
            assert!(!is_of_cpus(pair) || pair.iter().all(|slot| slot.settling_ms == 250));
        }
        let pairs: Vec<&[SlotPlan]> = slots.chunks(2).collect();
        for two in pairs.windows(2).filter(|two| !is_of_cpus(two[1])) {
            assert_eq!(two[1][0].settling_ms, if is_of_cpus(two[0]) { 250 } else { 40 });
            assert_eq!(two[1][1].settling_ms, 40);
        }
        let all: u32 = slots.iter().map(|slot| slot.settling_ms).sum();
        let mean = f64::from(all) / slots.len() as f64 + 60.0 + 7.5;
        assert!((cycle.mean_slot_ms() / mean - 1.0).abs() < 0.05, "{mean}");
        let alone = SlotSchedule::new(SHORT, Vec::new(), vec![0], 3).next_cycle();
        assert!(alone.len() == 16 && alone.iter().all(|slot| slot.settling_ms == 250));
        // This host's and the receiver's.
        let both = SlotSchedule::new(long, vec![0], vec![1, 2], 3).next_cycle();
        let of_cpus: Vec<u32> = both.iter().map(|slot| slot.mask & 6).filter(|mask| *mask != 0).collect();
        assert!(both.len() == 24 && [2, 4, 6].iter().all(|mask| of_cpus.contains(mask)), "{of_cpus:?}");
    }

    #[test]
    fn a_seed_repeats_itself() {
        let cycles = |seed| {
            let mut schedule = SlotSchedule::new(SHORT, vec![0, 1, 2, 3], vec![4], seed);
            [schedule.next_cycle(), schedule.next_cycle()]
        };
        let [first, second] = cycles(7);
        assert_eq!(cycles(7), [first.clone(), second.clone()]);
        assert!(first != second && cycles(8)[0] != first);
        assert_eq!(SlotSchedule::new(SHORT, (0..99).collect(), Vec::new(), 1).next_cycle().len(), 64);
    }
}
