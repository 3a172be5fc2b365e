//! Demand: how many clients a server feeds that each ask for a rate, and what limits the next one. Up to there the
//! clients themselves are the limit: nobody asks for more.

use super::flow::{Flow, FlowPlan};
use super::product::{Resource, ResourceKind};
use super::wording::in_words;
use crate::verdict::LimitKind;
use serde::Serialize;

/// A client less than this share short of its rate has it.
const DUST: f64 = 1e-9;

/// Clients of one rate at a server.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Demand {
    /// What each client takes, payload, bytes per second.
    pub each_bytes_per_second: f64,
    /// Clients that the likely rate feeds; none where that is not known.
    pub clients: Option<u64>,
    /// Clients that the ceiling would feed.
    pub clients_at_most: Option<u64>,
    /// What limits these clients together: the demand itself, or a part, where not even one is fed.
    pub kind: LimitKind,
    /// Ids of what limits the next client.
    pub next_limit: Vec<String>,
    /// All of it in a sentence.
    pub sentence: String,
}

/// How many clients of this rate the plan of a flow feeds. A client has one way through a NIC: what is left of each
/// port is for nobody.
pub fn clients(plan: &FlowPlan, flow: &Flow, each_bytes_per_second: f64) -> Demand {
    let show = flow.unit();
    let each = each_bytes_per_second;
    let fed = |rate: f64| (rate / each + DUST).floor().max(0.0) as u64;
    let by_ports = |of: fn(&Resource) -> f64| -> Option<u64> {
        let ports = || plan.resources.iter().filter(|resource| resource.kind == ResourceKind::Nic);
        let known = ports().next().is_some() && ports().all(|port| port.capacity > 0.0);
        known.then(|| ports().map(|port| fed(of(port))).sum())
    };
    let least = |rate: Option<f64>, ports: Option<u64>| {
        let all = rate.map(fed);
        all.map(|all| ports.map_or(all, |ports| all.min(ports)))
    };
    let likely = plan.likely.bytes_per_second.known().copied();
    let ports = by_ports(|port| port.capacity);
    let clients = least(likely, ports);
    let best = plan.ceiling.bytes_per_second.known().copied();
    let clients_at_most = least(best, by_ports(|port| port.best.unwrap_or(port.capacity)));
    // The rest of all ports together would be enough for one more, and that of no port is.
    let by_rest = clients.zip(likely).is_some_and(|(clients, likely)| fed(likely) > clients);
    let nics = || plan.resources.iter().filter(|resource| resource.kind == ResourceKind::Nic);
    let next_limit = match by_rest {
        true => nics().map(|port| port.id.clone()).collect(),
        false => plan.likely.cut.clone(),
    };
    let kind_of = |id: &String| plan.resources.iter().find(|one| one.id == *id).map(|one| one.kind.into());
    let kind = match clients {
        None => LimitKind::Unknown,
        Some(0) => next_limit.first().and_then(kind_of).unwrap_or(LimitKind::Unknown),
        Some(_) => LimitKind::Demand,
    };
    let mut demand = Demand {
        each_bytes_per_second: each,
        clients,
        clients_at_most,
        kind,
        next_limit,
        sentence: String::new(),
    };
    demand.sentence = demand.words(likely, by_rest, show);
    demand
}

impl Demand {
    fn words(&self, likely: Option<f64>, by_rest: bool, show: fn(f64) -> String) -> String {
        let each = show(self.each_bytes_per_second);
        let ids: Vec<&str> = self.next_limit.iter().map(String::as_str).collect();
        let limit = in_words(&ids);
        let (Some(clients), Some(likely)) = (self.clients, likely) else {
            return format!("how many clients of {each} it feeds is unknown: no limit of the flow is known");
        };
        let most = match self.clients_at_most {
            Some(most) if most > clients => format!(" In the best case it feeds {most}."),
            _ => String::new(),
        };
        let next = |who: &str| match by_rest {
            true => format!("no port has enough left for {who}: {limit}"),
            false => format!("{who} is limited by {limit}"),
        };
        let rate = show(likely);
        match clients {
            0 => format!("not one client of {each}: {rate} is all; {}.{most}", next("the first")),
            1 => format!(
                "1 client of {each}: its demand is the limit, as {rate} would go; {}.{most}",
                next("a second")
            ),
            many => format!(
                "{many} clients of {each} each, {} together: their demand is the limit, as {rate} would go; {}.{most}",
                show(self.each_bytes_per_second * many as f64),
                next("one more")
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::flow::{Method, plan_flow};
    use crate::plan::machine_file;
    use linerate_facts::protocol::Protocol;

    /// Two ports of 23.5 Gb/s of TCP payload at an MTU of 1500.
    const SERVER: &str = "[processor]\ncores = 64\n[memory]\nrate = \"200GB/s\"\n\
        [[nic]]\nname = \"eth\"\ncount = 2\npcie = \"4.0 x8\"\nrate = \"25G\"\nmtu = 1500\n";

    fn fed(text: &str, gigabits: f64) -> Demand {
        let parts = machine_file::parse(text).expect("a machine");
        let ends: [&[&str]; 2] = [&["memory"], &["nic"]];
        let flow = Flow::between(&parts, ends, Protocol::Tcp, Method::Direct).expect("ends");
        clients(&plan_flow(&parts, &flow), &flow, gigabits * 1e9 / 8.0)
    }

    #[test]
    fn demand_is_the_limit_up_to_the_last_client_that_is_fed() {
        let one_gigabit = fed(SERVER, 1.0);
        assert_eq!((one_gigabit.clients, one_gigabit.kind), (Some(46), LimitKind::Demand));
        // 47.07 Gb/s of both ports would feed one more; each port has 0.53 Gb/s left.
        assert_eq!(one_gigabit.next_limit, ["nic:eth0", "nic:eth1"]);
        assert!(
            one_gigabit.sentence.contains("no port has enough left for one more: NICs eth0 and eth1"),
            "{}",
            one_gigabit.sentence
        );
        let five = fed(SERVER, 5.5);
        assert_eq!((five.clients, five.kind), (Some(8), LimitKind::Demand));
        assert!(
            five.sentence.contains("8 clients of 5.50 Gb/s each, 44.0 Gb/s together"),
            "{}",
            five.sentence
        );
    }

    #[test]
    fn a_client_that_asks_for_more_than_there_is_names_the_part() {
        let none = fed(SERVER, 30.0);
        assert_eq!((none.clients, none.kind), (Some(0), LimitKind::Nic));
        assert!(none.sentence.starts_with("not one client of 30.0 Gb/s"), "{}", none.sentence);
        // One port is fed by its slot.
        let narrow = fed(&SERVER.replace("4.0 x8", "1.0 x4"), 6.0);
        assert_eq!(narrow.clients, Some(2), "{}", narrow.sentence);
        assert!(narrow.sentence.contains("PCIe link"), "{}", narrow.sentence);
    }
}
