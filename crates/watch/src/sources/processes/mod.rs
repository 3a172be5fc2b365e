//! Which process moves how much. The work of one reading is bounded: of thousands of processes those that
//! moved something lately are read each time, the others in turn.

mod connections;
mod storage;

use crate::model::{ProcessRates, Processes};
use connections::{Connections, Traffic};
use linerate_facts::counters::rates::rounded;
use linerate_facts::fact::Fact;
use linerate_facts::sysroot::Sysroot;
use std::collections::BTreeMap;
use storage::StorageTable;

/// A view shows fewer; a recording keeps them all.
const MOST_SHOWN: usize = 64;
const NO_UDP: &str = "the kernel counts no bytes of a UDP socket";
const NOT_LIVE: &str = "a recorded machine has no connections";

/// A reading has the rates since the reading before.
pub(crate) fn processes(sysroot: &Sysroot) -> impl FnMut() -> Processes + Send + 'static {
    let sysroot = sysroot.clone();
    let (mut storage, mut connections) = (StorageTable::default(), Connections::default());
    move || {
        storage.read(&sysroot);
        let traffic = match sysroot.is_live() {
            true => connections.read(&sysroot, &storage.youngest_first()),
            false => Traffic { looked_at: Fact::unknown(NOT_LIVE), ..Traffic::default() },
        };
        // Every PID namespace has a first process.
        let others_are_hidden = sysroot.is_live() && storage.count() > 0 && !storage.lists(1);
        Processes { others_are_hidden, ..together(&storage, traffic) }
    }
}

fn together(storage: &StorageTable, traffic: Traffic) -> Processes {
    let mut rates: BTreeMap<u32, ProcessRates> = storage.moving().map(|one| (one.pid, one)).collect();
    for (pid, [sent, received]) in traffic.by_process {
        let Some(known) = storage.name_of(pid) else { continue };
        let one = rates.entry(pid).or_insert(known);
        one.tcp_send_bytes_per_second = Some(rounded(sent));
        one.tcp_receive_bytes_per_second = Some(rounded(received));
    }
    let mut busiest: Vec<ProcessRates> = rates.into_values().collect();
    busiest.sort_by(|a, b| b.bytes_per_second().total_cmp(&a.bytes_per_second()));
    let left_out = busiest.len().saturating_sub(MOST_SHOWN) as u64;
    busiest.truncate(MOST_SHOWN);
    Processes {
        busiest,
        left_out,
        count: Some(storage.count()),
        unreadable: storage.unreadable(),
        others_are_hidden: false,
        connections: traffic.looked_at,
        unowned_send_bytes_per_second: traffic.unowned.map(|[sent, _]| rounded(sent)),
        unowned_receive_bytes_per_second: traffic.unowned.map(|[_, received]| rounded(received)),
        udp_bytes_per_second: Fact::unknown(NO_UDP),
    }
}

#[cfg(test)]
mod tests;
