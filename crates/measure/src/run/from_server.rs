//! A flow from a server of another program, made ready: what this host's parts allow it, and where it is stored. No
//! agent is at its other end.

use super::paths::{all_over_loopback, way_to};
use super::sinks;
use linerate_facts::failure::Failure;
use linerate_facts::room::StorageLimits;
use linerate_facts::sysroot::Sysroot;
use linerate_machine::probe::Machine;
use linerate_model::plan::{Goal, Plan, SourcePlan, plan};
use linerate_transport::flow::sink::SinkFolder;
use std::net::SocketAddr;
use std::sync::Arc;

/// What is known of it before anything comes.
pub struct ServerFlow {
    pub plan: Plan,
    /// Where it is stored, by the plan's sources; none: it is thrown away.
    pub sinks: Vec<Arc<SinkFolder>>,
}

/// Plans it; the goal's sinks are opened and checked.
pub fn plan_from_server(
    sysroot: &Sysroot,
    machine: &Machine,
    goal: &Goal,
    server: SocketAddr,
    space: StorageLimits,
) -> Result<ServerFlow, Failure> {
    let mut way = way_to(sysroot, machine, server);
    way.receiver = format!("sender:{}", server.ip());
    let ways = vec![way];
    let sinks = sinks::prepare(sysroot, machine, goal, space)?;
    let mut ends: Vec<SourcePlan> = sinks.iter().map(|sink| sink.plan.clone()).collect();
    if ends.is_empty() {
        ends.push(SourcePlan::memory());
    }
    let loopback = all_over_loopback(machine, &ways);
    let plan = plan(machine, goal, ends, ways, loopback);
    Ok(ServerFlow { plan, sinks: sinks.into_iter().map(|sink| sink.folder).collect() })
}
