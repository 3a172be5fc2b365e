//! The figures' mathematics: the median and its spread. With three to five samples nothing finer is honest; ratios of
//! figures that were measured in turns have the median of the means of all pairs (Hodges and Lehmann, "Estimates of
//! Location Based on Rank Tests", 1963), which is as robust and needs two thirds of the rounds.
//!
//! And where the true rate lies, as far as some repeats can tell, and when two rates are said to differ.
//! With 3 to 5 samples Student's t interval of the mean at 95 % (Student, "The Probable Error of a Mean",
//! Biometrika 1908); with 6 and more the interval of the median by order statistics at 95 % and more, which
//! supposes no distribution (Le Boudec, "Performance Evaluation of Computer and Communication Systems", 2010,
//! theorem 2.1). The lowest and the highest of three samples alone would hold the median in 75 % of all cases
//! only. Two rates differ where their intervals do not meet (Georges, Buytaert, Eeckhout, "Statistically
//! Rigorous Java Performance Evaluation", OOPSLA 2007, section 3.3): stricter than a test at 95 %, so that a
//! table of many rows does not invent one.
//!
//! The interval tells of the repeats within one run. What changed between two runs (temperature, a neighbour,
//! a full disk) is not in it.

use serde::Serialize;

/// Fewer samples have no interval.
pub const LEAST_SAMPLES: usize = 3;

/// From this many samples on the order statistics reach 95 %.
const BY_ORDER_FROM: usize = 6;

/// Student's t at 97.5 % for 2, 3 and 4 degrees of freedom.
const STUDENT: [f64; 3] = [4.303, 3.182, 2.776];

/// Half the width of the normal distribution's 95 %, over two: for ranks among many samples.
const NORMAL_HALF: f64 = 0.980;

/// Up to here the ranks are summed exactly.
const EXACT_UP_TO: usize = 70;

/// The median of those that are finite; 0 for none.
pub fn median(samples: &[f64]) -> f64 {
    let finite = samples.iter().copied().filter(|sample| sample.is_finite());
    linerate_model::alike::median(finite).unwrap_or(0.0)
}

/// The median of the means of all pairs, each sample with itself among them; 0 for none.
pub fn middle_of_pairs(samples: &[f64]) -> f64 {
    let finite: Vec<f64> = samples.iter().copied().filter(|sample| sample.is_finite()).collect();
    let with_later =
        |(at, one): (usize, &f64)| finite[at..].iter().map(|other| one / 2.0 + other / 2.0).collect();
    let pairs: Vec<Vec<f64>> = finite.iter().enumerate().map(with_later).collect();
    median(&pairs.concat())
}

/// (max − min) ÷ median; 0 where the median is 0.
pub fn spread(samples: &[f64]) -> f64 {
    let middle = median(samples);
    if middle == 0.0 {
        return 0.0;
    }
    let finite = samples.iter().copied().filter(|sample| sample.is_finite());
    let (least, most) = finite.fold((f64::MAX, f64::MIN), |(least, most), s| (least.min(s), most.max(s)));
    (most - least) / middle
}

/// Lower and upper end, in the unit of the samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    pub low: f64,
    pub high: f64,
}

impl Interval {
    /// Of samples; none where they are too few to tell.
    pub fn of(samples: &[f64]) -> Option<Self> {
        let mut sorted: Vec<f64> = samples.iter().copied().filter(|sample| sample.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        match sorted.len() {
            0..LEAST_SAMPLES => None,
            LEAST_SAMPLES..BY_ORDER_FROM => Some(by_student(&sorted)),
            count => {
                let rank = rank(count);
                Some(Interval { low: sorted[rank - 1], high: sorted[count - rank] })
            }
        }
    }

    /// They have no value in common.
    pub(crate) fn parts_from(self, other: Interval) -> bool {
        self.high < other.low || other.high < self.low
    }
}

/// The median lies within it, too: it is never further from the mean than one standard deviation.
fn by_student(samples: &[f64]) -> Interval {
    let count = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / count;
    let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
    let deviation = (squares / (count - 1.0)).sqrt();
    let half = STUDENT[samples.len() - LEAST_SAMPLES] * deviation / count.sqrt();
    let middle = median(samples);
    // Rounding may put the median of equal samples a digit outside.
    Interval { low: (mean - half).min(middle), high: (mean + half).max(middle) }
}

/// The largest rank k for which the k-th lowest and the k-th highest of so many samples hold the median in 95
/// % of all cases: at most 2.5 % of all throws of so many coins show fewer than k heads.
fn rank(count: usize) -> usize {
    if count > EXACT_UP_TO {
        let rank = (count as f64 / 2.0 - NORMAL_HALF * (count as f64).sqrt()).floor();
        return (rank as usize).max(1);
    }
    let mut chance = 0.5f64.powi(count as i32);
    let mut below = 0.0;
    for heads in 0..count / 2 {
        below += chance;
        if below > 0.025 {
            return heads.max(1);
        }
        chance *= (count - heads) as f64 / (heads + 1) as f64;
    }
    (count / 2).max(1)
}

/// What two sets of samples say of each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, strum::IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum SampleComparison {
    Higher,
    Lower,
    NoDifferenceShown,
    TooFewSamples,
}

