//! The figures' mathematics: the median and its spread. With three to five samples nothing finer is honest; ratios of
//! figures that were measured in turns have the median of the means of all pairs (Hodges and Lehmann, "Estimates of
//! Location Based on Rank Tests", 1963), which is as robust and needs two thirds of the rounds.

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

#[cfg(test)]
mod tests {
    use super::*;
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
}
