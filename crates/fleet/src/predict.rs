//! What the flows of a window get, from what each member sent, received and read alone: max-min fairness over the
//! declared fabric (D. Bertsekas and R. Gallager, Data Networks, 1992, section 6.5.2); and what limits them.

use crate::fabric::FabricLinks;
use crate::schedule::WindowPlan;
use linerate_measure::run::fleet::{
    DiskDirection, FleetDisk, FleetLimit, FleetMember, FleetResult, FlowLimitKind,
};
use linerate_model::verdict::thresholds::RATE_LIMIT_MET;
use std::collections::HashMap;

/// A share within this of the least is the least.
const EQUAL_SHARE: f64 = 1e-12;
/// A link that carries all but this is full.
const NEARLY_FULL: f64 = 1e-9;

/// What is predicted for one flow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct FlowPrediction {
    /// None where nothing is known of one of its ends.
    pub bytes_per_second: Option<f64>,
    /// What the declared fabric leaves of what it would get over one that blocks nothing; none where no fabric is
    /// declared.
    pub fabric_share: Option<f64>,
}

/// The most that each member sent and received alone, by its number.
pub(crate) struct MemberCapacities {
    pub send: Vec<f64>,
    pub receive: Vec<f64>,
}

impl MemberCapacities {
    pub(crate) fn of(result: &FleetResult) -> Option<MemberCapacities> {
        let members = result.members.len();
        let mut capacities = MemberCapacities { send: vec![0.0; members], receive: vec![0.0; members] };
        let numbers: HashMap<&str, usize> =
            result.members.iter().enumerate().map(|(number, one)| (one.name.as_str(), number)).collect();
        let number = |name: &String| numbers.get(name.as_str()).copied();
        let mut measured = false;
        for cell in &result.cells {
            let Some(window) = result.windows.get(cell.window).filter(|window| window.alone) else {
                continue;
            };
            let (Some(rate), Some(from), Some(to)) =
                (cell.figures.bytes_per_second, number(&cell.from), number(&cell.to))
            else {
                continue;
            };
            let limit = result.rate_limit_bytes_per_second.map(|limit| limit / window.flows.max(1) as f64);
            // What a limit holds back says only that the member can do so much at least.
            let rate =
                if limit.is_some_and(|limit| rate >= RATE_LIMIT_MET * limit) { f64::INFINITY } else { rate };
            capacities.send[from] = capacities.send[from].max(rate);
            capacities.receive[to] = capacities.receive[to].max(rate);
            measured = true;
        }
        measured.then_some(capacities)
    }
}

/// What the sources of each member read or wrote alone, by its number; infinite where that was not measured.
pub(crate) fn disks_alone(result: &FleetResult, direction: DiskDirection) -> Vec<f64> {
    let is_alone = |disk: &&FleetDisk| result.windows.get(disk.window).is_some_and(|window| window.alone);
    let of = |member: &FleetMember| {
        let own = result.disks.iter().filter(is_alone).filter(|disk| disk.member == member.name);
        let rates = own.filter(|disk| disk.direction == direction);
        let rates: Vec<f64> = rates.filter_map(|disk| disk.bytes_per_second).collect();
        let sum: f64 = rates.iter().sum();
        let held = result.rate_limit_bytes_per_second.is_some_and(|limit| sum >= RATE_LIMIT_MET * limit);
        if rates.is_empty() || held { f64::INFINITY } else { sum }
    };
    result.members.iter().map(of).collect()
}

/// What the flows of a plan pass, and what each of it carries.
struct FlowLinks {
    links: Vec<FleetLimit>,
    capacities: Vec<f64>,
    links_of: Vec<Vec<usize>>,
}

impl FlowLinks {
    /// What each member sends, what each receives, what its disks read, each uplink up and down, and the limit of each
    /// flow.
    fn new(
        plan: &WindowPlan,
        result: &FleetResult,
        own: &MemberCapacities,
        fabric: Option<&FabricLinks>,
    ) -> FlowLinks {
        let members = own.send.len();
        let uplinks = fabric.map_or(&[][..], |fabric| &fabric.uplinks);
        let disks =
            if plan.disks { disks_alone(result, DiskDirection::Read) } else { vec![f64::INFINITY; members] };
        let limit = result.rate_limit_bytes_per_second.map(|limit| limit / plan.flows.len().max(1) as f64);
        let of_members = |kind: FlowLimitKind| {
            result.members.iter().map(move |member| FleetLimit { kind, hosts: vec![member.name.clone()] })
        };
        let of_racks = || {
            (0..uplinks.len()).map(|rack| FleetLimit {
                kind: FlowLimitKind::Uplink,
                hosts: result.fabric.get(rack).map(|rack| rack.hosts.clone()).unwrap_or_default(),
            })
        };
        let mut links: Vec<FleetLimit> = [FlowLimitKind::Send, FlowLimitKind::Receive, FlowLimitKind::Disks]
            .into_iter()
            .flat_map(of_members)
            .chain(of_racks())
            .chain(of_racks())
            .collect();
        let mut capacities = [&own.send[..], &own.receive, &disks, uplinks, uplinks].concat();
        let mut links_of = Vec::new();
        for ends in &plan.flows {
            let mut passed = vec![ends.0, members + ends.1, 2 * members + ends.0];
            let (up, down) = fabric.map_or((None, None), |fabric| fabric.crossing(*ends));
            passed.extend(up.map(|rack| 3 * members + rack));
            passed.extend(down.map(|rack| 3 * members + uplinks.len() + rack));
            if let Some(limit) = limit {
                passed.push(links.len());
                links.push(FleetLimit { kind: FlowLimitKind::RateLimit, hosts: Vec::new() });
                capacities.push(limit);
            }
            links_of.push(passed);
        }
        FlowLinks { links, capacities, links_of }
    }

