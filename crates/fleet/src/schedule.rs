//! What flows run together in which window: one schedule for each pattern, pure.

use linerate_measure::run::fleet::FleetPattern;

/// One flow: numbers of its sender and its receiver.
pub type FlowEnds = (usize, usize);

/// Flows that begin together.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowPlan {
    pub flows: Vec<FlowEnds>,
    /// Only measures what each member can do, for the prediction.
    pub alone: bool,
    /// The flows send what is read from disks, not memory.
    pub disks: bool,
}

impl WindowPlan {
    pub(crate) fn measured(flows: Vec<FlowEnds>) -> WindowPlan {
        WindowPlan { flows, alone: false, disks: false }
    }

    fn alone(flows: Vec<FlowEnds>) -> WindowPlan {
        WindowPlan { alone: true, ..WindowPlan::measured(flows) }
    }
}

/// Who the members are to each other, by their numbers.
#[derive(Clone, Debug, Default)]
pub struct MemberRoles {
    /// The group (rack) of each member.
    pub groups: Vec<usize>,
    /// A bisection goes along the groups instead of by lot.
    pub by_group: bool,
    /// Members whose disks are read, for `storage`.
    pub servers: Vec<usize>,
}

/// Halves that a bisection draws.
const HALVES: usize = 8;
/// Windows of all hosts to all: what stopped a flow once says nothing of them.
const PLAYS: usize = 3;

/// The windows of flows for members of these roles, in order. `lot`: what draws the halves.
pub fn windows(
    pattern: FleetPattern,
    roles: &MemberRoles,
    lot: &mut impl FnMut(usize) -> usize,
) -> Vec<WindowPlan> {
    let groups = &roles.groups[..];
    let members = groups.len();
    match pattern {
        FleetPattern::Pairs => one_way(groups).into_iter().chain(pairs(members)).collect(),
        FleetPattern::AllToAll => {
            let all = (0..members)
                .flat_map(|from| (0..members).filter(move |to| *to != from).map(move |to| (from, to)));
            let all = WindowPlan::measured(all.collect());
            both_ways(groups).into_iter().chain(vec![all; PLAYS]).collect()
        }
        FleetPattern::Incast => one_way(groups).into_iter().chain(incast(members)).collect(),
        FleetPattern::Bisection if roles.by_group => {
            one_way(groups).into_iter().chain(between_groups(groups)).collect()
        }
        FleetPattern::Bisection => one_way(groups).into_iter().chain(bisection(members, lot)).collect(),
        FleetPattern::Storage => {
            one_way(groups).into_iter().chain(storage(members, &roles.servers)).collect()
        }
        FleetPattern::Disk => Vec::new(),
    }
}

/// Rounds of disjoint pairs in which everybody meets everybody once (the circle method: one stays, the others
/// move on by one). With an odd number one rests in each round.
fn tournament(members: usize) -> Vec<Vec<FlowEnds>> {
    let seats = members + members % 2;
    let mut circle: Vec<usize> = (0..seats).collect();
    let mut rounds = Vec::new();
    for _ in 1..seats {
        let pairs = (0..seats / 2).map(|place| (circle[place], circle[seats - 1 - place]));
        rounds.push(pairs.filter(|(one, other)| *one < members && *other < members).collect());
        circle[1..].rotate_right(1);
    }
    rounds
}

fn pairs(members: usize) -> Vec<WindowPlan> {
    let mut windows = Vec::new();
    for round in tournament(members) {
        let back = round.iter().map(|(one, other)| (*other, *one)).collect();
        windows.push(WindowPlan::measured(round));
        windows.push(WindowPlan::measured(back));
    }
    windows
}

/// Partners with whom a member is measured alone: one slow host then hides no other.
const PARTNERS: usize = 2;

/// Members by group, so that what is measured alone crosses no uplink; all together where one has no partner in its
/// group.
fn companies(groups: &[usize]) -> Vec<Vec<usize>> {
    let mut numbers: Vec<usize> = groups.to_vec();
    numbers.sort_unstable();
    numbers.dedup();
    let of = |group: &usize| (0..groups.len()).filter(|member| groups[*member] == *group).collect::<Vec<_>>();
    let companies: Vec<Vec<usize>> = numbers.iter().map(of).collect();
    if companies.iter().any(|company| company.len() < 2) {
        return vec![(0..groups.len()).collect()];
    }
    companies
}

/// What each member sends and receives while it does nothing else: rounds of pairs, each direction.
fn one_way(groups: &[usize]) -> Vec<WindowPlan> {
    let companies = companies(groups);
    // Of an odd number one rests in each round.
    let odd = companies.iter().any(|company| company.len() % 2 == 1);
    let rounds = (0..PARTNERS + usize::from(odd)).map(|round| {
        let of = |company: &Vec<usize>| -> Vec<FlowEnds> {
            let pairs = tournament(company.len()).into_iter().nth(round).unwrap_or_default();
            pairs.into_iter().map(|(one, other)| (company[one], company[other])).collect()
        };
        companies.iter().flat_map(of).collect::<Vec<FlowEnds>>()
    });
    let ways = rounds.flat_map(|there| {
        let back = there.iter().map(|(one, other)| (*other, *one)).collect();
        [there, back]
    });
    let measured = ways.filter(|flows| !flows.is_empty());
    measured.map(WindowPlan::alone).collect()
}

