//! How much of a core one reading may take: what is left undone then comes first in the next.

use linerate_system::counters::thread_cpu;
use std::time::Duration;

/// CPU time of the calling thread, which reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct CpuAllowance {
    /// None: as much as it takes.
    until: Option<Duration>,
    /// Processes that are asked at most.
    pub(super) processes: usize,
}

/// Some ten microseconds each: more than fit into the time of a reading.
const MOST_ASKED: usize = 256;

impl CpuAllowance {
    /// So much from now on.
    pub(super) fn of(most: Duration) -> Self {
        CpuAllowance { until: Some(thread_cpu() + most), processes: MOST_ASKED }
    }

    /// So much from now on, for as many processes as it does for.
    pub(super) fn of_all(most: Duration) -> Self {
        CpuAllowance { processes: usize::MAX, ..CpuAllowance::of(most) }
    }

    /// A recorded machine stands still.
    pub(super) fn unlimited() -> Self {
        CpuAllowance { until: None, processes: MOST_ASKED }
    }

    pub(super) fn is_limited(self) -> bool {
        self.until.is_some()
    }

    pub(super) fn is_spent(self) -> bool {
        self.until.is_some_and(|until| thread_cpu() >= until)
    }
}
