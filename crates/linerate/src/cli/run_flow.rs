//! Which words of `linerate run` go with which `--flow`.

use linerate_facts::failure::Failure;
use linerate_facts::protocol::Protocol;
use linerate_measure::run::conduct::RunSpec;
use linerate_model::plan::{Goal, RunFlow};
use std::path::PathBuf;

/// The protocols of such a flow; why its words do not go together.
pub(super) fn check(
    flow: RunFlow,
    goal: &Goal,
    spec: &RunSpec,
    sinks: &[PathBuf],
) -> Result<Vec<Protocol>, Failure> {
    if flow != RunFlow::NetworkToDisk && !sinks.is_empty() {
        return Err(Failure::usage(
            "--sink is where --flow network-to-disk stores; the sink of a peer is named there: `linerate agent --sink \
             DIR`",
        ));
    }
    let name = match flow {
        RunFlow::DiskToNetwork => return Ok(goal.protocols.clone()),
        RunFlow::DiskToDisk => "disk-to-disk",
        RunFlow::NetworkToDisk => "network-to-disk",
        RunFlow::NetworkToMemory => "network-to-memory",
    };
    if goal.peers.is_empty() {
        let needs = match flow {
            RunFlow::DiskToDisk => {
                "stores: name it with --peer HOST, and start `linerate agent --sink DIR` there"
            }
            _ => "sends: name it with --peer HOST, and start `linerate agent` there",
        };
        return Err(Failure::usage(format!("--flow {name} needs the host that {needs}")));
    }
    if !goal.protocols.contains(&Protocol::Tcp) {
        return Err(Failure::usage(format!(
            "--flow {name} goes over TCP, and --protocol udp leaves that out; leave --protocol away"
        )));
    }
    if flow == RunFlow::NetworkToDisk && sinks.is_empty() {
        return Err(Failure::usage(
            "--flow network-to-disk needs a directory to store in: name it with --sink DIR, once for each disk",
        ));
    }
    if flow.receives() {
        nothing_read(name, goal, spec)?;
    }
    Ok(vec![Protocol::Tcp])
}

/// What comes in is read from no file here, and written as all sinks are.
fn nothing_read(name: &str, goal: &Goal, spec: &RunSpec) -> Result<(), Failure> {
    let options = [
        ("--source", !goal.sources.is_empty()),
        ("--amount", spec.scratch_bytes.is_some()),
        ("--transfer", goal.block_bytes.is_some()),
        ("--queue-depth", goal.queue_depth.is_some()),
        ("--datagram", goal.datagram_bytes.is_some()),
        ("--method", goal.zero_copy.is_some()),
    ];
    match options.iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((word, _)) => Err(Failure::usage(format!(
            "{word} is about what is read and sent here, and with --flow {name} nothing is: leave it away"
        ))),
    }
}