/// The same while it sends to one and receives from another at once.
fn both_ways(groups: &[usize]) -> Vec<WindowPlan> {
    let companies = companies(groups);
    let ring = |shift: usize| -> Vec<FlowEnds> {
        let of = |company: &Vec<usize>| -> Vec<FlowEnds> {
            let size = company.len();
            let there = |at: usize| (company[at], company[(at + shift) % size]);
            (0..size).map(there).filter(|(from, to)| from != to).collect()
        };
        companies.iter().flat_map(of).collect()
    };
    let rings = (1..=PARTNERS).map(ring).filter(|flows| !flows.is_empty());
    rings.map(WindowPlan::alone).collect()
}

/// 1, 2, 4 … and all of them.
pub(crate) fn doubling(all: usize) -> Vec<usize> {
    let below = std::iter::successors(Some(1), |count| Some(count * 2)).take_while(|count| *count < all);
    below.chain((all > 0).then_some(all)).collect()
}

fn incast(members: usize) -> Vec<WindowPlan> {
    let counts = doubling(members - 1);
    let window = |sink: usize, count: usize| {
        WindowPlan::measured((1..=count).map(|step| ((sink + step) % members, sink)).collect())
    };
    (0..members).flat_map(|sink| counts.iter().map(move |count| window(sink, *count))).collect()
}

/// All servers to ever more of the others.
fn storage(members: usize, servers: &[usize]) -> Vec<WindowPlan> {
    let clients: Vec<usize> = (0..members).filter(|member| !servers.contains(member)).collect();
    let window = |count: usize| {
        let to =
            |server: &usize| clients[..count].iter().map(|client| (*server, *client)).collect::<Vec<_>>();
        WindowPlan { disks: true, ..WindowPlan::measured(servers.iter().flat_map(to).collect()) }
    };
    doubling(clients.len()).into_iter().map(window).collect()
}

/// Each group against each other one, both ways in turn; groups that are in no window together do not disturb each
/// other, so that a round of a tournament is one window.
fn between_groups(groups: &[usize]) -> Vec<WindowPlan> {
    let mut numbers = groups.to_vec();
    numbers.sort_unstable();
    numbers.dedup();
    let of = |number: usize| {
        let wanted = numbers[number];
        (0..groups.len()).filter(move |member| groups[*member] == wanted)
    };
    let across = |(one, other): &FlowEnds| of(*one).zip(of(*other)).collect::<Vec<FlowEnds>>();
    let mut windows = Vec::new();
    for round in tournament(numbers.len()) {
        let there: Vec<FlowEnds> = round.iter().flat_map(&across).collect();
        let back = there.iter().map(|(from, to)| (*to, *from)).collect();
        windows.push(WindowPlan::measured(there));
        windows.push(WindowPlan::measured(back));
    }
    windows.retain(|window| !window.flows.is_empty());
    windows
}

