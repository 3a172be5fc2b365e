//! What hosts send and receive together, and how unevenly their single flows share it: max-min fairness predicts sums
//! well, and of a single flow only its fair share, which TCP does not keep to.

use crate::matrix::PAIR_RATIO;
use crate::predict::MemberCapacities;
use crate::sentence::rates_of_flows;
use linerate_measure::run::fleet::{
    FleetCell, FleetDirection, FleetResult, FleetWindow, FlowRange, HostSum, HostSums, OtherWay, SlowMember,
};
use linerate_model::alike::median;

/// Sums of hosts of which the least is this share of the most are alike.
const EVEN: f64 = 0.75;

/// None for less than two flows.
pub(crate) fn range(rates: impl Iterator<Item = f64>) -> Option<FlowRange> {
    let rates: Vec<f64> = rates.collect();
    (rates.len() > 1).then(|| FlowRange {
        least_bytes_per_second: rates.iter().copied().fold(f64::INFINITY, f64::min),
        most_bytes_per_second: rates.iter().copied().fold(0.0, f64::max),
    })
}

/// Over the windows of one pattern.
fn range_of_windows<'a>(windows: impl Iterator<Item = &'a FleetWindow>) -> Option<FlowRange> {
    windows.filter_map(|window| window.single_flows).reduce(|one, other| FlowRange {
        least_bytes_per_second: one.least_bytes_per_second.min(other.least_bytes_per_second),
        most_bytes_per_second: one.most_bytes_per_second.max(other.most_bytes_per_second),
    })
}

/// Of the flows that `is_own`; none where one of them failed in every window.
fn host_sum(result: &FleetResult, is_own: impl Fn(&FleetCell) -> bool) -> Option<HostSum> {
    let mut sums: Vec<(f64, Option<f64>)> = Vec::new();
    let mut rates = Vec::new();
    for number in (0..result.windows.len()).filter(|number| !result.windows[*number].alone) {
        let own = || result.cells.iter().filter(|cell| cell.window == number && is_own(cell));
        let carried: Option<Vec<f64>> = own().map(|cell| cell.figures.bytes_per_second).collect();
        let Some(carried) = carried.filter(|carried| !carried.is_empty()) else { continue };
        let predicted = own().map(|cell| cell.predicted_bytes_per_second).sum::<Option<f64>>();
        sums.push((carried.iter().sum(), predicted));
        rates.extend(carried);
    }
    Some(HostSum {
        bytes_per_second: median(sums.iter().map(|(sum, _)| *sum))?,
        predicted_bytes_per_second: median(sums.iter().filter_map(|(_, predicted)| *predicted)),
        single_flows: range(rates.into_iter()),
    })
}

/// Of every member.
pub(crate) fn host_sums(result: &FleetResult) -> Vec<HostSums> {
    let of = |name: &String| HostSums {
        name: name.clone(),
        send: host_sum(result, |cell| cell.from == *name),
        receive: host_sum(result, |cell| cell.to == *name),
    };
    result.members.iter().map(|member| of(&member.name)).collect()
}

/// That no host stands out, by its sums; none where they were not predicted, or lie apart.
pub(crate) fn even_sums(sums: &[HostSums]) -> Option<String> {
    let ratios = || sums.iter().flat_map(|host| [&host.send, &host.receive]).flatten();
    let ratios = || ratios().filter_map(HostSum::of_predicted);
    let (least, most) = (ratios().reduce(f64::min)?, ratios().reduce(f64::max)?);
    (least >= EVEN * most).then(|| {
        format!(
            "no host stands out: what each sends and receives together is {least:.2} to {most:.2} of what follows \
             from it alone"
        )
    })
}

/// A host that is slow both ways beside all others, and alone in one of them only, is slow in that one: what waits for it
/// to receive holds up the acknowledgements of what it sends, and the other way round.
pub(crate) fn without_what_follows(
    members: Vec<SlowMember>,
    alone: &MemberCapacities,
    names: &[String],
) -> Vec<SlowMember> {
    let alone_ratio = |member: &SlowMember| {
        let rates = if member.direction == FleetDirection::Send { &alone.send } else { &alone.receive };
        // 0: not measured; infinite: a rate limit held it back.
        let known = |rate: &f64| rate.is_finite() && *rate > 0.0;
        let own = names.iter().position(|name| *name == member.name)?;
        let others = (0..rates.len()).filter(|other| *other != own).map(|other| rates[other]);
        Some(rates.get(own).copied().filter(known)? / median(others.filter(known))?)
    };
    let other = |one: &SlowMember| {
        members.iter().find(|other| other.name == one.name && other.direction != one.direction)
    };
    let kept = members.iter().filter_map(|member| {
        let ratios = |other| Some((other, alone_ratio(member)?, alone_ratio(other)?));
        let Some((other, own_ratio, other_ratio)) = other(member).and_then(ratios) else {
            return Some(member.clone());
        };
        // Alone both ways run at once as well, between two hosts: the other way loses a little there.
        match (own_ratio < PAIR_RATIO, other_ratio < PAIR_RATIO) {
            (true, false) => {
                let other_way = Some(OtherWay { ratio: other.ratio, alone_ratio: other_ratio });
                Some(SlowMember { other_way, ..member.clone() })
            }
            (false, true) => None,
            _ => Some(member.clone()),
        }
    });
    kept.collect()
}

