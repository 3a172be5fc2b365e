//! What the flows of a window get, from what each member sent and received alone: max-min fairness over the declared
//! fabric.

use crate::fabric::FabricLinks;
use crate::fair::max_min;
use crate::product::FleetResult;
use crate::schedule::WindowPlan;

/// A member that reached this of a rate limit alone could do more.
const AT_THE_LIMIT: f64 = 0.95;

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
struct MemberCapacities {
    send: Vec<f64>,
    receive: Vec<f64>,
}

impl MemberCapacities {
    fn of(result: &FleetResult) -> Option<MemberCapacities> {
        let members = result.members.len();
        let mut capacities = MemberCapacities { send: vec![0.0; members], receive: vec![0.0; members] };
        let number = |name: &String| result.members.iter().position(|member| member.name == *name);
        let mut measured = false;
        for cell in &result.cells {
            let Some(window) = result.windows.get(cell.window).filter(|window| window.alone) else {
                continue;
            };
            let (Some(rate), Some(from), Some(to)) =
                (cell.bytes_per_second, number(&cell.from), number(&cell.to))
            else {
                continue;
            };
            let limit = result.rate_limit_bytes_per_second.map(|limit| limit / window.flows.max(1) as f64);
            // What a limit holds back says only that the member can do so much at least.
            let rate =
                if limit.is_some_and(|limit| rate > AT_THE_LIMIT * limit) { f64::INFINITY } else { rate };
            capacities.send[from] = capacities.send[from].max(rate);
            capacities.receive[to] = capacities.receive[to].max(rate);
            measured = true;
        }
        measured.then_some(capacities)
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
    let free = rates(plan, result, &own, None);
    let fabric = (!fabric.uplinks.is_empty()).then_some(fabric);
    let Some(fabric) = fabric else {
        return free.into_iter().map(|rate| of(rate, None)).collect();
    };
    let bound = rates(plan, result, &own, Some(fabric));
    let share = |free: f64, bound: f64| (free > 0.0).then(|| bound / free);
    bound.into_iter().zip(free).map(|(bound, free)| of(bound, share(free, bound))).collect()
}

fn of(rate: f64, fabric_share: Option<f64>) -> FlowPrediction {
    FlowPrediction { bytes_per_second: (rate > 0.0).then_some(rate), fabric_share }
}

/// Links: what each member sends, what each receives, each uplink up and down, and the limit of each flow.
fn rates(
    plan: &WindowPlan,
    result: &FleetResult,
    own: &MemberCapacities,
    fabric: Option<&FabricLinks>,
) -> Vec<f64> {
    let members = own.send.len();
    let uplinks = fabric.map_or(&[][..], |fabric| &fabric.uplinks);
    let limit = result.rate_limit_bytes_per_second.map(|limit| limit / plan.flows.len().max(1) as f64);
    let mut capacities = [&own.send[..], &own.receive, uplinks, uplinks].concat();
    let first_limit = capacities.len();
    capacities.extend(limit.iter().flat_map(|limit| vec![*limit; plan.flows.len()]));
    let links = plan.flows.iter().enumerate().map(|(flow, ends)| {
        let mut links = vec![ends.0, members + ends.1];
        let (up, down) = fabric.map_or((None, None), |fabric| fabric.crossing(*ends));
        links.extend(up.map(|rack| 2 * members + rack));
        links.extend(down.map(|rack| 2 * members + uplinks.len() + rack));
        links.extend(limit.map(|_| first_limit + flow));
        links
    });
    max_min(&links.collect::<Vec<_>>(), &capacities)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::product::{FleetCell, FleetMember, FleetRack, FleetWindow};

    /// Four members, each of which sent 100 and received 80 alone.
    fn measured(limit: Option<f64>, alone: f64) -> FleetResult {
        let mut result = FleetResult { rate_limit_bytes_per_second: limit, ..FleetResult::default() };
        result.members = (1..=4)
            .map(|number| FleetMember { name: format!("h{number}"), ..FleetMember::default() })
            .collect();
        result.windows.push(FleetWindow { flows: 4, alone: true, ..FleetWindow::default() });
        for from in 0..4 {
            let name = |number: usize| result.members[number % 4].name.clone();
            let (from, to) = (name(from), name(from + 1));
            result.cells.push(FleetCell { from, to, bytes_per_second: Some(alone), ..FleetCell::default() });
        }
        result
    }

    fn rates_of(result: &FleetResult, racks: &[FleetRack], flows: &[(usize, usize)]) -> Vec<Option<f64>> {
        let plan = WindowPlan { flows: flows.to_vec(), alone: false };
        // As if an uplink carried nothing but payload.
        let mut links = FabricLinks::new(racks, &result.members);
        links.uplinks = racks.iter().map(|rack| rack.uplink_bytes_per_second).collect();
        predicted(&plan, result, &links).into_iter().map(|one| one.bytes_per_second).collect()
    }

    #[test]
    fn flows_share_their_hosts_and_the_declared_uplinks() {
        let result = measured(None, 100.0);
        assert_eq!(rates_of(&result, &[], &[(0, 1), (2, 3)]), [Some(100.0); 2]);
        assert_eq!(rates_of(&result, &[], &[(0, 3), (1, 3)]), [Some(50.0); 2]);
        let rack = |hosts: [&str; 2]| FleetRack {
            hosts: hosts.map(String::from).to_vec(),
            uplink_bytes_per_second: 60.0,
        };
        let racks = [rack(["h1", "h2"]), rack(["h3", "h4"])];
        assert_eq!(rates_of(&result, &racks, &[(0, 1), (2, 3)]), [Some(100.0); 2], "within a rack");
        assert_eq!(rates_of(&result, &racks, &[(0, 2), (1, 3)]), [Some(30.0); 2], "both cross");
        assert_eq!(rates_of(&result, &racks, &[(0, 2), (3, 1)]), [Some(60.0); 2], "one each way");
        let plan = WindowPlan { flows: vec![(0, 2), (1, 3)], alone: false };
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
    fn nothing_is_predicted_from_nothing() {
        assert_eq!(
            rates_of(&FleetResult { cells: Vec::new(), ..measured(None, 1.0) }, &[], &[(0, 1)]),
            [None]
        );
    }
}