fn bisection(members: usize, lot: &mut impl FnMut(usize) -> usize) -> Vec<WindowPlan> {
    let mut windows = Vec::new();
    for _ in 0..HALVES {
        let mut order: Vec<usize> = (0..members).collect();
        // Fisher and Yates.
        for last in (1..members).rev() {
            order.swap(last, lot(last + 1) % (last + 1));
        }
        let half = members / 2;
        let one: Vec<FlowEnds> =
            order[..half].iter().copied().zip(order[half..2 * half].iter().copied()).collect();
        let back = one.iter().map(|(from, to)| (*to, *from)).collect();
        windows.push(WindowPlan::measured(one));
        windows.push(WindowPlan::measured(back));
    }
    windows
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_facts::random::Random;
    use std::collections::{HashMap, HashSet};

    fn in_groups(groups: &[usize]) -> MemberRoles {
        MemberRoles { groups: groups.to_vec(), ..MemberRoles::default() }
    }

    fn measured(windows: Vec<WindowPlan>) -> Vec<WindowPlan> {
        windows.into_iter().filter(|window| !window.alone).collect()
    }

    #[test]
    fn a_tournament_has_every_pair_once_and_nobody_twice_in_a_round() {
        for members in 2..=17 {
            let windows = measured(windows(FleetPattern::Pairs, &in_groups(&vec![0; members]), &mut |_| 0));
            let rounds = if members % 2 == 0 { members - 1 } else { members };
            assert_eq!(windows.len(), 2 * rounds, "{members}");
            let mut all = HashSet::new();
            for window in &windows {
                let mut busy = HashSet::new();
                for (from, to) in &window.flows {
                    assert!(busy.insert(*from) && busy.insert(*to), "{members}: {window:?}");
                    assert!(all.insert((*from, *to)), "{members}: {from} to {to} twice");
                }
            }
            assert_eq!(all.len(), members * (members - 1), "{members}");
        }
    }

    #[test]
    fn the_other_patterns_have_the_flows_that_they_are_called_for() {
        let mut random = Random::new(7);
        let mut lot = move |below: usize| random.below(below as u64) as usize;
        let all = windows(FleetPattern::AllToAll, &in_groups(&[0; 5]), &mut lot);
        assert_eq!(all.last().expect("a window").flows.len(), 20);
        let incast = measured(windows(FleetPattern::Incast, &in_groups(&[0; 8]), &mut lot));
        let counts: Vec<usize> = incast.iter().take(4).map(|window| window.flows.len()).collect();
        assert_eq!((counts, incast.len()), (vec![1, 2, 4, 7], 32));
        assert!(incast.iter().all(|window| window.flows.iter().all(|(from, to)| from != to)));
        for window in measured(windows(FleetPattern::Bisection, &in_groups(&[0; 9]), &mut lot)) {
            let ends: HashSet<usize> = window.flows.iter().flat_map(|(from, to)| [*from, *to]).collect();
            assert_eq!((window.flows.len(), ends.len()), (4, 8));
        }
    }

    #[test]
    fn racks_meet_each_other_once_each_way() {
        let roles = MemberRoles { by_group: true, ..in_groups(&[1, 1, 1, 2, 2, 2, 3, 3]) };
        let windows = measured(windows(FleetPattern::Bisection, &roles, &mut |_| 0));
        assert_eq!(windows.len(), 6, "three pairs of racks, one of which rests in each round");
        let mut met = HashSet::new();
        for window in &windows {
            let pairs: HashSet<(usize, usize)> =
                window.flows.iter().map(|(from, to)| (roles.groups[*from], roles.groups[*to])).collect();
            assert_eq!(pairs.len(), 1, "{window:?}");
            assert!(pairs.iter().all(|(one, other)| one != other));
            met.extend(pairs);
        }
        assert_eq!(met.len(), 6);
        let flows: usize = windows.iter().map(|window| window.flows.len()).sum();
        assert_eq!(flows, 2 * (3 + 2 + 2), "as many as the smaller rack has hosts");
    }

    #[test]
    fn all_servers_send_to_ever_more_clients() {
        let roles = MemberRoles { servers: vec![1, 4], ..in_groups(&[0; 8]) };
        let windows = measured(windows(FleetPattern::Storage, &roles, &mut |_| 0));
        let counts: Vec<usize> = windows.iter().map(|window| window.flows.len()).collect();
        assert_eq!(counts, [2, 4, 8, 12]);
        for (from, to) in windows.iter().flat_map(|window| &window.flows) {
            assert!([1, 4].contains(from) && ![1, 4].contains(to));
        }
        assert!(windows.iter().all(|window| window.disks));
    }

    /// What is measured alone has every member send and receive, with nobody twice in one direction.
    #[test]
    fn every_member_is_measured_alone_within_its_rack() {
        for groups in [vec![0, 0], vec![0; 3], vec![0; 8], vec![1, 1, 2, 2, 2], vec![0, 1, 1, 1], vec![0, 1]]
        {
            for pattern in [FleetPattern::Pairs, FleetPattern::AllToAll, FleetPattern::Incast] {
                let windows = windows(pattern, &in_groups(&groups), &mut |_| 0);
                let alone: Vec<&WindowPlan> = windows.iter().filter(|window| window.alone).collect();
                let (mut senders, mut receivers) = (HashSet::new(), HashSet::new());
                let mut partners: HashMap<usize, HashSet<usize>> = HashMap::new();
                for (from, to) in alone.iter().flat_map(|window| &window.flows) {
                    partners.entry(*from).or_default().insert(*to);
                }
                for (member, partners) in &partners {
                    let company = groups.iter().filter(|group| **group == groups[*member]).count();
                    assert!(partners.len() >= PARTNERS.min(company - 1), "{groups:?}: {member}");
                }
                for window in &alone {
                    let (from, to): (Vec<_>, Vec<_>) = window.flows.iter().copied().unzip();
                    let mut ends: Vec<usize> = from.iter().chain(&to).copied().collect();
                    ends.sort_unstable();
                    let busy = ends.len();
                    ends.dedup();
                    let each_way = pattern == FleetPattern::AllToAll;
                    assert!(each_way || ends.len() == busy, "{groups:?}: {window:?}");
                    senders.extend(from);
                    receivers.extend(to);
                    let lonely =
                        groups.iter().any(|one| groups.iter().filter(|other| *other == one).count() < 2);
                    let within = window.flows.iter().all(|(from, to)| groups[*from] == groups[*to]);
                    assert!(lonely || within, "{groups:?}: {window:?}");
                }
                assert_eq!((senders.len(), receivers.len()), (groups.len(), groups.len()), "{groups:?}");
            }
        }
    }
}