    fn rates(&self) -> Vec<f64> {
        max_min(&self.links_of, &self.capacities)
    }
}

/// What each flow of the plan gets; nothing before the members were measured alone.
pub(crate) fn predicted(
    plan: &WindowPlan,
    result: &FleetResult,
    fabric: &FabricLinks,
) -> Vec<FlowPrediction> {
    let Some(own) = MemberCapacities::of(result).filter(|_| !plan.alone) else {
        return vec![FlowPrediction::default(); plan.flows.len()];
    };
    let free = FlowLinks::new(plan, result, &own, None).rates();
    if fabric.uplinks.is_empty() {
        return free.into_iter().map(|rate| of(rate, None)).collect();
    }
    let bound = FlowLinks::new(plan, result, &own, Some(fabric)).rates();
    let share = |free: f64, bound: f64| (free > 0.0).then(|| bound / free);
    bound.into_iter().zip(free).map(|(bound, free)| of(bound, share(free, bound))).collect()
}

fn of(rate: f64, fabric_share: Option<f64>) -> FlowPrediction {
    FlowPrediction { bytes_per_second: (rate > 0.0).then_some(rate), fabric_share }
}

/// What limits the flows of the plan by the prediction, each kind with all hosts of it, that of most flows first.
pub(crate) fn limits(plan: &WindowPlan, result: &FleetResult, fabric: &FabricLinks) -> Vec<FleetLimit> {
    let Some(own) = MemberCapacities::of(result).filter(|_| !plan.alone) else { return Vec::new() };
    let passed = FlowLinks::new(plan, result, &own, Some(fabric));
    let mut limits: Vec<(FleetLimit, usize)> = Vec::new();
    for link in bottlenecks(&passed.links_of, &passed.capacities, &passed.rates()) {
        let FleetLimit { kind, hosts } = &passed.links[link];
        // One rack's hosts are one thing; hosts that are limited alike are listed together.
        let same = limits.iter_mut().find(|(limit, _)| {
            limit.kind == *kind && (*kind != FlowLimitKind::Uplink || limit.hosts == *hosts)
        });
        match same {
            Some((limit, flows)) => {
                *flows += 1;
                let new =
                    hosts.iter().filter(|host| !limit.hosts.contains(host)).cloned().collect::<Vec<_>>();
                limit.hosts.extend(new);
            }
            None => limits.push((passed.links[link].clone(), 1)),
        }
    }
    limits.sort_by_key(|(_, flows)| std::cmp::Reverse(*flows));
    limits.into_iter().map(|(limit, _)| limit).collect()
}