/// How unevenly the flows of these windows share; none where each ran by itself.
pub(crate) fn shared_words<'a>(windows: impl Iterator<Item = &'a FleetWindow>) -> Option<String> {
    let FlowRange { least_bytes_per_second, most_bytes_per_second } = range_of_windows(windows)?;
    Some(format!("single flows have {}", rates_of_flows(least_bytes_per_second, most_bytes_per_second)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{cell, member};

    /// What flows of a window carry, by their ends.
    type Rates<'a> = &'a dyn Fn(&str, &str) -> Option<f64>;

    /// Three hosts, each to both others, in windows whose flows carry `rate`; 50 is the fair share of each.
    fn result(rate: &[Rates<'_>]) -> FleetResult {
        let names = ["h1", "h2", "h3"];
        let mut result = FleetResult { members: names.map(member).to_vec(), ..FleetResult::default() };
        for (window, rate) in rate.iter().enumerate() {
            let mut rates = Vec::new();
            for (from, to) in names.iter().flat_map(|from| names.map(|to| (*from, to))) {
                if from == to {
                    continue;
                }
                rates.extend(rate(from, to));
                let carried = cell(window, from, to, rate(from, to));
                result.cells.push(FleetCell { predicted_bytes_per_second: Some(50.0), ..carried });
            }
            let single_flows = range(rates.into_iter());
            result.windows.push(FleetWindow { flows: 6, single_flows, ..FleetWindow::default() });
        }
        result
    }

    #[test]
    fn uneven_flows_have_even_sums() {
        let uneven = |from: &str, to: &str| {
            let next = [("h1", "h2"), ("h2", "h3"), ("h3", "h1")].contains(&(from, to));
            Some(if next { 80.0 } else { 19.0 })
        };
        let result = result(&[&uneven]);
        let sums = host_sums(&result);
        for sum in sums.iter().flat_map(|host| [host.send, host.receive]) {
            let sum = sum.expect("a sum");
            assert_eq!(sum.of_predicted(), Some(0.99));
            assert_eq!(sum.single_flows.map(|range| range.least_bytes_per_second), Some(19.0));
        }
        assert_eq!(
            even_sums(&sums).as_deref(),
            Some(
                "no host stands out: what each sends and receives together is 0.99 to 0.99 of what follows from it alone"
            )
        );
        assert_eq!(
            shared_words(result.windows.iter()).as_deref(),
            Some("single flows have 152 b/s to 640 b/s")
        );
    }

    #[test]
    fn a_host_that_alone_is_slow_one_way_is_slow_in_that_one() {
        let names: Vec<String> = (1..=4).map(|number| format!("h{number}")).collect();
        let slow = |direction, ratio| SlowMember {
            name: "h3".into(),
            direction,
            ratio,
            pairs: 3,
            pairs_measured: 3,
            other_way: None,
            sources: Vec::new(),
            evidence: Vec::new(),
        };
        let both = || vec![slow(FleetDirection::Receive, 0.22), slow(FleetDirection::Send, 0.35)];
        let alone = |send: f64, receive: f64| MemberCapacities {
            send: vec![400.0, 400.0, send, 400.0],
            receive: vec![400.0, 400.0, receive, 400.0],
        };
        let judged = |send, receive| without_what_follows(both(), &alone(send, receive), &names);
        let receives = judged(344.0, 120.0);
        assert_eq!(receives.len(), 1);
        assert_eq!(receives[0].direction, FleetDirection::Receive);
        assert_eq!(receives[0].other_way, Some(OtherWay { ratio: 0.35, alone_ratio: 0.86 }));
        assert_eq!(judged(120.0, 396.0)[0].direction, FleetDirection::Send);
        assert_eq!(judged(120.0, 120.0), both(), "both ways");
        assert_eq!(judged(400.0, 400.0), both(), "neither alone: it is what was seen");
        assert_eq!(judged(0.0, 120.0), both(), "one was not measured alone");
        assert_eq!(judged(f64::INFINITY, 120.0), both(), "a limit held one back");
        let one = vec![slow(FleetDirection::Send, 0.35)];
        assert_eq!(without_what_follows(one.clone(), &alone(400.0, 120.0), &names), one);
    }

    #[test]
    fn a_window_in_which_a_flow_failed_is_no_sum_of_its_hosts() {
        let whole = |_: &str, _: &str| Some(50.0);
        let broken = |from: &str, to: &str| (from != "h1" || to != "h2").then_some(20.0);
        let sums = host_sums(&result(&[&whole, &broken]));
        assert_eq!(sums[0].send.map(|sum| sum.bytes_per_second), Some(100.0));
        assert_eq!(sums[0].receive.map(|sum| sum.bytes_per_second), Some(70.0), "the median of both");
        assert_eq!(host_sums(&result(&[&broken]))[0].send, None);
        assert_eq!(even_sums(&[]), None);
        assert_eq!(range([1.0].into_iter()), None, "one flow is no range");
    }
}
