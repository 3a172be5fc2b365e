//! What flows get of links that they share: max-min fairness (D. Bertsekas and R. Gallager, Data Networks, 1992,
//! section 6.5.2).

/// A share within this of the least is the least.
const EQUAL: f64 = 1e-12;
/// A link that carries all but this is full.
const NEARLY: f64 = 1e-9;

/// Rate of each flow, which passes these links, each of which carries at most this. A link that carries any amount
/// has infinity; flows that pass no other get nothing, since nothing says what they get.
pub(crate) fn max_min(links_of: &[Vec<usize>], capacities: &[f64]) -> Vec<f64> {
    let mut left = capacities.to_vec();
    let mut rates = vec![0.0; links_of.len()];
    let mut open: Vec<usize> = (0..links_of.len()).collect();
    while !open.is_empty() {
        let mut users = vec![0_usize; left.len()];
        open.iter().flat_map(|flow| &links_of[*flow]).for_each(|link| users[*link] += 1);
        let used = (0..left.len()).filter(|link| users[*link] > 0);
        let share = used.map(|link| left[link] / users[link] as f64).fold(f64::INFINITY, f64::min);
        if share.is_infinite() {
            break;
        }
        let full: Vec<bool> = (0..left.len())
            .map(|link| users[link] > 0 && left[link] / users[link] as f64 <= share * (1.0 + EQUAL))
            .collect();
        let (done, still): (Vec<usize>, Vec<usize>) =
            open.into_iter().partition(|flow| links_of[*flow].iter().any(|link| full[*link]));
        for flow in done {
            rates[flow] = share;
            links_of[flow].iter().for_each(|link| left[*link] = (left[*link] - share).max(0.0));
        }
        open = still;
    }
    rates
}

/// For each flow a link that is full and in which no other flow has more: where it could have more only if that carried
/// more.
pub(crate) fn bottlenecks(links_of: &[Vec<usize>], capacities: &[f64], rates: &[f64]) -> Vec<usize> {
    let mut carried = vec![0.0; capacities.len()];
    let mut most = vec![0.0_f64; capacities.len()];
    for (links, rate) in links_of.iter().zip(rates) {
        for link in links {
            carried[*link] += rate;
            most[*link] = most[*link].max(*rate);
        }
    }
    let limits = |link: usize, rate: f64| {
        carried[link] >= capacities[link] * (1.0 - NEARLY) && most[link] <= rate * (1.0 + NEARLY)
    };
    let of = |(links, rate): (&Vec<usize>, &f64)| links.iter().copied().find(|link| limits(*link, *rate));
    links_of.iter().zip(rates).filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::FlowEnds;
    use proptest::prelude::*;

    fn between(flows: &[FlowEnds], send: &[f64], receive: &[f64]) -> Vec<f64> {
        let links: Vec<Vec<usize>> = flows.iter().map(|(from, to)| vec![*from, send.len() + to]).collect();
        max_min(&links, &[send, receive].concat())
    }

    #[test]
    fn a_slow_receiver_leaves_its_senders_room_for_others() {
        let flows = [(0, 1), (0, 2), (1, 2)];
        assert_eq!(between(&flows, &[10.0, 10.0, 10.0], &[1.0, 1.0, 10.0]), [1.0, 5.0, 5.0]);
        let incast: Vec<FlowEnds> = (1..5).map(|from| (from, 0)).collect();
        assert_eq!(between(&incast, &[8.0; 5], &[8.0; 5]), [2.0; 4]);
    }

    #[test]
    fn a_link_without_a_limit_limits_nothing() {
        let endless = f64::INFINITY;
        assert_eq!(max_min(&[vec![0, 1], vec![0]], &[endless, 3.0]), [3.0, 0.0]);
        assert_eq!(max_min(&[vec![0, 2], vec![0, 1]], &[endless, 3.0, 5.0]), [5.0, 3.0]);
        assert!(max_min(&[], &[1.0]).is_empty());
    }

    proptest! {
        /// No link carries more than it can, and every flow has a full link in which nobody has more.
        #[test]
        fn nobody_could_have_more_without_another_having_less(
            capacities in prop::collection::vec(1.0f64..100.0, 9),
            flows in prop::collection::vec(prop::collection::hash_set(0usize..9, 1..4), 1..20),
        ) {
            let flows: Vec<Vec<usize>> = flows.into_iter().map(|links| links.into_iter().collect()).collect();
            let rates = max_min(&flows, &capacities);
            prop_assert_eq!(bottlenecks(&flows, &capacities, &rates).len(), flows.len(), "each has one");
            let on = |link: usize| {
                flows.iter().zip(&rates).filter(move |(links, _)| links.contains(&link)).map(|(_, rate)| *rate)
            };
            let sum = |link: usize| on(link).sum::<f64>();
            for (link, most) in capacities.iter().enumerate() {
                prop_assert!(sum(link) <= most * (1.0 + 1e-9));
            }
            for (links, rate) in flows.iter().zip(&rates) {
                let bound = links.iter().any(|link| {
                    sum(*link) >= capacities[*link] * (1.0 - 1e-9) && on(*link).all(|other| other <= rate * (1.0 + 1e-9))
                });
                prop_assert!(bound, "{:?} {}", links, rate);
            }
        }
    }
}
