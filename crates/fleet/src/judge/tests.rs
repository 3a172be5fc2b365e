//! Matrices of hosts with a fault, as noisy as real ones: the fault is named, with its direction, in 20 of 20.

use super::*;
use crate::schedule::{MemberRoles, windows};
use linerate_measure::run::fleet::FleetPattern;
use linerate_testing::Dice;

const HOSTS: usize = 8;
const SEEDS: u64 = 20;
/// What steady hosts differ by from window to window, as a share.
const NOISE: f64 = 0.04;

fn names(hosts: usize) -> Vec<String> {
    (1..=hosts).map(|number| format!("h{number}")).collect()
}

/// What a window carries: each flow the least of its sender, its receiver, its pair, and its part of a shared uplink.
struct Fabric {
    send: Vec<f64>,
    receive: Vec<f64>,
    pair: Option<(usize, usize, f64)>,
    /// The first half of the hosts has this towards the second, and back.
    uplink: Option<f64>,
}

impl Fabric {
    fn even(hosts: usize) -> Fabric {
        Fabric { send: vec![100e6; hosts], receive: vec![100e6; hosts], pair: None, uplink: None }
    }

    fn cells(&self, seed: u64) -> Vec<MatrixCell> {
        let (hosts, mut dice) = (self.send.len(), Dice::new(seed));
        let mut noise = move || (NOISE * dice.normal()).exp();
        let mut cells = Vec::new();
        let roles = MemberRoles { groups: vec![0; hosts], ..MemberRoles::default() };
        let windows = windows(FleetPattern::Pairs, &roles, &mut |_| 0).into_iter();
        for (window, plan) in windows.filter(|plan| !plan.alone).enumerate() {
            let rack = |host: usize| usize::from(host >= hosts / 2);
            let crossing = |way: (usize, usize)| {
                plan.flows.iter().filter(|(from, to)| (rack(*from), rack(*to)) == way).count().max(1) as f64
            };
            for (from, to) in plan.flows.iter().copied() {
                let mut rate = self.send[from].min(self.receive[to]);
                if let Some((_, _, most)) = self.pair.filter(|(one, other, _)| (*one, *other) == (from, to)) {
                    rate = rate.min(most);
                }
                if let Some(uplink) = self.uplink.filter(|_| rack(from) != rack(to)) {
                    rate = rate.min(uplink / crossing((rack(from), rack(to))));
                }
                let rate = rate * noise();
                cells.push(MatrixCell {
                    from,
                    to,
                    window,
                    bytes_per_second: rate,
                    carried_bytes_per_second: rate,
                });
            }
        }
        cells
    }
}

fn verdicts(hosts: usize, plant: impl Fn(&mut Fabric, usize)) -> Vec<(usize, FleetVerdict)> {
    (0..SEEDS)
        .map(|seed| {
            let at = seed as usize % hosts;
            let mut fabric = Fabric::even(hosts);
            plant(&mut fabric, at);
            (at, judge(&names(hosts), &fabric.cells(seed)))
        })
        .collect()
}

#[test]
fn names_a_slow_sender_and_a_slow_receiver_with_their_direction() {
    for hosts in [4, 8, 13] {
        for direction in [FleetDirection::Send, FleetDirection::Receive] {
            let found = verdicts(hosts, |fabric, at| match direction {
                FleetDirection::Send => fabric.send[at] = 31e6,
                _ => fabric.receive[at] = 31e6,
            });
            for (at, verdict) in found {
                let named: Vec<_> =
                    verdict.members.iter().map(|one| (one.name.as_str(), one.direction)).collect();
                assert_eq!(named, [(format!("h{}", at + 1).as_str(), direction)], "{hosts}: {verdict:?}");
                assert!((verdict.members[0].ratio - 0.31).abs() < 0.04, "{verdict:?}");
                assert_eq!(verdict.members[0].pairs, hosts - 1, "{verdict:?}");
                assert!(verdict.links.is_empty(), "{verdict:?}");
                let way = if direction == FleetDirection::Send { "sends at 0." } else { "receives at 0." };
                assert!(
                    verdict.sentence.contains(way) && verdict.sentence.contains("normally"),
                    "{verdict:?}"
                );
            }
        }
    }
}

#[test]
fn names_a_host_that_is_slow_both_ways_once() {
    for (at, verdict) in verdicts(HOSTS, |fabric, at| (fabric.send[at], fabric.receive[at]) = (50e6, 50e6)) {
        assert_eq!(verdict.members.len(), 2, "{verdict:?}");
        let begins = format!("h{} sends at 0.", at + 1);
        assert!(
            verdict.sentence.starts_with(&begins) && verdict.sentence.contains("14 of 14"),
            "{verdict:?}"
        );
    }
}

