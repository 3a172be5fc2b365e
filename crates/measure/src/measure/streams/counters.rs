//! What both hosts' kernels counted while a figure was measured: what the ledger is made of.

use super::StreamBench;
use linerate_facts::counters::{DropReasons, NetworkCounters, read_with};
use serde::{Deserialize, Serialize};

/// One host's counters over the time of a figure, from before its first datagram to after its last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostCounters {
    /// Our name or the peer's.
    pub host: String,
    /// Of the other host.
    pub peer: bool,
    /// Names of the paths that lead to it; of our own: all.
    pub paths: Vec<String>,
    /// Its interface on the first of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// Differences.
    pub counters: NetworkCounters,
}

/// Of each host once: ours, then each agent's by its first path. None where an agent did not answer.
pub(super) fn read_all(bench: &StreamBench<'_>, reasons: &DropReasons) -> Vec<Option<HostCounters>> {
    let nics: Vec<String> = bench.paths.iter().filter_map(|path| path.nic.clone()).collect();
    let host = bench.machine.host.known().cloned().unwrap_or_else(|| "this host".into());
    let own = HostCounters {
        host,
        peer: false,
        paths: bench.paths.iter().map(|path| path.name.clone()).collect(),
        interface: nics.first().cloned(),
        counters: read_with(bench.sysroot, &nics, reasons),
    };
    let mut all = vec![Some(own)];
    let mut known: Vec<&str> = Vec::new();
    for session in bench.sessions {
        let hello = session.hello();
        if known.contains(&hello.instance.as_str()) {
            continue;
        }
        known.push(&hello.instance);
        all.push(session.counters().ok().map(|counters| HostCounters {
            host: hello.host.clone(),
            peer: true,
            paths: paths_to(bench, &hello.instance),
            interface: hello.interface.clone(),
            counters,
        }));
    }
    all
}

/// Several addresses may lead to one agent.
fn paths_to(bench: &StreamBench<'_>, instance: &str) -> Vec<String> {
    let there =
        bench.sessions.iter().zip(bench.paths).filter(|(session, _)| session.hello().instance == instance);
    there.map(|(_, path)| path.name.clone()).collect()
}

/// What was counted in between, of the hosts that answered both times.
pub(super) fn between(
    before: Vec<Option<HostCounters>>,
    after: Vec<Option<HostCounters>>,
) -> Vec<HostCounters> {
    let pairs = before.into_iter().zip(after).filter_map(|(before, after)| before.zip(after));
    pairs
        .map(|(before, after)| HostCounters { counters: after.counters.since(&before.counters), ..after })
        .collect()
}
