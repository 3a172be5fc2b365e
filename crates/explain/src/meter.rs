//! Counts the bytes of a program as often as slots need it: at its connections, in its calls, or at the storage.

use crate::connections::ProgramConnections;
use crate::descriptors::Descriptors;
use crate::processes::{FlowCount, ProcessTree};
use linerate_facts::sysroot::Sysroot;
use linerate_measure::measure::experiment::ForeignFlow;
use linerate_system::counters::thread_cpu;
use std::time::Duration;

/// Between two looks at its connections there are so many times what a look costs.
const TIMES_THE_COST: u32 = 15;
/// Slots have several looks each.
const LONGEST_PAUSE: Duration = Duration::from_millis(60);

pub(crate) struct ProgramMeter {
    sysroot: Sysroot,
    count: FlowCount,
    processes: ProcessTree,
    descriptors: Descriptors,
    connections: ProgramConnections,
    /// The least CPU time that it took to look at its connections.
    cost: Duration,
}

impl ProgramMeter {
    pub(crate) fn begin(sysroot: &Sysroot, pids: &[u32], count: FlowCount) -> Self {
        let processes = ProcessTree::begin(sysroot, pids);
        let (mut descriptors, mut connections) = (Descriptors::default(), ProgramConnections::default());
        let mut cost = Duration::ZERO;
        if count.is_of_connections() {
            descriptors.look(sysroot, &processes, true);
            connections.look(&descriptors, true);
            let mut look = || {
                let before = thread_cpu();
                connections.look_at_known();
                thread_cpu().saturating_sub(before)
            };
            cost = look().min(look()).min(look());
        }
        ProgramMeter { sysroot: sysroot.clone(), count, processes, descriptors, connections, cost }
    }

    /// It has so many connections that they cannot be looked at often enough.
    pub(crate) fn is_too_slow(&self) -> bool {
        self.pause() > LONGEST_PAUSE
    }
}

impl ForeignFlow for ProgramMeter {
    fn bytes(&mut self) -> Option<u64> {
        let of_connections = self.count.is_of_connections();
        // In calls children that ended meanwhile count, too: these are looked at each time.
        self.processes.look(&self.sysroot, !of_connections);
        if self.processes.living().is_empty() {
            return None;
        }
        if !of_connections {
            return self.processes.moved(self.count);
        }
        self.descriptors.look(&self.sysroot, &self.processes, false);
        self.connections.look(&self.descriptors, false);
        self.connections.look_at_known();
        Some(self.connections.moved(self.count == FlowCount::Sent))
    }

    fn pause(&self) -> Duration {
        self.cost * TIMES_THE_COST
    }
}
