//! Demand: how many clients a server feeds that each ask for a rate, and what limits the next one. Up to there the
//! clients themselves are the limit: nobody asks for more.

#[cfg(test)]
mod tests;

use super::flow::{Flow, FlowPlan};
use super::product::{Resource, ResourceKind};
use super::wording::in_words;
use crate::verdict::LimitKind;
use linerate_machine::rates::published::Load;
use serde::Serialize;

/// A client less than this share short of its rate has it.
const DUST: f64 = 1e-9;

/// Which clients there are to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClientSpec {
    /// What one takes that never waits, payload, bytes per second.
    pub bytes_per_second: f64,
    /// The load of this rate, where it was named.
    pub load: Option<Load>,
    /// The share of its time that it has to be busy, more than 0: it takes this share of its rate.
    pub busy: f64,
    /// A client takes from all ports at once, as clients of parallel file systems do; else from one.
    pub over_all_ports: bool,
}

/// Clients of one rate at a server.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Demand {
    /// What each client takes, payload, bytes per second.
    pub each_bytes_per_second: f64,
    /// The load that was named, and whose file its rate is from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_source: Option<String>,
    /// The share of its time that a client is busy, if it takes that much; 1: it never waits.
    pub busy: f64,
    pub over_all_ports: bool,
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

/// How many of these clients the plan of a flow feeds. Where a client takes from one port, what is left of each port is
/// for nobody.
pub fn clients(plan: &FlowPlan, flow: &Flow, spec: &ClientSpec) -> Demand {
    let show = flow.unit();
    let each = spec.bytes_per_second * spec.busy;
    let fed = |rate: f64| (rate / each + DUST).floor().max(0.0) as u64;
    let nics = || plan.resources.iter().filter(|resource| resource.kind == ResourceKind::Nic);
    let by_ports = |of: fn(&Resource) -> f64| -> Option<u64> {
        let known = nics().next().is_some() && nics().all(|port| port.capacity > 0.0);
        (known && !spec.over_all_ports).then(|| nics().map(|port| fed(of(port))).sum())
    };
    let least = |rate: Option<f64>, ports: Option<u64>| {
        let all = rate.map(fed);
        all.map(|all| ports.map_or(all, |ports| all.min(ports)))
    };
    let likely = plan.likely.bytes_per_second.known().copied();
    let clients = least(likely, by_ports(|port| port.capacity));
    let best = plan.ceiling.bytes_per_second.known().copied();
    let clients_at_most = least(best, by_ports(|port| port.best.unwrap_or(port.capacity)));
    // The rest of all ports together would be enough for one more, and that of no port is.
    let by_rest = clients.zip(likely).is_some_and(|(clients, likely)| fed(likely) > clients);
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
        load: spec.load.map(|load| load.name.to_string()),
        load_source: spec.load.map(|load| load.source.to_string()),
        busy: spec.busy,
        over_all_ports: spec.over_all_ports,
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
        let who = match &self.load {
            Some(load) => format!("{load} ({each})"),
            None => each.clone(),
        };
        let ids: Vec<&str> = self.next_limit.iter().map(String::as_str).collect();
        let limit = in_words(&ids);
        let (Some(clients), Some(likely)) = (self.clients, likely) else {
            return format!("how many clients of {who} it feeds is unknown: no limit of the flow is known");
        };
        let most = match self.clients_at_most {
            Some(most) if most > clients => format!(" In the best case it feeds {most}."),
            _ => String::new(),
        };
        let next = |who: &str| match by_rest {
            true => format!(
                "no port has enough left for {who}: {limit}; clients that take from all ports at once: \
                 --over all-ports"
            ),
            false => format!("{who} is limited by {limit}"),
        };
        let rate = show(likely);
        let busy = match self.busy < 1.0 {
            true => format!(", busy {} % of the time", (self.busy * 1000.0).round() / 10.0),
            false => String::new(),
        };
        match clients {
            0 => format!("not one client of {who}{busy}: {rate} is all; {}.{most}", next("the first")),
            1 => format!(
                "1 client of {who}{busy}: its demand is the limit, as {rate} would go; {}.{most}",
                next("a second")
            ),
            many => format!(
                "{many} clients of {who} each{busy}, {} together: their demand is the limit, as {rate} would go; \
                 {}.{most}",
                show(self.each_bytes_per_second * many as f64),
                next("one more")
            ),
        }
    }
}
