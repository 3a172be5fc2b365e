//! What the CPUs of a member did while a window ran, whoever used them.

use crate::figures::HostLoad;
use crate::window_times::WindowTimes;
use linerate_facts::host::{HostSampler, HostUse};
use linerate_facts::sysroot::Sysroot;
use linerate_facts::usage::CoreUse;
use linerate_system::stop::Stop;

impl HostLoad {
    fn of(host: &HostUse) -> HostLoad {
        let cpus = &host.cpus;
        let count = cpus.len().max(1) as f64;
        HostLoad {
            cpus: cpus.len(),
            busy: host.busy_cpus() / count,
            busiest: cpus.iter().max_by(|one, other| one.busy().total_cmp(&other.busy())).copied(),
            throttled: host.throttled,
            steal: cpus.iter().map(|cpu: &CoreUse| cpu.steal).sum::<f64>() / count,
        }
    }

    /// Waits for the window and looks at both its ends.
    pub(crate) fn during(times: WindowTimes, stop: &Stop) -> HostLoad {
        let host = HostSampler::of_cpus(&Sysroot::live());
        stop.wait_until(times.begin + times.warm_up);
        let before = host.sample();
        stop.wait_until(times.begin + times.warm_up + times.length);
        HostLoad::of(&host.sample().since(&before))
    }
}
