//! A rate dealt to streams that want some of it.

/// Deals a rate to streams: none gets more than it wishes, and what one leaves is shared by the others.
pub(crate) fn deal(rate: f64, wishes: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wishes.len()).collect();
    order.sort_by(|a, b| wishes[*a].total_cmp(&wishes[*b]));
    let mut dealt = vec![0.0; wishes.len()];
    let mut left = rate;
    for (place, index) in order.into_iter().enumerate() {
        let even = left / (wishes.len() - place) as f64;
        dealt[index] = wishes[index].min(even);
        left -= dealt[index];
    }
    dealt
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_dealt_rate_is_never_exceeded_and_never_left_where_wished(
            rate in 0.0..1e10f64, wishes in prop::collection::vec(prop_oneof![0.0..1e10f64, Just(f64::INFINITY)], 1..20)
        ) {
            let dealt = deal(rate, &wishes);
            let sum: f64 = dealt.iter().sum();
            prop_assert!(sum <= rate * (1.0 + 1e-9));
            prop_assert!(dealt.iter().zip(&wishes).all(|(got, wish)| got <= wish));
            let wished: f64 = wishes.iter().sum();
            prop_assert!(sum >= rate.min(wished) * (1.0 - 1e-9));
        }
    }
}
