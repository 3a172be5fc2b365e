//! What the CPUs of a member did while a window ran, whoever used them.

use crate::figures::HostLoad;
use crate::window_times::{WindowTimes, sleep_until};
use linerate_facts::sysroot::Sysroot;
use linerate_facts::usage::{CoreUse, CpuTimes, Throttle};
use serde::{Deserialize, Serialize};
use std::sync::atomic::AtomicBool;

impl HostLoad {
    /// Of two readings.
    fn between(before: &(CpuTimes, Throttle), after: &(CpuTimes, Throttle)) -> HostLoad {
        let cores = after.0.since(&before.0);
        let mean = |of: fn(&CoreUse) -> f64| cores.iter().map(of).sum::<f64>() / cores.len().max(1) as f64;
        let busiest = cores.iter().max_by(|one, other| one.busy().total_cmp(&other.busy())).copied();
        HostLoad {
            cpus: cores.len(),
            busy: mean(CoreUse::busy),
            busiest,
            throttled: after.1.share_since(&before.1),
            steal: mean(|core| core.steal),
        }
    }

    /// Waits for the window and looks at both its ends.
    pub(crate) fn during(times: WindowTimes, stop: &AtomicBool) -> HostLoad {
        let sysroot = Sysroot::live();
        let look = || (CpuTimes::read(&sysroot), Throttle::read(&sysroot));
        sleep_until(times.begin + times.warm_up, stop);
        let before = look();
        sleep_until(times.begin + times.warm_up + times.length, stop);
        HostLoad::between(&before, &look())
    }
}