/// Rate of each flow, which passes these links, each of which carries at most this. A link that carries any amount
/// has infinity; flows that pass no other get nothing, since nothing says what they get.
fn max_min(links_of: &[Vec<usize>], capacities: &[f64]) -> Vec<f64> {
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
            .map(|link| users[link] > 0 && left[link] / users[link] as f64 <= share * (1.0 + EQUAL_SHARE))
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
fn bottlenecks(links_of: &[Vec<usize>], capacities: &[f64], rates: &[f64]) -> Vec<usize> {
    let mut carried = vec![0.0; capacities.len()];
    let mut most = vec![0.0_f64; capacities.len()];
    for (links, rate) in links_of.iter().zip(rates) {
        for link in links {
            carried[*link] += rate;
            most[*link] = most[*link].max(*rate);
        }
    }
    let limits = |link: usize, rate: f64| {
        carried[link] >= capacities[link] * (1.0 - NEARLY_FULL) && most[link] <= rate * (1.0 + NEARLY_FULL)
    };
    let of = |(links, rate): (&Vec<usize>, &f64)| links.iter().copied().find(|link| limits(*link, *rate));
    links_of.iter().zip(rates).filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::FlowEnds;
    use crate::tests::{cell, member};
    use linerate_measure::run::fleet::{FleetRack, FleetWindow};
    use proptest::prelude::*;

    /// Four members, each of which sent 100 and received 80 alone.
    fn measured(limit: Option<f64>, alone: f64) -> FleetResult {
        let mut result = FleetResult { rate_limit_bytes_per_second: limit, ..FleetResult::default() };
        result.members = (1..=4).map(|number| member(format!("h{number}"))).collect();
        result.windows.push(FleetWindow { flows: 4, alone: true, ..FleetWindow::default() });
        for from in 0..4 {
            let name = |number: usize| &result.members[number % 4].name;
            result.cells.push(cell(0, name(from), name(from + 1), Some(alone)));
        }
        result
    }

    fn rates_of(result: &FleetResult, racks: &[FleetRack], flows: &[(usize, usize)]) -> Vec<Option<f64>> {
        let plan = WindowPlan::measured(flows.to_vec());
        // As if an uplink carried nothing but payload.
        let mut links = FabricLinks::new(racks, &result.members);
        links.uplinks = racks.iter().filter_map(|rack| rack.uplink_bytes_per_second).collect();
        predicted(&plan, result, &links).into_iter().map(|one| one.bytes_per_second).collect()
    }

    #[test]
    fn flows_share_their_hosts_and_the_declared_uplinks() {
        let result = measured(None, 100.0);
        assert_eq!(rates_of(&result, &[], &[(0, 1), (2, 3)]), [Some(100.0); 2]);
        assert_eq!(rates_of(&result, &[], &[(0, 3), (1, 3)]), [Some(50.0); 2]);
        let rack = |hosts: [&str; 2]| FleetRack {
            hosts: hosts.map(String::from).to_vec(),
            uplink_bytes_per_second: Some(60.0),
        };
        let racks = [rack(["h1", "h2"]), rack(["h3", "h4"])];
        assert_eq!(rates_of(&result, &racks, &[(0, 1), (2, 3)]), [Some(100.0); 2], "within a rack");
        assert_eq!(rates_of(&result, &racks, &[(0, 2), (1, 3)]), [Some(30.0); 2], "both cross");
        assert_eq!(rates_of(&result, &racks, &[(0, 2), (3, 1)]), [Some(60.0); 2], "one each way");
        let plan = WindowPlan::measured(vec![(0, 2), (1, 3)]);
        let shares = predicted(&plan, &result, &FabricLinks::new(&racks, &result.members));
        assert!(shares.iter().all(|one| one.fabric_share.is_some_and(|share| share < 0.3)), "{shares:?}");
    }

    #[test]
    fn a_member_that_a_limit_held_back_may_do_more() {
        // Four flows of 40 alone, one of 160: each member may do it.
        let result = measured(Some(160.0), 40.0);
        assert_eq!(rates_of(&result, &[], &[(0, 1)]), [Some(160.0)]);
        assert_eq!(rates_of(&result, &[], &[(0, 3), (1, 3)]), [Some(80.0); 2]);
        // Slower than its limit: that is what it can do.
        let result = measured(Some(160.0), 20.0);
        assert_eq!(rates_of(&result, &[], &[(0, 1)]), [Some(20.0)]);
    }

    #[test]
    fn what_limits_is_named_with_its_hosts() {
        let mut result = measured(None, 100.0);
        let racks: [FleetRack; 0] = [];
        let named = |result: &FleetResult, plan: &WindowPlan| -> Vec<(FlowLimitKind, Vec<String>)> {
            let limits = limits(plan, result, &FabricLinks::new(&racks, &result.members));
            limits.into_iter().map(|limit| (limit.kind, limit.hosts)).collect()
        };
        let hosts = |hosts: &[&str]| hosts.iter().map(|host| host.to_string()).collect::<Vec<_>>();
        let incast = WindowPlan::measured(vec![(0, 3), (1, 3)]);
        assert_eq!(named(&result, &incast), [(FlowLimitKind::Receive, hosts(&["h4"]))]);
        result.disks = ["h1", "h2"]
            .map(|member| FleetDisk {
                member: member.into(),
                bytes_per_second: Some(10.0),
                ..FleetDisk::default()
            })
            .to_vec();
        let reads = WindowPlan { disks: true, ..incast };
        assert_eq!(named(&result, &reads), [(FlowLimitKind::Disks, hosts(&["h1", "h2"]))]);
        let get = predicted(&reads, &result, &FabricLinks::new(&racks, &result.members));
        assert_eq!(get.iter().map(|one| one.bytes_per_second).collect::<Vec<_>>(), [Some(10.0); 2]);
    }

    #[test]
    fn nothing_is_predicted_from_nothing() {
        assert_eq!(
            rates_of(&FleetResult { cells: Vec::new(), ..measured(None, 1.0) }, &[], &[(0, 1)]),
            [None]
        );
    }

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