#[test]
fn names_a_slow_pair_and_no_host() {
    for (at, verdict) in verdicts(HOSTS, |fabric, at| fabric.pair = Some((at, (at + 3) % HOSTS, 30e6))) {
        let (from, to) = (format!("h{}", at + 1), format!("h{}", (at + 3) % HOSTS + 1));
        assert!(verdict.members.is_empty(), "{verdict:?}");
        assert_eq!(
            (verdict.links.len(), &verdict.links[0].from[0], &verdict.links[0].to[0]),
            (1, &from, &to)
        );
        assert!(verdict.sentence.starts_with(&format!("{from} to {to} runs at 0.")), "{verdict:?}");
        assert!((verdict.links[0].ratio - 0.3).abs() < 0.05, "{verdict:?}");
    }
}

#[test]
fn names_the_link_between_two_racks_and_what_it_carries() {
    for hosts in [4, 6, 8, 12] {
        for share in [0.75, 1.0] {
            for (_, verdict) in verdicts(hosts, |fabric, _| fabric.uplink = Some(100e6 * share)) {
                assert!(verdict.members.is_empty(), "{hosts}: {verdict:?}");
                assert_eq!(verdict.links.len(), 2, "{hosts}: {verdict:?}");
                assert_eq!(verdict.links[0].from, names(hosts / 2), "{verdict:?}");
                assert!(
                    (verdict.links[0].bytes_per_second / 100e6 / share - 1.0).abs() < 0.15,
                    "{verdict:?}"
                );
                assert!(verdict.sentence.contains("the link between the groups"), "{verdict:?}");
            }
        }
    }
}

#[test]
fn no_host_stands_out_where_none_does() {
    for hosts in [4, 8, 16] {
        for (_, verdict) in verdicts(hosts, |_, _| {}) {
            assert!(verdict.members.is_empty() && verdict.links.is_empty(), "{verdict:?}");
            assert!(verdict.sentence.starts_with("no host stands out"), "{verdict:?}");
        }
    }
}

/// Something held one flow up once; its pair was measured twice more.
#[test]
fn a_pair_that_was_slow_once_of_three_times_is_no_spread() {
    let even = |window: usize, from, to, bytes_per_second| MatrixCell {
        from,
        to,
        window,
        bytes_per_second,
        carried_bytes_per_second: bytes_per_second,
    };
    let pairs = (0..4).flat_map(|from| (0..4).filter(move |to| *to != from).map(move |to| (from, to)));
    let mut cells: Vec<MatrixCell> =
        pairs.enumerate().map(|(window, (from, to))| even(window, from, to, 50e6)).collect();
    cells[5].bytes_per_second = 26e6;
    let (from, to) = (cells[5].from, cells[5].to);
    cells.extend([even(12, from, to, 50e6), even(13, from, to, 50e6)]);
    let verdict = judge(&names(4), &cells);
    assert_eq!(
        verdict.sentence,
        "no host stands out: all 12 flows lie within 1.00 and 1.00 of their median, 400 Mb/s"
    );
}

#[test]
fn a_slow_host_is_named_also_where_another_was_lost_on_the_way() {
    for seed in 0..SEEDS {
        let mut fabric = Fabric::even(HOSTS);
        fabric.receive[2] = 40e6;
        let mut cells = fabric.cells(seed);
        cells.retain(|cell| cell.window < 6 || (cell.from != 5 && cell.to != 5));
        let verdict = judge(&names(HOSTS), &cells);
        assert!(verdict.sentence.starts_with("h3 receives at 0."), "{verdict:?}");
    }
}

#[test]
fn hosts_between_which_nothing_was_measured_are_judged_without_blame() {
    let verdict = judge(&names(6), &[]);
    assert_eq!(verdict.sentence, "nothing was measured");
    let one = MatrixCell { from: 0, to: 1, window: 0, bytes_per_second: 1e6, carried_bytes_per_second: 1e6 };
    assert!(judge(&names(6), &[one]).members.is_empty());
    let none = MatrixCell { bytes_per_second: 0.0, ..one };
    assert_eq!(judge(&names(6), &[none]).sentence, "nothing was measured");
}

#[test]
fn too_few_hosts_and_none_are_judged_without_blame() {
    for hosts in [0, 2, 3] {
        let mut fabric = Fabric::even(hosts);
        if hosts > 0 {
            fabric.receive[0] = 10e6;
        }
        let cells = if hosts > 1 { fabric.cells(1) } else { Vec::new() };
        let verdict = judge(&names(hosts), &cells);
        assert!(verdict.members.is_empty() && verdict.links.is_empty());
        let says = if hosts > 1 { "4 hosts at least" } else { "nothing was measured" };
        assert!(verdict.sentence.contains(says), "{verdict:?}");
    }
}
