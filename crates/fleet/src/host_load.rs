//! When a window begins and ends, and what the CPUs of a member did meanwhile, whoever used them.

use linerate_facts::host::{HostSampler, HostUse};
use linerate_facts::sysroot::Sysroot;
use linerate_facts::usage::CoreUse;
use linerate_measure::run::fleet::HostLoad;
use linerate_system::stop::Stop;
use std::time::{Duration, Instant};

/// When a window begins and how long it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowTimes {
    pub begin: Instant,
    pub warm_up: Duration,
    pub length: Duration,
}

fn load_of(host: &HostUse) -> HostLoad {
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
pub(crate) fn load_during(times: WindowTimes, stop: &Stop) -> HostLoad {
    let host = HostSampler::of_cpus(&Sysroot::live());
    stop.wait_until(times.begin + times.warm_up);
    let before = host.sample();
    stop.wait_until(times.begin + times.warm_up + times.length);
    load_of(&host.sample().since(&before))
}