/// The second against the first.
pub fn compare_intervals(first: Option<Interval>, second: Option<Interval>) -> SampleComparison {
    match (first, second) {
        (Some(first), Some(second)) if !first.parts_from(second) => SampleComparison::NoDifferenceShown,
        (Some(first), Some(second)) if second.low > first.high => SampleComparison::Higher,
        (Some(_), Some(_)) => SampleComparison::Lower,
        _ => SampleComparison::TooFewSamples,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_testing::Dice;
    use proptest::prelude::*;

    #[test]
    fn the_middle_and_the_width() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0]), 2.5);
        assert_eq!(median(&[]), 0.0);
        assert_eq!(middle_of_pairs(&[1.0, 2.0, 9.0]), 3.5);
        assert_eq!(middle_of_pairs(&[1.0, 1.0, 1.0, 1.0, 1.0, 100.0]), 1.0, "one that is far off");
        assert_eq!((middle_of_pairs(&[3.0]), middle_of_pairs(&[])), (3.0, 0.0));
        assert_eq!(spread(&[9.0, 10.0, 11.0]), 0.2);
        assert_eq!(spread(&[0.0]), 0.0);
    }

    proptest! {
        #[test]
        fn the_median_is_among_the_samples(samples in proptest::collection::vec(0.0f64..1e12, 1..20)) {
            let middle = median(&samples);
            prop_assert!(samples.iter().any(|s| *s <= middle) && samples.iter().any(|s| *s >= middle));
            prop_assert!(spread(&samples) >= 0.0);
            let pairs = middle_of_pairs(&samples);
            prop_assert!(samples.iter().any(|s| *s <= pairs) && samples.iter().any(|s| *s >= pairs));
        }
    }

    /// A rate as disks have them: normal, even, or mostly good with a tail of bad ones.
    fn rate(dice: &mut Dice, kind: usize) -> f64 {
        match kind {
            0 => 100.0 + dice.normal(),
            1 => 98.0 + 4.0 * dice.uniform(),
            _ => 100.0 - dice.uniform().powi(4) * 10.0,
        }
    }

    fn samples(dice: &mut Dice, kind: usize, count: usize, shift: f64) -> Vec<f64> {
        (0..count).map(|_| rate(dice, kind) + shift).collect()
    }

    fn share_of_differences(kind: usize, count: usize, shift: f64, rounds: u64) -> f64 {
        let different = (0..rounds).filter(|round| {
            let mut dice = Dice::new(round * 7919 + count as u64 * 31 + kind as u64);
            let first = Interval::of(&samples(&mut dice, kind, count, 0.0));
            let second = Interval::of(&samples(&mut dice, kind, count, shift));
            matches!(compare_intervals(first, second), SampleComparison::Higher | SampleComparison::Lower)
        });
        different.count() as f64 / rounds as f64
    }

    #[test]
    fn the_same_distribution_is_rarely_called_different() {
        for kind in 0..3 {
            for count in [3, 4, 5, 6, 8, 10, 15, 30, 100] {
                let share = share_of_differences(kind, count, 0.0, 2000);
                assert!(share < 0.05, "distribution {kind}, {count} samples: {share}");
            }
        }
    }

    #[test]
    fn what_was_shifted_is_called_different() {
        for kind in 0..3 {
            for (count, shift) in [(3, 20.0), (4, 12.0), (5, 8.0), (6, 8.0), (10, 6.0), (30, 4.0)] {
                // In standard deviations of the distribution.
                let shift = shift * [1.0, 1.15, 2.67][kind];
                let share = share_of_differences(kind, count, shift, 1000);
                assert!(share > 0.8, "distribution {kind}, {count} samples, {shift} more: {share}");
            }
        }
    }

    #[test]
    fn the_interval_holds_the_true_middle() {
        for count in [3, 4, 5, 6, 7, 10, 20, 71] {
            let holds = (0..2000u64).filter(|round| {
                let interval =
                    Interval::of(&samples(&mut Dice::new(round * 104_729 + count as u64), 0, count, 0.0));
                interval.is_some_and(|interval| interval.low <= 100.0 && 100.0 <= interval.high)
            });
            let share = holds.count() as f64 / 2000.0;
            assert!(share > 0.93, "{count} samples: {share}");
        }
    }

    #[test]
    fn ranks_are_those_of_the_table() {
        // Le Boudec, table A.1: n and j for 95 %.
        let table =
            [(6, 1), (8, 1), (9, 2), (11, 2), (12, 3), (15, 4), (20, 6), (30, 10), (50, 18), (70, 27)];
        for (count, expected) in table {
            assert_eq!(rank(count), expected, "{count} samples");
        }
    }

    #[test]
    fn few_samples_and_broken_ones_have_no_interval() {
        assert_eq!(Interval::of(&[1.0, 2.0]), None);
        assert_eq!(Interval::of(&[1.0, 2.0, f64::NAN]), None);
        assert_eq!(compare_intervals(None, Interval::of(&[1.0, 1.0, 1.0])), SampleComparison::TooFewSamples);
    }

    proptest! {
        #[test]
        fn the_median_is_inside_and_turning_the_sides_turns_the_word(
            first in proptest::collection::vec(1.0f64..1e12, 1..40),
            second in proptest::collection::vec(1.0f64..1e12, 1..40),
        ) {
            let (a, b) = (Interval::of(&first), Interval::of(&second));
            if let Some(interval) = a {
                let middle = median(&first);
                prop_assert!(interval.low <= middle && middle <= interval.high);
            }
            let turned = match compare_intervals(a, b) {
                SampleComparison::Higher => SampleComparison::Lower,
                SampleComparison::Lower => SampleComparison::Higher,
                same => same,
            };
            prop_assert_eq!(compare_intervals(b, a), turned);
            prop_assert_eq!(compare_intervals(a, a) == SampleComparison::TooFewSamples, a.is_none());
        }
    }
}
