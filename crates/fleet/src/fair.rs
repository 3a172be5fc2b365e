//! What flows get of links that they share: max-min fairness (D. Bertsekas and R. Gallager, Data Networks, 1992,
//! section 6.5.2), over a fabric that blocks nothing: each member has what it can send and what it can receive.

use crate::schedule::FlowEnds;

/// Rate of each flow, where member `m` sends at most `send[m]` and receives at most `receive[m]`.
pub(crate) fn max_min(flows: &[FlowEnds], send: &[f64], receive: &[f64]) -> Vec<f64> {
    let members = send.len();
    // Links: first all that send, then all that receive.
    let mut left: Vec<f64> = send.iter().chain(receive).copied().collect();
    let links = |flow: &FlowEnds| [flow.0, members + flow.1];
    let mut rates = vec![0.0; flows.len()];
    let mut open: Vec<usize> = (0..flows.len()).collect();
    while !open.is_empty() {
        let mut users = vec![0_usize; left.len()];
        open.iter().flat_map(|flow| links(&flows[*flow])).for_each(|link| users[link] += 1);
        let used = (0..left.len()).filter(|link| users[*link] > 0);
        let share = used.map(|link| left[link] / users[link] as f64).fold(f64::INFINITY, f64::min);
        let full: Vec<bool> = (0..left.len())
            .map(|link| users[link] > 0 && left[link] / users[link] as f64 <= share * (1.0 + 1e-12))
            .collect();
        let (done, still): (Vec<usize>, Vec<usize>) =
            open.into_iter().partition(|flow| links(&flows[*flow]).iter().any(|link| full[*link]));
        for flow in done {
            rates[flow] = share;
            links(&flows[flow]).iter().for_each(|link| left[*link] = (left[*link] - share).max(0.0));
        }
        open = still;
    }
    rates
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_slow_receiver_leaves_its_senders_room_for_others() {
        let flows = [(0, 1), (0, 2), (1, 2)];
        let rates = max_min(&flows, &[10.0, 10.0, 10.0], &[1.0, 1.0, 10.0]);
        assert_eq!(rates, [1.0, 5.0, 5.0]);
        let incast: Vec<FlowEnds> = (1..5).map(|from| (from, 0)).collect();
        assert_eq!(max_min(&incast, &[8.0; 5], &[8.0; 5]), [2.0; 4]);
    }

    proptest! {
        /// No link carries more than it can, and every flow has a full link in which nobody has more.
        #[test]
        fn nobody_could_have_more_without_another_having_less(
            members in 2usize..7,
            capacities in prop::collection::vec(1.0f64..100.0, 14),
            lots in prop::collection::vec((0usize..7, 0usize..7), 1..20),
        ) {
            let flows: Vec<FlowEnds> = lots.iter().map(|(from, to)| (from % members, to % members)).collect();
            let (send, receive) = (&capacities[..members], &capacities[7..7 + members]);
            let rates = max_min(&flows, send, receive);
            let all: Vec<f64> = send.iter().chain(receive).copied().collect();
            let on = |link: usize| {
                let rates = &rates;
                flows.iter().zip(rates).filter(move |(flow, _)| flow.0 == link || members + flow.1 == link)
            };
            let sum = |link: usize| on(link).map(|(_, rate)| *rate).sum::<f64>();
            for (link, most) in all.iter().enumerate() {
                prop_assert!(sum(link) <= most * (1.0 + 1e-9));
            }
            for (flow, rate) in flows.iter().zip(&rates) {
                let bound = [flow.0, members + flow.1].into_iter().any(|link| {
                    sum(link) >= all[link] * (1.0 - 1e-9) && on(link).all(|(_, other)| *other <= rate * (1.0 + 1e-9))
                });
                prop_assert!(bound, "{:?} {}", flow, rate);
            }
        }
    }
}
