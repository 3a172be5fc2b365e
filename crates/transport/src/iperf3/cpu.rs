//! This process's share of the CPU while a test ran.

use super::figures::CpuUse;
use linerate_system::clock;
use linerate_system::counters::process_cpu_split;
use std::time::{Duration, Instant};

/// This process's CPU time over a test.
pub(crate) struct CpuMeter {
    start: Instant,
    before: (Duration, Duration),
}

impl CpuMeter {
    pub(crate) fn start() -> CpuMeter {
        CpuMeter { start: clock::now(), before: process_cpu_split() }
    }

    pub(crate) fn used(&self) -> CpuUse {
        let (user, system) = process_cpu_split();
        let wall = clock::since(self.start).as_secs_f64().max(1e-9);
        let share = |now: Duration, before: Duration| now.saturating_sub(before).as_secs_f64() / wall * 100.0;
        let (user, system) = (share(user, self.before.0), share(system, self.before.1));
        CpuUse { total: user + system, user, system }
    }
}
