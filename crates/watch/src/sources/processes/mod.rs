//! Which process moves how much, and uses the CPUs. The work of one reading is bounded, so that it comes each
//! second: of thousands of processes those that moved something lately are read each time, the others in turn.

mod connections;
mod storage;

use crate::model::{BUSIEST_BY_CPU, ProcessRates, Processes};
use connections::{Connections, Traffic};
use linerate_facts::counters::rates::rounded;
use linerate_facts::fact::Fact;
use linerate_facts::sysroot::Sysroot;
use linerate_system::counters::thread_cpu;
use std::collections::BTreeMap;
use std::time::Duration;
use storage::StorageTable;

/// A view shows fewer; a recording keeps them all.
const MOST_SHOWN: usize = 64;
/// CPU time of a reading: a little less than what a source that is asked each second may take (`pace`).
const READING: Duration = Duration::from_micros(2200);
/// Of that, until when processes are asked; the rest is for the owners of sockets.
const ASKING: Duration = Duration::from_micros(1500);
/// The first readings take more, so that all processes are known and have rates after some seconds: thousands take
/// some ten milliseconds.
pub(crate) const FIRST_READINGS: u32 = 2;
const FIRST: Duration = Duration::from_millis(50);
const NO_UDP: &str = "the kernel counts no bytes of a UDP socket";
const NOT_LIVE: &str = "a recorded machine has no connections";

/// A reading has the rates since the reading before.
pub(crate) fn processes(sysroot: &Sysroot) -> impl FnMut() -> Processes + Send + 'static {
    let sysroot = sysroot.clone();
    let (mut storage, mut connections) = (StorageTable::default(), Connections::default());
    let mut readings: u32 = 0;
    move || {
        let live = sysroot.is_live();
        readings = readings.saturating_add(1);
        let (asking, reading) = match live {
            false => (CpuAllowance::unlimited(), CpuAllowance::unlimited()),
            true if readings <= FIRST_READINGS => (CpuAllowance::of_all(FIRST), CpuAllowance::of(FIRST)),
            true => (CpuAllowance::of(ASKING), CpuAllowance::of(READING)),
        };
        storage.read(&sysroot, &connections.owners(), asking);
        let traffic = match live {
            true => connections.read(&sysroot, &storage, reading),
            false => Traffic { looked_at: Fact::unknown(NOT_LIVE), ..Traffic::default() },
        };
        for pid in traffic.by_process.keys() {
            if storage.name_of(*pid).is_none() {
                storage.ask(&sysroot, *pid);
            }
        }
        // Every PID namespace has a first process.
        let others_are_hidden = live && storage.count() > 0 && !storage.lists(1);
        let asked_by_root = live && linerate_system::user::is_root();
        Processes { others_are_hidden, asked_by_root, ..together(&storage, traffic) }
    }
}

fn together(storage: &StorageTable, traffic: Traffic) -> Processes {
    let mut rates: BTreeMap<u32, ProcessRates> = storage.active().map(|one| (one.pid, one)).collect();
    for (pid, [sent, received]) in traffic.by_process {
        let Some(known) = storage.name_of(pid) else { continue };
        let one = rates.entry(pid).or_insert(known);
        one.tcp_send_bytes_per_second = Some(rounded(sent));
        one.tcp_receive_bytes_per_second = Some(rounded(received));
    }
    let mut busiest: Vec<ProcessRates> = rates.into_values().collect();
    let left_out = leave_out(&mut busiest);
    Processes {
        busiest,
        left_out,
        count: Some(storage.count()),
        unreadable: storage.unreadable(),
        uncounted: storage.is_uncounted(),
        others_are_hidden: false,
        asked_by_root: false,
        connections: traffic.looked_at,
        unowned_send_bytes_per_second: traffic.unowned.map(|[sent, _]| rounded(sent)),
        unowned_receive_bytes_per_second: traffic.unowned.map(|[_, received]| rounded(received)),
        udp_bytes_per_second: Fact::unknown(NO_UDP),
    }
}

/// Sorts them, those that move most first, and keeps as many as are shown: the last places are for those with most CPU
/// time. How many others moved bytes.
fn leave_out(busiest: &mut Vec<ProcessRates>) -> u64 {
    let cpus = |one: &ProcessRates| one.cpus.unwrap_or(0.0);
    let by_bytes = |a: &ProcessRates, b: &ProcessRates| {
        b.bytes_per_second().total_cmp(&a.bytes_per_second()).then(cpus(b).total_cmp(&cpus(a)))
    };
    busiest.sort_by(by_bytes);
    let mut rest = busiest.split_off(busiest.len().min(MOST_SHOWN - BUSIEST_BY_CPU));
    rest.sort_by(|a, b| cpus(b).total_cmp(&cpus(a)));
    let left_out = rest.split_off(rest.len().min(BUSIEST_BY_CPU));
    busiest.append(&mut rest);
    busiest.sort_by(by_bytes);
    left_out.iter().filter(|one| one.bytes_per_second() > 0.0).count() as u64
}

/// CPU time of the calling thread, which reads.
#[derive(Clone, Copy, Debug)]
struct CpuAllowance {
    /// None: as much as it takes.
    until: Option<Duration>,
    /// Processes that are asked at most.
    processes: usize,
}

/// Some ten microseconds each: more than fit into the time of a reading.
const MOST_ASKED: usize = 256;

impl CpuAllowance {
    /// So much from now on.
    fn of(most: Duration) -> Self {
        CpuAllowance { until: Some(thread_cpu() + most), processes: MOST_ASKED }
    }

    /// So much from now on, for as many processes as it does for.
    fn of_all(most: Duration) -> Self {
        CpuAllowance { processes: usize::MAX, ..CpuAllowance::of(most) }
    }

    /// A recorded machine stands still.
    fn unlimited() -> Self {
        CpuAllowance { until: None, processes: MOST_ASKED }
    }

    fn is_limited(self) -> bool {
        self.until.is_some()
    }

    fn is_spent(self) -> bool {
        self.until.is_some_and(|until| thread_cpu() >= until)
    }
}

#[cfg(test)]
mod tests;
